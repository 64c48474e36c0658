//! `make bench-follow`: what it costs that `ConfigMap`s, Secrets and Services follow many pods into some targets:
//! memory of the source's controllers with each target that is added, requests, and writes while nothing changes and
//! after one change.
//!
//! Half of the pods run in the first target before others are added, so that each of these shows what objects cost
//! there that nobody needs there. Each may take so much and no more, however many pods and objects there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::Api;
use kube::api::PostParams;
use kube::runtime::watcher;
use pilotage_api::{Right, names};
use pilotage_testkit::audit::Entry;
use pilotage_testkit::plane::audit::Policy;
use pilotage_testkit::{ControlPlane, build, wait_count, wait_for};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::actors;
use super::error::Error;
use super::table::table;
use super::usage::{Program, resident};
use crate::fleet::{self, Cluster, Fleet, HOME, SOURCE_ACCOUNT, Spec};

const NAMESPACE: &str = "bench";
/// What all pods use.
const SHARED: &str = "shared";
/// What its Service selects them by.
const LABEL: &str = "bench";
/// What one pod uses, by its number.
const OWN: &str = "own-";
/// Requests at once.
const AT_ONCE: usize = 16;
/// Pods of a node.
const OF_NODE: usize = 100;
/// Nothing takes nearly as long.
const LIMIT: Duration = Duration::from_mins(30);
/// Memory and events may still move that long after the last change.
const SETTLE: Duration = Duration::from_secs(10);
/// While nothing changes.
const QUIET: Duration = Duration::from_mins(1);
/// MiB that the controllers may take for a target more in which nothing is needed: connections, watches, and what an
/// allocator keeps.
const TARGET: f64 = 8.0;
const READS: [&str; 3] = ["get", "list", "watch"];

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Pods, each with a `ConfigMap` of its own.
    pub pods: usize,
    /// Targets.
    pub targets: usize,
}

/// How many writes of copies there were, by target.
#[derive(Debug, Default, PartialEq, Eq)]
struct Writes(BTreeMap<String, usize>);

impl fmt::Display for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = self.0.iter();
        let each: Vec<_> = each
            .map(|(target, count)| format!("{target} {count}"))
            .collect();
        f.write_str(&each.join(", "))
    }
}

/// Measures, and prints the figures. An error if something is written that needn't be.
pub async fn run(options: Options) -> Result<(), Error> {
    let measuring = async {
        let fleet = start(options).await?;
        let bench = Bench {
            fleet: &fleet,
            options,
        };
        let measured = fleet.hold(bench.measure()).await;
        fleet.stop().await;
        measured
    };
    tokio::select! {
        measured = measuring => measured,
        interrupted = tokio::signal::ctrl_c() => {
            Err(interrupted.map_or_else(Error::Signal, |()| Error::Interrupted))
        }
    }
}

async fn start(options: Options) -> Result<Fleet, Error> {
    let mut spec = Spec::new()
        .source(|plane| plane.audit(Policy::All))
        .rights(&[
            Right::FollowConfigMaps,
            Right::FollowSecrets,
            Right::FollowServices,
        ])
        .follow(&["configmaps", "secrets", "services"]);
    for number in 1..=options.targets {
        let name = format!("target-{number}");
        let count = options.pods.div_ceil(OF_NODE).max(2);
        let nodes = build::nodes(&name, count, |node| {
            node.cpu("32").memory("128Gi").pods(110)
        });
        let plane = ControlPlane::builder(&name).controller_manager();
        spec = spec.target_plane(plane.kwok(nodes).audit(Policy::All));
    }
    let mut fleet = spec.start().await?;
    fleet.install().await?;
    for cluster in fleet.all() {
        let made = cluster.plane.named_namespace(NAMESPACE, BTreeMap::new());
        made.await?.keep();
    }
    fleet.elect(NAMESPACE).await?;
    Ok(fleet)
}

struct Bench<'a> {
    fleet: &'a Fleet,
    options: Options,
}

impl Bench<'_> {
    async fn measure(&self) -> Result<(), Error> {
        let Options { pods, targets } = self.options;
        let half = pods / 2;
        self.make_objects().await?;
        let controllers = self.controllers().await?;
        let mut memory: Vec<Vec<String>> = Vec::new();
        let mut sample = async |when: String| {
            sleep(SETTLE).await;
            let mib = resident(&controllers)? as f64 / 1_024.0;
            eprintln!("  {when}: {mib:.1} MiB");
            memory.push(vec![when, format!("{mib:.1}")]);
            Ok::<_, Error>(mib)
        };
        let mut others = self.fleet.targets.iter();
        let first = others.next().ok_or(Error::Empty("no target"))?;
        self.fleet.add_target(first, NAMESPACE).await?;
        sample("1 target, no pods".to_owned()).await?;
        let before = self.ids().await?;
        self.make_pods(0, half).await?;
        let one = sample(format!("1 target, {half} pods")).await?;
        let mut more = one;
        for (target, number) in others.zip(2..) {
            self.fleet.add_target(target, NAMESPACE).await?;
            more = sample(format!("{number} targets, {half} pods")).await?;
        }
        self.make_pods(half, pods).await?;
        sample(format!("{targets} targets, {pods} pods")).await?;
        let requests = self.requests(&before).await?;

        let at_rest = self.ids().await?;
        sleep(QUIET).await;
        let quiet = self.writes(&at_rest).await?;
        let changing = self.ids().await?;
        self.change().await?;
        sleep(SETTLE).await;
        let changed = self.writes(&changing).await?;
        let lists = self.lists(&before).await?;

        println!("{}\n", table(&["SOURCE'S CONTROLLERS", "MIB"], &memory));
        println!("{requests}\n");
        if let Some(each) = of_each_more(targets, more - one) {
            println!("MiB for each target more: {each:.1}, at most {TARGET}");
        }
        println!("writes of copies in a quiet minute: {quiet}");
        println!("writes of copies after one change of what all pods use: {changed}");
        println!("lists of all pods in the source after the first pod: {lists}");
        let of_each = |count: usize| {
            let targets = self.fleet.targets.iter();
            Writes(targets.map(|it| (it.name().to_owned(), count)).collect())
        };
        let missed = [
            (quiet != of_each(0))
                .then(|| format!("something was written while nothing changed: {quiet}")),
            (changed != of_each(1))
                .then(|| format!("one change made other than one write a target: {changed}")),
            (lists > 0).then(|| format!("all pods were listed {lists} times")),
            of_each_more(targets, more - one)
                .filter(|each| *each > TARGET)
                .map(|each| format!("each target more took {each:.1} MiB, not {TARGET} at most")),
        ];
        match missed.into_iter().flatten().next() {
            Some(missed) => Err(Error::Missed(missed)),
            None => Ok(()),
        }
    }

    async fn controllers(&self) -> Result<Program, Error> {
        let gone = || Error::Ended("controllers of the source".to_owned());
        let process = self.fleet.source.processes.get("controllers");
        let pids = process.ok_or_else(gone)?.process().pids().await;
        Ok(Program {
            group: "pilotage",
            name: "controllers".to_owned(),
            pid: pids.ok_or_else(gone)?.child,
            is_ancestor: false,
        })
    }

    /// What pods will use.
    async fn make_objects(&self) -> Result<(), Error> {
        let maps: Api<ConfigMap> = of(&self.fleet.source);
        let own = (0..self.options.pods).map(|number| format!("{OWN}{number}"));
        let all = own.chain([SHARED.to_owned()]);
        stream::iter(all)
            .map(async |name| {
                let map = config_map(&name, "1");
                let made = maps.create(&PostParams::default(), &map).await;
                made.map(drop)
                    .map_err(Error::request("can't create a ConfigMap"))
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": SHARED, "namespace": NAMESPACE }, "stringData": { "key": "1" },
        });
        self.fleet
            .source
            .plane
            .apply_yaml(&secret.to_string())
            .await?;
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": SHARED, "namespace": NAMESPACE },
            "spec": { "selector": { LABEL: "" }, "ports": [{ "port": 80 }] },
        });
        self.fleet
            .source
            .plane
            .apply_yaml(&service.to_string())
            .await?;
        Ok(())
    }

    /// Makes pods of these numbers, and waits until all there are run, with what they use beside them.
    async fn make_pods(&self, from: usize, to: usize) -> Result<(), Error> {
        eprintln!("pods {from} to {to}");
        let pods: Api<Pod> = of(&self.fleet.source);
        stream::iter(from..to)
            .map(async |number| {
                let pod = pod(number);
                let made = pods.create(&PostParams::default(), &pod).await;
                made.map(drop).map_err(Error::request("can't create a pod"))
            })
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
        let runs = |pod: &Pod| {
            let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
            phase == Some("Running")
        };
        let all = wait_count(&pods, watcher::Config::default(), to, runs, LIMIT).await;
        let all = all.map_err(fleet::Error::wait("pods don't run"))?;
        for target in &self.fleet.targets {
            let node = names::virtual_node(Some(NAMESPACE), target.name());
            let is_here = |pod: &&Pod| {
                let spec = pod.spec.as_ref();
                spec.and_then(|it| it.node_name.as_ref()) == Some(&node)
            };
            let here = all.iter().filter(is_here).count();
            let maps: Api<ConfigMap> = of(target);
            let is_own = |map: &ConfigMap| {
                let name = map.metadata.name.as_deref();
                name.is_some_and(|name| name.starts_with(OWN))
            };
            let copies = wait_count(&maps, watcher::Config::default(), here, is_own, LIMIT).await;
            copies.map_err(fleet::Error::wait("copies are missing"))?;
            if here > 0 {
                let services: Api<Service> = of(target);
                let copy = wait_for(&services, SHARED, |_| true, LIMIT).await;
                copy.map_err(fleet::Error::wait("a Service is missing"))?;
            }
        }
        Ok(())
    }

    /// Changes what all pods use, and waits until it has changed wherever they are.
    async fn change(&self) -> Result<(), Error> {
        let map = serde_json::to_string(&config_map(SHARED, "2")).unwrap_or_default();
        self.fleet.source.plane.apply_yaml(&map).await?;
        for target in &self.fleet.targets {
            let maps: Api<ConfigMap> = of(target);
            let says = |map: &ConfigMap| {
                let value = map.data.as_ref().and_then(|data| data.get("key"));
                value.is_some_and(|value| value == "2")
            };
            let seen = wait_for(&maps, SHARED, says, LIMIT).await;
            seen.map_err(fleet::Error::wait("a change doesn't follow"))?;
        }
        Ok(())
    }

    /// Requests so far, the source's first.
    async fn entries(&self) -> Result<Vec<(&Cluster, Vec<Entry>)>, Error> {
        let mut all = Vec::new();
        for cluster in self.fleet.all() {
            let audit = |error: pilotage_testkit::audit::Error| {
                Error::from(pilotage_testkit::plane::Error::from(error))
            };
            let log = cluster.plane.audit()?;
            all.push((cluster, log.entries().await.map_err(audit)?));
        }
        Ok(all)
    }

    async fn ids(&self) -> Result<BTreeSet<String>, Error> {
        let all = self.entries().await?.into_iter();
        let ids = all.flat_map(|(_, entries)| entries).map(|entry| entry.id);
        Ok(ids.collect())
    }

    /// Writes of copies since then, by Pilotage.
    async fn writes(&self, before: &BTreeSet<String>) -> Result<Writes, Error> {
        let mut writes = Writes::default();
        for (cluster, entries) in self.entries().await?.into_iter().skip(1) {
            let is_write = |entry: &&Entry| {
                let (_, is_ours) = actors::actor(entry, HOME, SOURCE_ACCOUNT);
                let is_copy =
                    ["configmaps", "secrets", "services"].contains(&entry.resource.as_str());
                let is_new = !before.contains(&entry.id);
                is_ours && is_copy && is_new && !READS.contains(&entry.verb.as_str())
            };
            let count = entries.iter().filter(is_write).count();
            writes.0.insert(cluster.name().to_owned(), count);
        }
        Ok(writes)
    }

    /// Lists of all pods by Pilotage in the source since then: those on one virtual node are listed when it comes.
    async fn lists(&self, before: &BTreeSet<String>) -> Result<usize, Error> {
        let all = self.entries().await?.into_iter().take(1);
        let entries = all.flat_map(|(_, entries)| entries);
        let lists = entries.filter(|entry| {
            let (_, is_ours) = actors::actor(entry, HOME, SOURCE_ACCOUNT);
            let is_list = entry.verb == "list" && entry.resource == "pods";
            let is_of_all = is_list && !entry.uri.contains("spec.nodeName");
            is_ours && is_of_all && !before.contains(&entry.id)
        });
        Ok(lists.count())
    }

    /// Requests of Pilotage about followed kinds since then, for each pod.
    async fn requests(&self, before: &BTreeSet<String>) -> Result<String, Error> {
        let all = self.entries().await?;
        let source = self.fleet.source.name();
        let entries = all.iter().flat_map(|(cluster, entries)| {
            entries
                .iter()
                .map(|entry| (cluster.name() == source, entry))
        });
        let entries = entries.filter(|(_, entry)| {
            entry.namespace == NAMESPACE && entry.verb != "watch" && !before.contains(&entry.id)
        });
        let rows = actors::rows(entries, self.options.pods, HOME, SOURCE_ACCOUNT);
        let ours = rows.iter().filter(|row| row.ours);
        let lines: Vec<Vec<String>> = ours
            .map(|row| {
                let figure = |it: f64| format!("{it:.2}");
                let what = format!("{} {}", row.actor, row.sort);
                vec![
                    what,
                    figure(row.source),
                    figure(row.targets),
                    figure(row.failed),
                ]
            })
            .collect();
        let titles = ["REQUESTS OF EACH POD", "SOURCE", "TARGETS", "FAILED"];
        Ok(table(&titles, &lines))
    }
}

/// The objects of a kind in a cluster.
fn of<K>(cluster: &Cluster) -> Api<K>
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
{
    Api::namespaced(cluster.plane.admin(), NAMESPACE)
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.metadata.namespace = Some(NAMESPACE.to_owned());
    map.data = Some([("key".to_owned(), value.to_owned())].into());
    map
}

/// MiB that each target but the first takes, if there are others, of what all of these take.
fn of_each_more(targets: usize, all: f64) -> Option<f64> {
    let more = targets.checked_sub(1).filter(|more| *more > 0)?;
    Some(all / more as f64)
}

/// One that uses a `ConfigMap` of its own, and what all use.
fn pod(number: usize) -> Pod {
    let mut pod = build::pod(&format!("pod-{number}"))
        .elect()
        .request("cpu", "10m")
        .label(LABEL, "")
        .build();
    let from: Value = json!([
        { "configMapRef": { "name": format!("{OWN}{number}") } },
        { "configMapRef": { "name": SHARED } },
        { "secretRef": { "name": SHARED } },
    ]);
    if let Some(container) = pod
        .spec
        .as_mut()
        .and_then(|spec| spec.containers.first_mut())
    {
        container.env_from = serde_json::from_value(from).ok();
    }
    pod
}
