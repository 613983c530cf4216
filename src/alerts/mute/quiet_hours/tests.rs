use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn hours(zone: &str, days: &[Weekday], start: &str, end: &str) -> QuietHours {
    let spec = api::QuietHours {
        name: "nights".to_owned(),
        days: Some(days.to_vec()),
        start: start.to_owned(),
        end: end.to_owned(),
        time_zone: zone.to_owned(),
        match_: None,
    };
    QuietHours::new(0, &spec).unwrap()
}

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

#[test]
fn begin_and_end_by_the_local_clocks_when_these_are_changed() {
    const BERLIN: &str = "Europe/Berlin";
    const NEW_YORK: &str = "America/New_York";
    const LORD_HOWE: &str = "Australia/Lord_Howe";
    const CASABLANCA: &str = "Africa/Casablanca";
    const APIA: &str = "Pacific/Apia";
    for (zone, date, start, end, expected) in [
        // Set forward from 02:00 to 03:00 on 2026-03-29 at 01:00 UTC, and back from 03:00 on 2026-10-25 at 01:00 UTC.
        (BERLIN, "2026-01-10", "22:00", "07:00", Some(("2026-01-10T21:00:00Z", "2026-01-11T06:00:00Z"))),
        (BERLIN, "2026-03-28", "22:00", "07:00", Some(("2026-03-28T21:00:00Z", "2026-03-29T05:00:00Z"))),
        (BERLIN, "2026-03-29", "02:30", "06:00", Some(("2026-03-29T01:00:00Z", "2026-03-29T04:00:00Z"))),
        (BERLIN, "2026-03-28", "22:00", "02:30", Some(("2026-03-28T21:00:00Z", "2026-03-29T01:00:00Z"))),
        (BERLIN, "2026-03-29", "02:10", "02:50", None),
        (BERLIN, "2026-10-24", "22:00", "07:00", Some(("2026-10-24T20:00:00Z", "2026-10-25T06:00:00Z"))),
        (BERLIN, "2026-10-25", "02:30", "06:00", Some(("2026-10-25T00:30:00Z", "2026-10-25T05:00:00Z"))),
        (BERLIN, "2026-10-24", "22:00", "02:30", Some(("2026-10-24T20:00:00Z", "2026-10-25T01:30:00Z"))),
        (BERLIN, "2026-10-25", "02:15", "02:45", Some(("2026-10-25T00:15:00Z", "2026-10-25T01:45:00Z"))),
        (BERLIN, "2026-12-05", "00:00", "24:00", Some(("2026-12-04T23:00:00Z", "2026-12-05T23:00:00Z"))),
        (BERLIN, "2026-12-05", "22:00", "00:00", Some(("2026-12-05T21:00:00Z", "2026-12-05T23:00:00Z"))),
        // Set forward on 2026-03-08 at 07:00 UTC, and back from 02:00 to 01:00 on 2026-11-01 at 06:00 UTC.
        (NEW_YORK, "2026-03-08", "02:30", "05:00", Some(("2026-03-08T07:00:00Z", "2026-03-08T09:00:00Z"))),
        (NEW_YORK, "2026-11-01", "00:00", "01:30", Some(("2026-11-01T04:00:00Z", "2026-11-01T06:30:00Z"))),
        // By half an hour: back from 02:00 on 2026-04-05, and forward from 02:00 on 2026-10-04.
        (LORD_HOWE, "2026-04-05", "01:45", "06:00", Some(("2026-04-04T14:45:00Z", "2026-04-04T19:30:00Z"))),
        (LORD_HOWE, "2026-04-04", "22:00", "01:45", Some(("2026-04-04T11:00:00Z", "2026-04-04T15:15:00Z"))),
        (LORD_HOWE, "2026-10-04", "02:15", "03:00", Some(("2026-10-03T15:30:00Z", "2026-10-03T16:00:00Z"))),
        // Winter time is in Ramadan: from 2026-02-15 at 03:00 to 2026-03-22 at 02:00.
        (CASABLANCA, "2026-02-15", "02:30", "06:00", Some(("2026-02-15T01:30:00Z", "2026-02-15T06:00:00Z"))),
        (CASABLANCA, "2026-03-22", "02:30", "06:00", Some(("2026-03-22T02:00:00Z", "2026-03-22T05:00:00Z"))),
        // Samoa left out 2011-12-30.
        (APIA, "2011-12-29", "22:00", "07:00", Some(("2011-12-30T08:00:00Z", "2011-12-30T10:00:00Z"))),
        (APIA, "2011-12-30", "08:00", "20:00", None),
        ("UTC", "2026-01-10", "23:59", "00:00", Some(("2026-01-10T23:59:00Z", "2026-01-11T00:00:00Z"))),
    ] {
        let found = hours(zone, &[], start, end).on(date.parse().unwrap());
        let expected = expected.map(|(start, end)| at(start)..at(end));
        assert_eq!(found, expected, "{start} to {end} on {date} in {zone}");
    }
}

#[test]
fn hold_from_the_first_second_to_the_last_on_the_days_given() {
    use Weekday::{Fri, Mon, Sat, Sun};
    // 2026-12-04 is a Friday.
    let nights = hours("Europe/Berlin", &[Fri, Sun], "22:00", "07:00");
    for (now, until) in [
        ("2026-12-04T20:59:59Z", None),
        ("2026-12-04T21:00:00Z", Some("2026-12-05T06:00:00Z")),
        ("2026-12-05T05:59:59Z", Some("2026-12-05T06:00:00Z")),
        ("2026-12-05T06:00:00Z", None),
        ("2026-12-05T21:00:00Z", None),
        ("2026-12-06T21:00:00Z", Some("2026-12-07T06:00:00Z")),
    ] {
        assert_eq!(nights.active_until(at(now)), until.map(at), "{now}");
    }
    // Days without a gap between them are one period.
    let weekends = hours("Europe/Berlin", &[Sat, Sun, Mon], "00:00", "24:00");
    assert_eq!(weekends.active_until(at("2026-12-05T12:00:00Z")), Some(at("2026-12-07T23:00:00Z")));
    let always = hours("UTC", &[], "00:00", "24:00");
    let until = always.active_until(at("2026-12-05T12:00:00Z")).unwrap();
    assert_eq!(until, at("2026-12-13T00:00:00Z"), "a week later they are judged again");
}

#[test]
fn ends_at_the_limits_of_time_do_no_harm() {
    let hours = hours("Europe/Berlin", &[], "22:00", "07:00");
    for now in [Timestamp::MIN, Timestamp::MAX] {
        let _ = hours.active_until(now);
    }
}

/// What a person with a clock of the zone sees, minute by minute: the period from the first minute at which it shows `start`
/// or later on the day, to the last at which it shows `end` or earlier.
fn naive(zone: &TimeZone, start: DateTime, end: DateTime) -> Range<Timestamp> {
    let minute = Duration::from_secs(60);
    let around = |local: DateTime| {
        let middle = TimeZone::UTC.to_timestamp(local).unwrap();
        let first = middle - Duration::from_secs(16 * 3_600);
        (0..32 * 60).map(move |number| first + minute * number)
    };
    let shown = |at: &Timestamp| zone.to_datetime(*at);
    let first = around(start).find(|at| shown(at) >= start).unwrap();
    let last = around(end).rfind(|at| shown(at) <= end).unwrap();
    first..if shown(&last) == end { last } else { last + minute }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agree_with_a_clock_that_is_read_every_minute(
        zone in prop::sample::select(vec![
            ("Europe/Berlin", ["2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z"]),
            ("America/New_York", ["2026-03-08T07:00:00Z", "2026-11-01T06:00:00Z"]),
            ("Australia/Lord_Howe", ["2026-04-04T15:00:00Z", "2026-10-03T15:30:00Z"]),
            ("Africa/Casablanca", ["2026-02-15T02:00:00Z", "2026-03-22T02:00:00Z"]),
            ("Asia/Kathmandu", ["2026-02-15T02:00:00Z", "2026-03-22T02:00:00Z"]),
        ]),
        change in 0_usize..2,
        days in prop::collection::vec(any::<bool>(), 7),
        start in 0_u16..24 * 60,
        end in 0_u16..=24 * 60,
        near in any::<bool>(),
        minute in -3 * 24 * 60_i64..3 * 24 * 60,
    ) {
        let (name, changes) = zone;
        let zone = time_zone("f", name).unwrap();
        // Half of the cases are about the hours around the change.
        let (start, end) = if near { (start % 240, end % 240) } else { (start, end) };
        prop_assume!(start != end);
        let days: [bool; 7] = days.try_into().unwrap();
        let hours = QuietHours { name: String::new(), matcher: Matcher::default(), days, start, end, zone: zone.clone() };
        let minute = if near { minute / 10 } else { minute };
        let now = at(changes[change]) + jiff::SignedDuration::from_mins(minute);

        let today = zone.to_datetime(now).date();
        let mut ends = Vec::new();
        for offset in -2..=1 {
            let date = today + jiff::Span::new().days(offset);
            if !days[date.weekday().to_monday_zero_offset() as usize] {
                continue;
            }
            let next = if end < start { date.tomorrow().unwrap() } else { date };
            let period = naive(&zone, at_minute(date, start).unwrap(), at_minute(next, end).unwrap());
            if period.contains(&now) {
                ends.push(period.end);
            }
        }
        prop_assert_eq!(hours.end_at(now), ends.into_iter().max(), "{} at {}", name, now);
    }
}
