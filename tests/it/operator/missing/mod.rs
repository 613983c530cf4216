//! Pods that should exist, but that the API server refuses. The refusals are the API server's own.

mod causes;
mod controllers;
mod lifecycle;
