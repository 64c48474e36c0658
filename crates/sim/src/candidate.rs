//! A candidate scheduler: the real machine of each name, the stores that it reads, and a small driver that takes nodes,
//! holds pods at Permit, and calls Bind.

mod lean;
mod preempt;

use std::collections::{BTreeMap, BTreeSet};

use pilotage_api::{PodChaperon, keys};
use pilotage_candidate::{
    Board, Gate, Memory, Note, Observed, Refusal, Settings, Step, decide,
    plan::Monotonic,
    seat::{Fit, SeatState},
    view::{ChaperonView, PodView},
};
use pilotage_proxy::class::Marks;

pub(crate) use self::preempt::Eviction;
use crate::{
    occupants::Occupants,
    request::{Reply, Request},
    server::{Delegate, Object},
    watch::Watch,
};

/// A pod that fits nowhere is tried again after this, whatever happens.
const FLUSH: Monotonic = Monotonic::from_mins(5);
/// Back-off of a pod whose node was given back.
const BACKOFF: Monotonic = Monotonic::from_secs(1);
/// Name of every target's node.
pub(crate) const NODE: &str = "n1";

/// Where the driver has a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// In the queue; a cycle runs then, if the gate is open.
    Queue(Option<Monotonic>),
    /// Held at Permit.
    Permit { uid: String, allowed: bool },
    /// Bind waits for the edge.
    Bind { uid: String },
    /// The edge gave the node back; the driver hasn't taken note yet.
    Back { uid: String },
}

/// One name.
#[derive(Debug)]
struct Cell {
    memory: Memory,
    /// A request of its turn is under way.
    busy: bool,
    gate: Gate,
    gated_pod: Option<String>,
    wake: Option<Monotonic>,
    place: Place,
    /// What the newest look at the held node said.
    fits: bool,
    /// The pod counts as expected on the node.
    expected: bool,
}

impl Cell {
    fn new(standing: bool) -> Self {
        Self {
            memory: Memory::new(standing),
            busy: false,
            gate: Gate::Shut(Note::Unseen),
            gated_pod: None,
            wake: None,
            place: Place::Queue(None),
            fits: false,
            expected: false,
        }
    }
}

/// The process.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) chaperons: Watch<PodChaperon>,
    pub(crate) pods: Watch<Delegate>,
    cells: BTreeMap<String, Cell>,
    /// Chaperons that stood there as the process began to lead.
    standing: BTreeSet<String>,
    /// The answers that stood there then: UID of the chaperon, attempt.
    found: BTreeSet<(String, u64)>,
    began: bool,
    /// A pod is bound to a node that doesn't take it.
    pub(crate) crowded: bool,
    settings: Settings,
    board: Board,
}

/// What a step of the process is given.
pub(crate) struct Cx<'a> {
    pub(crate) now: Monotonic,
    /// The node takes a pod.
    pub(crate) fits: bool,
    /// A pod has to be with others on it.
    pub(crate) gregarious: bool,
    /// Who would have to go, or goes, so that it does; `None`: nobody's going helps.
    pub(crate) occupants: Option<Occupants>,
    pub(crate) evicts: Vec<Eviction>,
    pub(crate) sent: &'a mut Vec<Request>,
}

impl Candidate {
    /// A process that starts; `fresh`: nothing has happened in the world yet.
    pub(crate) fn new(fresh: bool) -> Self {
        Self {
            chaperons: Watch::new(false, fresh),
            pods: Watch::new(true, fresh).only(|pod| pod.scheduler() == keys::CANDIDATE_SCHEDULER),
            cells: BTreeMap::new(),
            standing: BTreeSet::new(),
            found: BTreeSet::new(),
            began: fresh,
            crowded: false,
            settings: Settings::default(),
            board: Board::new(),
        }
    }

    /// Names that it knows.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &String> {
        self.cells.keys()
    }

    /// Something happened to these names in a store.
    pub(crate) fn changed(&mut self, keys: Vec<String>, cx: &mut Cx<'_>) {
        if !self.begin(cx) {
            return;
        }
        for key in keys {
            self.driver_sees(&key);
            self.turn(&key, cx);
        }
    }

    /// Begins to lead once both lists are read.
    fn begin(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.began {
            return true;
        }
        if !self.chaperons.synced || !self.pods.synced {
            return false;
        }
        self.began = true;
        let names = self.chaperons.all().iter().map(|c| c.name().to_owned());
        self.standing = names.collect();
        let all = self.chaperons.all().iter();
        let answers = all.map(|c| (c.uid().to_owned(), Marks::of(c).attempt));
        self.found = answers.collect();
        let pods = self.pods.all().iter().map(|p| p.name().to_owned());
        let all: BTreeSet<String> = self.standing.iter().cloned().chain(pods).collect();
        for key in all {
            self.turn(&key, cx);
        }
        true
    }

    fn cell(&mut self, key: &str) -> &mut Cell {
        if !self.cells.contains_key(key) {
            let cell = Cell::new(self.standing.remove(key));
            self.cells.insert(key.to_owned(), cell);
        }
        self.cells
            .entry(key.to_owned())
            .or_insert_with(|| Cell::new(false))
    }

    /// The driver lets go of a pod at Permit that is gone or leaving.
    fn driver_sees(&mut self, key: &str) {
        let shown = self.pods.get(key).filter(|pod| !pod.is_ending());
        let shown = shown.map(|pod| pod.uid().to_owned());
        if let Some(cell) = self.cells.get_mut(key)
            && let Place::Permit { uid, .. } = &cell.place
            && shown.as_ref() != Some(uid)
        {
            let uid = uid.clone();
            cell.place = Place::Queue(None);
            cell.memory.put_back(&uid);
        }
    }

    /// Decides and acts until there is nothing to do, or a request is under way.
    fn turn(&mut self, key: &str, cx: &mut Cx<'_>) {
        loop {
            let chaperon = self.chaperons.get(key).and_then(|c| ChaperonView::of(c));
            let pod = self.pods.get(key).and_then(|pod| PodView::of(&pod.pod));
            let settings = self.settings;
            let now = cx.now;
            let cell = self.cell(key);
            if cell.busy {
                return;
            }
            cell.memory.see(chaperon.as_ref(), now);
            let plan = decide(&Observed {
                pod: pod.as_ref(),
                chaperon: chaperon.as_ref(),
                memory: &cell.memory,
                settings: &settings,
                now,
            });
            cell.memory.begin(&plan, now);
            cell.wake = plan.wake_at;
            let uid = pod.as_ref().map(|pod| pod.uid.clone());
            let opens = plan.gate == Gate::Open
                && (cell.gate != Gate::Open || cell.gated_pod != uid)
                && uid.is_some();
            cell.gate = plan.gate.clone();
            cell.gated_pod = uid;
            if opens && let Place::Queue(at) = &mut cell.place {
                *at = Some(now);
            }
            let seat = cell.memory.seat().map(|seat| seat.pod_uid.clone());
            if let Some(uid) = &cell.gated_pod {
                let uid = uid.clone();
                self.board.set(&uid, plan.gate, plan.leave);
            }
            let leans = cx.gregarious && self.holds_for_others(key);
            let cell = self.cell(key);
            match (plan.step, seat) {
                (Step::Rest, _) => {
                    let idle = cell.memory.is_idle() && matches!(cell.place, Place::Queue(_));
                    if chaperon.is_none() && pod.is_none() && idle {
                        self.cells.remove(key);
                    }
                    return;
                }
                (Step::Write(write), _) => {
                    cell.busy = true;
                    let numbered = chaperon.as_ref().is_some_and(ChaperonView::is_numbered);
                    // Nothing waits for a refusal; a node must not wait longer than it may.
                    let reserves = matches!(
                        write.answer,
                        pilotage_candidate::plan::Answer::Reserved { .. }
                    );
                    let until = plan.wake_at.filter(|_| reserves);
                    cx.sent.push(Request::Write {
                        key: key.to_owned(),
                        write,
                        numbered,
                        until,
                    });
                    return;
                }
                (Step::Bind { pod_uid, node }, _) => {
                    cell.busy = true;
                    self.crowded |= !cell.fits;
                    cx.sent.push(Request::Bind {
                        key: key.to_owned(),
                        pod_uid,
                        node,
                        until: plan.wake_at,
                    });
                    return;
                }
                (Step::Recheck { attempt }, Some(_)) => {
                    cell.fits = cx.fits;
                    let fit = if !cx.fits {
                        Fit::Misfit("no room".to_owned())
                    } else if leans {
                        Fit::Leans("nobody else may stay".to_owned())
                    } else {
                        Fit::Fits
                    };
                    cell.memory.rechecked(attempt, fit, &settings, now);
                }
                (
                    Step::MakeRoom {
                        pod_uid,
                        attempt,
                        preempts,
                    },
                    _,
                ) => cell
                    .memory
                    .make_room(&pod_uid, attempt, preempts, &settings, now),
                (Step::Permit, Some(uid)) => {
                    cell.memory.permitted();
                    if let Place::Permit { uid: held, allowed } = &mut cell.place
                        && *held == uid
                    {
                        *allowed = true;
                    }
                }
                (Step::Confirm, _) => {
                    cell.memory.confirmed();
                    if let Place::Bind { uid } = &cell.place {
                        let uid = uid.clone();
                        cell.place = Place::Queue(None);
                        cell.memory.put_back(&uid);
                    }
                }
                (Step::Drop { why, debt, pause }, Some(uid)) => {
                    cell.expected = false;
                    cell.memory.dropped(&why, debt, pause, &settings, now);
                    if matches!(
                        &cell.place,
                        Place::Permit { uid: held, .. } | Place::Bind { uid: held } if *held == uid
                    ) {
                        cell.place = Place::Back { uid };
                    }
                }
                (Step::Recheck { .. } | Step::Permit | Step::Drop { .. }, None) => return,
            }
        }
    }

    // ---- the driver -------------------------------------------------------------------------------------------------

    /// What the driver can do for a name: run a cycle, call Bind, or take a pod back.
    pub(crate) fn can_drive(&self, key: &str, now: Monotonic) -> bool {
        let Some(cell) = self.cells.get(key) else {
            return false;
        };
        match &cell.place {
            Place::Queue(at) => {
                let pod = self.pods.get(key);
                at.is_some_and(|at| at <= now)
                    && cell.gate == Gate::Open
                    && pod.is_some_and(|pod| pod.node().is_none() && !pod.is_ending())
            }
            Place::Permit { allowed, .. } => *allowed,
            Place::Back { .. } => true,
            Place::Bind { .. } => false,
        }
    }

    /// Does it; what it was.
    pub(crate) fn drive(&mut self, key: &str, cx: &mut Cx<'_>) -> String {
        let (now, fits) = (cx.now, cx.fits);
        let uid = self.pods.get(key).map(|pod| pod.uid().to_owned());
        let cell = self.cell(key);
        let what = match (cell.place.clone(), uid) {
            (Place::Queue(_), Some(uid)) if fits => {
                cell.place = Place::Permit {
                    uid: uid.clone(),
                    allowed: false,
                };
                cell.expected = false;
                cell.memory.taken(&uid, NODE, now);
                format!("{key}: takes {NODE} for {uid}")
            }
            (Place::Queue(_), Some(uid)) => {
                let there = cx.occupants.take().unwrap_or_default();
                if let Some(cost) = there.cost() {
                    self.preempt(key, &uid, &there, cost, cx)
                } else {
                    cell.place = Place::Queue(Some(now + FLUSH));
                    let full = Refusal::Unschedulable("full".to_owned());
                    cell.memory.found_none(&uid, full);
                    format!("{key}: no node for {uid}")
                }
            }
            (Place::Permit { uid, .. }, _) => {
                if cell.memory.bind_called(&uid, NODE, now) {
                    cell.place = Place::Bind { uid };
                    format!("{key}: Bind is called")
                } else {
                    cell.place = Place::Queue(Some(now + BACKOFF));
                    cell.memory.put_back(&uid);
                    format!("{key}: Bind finds no seat")
                }
            }
            (Place::Back { uid }, _) => {
                cell.place = Place::Queue(Some(now + BACKOFF));
                cell.memory.put_back(&uid);
                format!("{key}: the node is back")
            }
            (Place::Queue(_) | Place::Bind { .. }, _) => String::new(),
        };
        self.turn(key, cx);
        what
    }

    /// The scheduler loses a pod that it holds at Permit, for reasons of its own.
    pub(crate) fn lose_seat(&mut self, key: &str, cx: &mut Cx<'_>) -> bool {
        let now = cx.now;
        let Some(cell) = self.cells.get_mut(key) else {
            return false;
        };
        let Place::Permit { uid, .. } = &cell.place else {
            return false;
        };
        let uid = uid.clone();
        cell.place = Place::Queue(Some(now + BACKOFF));
        cell.memory.put_back(&uid);
        self.turn(key, cx);
        true
    }

    /// Room came: what didn't fit is tried again.
    pub(crate) fn room(&mut self, now: Monotonic) {
        for cell in self.cells.values_mut() {
            if let Place::Queue(at @ Some(_)) = &mut cell.place {
                *at = Some(now);
            }
        }
    }

    // ---- requests and timers ----------------------------------------------------------------------------------------

    /// A request ended.
    pub(crate) fn answered(&mut self, request: &Request, reply: Reply, cx: &mut Cx<'_>) {
        let key = request.key().to_owned();
        let (settings, now) = (self.settings, cx.now);
        match (request, reply) {
            (
                Request::Write {
                    write, numbered, ..
                },
                Reply::Write(outcome, chaperon),
            ) => {
                if let Some(chaperon) = chaperon {
                    self.chaperons.fold(chaperon, &mut Vec::new());
                }
                let cell = self.cell(&key);
                cell.busy = false;
                cell.memory.wrote(write, outcome, *numbered, &settings, now);
            }
            (Request::Bind { .. }, Reply::Bind(outcome)) => {
                let cell = self.cell(&key);
                cell.busy = false;
                cell.memory.bind_replied(outcome, &settings, now);
            }
            _ => return,
        }
        self.turn(&key, cx);
    }

    /// Timers that are due.
    pub(crate) fn fire(&mut self, cx: &mut Cx<'_>) {
        let due: Vec<String> = self
            .cells
            .iter()
            .filter(|(_, cell)| !cell.busy && cell.wake.is_some_and(|at| at <= cx.now))
            .map(|(key, _)| key.clone())
            .collect();
        for key in due {
            self.turn(&key, cx);
        }
    }

    /// The next timer.
    pub(crate) fn next_wake(&self) -> Option<Monotonic> {
        let idle = self.cells.values().filter(|cell| !cell.busy);
        idle.filter_map(|cell| cell.wake).min()
    }

    /// When the driver next has something to do by itself.
    pub(crate) fn next_drive(&self) -> Option<Monotonic> {
        let at = |(key, cell): (&String, &Cell)| match cell.place {
            Place::Queue(at) if cell.gate == Gate::Open && self.pods.get(key).is_some() => at,
            _ => None,
        };
        self.cells.iter().filter_map(at).min()
    }

    /// A node that is held for longer than it may be.
    pub(crate) fn overdue(&self, now: Monotonic) -> Option<String> {
        let late = self.cells.iter().find(|(_, cell)| {
            cell.memory.seat().is_some_and(|seat| match seat.state {
                // All sources here number their attempts.
                SeatState::Taken { since } => now > since + self.settings.hold,
                SeatState::Held { deadline, .. } => now >= deadline,
                SeatState::Making { until, .. } | SeatState::Binding { until, .. } => now >= until,
            })
        })?;
        Some(late.0.clone())
    }

    /// Whether a node is held under this attempt of the chaperon with this UID.
    pub(crate) fn holds(&self, uid: &str, attempt: u64) -> bool {
        self.cells.iter().any(|(key, cell)| {
            let is_it = self.chaperons.get(key).is_some_and(|c| c.uid() == uid);
            is_it
                && cell
                    .memory
                    .seat()
                    .and_then(pilotage_candidate::seat::Seat::attempt)
                    == Some(attempt)
        })
    }

    /// That answer stood there as the process began to lead.
    pub(crate) fn found(&self, uid: &str, attempt: u64) -> bool {
        self.found.contains(&(uid.to_owned(), attempt))
    }

    /// Names for which a node is held.
    pub(crate) fn held(&self) -> impl Iterator<Item = &String> {
        let held = self
            .cells
            .iter()
            .filter(|(_, cell)| cell.memory.seat().is_some());
        held.map(|(key, _)| key)
    }
}
