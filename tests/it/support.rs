//! Helpers of several tests.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use orchestr::api::{Orchestr, crd::crd};
use orchestr_testbed::{ControlPlane, eventually};

/// The limit of every wait. On an idle machine, waits take about a second.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Installs the CRD, and waits until the API server serves its objects. May run concurrently.
pub async fn install_crd(plane: &ControlPlane) {
    let client = plane.admin().unwrap();
    let crd = crd();
    let name = crd.metadata.name.clone().unwrap();
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    crds.patch(&name, &PatchParams::apply("tests").force(), &Patch::Apply(&crd)).await.unwrap();
    let objects = Api::<Orchestr>::all(client);
    eventually("the API server serves orchestrs", TIMEOUT, async || {
        objects.list_metadata(&ListParams::default().limit(1)).await.map(drop).map_err(|error| error.to_string())
    })
    .await
    .unwrap();
}
