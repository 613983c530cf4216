//! Converts values into the form in which the API stores them.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub(super) fn count(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

/// A time in whole seconds. Times before 1970 are never meant, and would not be read back.
pub(super) fn seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second().max(0)).unwrap_or(Timestamp::UNIX_EPOCH)
}

pub(super) fn wire_time(time: Timestamp) -> Time {
    Time(seconds(time))
}

/// The key of an incident as a number, which takes less memory.
pub(super) fn number(key: &str) -> Option<u64> {
    u64::from_str_radix(key, 16).ok()
}
