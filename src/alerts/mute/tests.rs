use std::collections::HashSet;

use serde_json::{Value, json};

use super::*;
use crate::{
    alerts::memory::IncidentMemory,
    api::{Owner, Severity},
};

fn rules(silences: Value, quiet_hours: Value) -> Result<MuteRules, String> {
    let silences: Vec<api::Silence> = serde_json::from_value(silences).unwrap();
    let quiet_hours: Vec<api::QuietHours> = serde_json::from_value(quiet_hours).unwrap();
    let mut wrong = Vec::new();
    let rules = MuteRules::new(&silences, &quiet_hours, &mut wrong);
    wrong.first().map_or(Ok(rules), |error| Err(error.to_string()))
}

fn silence(changes: Value) -> Value {
    let mut silence = json!({"name": "migration", "until": "2026-12-01T08:00:00Z", "match": {"namespaces": ["shop"]}});
    silence.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    silence
}

fn nights(changes: Value) -> Value {
    let mut hours = json!({"name": "nights", "start": "22:00", "end": "07:00", "timeZone": "Europe/Berlin"});
    hours.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    hours
}

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

fn incident(namespace: &str, severity: Severity) -> Incident {
    let owner = Owner { kind: "Deployment".to_owned(), name: "cart".to_owned() };
    Incident {
        namespace: namespace.into(),
        owner: owner.into(),
        severity,
        reason: "Error".into(),
        ..Incident::default()
    }
}

#[test]
fn names_the_field_of_an_invalid_silence() {
    for (silences, error) in [
        (json!([silence(json!({"until": "tomorrow"}))]), r#"[0].until: "tomorrow" is not a time"#),
        (
            json!([silence(json!({"until": "9999-12-31T23:59:59-23:00"}))]),
            r#"[0].until: "9999-12-31T23:59:59-23:00" is not"#,
        ),
        (json!([silence(json!({"until": "2".repeat(65)}))]), "[0].until: may have at most 64"),
        (json!([silence(json!({"from": "2026-12-01T08:00:00Z"}))]), "[0].from: must be before until"),
        (json!([silence(json!({"from": "2026-12-01T10:00:00+01:00"}))]), "[0].from: must be before until"),
        (json!([silence(json!({"match": {}}))]), "[0].match: must name namespaces, reasons or owners"),
        (json!([silence(json!({"match": {"namespaces": ["["]}}))]), "[0].match.namespaces[0]: "),
        (
            json!([silence(json!({"match": {"owners": ["cart", "a*b*"]}}))]),
            r#"[0].match.owners[1]: "a*b*" is not the name of an owner"#,
        ),
        (
            json!([silence(json!({"match": {"reasons": vec!["Error"; 17]}}))]),
            "[0].match.reasons: may have at most 16 items, not 17",
        ),
        (json!([silence(json!({"comment": "x".repeat(257)}))]), "[0].comment: may have at most 256"),
        (json!([silence(json!({})), silence(json!({}))]), r#"[1].name: "migration" is already used"#),
        (json!(vec![silence(json!({})); 21]), ": may have at most 20 items, not 21"),
    ] {
        let (found, expected) = (rules(silences, json!([])).expect_err(error), format!("spec.silences{error}"));
        assert!(found.starts_with(&expected), "{found} is not {expected}");
    }
}

#[test]
fn names_the_field_of_invalid_quiet_hours() {
    for (quiet_hours, error) in [
        (
            json!([nights(json!({"timeZone": "Europe/Bonn"}))]),
            r#"[0].timeZone: "Europe/Bonn" is not a time zone of the IANA database, such as Europe/Berlin"#,
        ),
        (json!([nights(json!({"timeZone": ""}))]), "[0].timeZone: "),
        (json!([nights(json!({"timeZone": "Etc/Unknown"}))]), "[0].timeZone: "),
        (json!([nights(json!({"timeZone": "../etc/passwd"}))]), "[0].timeZone: "),
        (json!([nights(json!({"end": "22:00"}))]), "[0].end: must differ from start"),
        (json!([nights(json!({"start": "24:00"}))]), r#"[0].start: "24:00" is not a time of day from 00:00 to 23:59"#),
        (json!([nights(json!({"end": "24:01"}))]), r#"[0].end: "24:01" is not a time of day from 00:00 to 24:00"#),
        (json!([nights(json!({"start": "7:00"}))]), "[0].start: "),
        (json!([nights(json!({"start": "07:60"}))]), "[0].start: "),
        (json!([nights(json!({"start": "+7:00"}))]), "[0].start: "),
        (json!([nights(json!({})), nights(json!({}))]), r#"[1].name: "nights" is already used"#),
        (json!(vec![nights(json!({})); 8]), ": may have at most 7 items, not 8"),
    ] {
        let (found, expected) = (rules(json!([]), quiet_hours).expect_err(error), format!("spec.quietHours{error}"));
        assert!(found.starts_with(&expected), "{found} is not {expected}");
    }
}

#[test]
fn a_silence_includes_its_beginning_and_excludes_its_end() {
    let spec = json!([silence(json!({"from": "2026-12-01T07:00:00+01:00", "comment": "JIRA-1"}))]);
    let rules = rules(spec, json!([])).unwrap();
    for (now, active, expired) in [
        ("2026-12-01T05:59:59Z", false, false),
        ("2026-12-01T06:00:00Z", true, false),
        ("2026-12-01T07:59:59Z", true, false),
        ("2026-12-01T08:00:00Z", false, true),
        ("2036-12-01T08:00:00Z", false, true),
    ] {
        let expected: Vec<_> =
            active.then(|| (arcstr::literal!("silence migration"), at("2026-12-01T08:00:00Z"))).into_iter().collect();
        let found: Vec<_> = rules.active(at(now)).into_iter().map(|rule| (rule.name, rule.until)).collect();
        assert_eq!(found, expected, "{now}");
        assert_eq!(rules.expired(at(now)).count(), usize::from(expired), "{now}");
    }
}

#[test]
fn critical_incidents_pass_quiet_hours_and_not_silences() {
    let now = at("2026-12-01T06:00:00Z");
    let quiet = rules(json!([]), json!([nights(json!({"end": "08:00"}))])).unwrap();
    let silent = rules(json!([silence(json!({}))]), json!([])).unwrap();
    for (rules, severity, muted) in [
        (&quiet, Severity::Info, true),
        (&quiet, Severity::Warning, true),
        (&quiet, Severity::Critical, false),
        (&silent, Severity::Warning, true),
        (&silent, Severity::Critical, true),
    ] {
        let found = find_mute(&rules.active(now), &incident("shop", severity), &[]);
        assert_eq!(found.is_some(), muted, "{severity:?}");
    }
    assert_eq!(find_mute(&silent.active(now), &incident("bank", Severity::Warning), &[]), None);
}

#[test]
fn the_rule_that_ends_last_decides() {
    let rules = rules(json!([silence(json!({}))]), json!([nights(json!({}))])).unwrap();
    let find = |now: &str, namespace: &str| {
        find_mute(&rules.active(at(now)), &incident(namespace, Severity::Warning), &[])
            .map(|mute| (mute.by.to_string(), mute.until.to_string()))
    };
    let silence = ("silence migration".to_owned(), "2026-12-01T08:00:00Z".to_owned());
    let nights = ("quiet hours nights".to_owned(), "2026-12-01T06:00:00Z".to_owned());
    assert_eq!(find("2026-12-01T03:00:00Z", "shop"), Some(silence.clone()));
    assert_eq!(find("2026-12-01T03:00:00Z", "bank"), Some(nights));
    assert_eq!(find("2026-12-01T07:00:00Z", "shop"), Some(silence));
    assert_eq!(find("2026-12-01T07:00:00Z", "bank"), None);
}

/// An object whose 27 rules have 16 names in each list.
fn largest_rules(owners: &str) -> MuteRules {
    let names = |name: &str| (0..16).map(|number| format!("{name}{number}")).collect::<Vec<_>>();
    let silence = |number: usize| {
        let matches = match number % 2 {
            0 => json!({"reasons": names("Never")}),
            _ => json!({"reasons": ["Error"], "owners": names(owners)}),
        };
        silence(json!({"name": format!("s{number}"), "match": matches}))
    };
    let hours = |number: usize| {
        nights(
            json!({"name": format!("q{number}"), "start": "00:00", "end": "24:00", "match": {"reasons": names("No")}}),
        )
    };
    rules(json!((0..20).map(silence).collect::<Vec<_>>()), json!((0..7).map(hours).collect::<Vec<_>>())).unwrap()
}

fn numbered(number: usize) -> Incident {
    Incident {
        key: number.to_string().into(),
        owner: Owner { kind: "Pod".to_owned(), name: format!("pod-{number}") }.into(),
        ..incident(if number.is_multiple_of(2) { "shop" } else { "bank" }, Severity::Warning)
    }
}

#[test]
fn evaluates_each_rule_once_for_equal_incidents() {
    let now = at("2026-11-30T12:00:00Z");
    let rules = largest_rules("pod-1*-");
    let incidents: Vec<Incident> = (0..1_500).map(numbered).collect();
    let mut memory = IncidentMemory::default();
    memory.update(&incidents);
    let found = CurrentMutes::new(&rules, &incidents, &memory, now);
    assert!(found.is_empty());
    assert_eq!(found.evaluations, 27 * 2, "for two namespaces");

    let one: Vec<Incident> = incidents
        .iter()
        .map(|incident| {
            if incident.key == "7" {
                Incident { reason: "OOMKilled".into(), ..incident.clone() }
            } else {
                incident.clone()
            }
        })
        .collect();
    memory.update(&one);
    assert_eq!(CurrentMutes::new(&rules, &one, &memory, now).evaluations, 27 * 3, "another one has other reasons");
}

#[test]
fn what_is_found_for_all_incidents_is_what_is_found_for_each() {
    let now = at("2026-11-30T12:00:00Z");
    let hours = json!([nights(json!({"start": "00:00", "end": "24:00", "match": {"owners": ["pod-*3", "pod-12"]}}))]);
    let silences = json!([
        silence(json!({"name": "a", "match": {"owners": ["pod-1*"], "reasons": ["CrashLoopBackOff"]}})),
        silence(
            json!({"name": "b", "until": "2026-12-02T08:00:00Z", "match": {"namespaces": ["bank"], "owners": ["pod-13", "pod-5"]}})
        ),
        silence(json!({"name": "c", "match": {"reasons": ["OOMKilled"]}})),
    ]);
    let rules = rules(silences, hours).unwrap();
    let mut incidents: Vec<Incident> = (0..40).map(numbered).collect();
    incidents[23].severity = Severity::Critical;
    let mut memory = IncidentMemory::default();
    incidents[30].reason = "OOMKilled".into();
    memory.update(&incidents);
    incidents[30].reason = "Error".into();
    memory.update(&incidents);
    let found = CurrentMutes::new(&rules, &incidents, &memory, now);
    let active = rules.active(now);
    let mut reasons = HashSet::new();
    for incident in &incidents {
        let expected = find_mute(&active, incident, memory.earlier(&incident.key));
        assert_eq!(found.get(&incident.key), expected.as_ref(), "{}", incident.key);
        reasons.insert(expected.map(|mute| mute.by));
    }
    assert_eq!(reasons.len(), 5, "each rule mutes an incident, and none mutes another: {reasons:?}");
}
