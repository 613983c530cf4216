//! How much of a notification a message shows, and shrinking a message until it is within its receiver's limit.

use crate::{alerts::Notification, api::Detail};

/// How much is shown in addition to the names of the incidents, which are never cut, and exact counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// How many incidents are shown with all facts. The others have one line each.
    pub detailed: usize,
    /// The limit of each incident's log, in UTF-16 code units.
    pub logs: usize,
    /// The limit of each incident's message, in UTF-16 code units.
    pub message: usize,
    /// The most that the facts about one incident may take without its log, in the unit in which the message is measured;
    /// 0 if the format has no such limit.
    pub facts: usize,
}

impl Layout {
    pub const NAMES_ONLY: Self = Self { detailed: 0, logs: 0, message: 0, facts: 0 };
}

/// A log that would be cut further than this is left out.
const MIN_LOGS: usize = 200;
/// Messages are cut to this before they are left out.
pub(super) const SHORT_MESSAGE: usize = 100;
/// The facts about an incident may take this part of a message before logs are cut.
const PARTS: usize = 8;

/// Renders a message as large as its limit allows. Incidents whose facts take more than their share lose links first, so that
/// they do not displace the logs of others. Then logs are cut, then messages, then facts.
pub(super) fn shrink_to_fit<T>(
    notification: &Notification,
    full: Layout,
    limit: usize,
    render: impl Fn(Layout) -> T,
    measure: impl Fn(&T) -> usize,
) -> T {
    let mut layout = match notification.detail {
        Detail::Full => full,
        Detail::NoLogs => Layout { logs: 0, ..full },
        Detail::Names => Layout::NAMES_ONLY,
    };
    let named = notification.started.len() + notification.ongoing.len() + notification.resolved.len();
    loop {
        let rendered = render(layout);
        if layout == Layout::NAMES_ONLY || measure(&rendered) <= limit {
            return rendered;
        }
        // Before logs are left out, all incidents have the same share.
        let parts = if layout.logs > MIN_LOGS { named.min(PARTS) } else { named };
        let share = limit / parts.max(1);
        if layout.facts > share {
            layout.facts = share;
        } else if layout.logs > 0 {
            layout.logs = if layout.logs > MIN_LOGS { layout.logs / 2 } else { 0 };
        } else if layout.message > 0 {
            layout.message = if layout.message > SHORT_MESSAGE { SHORT_MESSAGE } else { 0 };
        } else {
            layout.detailed /= 2;
            if layout.detailed == 0 {
                layout = Layout::NAMES_ONLY;
            }
        }
    }
}
