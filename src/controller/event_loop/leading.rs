//! Begins and ends the time in which this replica leads.

use super::Controller;
use crate::leader::Role;

impl Controller {
    /// Returns whether this replica begins to lead. The caller then opens the watches of objects again: their list contains
    /// what the leader before has written last, and each object resumes from it. The watches of pods stay open.
    pub(super) fn set_role(&mut self, role: Role) -> bool {
        let term = match role {
            Role::Follower { .. } => None,
            Role::Leader { term } => Some(term),
        };
        self.metrics.set_leader(term.is_some());
        // Without a leader, as in an outage, the incidents stay: they have not ended. The next leader reports them.
        if matches!(role, Role::Follower { is_led: true }) {
            self.objects.keys().for_each(|key| self.metrics.object_withdrawn(key));
        }
        if self.term == term {
            return false;
        }
        if self.term.is_some() {
            // Requests under way end by themselves, because they are fenced.
            self.dispatcher.stand_down();
        }
        if term.is_some() {
            self.reconciler.begin_term(tokio::time::Instant::now(), self.clock.now());
        }
        self.term = term;
        term.is_some()
    }
}
