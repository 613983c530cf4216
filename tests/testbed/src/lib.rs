//! A real control plane on loopback, for tests, the demo and the benches.
