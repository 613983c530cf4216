//! A client that changes nothing in the cluster unless this replica leads.

use http::{Request, Response};
use kube::{Client, client::Body};
use tower::{BoxError, service_fn};

use super::leadership::Leadership;

impl Leadership {
    /// Returns a client that refuses requests other than reads while this replica does not lead, and ends them when it stops
    /// leading. All of the operator's writes to the API server pass through it, except those of the Lease.
    pub(crate) fn fence(&self, client: Client) -> Client {
        if self.is_permanent() {
            return client;
        }
        let leadership = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = service_fn(move |request: Request<Body>| {
            let (client, leadership) = (client.clone(), leadership.clone());
            async move {
                let is_read = request.method().is_safe();
                let answer = client.send(request);
                let answer = if is_read { answer.await } else { leadership.guard(answer).await? };
                answer.map_err(BoxError::from) as Result<Response<Body>, BoxError>
            }
        });
        Client::new(service, namespace)
    }
}
