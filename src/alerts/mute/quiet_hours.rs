//! Weekly quiet hours in a time zone.
//!
//! Quiet hours last from the first moment at which the local clocks show `start` or a later time to the last moment at which
//! they show `end` or an earlier one. So, when the clocks are set forward past `start` or `end`, that is the moment of the
//! change. When they are set back, and show a time twice, `start` is the first and `end` the second.

use std::ops::Range;

use jiff::{
    Timestamp,
    civil::{Date, DateTime},
    tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase},
};

use crate::{
    alerts::matcher::Matcher,
    api::{self, Weekday, limits},
    spec_error::{SpecError, invalid, short_enough},
};

const MINUTES_OF_DAY: u16 = 24 * 60;

#[derive(Clone, Debug)]
pub(super) struct QuietHours {
    pub name: String,
    pub matcher: Matcher,
    /// On which days they begin, from Monday.
    days: [bool; 7],
    /// In minutes since midnight, as the clocks show it.
    start: u16,
    /// On the next day if it is before `start`. Up to [`MINUTES_OF_DAY`].
    end: u16,
    zone: TimeZone,
}

impl QuietHours {
    pub fn new(index: usize, spec: &api::QuietHours) -> Result<Self, SpecError> {
        let field = |name: &str| format!("spec.quietHours[{index}].{name}");
        let start = minutes(&field("start"), &spec.start, MINUTES_OF_DAY - 1)?;
        let end = minutes(&field("end"), &spec.end, MINUTES_OF_DAY)?;
        if start == end {
            return Err(invalid(field("end"), "must differ from start; a whole day is 00:00 to 24:00"));
        }
        let matching = spec.match_.clone().unwrap_or_default();
        Ok(Self {
            name: spec.name.clone(),
            matcher: Matcher::of_mute(&field("match"), &matching)?,
            days: days(spec.days.as_deref().unwrap_or_default()),
            start,
            end,
            zone: time_zone(&field("timeZone"), &spec.time_zone)?,
        })
    }

    /// When they end, if they hold now. Those that begin where others end continue them.
    pub fn active_until(&self, now: Timestamp) -> Option<Timestamp> {
        let mut until = self.end_at(now)?;
        // Quiet hours that never end are found to last for a week.
        for _ in 0..self.days.len() {
            match self.end_at(until) {
                Some(next) if next > until => until = next,
                _ => break,
            }
        }
        Some(until)
    }

    /// The end of those that hold at this time.
    fn end_at(&self, at: Timestamp) -> Option<Timestamp> {
        let today = self.zone.to_datetime(at).date();
        let before = today.yesterday().unwrap_or(today);
        // A day may be left out when a country moves across the date line.
        let first = before.yesterday().unwrap_or(before);
        let dates = std::iter::successors(Some(first), |date| date.tomorrow().ok()).take(4);
        dates.filter_map(|date| self.on(date)).filter(|hours| hours.contains(&at)).map(|hours| hours.end).max()
    }

    /// Those that begin on a date, unless the day is left out or the clocks are set forward past all of them.
    fn on(&self, date: Date) -> Option<Range<Timestamp>> {
        let weekday = usize::try_from(date.weekday().to_monday_zero_offset()).ok()?;
        if !*self.days.get(weekday)? {
            return None;
        }
        let last_date = if self.end < self.start { date.tomorrow().ok()? } else { date };
        let start = moments(&self.zone, at_minute(date, self.start)?)?.start;
        let end = moments(&self.zone, at_minute(last_date, self.end)?)?.end;
        (start < end).then_some(start..end)
    }
}

fn at_minute(date: Date, minute: u16) -> Option<DateTime> {
    if minute == MINUTES_OF_DAY {
        return Some(date.tomorrow().ok()?.at(0, 0, 0, 0));
    }
    let [hour, minute] = [minute / 60, minute % 60].map(i8::try_from);
    Some(date.at(hour.ok()?, minute.ok()?, 0, 0))
}

/// The first and the last moment at which the local clocks show a time: two if they are set back, and otherwise the same. If
/// they are set forward past it, the moment of that change.
fn moments(zone: &TimeZone, local: DateTime) -> Option<Range<Timestamp>> {
    let at = |offset: Offset| offset.to_timestamp(local).ok();
    match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => Some(at(offset)?..at(offset)?),
        AmbiguousOffset::Fold { before, after } => Some(at(before)?..at(after)?),
        AmbiguousOffset::Gap { before, after } => {
            // With the new offset, the skipped time is before the change; with the old one, it is not.
            let mut changes = zone.following(at(after)?);
            let change = changes.find(|change| change.offset() == after).map(|change| change.timestamp());
            let change = change.filter(|change| at(before).is_some_and(|latest| *change <= latest)).or(at(before))?;
            Some(change..change)
        }
    }
}

/// No days mean all of them.
fn days(given: &[Weekday]) -> [bool; 7] {
    use Weekday::{Fri, Mon, Sat, Sun, Thu, Tue, Wed};
    [Mon, Tue, Wed, Thu, Fri, Sat, Sun].map(|day| given.is_empty() || given.contains(&day))
}

/// Parses `HH:MM`.
fn minutes(field: &str, text: &str, latest: u16) -> Result<u16, SpecError> {
    let number = |digits: &str| {
        let is_number = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_digit());
        if is_number { digits.parse::<u16>().ok() } else { None }
    };
    let parsed = text.split_once(':').and_then(|(hours, minutes)| Some((number(hours)?, number(minutes)?)));
    let valid = parsed.filter(|(_, minutes)| *minutes < 60).map(|(hours, minutes)| hours * 60 + minutes);
    valid.filter(|minutes| *minutes <= latest).ok_or_else(|| {
        let (hours, minutes) = (latest / 60, latest % 60);
        invalid(field, format!("{text:?} is not a time of day from 00:00 to {hours:02}:{minutes:02}"))
    })
}

/// The zones are part of the program: the image has no files of them, and those of a node would differ from node to node.
fn time_zone(field: &str, name: &str) -> Result<TimeZone, SpecError> {
    short_enough(field, name, limits::TIME_ZONE_LENGTH)?;
    let zone = TimeZoneDatabase::bundled().get(name).ok().filter(|zone| !zone.is_unknown());
    zone.ok_or_else(|| {
        invalid(field, format!("{name:?} is not a time zone of the IANA database, such as Europe/Berlin"))
    })
}

#[cfg(test)]
mod tests;
