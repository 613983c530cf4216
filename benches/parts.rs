//! Benchmarks of the pure functions: decoding a page of pods, judging, cleaning a log, building and comparing a status.
//!
//! `cargo bench --bench parts` takes about a minute.
#![allow(missing_docs, clippy::unwrap_used, reason = "a bench is not a library, and panics if it fails")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use http::{Request, header::ACCEPT};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod as FullPod;
use kube::{client::Body, core::ObjectList};
use orchestr::{
    api::LogSource,
    diagnosis::{Facts, Finding, Health, Thresholds, assess},
    logs::{LogPolicy, Tail, clean},
    pods::{Pod, WatchedPod, from_json, read_page},
    report::{Input, PodFinding, Tracker, Workload, differs, watching},
};
use orchestr_testbed::{
    ControlPlane, Options,
    pods::{self, Shape, filler, filler_as},
};
use serde::de::IgnoredAny;

/// Pods in a page.
const PAGE: usize = 500;

fn page() -> String {
    let shape = Shape::default();
    let items: Vec<String> = (0..PAGE).map(|index| filler(index, &shape).1).collect();
    format!(
        r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"1"}},"items":[{}]}}"#,
        items.join(",")
    )
}

/// The same page in protobuf, converted by an API server.
fn page_in_protobuf() -> Vec<u8> {
    let shape = Shape::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let plane = ControlPlane::start(Options::default()).await.unwrap();
        plane.load_at_rest((0..PAGE).map(|index| filler(index, &shape))).await.unwrap();
        let request = Request::get("/api/v1/pods").header(ACCEPT, "application/vnd.kubernetes.protobuf");
        let answer = plane.admin().unwrap().send(request.body(Body::empty()).unwrap()).await.unwrap();
        answer.into_body().collect_bytes().await.unwrap().to_vec()
    })
}

fn failing() -> Vec<Pod> {
    let shape = Shape::default();
    let looping = pods::Health::CrashLooping { restarts: 7 };
    (0..PAGE).map(|index| from_json(&filler_as(index, &shape, looping).1).unwrap()).collect()
}

fn decoding(c: &mut Criterion) {
    let page = page();
    let mut group = c.benchmark_group("a page of 500 pods");
    group.throughput(Throughput::Bytes(page.len() as u64));
    group.bench_function("scanned", |b| b.iter(|| serde_json::from_str::<IgnoredAny>(black_box(&page)).unwrap()));
    group.bench_function("decoded", |b| {
        b.iter(|| serde_json::from_str::<ObjectList<WatchedPod>>(black_box(&page)).unwrap());
    });
    let in_protobuf = page_in_protobuf();
    assert_eq!(read_page(&in_protobuf).unwrap().len(), PAGE);
    group.bench_function("decoded from protobuf", |b| b.iter(|| read_page(black_box(&in_protobuf))));
    group.bench_function("decoded by k8s-openapi", |b| {
        b.iter(|| serde_json::from_str::<ObjectList<FullPod>>(black_box(&page)).unwrap());
    });
    group.finish();
}

fn judging(c: &mut Criterion) {
    let shape = Shape::default();
    let healthy = from_json(&filler(1, &shape).1).unwrap();
    let failing = failing().swap_remove(0);
    let (thresholds, now) = (Thresholds::default(), Timestamp::now());
    let mut group = c.benchmark_group("judging");
    for (name, pod) in [("healthy", &healthy), ("crash-looping", &failing)] {
        group.bench_function(name, |b| b.iter(|| assess(black_box(pod), &Facts::default(), &thresholds, now)));
    }
    group.finish();
}

fn logs(c: &mut Criterion) {
    let line = "2025-11-03T08:40:44Z \x1b[31mERROR\x1b[0m cannot connect url=postgres://app:hunter2hunter2@db:5432/app retry=3 \u{fffd}\n";
    let raw = line.repeat(64 * 1024 / line.len());
    let mut group = c.benchmark_group("64 KiB of a log");
    group.throughput(Throughput::Bytes(raw.len() as u64));
    for (name, redact) in [("cleaned", false), ("cleaned and masked", true)] {
        let policy = LogPolicy { tail_lines: 1000, max_bytes: 64 * 1024, redact, redact_patterns: vec![] };
        group.bench_function(name, |b| b.iter(|| clean(black_box(raw.as_bytes()), true, &policy)));
    }
    group.finish();
}

fn status(c: &mut Criterion) {
    let (pods, now) = (failing(), Timestamp::now());
    let findings: Vec<Box<Finding>> = pods
        .iter()
        .filter_map(|pod| match assess(pod, &Facts::default(), &Thresholds::default(), now).health {
            Health::Problem(finding) => Some(finding),
            _ => None,
        })
        .collect();
    assert_eq!(findings.len(), PAGE);
    let (text, telling_line) = ("a line of a log\n".repeat(20).into(), "a line of a log".into());
    let tail = Tail { text, telling_line, source: LogSource::Previous, note: String::new() };
    let tracker = Tracker::default();
    let make = || {
        let input = Input {
            generation: 1,
            max_pods: PAGE,
            watched_pods: 10_000,
            missing: &[],
            findings: pods.iter().zip(&findings).map(|(pod, finding)| PodFinding { pod, finding }).collect(),
            find_workload: &|_, _| Workload::default(),
            find_ownership: &|_| None,
            unread_jobs: 0,
            unreadable: None,
            outside: None,
            denied: None,
            logs: true,
            masking: None,
            pods_on_node: &|_| 0,
            tracker: &tracker,
            ignored_pods: 0,
            wrong: None,
            warnings: Vec::new(),
            has_webhooks: false,
            previous: None,
            now,
        };
        watching(&input, &|_, _| Some(tail.clone())).status
    };
    let (one, other) = (make(), make());
    let mut group = c.benchmark_group("a status of 500 pods");
    group.bench_function("made", |b| b.iter(make));
    group.bench_function("compared with its like", |b| b.iter(|| differs(Some(black_box(&one)), black_box(&other))));
    group.finish();
}

criterion_group!(parts, decoding, judging, logs, status);
criterion_main!(parts);
