//! Lets the other tasks of the thread go on while many incidents are considered.

/// After how many incidents, counted once for each webhook. Planning takes some microseconds for each.
pub(super) const INCIDENTS: usize = 256;

#[derive(Default)]
pub(super) struct Pause {
    incidents: usize,
}

impl Pause {
    /// Counts incidents that were considered, and pauses if there were many.
    pub async fn after(&mut self, incidents: usize) {
        self.incidents = self.incidents.saturating_add(incidents);
        if self.incidents >= INCIDENTS {
            self.incidents = 0;
            tokio::task::yield_now().await;
        }
    }
}
