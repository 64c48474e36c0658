//! What a proxy scheduler knows: its pods, their chaperons, the targets; kept current by events and by the replies to
//! its own requests.
//!
//! An edge feeds it and sends what [`Book::plan`] asks for; a simulator does the same. Who ranks targets and runs
//! scheduling cycles is not its affair.

mod unsaid;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::{PodChaperon, keys};

use crate::{
    class::Class,
    decide::{Observed, decide, see},
    door::{Serves, TurnedAway, admit},
    memory::Memory,
    plan::{Action, ActionKey, Plan, Words},
    reaction::Reaction,
    requests::{Outcome, Reply},
    settings::Settings,
    targets::{Targets, Terms},
    view::{ChaperonView, Monotonic, ProxyView, Reach, version},
    wave::Ranked,
    window::{Standing, Windows},
    world::{Change, ChaperonNews, Dropped, Heard, World},
};

use unsaid::Unsaid;

/// So many conditions are written at once: words are a courtesy, and a burst has no room for hundreds beside what is
/// done.
const SAYS_AT_ONCE: usize = 4;

/// One proxy pod.
#[derive(Debug)]
struct Entry {
    view: Arc<ProxyView>,
    memory: Memory,
}

/// What a decision needs besides what the book knows.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// Targets that suit the pod, best first.
    pub ranking: &'a [Ranked],
    /// The virtual node that a scheduling cycle chose and waits for.
    pub choice: Option<&'a str>,
    /// Numbers.
    pub settings: &'a Settings,
    /// Now.
    pub now: Monotonic,
}

/// All that one process knows.
#[derive(Debug, Default)]
pub struct Book {
    world: World,
    proxies: HashMap<String, Entry>,
    targets: Targets,
    windows: Windows,
    /// Conditions that are being written.
    says: usize,
    /// Pods whose words found no room among them.
    unsaid: Unsaid,
}

impl Book {
    /// Nothing is known; `few`: see [`Windows::new`].
    pub fn with_window(few: usize) -> Self {
        Self {
            windows: Windows::new(few),
            ..Self::default()
        }
    }

    // ---- what happens -------------------------------------------------------------------------------------------

    /// A pod is there in this version; its UID, if that is news.
    pub fn proxy_applied(&mut self, pod: &Pod) -> Option<String> {
        // What comes back of our own write comes again by the watch, and isn't read twice.
        if !self.is_news(pod) {
            return None;
        }
        let view = Arc::new(ProxyView::of(pod)?);
        let uid = view.uid.clone();
        if let Some(known) = self.proxies.get_mut(&uid) {
            self.targets.see(Some(&known.view), Some(&view));
            known.view = view;
        } else {
            self.targets.see(None, Some(&view));
            // What was said of its UID before anybody here knew whose it is.
            self.world.retain(&uid, |chaperon| chaperon.is_of(&view));
            let memory = Memory::default();
            self.proxies.insert(uid.clone(), Entry { view, memory });
        }
        Some(uid)
    }

    /// Whether this version of a pod is newer than what is known.
    pub fn is_news(&self, pod: &Pod) -> bool {
        let meta = &pod.metadata;
        let known = self.proxies.get(meta.uid.as_deref().unwrap_or_default());
        let seen = version(meta.resource_version.as_deref().unwrap_or_default());
        known.is_none_or(|known| seen > version(&known.view.resource_version))
    }

    /// What the condition of a pod should say from now on; nothing else, if nothing.
    pub fn say(&mut self, uid: &str, words: Option<Words>) {
        if let Some(known) = self.proxies.get_mut(uid) {
            known.memory.say(words);
        }
    }

    /// A pod is gone.
    pub fn proxy_gone(&mut self, uid: &str, now: Monotonic) {
        if let Some(gone) = self.proxies.remove(uid) {
            self.targets.see(Some(&gone.view), None);
            self.windows.forget(&gone.view.ticket, now);
            self.unsaid.forget(uid);
        }
    }

    /// A target can, or can't, be reached from now on; returns what isn't known any more.
    pub fn set_reach(&mut self, node: &str, reach: Reach, now: Monotonic) -> Dropped {
        self.targets.set_reach(node, reach, now);
        if reach != Reach::NoSuchTarget {
            return Dropped::default();
        }
        self.windows.drop_target(node);
        let (_, dropped) = self.world.drop_target(node);
        dropped
    }

    /// The Target behind this virtual node is one for these pods; to be told before anything that its target says.
    pub fn set_serves(&mut self, node: &str, serves: Serves) {
        self.targets.set_serves(node, serves);
    }

    /// Whether a target let a question pass of late, and hasn't answered any since.
    pub fn is_silent(&self, node: &str, now: Monotonic) -> bool {
        self.targets.is_silent(node, now)
    }

    /// A pod that was to decide couldn't: it gives back the turns that it was called for.
    pub fn pass(&mut self, uid: &str) {
        if let Some(known) = self.proxies.get(uid) {
            self.windows.pass(&known.view.ticket);
            self.unsaid.forget(uid);
        }
    }

    /// The operator of a target says something else from now on.
    pub fn set_terms(&mut self, node: &str, terms: Terms) {
        self.targets.set_terms(node, terms);
    }

    /// A watch tells something of a chaperon.
    pub fn chaperon(&mut self, node: &str, news: ChaperonNews, now: Monotonic) -> Heard {
        let admitted = self.admit(node, news.chaperon()).and_then(|proxy| {
            let has_room = self.world.has_room(node, proxy, &news);
            has_room.then_some(()).ok_or(TurnedAway::Crowd)
        });
        let changes = match admitted {
            Ok(()) => self.world.take_in(node, news),
            Err(_) => self.world.turn_away(node, &news).into_iter().collect(),
        };
        for change in &changes {
            if change.gone.is_some() {
                self.windows.gone(node, &change.parent, now);
            }
            self.changed(node, change, now);
        }
        let answer = changes.last().filter(|change| change.answered);
        Heard {
            answer: answer.and_then(|change| self.answer(node, change)),
            parents: changes.into_iter().map(|change| change.parent).collect(),
            turned_away: admitted.err(),
        }
    }

    /// What a change says. What stood there before this process asked, or looked, was answered to another one.
    fn answer(&self, node: &str, change: &Change) -> Option<Reaction> {
        let asked = self.proxies.get(&change.parent)?.memory.asked_at(node);
        let mut siblings = self.world.of(&change.parent).iter().rev();
        asked.and_then(|_| Reaction::of(siblings.find(|chaperon| chaperon.node == node)?))
    }

    /// With the pod that it is of, if that is known.
    fn admit(&self, node: &str, chaperon: &PodChaperon) -> Result<Option<&ProxyView>, TurnedAway> {
        let labels = chaperon.metadata.labels.as_ref();
        let parent = labels.and_then(|labels| labels.get(keys::PARENT_UID));
        let proxy = parent.and_then(|uid| self.proxy(uid)).map(Arc::as_ref);
        admit(self.targets.serves(node), proxy, chaperon).map(|()| proxy)
    }

    fn changed(&mut self, node: &str, change: &Change, now: Monotonic) {
        if change.answered {
            self.targets.answered(node, now);
        }
        if let (Some(gone), Some(proxy)) = (&change.gone, self.proxies.get_mut(&change.parent)) {
            let Entry { view, memory } = proxy;
            memory.confirm_gone(node, gone);
            memory.trim_proofs(view.record.record());
        }
    }

    /// A request about the pod with this UID ended.
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
        if matches!(action, Action::Say { .. }) {
            self.says = self.says.saturating_sub(1);
        }
        // A reply may come after the news of its object's end, and must not bring it back.
        let known = self.proxies.get(uid);
        let gone = |uid: &String| {
            let node = action.node().unwrap_or_default();
            known.is_some_and(|known| known.memory.is_gone(node, uid))
        };
        let proxy = proxy.filter(|_| known.is_some());
        let chaperon = chaperon
            .filter(|_| known.is_some())
            .filter(|chaperon| !chaperon.metadata.uid.as_ref().is_some_and(gone));
        if let Some(pod) = proxy {
            self.proxy_applied(&pod);
        }
        let mut admitted = Ok(());
        if let Some(node) = action.node() {
            let chaperon = chaperon.filter(|chaperon| {
                admitted = self.admit(node, chaperon).map(drop);
                admitted.is_ok()
            });
            if let Some(chaperon) = chaperon
                && let Some(change) = self.world.fold(node, chaperon)
            {
                self.changed(node, &change, now);
            }
            if let (Outcome::Gone, ActionKey::Chaperon { uid: gone, .. }) = (&outcome, action.key())
            {
                self.world.remove(uid, node, &gone);
                self.windows.gone(node, uid, now);
            }
        }
        let outcome = match &admitted {
            // Nobody has taken the question in.
            Err(why) if outcome == Outcome::Done => Outcome::Unknown(why.to_string()),
            _ => outcome,
        };
        if let Some(known) = self.proxies.get_mut(uid) {
            if let (Action::BindProxy { node, .. }, Outcome::Done) = (action, &outcome) {
                let before = known.view.clone();
                Arc::make_mut(&mut known.view).node_name = Some(node.clone());
                self.targets.see(Some(&before), Some(&known.view));
            }
            match (action, &outcome) {
                (Action::Ask { node }, Outcome::Refused(_)) => {
                    self.windows.refused(node, uid, now);
                }
                (Action::Ask { node }, Outcome::Unknown(_)) => {
                    self.windows.failed(node, uid, now);
                    // Whoever drops this pod's question isn't asked first by the next one.
                    self.targets.let_pass(node, settings.silence, now);
                }
                _ => {}
            }
            known.memory.finish(action, &outcome, settings, now);
        }
        admitted
    }

    // ---- what to do ---------------------------------------------------------------------------------------------

    /// What to do now for one pod; each action of the plan [begins](Self::begin) when it is sent.
    pub fn plan(&mut self, uid: &str, turn: Turn<'_>) -> Option<Plan> {
        let Entry { view, memory } = self.proxies.get_mut(uid)?;
        let chaperons = self.world.of(uid);
        let targets = &self.targets;
        see(memory, view, chaperons, targets, turn.ranking, turn.now);
        self.windows.tick(turn.now);
        let standings = standings(view, chaperons, memory);
        self.windows.see(&view.ticket, &standings, turn.now);
        let may_say = self.says < SAYS_AT_ONCE && self.unsaid.may_speak(uid);
        let plan = decide(&Observed {
            proxy: view,
            chaperons,
            targets: &self.targets,
            ranking: turn.ranking,
            choice: turn.choice,
            memory,
            may_say,
            windows: &self.windows,
            settings: turn.settings,
            now: turn.now,
        });
        memory.decided(&plan, turn.now);
        if may_say || memory.words().is_none() {
            self.unsaid.forget(uid);
        } else {
            self.unsaid.wait(uid, &view.namespace);
        }
        if plan.asks() {
            // Others are asked while these are still to answer: they were too slow to be trusted alone.
            let silence = turn.settings.silence.min(turn.settings.patience);
            let asked = |c: &ChaperonView, node: &str| c.node == node && c.class == Class::Asked;
            for node in plan.owing() {
                if memory.ask_under_way(node) || chaperons.iter().any(|c| asked(c, node)) {
                    self.targets.let_pass(node, silence, turn.now);
                }
            }
        }
        self.windows.wait(&view.ticket, &plan.queue);
        Some(plan)
    }

    /// An action of a pod's newest plan is sent, and will be [answered](Self::answered).
    pub fn begin(&mut self, uid: &str, action: &Action, now: Monotonic) {
        let Some(Entry { view, memory }) = self.proxies.get_mut(uid) else {
            return;
        };
        memory.begin(action, now);
        match action {
            Action::Say { .. } => self.says = self.says.saturating_add(1),
            Action::Ask { node } if !view.no_reservation => self.windows.enter(node, uid, now),
            _ => {}
        }
    }

    /// Pods that waited for room at a target, or for their words, and that are to decide now. Those that waited for a
    /// target count as called until they do.
    pub fn call(&mut self, now: Monotonic) -> Vec<String> {
        let mut called = self.windows.call(now);
        for _ in self.says..SAYS_AT_ONCE {
            called.extend(self.unsaid.call());
        }
        called
    }

    /// When to [call](Self::call) again even if nothing happens.
    pub fn wake_at(&self) -> Option<Monotonic> {
        self.windows.wake_at()
    }

    /// The virtual node that a pod's record names and nobody knows, if so: a live read has to say whether its target
    /// exists.
    pub fn unknown_target(&self, uid: &str) -> Option<&str> {
        let record = self.proxies.get(uid)?.view.record.record()?;
        let unknown = self.targets.get(&record.node).is_none();
        unknown.then_some(&record.node)
    }

    // ---- what is known ------------------------------------------------------------------------------------------

    /// UIDs of all pods.
    pub fn uids(&self) -> impl Iterator<Item = &str> {
        self.proxies.keys().map(String::as_str)
    }

    /// UIDs of the pods that have to decide again when a target can be reached or not, or its operator says something
    /// else.
    pub fn concerned(&self, node: &str) -> Vec<String> {
        let pods = self.proxies.iter();
        pods.filter(|(_, pod)| self.targets.concerns(node, &pod.view))
            .map(|(uid, _)| uid.clone())
            .collect()
    }

    /// One pod.
    pub fn proxy(&self, uid: &str) -> Option<&Arc<ProxyView>> {
        self.proxies.get(uid).map(|entry| &entry.view)
    }

    /// Whether a target can be reached.
    pub fn reach(&self, node: &str) -> Reach {
        self.targets.reach(node)
    }

    /// Whether a question about a pod is on its way to a target.
    pub fn is_asking(&self, uid: &str, node: &str) -> bool {
        let proxy = self.proxies.get(uid);
        proxy.is_some_and(|proxy| proxy.memory.ask_under_way(node))
    }

    /// Whether it is known that the target which was granted a pod doesn't run it any more.
    pub fn is_left(&self, uid: &str) -> bool {
        let Some(Entry { view, memory }) = self.proxies.get(uid) else {
            return false;
        };
        let Some(record) = view.record.record() else {
            return false;
        };
        let mut chaperons = self.world.of(uid).iter();
        match chaperons.find(|c| record.names(&c.node, &c.uid)) {
            Some(c) => matches!(c.class, Class::Missing | Class::VoidRefused(_)),
            None => memory.is_over(record),
        }
    }

    #[cfg(test)]
    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    /// The chaperons of one pod.
    pub fn chaperons(&self, uid: &str) -> &[ChaperonView] {
        self.world.of(uid)
    }
}

/// Where a pod that reserves stands with each target that it has to do with.
fn standings<'a>(
    view: &ProxyView,
    chaperons: &'a [ChaperonView],
    memory: &'a Memory,
) -> BTreeMap<&'a str, Standing> {
    let waits = view.node_name.is_none() && !view.ending && !view.terminal && !view.no_reservation;
    let under_way = memory.asks_under_way().map(|node| (node, Standing::Asked));
    let mut all: BTreeMap<_, _> = under_way.filter(|_| waits).collect();
    for chaperon in chaperons {
        let standing = match chaperon.class {
            Class::Asked if !waits => continue,
            // Whoever says so without an attempt is plain, and won't refuse.
            Class::Asked if chaperon.unschedulable.is_some() => Standing::Settled,
            Class::Asked => Standing::Asked,
            Class::Reserved(_) | Class::VoidReserved(_) | Class::PlainReserved if waits => {
                Standing::Answered
            }
            Class::Ending | Class::Missing => continue,
            _ => Standing::Settled,
        };
        all.insert(&chaperon.node, standing);
    }
    all
}

#[cfg(test)]
mod tests;
