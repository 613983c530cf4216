//! Gives any bytes to the code that reads what others wrote. Nothing may panic, and bounds hold. `ORCHESTR_FUZZ` names the target;
//! see tests/fuzz/run.
#![no_main]

mod targets;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("ORCHESTR_FUZZ").unwrap_or_default();
    match name.as_str() {
        "pods" => targets::pods,
        "protobuf" => targets::protobuf,
        "log" => targets::log,
        "spec" => targets::spec,
        "formats" => targets::formats,
        _ => panic!("set ORCHESTR_FUZZ to a target: pods, protobuf, log, spec or formats"),
    }
});

fuzz_target!(|bytes: &[u8]| TARGET(bytes));
