//! A schedule by hand: everything happens at once and in order, but for what is held back.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::{PodChaperon, keys, record::Record};
use pilotage_proxy::{ProxyView, class::Marks};

use crate::{
    check::Violation,
    config::Config,
    request::Request,
    server::Delegate,
    step::{Step, Word},
    world::World,
};

/// The proxy scheduler.
pub(crate) const ASK: usize = 0;
/// A second one.
pub(crate) const ASK2: usize = 1;
/// The feedback controller.
pub(crate) const FEEDBACK: usize = 2;

/// The candidate scheduler of a target.
pub(crate) fn candidate(target: usize) -> usize {
    4 + 4 * target
}

/// So often may time stop at a timer while one waits; no wait is nearly so long.
const MOST_TIMERS: usize = 5_000;

/// What is held back.
type Held = Box<dyn Fn(&World, Step) -> bool>;

/// How a trace ends.
pub(crate) type Ended = Result<(), String>;

/// A world that is played by hand.
pub(crate) struct Play {
    pub(crate) world: World,
    held: Vec<Held>,
}

impl Play {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            world: World::new(config, true),
            held: Vec::new(),
        }
    }

    /// Two targets, both asked, and one proxy pod.
    pub(crate) fn usual() -> Self {
        let mut play = Self::new(Config::small());
        play.step(Word::Create, 0, 0, 0);
        play
    }

    /// Does one step, which must be possible.
    pub(crate) fn step(&mut self, word: Word, a: usize, b: usize, c: usize) {
        let step = Step::new(word, a, b, c);
        if !self.world.step(step) {
            self.world.tell(format!("?? {step} isn't possible"));
        }
    }

    /// Requests like these don't land until [`Play::release`].
    pub(crate) fn hold(&mut self, which: impl Fn(usize, &Request) -> bool + 'static) {
        self.held.push(Box::new(move |world, step| {
            let flight = world.flights.get(usize::from(step.a));
            matches!(step.word, Word::Pass | Word::Land)
                && flight.is_some_and(|flight| which(flight.slot, &flight.request))
        }));
    }

    /// Steps of this kind don't happen until [`Play::release`].
    pub(crate) fn hold_word(&mut self, word: Word) {
        self.held.push(Box::new(move |_, step| step.word == word));
    }

    /// Nothing is held back any more.
    pub(crate) fn release(&mut self) {
        self.held.clear();
    }

    /// All that can happen without time passing; a cycle of the proxy scheduler chooses the target with this number.
    pub(crate) fn settle_choosing(&mut self, target: usize) {
        let mut steps = Vec::new();
        for _ in 0..2000 {
            self.world.fair(&mut steps);
            let held = |step: &Step| self.held.iter().any(|held| held(&self.world, *step));
            let Some(step) = steps.iter().find(|step| !held(step)).copied() else {
                return;
            };
            let pick = if step.word == Word::Cycle {
                target
            } else {
                usize::from(step.b)
            };
            self.step(step.word, usize::from(step.a), pick, usize::from(step.c));
        }
        self.restless();
    }

    /// Tells of a broken rule, so that nobody waits on.
    fn restless(&mut self) {
        let what = "it doesn't come to rest".to_owned();
        self.world.broke(Violation::new("I3", what));
    }

    pub(crate) fn settle(&mut self) {
        self.settle_choosing(0);
    }

    /// Time passes, and what it brings happens.
    pub(crate) fn wait(&mut self, seconds: u64) {
        let until = self.world.now + Duration::from_secs(seconds);
        self.settle();
        for _ in 0..MOST_TIMERS {
            if self.world.now >= until || self.world.violation().is_some() {
                return;
            }
            let left = until.saturating_sub(self.world.now);
            let millis = usize::try_from(left.as_millis().min(1000)).unwrap_or(1000);
            self.step(Word::Advance, millis.max(1), 0, 0);
            self.settle();
        }
        // Whoever doesn't act on a timer that is due makes time stand still.
        self.restless();
    }

    /// Number of the first request like this.
    pub(crate) fn find(&self, which: impl Fn(usize, &Request) -> bool) -> Option<usize> {
        self.world
            .flights
            .iter()
            .position(|flight| which(flight.slot, &flight.request))
    }

    /// The first request like this: its sender hears nothing, and it may land later.
    pub(crate) fn delay(&mut self, which: impl Fn(usize, &Request) -> bool) -> Ended {
        let index = self.find(which).ok_or("no such request is under way")?;
        self.step(Word::Delay, index, 0, 0);
        Ok(())
    }

    // ---- what there is ----------------------------------------------------------------------------------------------

    pub(crate) fn proxy(&self) -> Option<Arc<Pod>> {
        self.world.servers[0].proxies.get("web-0").cloned()
    }

    pub(crate) fn record(&self) -> Option<Record> {
        let view = ProxyView::of(&*self.proxy()?)?;
        view.record.record().cloned()
    }

    /// The target that the record names.
    pub(crate) fn recorded_at(&self) -> Option<usize> {
        let record = self.record()?;
        self.world
            .nodes
            .iter()
            .position(|node| *node == record.node)
    }

    pub(crate) fn placed_at(&self) -> Option<usize> {
        let node = ProxyView::of(&*self.proxy()?)?.node_name?;
        self.world.nodes.iter().position(|known| *known == node)
    }

    pub(crate) fn chaperon(&self, target: usize) -> Option<Arc<PodChaperon>> {
        self.world.servers[target + 1]
            .chaperons
            .all()
            .first()
            .cloned()
    }

    pub(crate) fn marks(&self, target: usize) -> Marks {
        self.chaperon(target)
            .map(|chaperon| Marks::of(&chaperon))
            .unwrap_or_default()
    }

    pub(crate) fn delegate(&self, target: usize) -> Option<Arc<Delegate>> {
        self.world.servers[target + 1]
            .delegates
            .all()
            .first()
            .cloned()
    }

    pub(crate) fn is_bound(&self, target: usize) -> bool {
        self.delegate(target)
            .is_some_and(|delegate| delegate.node().is_some())
    }

    pub(crate) fn is_guarded(&self, target: usize) -> bool {
        self.chaperon(target).is_some_and(|chaperon| {
            let finalizers = chaperon.metadata.finalizers.iter().flatten();
            finalizers
                .into_iter()
                .any(|finalizer| finalizer == keys::DELEGATE_GONE)
        })
    }

    /// How often something was told in the trace.
    pub(crate) fn told(&self, words: &[&str]) -> usize {
        let lines = self.world.trace().iter();
        lines
            .filter(|line| words.iter().all(|word| line.contains(word)))
            .count()
    }

    // ---- checks -----------------------------------------------------------------------------------------------------

    /// Everything heals, and no rule was broken.
    pub(crate) fn end(mut self) -> Ended {
        self.release();
        self.world.heal();
        self.check(true, "")
    }

    /// What must hold at this point.
    pub(crate) fn check(&self, holds: bool, what: &str) -> Ended {
        let impossible = self.told(&["??"]) > 0;
        let broken = self.world.violation().map(ToString::to_string);
        if holds && !impossible && broken.is_none() {
            return Ok(());
        }
        let trace = self.world.trace().join("\n");
        Err(format!("{}{what}\n{trace}", broken.unwrap_or_default()))
    }
}
