//! The `orchestr` command.
fn main() {}
