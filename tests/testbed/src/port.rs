//! Free ports on loopback.

use std::{
    collections::{BTreeSet, hash_map::RandomState},
    hash::BuildHasher,
    net::{Ipv4Addr, TcpListener},
    sync::{Mutex, PoisonError},
};

use crate::error::{Error, Result};

/// Below the range from which Linux assigns ports automatically (from 32768), so that no outgoing connection and no
/// listener on port 0 takes a port after it was picked, or while an API server that will use it again is stopped.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// How many ports are tried. If half of the range is in use, the probability that all of them are is 2⁻⁶⁴.
const TRIES: u16 = 64;

static PICKED: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Picks a free port that this process has not picked before.
pub(crate) fn pick() -> Result<u16> {
    let random = RandomState::new();
    let mut picked = PICKED.lock().unwrap_or_else(PoisonError::into_inner);
    for attempt in 0..TRIES {
        let span = u64::from(RANGE.end - RANGE.start);
        let offset = u16::try_from(random.hash_one(attempt) % span).unwrap_or_default();
        let port = RANGE.start + offset;
        if !picked.contains(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            picked.insert(port);
            return Ok(port);
        }
    }
    Err(Error::Io {
        doing: format!("find a free port on 127.0.0.1 between {} and {}", RANGE.start, RANGE.end),
        source: std::io::ErrorKind::AddrInUse.into(),
    })
}
