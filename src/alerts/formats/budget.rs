//! Less and less of a message, until it fits.

use crate::{alerts::Notification, api::Detail};

/// How much of a message is shown. Counts are shown always, and are always exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// How many incidents.
    pub alerts: usize,
    /// How much of each one's log, in UTF-16 code units.
    pub logs: usize,
    /// How much of each one's message, likewise.
    pub message: usize,
}

/// How large a message may be, in the unit in which it is measured.
pub(super) struct Limits {
    /// Logs and messages are cut until the whole is no larger.
    pub wanted: usize,
    /// Incidents are left out until the whole is no larger.
    pub most: usize,
}

/// A shorter piece of a log isn't worth its room.
const LOGS_WORTH_SHOWING: usize = 200;
/// A message is cut to this before it is left out.
const SHORT_MESSAGE: usize = 100;

/// Makes a message as large as may be.
///
/// `make` must keep within the limits where no incident is shown: what remains then are counts, and a
/// few names of limited length.
pub(super) fn fit<T>(
    notification: &Notification,
    full: Shape,
    limits: &Limits,
    make: impl Fn(Shape) -> T,
    measure: impl Fn(&T) -> usize,
) -> T {
    let all = notification.started.len() + notification.ended.len() + notification.ongoing.len();
    let full = Shape { alerts: full.alerts.min(all), ..full };
    let mut shape = match notification.detail {
        Detail::Full => full,
        Detail::NoLogs => Shape { logs: 0, ..full },
        Detail::Counts => Shape { alerts: 0, logs: 0, message: 0 },
    };
    loop {
        let made = make(shape);
        let size = measure(&made);
        if size <= limits.wanted {
            return made;
        }
        if shape.alerts > 0 && shape.logs > 0 {
            shape.logs = if shape.logs > LOGS_WORTH_SHOWING { shape.logs / 2 } else { 0 };
        } else if shape.alerts > 0 && shape.message > 0 {
            shape.message = if shape.message > SHORT_MESSAGE { SHORT_MESSAGE } else { 0 };
        } else if size <= limits.most || shape.alerts == 0 {
            return made;
        } else {
            shape.alerts /= 2;
        }
    }
}
