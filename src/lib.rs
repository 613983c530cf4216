//! Which pods of a cluster are broken, and why.
