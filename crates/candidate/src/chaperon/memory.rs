//! What the chaperon controller remembers of one name between two decisions. All of it may be lost in a restart.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use pilotage_api::{bounds, keys};
use serde_json::Value;

use super::{
    change::Carried,
    decide::{Action, Kind, Note, Plan},
    observe::Monotonic,
};

/// First and longest wait before a failed request is sent again.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_mins(1));
/// As many UIDs of things that are gone are remembered of one name.
const MOST_GONE: usize = 32;
/// As many told notes: a refusal's text is the API server's, and may be another one each time.
const MOST_TOLD: usize = 16;

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As wanted, or nothing was left to do.
    ///
    /// A reply of ours has been folded into the store.
    Done,
    /// A live read: no pod of that name.
    NoPod,
    /// A live read: the pod of that name has this UID.
    Pod(String),
    /// The API server says no, with this message.
    Refused(String),
    /// The object moved on, or nobody knows.
    Failed(String),
}

/// What is remembered of one name.
#[derive(Debug, Default)]
pub struct Memory {
    failures: BTreeMap<Kind, (u32, Monotonic)>,
    /// The API server's newest answer to our POST, if it was no.
    refused: Option<String>,
    gone_pods: BTreeSet<String>,
    gone_chaperons: BTreeSet<String>,
    /// When the newest of them was seen going.
    orphaned_at: Option<Monotonic>,
    /// No pod of that name was there after the newest one was seen.
    absent: bool,
    /// The pod that we asked to be deleted: what comes of it, the watch will show.
    asked_to_go: Option<String>,
    /// The version on which our newest mark landed. An object that goes with its last finalizer has no newer one.
    marked: Option<String>,
    /// The pod was missing for long enough, and its chaperon doesn't say so any more: another one is due.
    remakes: bool,
    /// Changes of the pod that were carried out, or refused.
    carried: Carried,
    dirty_since: Option<Monotonic>,
    /// Since when this process has seen the chaperon say that its pod is missing.
    missing_since: Option<Monotonic>,
    copied_at: Option<Monotonic>,
    told: Vec<Note>,
}

impl Memory {
    // ---- what is seen --------------------------------------------------------------------------------------------

    /// A pod of that name is there.
    pub fn pod_applied(&mut self) {
        self.absent = false;
        self.remakes = false;
        self.refused = None;
        self.failures.remove(&Kind::Create);
    }

    /// The pod with this UID was seen going.
    pub fn pod_deleted(&mut self, uid: &str) {
        self.absent = true;
        remember(&mut self.gone_pods, uid);
    }

    /// The chaperon with this UID was seen going.
    pub fn chaperon_deleted(&mut self, uid: &str, now: Monotonic) {
        remember(&mut self.gone_chaperons, uid);
        self.orphaned_at = Some(now);
        // What comes under this name is another one.
        self.failures.clear();
        self.remakes = false;
        self.refused = None;
        self.told.clear();
        self.carried = Carried::default();
    }

    // ---- how actions end ----------------------------------------------------------------------------------------

    /// Takes in a plan that is about to be carried out.
    pub fn begin(&mut self, plan: &Plan, now: Monotonic) {
        match (plan.dirty, self.dirty_since) {
            (true, None) => self.dirty_since = Some(now),
            (false, Some(_)) => self.dirty_since = None,
            _ => {}
        }
        let since = self.missing_since.unwrap_or(now);
        self.missing_since = plan.missing.then_some(since);
        // Its POST may land whatever we hear of it: absence is to be proved anew.
        if plan.action == Some(Action::CreatePod) {
            self.absent = false;
        }
    }

    /// Takes in how a request ended.
    pub fn finish(&mut self, action: &Action, outcome: &Outcome, now: Monotonic) {
        let kind = action.kind();
        if let Action::Tell(note) = action {
            if self.told.len() >= MOST_TOLD {
                self.told.remove(0);
            }
            self.told.push(note.clone());
        }
        if let Action::LookAtPod { expected } = action {
            let gone = match outcome {
                Outcome::NoPod => true,
                Outcome::Pod(uid) => expected.as_ref().is_some_and(|expected| expected != uid),
                _ => false,
            };
            self.absent |= *outcome == Outcome::NoPod;
            if gone && let Some(expected) = expected {
                remember(&mut self.gone_pods, expected);
            }
        }
        if let Action::Change(step) = action {
            self.carried.finish(step, outcome);
        }
        if let Action::CreatePod = action {
            match outcome {
                Outcome::Refused(message) => self.refused = Some(message.clone()),
                Outcome::Done => self.refused = None,
                _ => {}
            }
        }
        if matches!(action, Action::CopyStatus(_) | Action::CopyAnnotations(_)) {
            self.dirty_since = None;
            self.copied_at = Some(now);
        }
        if let (Action::Mark(patch), Outcome::Done) = (action, outcome) {
            self.marked = patch["metadata"]["resourceVersion"]
                .as_str()
                .map(str::to_owned);
            let missing = patch["metadata"]["annotations"].get(keys::POD_MISSING_SINCE);
            self.remakes = missing.is_some_and(Value::is_null);
        }
        if let (Action::DeletePod { uid } | Action::EndUnbound { uid, .. }, Outcome::Done) =
            (action, outcome)
        {
            self.asked_to_go = Some(uid.clone());
        }
        // Of a change a refusal is the end; the next one is another.
        let is_over = matches!((action, outcome), (Action::Change(_), Outcome::Refused(_)));
        match outcome {
            _ if is_over => {
                self.failures.remove(&kind);
            }
            Outcome::Done | Outcome::NoPod => {
                self.failures.remove(&kind);
            }
            Outcome::Refused(_) | Outcome::Failed(_) | Outcome::Pod(_) => {
                let before = self.failures.get(&kind).map_or(0, |(times, _)| *times);
                let (first, longest) = RETRY;
                let retry_at = now.saturating_add(bounds::doubled(first, before, longest));
                self.failures
                    .insert(kind, (before.saturating_add(1), retry_at));
            }
        }
    }

    // ---- what decisions ask -------------------------------------------------------------------------------------

    /// Until when a request of this kind has to wait.
    pub(super) fn retry_at(&self, kind: Kind, now: Monotonic) -> Option<Monotonic> {
        self.failures
            .get(&kind)
            .map(|(_, at)| *at)
            .filter(|at| now < *at)
    }

    pub(super) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    pub(super) fn is_pod_gone(&self, uid: &str) -> bool {
        self.gone_pods.contains(uid)
    }

    pub(super) fn is_chaperon_gone(&self, uid: &str) -> bool {
        self.gone_chaperons.contains(uid)
    }

    pub(super) fn orphaned_at(&self) -> Option<Monotonic> {
        self.orphaned_at
    }

    pub(super) fn remakes(&self) -> bool {
        self.remakes
    }

    pub(super) fn carried(&self) -> &Carried {
        &self.carried
    }

    pub(super) fn is_absent(&self) -> bool {
        self.absent
    }

    pub(super) fn dirty_since(&self, now: Monotonic) -> Monotonic {
        self.dirty_since.unwrap_or(now)
    }

    pub(super) fn missing_for(&self, now: Monotonic) -> Duration {
        now.saturating_sub(self.missing_since.unwrap_or(now))
    }

    pub(super) fn copied_at(&self) -> Option<Monotonic> {
        self.copied_at
    }

    pub(super) fn was_asked_to_go(&self, uid: &str) -> bool {
        self.asked_to_go.as_deref() == Some(uid)
    }

    pub(super) fn was_marked(&self, resource_version: &str) -> bool {
        self.marked.as_deref() == Some(resource_version)
    }

    pub(super) fn was_told(&self, note: &Note) -> bool {
        self.told.contains(note)
    }
}

/// Proofs don't age, but a name that is used again and again must not fill the memory: the forgotten ones cost a live
/// read, no safety.
fn remember(set: &mut BTreeSet<String>, uid: &str) {
    if set.len() >= MOST_GONE {
        set.clear();
    }
    set.insert(uid.to_owned());
}
