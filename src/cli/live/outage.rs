//! Since when the API server cannot be asked.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// Shorter outages are not mentioned.
const MENTIONED: Duration = Duration::from_secs(2);

/// An outage of the API server, if there is one.
#[derive(Debug, Default)]
pub(in crate::cli) struct Outage {
    since: Option<(Instant, Timestamp)>,
    is_mentioned: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum OutageNews {
    Began,
    Ended,
}

impl Outage {
    /// Returns what is to be mentioned now, given whether the API server can be asked.
    pub(in crate::cli) fn update(&mut self, is_failing: bool, now: Instant, time: Timestamp) -> Option<OutageNews> {
        if !is_failing {
            self.since = None;
            return std::mem::take(&mut self.is_mentioned).then_some(OutageNews::Ended);
        }
        let (since, _) = *self.since.get_or_insert((now, time));
        let begins = !self.is_mentioned && now >= since + MENTIONED;
        self.is_mentioned |= begins;
        begins.then_some(OutageNews::Began)
    }

    /// Since when the outage lasts, if it is mentioned.
    pub(in crate::cli) fn began(&self) -> Option<Timestamp> {
        self.since.filter(|_| self.is_mentioned).map(|(_, began)| began)
    }

    /// When it will be mentioned.
    pub(in crate::cli) fn due(&self) -> Option<Instant> {
        self.since.filter(|_| !self.is_mentioned).map(|(since, _)| since + MENTIONED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_an_outage_once_and_not_if_it_is_short() {
        let (now, mut outage) = (Instant::now(), Outage::default());
        let time = Timestamp::UNIX_EPOCH;
        assert_eq!(outage.update(true, now, time), None);
        assert_eq!((outage.due(), outage.began()), (Some(now + MENTIONED), None));
        assert_eq!(outage.update(false, now, time), None);
        assert_eq!(outage.update(true, now, time), None);
        assert_eq!(outage.update(true, now + MENTIONED, time), Some(OutageNews::Began));
        assert_eq!((outage.due(), outage.began()), (None, Some(time)));
        assert_eq!(outage.update(true, now + 2 * MENTIONED, time), None);
        assert_eq!(outage.update(false, now + 2 * MENTIONED, time), Some(OutageNews::Ended));
    }
}
