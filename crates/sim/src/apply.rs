//! Carries out one step, if it is possible now.

use std::time::Duration;

use pilotage_proxy::Reach;

use crate::{
    check::Violation,
    step::{Step, Word},
    world::{Kind, World},
};

impl World {
    /// Carries out a step; `false` if it isn't possible now.
    pub fn step(&mut self, step: Step) -> bool {
        let (a, b, c) = (
            usize::from(step.a),
            usize::from(step.b),
            usize::from(step.c),
        );
        let before = self.trace().len();
        let done = match step.word {
            Word::Deliver => self.deliver(a, b, c.max(1)),
            Word::List => self.list(a, b, c, true),
            Word::Relist => self.list(a, b, c, false),
            Word::Take => self.take(a),
            Word::Land => self.can_land(a).then(|| self.land(a)).is_some(),
            Word::Reply => self.arrives(a),
            Word::Pass => self.pass(a),
            Word::Cycle => self.cycle(a, b),
            Word::Drive => self.drive(a, b),
            Word::Notice => self.notice(a, b, c),
            Word::Terms => self.read_terms(a, b),
            Word::Start => self.begin(a, true),
            Word::Second => self.begin(a, false),
            Word::Crash => {
                self.slots.get(a).is_some_and(Option::is_some) && {
                    self.crash(a);
                    true
                }
            }
            Word::Late => (a < self.late.len()).then(|| self.land_late(a)).is_some(),
            Word::Never => (a < self.late.len()).then(|| self.late.remove(a)).is_some(),
            Word::Advance => {
                self.elapse(Duration::from_millis(u64::from(step.a)));
                true
            }
            Word::Lose => self.unanswered(a) && self.give_up(a).is_some(),
            Word::Delay => {
                self.unanswered(a) && {
                    let late = self.give_up(a);
                    self.late.extend(late);
                    true
                }
            }
            Word::Mute => {
                self.flights
                    .get(a)
                    .is_some_and(|flight| flight.reply.is_some())
                    && {
                        self.give_up(a);
                        true
                    }
            }
            Word::Freeze => self.set_frozen(a, b, true),
            Word::Thaw => self.set_frozen(a, b, false),
            Word::Cut => self.process(a, |process| process.cut = !process.cut),
            Word::Stop => {
                let done = self.process(a, |process| process.stopped = !process.stopped);
                self.wake_up(a);
                done
            }
            Word::Unseat => self.unseat(a, b),
            Word::Lie => self.lie(a, b, c),
            _ => self.surroundings(step),
        };
        if done {
            self.check_holds();
            if self.is_traced() {
                let what = self.explain(step);
                self.tell_step(step, &what);
                // What follows from a step is told after it.
                let after = self.trace().len() - before - 1;
                self.rotate_trace(after);
            }
        }
        done
    }

    /// A stopped process goes on: what was due meanwhile happens now.
    fn wake_up(&mut self, slot: usize) {
        if !self.runs(slot) {
            return;
        }
        while let Some(index) = self
            .flights
            .iter()
            .position(|flight| flight.slot == slot && flight.limit <= self.now)
        {
            self.give_up(index);
        }
        self.fire(slot);
    }

    fn process(&mut self, slot: usize, change: impl FnOnce(&mut crate::world::Process)) -> bool {
        let process = self.slots.get_mut(slot).and_then(Option::as_mut);
        process.map(change).is_some()
    }

    fn unanswered(&self, index: usize) -> bool {
        let flight = self.flights.get(index);
        flight.is_some_and(|flight| flight.reply.is_none() && self.runs(flight.slot))
    }

    fn arrives(&mut self, index: usize) -> bool {
        let flight = self.flights.get(index);
        let arrives = flight.is_some_and(|flight| flight.reply.is_some() && self.runs(flight.slot));
        if arrives {
            self.reply(index);
        }
        arrives
    }

    fn pass(&mut self, index: usize) -> bool {
        if !self
            .flights
            .get(index)
            .is_some_and(|flight| self.runs(flight.slot))
        {
            return false;
        }
        let mut done = false;
        while self.can_land(index) {
            self.land(index);
            done = true;
        }
        self.arrives(index) || done
    }

    fn take(&mut self, slot: usize) -> bool {
        if !self.runs(slot) {
            return false;
        }
        self.controller(slot, |process, cx, _| {
            let waits = process.waiting() > 0;
            process.take(cx);
            waits
        })
        .unwrap_or(false)
    }

    // ---- the source -------------------------------------------------------------------------------------------------

    fn cycle(&mut self, slot: usize, pick: usize) -> bool {
        if !self.runs(slot) || !self.can_cycle(slot) {
            return false;
        }
        let chosen = self
            .source(slot, |source, cx, _| source.cycle(pick, cx))
            .flatten();
        if let Some(chosen) = chosen.filter(|_| self.is_traced()) {
            self.tell(format!("{:>34} cycle: {chosen}", ""));
        }
        true
    }

    /// Whether a scheduling cycle of a proxy scheduler is due.
    pub(crate) fn can_cycle(&self, slot: usize) -> bool {
        let process = self.slots[slot].as_ref();
        process.is_some_and(|process| match &process.kind {
            Kind::Source(source) => source
                .next_cycle()
                .is_some_and(|at| at <= process.clock.show(self.now)),
            _ => false,
        })
    }

    /// What a process of the source would notice of a target.
    pub(crate) fn unnoticed(&self, slot: usize, target: usize) -> Option<Reach> {
        let site = self.sites.get(target)?;
        let process = self
            .slots
            .get(slot)?
            .as_ref()
            .filter(|process| !process.stopped)?;
        let Kind::Source(source) = &process.kind else {
            return None;
        };
        let known = source.links[target].reach;
        let is = match (site.exists, site.parted) {
            (false, _) => Reach::NoSuchTarget,
            (true, true) => Reach::Lost,
            (true, false) => Reach::Reachable,
        };
        // What is gone is told by the registry only to those who knew it.
        (known != is && known != Reach::NoSuchTarget).then_some(is)
    }

    fn notice(&mut self, slot: usize, target: usize, back: usize) -> bool {
        let Some(reach) = self.unnoticed(slot, target) else {
            return false;
        };
        self.source(slot, |source, cx, servers| {
            let link = &mut source.links[target];
            if reach == Reach::Reachable && !link.chaperons.synced {
                // All that was listed is told before the target counts as reachable.
                let mut news = Vec::new();
                link.chaperons
                    .list(&servers[target + 1].chaperons, back, &mut news);
                source.take_chaperons(target, news, cx);
            }
            source.set_reach(target, reach, cx);
        });
        true
    }

    /// Whether a process of the source knows another word of a Target than stands there.
    pub(crate) fn terms_differ(&self, slot: usize, target: usize) -> bool {
        let process = self.slots.get(slot).and_then(Option::as_ref);
        let kind = process
            .filter(|process| !process.stopped)
            .map(|process| &process.kind);
        match (kind, self.sites.get(target)) {
            (Some(Kind::Source(source)), Some(site)) => {
                site.exists
                    && source.links[target].reach != Reach::NoSuchTarget
                    && source.links[target].terms != site.terms
            }
            _ => false,
        }
    }

    fn read_terms(&mut self, slot: usize, target: usize) -> bool {
        if !self.terms_differ(slot, target) {
            return false;
        }
        let terms = self.sites[target].terms;
        self.source(slot, |source, cx, _| source.set_terms(target, terms, cx));
        true
    }

    /// A process starts: in place of one that ended, or beside one that lives.
    fn begin(&mut self, slot: usize, alone: bool) -> bool {
        let Some(None) = self.slots.get(slot) else {
            return false;
        };
        if Self::home(slot).is_some_and(|target| self.sites[target].plain) {
            return false;
        }
        if self.slots[slot ^ 1].is_some() == alone {
            return false;
        }
        self.start(slot, false);
        true
    }

    // ---- targets ----------------------------------------------------------------------------------------------------

    /// The name with this number of a candidate scheduler, if its driver can do something.
    pub(crate) fn drivable(&self, slot: usize, n: usize) -> Option<String> {
        let process = self
            .slots
            .get(slot)?
            .as_ref()
            .filter(|process| !process.stopped)?;
        let Kind::Candidate(candidate) = &process.kind else {
            return None;
        };
        let key = candidate.keys().nth(n)?;
        candidate
            .can_drive(key, process.clock.show(self.now))
            .then(|| key.clone())
    }

    fn drive(&mut self, slot: usize, n: usize) -> bool {
        let Some(key) = self.drivable(slot, n) else {
            return false;
        };
        let what = self.candidate(slot, |process, cx, _| process.drive(&key, cx));
        if let Some(what) = what.filter(|_| self.is_traced()) {
            self.tell(format!("{:>34} {} {what}", "", Self::name_of(slot)));
        }
        true
    }

    fn unseat(&mut self, slot: usize, n: usize) -> bool {
        if !self.runs(slot) {
            return false;
        }
        self.candidate(slot, |process, cx, _| {
            let key = process.keys().nth(n).cloned();
            key.is_some_and(|key| process.lose_seat(&key, cx))
        })
        .unwrap_or(false)
    }

    // ---- what isn't a process of ours -------------------------------------------------------------------------------

    fn check_holds(&mut self) {
        for slot in 0..self.slots.len() {
            let Some(process) = self.slots[slot].as_ref().filter(|process| !process.stopped) else {
                continue;
            };
            if let Kind::Candidate(candidate) = &process.kind
                && let Some(key) = candidate.overdue(process.clock.show(self.now))
            {
                let what = format!("{} still holds a node for {key}", Self::name_of(slot));
                self.broke(Violation::new("I2", what));
                return;
            }
            if let Kind::Source(source) = &process.kind
                && source.outdone
            {
                let what = format!("{} has more evicted than it must", Self::name_of(slot));
                self.broke(Violation::new("I7", what));
                return;
            }
            if let Kind::Candidate(candidate) = &process.kind
                && candidate.crowded
            {
                let what = format!("{} binds to a node that doesn't fit", Self::name_of(slot));
                self.broke(Violation::new("I2", what));
            }
        }
    }

    /// What a step was about, for the trace.
    fn explain(&self, step: Step) -> String {
        let (a, b) = (usize::from(step.a), usize::from(step.b));
        match step.word {
            Word::Deliver | Word::List | Word::Relist | Word::Freeze | Word::Thaw => {
                let what = match (a / 2, b) {
                    (0 | 1, 0) => "proxies".to_owned(),
                    (0 | 1, n) => format!("chaperons in {}", self.nodes[n - 1]),
                    (_, 0) => "chaperons".to_owned(),
                    _ => "pods".to_owned(),
                };
                format!("{}: {what}", Self::name_of(a))
            }
            Word::Take
            | Word::Cycle
            | Word::Drive
            | Word::Start
            | Word::Second
            | Word::Crash
            | Word::Cut
            | Word::Stop
            | Word::Unseat
            | Word::Lie => Self::name_of(a),
            Word::Notice | Word::Terms => format!("{}: {}", Self::name_of(a), self.nodes[b]),
            Word::Collect
            | Word::Kubelet
            | Word::Native
            | Word::Plain
            | Word::Part
            | Word::Room
            | Word::Occupy
            | Word::Gone
            | Word::Quota
            | Word::Rights
            | Word::Front
            | Word::Blind
            | Word::Evict
            | Word::Unask
            | Word::Label
            | Word::Forget
            | Word::Leave
            | Word::Remove => self.nodes[a].clone(),
            _ => String::new(),
        }
    }
}
