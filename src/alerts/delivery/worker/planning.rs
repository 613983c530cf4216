//! Decides what the webhooks of an object do next, without holding up other tasks for long.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::time::Instant;

use super::{super::webhook_queue::Action, Worker};
use crate::alerts::{CurrentMutes, Incident, mute::KnownMatches};

/// After how many incidents, counted once for each webhook, other tasks go on. Planning takes some microseconds for
/// each.
const INCIDENTS: usize = 256;

impl Worker {
    /// Decides for each webhook what to do next.
    pub(super) async fn plan(&mut self) {
        let context = Arc::clone(&self.context);
        // Nobody closes the semaphore. Without a permit, the step would only be less fair.
        let _permit = context.planning.acquire().await.ok();
        let (now, wall) = (Instant::now(), context.clock.now());
        let incidents = self.apply_input(now);
        self.update_unstored(now);
        let mut pause = Pause::default();
        self.find_mutes(&incidents, wall, &mut pause).await;
        let mut queues = std::mem::take(&mut self.queues);
        self.end_left_alerts(&mut queues, &incidents, wall);
        let input = self.object_input(&incidents, wall);
        let mut actions = Vec::with_capacity(queues.len());
        for queue in &mut queues {
            let stored = self.writer.stored().webhooks.iter().find(|state| state.name == queue.name());
            actions.push(queue.next_action(&input, stored, now));
            pause.after(incidents.len()).await;
        }
        self.queues = queues;
        let mut unread = Vec::new();
        for (index, action) in actions.into_iter().enumerate() {
            match action {
                Action::Wait => {}
                Action::ReadSecrets => unread.push(index),
                Action::Send(message) => self.send(index, message),
            }
        }
        self.read_secrets(&unread);
    }

    /// Evaluates silences and quiet hours for all webhooks, unless they hold for the same incidents as before.
    async fn find_mutes(&mut self, incidents: &[Incident], wall: Timestamp, pause: &mut Pause) {
        let rules = self.input.mute_rules.active(wall);
        let mut mutes = CurrentMutes::of(&rules);
        if self.has_mutes && mutes.has_same_rules(&self.mutes) {
            return;
        }
        if !rules.is_empty() {
            let mut known = KnownMatches::new();
            for some in incidents.chunks(INCIDENTS) {
                mutes.add(&rules, some, &self.memory, &mut known);
                pause.after(some.len()).await;
            }
        }
        self.mutes = mutes;
        self.has_mutes = true;
    }
}

/// Lets the other tasks of the thread go on while many incidents are considered.
#[derive(Default)]
struct Pause {
    incidents: usize,
}

impl Pause {
    /// Counts incidents that were considered, and pauses if there were many.
    async fn after(&mut self, incidents: usize) {
        self.incidents = self.incidents.saturating_add(incidents);
        if self.incidents >= INCIDENTS {
            self.incidents = 0;
            tokio::task::yield_now().await;
        }
    }
}
