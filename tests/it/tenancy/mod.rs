//! What a tenant of a shared cluster can and cannot do.

mod policy;
