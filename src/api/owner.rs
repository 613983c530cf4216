//! The controller that pods belong to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Owner {
    /// The kind, such as Deployment.
    pub kind: String,
    /// The name, in the pod's namespace.
    pub name: String,
}
