//! Feeds the world from watches, and wakes the Shoots that a change could help. It judges nothing itself. An object
//! whose intake panics stops no other.

use kube::{Client, Resource};
use pilotage_clusters::{Event, Watch, WatchConfig, Watchable};
use pilotage_gardener::kinds::{GARDEN, ProfileKind, REGION_CONFIG_LABEL};
use pilotage_gardener::scheduler::{ShootKey, World};
use pilotage_runtime::caught::caught;
use pilotage_runtime::turns::Waker;
use pilotage_sched_driver::publish::Regarding;
use tokio::sync::watch as cell;
use tokio_util::sync::CancellationToken;

use crate::objects::{
    CloudProfileObject, NamespacedCloudProfileObject, ProjectObject, RegionConfigObject,
    SeedObject, ShootObject,
};
use crate::scheduler::Parts;

/// Selects region `ConfigMap`s.
pub(crate) fn region_configs() -> String {
    let (label, value) = REGION_CONFIG_LABEL;
    format!("{label}={value}")
}

/// Gardener's objects are large, and hardly anything of them is kept.
const PAGE_SIZE: u32 = 100;

/// All watches.
pub(crate) struct Watches {
    pub(crate) shoots: Watch<ShootObject>,
    seeds: Watch<SeedObject>,
    profiles: Watch<CloudProfileObject>,
    namespaced: Watch<NamespacedCloudProfileObject>,
    projects: Watch<ProjectObject>,
    configs: Watch<RegionConfigObject>,
}

impl Watches {
    pub(crate) fn new(client: &Client, stop: &CancellationToken) -> Self {
        fn all<K: Watchable>(client: &Client, stop: &CancellationToken) -> Watch<K> {
            let config = WatchConfig::all().pages_of(PAGE_SIZE);
            Watch::of_client(client.clone(), config, stop)
        }
        let configs = WatchConfig::all()
            .labels(region_configs())
            .pages_of(PAGE_SIZE);
        Self {
            shoots: all(client, stop),
            seeds: all(client, stop),
            profiles: all(client, stop),
            namespaced: all(client, stop),
            projects: all(client, stop),
            configs: Watch::of_namespace(client.clone(), GARDEN, configs, stop),
        }
    }
}

/// Feeds the world until everything ends; `known` counts the kinds whose first list is taken in.
pub(crate) async fn feed(parts: &Parts, waker: &Waker<ShootKey>, known: &cell::Sender<usize>) {
    let watches = &parts.watches;
    let feed = Feed {
        parts,
        waker,
        known,
    };
    tokio::join!(
        feed.follow(
            "shoots",
            watches.shoots.subscribe(),
            |world, shoot, gone| {
                let key = key(shoot);
                world.shoot(&key, (!gone).then_some(&shoot.content))
            }
        ),
        feed.follow("seeds", watches.seeds.subscribe(), |world, seed, gone| {
            match &seed.content {
                Err(error) if !gone => {
                    let note = format!("The Seed can't be read, so it gets no Shoots: {error}");
                    parts.warn(Regarding::object(seed), "UnreadableSeed", note);
                }
                _ => parts.mended(|| Regarding::object(seed)),
            }
            world.seed(name(seed), (!gone).then_some(&seed.content))
        }),
        feed.follow(
            "cloudprofiles",
            watches.profiles.subscribe(),
            |world, profile, gone| {
                let content = (!gone).then_some(&profile.content);
                world.profile(ProfileKind::CloudProfile, "", name(profile), content)
            }
        ),
        feed.follow(
            "namespacedcloudprofiles",
            watches.namespaced.subscribe(),
            |world, profile, gone| {
                let key = key(profile);
                let content = (!gone).then_some(&profile.content);
                let kind = ProfileKind::NamespacedCloudProfile;
                world.profile(kind, &key.namespace, &key.name, content)
            }
        ),
        feed.follow(
            "projects",
            watches.projects.subscribe(),
            |world, project, gone| {
                world.project(name(project), (!gone).then_some(&project.content))
            }
        ),
        feed.follow(
            "configmaps",
            watches.configs.subscribe(),
            |world, config, gone| {
                let content = match &config.content {
                    Ok(content) if !gone => Some(content),
                    _ => None,
                };
                let rows = content.iter().flat_map(|content| content.table.malformed());
                let wrong: Vec<_> = rows
                    .map(|(region, error)| format!("{region}: {error}"))
                    .collect();
                let unreadable = config.content.as_ref().err().filter(|_| !gone);
                let wrong = match unreadable {
                    Some(error) => error.to_string(),
                    None => wrong.join("; "),
                };
                if wrong.is_empty() {
                    parts.mended(|| Regarding::object(config));
                } else {
                    let note = format!(
                        "Distances can't be read, which fails the Shoots that need them: {wrong}"
                    );
                    parts.warn(Regarding::object(config), "MalformedRegionConfig", note);
                }
                world.region_config(name(config), content)
            }
        ),
    );
}

struct Feed<'a> {
    parts: &'a Parts,
    waker: &'a Waker<ShootKey>,
    known: &'a cell::Sender<usize>,
}

impl Feed<'_> {
    async fn follow<K: Resource<DynamicType = ()>>(
        &self,
        kind: &'static str,
        mut events: pilotage_clusters::Feed<K>,
        take: impl Fn(&mut World, &K, bool) -> Vec<ShootKey>,
    ) {
        let mut listed = false;
        while let Some(event) = events.recv().await {
            let (object, gone) = match &event {
                Event::Applied(object) => (object, false),
                Event::Deleted(object) | Event::Gone(object) => (object, true),
                Event::Synced => {
                    if !std::mem::replace(&mut listed, true) {
                        self.known
                            .send_modify(|known| *known = known.saturating_add(1));
                    }
                    continue;
                }
            };
            let woken = caught(|| {
                let mut world = self.parts.world();
                let woken = take(&mut world, object, gone);
                self.parts.metrics.sizes(world.waiting(), world.seeds());
                woken
            });
            let woken = woken.unwrap_or_else(|panic| {
                self.parts.mistaken(Regarding::object(&**object), &panic);
                Vec::new()
            });
            self.parts.metrics.woke(kind, woken.len());
            if self.parts.has_begun() {
                for key in woken {
                    self.waker.wake(key);
                }
            }
        }
    }
}

/// How many kinds [`feed`] follows.
pub(crate) const KINDS: usize = 6;

fn name<K: Resource>(object: &K) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}

fn key<K: Resource>(object: &K) -> ShootKey {
    let namespace = object.meta().namespace.as_deref();
    ShootKey::new(namespace.unwrap_or_default(), name(object))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pilotage_runtime::turns::Turns;
    use serde_json::json;

    use super::*;
    use crate::scheduler::tests::parts;

    #[tokio::test]
    async fn an_object_whose_intake_panics_stops_no_other() {
        let stop = CancellationToken::new();
        let parts = parts(&stop);
        let shoot = |name: &str| {
            let shoot: ShootObject = serde_json::from_value(json!({
                "metadata": {"namespace": "n", "name": name, "uid": name, "resourceVersion": "1"},
                "spec": {},
            }))
            .unwrap();
            Event::Applied(Arc::new(shoot))
        };
        let events = [shoot("bad"), shoot("good"), Event::Synced];
        let events = pilotage_clusters::Feed::of(events);
        let ((_turns, waker), known) = (Turns::new(1), cell::Sender::new(0));
        let feed = Feed {
            parts: &parts,
            waker: &waker,
            known: &known,
        };
        let take = |world: &mut World, shoot: &ShootObject, _: bool| {
            let key = key(shoot);
            assert_ne!(key.name, "bad", "on purpose");
            world.shoot(&key, Some(&shoot.content))
        };
        feed.follow("shoots", events, take).await;
        assert_eq!(parts.world().keys(), [ShootKey::new("n", "good")]);
        assert_eq!(*known.borrow(), 1);
        stop.cancel();
    }
}
