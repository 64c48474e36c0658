//! The simulated world: API servers, processes, requests under way, users; and one step of it at a time.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use pilotage_api::parent::ClusterUid;
use pilotage_proxy::{Ranked, Terms};

use crate::{
    candidate::{self, Candidate},
    check::Violation,
    clock::{Clock, Time},
    config::Config,
    controller::{self, Controller},
    flight::Flight,
    occupants::Occupants,
    request::Request,
    server::{Object, Server},
    source::{self, Source},
    step::Step,
};

/// Letters of the API servers: the source, then the targets.
const LETTERS: [&str; 5] = ["p", "a", "b", "c", "d"];

/// When the world begins, by a clock that is right.
const LATER: SignedDuration = SignedDuration::from_hours(1);

/// A process.
#[derive(Debug)]
pub(crate) enum Kind {
    Source(Source),
    Candidate(Candidate),
    Controller(Controller),
}

/// A process and its circumstances.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) kind: Kind,
    pub(crate) clock: Clock,
    /// It can't reach its own API server.
    pub(crate) cut: bool,
    /// It stands still.
    pub(crate) stopped: bool,
    /// No other has the number.
    pub(crate) number: u32,
}

/// What isn't an API server, of one target.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fault of its own")]
pub(crate) struct Site {
    /// Its node is there for pods, unless somebody has taken the room.
    pub(crate) fits: bool,
    /// Who has.
    pub(crate) occupants: Occupants,
    /// The source can't reach it.
    pub(crate) parted: bool,
    /// Something before it answers 404.
    pub(crate) elsewhere: bool,
    /// Its Target exists.
    pub(crate) exists: bool,
    /// What its Target says.
    pub(crate) terms: Terms,
    /// It runs plain Admiralty.
    pub(crate) plain: bool,
    /// Since when a plain target holds its node, by chaperon UID.
    pub(crate) plain_holds: Vec<(String, Time)>,
}

impl Site {
    /// Its node takes a pod, and nobody has to go.
    pub(crate) fn takes(&self) -> bool {
        self.fits && self.occupants.is_empty()
    }
}

/// The world.
#[derive(Debug)]
pub struct World {
    pub(crate) config: Config,
    pub(crate) now: Time,
    pub(crate) servers: Vec<Server>,
    pub(crate) sites: Vec<Site>,
    pub(crate) nodes: Vec<String>,
    ranking: Vec<Ranked>,
    pub(crate) cluster: ClusterUid,
    /// Two for each role.
    pub(crate) slots: Vec<Option<Process>>,
    started: u32,
    pub(crate) flights: Vec<Flight>,
    /// Requests whose senders don't wait any more; they may land.
    pub(crate) late: Vec<Flight>,
    /// How often each proxy pod was made.
    pub(crate) made: Vec<u32>,
    /// Names of proxy pods of which *at most one* was given up, on somebody's word.
    pub(crate) given_up: BTreeSet<String>,
    /// Chaperons that may be left although they live, on somebody's word.
    pub(crate) words: BTreeSet<String>,
    pub(crate) violation: Option<Violation>,
    /// Chaperons and attempts that records have named.
    pub(crate) recorded: BTreeSet<(String, Option<u64>)>,
    /// Chaperons that were granted.
    pub(crate) granted: BTreeSet<String>,
    /// For whom a process has evicted: process, chaperon, attempt.
    pub(crate) evicted: BTreeSet<(u32, String, u64)>,
    /// When the newest attempt of a chaperon was written, and by which process.
    pub(crate) answers: BTreeMap<String, (u64, Time, u32)>,
    /// Reserving writes that were sent: process, chaperon, attempt.
    pub(crate) tried: BTreeSet<(u32, String, u64)>,
    /// The process whose request is being answered, if it still waits.
    pub(crate) caller: Option<u32>,
    pub(crate) trace: Option<Vec<String>>,
    pub(crate) sent: Vec<Request>,
}

impl World {
    /// A world in which nothing has happened; `traced`: it tells what happens.
    pub fn new(config: Config, traced: bool) -> Self {
        let targets = usize::from(config.targets);
        let nodes: Vec<String> = (0..targets)
            .map(|t| format!("t{}", LETTERS[t + 1]))
            .collect();
        let first = usize::from(config.first) % targets.max(1);
        let ranking = (0..targets).map(|t| Ranked {
            node: nodes[(first + t) % targets].clone(),
            surely_fits: config.surely,
            class: 0,
            kept_away: false,
        });
        let site = |t: usize| Site {
            fits: config.full & (1 << t) == 0,
            occupants: config.occupants(t),
            parted: false,
            elsewhere: false,
            exists: true,
            terms: Terms {
                lost_policy: config.lost_policy(),
                ..Terms::default()
            },
            plain: config.plain & (1 << t) != 0,
            plain_holds: Vec::new(),
        };
        let mut world = Self {
            now: Time::ZERO,
            servers: LETTERS[..=targets]
                .iter()
                .map(|letter| Server::new(letter))
                .collect(),
            sites: (0..targets).map(site).collect(),
            ranking: ranking.collect(),
            nodes,
            cluster: ClusterUid("source".to_owned()),
            slots: Vec::new(),
            started: 0,
            flights: Vec::new(),
            late: Vec::new(),
            made: vec![0; usize::from(config.pods)],
            given_up: BTreeSet::new(),
            words: BTreeSet::new(),
            violation: None,
            recorded: BTreeSet::new(),
            granted: BTreeSet::new(),
            evicted: BTreeSet::new(),
            answers: BTreeMap::new(),
            tried: BTreeSet::new(),
            caller: None,
            trace: traced.then(Vec::new),
            sent: Vec::new(),
            config,
        };
        for role in 0..2 + 2 * targets {
            world.slots.push(None);
            world.slots.push(None);
            if role < 2 || !world.sites[(role - 2) / 2].plain {
                world.start(role * 2, true);
            }
        }
        world
    }

    // ---- processes --------------------------------------------------------------------------------------------------

    /// The target where a process runs; `None`: the source.
    pub(crate) fn home(slot: usize) -> Option<usize> {
        (slot / 2).checked_sub(2).map(|role| role / 2)
    }

    /// The API server where a process runs.
    pub(crate) fn server_of(slot: usize) -> usize {
        Self::home(slot).map_or(0, |target| target + 1)
    }

    pub(crate) fn name_of(slot: usize) -> String {
        let second = if slot % 2 == 1 { "'" } else { "" };
        let name = match slot / 2 {
            0 => "proxy-scheduler".to_owned(),
            1 => "feedback".to_owned(),
            role => {
                let letter = LETTERS[(role - 2) / 2 + 1];
                let part = if role % 2 == 0 {
                    "candidate"
                } else {
                    "controller"
                };
                format!("{part}-{letter}")
            }
        };
        format!("{name}{second}")
    }

    /// A process starts; `fresh`: with the world.
    pub(crate) fn start(&mut self, slot: usize, fresh: bool) {
        let kind = match slot / 2 {
            role @ (0 | 1) => {
                let known: Vec<bool> = self.sites.iter().map(|site| site.exists).collect();
                Kind::Source(Source::new(
                    role == 1,
                    self.config.few(),
                    &self.cluster,
                    &self.nodes,
                    &known,
                    fresh,
                ))
            }
            role if role % 2 == 0 => Kind::Candidate(Candidate::new(fresh)),
            _ => Kind::Controller(Controller::new(fresh)),
        };
        self.started += 1;
        self.slots[slot] = Some(Process {
            kind,
            clock: Clock::new(self.now, self.config.rate(self.started)),
            cut: false,
            stopped: false,
            number: self.started,
        });
    }

    /// A process ends; its requests may land.
    pub(crate) fn crash(&mut self, slot: usize) {
        self.slots[slot] = None;
        let (late, flights) = mem::take(&mut self.flights)
            .into_iter()
            .partition(|flight| flight.slot == slot);
        self.flights = flights;
        let unanswered = Vec::into_iter(late).filter(|flight: &Flight| flight.reply.is_none());
        self.late.extend(unanswered);
    }

    /// What a process's clock shows.
    fn shows(&self, slot: usize) -> Duration {
        let process = self.slots[slot].as_ref();
        process.map_or(Duration::ZERO, |process| process.clock.show(self.now))
    }

    /// A source's process takes a step.
    pub(crate) fn source<R>(
        &mut self,
        slot: usize,
        step: impl FnOnce(&mut Source, &mut source::Cx<'_>, &[Server]) -> R,
    ) -> Option<R> {
        let now = self.shows(slot);
        let Some(Kind::Source(source)) = self.slots[slot].as_mut().map(|p| &mut p.kind) else {
            return None;
        };
        let mut cx = source::Cx {
            now,
            nodes: &self.nodes,
            ranking: &self.ranking,
            own_policy: self
                .config
                .own_policy()
                .map(|after| Time::from_secs(after.into())),
            words: &mut self.words,
            sent: &mut self.sent,
        };
        let result = step(source, &mut cx, &self.servers);
        self.send(slot, now);
        Some(result)
    }

    /// A candidate scheduler takes a step.
    pub(crate) fn candidate<R>(
        &mut self,
        slot: usize,
        step: impl FnOnce(&mut Candidate, &mut candidate::Cx<'_>, &Server) -> R,
    ) -> Option<R> {
        let now = self.shows(slot);
        let target = Self::home(slot)?;
        let Some(Kind::Candidate(candidate)) = self.slots[slot].as_mut().map(|p| &mut p.kind)
        else {
            return None;
        };
        let mut cx = candidate::Cx {
            now,
            fits: self.sites[target].takes(),
            gregarious: self.config.gregarious(),
            occupants: self.sites[target]
                .fits
                .then(|| self.sites[target].occupants.clone()),
            evicts: Vec::new(),
            sent: &mut self.sent,
        };
        let result = step(candidate, &mut cx, &self.servers[target + 1]);
        let evicts = cx.evicts;
        self.send(slot, now);
        for eviction in evicts {
            self.check_eviction(slot, target + 1, eviction);
            self.sites[target].occupants.evict();
        }
        Some(result)
    }

    /// A chaperon controller takes a step.
    pub(crate) fn controller<R>(
        &mut self,
        slot: usize,
        step: impl FnOnce(&mut Controller, &mut controller::Cx<'_>, &Server) -> R,
    ) -> Option<R> {
        let now = self.shows(slot);
        let server = Self::server_of(slot);
        let number = self.slots[slot].as_ref()?.number;
        let wrong = SignedDuration::from_secs(self.config.wrong(number));
        let Some(Kind::Controller(controller)) = self.slots[slot].as_mut().map(|p| &mut p.kind)
        else {
            return None;
        };
        let mut cx = controller::Cx {
            now,
            wall: Timestamp::UNIX_EPOCH + LATER + wrong + self.now,
            sent: &mut self.sent,
        };
        let result = step(controller, &mut cx, &self.servers[server]);
        self.send(slot, now);
        Some(result)
    }

    // ---- time -------------------------------------------------------------------------------------------------------

    /// When something happens by itself.
    pub(crate) fn next_time(&self) -> Option<Time> {
        let mut next = None::<Time>;
        let mut soon = |at: Time| next = Some(next.map_or(at, |known| known.min(at)));
        for process in self
            .slots
            .iter()
            .flatten()
            .filter(|process| !process.stopped)
        {
            let wakes = match &process.kind {
                Kind::Source(source) => [source.next_wake(), source.next_cycle()],
                Kind::Candidate(candidate) => [candidate.next_wake(), candidate.next_drive()],
                Kind::Controller(controller) => [controller.next_wake(), None],
            };
            wakes
                .into_iter()
                .flatten()
                .for_each(|at| soon(process.clock.when(at)));
        }
        for flight in &self.flights {
            soon(flight.limit);
        }
        for site in &self.sites {
            for (_, since) in &site.plain_holds {
                soon(*since + crate::plain::PATIENCE);
            }
        }
        next.map(|at| at.max(self.now + Duration::from_nanos(1)))
    }

    /// Time passes, but not beyond the next timer: no process sleeps through one.
    pub(crate) fn elapse(&mut self, wanted: Duration) {
        let to = self.now + wanted;
        self.now = self.next_time().map_or(to, |next| next.min(to));
        for (site, server) in self.sites.iter_mut().zip(&self.servers[1..]) {
            let lives = |uid: &str| {
                server
                    .chaperons
                    .all()
                    .iter()
                    .any(|c| c.uid() == uid && !c.is_ending())
            };
            let waits = |uid: &str| {
                server
                    .delegates
                    .all()
                    .iter()
                    .any(|d| d.owner() == Some(uid) && d.node().is_none())
            };
            site.plain_holds.retain(|(uid, _)| lives(uid) && waits(uid));
        }
        while let Some(index) = self.flights.iter().position(|flight| {
            let stopped = self.slots[flight.slot].as_ref().is_some_and(|p| p.stopped);
            flight.limit <= self.now && !stopped
        }) {
            self.give_up(index);
        }
        for slot in 0..self.slots.len() {
            self.fire(slot);
        }
    }

    /// Timers of a process that are due.
    pub(crate) fn fire(&mut self, slot: usize) {
        let Some(process) = self.slots[slot].as_ref().filter(|process| !process.stopped) else {
            return;
        };
        let now = process.clock.show(self.now);
        let due = |at: Option<Duration>| at.is_some_and(|at| at <= now);
        match &process.kind {
            Kind::Source(source) if due(source.next_wake()) => {
                self.source(slot, |source, cx, _| source.fire(cx));
            }
            Kind::Candidate(candidate) if due(candidate.next_wake()) => {
                self.candidate(slot, |process, cx, _| process.fire(cx));
            }
            Kind::Controller(controller) if due(controller.next_wake()) => {
                self.controller(slot, |process, cx, _| process.fire(cx));
            }
            _ => {}
        }
    }

    // ---- telling ----------------------------------------------------------------------------------------------------

    /// Whether anybody listens.
    pub(crate) fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    pub(crate) fn tell(&mut self, line: String) {
        if let Some(trace) = &mut self.trace {
            trace.push(line);
        }
    }

    pub(crate) fn tell_step(&mut self, step: Step, what: &str) {
        if self.trace.is_some() {
            let seconds = self.now.as_secs_f64();
            self.tell(format!("{seconds:>9.3}s {:<22} {what}", step.to_string()));
        }
    }

    /// Brings the last line before the so many that came before it.
    pub(crate) fn rotate_trace(&mut self, before: usize) {
        if let Some(trace) = &mut self.trace {
            let from = trace.len() - 1 - before;
            trace[from..].rotate_right(1);
        }
    }

    /// What happened so far, a line each.
    pub fn trace(&self) -> &[String] {
        self.trace.as_deref().unwrap_or_default()
    }

    /// The first rule that was broken.
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// The proxy pod of this name.
    pub(crate) fn proxy_name(n: usize) -> String {
        format!("web-{n}")
    }

    /// Whether a process exists, and isn't stopped.
    pub(crate) fn runs(&self, slot: usize) -> bool {
        let process = self.slots.get(slot).and_then(Option::as_ref);
        process.is_some_and(|process| !process.stopped)
    }

    /// A delegate's parent, by name.
    pub(crate) fn parent_name<K: Object>(object: &K) -> Option<&str> {
        let annotations = object.meta().annotations.as_ref()?;
        annotations
            .get(pilotage_api::keys::PARENT_NAME)
            .map(String::as_str)
    }
}
