//! Helpers of several tests.

use std::time::Duration;

use orchestr::api::crd::crd;
use orchestr_testbed::{ControlPlane, kubernetes_minor};

/// The limit of every wait. On an idle machine, waits take about a second.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Whether the API server streams each list. That of 1.30 may answer that it has not seen the newest version yet.
pub fn streams_lists() -> bool {
    kubernetes_minor() > 31
}

/// Installs the CRD, and waits until the API server serves its objects. May run concurrently.
pub async fn install_crd(plane: &ControlPlane) {
    plane.install(&crd()).await.unwrap();
}
