//! Owns the caches of a running scheduler and the decision about one Shoot. A Shoot that is decided to be bound counts
//! at its Seed at once, so that whoever is decided next can't overfill it, however many work at once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pilotage_placement::{Candidate, Ranking, Request, Settings, select};
use serde_json::Value;

use super::ShootKey;
use super::decision::{Bind, Decision, NotBound, Report};
use super::note::{note, operation};
use super::places::Places;
use super::seen::{Place, Profile, ProfileId, SeenShoot};
use super::wake::{Change, differs, takes};
use crate::eligible::eligible;
use crate::fields::{Field, FieldError};
use crate::kinds::{GROUP, ProfileKind, Project, RegionConfig, Shoot, choose};
use crate::message::Texts;
use crate::request::request;

/// All that a scheduler knows.
#[derive(Debug)]
pub struct World {
    /// Name that Shoots ask for.
    scheduler: String,
    settings: Settings,
    /// A rule counts the Shoots of a project.
    spreads: bool,
    places: Places,
    /// Seeds of each Shoot that has any: in its spec, and in its status if that is another one.
    counted: HashMap<ShootKey, [Option<Arc<str>>; 2]>,
    /// Shoots that are to be placed.
    waiting: HashMap<ShootKey, Waiting>,
    profiles: BTreeMap<ProfileId, Profile>,
    /// By namespace.
    projects: HashMap<String, BTreeMap<String, Project>>,
    /// By name.
    configs: BTreeMap<String, RegionConfig>,
}

/// A Shoot that is to be placed.
#[derive(Debug)]
struct Waiting {
    uid: String,
    version: String,
    object: Arc<Value>,
    shoot: Result<Arc<Shoot>, FieldError>,
    /// What the last attempt asked for, if it came to a selection.
    asked: Option<Arc<Request>>,
    /// It came to nothing.
    failed: bool,
    /// Seeds where it is assumed to be. There is more than one only while the outcome of bindings isn't known.
    holds: Vec<Hold>,
}

/// A binding that may land, or has landed, and that the cache doesn't show yet.
#[derive(Debug)]
struct Hold {
    seed: Arc<str>,
    /// The version that it is good for.
    version: String,
    /// The version that came of it.
    landed: Option<u64>,
}

impl World {
    /// Knows nothing yet. `scheduler` is the name that Shoots ask for.
    pub fn new(scheduler: &str, settings: Settings) -> Self {
        Self {
            scheduler: scheduler.to_owned(),
            spreads: match &settings.ranking {
                Ranking::Weighted(rules) => rules.iter().any(|rule| rule.name() == "Spread"),
                Ranking::Strategy(_) => false,
            },
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

    /// How many Seeds there are.
    pub fn seeds(&self) -> usize {
        self.places.candidates().len()
    }

    /// How many Shoots a Seed has, with those that are on their way.
    pub fn used(&self, seed: &str) -> u64 {
        self.places.count(seed)
    }

    /// Takes a Shoot in as it was seen last, or that it is gone. Returns the Shoots that deserve an attempt now: itself
    /// if it is new or its spec has changed (what we write into its status doesn't count), and those that it made room for.
    pub fn shoot(&mut self, key: &ShootKey, seen: Option<&SeenShoot>) -> Vec<ShootKey> {
        let mut woken = Vec::new();
        let mut left = self.recount(key, seen);
        let old = self.waiting.remove(key);
        let new = seen.and_then(|seen| self.wait(seen));
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
                (new.asked, new.failed) = (old.asked, old.failed);
                if old.object.get("spec") != new.object.get("spec") {
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
        self.leave(&key.namespace, left, &mut woken);
        woken
    }

    /// Counts a Shoot at its Seeds; returns those that it counted at before.
    fn recount(&mut self, key: &ShootKey, seen: Option<&SeenShoot>) -> Vec<Arc<str>> {
        let old = self.counted.remove(key);
        if let Some(seen) = seen {
            let spec = seen.seed.as_deref();
            let status = seen.status_seed.as_deref();
            let status = status.filter(|status| Some(*status) != spec);
            if spec.is_some() || status.is_some() {
                let seeds = [spec, status]
                    .map(|seed| seed.map(|seed| self.places.add(&key.namespace, seed)));
                self.counted.insert(key.clone(), seeds);
            }
        }
        old.into_iter().flatten().flatten().collect()
    }

    /// A Shoot as one that waits, if it is ours to place.
    fn wait(&self, seen: &SeenShoot) -> Option<Waiting> {
        let object = seen.unassigned.clone()?;
        let shoot = match Shoot::read(&object) {
            Ok(shoot) => {
                eligible(&shoot, Some(&self.scheduler)).ok()?;
                Ok(Arc::new(shoot))
            }
            // Its author has to hear of it, if it is ours.
            Err(error) => {
                let ours = addressed(&object, &self.scheduler).unwrap_or(false);
                ours.then_some(Err(error))?
            }
        };
        Some(Waiting {
            uid: seen.uid.clone(),
            version: seen.version.clone(),
            object,
            shoot,
            asked: None,
            failed: false,
            holds: Vec::new(),
        })
    }

    /// A Shoot less at each of these Seeds, and a hope for others where that made room.
    fn leave(&mut self, namespace: &str, seeds: Vec<Arc<str>>, woken: &mut Vec<ShootKey>) {
        for seed in seeds {
            let was_full = self.places.is_full(&seed);
            self.places.sub(namespace, &seed);
            if was_full
                && !self.places.is_full(&seed)
                && let Some(candidate) = self.places.get(&seed)
            {
                let settings = &self.settings;
                woken.extend(unmet(&self.waiting, |request| {
                    takes(request, candidate, settings)
                }));
            }
        }
    }

    /// Takes a Seed in as it was seen last, or that it is gone. Returns the Shoots that this could help.
    pub fn seed(&mut self, name: &str, seen: Option<&Place>) -> Vec<ShootKey> {
        let old = match seen {
            Some(Ok(candidate)) => self.places.set(candidate.clone()),
            Some(Err(_)) | None => self.places.remove(name),
        };
        let new = self.places.get(name);
        if let (Some(old), Some(new)) = (&old, new)
            && !differs(old, new)
        {
            return Vec::new();
        }
        let change = Change {
            old: old.as_ref(),
            new,
        };
        let (places, settings) = (&self.places, &self.settings);
        unmet(&self.waiting, |request| {
            change.helps(request, places, settings)
        })
        .collect()
    }

    /// Takes a profile in as it was seen last, or that it is gone; `namespace` is empty for the cluster-wide kind.
    /// Returns the Shoots that name it, if it has changed in what we read of it.
    pub fn profile(
        &mut self,
        kind: ProfileKind,
        namespace: &str,
        name: &str,
        seen: Option<&Profile>,
    ) -> Vec<ShootKey> {
        let id = (kind, namespace.to_owned(), name.to_owned());
        if self.profiles.get(&id) == seen {
            return Vec::new();
        }
        match seen {
            Some(profile) => self.profiles.insert(id.clone(), profile.clone()),
            None => self.profiles.remove(&id),
        };
        self.readable()
            .filter(|(key, shoot)| profile_id(key, shoot).is_some_and(|other| other == id))
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// Takes a project in as it was seen last, or that it is gone. Returns the Shoots in its namespace, the one of
    /// before included.
    pub fn project(&mut self, name: &str, seen: Option<&Project>) -> Vec<ShootKey> {
        let mut namespaces = Vec::new();
        for (namespace, projects) in &mut self.projects {
            if projects.get(name).is_some_and(|old| Some(old) != seen) {
                projects.remove(name);
                namespaces.push(namespace.clone());
            }
        }
        if let Some(project) = seen
            && let Some(namespace) = &project.namespace
        {
            let projects = self.projects.entry(namespace.clone()).or_default();
            if projects.insert(name.to_owned(), project.clone()).is_none() {
                namespaces.push(namespace.clone());
            }
        }
        self.projects.retain(|_, projects| !projects.is_empty());
        let keys = self.waiting.keys();
        keys.filter(|key| namespaces.contains(&key.namespace))
            .cloned()
            .collect()
    }

    /// Takes a region `ConfigMap` in as it was seen last, or that it is gone. Returns the Shoots whose profiles it names or named.
    pub fn region_config(&mut self, name: &str, seen: Option<&RegionConfig>) -> Vec<ShootKey> {
        if self.configs.get(name) == seen {
            return Vec::new();
        }
        let old = match seen {
            Some(config) => self.configs.insert(name.to_owned(), config.clone()),
            None => self.configs.remove(name),
        };
        let concerns = |profile: &str| {
            let mut both = old.iter().chain(seen);
            both.any(|config| config.is_for(profile))
        };
        self.readable()
            .filter(|(_, shoot)| {
                let profile = shoot.profile.as_ref();
                profile.is_some_and(|profile| concerns(&profile.name))
            })
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// Shoots that wait and can be read.
    fn readable(&self) -> impl Iterator<Item = (&ShootKey, &Shoot)> {
        self.waiting
            .iter()
            .filter_map(|(key, waiting)| Some((key, &**waiting.shoot.as_ref().ok()?)))
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
        let verdict = self.judge(key);
        for seed in &own {
            self.places.add(&key.namespace, seed);
        }
        let Some(waiting) = self.waiting.get_mut(key) else {
            return Decision::Nothing;
        };
        match verdict {
            Verdict::Seed { seed, request } => {
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
                    });
                    seed
                });
                (waiting.asked, waiting.failed) = (Some(request), false);
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
                (waiting.asked, waiting.failed) = (request, true);
                Decision::Report(waiting.report(&message, note))
            }
        }
    }

    /// What a selection says, or why there is none.
    fn judge(&self, key: &ShootKey) -> Verdict {
        let failed = |message: String| Verdict::Nobody {
            note: note(&message, None),
            message,
            request: None,
        };
        let Some(waiting) = self.waiting.get(key) else {
            return failed("it is gone".to_owned());
        };
        let shoot = match &waiting.shoot {
            Ok(shoot) => shoot,
            Err(error) => return failed(format!("the Shoot can't be read: {error}")),
        };
        let Some(id) = profile_id(key, shoot) else {
            return failed(
                "could not determine cloud profile: neither spec.cloudProfile nor spec.cloudProfileName is set"
                    .to_owned(),
            );
        };
        let profile = match self.profiles.get(&id) {
            Some(Ok(profile)) => profile,
            Some(Err(error)) => {
                let (kind, name) = (id.0.name(), &id.2);
                return failed(format!("the {kind} {name:?} can't be read: {error}"));
            }
            // As the original's client words it.
            None => {
                let (kind, name) = (id.0.name(), &id.2);
                return failed(format!("{kind}.{GROUP} {name:?} not found"));
            }
        };
        let table = choose(self.configs.values(), &profile.name);
        let table = table.map(|config| config.table.clone());
        let projects = self.projects.get(&key.namespace);
        let projects = projects.into_iter().flat_map(BTreeMap::values);
        let Ok(mut request) = request(shoot, profile, projects, table) else {
            return failed(format!("projects.{GROUP} \"<unknown>\" not found"));
        };
        if self.spreads {
            request.peers = Some(self.places.peers(&key.namespace));
        }
        let selection = select(&request, self.places.candidates(), &self.settings);
        // Whom a change could help doesn't depend on them.
        request.peers = None;
        if let Some(winner) = selection.winner() {
            return Verdict::Seed {
                seed: winner.name.clone(),
                request: Arc::new(request),
            };
        }
        let texts = Texts {
            request: &request,
            settings: &self.settings,
            profile: &profile.name,
        };
        let message = texts.failure(&selection).unwrap_or_default();
        Verdict::Nobody {
            note: note(&message, Some(&selection)),
            message,
            request: Some(Arc::new(request)),
        }
    }

    /// A binding has landed; `version` is what came of it.
    pub fn bound(&mut self, key: &ShootKey, bind: &Bind, version: &str) {
        if let Some(hold) = self.hold(key, bind) {
            hold.landed = Some(number(version));
        }
    }

    /// A binding has failed. Returns what its author is told, but nothing of mere conflicts, and the Shoots that it made
    /// room for.
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
        waiting.failed = true;
        let is_it = |hold: &Hold| hold.seed == bind.seed && hold.version == bind.version;
        // Until the cache shows what has changed, a conflict may be with a binding of ours whose reply was lost.
        let stands = match how {
            NotBound::Refused => false,
            NotBound::Conflict => waiting.version == bind.version,
            NotBound::Open => true,
        };
        if !stands && let Some(at) = waiting.holds.iter().position(is_it) {
            let hold = waiting.holds.swap_remove(at);
            self.leave(&key.namespace, vec![hold.seed], &mut woken);
        }
        woken.retain(|other| other != key);
        let Some(waiting) = self.waiting.get(key).filter(|_| how != NotBound::Conflict) else {
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

/// What a selection says.
enum Verdict {
    Seed {
        seed: Arc<str>,
        /// What was asked for.
        request: Arc<Request>,
    },
    Nobody {
        message: String,
        note: String,
        /// What was asked for, if it came to a selection.
        request: Option<Arc<Request>>,
    },
}

impl Waiting {
    fn report(&self, message: &str, note: String) -> Report {
        let operation = operation(message);
        let known = self.object.pointer("/status/lastOperation");
        let says = |field: &str, text: &str| {
            known.and_then(|known| known.get(field)) == Some(&Value::from(text))
        };
        Report {
            uid: self.uid.clone(),
            version: self.version.clone(),
            told: says("type", "Create")
                && says("state", "Pending")
                && says("description", &operation),
            operation,
            note,
        }
    }
}

/// The Shoots that got no Seed and could have one now.
fn unmet<'a>(
    waiting: &'a HashMap<ShootKey, Waiting>,
    helped: impl Fn(&Request) -> bool + 'a,
) -> impl Iterator<Item = ShootKey> + 'a {
    waiting
        .iter()
        .filter(move |(_, waiting)| {
            let asked = waiting.asked.as_deref();
            waiting.failed && asked.is_some_and(&helped)
        })
        .map(|(key, _)| key.clone())
}

/// Where the profile of a Shoot is looked for.
fn profile_id(key: &ShootKey, shoot: &Shoot) -> Option<ProfileId> {
    let profile = shoot.profile.as_ref()?;
    let namespace = match profile.kind {
        ProfileKind::CloudProfile => String::new(),
        ProfileKind::NamespacedCloudProfile => key.namespace.clone(),
    };
    Some((profile.kind, namespace, profile.name.clone()))
}

/// Whether a Shoot that can't be read as a whole is ours to place.
fn addressed(object: &Value, scheduler: &str) -> Result<bool, FieldError> {
    let root = Field::root(object);
    let wanted = root.at(&["spec", "schedulerName"])?.non_empty()?;
    let deleting = root.at(&["metadata", "deletionTimestamp"])?.is_present();
    Ok(wanted.unwrap_or("default-scheduler") == scheduler && !deleting)
}

/// A version as a number; 0 if it is none.
fn number(version: &str) -> u64 {
    version.parse().unwrap_or_default()
}
