//! What a process remembers of one proxy pod between two decisions. A restart may lose all of it.
//!
//! It holds timers, requests under way and facts that were *proved* (a chaperon's UID is gone). No rule of safety reads
//! anything else from here.

use std::collections::{BTreeMap, BTreeSet};

use pilotage_api::record::Record;

use crate::{
    gone::Gone,
    lost::{Stuck, Wait},
    plan::{Action, ActionKey, ChoiceFate, Gate, Note, Plan, Words},
    requests::{Outcome, Readiness, Requests},
    settings::Settings,
    unfit::Unfit,
    view::{ChaperonView, Monotonic},
};

/// So many writes without an answer in a row are no accident any more: each of them was tried for seconds.
const LASTING: u32 = 2;

/// So many grants of one pod by plain schedulers are remembered of each target until their ends are proved. One that
/// tells of more keeps no other target's from being remembered.
const MOST_PLAIN: usize = 8;

/// What is remembered of one proxy pod.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    requests: Requests<ActionKey>,
    gone: Gone,
    /// Chaperons that Admiralty's scheduler granted, or may have, by virtual node and UID, with their names: nobody
    /// else is asked before the end of each is proved.
    plain: BTreeMap<(String, String), String>,
    /// Why asking a target failed.
    ask_refusals: BTreeMap<String, String>,
    /// Why the proxy pod couldn't be written.
    write_refusal: Option<String>,
    /// How many writes of it in a row had no answer.
    unanswered_writes: u32,
    /// When each target was asked by this process, or first seen asked.
    asked_at: BTreeMap<String, Monotonic>,
    /// Targets that were left after a grant: asked again only behind the others.
    left: BTreeSet<String>,
    unfit: Unfit,
    waves: u32,
    last_wave_at: Option<Monotonic>,
    first_reserved_at: Option<Monotonic>,
    /// From which targets others keep the pod away, and since when from just these.
    kept_away: Option<(Vec<String>, Monotonic)>,
    /// Since when the pod has waited for its turn, until somebody holds a node for it.
    queued_since: Option<Monotonic>,
    /// The record, and since when its target has had the time to act on it.
    recorded: Option<(Record, Monotonic)>,
    stuck: Stuck,
    /// When this process first asked the target to end what this record names.
    end_asked: Option<(Record, Monotonic)>,
    waiting_for: Option<(Note, Monotonic)>,
    /// What its condition should say, as long as that isn't written.
    words: Option<Words>,
    told: Option<Note>,
    /// The record when a choice last failed: whoever chooses after that knows of its end.
    told_of: Option<Record>,
    /// The record of whose end its author was told.
    released: Option<Record>,
}

impl Memory {
    /// Takes in what is seen now, before a decision: starts and stops the clocks.
    pub(crate) fn see(&mut self, record: Option<&Record>, asked: &[&str], now: Monotonic) {
        // A target that can't be reached can't bind either: when it answers again, its time begins anew.
        let was_held = matches!(&self.waiting_for, Some((Note::Held(_), _)));
        match (record, &self.recorded) {
            (Some(seen), Some((known, _))) if seen == known && !was_held => {}
            (Some(seen), _) => self.recorded = Some((seen.clone(), now)),
            (None, _) => self.recorded = None,
        }
        self.gone.trim(record);
        self.requests.trim(now);
        let requests = &self.requests;
        let under_way = |node: &String| requests.is_under_way(&ActionKey::Ask(node.clone()));
        self.asked_at
            .retain(|node, _| asked.contains(&node.as_str()) || under_way(node));
        for node in asked {
            self.asked_at.entry((*node).to_owned()).or_insert(now);
        }
    }

    /// Takes in which chaperons of a pod without record Admiralty's scheduler granted, or may have.
    pub(crate) fn see_plain<'a>(&mut self, granted: impl Iterator<Item = &'a ChaperonView>) {
        for chaperon in granted {
            let place = (chaperon.node.clone(), chaperon.uid.clone());
            let of_target = self.plain.keys().filter(|(node, _)| *node == place.0);
            if of_target.count() < MOST_PLAIN {
                self.plain.insert(place, chaperon.name.clone());
            }
        }
        let gone = &self.gone;
        (self.plain).retain(|(node, uid), _| !gone.is_without_pods(node, uid));
    }

    /// It has a record by now, which says whose end is to be proved.
    pub(crate) fn forget_plain(&mut self) {
        self.plain.clear();
    }

    /// Virtual node, UID and name of each that may have left a pod.
    pub(crate) fn plain(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let all = self.plain.iter();
        all.map(|((node, uid), name)| (node.as_str(), uid.as_str(), name.as_str()))
    }

    /// Takes in from which targets other pods keep the pod away until those come that are on their way. Each change is
    /// a sign that they come.
    pub(crate) fn see_kept_away(&mut self, nodes: Vec<String>, now: Monotonic) {
        self.kept_away = match self.kept_away.take() {
            _ if nodes.is_empty() => None,
            Some((known, since)) if known == nodes => Some((known, since)),
            _ => Some((nodes, now)),
        };
    }

    /// Since when it is kept away from just those.
    pub(crate) fn kept_away_since(&self) -> Option<Monotonic> {
        self.kept_away.as_ref().map(|(_, since)| *since)
    }

    /// Takes in whether the record stands, and whether anybody holds a node that could be chosen.
    pub(crate) fn see_holds(&mut self, stands: bool, holds: bool, now: Monotonic) {
        if stands || holds {
            self.queued_since = None;
        }
        self.first_reserved_at = holds.then(|| self.first_reserved_at.unwrap_or(now));
    }

    /// Takes in what was decided; each of its actions [begins](Self::begin) when it is sent.
    pub fn decided(&mut self, plan: &Plan, now: Monotonic) {
        if plan.asks() {
            self.waves = self.waves.saturating_add(1);
            self.last_wave_at = Some(now);
        }
        match &plan.gate {
            Gate::Open => self.waiting_for = None,
            Gate::Closed(note) => match &self.waiting_for {
                Some((known, _)) if known == note => {}
                _ => self.waiting_for = Some((note.clone(), now)),
            },
        }
        if !plan.queue.is_empty() {
            self.queued_since.get_or_insert(now);
        }
        if let Some(note) = &plan.tell {
            self.told = Some(note.clone());
        }
        if let (ChoiceFate::Failed(_), Some((record, _))) = (&plan.choice, &self.recorded) {
            self.told_of = Some(record.clone());
        }
        if let (Some(_), Some((record, _))) = (&plan.released, &self.recorded) {
            self.released = Some(record.clone());
        }
    }

    /// An action is sent.
    pub fn begin(&mut self, action: &Action, now: Monotonic) {
        self.requests.begin(action.key(), action.judged_on());
        match action {
            Action::Ask { node } => {
                self.asked_at.insert(node.clone(), now);
            }
            Action::GiveUp { node, uid, .. } | Action::DeleteChaperon { node, uid, .. } => {
                self.ask_end(node, uid, now);
            }
            _ => {}
        }
        if action.writes_proxy() {
            // It isn't so any more.
            self.words = None;
        }
    }

    /// Counts from the first time that the end of what the record names is asked for, whatever becomes of that.
    fn ask_end(&mut self, node: &str, uid: &str, now: Monotonic) {
        let Some((record, _)) = self.recorded.as_ref().filter(|(it, _)| it.names(node, uid)) else {
            return;
        };
        if self.end_asked_at(record).is_none() {
            self.end_asked = Some((record.clone(), now));
        }
    }

    /// When this process first asked the target to end what this very record names.
    pub(crate) fn end_asked_at(&self, record: &Record) -> Option<Monotonic> {
        let (known, at) = self.end_asked.as_ref()?;
        (known == record).then_some(*at)
    }

    /// Takes in how a request ended.
    pub fn finish(
        &mut self,
        action: &Action,
        outcome: &Outcome,
        settings: &Settings,
        now: Monotonic,
    ) {
        self.requests.finish(action.key(), outcome, settings, now);
        if let Action::Ask { node } = action {
            match outcome {
                Outcome::Refused(reason) => {
                    self.ask_refusals.insert(node.clone(), reason.clone());
                }
                // No answer is one, too, until the question has been sent again.
                Outcome::Unknown(why) => {
                    let reason = format!("the target couldn't be asked: {why}");
                    self.ask_refusals.insert(node.clone(), reason);
                }
                _ => {
                    self.ask_refusals.remove(node);
                }
            }
        }
        let ended = matches!(outcome, Outcome::Done | Outcome::Refused(_));
        if let (Action::Say { words, .. }, true) = (action, ended)
            && self.words.as_ref() == Some(words)
        {
            self.words = None;
        }
        if action.writes_proxy() {
            match outcome {
                Outcome::Refused(reason) => self.write_refusal = Some(reason.clone()),
                Outcome::Unknown(why) => {
                    self.unanswered_writes = self.unanswered_writes.saturating_add(1);
                    if self.unanswered_writes >= LASTING {
                        self.write_refusal.get_or_insert_with(|| why.clone());
                    }
                }
                _ => (self.write_refusal, self.unanswered_writes) = (None, 0),
            }
        }
        // Whatever was sent about this UID, the API server answered that it doesn't exist.
        if let (Outcome::Gone, ActionKey::Chaperon { node, uid }) = (outcome, action.key()) {
            match action {
                Action::ConfirmGone { plain: true, .. } => self.gone.with_pods(&node, &uid),
                _ => self.gone.chaperon(&node, &uid),
            }
        }
    }

    /// What the condition should say from now on; nothing else, if nothing.
    pub(crate) fn say(&mut self, words: Option<Words>) {
        self.words = words;
    }

    pub(crate) fn words(&self) -> Option<&Words> {
        self.words.as_ref()
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

    /// Forgets targets that aren't there any more.
    pub(crate) fn keep_targets(&mut self, is_there: impl Fn(&str) -> bool) {
        self.plain.retain(|(node, _), _| is_there(node));
        self.ask_refusals.retain(|node, _| is_there(node));
        self.left.retain(|node| is_there(node));
        self.unfit.retain(is_there);
    }

    /// Takes in the granted chaperon of a pod without reservation.
    pub(crate) fn see_unreserved(&mut self, granted: &ChaperonView, now: Monotonic) {
        self.unfit.see(granted, now);
    }

    /// Why a target isn't chosen for a pod without reservation now, and until when.
    pub(crate) fn unfit(&self, node: &str, now: Monotonic) -> Option<(&str, Monotonic)> {
        self.unfit.of(node, now)
    }

    /// A granted target was left.
    pub(crate) fn leave(&mut self, node: &str) {
        self.left.insert(node.to_owned());
    }

    pub(crate) fn was_left(&self, node: &str) -> bool {
        self.left.contains(node)
    }

    /// When `action` may be sent: now, later, or when what is under way has ended.
    pub(crate) fn may_send(&self, action: &Action, now: Monotonic) -> Readiness {
        // Each would make the version old that the other one names.
        let rival = match action.key() {
            ActionKey::Proxy => Some(ActionKey::Words),
            ActionKey::Words => Some(ActionKey::Proxy),
            ActionKey::Ask(_) | ActionKey::Chaperon { .. } => None,
        };
        if rival.is_some_and(|rival| self.requests.is_under_way(&rival)) {
            return Readiness::UnderWay;
        }
        self.requests
            .readiness(&action.key(), action.judged_on(), now)
    }

    pub(crate) fn ask_refusal(&self, node: &str) -> Option<&str> {
        self.ask_refusals.get(node).map(String::as_str)
    }

    /// Why writing the proxy pod failed last, if it was refused.
    pub(crate) fn write_refusal(&self) -> Option<&str> {
        self.write_refusal.as_deref()
    }

    pub(crate) fn ask_under_way(&self, node: &str) -> bool {
        self.requests.is_under_way(&ActionKey::Ask(node.to_owned()))
    }

    /// Targets that are being asked right now.
    pub(crate) fn asks_under_way(&self) -> impl Iterator<Item = &str> {
        let nodes = self.asked_at.keys().map(String::as_str);
        nodes.filter(|node| self.ask_under_way(node))
    }

    pub(crate) fn asked_at(&self, node: &str) -> Option<Monotonic> {
        self.asked_at.get(node).copied()
    }

    pub(crate) fn waves(&self) -> u32 {
        self.waves
    }

    pub(crate) fn last_wave_at(&self) -> Option<Monotonic> {
        self.last_wave_at
    }

    pub(crate) fn first_reserved_at(&self) -> Option<Monotonic> {
        self.first_reserved_at
    }

    /// Since when the pod has waited for its turn, whomever it has asked meanwhile.
    pub(crate) fn queued_since(&self) -> Option<Monotonic> {
        self.queued_since
    }

    /// Since when the recorded target has had the time to bind: it could be reached, and the record said the same.
    pub(crate) fn recorded_since(&self) -> Option<Monotonic> {
        self.recorded.as_ref().map(|(_, since)| *since)
    }

    /// Takes in the recorded chaperon of a pod that isn't placed yet.
    pub(crate) fn see_recorded(&mut self, recorded: Option<&ChaperonView>, now: Monotonic) {
        self.stuck.see(recorded, now);
    }

    /// See [`Stuck`].
    pub(crate) fn stuck(&self, record: &Record) -> Option<Wait> {
        self.stuck.of(record)
    }

    /// Since when the pod has waited for `note`; `now` if only from now on.
    pub(crate) fn waiting_since(&self, note: &Note, now: Monotonic) -> Monotonic {
        match &self.waiting_for {
            Some((known, since)) if known == note => *since,
            _ => now,
        }
    }

    /// Whether a choice has failed while the chaperon of this record was recorded.
    pub(crate) fn was_told_of(&self, record: &Record) -> bool {
        let told_of = self.told_of.as_ref();
        told_of.is_some_and(|told| record.names(&told.node, &told.chaperon_uid))
    }

    /// Whether the author was told that this record binds nobody any more.
    pub(crate) fn was_released(&self, record: &Record) -> bool {
        self.released.as_ref() == Some(record)
    }

    pub(crate) fn was_told(&self, note: &Note) -> bool {
        self.told.as_ref() == Some(note)
    }
}

#[cfg(test)]
mod tests {
    use super::Memory;

    #[test]
    fn targets_that_have_gone_are_forgotten() {
        let mut memory = Memory::default();
        for node in ["there", "gone"] {
            memory.ask_refusals.insert(node.to_owned(), "no".to_owned());
            memory.leave(node);
        }
        memory.keep_targets(|node| node == "there");
        assert_eq!(memory.ask_refusal("there"), Some("no"));
        assert!(memory.was_left("there"));
        assert!(memory.ask_refusal("gone").is_none() && !memory.was_left("gone"));
    }
}
