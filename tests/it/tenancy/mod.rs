//! What a tenant of a shared cluster can and cannot do.

mod attack;
mod forged;
mod own_namespace_only;
mod policy;
mod quota;
