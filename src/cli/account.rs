//! Checks which Secrets the operator's service account may read. `webhook test` reads Secrets with the rights of its
//! caller, who may be allowed more than the operator.

use std::time::Duration;

use k8s_openapi::api::{
    authentication::v1::SelfSubjectReview,
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use tokio::time::timeout;

use crate::api::NamespacedName;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Whether the operator may read a webhook's Secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SecretAccess {
    Allowed,
    /// The first Secret that it may not read.
    Denied(String),
    /// The caller is the operator's account and may not check access: reading the Secrets shows whether it may.
    IsCaller,
    /// Why this could not be checked.
    Unknown(String),
}

pub(super) struct OperatorAccount<'a> {
    client: &'a Client,
    account: &'a NamespacedName,
}

impl<'a> OperatorAccount<'a> {
    pub(super) fn new(client: &'a Client, account: &'a NamespacedName) -> Self {
        Self { client, account }
    }

    fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.account.namespace, self.account.name)
    }

    /// Checks whether the account may get these Secrets of a namespace.
    pub(super) async fn secret_access(&self, namespace: &str, secrets: impl Iterator<Item = &str>) -> SecretAccess {
        for secret in secrets {
            match timeout(TIMEOUT, self.review(namespace, secret)).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return SecretAccess::Denied(secret.to_owned()),
                Ok(Err(kube::Error::Api(status))) if status.is_forbidden() => {
                    return match self.is_caller().await {
                        true => SecretAccess::IsCaller,
                        false => SecretAccess::Unknown("you may not create subjectaccessreviews".to_owned()),
                    };
                }
                Ok(Err(_)) | Err(_) => return SecretAccess::Unknown("the API server did not answer".to_owned()),
            }
        }
        SecretAccess::Allowed
    }

    async fn review(&self, namespace: &str, secret: &str) -> kube::Result<bool> {
        let groups = [
            "system:authenticated".to_owned(),
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{}", self.account.namespace),
        ];
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(self.user()),
                groups: Some(groups.into()),
                resource_attributes: Some(ResourceAttributes {
                    verb: Some("get".to_owned()),
                    resource: Some("secrets".to_owned()),
                    namespace: Some(namespace.to_owned()),
                    name: Some(secret.to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let answer = Api::all(self.client.clone()).create(&PostParams::default(), &review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    async fn is_caller(&self) -> bool {
        let api: Api<SelfSubjectReview> = Api::all(self.client.clone());
        let (params, review) = (PostParams::default(), SelfSubjectReview::default());
        let Ok(Ok(answer)) = timeout(TIMEOUT, api.create(&params, &review)).await else { return false };
        answer.status.and_then(|status| status.user_info?.username) == Some(self.user())
    }
}
