//! Helpers of several tests.

use std::time::Duration;

use orchestr::api::crd::crd;
use orchestr_testbed::ControlPlane;

/// The limit of every wait. On an idle machine, waits take about a second.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Installs the CRD, and waits until the API server serves its objects. May run concurrently.
pub async fn install_crd(plane: &ControlPlane) {
    plane.install(&crd()).await.unwrap();
}
