//! What has changed in a picture, as it is sent. All of it, in small parts, is what a new listener gets first. Pure.

use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::rows::{Counts, Loss, Pod, Target};

/// Rows in one message.
pub(crate) const ROWS: usize = 1000;

/// What is so of all together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Head {
    /// Whether this process decides: only then it knows of pods.
    pub(crate) leads: bool,
    /// Of all pods.
    pub(crate) counts: Counts,
    /// Pods that are counted and not listed.
    pub(crate) hidden_pods: usize,
    /// Targets that aren't listed.
    pub(crate) hidden_targets: usize,
}

/// Some changes. Whoever takes in all of them, in their order, has the picture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Change {
    /// Nothing of what came before counts.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) reset: bool,
    /// When this was, in seconds since 1970, by the clock of all other times here.
    pub(crate) now: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) head: Option<Head>,
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "each")]
    pub(crate) targets_gone: Vec<Arc<str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) targets: Vec<Target>,
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "each")]
    pub(crate) pods_gone: Vec<Arc<str>>,
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "each")]
    pub(crate) pods: Vec<Arc<Pod>>,
    /// All that are remembered, the latest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) losses: Option<Vec<Loss>>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(it: &bool) -> bool {
    !it
}

fn each<T: Serialize + ?Sized, S: Serializer>(
    all: &[Arc<T>],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(all.iter().map(|it| &**it))
}

impl Change {
    /// The same in messages of at most [`ROWS`] pods.
    pub(crate) fn in_parts(mut self) -> Vec<Self> {
        if self.pods.len() <= ROWS && self.pods_gone.len() <= ROWS {
            return vec![self];
        }
        let (pods, gone) = (
            std::mem::take(&mut self.pods),
            std::mem::take(&mut self.pods_gone),
        );
        let now = self.now;
        let more = |pods: &[Arc<Pod>], pods_gone: &[Arc<str>]| Self {
            now,
            pods: pods.to_vec(),
            pods_gone: pods_gone.to_vec(),
            ..Self::default()
        };
        let gone: Vec<_> = gone.chunks(ROWS).map(|gone| more(&[], gone)).collect();
        let pods = pods.chunks(ROWS).map(|pods| more(pods, &[]));
        std::iter::once(self).chain(gone).chain(pods).collect()
    }

    /// As a message of server-sent events.
    pub(crate) fn message(&self) -> Result<String, serde_json::Error> {
        // JSON has no bare line ends.
        serde_json::to_string(self).map(|json| format!("data: {json}\n\n"))
    }
}
