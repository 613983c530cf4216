//! Creates events, and counts those that repeat.

use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, Recorder, Reporter},
};

const CONTROLLER: &str = "orchestr";
/// How many events a recorder of kube gets before another one replaces it. It keeps each event for six minutes, so that who
/// creates and deletes objects all the time would fill the memory with events about them.
const MOST: usize = 512;

/// A recorder of kube that does not remember all events.
pub(super) struct BoundedRecorder {
    client: Client,
    /// The recorder, and how many events it got.
    recorder: Mutex<(Recorder, usize)>,
}

impl BoundedRecorder {
    pub(super) fn new(client: Client) -> Self {
        let recorder = Mutex::new((new_recorder(&client), 0));
        Self { client, recorder }
    }

    /// Creates an event, or counts it if it is known.
    pub(super) async fn publish(&self, event: &Event, about: &ObjectReference) -> Result<(), kube::Error> {
        match self.recorder(MOST).publish(event, about).await {
            // It was known, and has been deleted since. The recorder would try to count it for six minutes.
            Err(kube::Error::Api(status)) if status.is_not_found() => self.recorder(0).publish(event, about).await,
            result => result,
        }
    }

    /// The recorder for the next event: another one if it got `most` events.
    fn recorder(&self, most: usize) -> Recorder {
        let mut current = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        if current.1 >= most {
            *current = (new_recorder(&self.client), 0);
        }
        current.1 += 1;
        current.0.clone()
    }
}

fn new_recorder(client: &Client) -> Recorder {
    Recorder::new(client.clone(), Reporter { controller: CONTROLLER.to_owned(), instance: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_recorder_is_replaced_before_it_remembers_many_events() {
        let client = Client::try_from(kube::Config::new("http://127.0.0.1:9".parse().unwrap())).unwrap();
        let recorder = BoundedRecorder::new(client);
        for _ in 0..10 * MOST {
            recorder.recorder(MOST);
            assert!(recorder.recorder.lock().unwrap().1 <= MOST);
        }
    }
}
