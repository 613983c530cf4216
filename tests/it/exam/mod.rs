//! The exam: troubles as a real cluster writes them, each with its true cause. The operator must find the cause, or say
//! what is known; it must never name a wrong one.

pub mod cluster;
mod grade;
mod pure;
pub mod scenario;
mod table;
