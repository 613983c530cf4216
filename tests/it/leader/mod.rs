//! Several replicas of the real binary, with leader election.
//!
//! Each replica has a user of its own, so that the API server's audit log tells who has written what.

mod cut_off;
mod ended;
mod lease;
mod paused;
mod restored;
mod returning;
mod rights;
mod support;
mod telemetry;
mod unread_jobs;
