//! How many pods are asked for at a target at a time, and who waits for a turn.
//!
//! A node that is reserved is held for ten seconds. Whoever asks for five hundred pods at once, of clusters that place
//! twenty a second, gets most of the answers too late, and has to ask again. So a target is asked for no more pods at a
//! time than it answers, and is granted, within four seconds, as it has shown of late (Little's law): that grows as
//! fast as the target keeps up, and one that falls silent swallows those that were on their way, then [`FEW`] in ten
//! seconds.
//!
//! Only *when* somebody is asked is decided here, never *whether*.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use crate::view::Monotonic;

/// Any target may be asked for so many pods at a time.
pub const FEW: usize = 16;
/// How long a pod should wait for its answer and its grant at most; less than half of what a hold lasts.
const ON_THE_WAY: Duration = Duration::from_secs(4);
/// Over how long it is counted how many pods left after an answer.
const OF_LATE: Duration = Duration::from_secs(2);
/// A pod that has waited for this long stands still, and is in nobody's way.
const STANDS_STILL: Duration = Duration::from_secs(10);
/// A target that owes answers, and has given nobody one for this long, isn't merely busy.
const IDLE: Duration = Duration::from_secs(2);

/// Whose turn is first: higher priority, then whoever was created earlier (in seconds), then by UID.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    priority: Reverse<i32>,
    created: i64,
    pod: String,
}

impl Ticket {
    /// `created`: seconds since 1970, as the API server writes them.
    pub const fn new(priority: i32, created: i64, pod: String) -> Self {
        let priority = Reverse(priority);
        Self {
            priority,
            created,
            pod,
        }
    }
}

/// Where a pod stands with a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It was asked, and hasn't answered.
    Asked,
    /// It has answered, and may still be granted the pod.
    Answered,
    /// It has answered, and that is settled: granted or refused.
    Settled,
}

/// A pod at a target.
#[derive(Clone, Copy, Debug)]
struct Entry {
    since: Monotonic,
    answered: bool,
}

/// One target.
#[derive(Debug, Default)]
struct Window {
    entries: HashMap<String, Entry>,
    /// Those that don't stand still.
    moving: BTreeSet<(Monotonic, String)>,
    /// Those that wait for an answer.
    unanswered: BTreeSet<(Monotonic, String)>,
    /// Those who have left without an answer, and when they asked: that may still take the target's time.
    ghosts: HashMap<String, Monotonic>,
    /// When it last answered one.
    answered_at: Option<Monotonic>,
    /// The last thing that was heard of it is that a question failed.
    fails: bool,
    /// When the last ones left that it had answered in time.
    left: VecDeque<Monotonic>,
    /// Who waits.
    queue: BTreeSet<Ticket>,
    /// Who was called and hasn't decided yet.
    called: BTreeSet<Ticket>,
    /// Those who wait know that it isn't merely busy.
    told: bool,
}

impl Window {
    fn tick(&mut self, now: Monotonic) {
        let is_over = |since: Monotonic, lasts| since.saturating_add(lasts) <= now;
        while let Some((since, _)) = self.moving.first()
            && is_over(*since, STANDS_STILL)
        {
            self.moving.pop_first();
        }
        self.ghosts
            .retain(|_, since| !is_over(*since, STANDS_STILL));
        while let Some(left) = self.left.front()
            && is_over(*left, OF_LATE)
        {
            self.left.pop_front();
        }
    }

    fn is_blank(&self) -> bool {
        self.entries.is_empty()
            && self.ghosts.is_empty()
            && self.queue.is_empty()
            && self.called.is_empty()
            && self.left.is_empty()
    }

    /// How many more may be asked.
    fn room(&self, few: usize) -> usize {
        const TIMES: usize = (ON_THE_WAY.as_millis() / OF_LATE.as_millis()) as usize;
        let keeps_up = self.left.len().saturating_mul(TIMES);
        let taken = self.moving.len().saturating_add(self.ghosts.len());
        keeps_up.max(few).saturating_sub(taken)
    }

    /// Until when it is merely busy; `None`: it owes nobody an answer.
    fn busy_until(&self) -> Option<Monotonic> {
        let unanswered = self.unanswered.first().map(|(since, _)| *since);
        let owed = unanswered.into_iter().chain(self.ghosts.values().copied());
        let heard = self.answered_at.unwrap_or_default();
        Some(owed.min()?.max(heard).saturating_add(IDLE))
    }

    fn is_busy(&self, now: Monotonic) -> bool {
        !self.fails && self.busy_until().is_none_or(|until| now < until)
    }

    fn see(&mut self, pod: &str, standing: Option<Standing>, now: Monotonic) {
        match standing {
            Some(Standing::Asked) => self.enter(pod, now),
            Some(Standing::Answered) => {
                self.enter(pod, now);
                self.answer(pod, now);
            }
            Some(Standing::Settled) => {
                if self.ghosts.contains_key(pod) {
                    self.hear(now);
                }
                self.answer(pod, now);
                self.leave(pod, now);
            }
            None => self.leave(pod, now),
        }
    }

    fn enter(&mut self, pod: &str, now: Monotonic) {
        self.ghosts.remove(pod);
        if !self.entries.contains_key(pod) {
            let entry = Entry {
                since: now,
                answered: false,
            };
            self.entries.insert(pod.to_owned(), entry);
            self.moving.insert((now, pod.to_owned()));
            self.unanswered.insert((now, pod.to_owned()));
        }
    }

    fn answer(&mut self, pod: &str, now: Monotonic) {
        if let Some(entry) = self.entries.get_mut(pod)
            && !entry.answered
        {
            entry.answered = true;
            self.unanswered.remove(&(entry.since, pod.to_owned()));
            self.hear(now);
        }
    }

    /// It has answered somebody.
    fn hear(&mut self, now: Monotonic) {
        // Who was overtaken long ago may never be answered.
        self.unanswered
            .retain(|(since, _)| now < since.saturating_add(STANDS_STILL));
        self.answered_at = Some(now);
        self.fails = false;
        self.ghosts.clear();
    }

    fn leave(&mut self, pod: &str, now: Monotonic) {
        let Some(Entry { since, answered }) = self.entries.remove(pod) else {
            return;
        };
        let own = (since, pod.to_owned());
        let moved = self.moving.remove(&own);
        self.unanswered.remove(&own);
        match (answered, moved) {
            (true, true) => self.left.push_back(now),
            // A hold that ran out isn't how a target keeps up.
            (_, false) => {}
            (false, true) => {
                self.ghosts.insert(own.1, since);
            }
        }
    }

    /// A question came to nothing, or what it made is gone.
    fn lay(&mut self, pod: &str, now: Monotonic) {
        self.leave(pod, now);
        self.ghosts.remove(pod);
    }

    /// Those who are to decide now.
    fn call(&mut self, few: usize, now: Monotonic) -> Vec<String> {
        let mut all = Vec::new();
        if self.is_busy(now) {
            self.told = false;
        } else if !self.told {
            self.told = true;
            all.extend(self.queue.iter().map(|ticket| ticket.pod.clone()));
        }
        let room = self.room(few);
        while self.called.len() < room
            && let Some(ticket) = self.queue.pop_first()
        {
            all.push(ticket.pod.clone());
            self.called.insert(ticket);
        }
        all
    }

    /// When somebody who waits may have to decide even if nothing happens.
    fn wake_at(&self) -> Option<Monotonic> {
        if self.queue.is_empty() {
            return None;
        }
        let idle = self.busy_until().filter(|_| !self.told);
        let moving = self.moving.first().map(|(since, _)| *since);
        let ghost = self.ghosts.values().min().copied();
        let eases = [moving, ghost].into_iter().flatten();
        let eases = eases.map(|since| since.saturating_add(STANDS_STILL));
        eases.chain(idle).min()
    }
}

/// All targets, as one process asks them.
#[derive(Debug)]
pub struct Windows {
    few: usize,
    by_node: BTreeMap<String, Window>,
    /// Who waits, and where.
    waiting: HashMap<String, Vec<String>>,
}

impl Default for Windows {
    fn default() -> Self {
        Self::new(FEW)
    }
}

impl Windows {
    /// Nobody was asked; `few`: how many pods any target may be asked for.
    pub fn new(few: usize) -> Self {
        Self {
            few: few.max(1),
            by_node: BTreeMap::new(),
            waiting: HashMap::new(),
        }
    }

    /// Takes in what time it is.
    pub(crate) fn tick(&mut self, now: Monotonic) {
        for window in self.by_node.values_mut() {
            window.tick(now);
        }
        self.by_node.retain(|_, window| !window.is_blank());
    }

    /// Where the pod of this ticket stands, with all targets that it has to do with; it decides now.
    pub(crate) fn see(
        &mut self,
        ticket: &Ticket,
        standings: &BTreeMap<&str, Standing>,
        now: Monotonic,
    ) {
        for (node, window) in &mut self.by_node {
            window.called.remove(ticket);
            let standing = standings.get(&**node).copied();
            window.see(&ticket.pod, standing, now);
        }
        for (node, standing) in standings {
            // What has been settled before it was known here isn't an answer of late.
            if *standing != Standing::Settled && !self.by_node.contains_key(*node) {
                let window = self.by_node.entry((*node).to_owned()).or_default();
                window.see(&ticket.pod, Some(*standing), now);
            }
        }
    }

    /// A pod is being asked for.
    pub(crate) fn enter(&mut self, node: &str, pod: &str, now: Monotonic) {
        let window = self.by_node.entry(node.to_owned()).or_default();
        window.enter(pod, now);
    }

    /// A target has refused the question itself.
    pub(crate) fn refused(&mut self, node: &str, pod: &str, now: Monotonic) {
        if let Some(window) = self.by_node.get_mut(node) {
            window.see(pod, Some(Standing::Settled), now);
        }
    }

    /// Nobody knows what became of a question.
    pub(crate) fn failed(&mut self, node: &str, pod: &str, now: Monotonic) {
        if let Some(window) = self.by_node.get_mut(node) {
            window.lay(pod, now);
            window.fails = true;
        }
    }

    /// What a pod asked for at a target is gone.
    pub(crate) fn gone(&mut self, node: &str, pod: &str, now: Monotonic) {
        if let Some(window) = self.by_node.get_mut(node) {
            window.lay(pod, now);
        }
    }

    /// Whether a target may be asked for a pod now: there is room, and nobody waits whose turn is before.
    pub(crate) fn has_room(&self, node: &str, ticket: &Ticket) -> bool {
        let Some(window) = self.by_node.get(node) else {
            return true;
        };
        let room = window.room(self.few);
        let earlier = window.called.range(..ticket);
        earlier
            .chain(window.queue.range(..ticket))
            .take(room)
            .count()
            < room
    }

    /// Whether a target that has no room still answers others.
    pub(crate) fn is_busy(&self, node: &str, now: Monotonic) -> bool {
        let window = self.by_node.get(node);
        window.is_none_or(|window| window.is_busy(now))
    }

    /// A pod waits for room at these targets, and no others; with none, it doesn't wait.
    pub(crate) fn wait(&mut self, ticket: &Ticket, nodes: &[String]) {
        if let Some(old) = self.waiting.get(&ticket.pod) {
            for node in old.iter().filter(|node| !nodes.contains(node)) {
                if let Some(window) = self.by_node.get_mut(node) {
                    window.queue.remove(ticket);
                }
            }
        }
        for node in nodes {
            let window = self.by_node.entry(node.clone()).or_default();
            if !window.queue.contains(ticket) {
                window.queue.insert(ticket.clone());
            }
        }
        if nodes.is_empty() {
            self.waiting.remove(&ticket.pod);
        } else {
            self.waiting.insert(ticket.pod.clone(), nodes.to_vec());
        }
    }

    /// A pod is gone.
    pub(crate) fn forget(&mut self, ticket: &Ticket, now: Monotonic) {
        self.see(ticket, &BTreeMap::new(), now);
        self.wait(ticket, &[]);
    }

    /// A target is gone.
    pub(crate) fn drop_target(&mut self, node: &str) {
        self.by_node.remove(node);
    }

    /// A pod that was called can't decide now.
    pub(crate) fn pass(&mut self, ticket: &Ticket) {
        for window in self.by_node.values_mut() {
            window.called.remove(ticket);
        }
    }

    /// Calls those for whom there is room now, and those who wait for somebody who turns out to be idle: they are to
    /// decide.
    pub(crate) fn call(&mut self, now: Monotonic) -> Vec<String> {
        self.tick(now);
        let windows = self.by_node.values_mut();
        windows
            .flat_map(|window| window.call(self.few, now))
            .collect()
    }

    /// When [`Self::call`] may have somebody to call even if nothing happens.
    pub(crate) fn wake_at(&self) -> Option<Monotonic> {
        self.by_node.values().filter_map(Window::wake_at).min()
    }
}

#[cfg(test)]
mod tests;
