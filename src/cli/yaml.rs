//! How YAML that kubectl has written is read.

/// How deep it may nest; pods come to about a dozen levels.
const MAX_DEPTH: usize = 64;
/// How many nodes the aliases of a document may expand to; kubectl writes no aliases.
const MAX_ALIASED: usize = 100_000;

/// Without a limit of the length: the output for a cluster may be millions of lines. Nesting and aliases have one, because a
/// short text can take any amount of memory with them.
pub(super) fn options() -> serde_yaml::Options {
    serde_yaml::options! {
        budget: serde_yaml::budget! {
            max_reader_input_bytes: None,
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
            max_depth: MAX_DEPTH,
        },
        alias_limits: serde_yaml::alias_limits! { max_total_replayed_events: MAX_ALIASED },
        with_snippet: false,
    }
}
