//! Whom to ask next, and when enough answers are in.
//!
//! A wave is a few targets asked at once: one while the best one's free room surely fits and it isn't known to be
//! silent, else three. It is widened when all of it refused, or after a short silence that doubles; a target that
//! answers others isn't silent. Who would have to evict others is chosen only if all that can be asked have answered,
//! or were waited for with patience, and nobody has room: the one to whom it costs least. Nobody is asked who has too
//! many pods on their way ([`crate::window`]), nor for a pod that others keep away ([`crate::others`]).

use std::collections::BTreeMap;

use pilotage_api::{preempts::Preempts, record::Record};

use crate::{
    class::Class,
    memory::Memory,
    plan::{Action, Answer, ChoiceFate, Gate, Note, Plan},
    record::is_offer,
    requests::Readiness,
    settings::{LONGEST_BUSY, LONGEST_SILENCE, Settings},
    targets::Targets,
    view::{ChaperonView, Monotonic, ProxyView},
    window::Windows,
};

/// A target that the pod may be asked for, best first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// The virtual node.
    pub node: String,
    /// Its published free room fits the pod, whatever else was asked there, and it isn't silent.
    pub surely_fits: bool,
    /// How far back it stands; those of one class are equal until a cycle scores them.
    pub class: u32,
    /// Other pods keep the pod away until those come that are on their way.
    pub kept_away: bool,
}

/// So much farther back is a target that other pods will take, if they come: behind each class that a pipeline makes.
pub(crate) const CROWDED: u32 = 1 << 30;

/// Why a target that could take the pod isn't asked.
pub(crate) const LEAVING: &str = "its Target is being deleted";

/// What a wave's decision reads.
pub(crate) struct Asking<'a> {
    pub(crate) proxy: &'a ProxyView,
    /// The dead record.
    pub(crate) record: Option<&'a Record>,
    pub(crate) windows: &'a Windows,
    pub(crate) ranking: &'a [Ranked],
    pub(crate) chaperons: &'a [ChaperonView],
    pub(crate) targets: &'a Targets,
    pub(crate) memory: &'a Memory,
    pub(crate) settings: &'a Settings,
    pub(crate) now: Monotonic,
}

/// What it decides.
pub(crate) struct Wave {
    pub(crate) asks: Vec<Action>,
    pub(crate) gate: Gate,
    pub(crate) answers: BTreeMap<String, Answer>,
    pub(crate) queue: Vec<String>,
    pub(crate) wake_at: Option<Monotonic>,
}

/// Those that were asked and may still answer.
pub(crate) fn waited_for(answers: &BTreeMap<String, Answer>) -> Vec<String> {
    let waiting = answers.iter().filter(|(_, it)| **it == Answer::Waiting);
    waiting.map(|(node, _)| node.clone()).collect()
}

impl From<Wave> for Plan {
    fn from(wave: Wave) -> Self {
        Self {
            actions: wave.asks,
            gate: wave.gate,
            answers: wave.answers,
            choice: ChoiceFate::Undecided,
            queue: wave.queue,
            tell: None,
            released: None,
            wake_at: wave.wake_at,
        }
    }
}

impl Asking<'_> {
    /// What each ranked or asked target says.
    pub(crate) fn answers(&self) -> BTreeMap<String, Answer> {
        let mut answers = BTreeMap::new();
        for ranked in self.ranking {
            let node = &ranked.node;
            if !self.targets.is_reachable(node) {
                answers.insert(node.clone(), Answer::Unreachable);
            } else if self.targets.is_leaving(node) {
                answers.insert(node.clone(), Answer::Refused(LEAVING.to_owned()));
            } else if let Some(reason) = self.memory.ask_refusal(node) {
                answers.insert(node.clone(), Answer::Refused(reason.to_owned()));
            } else if self.memory.ask_under_way(node) {
                answers.insert(node.clone(), self.waiting(node));
            }
        }
        for chaperon in self.chaperons {
            let answer = match &chaperon.class {
                _ if !self.targets.is_reachable(&chaperon.node) => Answer::Unreachable,
                _ if self.targets.is_leaving(&chaperon.node) => Answer::Refused(LEAVING.to_owned()),
                // Choosing what was given up would change nothing.
                _ if is_offer(chaperon, self.record) => match chaperon.marks.preempts {
                    None => Answer::Reserved,
                    Some(preempts) => Answer::Outbid(preempts),
                },
                Class::Refused(reason) | Class::VoidRefused(reason) => {
                    Answer::Refused(reason.clone())
                }
                Class::Ending
                | Class::Reserved(_)
                | Class::PlainReserved
                | Class::Missing
                | Class::Bound
                | Class::Granted(_)
                | Class::VoidReserved(_)
                | Class::Asked
                | Class::PlainGranted => self.waiting(&chaperon.node),
            };
            answers.insert(chaperon.node.clone(), answer);
        }
        answers
    }

    fn waiting(&self, node: &str) -> Answer {
        let since = self.memory.asked_at(node).unwrap_or(self.now);
        if self.now >= since.saturating_add(self.settings.patience) {
            Answer::Silent
        } else {
            Answer::Waiting
        }
    }

    /// Targets that can be asked now, best first, and when one more can; those left after a grant come last.
    pub(crate) fn unasked<'b>(
        &'b self,
        answers: &BTreeMap<String, Answer>,
    ) -> (Vec<&'b Ranked>, Option<Monotonic>) {
        let mut retry_at = None::<Monotonic>;
        let mut next: Vec<_> = self.ranking.iter().collect();
        next.retain(|ranked| {
            let node = &ranked.node;
            // A failed ask is sent again when its time has come.
            let failed = self.memory.ask_refusal(node).is_some()
                && self.targets.is_reachable(node)
                && !self.targets.is_leaving(node)
                && !self.chaperons.iter().any(|c| c.node == *node);
            let ask = Action::Ask { node: node.clone() };
            match self.memory.may_send(&ask, self.now) {
                _ if ranked.kept_away || answers.contains_key(node) && !failed => false,
                Readiness::Now => true,
                Readiness::UnderWay => false,
                Readiness::At(at) => {
                    retry_at = Some(retry_at.map_or(at, |other| other.min(at)));
                    false
                }
            }
        });
        next.sort_by_key(|ranked| self.memory.was_left(&ranked.node));
        (next, retry_at)
    }

    fn class(&self, node: &str) -> Option<u32> {
        let ranked = self.ranking.iter().find(|ranked| ranked.node == node)?;
        Some(ranked.class)
    }

    fn wave_size(&self, next: &[&Ranked]) -> usize {
        let sure = next.first().is_some_and(|best| best.surely_fits);
        match (self.settings.ask_all, sure) {
            (true, _) => next.len(),
            (false, true) => 1,
            (false, false) => self.settings.wave,
        }
    }

    /// How long the wave after `earlier` ones may be silent.
    fn silence(&self, earlier: u32) -> Monotonic {
        let doubled = self.settings.silence.saturating_mul(1 << earlier.min(10));
        doubled.min(LONGEST_SILENCE.max(self.settings.silence))
    }

    /// When the silence of the newest wave becomes too long: of those that were asked, nobody has answered anything.
    fn silence_over(&self, waiting: &[String]) -> Option<Monotonic> {
        let earlier = self.memory.waves().saturating_sub(1);
        let asked = self.memory.last_wave_at()?;
        let since = |node: &String| self.targets.silent_since(node, asked, LONGEST_BUSY);
        let since = waiting.iter().map(since).max().unwrap_or(asked);
        Some(since.saturating_add(self.silence(earlier)))
    }

    /// Splits those that can be asked into those that may be asked now and those of whom too much is asked already.
    fn by_room<'b>(&self, next: Vec<&'b Ranked>) -> (Vec<&'b Ranked>, Vec<&'b Ranked>) {
        let has_room = |ranked: &&Ranked| self.windows.has_room(&ranked.node, &self.proxy.ticket);
        let (mut open, mut full): (Vec<_>, Vec<_>) = next.into_iter().partition(has_room);
        // A better one that is merely busy isn't passed over for one that isn't.
        let standing = |ranked: &&Ranked| (self.memory.was_left(&ranked.node), ranked.class);
        let busy = full
            .iter()
            .filter(|ranked| self.is_waited_for(&ranked.node));
        if let (Some(best), false) = (busy.map(standing).min(), self.settings.ask_all) {
            open.retain(|ranked| standing(ranked) <= best);
            full.retain(|ranked| standing(ranked) <= best);
        }
        (open, full)
    }

    /// When the pod has waited long enough for targets that are merely busy.
    pub(crate) fn turn_over(&self) -> Monotonic {
        let since = self.memory.queued_since().unwrap_or(self.now);
        since.saturating_add(LONGEST_BUSY)
    }

    /// Whether a target without room is merely busy, and worth waiting for.
    fn is_waited_for(&self, node: &str) -> bool {
        self.now < self.turn_over() && self.windows.is_busy(node, self.now)
    }

    /// How long others are waited for that are on their way, and will leave the pod a target when they have come: as
    /// long as for an answer, while nothing moves.
    fn others_until(&self) -> Option<Monotonic> {
        let since = self.memory.kept_away_since()?;
        let until = since.saturating_add(self.settings.silence);
        (self.now < until).then_some(until)
    }

    /// When the first of those that were asked isn't waited for any longer.
    pub(crate) fn patience_over(&self, waiting: &[String]) -> Option<Monotonic> {
        let asked = waiting.iter().filter_map(|node| self.memory.asked_at(node));
        let over = asked.map(|at| at.saturating_add(self.settings.patience));
        over.min()
    }

    /// Decides the next wave and whether a scheduling cycle may run.
    pub(crate) fn decide(&self) -> Wave {
        let mut answers = self.answers();
        let waiting = waited_for(&answers);
        // A node that doesn't suit any more can't be chosen, whatever its target holds.
        let reserved = |ranked: &&Ranked| answers.get(&ranked.node) == Some(&Answer::Reserved);
        let holders = self.ranking.iter().filter(reserved);
        let (kept, holders): (Vec<_>, Vec<_>) = holders.partition(|ranked| ranked.kept_away);
        let holders = holders.iter();
        if let Some(best) = holders.map(|ranked| ranked.class).min() {
            // Those that would lose anyway aren't waited for.
            let mut waiting = waiting;
            waiting.retain(|node| self.class(node).is_none_or(|class| class <= best));
            return self.settle(answers, waiting);
        }
        let others_until = self.others_until();
        if let Some(at) = others_until.filter(|_| !kept.is_empty()) {
            return Wave {
                asks: Vec::new(),
                gate: Gate::Closed(Note::Others),
                answers,
                queue: Vec::new(),
                wake_at: Some(at),
            };
        }
        let (next, retry_at) = self.unasked(&answers);
        let (mut open, full) = self.by_room(next);
        // Neither is a better one passed over that others leave in a moment.
        let left_soon = self.ranking.iter().filter(|ranked| ranked.kept_away);
        let left_soon = left_soon.filter(|ranked| !answers.contains_key(&ranked.node));
        let best = left_soon.map(|ranked| ranked.class).min();
        let best = best.filter(|_| others_until.is_some());
        open.retain(|ranked| best.is_none_or(|best| ranked.class <= best));
        let silence_over = self.silence_over(&waiting);
        let widen = waiting.is_empty() || silence_over.is_none_or(|at| self.now >= at);
        let mut asks = Vec::new();
        if widen {
            let size = self.wave_size(&open);
            asks.extend(open.iter().take(size).map(|r| Action::Ask {
                node: r.node.clone(),
            }));
        }
        let queue: Vec<String> = if widen && asks.is_empty() {
            full.iter().map(|ranked| ranked.node.clone()).collect()
        } else {
            Vec::new()
        };
        let turn_over = Some(self.turn_over()).filter(|at| !queue.is_empty() && *at > self.now);
        let patience_over = self.patience_over(&waiting);
        // The silence of the wave that goes out now starts now.
        let next_silence_over = if asks.is_empty() {
            silence_over.filter(|at| *at > self.now)
        } else {
            Some(self.now.saturating_add(self.silence(self.memory.waves())))
        };
        let more = open.len().saturating_add(full.len()) > asks.len();
        let waits = !waiting.is_empty();
        let wake_at = [
            next_silence_over.filter(|_| more),
            others_until,
            patience_over,
            turn_over,
            retry_at,
        ]
        .into_iter()
        .flatten()
        .min();
        // With nobody left to wait for, the cycle runs to tell the user why nobody takes the pod.
        let first_time = |node: &str| self.memory.ask_refusal(node).is_none();
        let fresh_asks = asks.iter().filter_map(Action::node).any(first_time);
        // Nobody else can be asked: that the one it waits for pauses for a moment is no news for its author, but what
        // others have refused is.
        let refuses = |answer: &Answer| matches!(answer, Answer::Refused(_));
        let refused = answers.values().any(refuses);
        let is_turn = |node: &str| {
            if refused {
                self.is_waited_for(node)
            } else {
                self.now < self.turn_over()
            }
        };
        let fresh_turn = |node: &String| first_time(node) && is_turn(node);
        let gate = if waits || fresh_asks {
            Gate::Closed(Note::Asked(waiting))
        } else if queue.iter().any(fresh_turn) {
            Gate::Closed(Note::Queued)
        } else if best.is_some() && asks.is_empty() && queue.is_empty() {
            Gate::Closed(Note::Others)
        } else {
            Gate::Open
        };
        if gate == Gate::Open {
            self.offer_cheapest(&mut answers);
        }
        for node in &queue {
            answers.entry(node.clone()).or_insert(Answer::Busy);
        }
        Wave {
            asks,
            gate,
            answers,
            queue,
            wake_at,
        }
    }

    /// What evictions cost where they cost least.
    fn least_cost(&self, answers: &BTreeMap<String, Answer>) -> Option<Preempts> {
        let suiting = self.ranking.iter().filter(|ranked| !ranked.kept_away);
        let said = suiting.filter_map(|ranked| answers.get(&ranked.node));
        let offers = said.filter_map(|answer| match answer {
            Answer::Outbid(preempts) => Some(*preempts),
            _ => None,
        });
        offers.min_by_key(Preempts::cost)
    }

    /// Nobody has room, and nobody is left to ask: those who evict at the least cost may be chosen.
    fn offer_cheapest(&self, answers: &mut BTreeMap<String, Answer>) {
        let Some(least) = self.least_cost(answers) else {
            return;
        };
        for ranked in self.ranking {
            if !ranked.kept_away
                && let Some(answer) = answers.get_mut(&ranked.node)
                && let Answer::Outbid(preempts) = *answer
                && preempts.cost() == least.cost()
            {
                *answer = Answer::Evicts(preempts);
            }
        }
    }

    /// Somebody holds a node: give the rest of the wave a moment, then choose.
    fn settle(&self, answers: BTreeMap<String, Answer>, waiting: Vec<String>) -> Wave {
        let since = self.memory.first_reserved_at().unwrap_or(self.now);
        let settled_at = since.saturating_add(self.settings.settle);
        let enough = waiting.is_empty() || self.now >= settled_at;
        let gate = if enough {
            Gate::Open
        } else {
            Gate::Closed(Note::Asked(waiting))
        };
        Wave {
            asks: Vec::new(),
            gate,
            answers,
            queue: Vec::new(),
            wake_at: (!enough).then_some(settled_at),
        }
    }
}
