//! End-to-end tests of the operator.

mod bad_pods;
mod blocked;
mod clocks;
mod container_logs;
mod decoding;
mod endings;
mod events;
mod events_evidence;
mod exclusion;
mod failing_pod;
mod jobs;
mod kopf;
mod lifecycle;
mod many;
mod missing;
mod never_healthy;
mod odd_servers;
mod outages;
mod own_log;
mod rights;
mod rollouts;
mod shutdown;
mod spec_errors;
mod stuck;
mod timers;
mod writes;
