//! What is known of one pod and one target, as it is told and as it is shown. Pure.

use serde::{Serialize, Serializer};

use crate::text::shown;

/// Names of Kubernetes are no longer.
const LONGEST_NAME: usize = 253;
/// What is said of a pod or a target is cut behind so many bytes.
const LONGEST_WHY: usize = 300;

/// How far a pod has come, in the order in which a person wants to see them: trouble first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// It was granted to a target that can't be reached.
    Lost,
    /// Nobody is asked for it now.
    Waiting,
    /// Targets are asked.
    Asked,
    /// A target holds a node for it.
    Reserved,
    /// A target was granted it.
    Granted,
    /// It is bound to its virtual node.
    Running,
    /// It has succeeded or failed.
    Ended,
}

impl Stage {
    /// Each of them, in their order.
    pub const ALL: [Self; 7] = [
        Self::Lost,
        Self::Waiting,
        Self::Asked,
        Self::Reserved,
        Self::Granted,
        Self::Running,
        Self::Ended,
    ];

    /// Whether nothing has to happen to the pod any more.
    pub(crate) fn is_settled(self) -> bool {
        matches!(self, Self::Running | Self::Ended)
    }
}

/// How many pods are in each stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts([usize; Stage::ALL.len()]);

impl Counts {
    pub(crate) fn add(&mut self, stage: Stage) {
        let count = &mut self.0[stage as usize];
        *count = count.saturating_add(1);
    }

    pub(crate) fn remove(&mut self, stage: Stage) {
        let count = &mut self.0[stage as usize];
        *count = count.saturating_sub(1);
    }

    pub(crate) fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

/// What is told of a pod.
#[derive(Clone, Copy, Debug)]
pub struct PodSeen<'a> {
    /// UID.
    pub uid: &'a str,
    /// Namespace.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// How far it has come.
    pub stage: Stage,
    /// The virtual node of the target that it is at, or may be; empty: none.
    pub at: &'a str,
    /// Why it is there and no further.
    pub why: &'a str,
    /// Since when, in seconds since 1970, if it has been there before anybody looked.
    pub since: Option<i64>,
}

/// A pod as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Pod {
    pub(crate) uid: String,
    #[serde(rename = "ns")]
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) stage: Stage,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) at: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) why: String,
    pub(crate) since: i64,
}

impl Pod {
    pub(crate) fn new(seen: &PodSeen<'_>, since: i64) -> Self {
        Self {
            uid: shown(seen.uid, LONGEST_NAME),
            namespace: shown(seen.namespace, LONGEST_NAME),
            name: shown(seen.name, LONGEST_NAME),
            stage: seen.stage,
            at: shown(seen.at, LONGEST_NAME),
            why: shown(seen.why, LONGEST_WHY),
            since,
        }
    }
}

/// Whether a target can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It answers.
    Connected,
    /// Nothing has been heard of it yet.
    Connecting,
    /// It answers, and doesn't let us see our pods.
    Unseen,
    /// It doesn't answer.
    Lost,
    /// There is no such Target any more.
    Gone,
}

/// An amount that a target has, and what of it is free; written as the numbers, or nothing where one isn't known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Free.
    pub free: Option<i64>,
    /// All that there is.
    pub all: Option<i64>,
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // A script counts no further without rounding.
        let exact = |it: i64| it.clamp(0, (1 << 53) - 1);
        (self.free.map(exact), self.all.map(exact)).serialize(serializer)
    }
}

/// What a virtual node shows of its target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSeen {
    /// Since when it is ready, or isn't, in seconds since 1970.
    pub since: Option<i64>,
    /// Why it isn't ready; empty: it is.
    pub why: String,
    /// No new pods go there.
    pub drained: bool,
    /// In thousandths of a processor.
    pub cpu: Amount,
    /// In bytes.
    pub memory: Amount,
    /// How many more pods may run there.
    pub pods: Amount,
}

impl NodeSeen {
    pub(crate) fn bounded(mut self) -> Self {
        self.why = shown(&self.why, LONGEST_WHY);
        self
    }
}

/// A target as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Target {
    pub(crate) node: String,
    pub(crate) state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<i64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) why: String,
    pub(crate) drained: bool,
    pub(crate) cpu: Amount,
    pub(crate) memory: Amount,
    pub(crate) pods: Amount,
    pub(crate) counts: Counts,
}

impl Target {
    pub(crate) fn name(node: &str) -> String {
        shown(node, LONGEST_NAME)
    }
}

/// A pod that its target doesn't have any more, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Loss {
    pub(crate) pod: String,
    pub(crate) why: String,
    pub(crate) when: i64,
}

impl Loss {
    pub(crate) fn new(namespace: &str, name: &str, why: &str, when: i64) -> Self {
        let pod = format!(
            "{}/{}",
            shown(namespace, LONGEST_NAME),
            shown(name, LONGEST_NAME)
        );
        let why = shown(why, LONGEST_WHY);
        Self { pod, why, when }
    }
}
