//! What there is of one namespace's pods in all clusters, version by version or from listings: which state a version
//! shows, what is wrong when all should be quiet, and what became of each delegate. It knows no clients.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::core::ObjectMeta;
use pilotage_api::record::Record;
use pilotage_api::{PodChaperon, keys, names};
use pilotage_testkit::Change;
use pilotage_testkit::history::Version;

use crate::cell::State;
use crate::evictions::{Evictions, is_crowd};

/// Which cluster: the source, or a target by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Place {
    Source,
    Target(usize),
}

/// Somebody's view of a namespace in all clusters.
#[derive(Debug, Default)]
pub(crate) struct World {
    /// By name.
    proxies: BTreeMap<String, Pod>,
    /// By target and name.
    chaperons: BTreeMap<(usize, String), PodChaperon>,
    /// By target and name.
    delegates: BTreeMap<(usize, String), Pod>,
    /// UID of the parent → target and UID of every delegate of it that ever had a node → its time.
    bound: BTreeMap<String, BTreeMap<(usize, String), Bound>>,
    evictions: Evictions,
}

/// From when until when a delegate was there with a node.
#[derive(Debug, Clone)]
struct Bound {
    from: SystemTime,
    /// `None`: it still is.
    until: Option<SystemTime>,
}

/// What one version shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The state that it shows its pod in, if one that cells speak of.
    pub(crate) state: Option<State>,
    /// Name of the proxy pod that it is about.
    pub(crate) proxy: String,
    /// For people.
    pub(crate) what: String,
}

/// What the end of a cell asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Proxies that run.
    pub(crate) running: BTreeSet<String>,
}

impl World {
    /// Takes a version in.
    pub(crate) fn take(&mut self, place: Place, version: &Version) -> Option<Seen> {
        let gone = version.change == Change::Deleted;
        let kind = version.key.split('/').next().unwrap_or_default();
        match (place, kind) {
            (Place::Source, "pods") => self.proxy(version.read()?, gone),
            (Place::Target(target), "pods") => {
                let pod: Pod = version.read()?;
                if is_crowd(&pod) {
                    return self.crowd(target, &pod, version);
                }
                if node_of(&pod).is_some() {
                    (self.evictions).bound(target, &pod.name_any(), version.at);
                }
                self.delegate(target, pod, gone, version.at)
            }
            (Place::Target(target), "events") => {
                let preemptor = self.evictions.event(target, version)?;
                let delegate = self.delegates.get(&(target, preemptor));
                Some(Seen {
                    state: Some(State::Evicted),
                    proxy: parent_name(&delegate?.metadata),
                    what: "an eviction for it is told".to_owned(),
                })
            }
            (Place::Target(target), pilotage_api::GROUP) => {
                let chaperon: PodChaperon = version.read()?;
                let has_leave = self.evictions.chaperon(target, &chaperon, version);
                let mut seen = self.chaperon(target, chaperon, version.change);
                if has_leave && seen.state == Some(State::Granted) {
                    seen.state = Some(State::ToEvict);
                }
                Some(seen)
            }
            _ => None,
        }
    }

    /// One of those that are there to be evicted.
    fn crowd(&mut self, target: usize, pod: &Pod, version: &Version) -> Option<Seen> {
        let goes = self.evictions.crowd(target, pod, version);
        goes.then(|| Seen {
            state: None,
            proxy: pod.name_any(),
            what: format!("goes from {}", node_of(pod).unwrap_or("-")),
        })
    }

    /// A proxy pod as it is now.
    pub(crate) fn proxy(&mut self, pod: Pod, gone: bool) -> Option<Seen> {
        let name = pod.name_any();
        let before = self.proxies.remove(&name);
        let status = pod.status.as_ref();
        let phase = status.and_then(|s| s.phase.clone()).unwrap_or_default();
        let ending = pod.metadata.deletion_timestamp.is_some();
        let state = match () {
            () if gone => None,
            () if ending => Some(State::Deleting),
            () if phase == "Running" => Some(State::Running),
            () => None,
        };
        let record = annotation(&pod.metadata, keys::GRANTED_TO).unwrap_or("-");
        let node = node_of(&pod).unwrap_or("-");
        let life = life(gone, ending);
        let what = format!("proxy {life}: phase {phase}, node {node}, record {record}");
        let seen = Seen {
            state,
            proxy: name.clone(),
            what,
        };
        let changed = before.is_none_or(|before| told(&before) != told(&pod));
        if !gone {
            self.proxies.insert(name, pod);
        }
        (changed || gone).then_some(seen)
    }

    /// A chaperon as it is now.
    pub(crate) fn chaperon(
        &mut self,
        target: usize,
        chaperon: PodChaperon,
        change: Change,
    ) -> Seen {
        let meta = &chaperon.metadata;
        let (gone, ending) = (change == Change::Deleted, meta.deletion_timestamp.is_some());
        let number = |key| annotation(meta, key).and_then(|text| text.parse::<u64>().ok());
        let reserved = annotation(meta, keys::IS_RESERVED) == Some(keys::TRUE);
        let (attempt, allowed) = (number(keys::ATTEMPT), number(keys::ALLOWED_ATTEMPT));
        let state = match (gone || ending, allowed.unwrap_or(0)) {
            (true, _) => None,
            (false, 0) if reserved => Some(State::Reserved),
            (false, 0) => (change == Change::Added).then_some(State::Asked),
            (false, _) => Some(State::Granted),
        };
        let mut what = format!(
            "chaperon {}: attempt {}{}, allowed {}",
            life(gone, ending),
            attempt.unwrap_or(0),
            if reserved { " reserved" } else { "" },
            allowed.unwrap_or(0),
        );
        for key in [keys::PREEMPTS, keys::REFUSAL, keys::POD_MISSING_SINCE] {
            if let Some(text) = annotation(meta, key) {
                what = format!("{what}, {} {text}", key.trim_start_matches(keys::PREFIX));
            }
        }
        let proxy = parent_name(meta);
        let key = (target, chaperon.name_any());
        if gone {
            self.chaperons.remove(&key);
        } else {
            self.chaperons.insert(key, chaperon);
        }
        Seen { state, proxy, what }
    }

    /// A delegate as it is at a time.
    pub(crate) fn delegate(
        &mut self,
        target: usize,
        pod: Pod,
        gone: bool,
        at: SystemTime,
    ) -> Option<Seen> {
        let key = (target, pod.name_any());
        let before = self.delegates.remove(&key);
        let node = node_of(&pod).map(ToOwned::to_owned);
        let parent = pod.labels().get(keys::PARENT_UID).cloned();
        if let (Some(parent), Some(_)) = (parent, &node) {
            let of_parent = self.bound.entry(parent).or_default();
            let delegate = (target, pod.uid().unwrap_or_default());
            let bound = of_parent.entry(delegate).or_insert(Bound {
                from: at,
                until: None,
            });
            bound.until = gone.then_some(at);
        }
        let was_bound = before.as_ref().is_some_and(|pod| node_of(pod).is_some());
        let state = (node.is_some() && !was_bound && !gone).then_some(State::Bound);
        let phase = pod.status.as_ref().and_then(|s| s.phase.clone());
        let seen = Seen {
            state,
            proxy: parent_name(&pod.metadata),
            what: format!(
                "delegate {}: phase {}, node {}",
                life(gone, pod.metadata.deletion_timestamp.is_some()),
                phase.unwrap_or_default(),
                node.unwrap_or_else(|| "-".to_owned()),
            ),
        };
        let changed = before.is_none_or(|before| told(&before) != told(&pod));
        if !gone {
            self.delegates.insert(key, pod);
        }
        (changed || gone).then_some(seen)
    }

    /// The target where a proxy's delegate is bound.
    pub(crate) fn target_of(&self, proxy: &str) -> Option<usize> {
        let bound = self.delegates.iter().find(|(_, delegate)| {
            node_of(delegate).is_some() && parent_name(&delegate.metadata) == proxy
        });
        bound.map(|((target, _), _)| *target)
    }

    /// I1: every proxy of which more than one delegate was ever bound.
    pub(crate) fn bound_twice(&self) -> Vec<String> {
        let all = self
            .bound
            .iter()
            .filter(|(_, delegates)| delegates.len() > 1);
        all.map(|(parent, delegates)| {
            let each = delegates
                .iter()
                .map(|((target, uid), Bound { from, until })| {
                    format!("{uid} in target {target} from {from:?} until {until:?}")
                });
            let each: Vec<_> = each.collect();
            format!("proxy {parent} was bound as {}", each.join(", "))
        })
        .collect()
    }

    /// Who was evicted, and by which leave.
    pub(crate) fn evictions(&self) -> &Evictions {
        &self.evictions
    }

    /// How many proxies had a delegate that was bound.
    pub(crate) fn proxies_bound(&self) -> usize {
        self.bound.len()
    }

    /// I3, and that every pod got what it should: all that is there and shouldn't be, or isn't and should.
    /// `targets` are their names.
    pub(crate) fn unrest(&self, wanted: &Wanted, targets: &[String]) -> Vec<String> {
        let mut wrong = Vec::new();
        for name in &wanted.running {
            match self.proxies.get(name) {
                None => wrong.push(format!("proxy {name} is not there")),
                Some(pod) => wrong.extend(self.unrest_of(name, pod, targets)),
            }
        }
        for name in self.proxies.keys().filter(|n| !wanted.running.contains(*n)) {
            wrong.push(format!("proxy {name} is still there"));
        }
        // Whatever belongs to nobody who runs.
        let own: BTreeSet<&str> = self
            .proxies
            .values()
            .filter_map(|proxy| proxy.metadata.uid.as_deref())
            .collect();
        let is_own = |meta: &ObjectMeta| parent_uid(meta).is_some_and(|uid| own.contains(uid));
        for ((target, name), chaperon) in &self.chaperons {
            let delegate = self.delegates.get(&(*target, name.clone()));
            let held = annotation(&chaperon.metadata, keys::IS_RESERVED) == Some(keys::TRUE);
            if !is_own(&chaperon.metadata) {
                wrong.push(format!(
                    "chaperon {name} in {} has no parent",
                    targets[*target]
                ));
            } else if held && delegate.and_then(node_of).is_none() {
                wrong.push(format!(
                    "chaperon {name} in {} holds a node",
                    targets[*target]
                ));
            }
        }
        for ((target, name), delegate) in &self.delegates {
            if !is_own(&delegate.metadata) || !self.chaperons.contains_key(&(*target, name.clone()))
            {
                wrong.push(format!(
                    "delegate {name} in {} has no parent",
                    targets[*target]
                ));
            }
        }
        wrong
    }

    fn unrest_of(&self, name: &str, proxy: &Pod, targets: &[String]) -> Vec<String> {
        let mut wrong = Vec::new();
        let phase = proxy.status.as_ref().and_then(|s| s.phase.as_deref());
        if phase != Some("Running") || proxy.metadata.deletion_timestamp.is_some() {
            wrong.push(format!(
                "proxy {name} is {}",
                phase.unwrap_or("without phase")
            ));
        }
        let uid = proxy.metadata.uid.as_deref();
        let of_it = |meta: &ObjectMeta| uid.is_some() && parent_uid(meta) == uid;
        let chaperons: Vec<_> = self
            .chaperons
            .iter()
            .filter(|(_, chaperon)| of_it(&chaperon.metadata))
            .collect();
        let [((target, chaperon_name), chaperon)] = chaperons[..] else {
            wrong.push(format!("proxy {name} has {} chaperons", chaperons.len()));
            return wrong;
        };
        let delegates = self
            .delegates
            .iter()
            .filter(|(_, delegate)| of_it(&delegate.metadata))
            .collect::<Vec<_>>();
        match delegates[..] {
            [((other, delegate_name), delegate)] => {
                if (other, delegate_name) != (target, chaperon_name) {
                    wrong.push(format!("the delegate of {name} is not its chaperon's"));
                }
                if node_of(delegate).is_none() {
                    wrong.push(format!("the delegate of {name} is not bound"));
                }
            }
            _ => wrong.push(format!("proxy {name} has {} delegates", delegates.len())),
        }
        let node = names::virtual_node(None, &targets[*target]);
        if node_of(proxy) != Some(&node) {
            wrong.push(format!(
                "proxy {name} is on {:?}, not {node}",
                node_of(proxy)
            ));
        }
        let record = annotation(&proxy.metadata, keys::GRANTED_TO).map(str::parse::<Record>);
        match record {
            Some(Ok(record))
                if record.node == node
                    && chaperon.metadata.uid.as_ref() == Some(&record.chaperon_uid) => {}
            other => wrong.push(format!("the record of {name} is {other:?}")),
        }
        for (what, meta) in [("proxy", &proxy.metadata), ("chaperon", &chaperon.metadata)] {
            let finalizers = meta.finalizers.as_deref().unwrap_or_default();
            if finalizers != [keys::DELEGATE_GONE] {
                wrong.push(format!(
                    "the {what} of {name} has finalizers {finalizers:?}"
                ));
            }
        }
        wrong
    }
}

/// What makes a version of a pod worth a line.
fn told(pod: &Pod) -> (Option<String>, Option<&str>, bool, Option<&str>) {
    (
        pod.status.as_ref().and_then(|status| status.phase.clone()),
        node_of(pod),
        pod.metadata.deletion_timestamp.is_some(),
        annotation(&pod.metadata, keys::GRANTED_TO),
    )
}

fn life(gone: bool, ending: bool) -> &'static str {
    match (gone, ending) {
        (true, _) => "gone",
        (false, true) => "ending",
        (false, false) => "there",
    }
}

fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

fn parent_uid(meta: &ObjectMeta) -> Option<&str> {
    meta.labels
        .as_ref()?
        .get(keys::PARENT_UID)
        .map(String::as_str)
}

fn parent_name(meta: &ObjectMeta) -> String {
    annotation(meta, keys::PARENT_NAME)
        .unwrap_or("?")
        .to_owned()
}

fn node_of(pod: &Pod) -> Option<&str> {
    let node = pod.spec.as_ref()?.node_name.as_deref();
    node.filter(|node| !node.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const TARGETS: [&str; 2] = ["east", "west"];
    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
        serde_json::from_value(value).unwrap()
    }

    fn proxy(phase: &str) -> Pod {
        let node = names::virtual_node(None, "west");
        object(json!({
            "metadata": { "name": "p", "uid": "u", "finalizers": [keys::DELEGATE_GONE],
                "annotations": { keys::GRANTED_TO: format!("{node}/c/1") } },
            "spec": { "nodeName": node, "containers": [] },
            "status": { "phase": phase },
        }))
    }

    fn chaperon(uid: &str, attempt: &str, allowed: &str, reserved: bool) -> PodChaperon {
        let mut chaperon = json!({
            "metadata": { "name": "p-1", "uid": uid, "labels": { keys::PARENT_UID: "u" },
                "finalizers": [keys::DELEGATE_GONE],
                "annotations": { keys::PARENT_NAME: "p", keys::ATTEMPT: attempt, keys::ALLOWED_ATTEMPT: allowed } },
            "spec": {},
        });
        if reserved {
            chaperon["metadata"]["annotations"][keys::IS_RESERVED] = json!(keys::TRUE);
        }
        object(chaperon)
    }

    fn delegate(uid: &str, node: Option<&str>) -> Pod {
        object(json!({
            "metadata": { "name": "p-1", "uid": uid, "labels": { keys::PARENT_UID: "u" },
                "annotations": { keys::PARENT_NAME: "p" } },
            "spec": { "nodeName": node, "containers": [] },
        }))
    }

    fn quiet() -> World {
        let mut world = World::default();
        world.proxy(proxy("Running"), false);
        world.chaperon(1, chaperon("c", "1", "1", true), Change::Added);
        world.delegate(1, delegate("d", Some("n")), false, NOW);
        world
    }

    fn unrest(world: &World) -> Vec<String> {
        let wanted = Wanted {
            running: BTreeSet::from(["p".to_owned()]),
        };
        world.unrest(&wanted, &TARGETS.map(ToOwned::to_owned))
    }

    #[test]
    fn quiet_is_quiet_and_nothing_else_is() {
        assert_eq!(unrest(&quiet()), [""; 0]);
        for (what, spoil) in [
            (
                "is Pending",
                (|w| drop(w.proxy(proxy("Pending"), false))) as fn(&mut World),
            ),
            ("2 chaperons", |w| {
                w.chaperon(0, chaperon("e", "1", "0", true), Change::Added);
            }),
            ("not bound", |w| {
                drop(w.delegate(1, delegate("d", None), false, NOW));
            }),
            ("0 delegates", |w| {
                w.delegate(1, delegate("d", Some("n")), true, NOW);
            }),
            ("record", |w| {
                w.chaperon(1, chaperon("other", "1", "1", true), Change::Modified);
            }),
            ("no parent", |w| {
                let mut stray = delegate("s", None);
                stray.metadata.name = Some("stray".to_owned());
                w.delegate(0, stray, false, NOW);
            }),
            ("still there", |w| {
                let mut other = proxy("Running");
                other.metadata.name = Some("q".to_owned());
                w.proxy(other, false);
            }),
        ] {
            let mut world = quiet();
            spoil(&mut world);
            let wrong = unrest(&world);
            assert!(
                wrong.iter().any(|line| line.contains(what)),
                "{what}: {wrong:?}"
            );
        }
        let mut held = World::default();
        held.chaperon(0, chaperon("c", "1", "0", true), Change::Added);
        let nothing = held.unrest(&Wanted::default(), &TARGETS.map(ToOwned::to_owned));
        assert_eq!(nothing, ["chaperon p-1 in east has no parent"]);
    }

    #[test]
    fn versions_show_states() {
        let mut world = World::default();
        let asked = world.chaperon(0, chaperon("c", "0", "0", false), Change::Added);
        let reserved = world.chaperon(0, chaperon("c", "1", "0", true), Change::Modified);
        let granted = world.chaperon(0, chaperon("c", "1", "1", true), Change::Modified);
        let made = world.delegate(0, delegate("d", None), false, NOW);
        let bound = world.delegate(0, delegate("d", Some("n")), false, NOW);
        let running = world.proxy(proxy("Running"), false);
        let chaperons = [asked, reserved, granted].map(Some);
        let states: Vec<_> = chaperons
            .into_iter()
            .chain([made, bound, running])
            .map(|seen| seen.unwrap().state)
            .collect();
        let want = [
            Some(State::Asked),
            Some(State::Reserved),
            Some(State::Granted),
            None,
            Some(State::Bound),
            Some(State::Running),
        ];
        assert_eq!(states, want);
    }

    #[test]
    fn a_second_bound_delegate_is_found_also_when_the_first_is_gone() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let bound = |uid| delegate(uid, Some("n"));
        let mut world = World::default();
        world.delegate(0, bound("d"), false, at(10));
        world.delegate(0, bound("d"), true, at(11));
        world.delegate(1, delegate("e", None), false, at(12));
        assert_eq!(world.bound_twice(), Vec::<String>::new());
        world.delegate(1, bound("e"), false, at(20));
        assert_eq!(world.bound_twice().len(), 1);
    }
}
