//! STATUS, READY and RESTARTS of recorded and constructed pods. The tests of `kubectl_status` compare them with a real API
//! server.

use jiff::Timestamp;
use orchestr::diagnosis::{kubectl_status, ready_counts, restarts};
use orchestr_testbed::fixtures;

use crate::{
    arbitrary::real,
    cases::{Case, at, made},
};

#[test]
fn columns_of_real_pods_match_recorded_kubectl_output() {
    for (case, printed) in real().into_iter().zip(fixtures::real_statuses()) {
        let [ready, status, restarts] = columns(&case, Timestamp::now());
        assert_eq!((case.name(), status.as_str()), (printed.name, printed.status));
        assert_eq!(ready, printed.ready, "{}", printed.name);
        assert_eq!(restarts.split(' ').next(), Some(printed.restarts), "{}", printed.name);
    }
}

fn columns(case: &Case, now: Timestamp) -> [String; 3] {
    let pod = case.decode();
    let (ready, total) = ready_counts(&pod);
    [format!("{ready}/{total}"), kubectl_status(&pod), restarts(&pod, now)]
}

/// 61 s after the creation of the pods.
#[test]
fn columns_of_constructed_pods() {
    let row = |case: &Case| [&[case.name().to_owned()][..], &columns(case, at(61))].concat().join("\t");
    let table = include_str!("../fixtures/columns.tsv").lines().skip(1);
    assert_eq!(made().iter().map(row).collect::<Vec<_>>(), table.collect::<Vec<_>>());
}
