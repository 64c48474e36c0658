//! What feedback remembers of one parent between two decisions: requests, proofs, and since when something is as it is.
//! It decides nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::OnceLock,
    time::Duration,
};

use pilotage_api::record::Record;

use super::{
    Plan,
    action::{Action, Key},
    change,
};
use crate::{
    gone::Gone,
    lost::Stuck,
    requests::{Outcome, Requests},
    settings::Settings,
    targets::Targets,
    view::{ChaperonView, Monotonic, ProxyView},
};

/// What is remembered of one parent UID between two decisions. A restart may lose all of it.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pub(super) requests: Requests<Key>,
    pub(super) gone: Gone,
    pub(super) leftover_since: BTreeMap<(String, String), Monotonic>,
    pub(super) copied_at: Option<Monotonic>,
    pub(super) annotated_at: Option<Monotonic>,
    pub(super) differs_since: Option<Monotonic>,
    pub(super) stuck: Stuck,
    /// Since when the pod has been ending: from then on its chaperons are asked to.
    pub(super) ending_since: Option<Monotonic>,
    /// How long its delegate may take to end, as its author said; read when it is asked for.
    pub(super) grace: OnceLock<Duration>,
    pub(super) carried: Option<change::Carried>,
    /// Keys of annotations that the pod's author set when it was created; read when they are asked for.
    pub(super) authored: OnceLock<BTreeSet<String>>,
}

impl Memory {
    /// Takes in what is seen now, before a decision: starts and stops the clocks.
    pub fn see(
        &mut self,
        proxy: Option<&ProxyView>,
        chaperons: &[ChaperonView],
        targets: &Targets,
        now: Monotonic,
    ) {
        let record = proxy.and_then(|proxy| proxy.record.record());
        self.gone.trim(record);
        let recorded = record.and_then(|it| chaperons.iter().find(|c| it.names(&c.node, &c.uid)));
        // While it can't be reached, its Pilotage couldn't have answered either.
        let recorded = recorded.filter(|c| targets.is_reachable(&c.node));
        self.stuck.see(recorded, now);
        let ending = proxy.is_some_and(|proxy| proxy.ending);
        self.ending_since = ending.then(|| self.ending_since.unwrap_or(now));
    }

    /// Takes in what was decided; each of its actions [begins](Self::begin) when it is sent.
    pub fn decided(&mut self, plan: &Plan, now: Monotonic) {
        self.requests.trim(now);
        self.differs_since = plan.differs.then(|| self.differs_since.unwrap_or(now));
        self.leftover_since
            .retain(|place, _| plan.leftovers.contains(place));
        for place in &plan.leftovers {
            self.leftover_since.entry(place.clone()).or_insert(now);
        }
    }

    /// An action is sent; `judged_on`: see [`Plan::judged_on`].
    pub fn begin(&mut self, action: &Action, judged_on: Option<&str>, now: Monotonic) {
        let key = action.key();
        let judged_on = judged_on.filter(|_| key.is_the_pods());
        self.requests.begin(key, judged_on);
        match action {
            Action::CopyStatus { .. } => self.copied_at = Some(now),
            Action::CopyAnnotations { .. } => self.annotated_at = Some(now),
            _ => {}
        }
    }

    /// Takes in how a request ended.
    pub fn finish(
        &mut self,
        action: &Action,
        outcome: &Outcome,
        settings: &Settings,
        now: Monotonic,
    ) {
        // Whatever was sent about this UID, the API server answered that it doesn't exist.
        if let (Outcome::Gone, Key::Chaperon { node, uid }) = (outcome, action.key()) {
            match action {
                Action::ConfirmGone { plain: true, .. } => self.gone.with_pods(&node, &uid),
                _ => self.gone.chaperon(&node, &uid),
            }
        }
        let mut outcome = outcome;
        if let Some(carried) = change::Carried::by(action, outcome) {
            self.carried = Some(carried);
            // A refusal is the end of a change; the next one is another, and waits for nothing.
            outcome = &Outcome::Done;
        }
        self.requests.finish(action.key(), outcome, settings, now);
    }

    /// A DELETED event, or a live read, proved that this chaperon is gone.
    pub fn confirm_gone(&mut self, node: &str, uid: &str) {
        self.gone.chaperon(node, uid);
    }

    /// Forgets old proofs, but not the one that this record may need. Who only stands by hears of each end, and never
    /// decides.
    pub(crate) fn trim_proofs(&mut self, record: Option<&Record>) {
        self.gone.trim(record);
    }

    /// Whether this chaperon is proved to be gone.
    pub fn is_gone(&self, node: &str, uid: &str) -> bool {
        self.gone.is_absent(node, uid)
    }

    /// Whether it is proved that no delegate of the recorded chaperon is left.
    pub fn is_over(&self, record: &Record) -> bool {
        self.gone.proves_end_of(record)
    }
}
