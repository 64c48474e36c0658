//! A case: a cluster, a configuration, and what happens then. Plain data, so that it can be written down, played again
//! and made smaller.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::configuration::Configuration;

/// Something that happens. Pods that were placed meanwhile get their `spec.nodeName` when the case is played.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Step {
    /// A pod looks for a node, and takes the one that our scheduler chooses.
    Schedule(Value),
    /// A pod is asked about, and takes nothing. It may have a `spec.nodeName`.
    Ask(Value),
    /// An object is created or changed.
    Apply(Value),
    /// An object is deleted.
    Delete(Value),
    /// A pod has ended, so that it takes no room any more.
    Finish(Value),
    /// A pod without a node is nominated for one.
    Nominate {
        /// The pod.
        pod: Value,
        /// The node.
        node: String,
    },
}

impl Step {
    /// The object that it is about.
    pub const fn object(&self) -> &Value {
        match self {
            Self::Schedule(object)
            | Self::Ask(object)
            | Self::Apply(object)
            | Self::Delete(object)
            | Self::Finish(object)
            | Self::Nominate { pod: object, .. } => object,
        }
    }

    /// The same step about another object.
    #[must_use]
    pub fn about(&self, object: Value) -> Self {
        match self {
            Self::Schedule(_) => Self::Schedule(object),
            Self::Ask(_) => Self::Ask(object),
            Self::Apply(_) => Self::Apply(object),
            Self::Delete(_) => Self::Delete(object),
            Self::Finish(_) => Self::Finish(object),
            Self::Nominate { node, .. } => Self::Nominate {
                pod: object,
                node: node.clone(),
            },
        }
    }
}

/// A case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The seed that it was drawn from, which also decides among equally good nodes.
    pub seed: u64,
    /// The profile.
    #[serde(default)]
    pub configuration: Configuration,
    /// The objects that are there at first.
    pub objects: Vec<Value>,
    /// What happens then.
    pub steps: Vec<Step>,
}

impl Case {
    /// How many pods it schedules or asks about.
    pub fn pods(&self) -> usize {
        let asks = |step: &&Step| matches!(step, Step::Schedule(_) | Step::Ask(_));
        self.steps.iter().filter(asks).count()
    }
}
