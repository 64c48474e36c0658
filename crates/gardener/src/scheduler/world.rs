//! Owns the caches of a running scheduler and the decision about one Shoot. A Shoot that is decided to be bound counts
//! at its Seed at once, so that whoever is decided next can't overfill it, however many work at once. A panic in a
//! judgement leaves all counts as they were.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use pilotage_placement::{Candidate, Request, Settings};

use super::ShootKey;
use super::decision::{Bind, Decision, NotBound, Report};
use super::inputs::unmet;
use super::judge::Verdict;
use super::note::note;
use super::places::Places;
use super::seen::{Profile, SeenShoot};
use super::waiting::{Hold, Last, Waiting, number};
use super::wake::takes;
use crate::kinds::{ProfileId, Project, RegionConfig};
use crate::usage::seeds;

/// All that a scheduler knows.
#[derive(Debug)]
pub struct World {
    /// Name that Shoots ask for.
    scheduler: String,
    pub(super) settings: Settings,
    /// A rule counts the Shoots of a project.
    pub(super) spreads: bool,
    pub(super) places: Places,
    /// Seeds of each Shoot that has any: in its spec, and in its status if that is another one.
    counted: HashMap<ShootKey, Vec<Arc<str>>>,
    /// Shoots that are to be placed.
    pub(super) waiting: HashMap<ShootKey, Waiting>,
    pub(super) profiles: BTreeMap<ProfileId, Profile>,
    /// By namespace.
    pub(super) projects: HashMap<String, BTreeMap<String, Project>>,
    /// By name.
    pub(super) configs: BTreeMap<String, RegionConfig>,
}

impl World {
    /// Knows nothing yet. `scheduler` is the name that Shoots ask for.
    pub fn new(scheduler: &str, settings: Settings) -> Self {
        Self {
            scheduler: scheduler.to_owned(),
            spreads: settings.ranking.counts_peers(),
            settings,
            places: Places::default(),
            counted: HashMap::new(),
            waiting: HashMap::new(),
            profiles: BTreeMap::new(),
            projects: HashMap::new(),
            configs: BTreeMap::new(),
        }
    }

    /// How many Shoots wait for a Seed.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The Shoots that wait for a Seed.
    pub fn keys(&self) -> Vec<ShootKey> {
        self.waiting.keys().cloned().collect()
    }

    /// How many Seeds there are.
    pub fn seeds(&self) -> usize {
        self.places.candidates().len()
    }

    /// How many Shoots a Seed has, with those that are on their way.
    pub fn used(&self, seed: &str) -> u64 {
        self.places.count(seed)
    }

    /// Takes a Shoot in as it was seen last, or that it is gone. Returns the Shoots that deserve an attempt now: itself
    /// if it is new or its spec has changed (what we write into its status doesn't count), or if its last binding was
    /// for an older version than this one, and those that it made room for.
    pub fn shoot(&mut self, key: &ShootKey, seen: Option<&SeenShoot>) -> Vec<ShootKey> {
        let mut woken = Vec::new();
        let new = seen.and_then(|seen| Waiting::of(seen, &self.scheduler));
        let mut left = self.recount(key, seen);
        let old = self.waiting.remove(key);
        match (old, new) {
            (None, None) => {}
            (None, Some(new)) => {
                self.waiting.insert(key.clone(), new);
                woken.push(key.clone());
            }
            (Some(old), None) => {
                left.extend(old.holds.into_iter().map(|hold| hold.seed));
                // Whoever keeps something for it may forget that.
                woken.push(key.clone());
            }
            (Some(old), Some(mut new)) if old.uid == new.uid => {
                let now = number(&new.version);
                let (kept, gone): (Vec<_>, _) = old.holds.into_iter().partition(|hold| {
                    // A binding is good for one version only, so one that hasn't landed before never will.
                    hold.version == new.version || hold.landed.is_some_and(|at| now < at)
                });
                left.extend(gone.into_iter().map(|hold| hold.seed));
                new.holds = kept;
                (new.asked, new.last) = (old.asked, old.last);
                let is_newer = old.version != new.version;
                new.outdated = old.outdated && !is_newer;
                let is_same = old.object.same_spec(&new.object);
                if is_same {
                    new.refused = old.refused;
                }
                if !is_same || (old.outdated && is_newer) {
                    woken.push(key.clone());
                }
                self.waiting.insert(key.clone(), new);
            }
            (Some(old), Some(new)) => {
                left.extend(old.holds.into_iter().map(|hold| hold.seed));
                self.waiting.insert(key.clone(), new);
                woken.push(key.clone());
            }
        }
        self.leave(
            &key.namespace,
            left,
            &[Last::Failed, Last::Refused],
            &mut woken,
        );
        woken
    }

    /// Counts a Shoot at its Seeds; returns those that it counted at before.
    fn recount(&mut self, key: &ShootKey, seen: Option<&SeenShoot>) -> Vec<Arc<str>> {
        let old = self.counted.remove(key);
        if let Some(seen) = seen {
            let seeds = seeds(seen.seed.as_deref(), seen.status_seed.as_deref());
            let seeds: Vec<_> = seeds
                .map(|seed| self.places.add(&key.namespace, seed))
                .collect();
            if !seeds.is_empty() {
                self.counted.insert(key.clone(), seeds);
            }
        }
        old.unwrap_or_default()
    }

    /// A Shoot less at each of these Seeds, and a hope for others, whose last attempts ended like this, where that made
    /// room.
    fn leave(
        &mut self,
        namespace: &str,
        seeds: Vec<Arc<str>>,
        ends: &[Last],
        woken: &mut Vec<ShootKey>,
    ) {
        let mut roomy = Vec::new();
        for seed in seeds {
            let was_full = self.places.is_full(&seed);
            self.places.sub(namespace, &seed);
            if was_full && !self.places.is_full(&seed) {
                roomy.push(seed);
            }
        }
        // All counts are right before anything is judged.
        for candidate in roomy.iter().filter_map(|seed| self.places.get(seed)) {
            let settings = &self.settings;
            let helps = |request: &Request| takes(request, candidate, settings);
            woken.extend(unmet(&mut self.waiting, ends, helps));
        }
    }

    /// What to do about a Shoot now. If it is to be bound, it counts at its Seed from now on.
    pub fn decide(&mut self, key: &ShootKey) -> Decision {
        let Some(waiting) = self.waiting.get(key) else {
            return Decision::Nothing;
        };
        if waiting.holds.iter().any(|hold| hold.landed.is_some()) {
            return Decision::Nothing;
        }
        // It doesn't stand in its own way.
        let own: Vec<_> = waiting.holds.iter().map(|hold| hold.seed.clone()).collect();
        for seed in &own {
            self.places.sub(&key.namespace, seed);
        }
        let verdict = catch_unwind(AssertUnwindSafe(|| self.judge(key)));
        for seed in &own {
            self.places.add(&key.namespace, seed);
        }
        let verdict = verdict.unwrap_or_else(|panic| resume_unwind(panic));
        let Some(waiting) = self.waiting.get_mut(key) else {
            return Decision::Nothing;
        };
        match verdict {
            Verdict::Seed { seed, request } => {
                // All its equals have, too, so it begins at the first again.
                if waiting.refused.contains(&seed) {
                    waiting.refused.clear();
                }
                let mut holds = waiting.holds.iter();
                let held = holds
                    .find(|hold| hold.seed == seed && hold.version == waiting.version)
                    .map(|hold| hold.seed.clone());
                let seed = held.unwrap_or_else(|| {
                    let seed = self.places.add(&key.namespace, &seed);
                    waiting.holds.push(Hold {
                        seed: seed.clone(),
                        version: waiting.version.clone(),
                        landed: None,
                        unclear: false,
                    });
                    seed
                });
                (waiting.asked, waiting.last) = (Some(request), Last::Open { missed: false });
                Decision::Bind(Bind {
                    seed,
                    uid: waiting.uid.clone(),
                    version: waiting.version.clone(),
                    object: waiting.object.clone(),
                })
            }
            Verdict::Nobody {
                message,
                note,
                request,
            } => {
                (waiting.asked, waiting.last) = (request, Last::Failed);
                Decision::Report(waiting.report(&message, note))
            }
        }
    }

    /// A binding has landed; `version` is what came of it.
    pub fn bound(&mut self, key: &ShootKey, bind: &Bind, version: &str) {
        if let Some(hold) = self.hold(key, bind) {
            hold.landed = Some(number(version));
        }
    }

    /// A binding has failed. Returns what its author is told, but nothing of mere conflicts, and the Shoots that it
    /// made room for; the Shoot itself is one of them if something has changed meanwhile that could help it, as a newer
    /// version does after a conflict.
    ///
    /// Who was refused isn't woken by the room that others leave who were refused, too: they would wake each other for
    /// ever.
    pub fn not_bound(
        &mut self,
        key: &ShootKey,
        bind: &Bind,
        how: NotBound,
        error: &str,
    ) -> (Option<Report>, Vec<ShootKey>) {
        let mut woken = Vec::new();
        let Some(waiting) = self.waiting.get_mut(key).filter(|one| one.uid == bind.uid) else {
            return (None, woken);
        };
        let is_newest = waiting.version == bind.version;
        let is_conflict = how == NotBound::Conflict;
        waiting.outdated = is_newest && (is_conflict || waiting.outdated);
        let helped = waiting.last == Last::Open { missed: true } || (is_conflict && !is_newest);
        waiting.last = match how {
            NotBound::Refused => Last::Refused,
            NotBound::Conflict | NotBound::Open => Last::Failed,
        };
        if how == NotBound::Refused && waiting.object.same_spec(&bind.object) {
            waiting.refused.insert(bind.seed.clone());
        }
        let is_it = |hold: &Hold| hold.seed == bind.seed && hold.version == bind.version;
        if let Some(at) = waiting.holds.iter().position(is_it) {
            let hold = &mut waiting.holds[at];
            hold.unclear |= how == NotBound::Open;
            // Until the cache shows what has changed, an earlier request whose reply was lost may have bound it.
            let stands = match how {
                NotBound::Refused => hold.unclear && is_newest,
                NotBound::Conflict => is_newest,
                NotBound::Open => true,
            };
            if !stands {
                let hold = waiting.holds.swap_remove(at);
                self.leave(&key.namespace, vec![hold.seed], &[Last::Failed], &mut woken);
            }
        }
        woken.retain(|other| other != key);
        if helped {
            woken.push(key.clone());
        }
        let Some(waiting) = self.waiting.get(key).filter(|_| !is_conflict) else {
            return (None, woken);
        };
        let report = waiting.report(error, note(error, None));
        (Some(report), woken)
    }

    fn hold(&mut self, key: &ShootKey, bind: &Bind) -> Option<&mut Hold> {
        let waiting = self.waiting.get_mut(key)?;
        let mut holds = waiting.holds.iter_mut();
        holds.find(|hold| hold.seed == bind.seed && hold.version == bind.version)
    }

    /// All Seeds, each with its count.
    pub fn candidates(&self) -> &[Candidate] {
        self.places.candidates()
    }
}
