//! What a pod's author asks of the choice of a cluster: the scheduling constraints of its proxy.
//!
//! They come from one of two annotations: a fragment of a `PodSpec` as YAML ([`keys::PROXY_CONSTRAINTS`]), or the pod's
//! own spec ([`keys::USE_OWN_CONSTRAINTS`]); the fragment wins. A fragment is read strictly, with the position of each
//! mistake: the API server would drop a misspelt field without a word. Must not know what else makes a proxy.

mod fragment;

use pilotage_api::limits::{self, TooLong};
use pilotage_api::{bounds, keys};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::manifest::{Position, explain};

pub use fragment::Fragment;

/// How many values constraints may have: keys, labels, operators, effects and all else that each node is compared with.
const VALUES: usize = 4096;
/// How many requirements: entries of a selector, tolerations, expressions, terms, spread constraints.
const REQUIREMENTS: usize = 256;
/// How many levels they have at most.
const LEVELS: usize = 24;

/// Where a pod's proxy takes its constraints from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<'a> {
    /// The pod's author asks nothing of the cluster.
    None,
    /// The fragment in [`keys::PROXY_CONSTRAINTS`].
    Fragment(&'a str),
    /// The pod's own spec; its delegate then carries none of them.
    OwnSpec,
}

/// Constraints to be added to a proxy pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProxyConstraints {
    /// Labels that the virtual node must have.
    pub node_selector: Map<String, Value>,
    /// Taints of the virtual node that are tolerated.
    pub tolerations: Vec<Value>,
    /// Affinity over virtual nodes.
    pub affinity: Option<Value>,
    /// Spreading over virtual nodes.
    pub topology_spread_constraints: Option<Value>,
}

/// Why a pod's constraints can't be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConstraintError {
    /// The fragment is no YAML, has an unknown field or a value of the wrong type.
    #[error("annotation {}{position}: {reason}", keys::PROXY_CONSTRAINTS)]
    Fragment {
        /// Where the mistake is.
        position: Position,
        /// What it is.
        reason: String,
    },
    /// The fragment is too long.
    #[error("annotation {key}: {0}", key = keys::PROXY_CONSTRAINTS)]
    TooLong(TooLong),
    /// There are more of them than each node can be compared with.
    #[error(
        "{origin} has too many constraints: {REQUIREMENTS} selector entries, tolerations, expressions, terms and \
         spread constraints are possible, with {VALUES} values together"
    )]
    TooMany {
        /// Where they stand.
        origin: &'static str,
    },
    /// The author selects nodes that aren't virtual.
    #[error(
        "{origin} selects nodes with {}={value}, but an elected pod only runs on virtual nodes ({}={}): \
         leave that key out",
        keys::PROVIDER,
        keys::PROVIDER,
        keys::PROVIDER_VALUE
    )]
    Provider {
        /// Where it stands.
        origin: &'static str,
        /// The value asked for.
        value: String,
    },
}

impl<'a> Origin<'a> {
    /// Where the proxy of `pod` takes its constraints from.
    pub fn of(pod: &'a Value) -> Self {
        let annotations = &pod["metadata"]["annotations"];
        if let Some(text) = annotations[keys::PROXY_CONSTRAINTS].as_str() {
            return Self::Fragment(text);
        }
        // As in Admiralty, any value will do.
        match annotations.get(keys::USE_OWN_CONSTRAINTS) {
            Some(_) => Self::OwnSpec,
            None => Self::None,
        }
    }
}

impl ProxyConstraints {
    /// The constraints that the author of the source pod `pod` asks for.
    pub fn of(pod: &Value) -> Result<Self, ConstraintError> {
        let (constraints, origin) = match Origin::of(pod) {
            Origin::None => return Ok(Self::default()),
            Origin::Fragment(text) => {
                limits::text(text, limits::FRAGMENT).map_err(ConstraintError::TooLong)?;
                let fragment = Fragment::parse(text).map_err(|error| {
                    let (position, reason) = explain(&error);
                    let reason = reason
                        .replace("invalid i64", "not a whole number")
                        .replace("invalid i32", "not a whole number");
                    ConstraintError::Fragment { position, reason }
                })?;
                (
                    Self::from_spec(&fragment.to_value()),
                    keys::PROXY_CONSTRAINTS,
                )
            }
            Origin::OwnSpec => (Self::from_spec(&pod["spec"]), "spec.nodeSelector"),
        };
        if !constraints.are_few() {
            let origin = match origin {
                keys::PROXY_CONSTRAINTS => origin,
                _ => "spec",
            };
            return Err(ConstraintError::TooMany { origin });
        }
        match constraints.node_selector.get(keys::PROVIDER) {
            Some(value) if value != keys::PROVIDER_VALUE => Err(ConstraintError::Provider {
                origin,
                value: bounds::cut(value.as_str().unwrap_or_default(), limits::LABEL).to_owned(),
            }),
            _ => Ok(constraints),
        }
    }

    /// Whether each node can be compared with all of them.
    fn are_few(&self) -> bool {
        let parts = [&self.affinity, &self.topology_spread_constraints];
        let mut count = Count {
            requirements: self
                .node_selector
                .len()
                .saturating_add(self.tolerations.len()),
            values: self.node_selector.len(),
        };
        let parts = parts.into_iter().flatten().chain(&self.tolerations);
        parts.into_iter().all(|part| count.add(part, LEVELS))
            && count.requirements <= REQUIREMENTS
            && count.values <= VALUES
    }

    fn from_spec(spec: &Value) -> Self {
        let given = |field: &str| spec.get(field).filter(|value| !value.is_null()).cloned();
        Self {
            node_selector: spec["nodeSelector"]
                .as_object()
                .cloned()
                .unwrap_or_default(),
            tolerations: spec["tolerations"].as_array().cloned().unwrap_or_default(),
            affinity: given("affinity"),
            topology_spread_constraints: given("topologySpreadConstraints"),
        }
    }
}

/// What there is of constraints.
struct Count {
    requirements: usize,
    values: usize,
}

impl Count {
    fn require(&mut self, more: usize) {
        self.requirements = self.requirements.saturating_add(more);
    }

    /// Adds a part; whether it has no more than so many levels. Each object in a list is a requirement: a term, an
    /// expression.
    fn add(&mut self, value: &Value, levels: usize) -> bool {
        let Some(below) = levels.checked_sub(1) else {
            return false;
        };
        match value {
            Value::Array(items) => {
                self.require(items.iter().filter(|item| item.is_object()).count());
                items.iter().all(|item| self.add(item, below))
            }
            Value::Object(fields) => {
                // What a label selector matches by value.
                if let Some(labels) = fields.get("matchLabels").and_then(Value::as_object) {
                    self.require(labels.len());
                }
                fields.values().all(|field| self.add(field, below))
            }
            _ => {
                self.values = self.values.saturating_add(1);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests;
