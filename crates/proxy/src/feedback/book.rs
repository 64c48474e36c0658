//! What a feedback controller knows: proxy pods, chaperons by their parents, the targets; kept current by events and by
//! the replies to its own requests.

use std::{collections::HashMap, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::{PodChaperon, keys, names, parent::ClusterUid};

use super::{Action, Key, Memory, Observed, Plan, decide, orphans::Orphans};
use crate::{
    door::{Serves, TurnedAway, admit},
    requests::{Outcome, Reply},
    settings::Settings,
    targets::{Targets, Terms},
    view::{Monotonic, ProxyView, Reach, version},
    world::{Change, ChaperonNews, Dropped, Heard, World},
};

/// One parent UID: a pod, or what is left of one.
#[derive(Debug, Default)]
struct Parent {
    pod: Option<(ProxyView, Arc<Pod>)>,
    /// Namespace and name of the pod, once it is gone.
    was: Option<(String, String)>,
    memory: Memory,
}

/// All that one process knows.
#[derive(Debug)]
pub struct Book {
    cluster: ClusterUid,
    world: World,
    parents: HashMap<String, Parent>,
    targets: Targets,
    orphans: Orphans,
    /// The proxy pods have been listed: what isn't among them may be gone.
    proxies_known: bool,
}

impl Book {
    /// Nothing known yet; `cluster`: who we are, since other sources' objects are left alone.
    pub fn new(cluster: ClusterUid) -> Self {
        Self {
            cluster,
            world: World::default(),
            parents: HashMap::new(),
            targets: Targets::default(),
            orphans: Orphans::default(),
            proxies_known: false,
        }
    }

    // ---- what happens -------------------------------------------------------------------------------------------

    /// A pod is there in this version; its UID, if that is news.
    pub fn proxy_applied(&mut self, pod: Arc<Pod>) -> Option<String> {
        let view = ProxyView::of(&pod)?;
        let uid = view.uid.clone();
        let parent = self.parents.entry(uid.clone()).or_default();
        let newer = |(known, _): &(ProxyView, _)| {
            version(&known.resource_version) < version(&view.resource_version)
        };
        if !parent.pod.as_ref().is_none_or(newer) {
            return None;
        }
        let before = parent.pod.as_ref().map(|(before, _)| before);
        self.targets.see(before, Some(&view));
        if before.is_none() {
            // What was said of its UID before anybody here knew whose it is.
            self.world.retain(&uid, |chaperon| chaperon.is_of(&view));
        }
        parent.pod = Some((view, pod));
        Some(uid)
    }

    /// A pod isn't there any more.
    pub fn proxy_gone(&mut self, uid: &str) {
        let before = self.parents.get(uid).and_then(|parent| parent.pod.as_ref());
        self.targets.see(before.map(|(before, _)| before), None);
        if self.world.of(uid).is_empty() {
            self.parents.remove(uid);
        } else if let Some(parent) = self.parents.get_mut(uid) {
            let gone = parent.pod.take();
            parent.was = gone.map(|(view, _)| (view.namespace, view.name));
        }
    }

    /// All proxy pods have been told; `false` if that was known.
    pub fn proxies_listed(&mut self) -> bool {
        !std::mem::replace(&mut self.proxies_known, true)
    }

    /// A target can, or can't, be reached from now on; returns what isn't known any more.
    pub fn set_reach(&mut self, node: &str, reach: Reach, now: Monotonic) -> Dropped {
        self.targets.set_reach(node, reach, now);
        if reach != Reach::NoSuchTarget {
            return Dropped::default();
        }
        self.orphans.drop_target(node);
        let (parents, dropped) = self.world.drop_target(node);
        for parent in parents {
            self.tidy(&parent);
        }
        dropped
    }

    /// The Target behind this virtual node is one for these pods; to be told before anything that its target says.
    pub fn set_serves(&mut self, node: &str, serves: Serves) {
        self.targets.set_serves(node, serves);
    }

    /// The operator of a target says something else from now on.
    pub fn set_terms(&mut self, node: &str, terms: Terms) {
        self.targets.set_terms(node, terms);
    }

    /// A watch tells something of a chaperon.
    pub fn chaperon(&mut self, node: &str, news: ChaperonNews) -> Heard {
        let admitted = self.admit(node, news.chaperon()).and_then(|proxy| {
            let has_room = self.world.has_room(node, proxy, &news);
            has_room.then_some(()).ok_or(TurnedAway::Crowd)
        });
        let changes = match admitted {
            Ok(()) => self.world.take_in(node, news),
            Err(_) => self.world.turn_away(node, &news).into_iter().collect(),
        };
        for change in &changes {
            self.changed(node, change);
        }
        Heard {
            parents: changes.into_iter().map(|change| change.parent).collect(),
            turned_away: admitted.err(),
            // The ask edge counts them.
            answer: None,
        }
    }

    /// With the pod that it is of, if that is known.
    fn admit(&self, node: &str, chaperon: &PodChaperon) -> Result<Option<&ProxyView>, TurnedAway> {
        let labels = chaperon.metadata.labels.as_ref();
        let parent = labels.and_then(|labels| labels.get(keys::PARENT_UID));
        let proxy = parent.and_then(|uid| self.pod(uid)).map(|(view, _)| view);
        admit(self.targets.serves(node), proxy, chaperon).map(|()| proxy)
    }

    fn changed(&mut self, node: &str, change: &Change) {
        if let (Some(parent), Some(gone)) = (self.parents.get_mut(&change.parent), &change.gone) {
            let Parent { pod, memory, .. } = parent;
            memory.confirm_gone(node, gone);
            let view = pod.as_ref().map(|(view, _)| view);
            memory.trim_proofs(view.and_then(|view| view.record.record()));
        }
        self.tidy(&change.parent);
    }

    /// Forgets a parent of which nothing is left. Only who leads plans, and would see to that.
    fn tidy(&mut self, uid: &str) {
        let known = self.parents.get(uid);
        if known.is_some_and(|it| it.pod.is_none()) && self.world.of(uid).is_empty() {
            self.parents.remove(uid);
            self.orphans.forget(uid);
        }
    }

    /// A request about the pod with this UID, or its chaperons, ended.
    /// An error: the target sent a chaperon along that it may not speak of; all but that was taken in.
    pub fn answered(
        &mut self,
        uid: &str,
        action: &Action,
        reply: Reply,
        settings: &Settings,
        now: Monotonic,
    ) -> Result<(), TurnedAway> {
        let Reply {
            outcome,
            chaperon,
            proxy,
        } = reply;
        // A reply may come after the news of its object's end.
        let is_there = self.pod(uid).is_some();
        if let Some(pod) = proxy.filter(|_| is_there) {
            self.proxy_applied(pod);
        }
        let mut admitted = Ok(());
        if let Some(node) = action.node() {
            let parent = self.parents.get(uid);
            let gone = |uid: &String| parent.is_some_and(|parent| parent.memory.is_gone(node, uid));
            if let Some(chaperon) = chaperon
                && !chaperon.metadata.uid.as_ref().is_some_and(gone)
            {
                admitted = self.admit(node, &chaperon).map(drop);
                if admitted.is_ok()
                    && let Some(change) = self.world.fold(node, chaperon)
                {
                    self.changed(node, &change);
                }
            }
            if let (Outcome::Gone, Key::Chaperon { uid: gone, .. }) = (&outcome, action.key()) {
                self.world.remove(uid, node, &gone);
            }
        }
        if let Some(parent) = self.parents.get_mut(uid) {
            parent.memory.finish(action, &outcome, settings, now);
        }
        admitted
    }

    // ---- what to do ---------------------------------------------------------------------------------------------

    /// What to do now for one parent UID; each action of the plan [begins](Self::begin) when it is sent. `None`:
    /// nothing is left of it, or it is too early to say.
    pub fn plan(&mut self, uid: &str, now: Monotonic) -> Option<Plan> {
        let chaperons = self.world.of(uid);
        let parent = self.parents.entry(uid.to_owned()).or_default();
        if parent.pod.is_none() && (chaperons.is_empty() || !self.proxies_known) {
            if chaperons.is_empty() {
                self.parents.remove(uid);
                self.orphans.forget(uid);
            }
            return None;
        }
        let proxy = parent.pod.as_ref().map(|(view, _)| view);
        parent.memory.see(proxy, chaperons, &self.targets, now);
        let mut plan = decide(&Observed {
            proxy: parent.pod.as_ref().map(|(view, pod)| (view, pod)),
            was: (parent.was.as_ref()).map(|(namespace, name)| (&**namespace, &**name)),
            chaperons,
            targets: &self.targets,
            cluster: &self.cluster,
            memory: &parent.memory,
            now,
        });
        parent.memory.decided(&plan, now);
        if parent.pod.is_none() {
            let Plan {
                actions, wake_at, ..
            } = &mut plan;
            actions.retain(|action| {
                let Action::DeleteIfOrphan { node, .. } = action else {
                    return true;
                };
                let at = self.orphans.turn(uid, node, now);
                if at > now {
                    *wake_at = Some(wake_at.map_or(at, |other| other.min(at)));
                }
                at <= now
            });
        }
        Some(plan)
    }

    /// An action of a parent's newest plan is sent, and will be [answered](Self::answered); `judged_on`: as the plan
    /// says.
    pub fn begin(&mut self, uid: &str, action: &Action, judged_on: Option<&str>, now: Monotonic) {
        if let Some(parent) = self.parents.get_mut(uid) {
            parent.memory.begin(action, judged_on, now);
        }
    }

    /// The virtual node that a pod's record names, or where it is bound, and that nobody knows, if so: a live read has
    /// to say whether its target exists.
    pub fn unknown_target(&self, uid: &str) -> Option<&str> {
        let (view, _) = self.pod(uid)?;
        let recorded = view.record.record().map(|record| record.node.as_str());
        let bound = view.node_name.as_deref();
        let bound = bound.filter(|node| names::may_be_virtual_node(node));
        let mut named = recorded.into_iter().chain(bound);
        named.find(|node| self.targets.get(node).is_none())
    }

    // ---- what is known ------------------------------------------------------------------------------------------

    /// Whether all proxy pods have been told.
    pub fn knows_proxies(&self) -> bool {
        self.proxies_known
    }

    /// UIDs of all pods, and of all parents of chaperons.
    pub fn uids(&self) -> impl Iterator<Item = &str> {
        let parents = self.parents.keys().map(String::as_str);
        parents.chain(self.world.parents())
    }

    #[cfg(test)]
    pub(super) fn memory(&self, uid: &str) -> Option<&Memory> {
        Some(&self.parents.get(uid)?.memory)
    }

    #[cfg(test)]
    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    /// UIDs of the parents that have to decide again when a target can be reached or not, or its operator says
    /// something else.
    pub fn concerned(&self, node: &str) -> Vec<String> {
        let concerns = |parent: &Parent| {
            let pod = parent.pod.as_ref();
            pod.is_some_and(|(view, _)| self.targets.concerns(node, view))
        };
        let pods = self.parents.iter().filter(|(_, it)| concerns(it));
        let pods = pods.map(|(uid, _)| uid.as_str());
        pods.chain(self.world.parents_at(node))
            .map(str::to_owned)
            .collect()
    }

    /// One proxy pod.
    pub fn pod(&self, uid: &str) -> Option<&(ProxyView, Arc<Pod>)> {
        self.parents.get(uid)?.pod.as_ref()
    }
}
