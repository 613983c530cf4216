//! Why a write to the API server failed.

/// Why a write failed. Every failure is retried: if the object is gone, the watch will report that.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The object is gone, or the installed CRD has no subresource `status`.
    #[error("the object is gone, or its CRD has no status")]
    NotFound,
    /// Another writer changed the object at the same time, or another object has the name now.
    #[error("the object was changed at the same time")]
    Conflict,
    /// RBAC denies it.
    #[error("refused: {0}")]
    Denied(String),
    /// The schema or an admission policy rejects these fields.
    #[error("refused as invalid: {0}")]
    Invalid(String),
    /// An internal error of the API server.
    #[error("the API server failed (HTTP {0})")]
    Failed(u16),
    /// The API server did not answer, or is overloaded.
    #[error("{0}")]
    Unavailable(String),
}

impl WriteError {
    /// A name from a closed set, for metrics.
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Denied(_) => "denied",
            Self::Invalid(_) => "invalid",
            Self::Failed(_) => "server_error",
            Self::Unavailable(_) => "unavailable",
        }
    }
}

impl From<kube::Error> for WriteError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.is_not_found() => Self::NotFound,
            kube::Error::Api(status) if status.is_conflict() => Self::Conflict,
            kube::Error::Api(status) if status.is_forbidden() => Self::Denied(status.message),
            // The server's message repeats values, so only the names of the fields are kept.
            kube::Error::Api(status) if status.is_invalid() => Self::Invalid(
                status
                    .details
                    .map_or_else(Vec::new, |details| details.causes)
                    .into_iter()
                    .map(|cause| cause.field)
                    .collect::<Vec<_>>()
                    .join(", "),
            ),
            kube::Error::Api(status) if status.code == 500 => Self::Failed(status.code),
            kube::Error::Api(status) => Self::Unavailable(format!("{} (HTTP {})", status.reason, status.code)),
            kube::Error::SerdeError(_) => Self::Unavailable("an answer that can't be read".to_owned()),
            error => Self::Unavailable(error.to_string()),
        }
    }
}
