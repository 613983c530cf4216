//! Compares what was reported with the truth.

use orchestr::api::{Cause, OrchestrStatus, Owner, ProblemKind};

use super::scenario::Scenario;

/// What was reported about a scenario.
#[derive(Clone, Debug)]
pub struct Answer {
    pub kind: ProblemKind,
    pub cause: Cause,
    pub container: String,
    pub owner: Option<Owner>,
    /// The sentence about the incident.
    pub sentence: String,
    /// The sentence about the pod.
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    Right,
    /// The cause is Unknown although the API proves it, the problem is missed, or a healthy pod is reported.
    Unknown,
    /// The cause is another than the true one.
    Wrong,
}

#[derive(Clone, Debug)]
pub struct Result {
    pub scenario: Scenario,
    pub answer: Option<Answer>,
    pub grade: Grade,
    /// What the sentences lack, or must not contain, or which other field differs.
    pub faults: Vec<String>,
}

impl Result {
    /// Whether the cause is the expected one, and not another that is true as well.
    pub fn is_exact(&self) -> bool {
        let expect = &self.scenario.expect;
        match &self.answer {
            Some(answer) => !expect.healthy && answer.cause == expect.cause,
            None => expect.healthy,
        }
    }
}

impl Answer {
    /// The answer in a status, whose object watches the scenario's namespace only.
    pub fn of(status: &OrchestrStatus, scenario: &Scenario) -> Option<Self> {
        let incidents = &status.incidents;
        let incident = incidents.iter().find(|own| own.kind == scenario.expect.kind).or_else(|| incidents.first())?;
        let pod = status.problematic_pods.iter().find(|pod| pod.kind == incident.kind);
        Some(Self {
            kind: incident.kind,
            cause: incident.cause,
            container: incident.container.clone(),
            owner: Some(incident.owner.clone()),
            sentence: incident.message.clone(),
            detail: pod.map(|pod| pod.message.clone()).unwrap_or_default(),
        })
    }
}

pub fn grade(scenario: &Scenario, answer: Option<Answer>) -> Result {
    let expect = &scenario.expect;
    let mut faults = Vec::new();
    let grade = match &answer {
        None if expect.healthy => Grade::Right,
        None => {
            faults.push("the problem is missed".to_owned());
            Grade::Unknown
        }
        Some(answer) if expect.healthy => {
            faults.push("there is no problem".to_owned());
            if answer.cause == Cause::Unknown { Grade::Unknown } else { Grade::Wrong }
        }
        Some(answer) => {
            if answer.kind != expect.kind {
                faults.push(format!("the kind is {}, not {}", answer.kind, expect.kind));
            }
            if expect.container.as_ref().is_some_and(|container| *container != answer.container) {
                faults.push(format!("the container is {:?}", answer.container));
            }
            if expect.owner.is_some() && expect.owner != answer.owner {
                faults.push(format!("the owner is {:?}", answer.owner));
            }
            let text = format!("{}\n{}", answer.sentence, answer.detail).to_lowercase();
            let contains = |word: &&String| text.contains(&word.to_lowercase());
            faults.extend(expect.words.iter().filter(|word| !contains(word)).map(|word| format!("lacks {word:?}")));
            faults.extend(expect.forbidden.iter().filter(contains).map(|word| format!("has {word:?}")));
            if answer.cause == expect.cause || expect.accept.contains(&answer.cause) {
                Grade::Right
            } else if answer.cause == Cause::Unknown {
                Grade::Unknown
            } else {
                Grade::Wrong
            }
        }
    };
    Result { scenario: scenario.clone(), answer, grade, faults }
}

/// Fails unless at least 95 % of the causes are right, none is wrong, and no sentence lacks what is known.
pub fn assert_passed(results: &[Result]) {
    let right = results.iter().filter(|result| result.grade == Grade::Right).count();
    let wrong: Vec<_> = results.iter().filter(|result| result.grade == Grade::Wrong).map(describe).collect();
    let unknown: Vec<_> = results.iter().filter(|result| result.grade == Grade::Unknown).map(describe).collect();
    let faulty: Vec<_> = results.iter().filter(|result| !result.faults.is_empty()).map(describe).collect();
    let all = results.len();
    println!("{all} scenarios: {right} right, {} unknown, {} wrong", unknown.len(), wrong.len());
    println!("\nunknown:\n{}\nfaulty:\n{}", unknown.join("\n"), faulty.join("\n"));
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(right * 100 >= all * 95, "{right} of {all} are right; unknown:\n{}", unknown.join("\n"));
    assert!(faulty.is_empty(), "{} faulty sentences:\n{}", faulty.len(), faulty.join("\n"));
}

fn describe(result: &Result) -> String {
    let Result { scenario: Scenario { name, truth, expect, .. }, answer, faults, .. } = result;
    let got = match answer {
        Some(Answer { kind, cause, sentence, detail, .. }) => format!("{kind} {cause}: {sentence} | {detail}"),
        None => "no problem".to_owned(),
    };
    format!("- {name} ({truth}): expected {} {}, got {got}; {}", expect.kind, expect.cause, faults.join(", "))
}
