//! All targets as the source's edges see them: who can be reached, and what happens to our chaperons there.
//!
//! Each target has its own task, so that a dead one delays nobody; what they tell meets in one queue. Nothing is
//! decided here.

mod metrics;

use std::{
    collections::{HashMap, HashSet},
    panic::{AssertUnwindSafe, resume_unwind},
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use futures::FutureExt;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::Client;
use pilotage_api::{
    PodChaperon, keys,
    parent::{ClusterUid, selector_of_plain_sources, selector_of_source},
};
use pilotage_clusters::{
    Connection, Event, Lookup, LostReason, Registry, Target, TargetObject, Unread, Watch,
    WatchConfig, WatchHealth,
};
use pilotage_proxy::slim::{lean, slim};
use pilotage_proxy::{
    ChaperonNews, Dropped, Reach, Reply, Serves, Terms, TurnedAway,
    placing::{Readable, Words},
};
use pilotage_runtime::caught::retried;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use metrics::FleetMetrics;

/// How long to wait before looking again for a target that a record names and nobody knows.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// What happens in or to a target, by its virtual node.
#[derive(Debug)]
pub(crate) enum FleetEvent {
    /// There is a Target for these pods; told before anything else of it.
    Serves(String, Serves),
    /// It may be connected from now on, or was once: before that nothing can happen there.
    Turn(String),
    /// It can, or can't, be reached from now on; or it is proved that its Target is gone.
    Reach(String, Reach),
    /// Its operator says this from now on.
    Terms(String, Terms),
    /// Of its labels and annotations rankings read these from now on; nothing, if it is gone.
    Words(String, Words),
    /// Something happened to a chaperon of ours there; the target's budget bears it until it is taken in.
    Chaperon(String, ChaperonNews, Unread),
    /// The first word of a target that wasn't its to say since this process began: its Target, and what was wrong.
    TurnedAway(ObjectReference, String),
}

/// Frees what a target showed, where nobody waits for that.
pub(crate) fn free(dropped: Dropped) {
    if !dropped.is_empty() {
        tokio::task::spawn_blocking(move || drop(dropped));
    }
}

fn news(event: Event<PodChaperon>) -> Option<ChaperonNews> {
    match event {
        Event::Applied(chaperon) => Some(ChaperonNews::Applied(chaperon)),
        Event::Deleted(chaperon) => Some(ChaperonNews::Deleted(chaperon)),
        Event::Gone(chaperon) => Some(ChaperonNews::Vanished(chaperon)),
        Event::Synced => None,
    }
}

/// How a target can be reached, by its connection and by how our watches there fare.
///
/// Only silence is a loss, or the proof that another cluster answers: what the target doesn't let us see, or who it is,
/// may be a matter of its roles, and a mistake of ours isn't its silence.
fn reach(connection: &Connection, watches: [&WatchHealth; 2], listed: bool) -> Reach {
    let fails = |health: &&WatchHealth| matches!(health, WatchHealth::Failing { .. });
    match connection {
        Connection::Lost {
            reason: LostReason::Unidentified { .. } | LostReason::Internal,
            ..
        } => Reach::Unseen,
        Connection::Lost { .. } => Reach::Lost,
        Connection::Connected { .. } if watches.iter().any(fails) => Reach::Unseen,
        Connection::Connected { .. } if listed && watches == [&WatchHealth::Live; 2] => {
            Reach::Reachable
        }
        // Nothing has been tried, or read, yet.
        Connection::Connecting | Connection::Connected { .. } => Reach::Unknown,
    }
}

/// Chaperons in a page of a list: with their specs they are large.
const PAGE: u32 = 200;

fn terms(object: &TargetObject) -> Terms {
    let annotation = |key: &str| object.annotations.get(key).map(String::as_str);
    Terms {
        leaving: object.is_deleting(),
        forgotten: annotation(keys::FORGET) == Some(keys::TRUE),
        // An unreadable word is told in the Target's status, and the pods are held.
        lost_policy: annotation(keys::REPLACE_AFTER).and_then(|text| text.parse().ok()),
    }
}

/// A target and our watch of its chaperons.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// The target.
    pub(crate) target: Arc<Target>,
    /// Our chaperons there.
    chaperons: Watch<PodChaperon>,
    /// Chaperons that name no source: those that a plain scheduler, swapped for ours, has left are among them.
    plain: Watch<PodChaperon>,
}

impl Member {
    /// The watch that brings such chaperons.
    fn watch_of(&self, chaperon: &PodChaperon) -> &Watch<PodChaperon> {
        let labels = chaperon.metadata.labels.as_ref();
        if labels.is_some_and(|labels| labels.contains_key(keys::PARENT_CLUSTER_UID)) {
            &self.chaperons
        } else {
            &self.plain
        }
    }

    /// A chaperon that came back of a write: it counts for the target's budget from now on, if there is room.
    pub(crate) fn keep(&self, mut chaperon: PodChaperon) -> Arc<PodChaperon> {
        chaperon.metadata.managed_fields = None;
        lean(&mut chaperon);
        let watch = self.watch_of(&chaperon);
        watch.fit(&mut chaperon);
        watch.fold(chaperon.clone());
        Arc::new(chaperon)
    }
}

/// The targets by their virtual nodes. Clones share them.
#[derive(Clone)]
pub(crate) struct Fleet {
    members: Arc<RwLock<HashMap<String, Member>>>,
    /// Virtual nodes that are being looked for.
    looking: Arc<Mutex<HashSet<String>>>,
    /// Looks at the source's own API server.
    lookup: Lookup,
    /// The source's identity.
    cluster: ClusterUid,
    tell: mpsc::UnboundedSender<FleetEvent>,
    metrics: FleetMetrics,
    /// What is told of the targets' labels and annotations, if anything is.
    readable: Option<Arc<Readable>>,
}

impl Fleet {
    /// No targets yet; what happens to them is told through the receiver, and what of their words is `readable`.
    pub(crate) fn new(
        client: Client,
        cluster: ClusterUid,
        metrics: FleetMetrics,
        readable: Option<Readable>,
    ) -> (Self, mpsc::UnboundedReceiver<FleetEvent>) {
        let (tell, told) = mpsc::unbounded_channel();
        let fleet = Self {
            members: Arc::default(),
            looking: Arc::default(),
            lookup: Lookup::new(client),
            cluster,
            tell,
            metrics,
            readable: readable.map(Arc::new),
        };
        (fleet, told)
    }

    /// Who we are.
    pub(crate) fn cluster(&self) -> &ClusterUid {
        &self.cluster
    }

    /// One target, if it is known.
    pub(crate) fn member(&self, node: &str) -> Option<Member> {
        self.members
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(node)
            .cloned()
    }

    /// [`Reply::drop_old`]: of the chaperons that come back counts what the watch's store [keeps](Member::keep), so
    /// that no more is known than is counted, and its end will be told.
    pub(crate) fn drop_old(&self, node: Option<&str>, reply: &mut Reply) {
        let member = node.and_then(|node| self.member(node));
        reply.drop_old(|chaperon| {
            let kept = |it: &Member| it.watch_of(chaperon).keeps(chaperon);
            !member.as_ref().is_some_and(kept)
        });
    }

    /// Follows the registry's targets and tells what happens there, until `shutdown`. How much of what they show is
    /// kept follows from `proxies`.
    pub(crate) async fn follow(
        self,
        registry: Registry,
        proxies: Watch<Pod>,
        shutdown: CancellationToken,
    ) {
        let known = proxies.synced();
        if shutdown.run_until_cancelled(known).await.is_none() {
            return;
        }
        let selector = selector_of_source(&self.cluster);
        let (known, ending) = (registry.clone(), shutdown.clone());
        registry
            .for_each("chaperons", &shutdown, move |target, end| {
                let (proxies, home) = (proxies.clone(), target.key().namespace.clone());
                target.expect(move || proxies.count_in(home.as_deref()));
                let config = || WatchConfig::all().pages_of(PAGE).trim(lean).slim(slim);
                let chaperons = target.watch(config().labels(selector.clone()));
                let plain = target.watch(config().labels(selector_of_plain_sources()));
                let member = Member {
                    target,
                    chaperons,
                    plain,
                };
                let (fleet, known, ending) = (self.clone(), known.clone(), ending.clone());
                async move {
                    let following = fleet.follow_one(member.clone(), end);
                    let followed = AssertUnwindSafe(following).catch_unwind().await;
                    let now = known.get(member.target.key());
                    let goes_on = now.is_some_and(|now| Arc::ptr_eq(&now, &member.target));
                    // The end of this process is not the end of its targets.
                    if !goes_on && !ending.is_cancelled() {
                        fleet.leave(&member);
                    }
                    if let Err(panic) = followed {
                        fleet.lose_sight(member.target.node());
                        resume_unwind(panic);
                    }
                }
            })
            .await;
    }

    async fn follow_one(&self, member: Member, end: CancellationToken) {
        let node = member.target.node().to_owned();
        self.members
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(node.clone(), member.clone());
        let serves = match &member.target.key().namespace {
            Some(namespace) => Serves::Namespace(namespace.clone()),
            None => Serves::Everybody,
        };
        self.say(FleetEvent::Serves(node.clone(), serves));
        let mut events = member.chaperons.subscribe();
        let mut connection = member.target.state();
        let mut objects = member.target.objects();
        let (mut turn, mut told_turn) = (member.target.turn(), false);
        let mut health = member.chaperons.health();
        let mut plain_events = member.plain.subscribe();
        let mut plain_health = member.plain.health();
        let (mut told, mut told_terms, mut told_words) = (None, None, Words::default());
        loop {
            // All that was listed is told before the target counts as reachable.
            while let Ok(told) = events.try_take() {
                self.tell_of(&node, told);
            }
            while let Ok(told) = plain_events.try_take() {
                self.tell_of(&node, told);
            }
            let has_turn = *turn.borrow_and_update();
            if has_turn && !std::mem::replace(&mut told_turn, true) {
                self.say(FleetEvent::Turn(node.clone()));
            }
            let object = objects.borrow_and_update().clone();
            let terms = terms(&object);
            let readable = self.readable.as_ref();
            let words = readable.map(|it| it.words(&object.labels, &object.annotations));
            if let Some(words) = words
                && told_words != words
            {
                told_words = words.clone();
                self.say(FleetEvent::Words(node.clone(), words));
            }
            if told_terms != Some(terms) {
                told_terms = Some(terms);
                tracing::info!(%node, ?terms, "target");
                self.say(FleetEvent::Terms(node.clone(), terms));
            }
            let reach = reach(
                &connection.borrow_and_update(),
                [
                    &health.borrow_and_update(),
                    &plain_health.borrow_and_update(),
                ],
                member.chaperons.is_synced() && member.plain.is_synced(),
            );
            if told != Some(reach) {
                told = Some(reach);
                tracing::info!(%node, ?reach, "target");
                self.say(FleetEvent::Reach(node.clone(), reach));
            }
            tokio::select! {
                biased;
                () = end.cancelled() => break,
                Some(told) = events.take() => self.tell_of(&node, told),
                Some(told) = plain_events.take() => self.tell_of(&node, told),
                Ok(()) = turn.changed() => {}
                Ok(()) = connection.changed() => {}
                Ok(()) = health.changed() => {}
                Ok(()) = plain_health.changed() => {}
                Ok(()) = objects.changed() => {}
            }
        }
    }

    /// Looks, with live reads, for a target that is not among those we know: not knowing it proves nothing, and what is
    /// told of it may lift finalizers. Returns at once.
    pub(crate) fn look_for(&self, node: &str) {
        let mut looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        if !looking.insert(node.to_owned()) {
            return;
        }
        let (fleet, node) = (self.clone(), node.to_owned());
        tokio::spawn(async move {
            let panicked =
                |panic: &str| tracing::error!(node, panic, "to look for a target panicked");
            retried(|| fleet.look(&node), panicked).await;
            fleet
                .looking
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&node);
        });
    }

    async fn look(&self, node: &str) {
        while self.member(node).is_none() && !self.tell.is_closed() {
            match self.lookup.has_target(node).await {
                Ok(false) => {
                    // It may have come back meanwhile: then its own task tells of it.
                    if self.member(node).is_none() {
                        tracing::info!(%node, "no Target stands behind this virtual node");
                        self.say(FleetEvent::Reach(node.to_owned(), Reach::NoSuchTarget));
                    }
                    break;
                }
                // The watch will bring it.
                Ok(true) => {}
                Err(error) => tracing::warn!(%node, %error, "can't look for a target"),
            }
            tokio::select! {
                () = self.tell.closed() => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    /// What a target said of a chaperon wasn't taken in: counts it, and has its Target's status say so.
    pub(crate) fn turn_away(&self, node: &str, why: TurnedAway) {
        self.metrics.turn_away(why);
        if let Some(Member { target, .. }) = self.member(node) {
            let words = format!("a PodChaperon of this target counts for nothing: {why}");
            if target.turn_away(words.clone()) {
                self.say(FleetEvent::TurnedAway(target.object().reference(), words));
            }
        }
    }

    fn tell_of(&self, node: &str, (event, unread): (Event<PodChaperon>, Unread)) {
        if let Some(news) = news(event) {
            self.say(FleetEvent::Chaperon(node.to_owned(), news, unread));
        }
    }

    /// Nobody listens any more only when the process ends.
    fn say(&self, event: FleetEvent) {
        let _ = self.tell.send(event);
    }

    /// Nobody follows a target for a while: whether it can be reached isn't known, and what is granted there stands.
    fn lose_sight(&self, node: &str) {
        if self.member(node).is_some() {
            self.say(FleetEvent::Reach(node.to_owned(), Reach::Unseen));
        }
    }

    /// The Target is gone; another one of its name may be there already. What was seen in the old one's cluster isn't
    /// seen in the new one's, and nobody else would tell that it isn't there any more.
    fn leave(&self, member: &Member) {
        let node = member.target.node();
        self.members
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(node);
        self.say(FleetEvent::Reach(node.to_owned(), Reach::Unknown));
        self.say(FleetEvent::Words(node.to_owned(), Words::default()));
        for watch in [&member.chaperons, &member.plain] {
            for chaperon in watch.list() {
                let unread = watch.unread_share(&chaperon);
                let news = ChaperonNews::Vanished(chaperon);
                self.say(FleetEvent::Chaperon(node.to_owned(), news, unread));
            }
        }
        self.look_for(node);
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests {
    use pilotage_clusters::Since;

    use super::*;

    #[test]
    fn only_silence_and_another_cluster_are_a_loss() {
        let since = Since::now();
        let lost = |reason| Connection::Lost { since, reason };
        let uid = |text: &str| ClusterUid(text.to_owned());
        let connected = || Connection::Connected { since };
        let failing = WatchHealth::Failing {
            since,
            error: "podchaperons is forbidden".into(),
        };
        let (live, starting) = (&WatchHealth::Live, &WatchHealth::Starting);
        let other = LostReason::OtherCluster {
            known: uid("x"),
            found: uid("y"),
        };
        let table = [
            (connected(), [live, live], true, Reach::Reachable),
            (connected(), [live, &failing], true, Reach::Unseen),
            (connected(), [&failing, starting], false, Reach::Unseen),
            (connected(), [live, starting], false, Reach::Unknown),
            (connected(), [live, live], false, Reach::Unknown),
            (Connection::Connecting, [live, live], true, Reach::Unknown),
            (
                lost(LostReason::Unreachable("no route".into())),
                [live, live],
                true,
                Reach::Lost,
            ),
            (lost(other), [live, live], true, Reach::Lost),
            (
                lost(LostReason::Unidentified { known: uid("x") }),
                [live, live],
                true,
                Reach::Unseen,
            ),
            (
                lost(LostReason::Internal),
                [live, live],
                true,
                Reach::Unseen,
            ),
        ];
        for (connection, watches, listed, want) in table {
            let is = reach(&connection, watches, listed);
            assert_eq!(is, want, "{connection:?} {watches:?} {listed}");
        }
    }
}
