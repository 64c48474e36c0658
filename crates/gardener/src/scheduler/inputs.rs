//! Owns what becomes of a change of a Seed, profile, project or table of distances: it is kept, and the Shoots that it
//! could help are named.

use std::collections::HashMap;

use pilotage_placement::Request;

use super::ShootKey;
use super::seen::{Place, Profile};
use super::waiting::{Last, Waiting};
use super::wake::{Change, differs};
use super::world::World;
use crate::kinds::{ProfileId, ProfileKind, Project, RegionConfig, Shoot};
use crate::request::profile_id;

impl World {
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
        for waiting in self.waiting.values_mut() {
            waiting.refused.remove(name);
        }
        let change = Change {
            old: old.as_ref(),
            new,
        };
        let (places, settings) = (&self.places, &self.settings);
        let helps = |request: &Request| change.helps(request, places, settings);
        unmet(&mut self.waiting, &[Last::Failed, Last::Refused], helps)
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
        let id = ProfileId {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        if self.profiles.get(&id) == seen {
            return Vec::new();
        }
        match seen {
            Some(profile) => self.profiles.insert(id.clone(), profile.clone()),
            None => self.profiles.remove(&id),
        };
        self.readable()
            .filter(|(_, shoot)| profile_id(shoot).is_ok_and(|other| other == id))
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

    /// Takes a region `ConfigMap` in as it was seen last, or that it is gone. Returns the Shoots whose profiles it
    /// names or named.
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
            .filter_map(|(key, waiting)| Some((key, waiting.object.shoot.as_ref().ok()?)))
    }
}

/// The Shoots whose last attempt ended in one of these ways and that could have a Seed now. Those that are being bound
/// remember it, in case that comes to nothing.
pub(super) fn unmet(
    waiting: &mut HashMap<ShootKey, Waiting>,
    ends: &[Last],
    helps: impl Fn(&Request) -> bool,
) -> Vec<ShootKey> {
    let mut woken = Vec::new();
    for (key, waiting) in waiting {
        let helped = || waiting.asked.as_deref().is_some_and(&helps);
        match waiting.last {
            Last::Open { missed: false } if helped() => waiting.last = Last::Open { missed: true },
            Last::Open { .. } => {}
            end if ends.contains(&end) && helped() => woken.push(key.clone()),
            Last::Failed | Last::Refused => {}
        }
    }
    woken
}
