//! The history of an object: a drawing, and a table with the same content.

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::{
    super::{
        document::cause,
        numbers::counted,
        timeline::{Past, Timeline, Unwatched, minute},
    },
    text::{head, instant, untrusted},
};

/// How many incidents are shown, and how many bytes their rows may take.
const ROWS: usize = 60;
const ROW_BYTES: usize = 200_000;
/// How many spans are shown.
const SPANS: usize = 20;
/// The drawing, in its own units: its width, the room for numbers beside the bars, and the height of a row.
const WIDTH: i64 = 1000;
const LEFT: i64 = 36;
const ROW: i64 = 20;
/// The height of a bar, and its least width.
const BAR: i64 = 12;
const LEAST_WIDTH: i64 = 4;
/// How many times are written below the drawing, and the room for them.
const TICKS: i64 = 4;
const AXIS: i64 = 24;

/// The section with the history.
pub(super) fn section(timeline: &Timeline) -> Markup {
    let mut room = ROW_BYTES;
    let rows: Vec<Markup> = (1..=ROWS)
        .zip(&timeline.incidents)
        .map_while(|(number, own)| {
            let row = row(number, own, timeline);
            room = room.checked_sub(row.0.len())?;
            Some(row)
        })
        .collect();
    let shown = timeline.incidents.get(..rows.len()).unwrap_or_default();
    let hidden = timeline.incidents.len() - shown.len();
    let spans = timeline.unwatched.get(..SPANS).unwrap_or(&timeline.unwatched);
    let hidden_spans = timeline.unwatched.len() - spans.len();
    html! {
        section {
            h2 { "History" }
            p { (timeline.headline()) "." }
            @if !shown.is_empty() || !spans.is_empty() { (drawing(timeline.until, timeline.since, shown, spans)) }
            @if !shown.is_empty() { (table(&rows)) }
            @if hidden > 0 { p class="omitted" { "and " (counted(hidden, "more incident")) ", which this page leaves out" } }
            @if !spans.is_empty() { ul { @for own in spans { li { (not_watched(own, timeline)) } } } }
            @if hidden_spans > 0 {
                p class="omitted" { "and " (counted(hidden_spans, "more such time")) ", which this page leaves out" }
            }
            @for limit in timeline.limits() { p class="omitted" { (limit) } }
        }
    }
}

/// The time at which the drawing begins: when the first of the shown incidents and spans began, but not before the history is
/// complete, unless an incident that is shown ended before that.
fn start(until: Timestamp, since: Option<Timestamp>, shown: &[Past], spans: &[Unwatched]) -> Timestamp {
    let latest = until.checked_sub(SignedDuration::from_secs(60)).unwrap_or(until);
    let began = shown.iter().map(|own| own.began).chain(spans.iter().map(|own| own.from));
    let has_ended = |own: &&Past| since.is_some_and(|since| own.has_ended_before(since));
    let earlier = shown.iter().filter(has_ended).map(|own| own.began);
    let first = earlier.chain(since).min().unwrap_or(Timestamp::MIN);
    began.min().unwrap_or(latest).max(first).min(latest)
}

/// A bar for each incident, numbered as in the table, above the times in which the pods were not watched. Their forms differ,
/// so that they can be distinguished without colours.
fn drawing(until: Timestamp, since: Option<Timestamp>, shown: &[Past], spans: &[Unwatched]) -> Markup {
    let rows = i64::try_from(shown.len()).unwrap_or(0).max(1);
    let (height, scale) = (rows * ROW, Scale { from: start(until, since, shown, spans), until });
    html! {
        svg class="timeline" role="img" viewBox={ "0 0 " (WIDTH) " " (height + AXIS) }
            aria-label="The history as a drawing; the table contains the same" {
            defs {
                pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" {
                    path class="hatch" d="M0 6 6 0" {}
                }
            }
            @for own in spans {
                @let (x, width) = scale.bar(own.from, own.until.unwrap_or(until));
                rect class="gap" fill="url(#hatch)" x=(x) y="0" width=(width) height=(height) {}
            }
            @for (row, own) in (0..).zip(shown) {
                @let y = row * ROW + (ROW - BAR) / 2;
                text x="0" y=(y + BAR - 2) { (row + 1) }
                (bar(own, y, &scale))
            }
            @for tick in 0..=TICKS {
                @let (x, time) = scale.tick(tick);
                path class="axis" d={ "M" (x) " 0V" (height + 4) } {}
                text x=(x) y=(height + 18) text-anchor=(anchor(tick)) { (minute(time)) }
            }
        }
    }
}

fn bar(own: &Past, y: i64, scale: &Scale) -> Markup {
    let certain = own.last_seen.or(own.ended).unwrap_or(scale.until);
    let (x, width) = scale.bar(own.began, certain);
    html! {
        rect class=(if own.ended.is_none() { "lasting" } else { "ended" }) x=(x) y=(y) width=(width) height=(BAR) {}
        @if own.ended.is_none() {
            // An arrow: it goes on.
            path class="lasting" d={ "M" (x + width) " " (y - 3) "l9 " (BAR / 2 + 3) "l-9 " (BAR / 2 + 3) "z" } {}
        }
        @if let Some((seen, ended)) = own.last_seen.zip(own.ended) {
            @let (x, width) = scale.bar(seen, ended);
            rect class="unsure" x=(x) y=(y) width=(width) height=(BAR) {}
        }
    }
}

/// The middle of a time is below its line, except at the ends of the drawing.
fn anchor(tick: i64) -> &'static str {
    match tick {
        0 => "start",
        TICKS => "end",
        _ => "middle",
    }
}

/// Places times in the drawing.
struct Scale {
    from: Timestamp,
    until: Timestamp,
}

impl Scale {
    fn length(&self) -> i64 {
        self.until.as_second().saturating_sub(self.from.as_second()).max(1)
    }

    fn x(&self, time: Timestamp) -> i64 {
        let since = time.as_second().saturating_sub(self.from.as_second()).clamp(0, self.length());
        // An arrow has room on the right.
        LEFT + since.saturating_mul(WIDTH - LEFT - 10) / self.length()
    }

    /// The place and the width.
    fn bar(&self, from: Timestamp, until: Timestamp) -> (i64, i64) {
        let x = self.x(from);
        (x, (self.x(until) - x).max(LEAST_WIDTH))
    }

    fn tick(&self, tick: i64) -> (i64, Timestamp) {
        let after = SignedDuration::from_secs(self.length().saturating_mul(tick) / TICKS);
        let time = self.from.checked_add(after).unwrap_or(self.until);
        (self.x(time), time)
    }
}

fn table(rows: &[Markup]) -> Markup {
    html! {
        table {
            (head(&[
                "Workload", "Reason", "Cause", "Most pods", "Began (UTC)", "Ended (UTC)", "Lasted", "What is known",
            ]))
            tbody { @for row in rows { (row) } }
        }
    }
}

fn row(number: usize, own: &Past, timeline: &Timeline) -> Markup {
    html! {
        tr {
            th scope="row" { (number) ". " (untrusted(&own.workload())) }
            td class="reason" { (untrusted(&own.reason)) }
            td { (cause(own.cause)) }
            td { (counted(own.pods, "pod")) }
            td { (short(own.began)) }
            td {
                @match (own.last_seen, own.ended) {
                    (_, None) => "it lasts",
                    (None, Some(end)) => (short(end)),
                    (Some(seen), Some(end)) => { "between " (short(seen)) " and " (short(end)) },
                }
            }
            td { (own.lasted(timeline.until)) }
            td { (untrusted(&own.message)) }
        }
    }
}

/// A time in UTC without its seconds, for which a table has no room.
fn short(time: Timestamp) -> Markup {
    html! { time datetime=(time.strftime("%Y-%m-%dT%H:%M:%SZ")) { (minute(time)) } }
}

fn not_watched(own: &Unwatched, timeline: &Timeline) -> Markup {
    html! {
        "Not watched from " (instant(own.from))
        @match own.until { Some(until) => { " to " (instant(until)) }, None => { " until now" } }
        " (" (own.lasted(timeline.until)) "): " (untrusted(own.explanation()))
    }
}
