//! The operator, end to end.

mod events;
mod exclusion;
mod first_look;
mod jobs;
mod kopf;
mod lifecycle;
mod spec_errors;
mod timers;
mod writes;
