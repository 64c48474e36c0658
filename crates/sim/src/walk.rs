//! Schedules: drawn by a seed, replayed from a list, and healed at the end.

mod mood;

use std::{collections::BTreeMap, fmt, panic, str::FromStr, time::Duration};

use pilotage_api::keys;

use self::mood::Mood;
use crate::{
    check::Violation,
    clock::Time,
    config::Config,
    liar::LIES,
    occupants::Occupants,
    rng::Rng,
    server::Object,
    step::{Step, Word},
    surroundings::{is_foreground, owner_lives},
    world::{Kind, World},
};

/// By then all must be quiet.
const QUIET_WITHIN: Time = Time::from_mins(30);
/// As many fair steps must be enough.
const MOST_STEPS: usize = 20_000;
/// As often may time stand still although a timer is due.
const MOST_STALLS: u32 = 1_000;
/// Before so many of 100 fair steps a liar speaks: lies are no fault that ends.
const LIES_AMONG_FAIR: usize = 3;

/// A schedule, written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// What it starts with.
    pub config: Config,
    /// Its steps, before everything heals.
    pub steps: Vec<Step>,
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.config)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let config = lines.next().unwrap_or_default().parse()?;
        let steps = lines.map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self { config, steps })
    }
}

impl World {
    /// All fair steps but the passing of time.
    pub(crate) fn fair(&self, steps: &mut Vec<Step>) {
        steps.clear();
        let mut push = |word, a: usize, b: usize, c: usize| steps.push(Step::new(word, a, b, c));
        for (slot, process) in self.slots.iter().enumerate() {
            let Some(process) = process else {
                let home = Self::home(slot);
                let plain = home.is_some_and(|target| self.sites[target].plain);
                if slot % 2 == 0 && self.slots[slot ^ 1].is_none() && !plain {
                    push(Word::Start, slot, 0, 0);
                }
                continue;
            };
            if process.stopped {
                continue;
            }
            let watches = match &process.kind {
                Kind::Source(_) => 1 + self.sites.len(),
                _ => 2,
            };
            for watch in 0..watches {
                if !self.watch_open(slot, watch) {
                    continue;
                }
                match self.behind(slot, watch) {
                    None if watch == 0 || slot >= 4 => push(Word::List, slot, watch, 0),
                    None | Some(0) => {}
                    Some(_) => push(Word::Deliver, slot, watch, 1),
                }
            }
            match &process.kind {
                Kind::Source(source) => {
                    for target in 0..self.sites.len() {
                        if self.unnoticed(slot, target).is_some() {
                            push(Word::Notice, slot, target, 0);
                        }
                        if self.terms_differ(slot, target) {
                            push(Word::Terms, slot, target, 0);
                        }
                    }
                    if !source.is_feedback() && self.can_cycle(slot) {
                        push(Word::Cycle, slot, 0, 0);
                    }
                }
                Kind::Candidate(candidate) => {
                    for n in 0..candidate.keys().count() {
                        if self.drivable(slot, n).is_some() {
                            push(Word::Drive, slot, n, 0);
                        }
                    }
                }
                Kind::Controller(controller) => {
                    if controller.waiting() > 0 {
                        push(Word::Take, slot, 0, 0);
                    }
                }
            }
        }
        for (index, flight) in self.flights.iter().enumerate() {
            if self.can_land(index) && self.runs(flight.slot) {
                push(Word::Pass, index, 0, 0);
            } else if flight.reply.is_some() && self.runs(flight.slot) {
                push(Word::Reply, index, 0, 0);
            }
        }
        for (target, site) in self.sites.iter().enumerate() {
            for number in 0..site.occupants.len() {
                if site.occupants.ends(number) {
                    push(Word::Gone, target, number, 0);
                }
            }
            let server = &self.servers[target + 1];
            let pods = server.delegates.all();
            for (n, pod) in pods.iter().enumerate() {
                let owner = server.chaperons.get(pod.name());
                let lives = owner_lives(server, pod.name(), pod.owner());
                let foreground = lives && owner.is_some_and(|c| c.is_ending() && is_foreground(c));
                if (!lives || foreground) && !pod.is_ending() {
                    push(Word::Collect, target, n, 0);
                }
                if pod.node().is_some() {
                    let jobs = self.config.jobs > 0 && pod.phase() == "Running";
                    if pod.is_ending() || pod.phase() == "Pending" || jobs {
                        push(Word::Kubelet, target, n, 0);
                    }
                } else if (site.takes() || !site.plain && !pod.is_unschedulable())
                    && !pod.is_ending()
                    && !pod.is_gated()
                    && pod.scheduler() != keys::CANDIDATE_SCHEDULER
                {
                    push(Word::Native, target, n, 0);
                }
            }
            for (n, chaperon) in server.chaperons.all().iter().enumerate() {
                let dependent = server.delegates.get(chaperon.name());
                let own = dependent.is_some_and(|pod| pod.owner() == Some(chaperon.uid()));
                if is_foreground(chaperon) && chaperon.is_ending() && !own {
                    push(Word::Collect, target, pods.len() + n, 0);
                }
                if site.plain && self.can_plain(target, n) {
                    push(Word::Plain, target, n, 0);
                }
            }
        }
        for (n, made) in self.made.iter().enumerate() {
            let there = self.servers[0].proxies.get(&Self::proxy_name(n)).is_some();
            if !there && *made < u32::from(self.config.lives) {
                push(Word::Create, n, 0, 0);
            }
        }
    }

    /// Faults end, and fair steps follow until all is quiet. Liars go on.
    pub fn heal(&mut self) {
        let mut rng = Rng::new(self.config.seed ^ 0xdead_beef);
        let mut lies = Rng::new(self.config.seed ^ 0x11e5);
        self.end_faults(&mut rng);
        let mut steps = Vec::new();
        let until = self.now + QUIET_WITHIN;
        let (mut stalls, mut waiting) = (0, BTreeMap::new());
        for _ in 0..MOST_STEPS {
            if self.violation.is_some() {
                return;
            }
            self.fair(&mut steps);
            if !steps.is_empty() {
                if lies.percent(LIES_AMONG_FAIR) {
                    let lie = self.fault(Word::Lie, &mut lies);
                    self.step(lie);
                    continue;
                }
                let step = steps[rng.below(steps.len())];
                let pick = if step.word == Word::Cycle {
                    rng.below(8)
                } else {
                    usize::from(step.b)
                };
                self.step(Step::new(
                    step.word,
                    usize::from(step.a),
                    pick,
                    usize::from(step.c),
                ));
                continue;
            }
            let unrest = self.unrest();
            let Some(unrest) = unrest else { return };
            self.check_delay(&mut waiting);
            if self.now >= until || self.next_time().is_none() {
                self.broke(unrest);
                return;
            }
            let before = self.now;
            self.step(Step::new(Word::Advance, 60_000, 0, 0));
            stalls += u32::from(self.now == before);
            // A timer is due, and nobody acts on it.
            if stalls > MOST_STALLS {
                break;
            }
        }
        let unrest = self
            .unrest()
            .unwrap_or_else(|| Violation::new("I3", "it never ends".to_owned()));
        self.broke(Violation::new(
            unrest.rule,
            format!("{} (no end of steps)", unrest.what),
        ));
    }

    fn end_faults(&mut self, rng: &mut Rng) {
        if self.is_traced() {
            self.tell("---- faults end".to_owned());
        }
        for slot in 0..self.slots.len() {
            if slot % 2 == 0 && self.slots[slot].is_some() && self.slots[slot + 1].is_some() {
                let ends = slot + rng.below(2);
                self.step(Step::new(Word::Crash, ends, 0, 0));
            }
            let Some(process) = &self.slots[slot] else {
                continue;
            };
            let (cut, stopped) = (process.cut, process.stopped);
            if cut {
                self.step(Step::new(Word::Cut, slot, 0, 0));
            }
            if stopped {
                self.step(Step::new(Word::Stop, slot, 0, 0));
            }
            for watch in 0..=self.sites.len() {
                self.step(Step::new(Word::Thaw, slot, watch, 0));
            }
        }
        while !self.late.is_empty() {
            let word = if rng.percent(50) {
                Word::Late
            } else {
                Word::Never
            };
            let index = rng.below(self.late.len());
            self.step(Step::new(word, index, 0, 0));
        }
        for target in 0..self.sites.len() {
            let site = self.sites[target].clone();
            let server = &self.servers[target + 1];
            let (quota, rights) = (server.refuses_pods, server.refuses_chaperons);
            let ends = [
                (Word::Part, site.parted && self.config.heals),
                (Word::Front, site.elsewhere),
                (Word::Quota, quota),
                (Word::Rights, rights),
            ];
            for (word, is) in ends {
                if is {
                    self.step(Step::new(word, target, 0, 0));
                }
            }
            while let Some(n) = self.servers[target + 1].unlabelled() {
                self.step(Step::new(Word::Label, target, n, 0));
            }
        }
    }

    /// A fault that may be possible now.
    fn fault(&self, word: Word, rng: &mut Rng) -> Step {
        let slots = self.slots.len();
        let targets = self.sites.len();
        let flights = self.flights.len();
        let (a, b, c) = match word {
            Word::Lose | Word::Mute | Word::Delay => (rng.below(flights), 0, 0),
            Word::Crash | Word::Second | Word::Cut | Word::Stop => (rng.below(slots), 0, 0),
            Word::Relist => (rng.below(slots), rng.below(1 + targets), rng.below(3)),
            Word::Freeze | Word::Thaw => (rng.below(slots), rng.below(1 + targets), 0),
            Word::Unseat => (4 + rng.below(slots - 4), rng.below(2), 0),
            Word::Delete => (rng.below(self.made.len()), 0, 0),
            Word::Lie => (rng.below(4), rng.below(4), rng.below(LIES)),
            Word::Unask => (rng.below(targets), rng.below(2), rng.below(2)),
            Word::Occupy => (rng.below(targets), rng.below(Occupants::KINDS), 0),
            Word::Evict | Word::Blind | Word::Label => (rng.below(targets), rng.below(2), 0),
            _ => (rng.below(targets), 0, 0),
        };
        Step::new(word, a, b, c)
    }
}

/// Draws a schedule by its seed and runs it.
pub fn walk(seed: u64, traced: bool) -> (World, Schedule) {
    let mut rng = Rng::new(seed);
    let config = Config::draw(seed, &mut rng);
    let mut mood = Mood::draw(&mut rng);
    let mut world = World::new(config.clone(), traced);
    let mut schedule = Schedule {
        config,
        steps: Vec::with_capacity(mood.length),
    };
    let mut fair = Vec::new();
    for _ in 0..mood.length {
        if world.violation.is_some() {
            break;
        }
        let step = next(&world, &mut mood, &mut rng, &mut fair);
        if world.step(step) {
            schedule.steps.push(step);
        }
    }
    world.heal();
    (world, schedule)
}

fn next(world: &World, mood: &mut Mood, rng: &mut Rng, fair: &mut Vec<Step>) -> Step {
    if mood.budget > 0 && rng.percent(mood.chance) {
        mood.budget -= 1;
        let word = mood.kinds[rng.below(mood.kinds.len())];
        return world.fault(word, rng);
    }
    // What a fault began may end before the schedule does.
    if rng.percent(2) {
        let word = [
            Word::Thaw,
            Word::Cut,
            Word::Stop,
            Word::Part,
            Word::Room,
            Word::Quota,
            Word::Rights,
            Word::Front,
        ][rng.below(8)];
        let step = world.fault(word, rng);
        if world.is_on(step) {
            return step;
        }
    }
    if !world.late.is_empty() && rng.percent(5) {
        let word = if rng.percent(75) {
            Word::Late
        } else {
            Word::Never
        };
        return Step::new(word, rng.below(world.late.len()), 0, 0);
    }
    world.fair(fair);
    if fair.is_empty() || rng.percent(mood.haste) {
        let millis = [1, 100, 1000, 5000, 10_000, 15_000, 60_000][rng.below(7)];
        return Step::new(Word::Advance, millis, 0, 0);
    }
    let mut step = fair[rng.below(fair.len())];
    match step.word {
        Word::Pass if rng.percent(mood.split) => step.word = Word::Land,
        Word::Cycle => step.b = rng.below(8) as u16,
        Word::List | Word::Notice => {
            step.c = if rng.percent(70) {
                0
            } else {
                rng.below(12) as u16
            }
        }
        Word::Deliver => step.c = 1 + rng.below(3) as u16,
        _ => {}
    }
    step
}

/// Runs a schedule that is written down.
pub fn replay(schedule: &Schedule, traced: bool) -> World {
    let mut world = World::new(schedule.config.clone(), traced);
    for step in &schedule.steps {
        if world.violation.is_some() {
            return world;
        }
        world.step(*step);
    }
    world.heal();
    world
}

/// Leaves out what a violation doesn't need: runs of steps, smaller and smaller ones.
pub fn shrink(schedule: &Schedule) -> Schedule {
    let rule = |schedule: &Schedule| {
        let world = panic::catch_unwind(|| replay(schedule, false).violation);
        world.map_or(Some("panic"), |violation| {
            violation.map(|violation| violation.rule)
        })
    };
    let wanted = rule(schedule);
    let mut best = schedule.clone();
    if wanted.is_none() {
        return best;
    }
    let mut size = best.steps.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < best.steps.len() {
            let mut fewer = best.clone();
            fewer.steps.drain(at..(at + size).min(best.steps.len()));
            if rule(&fewer) == wanted {
                best = fewer;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    best
}

impl World {
    /// Whether a step would end what an earlier one of its kind began.
    fn is_on(&self, step: Step) -> bool {
        let a = usize::from(step.a);
        let process = self.slots.get(a).and_then(Option::as_ref);
        let site = self.sites.get(a);
        match step.word {
            Word::Thaw => true,
            Word::Cut => process.is_some_and(|process| process.cut),
            Word::Stop => process.is_some_and(|process| process.stopped),
            Word::Part => site.is_some_and(|site| site.parted) && self.config.heals,
            Word::Room => site.is_some_and(|site| !site.fits),
            Word::Quota => site.is_some() && self.servers[a + 1].refuses_pods,
            Word::Rights => site.is_some() && self.servers[a + 1].refuses_chaperons,
            Word::Front => site.is_some_and(|site| site.elsewhere),
            _ => false,
        }
    }

    /// How long it took in its own time.
    pub fn elapsed(&self) -> Duration {
        self.now
    }
}
