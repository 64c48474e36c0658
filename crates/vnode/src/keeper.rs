//! The loop of one virtual node: observe, decide, act, wait for a change.
//!
//! A change of the connection or of the Target is acted on at once; what the target tells of its room is taken in at
//! most once a second.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use pilotage_api::parent::ClusterUid;
use pilotage_api::{ClusterSummary, keys};
use pilotage_clusters::{Connection, Lookup, Target, TargetKey, TargetObject, Watch, WatchConfig};
use pilotage_model::virtual_node::{KubeletEndpoint, TargetName, has_several_huge_page_sizes};
use pilotage_runtime::backoff::{Backoff, dice};
use pilotage_runtime::lease::Leadership;
use pilotage_runtime::looks::Looks;
use pilotage_runtime::moment::from_now;
use tokio::sync::watch as cell;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::act::leave::{Leaving, is_forgotten};
use crate::act::records::Records;
use crate::act::{ActError, Actor};
use crate::bells::Bell;
use crate::decide::{self, Memory, NodeState, Observed, Step};
use crate::followed::Followed;
use crate::huge_pages::HugePages;
use crate::kept;

/// Least time between two writes that nobody waits for.
const CALM: Duration = Duration::from_secs(1);
/// After this long everything is applied again, in case somebody changed what isn't compared.
const REFRESH: Duration = Duration::from_mins(5);
/// Pause after a failure.
pub(crate) const BACKOFF: Backoff =
    Backoff::new(Duration::from_secs(1), Duration::from_mins(1)).spread(0.3);

/// Races that are lost for so long are no accident any more. A new Target is written several times in a second.
const LASTING: Duration = Duration::from_secs(10);

/// Tells the author of a Target about an error that only a person can mend.
pub(crate) type Conflicts = Arc<dyn Fn(&TargetObject, &ActError) + Send + Sync>;

/// What all keepers share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) lookup: Lookup,
    pub(crate) records: Arc<Looks<Records>>,
    pub(crate) leadership: Leadership,
    pub(crate) nodes: Watch<Node>,
    pub(crate) huge_pages: Arc<HugePages>,
    pub(crate) conflicts: Conflicts,
    pub(crate) cluster: ClusterUid,
    pub(crate) kubelet: Option<Arc<KubeletEndpoint>>,
    pub(crate) followed: Followed,
}

/// Whose node it is.
pub(crate) enum Subject {
    /// A target's.
    Target(Arc<Target>),
    /// Nobody's any more.
    Orphan(TargetKey),
}

/// Keeps one node as it should be. Ends at `stop`, and for an orphan when the node is gone.
pub(crate) async fn run(
    shared: Shared,
    subject: Subject,
    bell: Arc<Bell>,
    stop: CancellationToken,
) {
    let keeper = Keeper::new(shared, subject, &stop);
    // A write that was begun isn't cut off in the middle of nothing: each is one request, and safe to lose.
    stop.run_until_cancelled(Box::pin(keeper.run(bell))).await;
}

struct Keeper {
    shared: Shared,
    subject: Subject,
    key: TargetKey,
    actor: Actor,
    summary: Option<Summary>,
    /// Pods on the node, watched only while it is being removed.
    bound: Option<Bound>,
    memory: Memory,
    stop: CancellationToken,
}

/// What is looked at, and word of its changes. Only the outcome matters: who doesn't lead, or pauses, keeps none of
/// them.
struct Summary {
    watch: Watch<ClusterSummary>,
    changes: cell::Receiver<u64>,
}

struct Bound {
    watch: Watch<Pod>,
    changes: cell::Receiver<u64>,
}

impl Keeper {
    fn new(shared: Shared, subject: Subject, stop: &CancellationToken) -> Self {
        let (key, summary) = match &subject {
            Subject::Target(target) => {
                let name = format!("metadata.name={}", keys::CLUSTER_SUMMARY_NAME);
                let watch = target.watch_cluster(WatchConfig::all().fields(name));
                let changes = watch.changes();
                (target.key().clone(), Some(Summary { watch, changes }))
            }
            Subject::Orphan(key) => (key.clone(), None),
        };
        let actor = Actor {
            client: shared.client.clone(),
            leadership: shared.leadership.clone(),
            nodes: shared.nodes.clone(),
            node: key.node(),
            target: match &subject {
                Subject::Target(target) => Some(target.clone()),
                Subject::Orphan(_) => None,
            },
            cluster: shared.cluster.clone(),
            followed: shared.followed.clone(),
            leaving: Leaving::default(),
            bound: Looks::default(),
            records: shared.records.clone(),
        };
        Self {
            shared,
            subject,
            key,
            actor,
            summary,
            bound: None,
            memory: Memory::default(),
            stop: stop.clone(),
        }
    }

    async fn run(mut self, bell: Arc<Bell>) {
        let (mut objects, mut states, mut turns) = match &self.subject {
            Subject::Target(target) => (
                Some(target.objects()),
                Some(target.state()),
                Some(target.turn()),
            ),
            Subject::Orphan(_) => (None, None, None),
        };
        let mut failures = 0_u32;
        let mut losing_since = None;
        let mut refresh = from_now(REFRESH);
        loop {
            self.shared.leadership.acquired().await;
            if Instant::now() >= refresh {
                self.memory = Memory::default();
                refresh = from_now(REFRESH);
            }
            if let Some(objects) = &mut objects {
                objects.mark_unchanged();
            }
            if let Some(states) = &mut states {
                states.mark_unchanged();
            }
            if let Some(turns) = &mut turns {
                turns.mark_unchanged();
            }
            let (steps, object) = self.look().await;
            if self.is_done(&steps) {
                return;
            }
            let acted = !steps.is_empty();
            let pause = match self.act(steps, object.as_deref()).await {
                Ok(()) => {
                    (failures, losing_since) = (0, None);
                    if acted { CALM } else { Duration::ZERO }
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    let mut losing = || losing_since.get_or_insert_with(Instant::now).elapsed();
                    if error.is_lost_race() && losing() < LASTING {
                        tracing::debug!(node = self.actor.node, %error, "somebody was faster");
                    } else {
                        self.report(&error, object.as_deref());
                    }
                    let pause = BACKOFF.delay(failures, dice());
                    self.forgotten_in().map_or(pause, |left| pause.min(left))
                }
            };
            // What calm can't delay: whether pods may be sent there.
            tokio::select! {
                () = sleep(pause) => {}
                () = changed(&mut objects) => continue,
                () = changed(&mut states) => {
                    // What failed because of the target is worth another try soon.
                    failures = 0;
                    continue;
                }
            }
            if failures > 0 {
                continue;
            }
            tokio::select! {
                () = changed(&mut objects) => {}
                () = changed(&mut states) => {}
                () = changed(&mut turns) => {}
                () = bell.rung() => {}
                () = event(self.summary.as_mut().map(|summary| &mut summary.changes)) => {}
                () = event(self.bound.as_mut().map(|bound| &mut bound.changes)) => {}
                () = sleep_until(refresh) => {}
            }
        }
    }

    async fn look(&mut self) -> (Vec<Step>, Option<Arc<TargetObject>>) {
        let (object, connection, has_turn) = match &self.subject {
            Subject::Target(target) => {
                // Who was connected once may have been sent pods, by another process.
                let has_turn = target.had_turn() || target.known_identity().is_some();
                (Some(target.object()), target.connection(), has_turn)
            }
            Subject::Orphan(_) => (None, Connection::Connecting, true),
        };
        let node = self.shared.nodes.get(None, &self.actor.node);
        let removing = object.as_ref().is_none_or(|object| object.is_deleting());
        // Whoever has no node costs no watch either.
        self.watch_pods(removing && node.is_some());
        let summary = self
            .summary
            .as_ref()
            .and_then(|summary| summary.watch.get(None, keys::CLUSTER_SUMMARY_NAME));
        let several_huge_page_sizes = self.several_huge_page_sizes(summary.as_deref()).await;
        let bound = self.bound.as_ref().filter(|bound| bound.watch.is_synced());
        let bound = bound.map(|bound| bound.watch.list());
        let observed = Observed {
            name: TargetName {
                namespace: self.key.namespace.as_deref(),
                name: &self.key.name,
            },
            target: object.as_deref(),
            has_turn,
            connection: &connection,
            summary: summary.as_deref(),
            several_huge_page_sizes,
            node: match &node {
                Some(node) => NodeState::There(node),
                None if self.shared.nodes.is_synced() => NodeState::Absent,
                None => NodeState::Unknown,
            },
            bound: bound.as_deref(),
            kubelet: self.shared.kubelet.as_deref(),
            version: env!("CARGO_PKG_VERSION"),
            now: Timestamp::now(),
        };
        (decide::decide(&observed, &self.memory), object)
    }

    fn watch_pods(&mut self, removing: bool) {
        if !removing {
            self.bound = None;
        } else if self.bound.is_none() {
            let config = WatchConfig::all().fields(format!("spec.nodeName={}", self.actor.node));
            let config = kept::only(config);
            let watch = Watch::of_client(self.shared.client.clone(), config, &self.stop);
            let changes = watch.changes();
            self.bound = Some(Bound { watch, changes });
        }
    }

    async fn several_huge_page_sizes(&self, summary: Option<&ClusterSummary>) -> bool {
        let capacity = summary.and_then(|summary| summary.capacity.as_ref());
        if !capacity.is_some_and(has_several_huge_page_sizes) {
            return false;
        }
        match self.shared.huge_pages.several(&self.shared.client).await {
            Ok(several) => several,
            Err(error) => {
                tracing::warn!(%error, "failed to look for huge pages on this cluster's nodes");
                false
            }
        }
    }

    async fn act(
        &mut self,
        steps: Vec<Step>,
        object: Option<&TargetObject>,
    ) -> Result<(), ActError> {
        for step in steps {
            self.actor.act(step, object, &mut self.memory).await?;
        }
        Ok(())
    }

    /// An orphan's keeper is done when its node is gone, which leaves nothing to decide.
    fn is_done(&self, steps: &[Step]) -> bool {
        let orphan = matches!(self.subject, Subject::Orphan(_));
        orphan && steps.is_empty() && self.shared.nodes.get(None, &self.actor.node).is_none()
    }

    /// When what is left in the target is waited for no longer, if its operator said so.
    fn forgotten_in(&self) -> Option<Duration> {
        let target = self.actor.target.as_ref()?;
        self.actor
            .leaving
            .ends_in()
            .filter(|_| is_forgotten(target))
    }

    fn report(&self, error: &ActError, object: Option<&TargetObject>) {
        tracing::warn!(node = self.actor.node, %error, "virtual node is not as it should be");
        if let (
            ActError::Foreign(_)
            | ActError::Occupied(_)
            | ActError::Followed(_)
            | ActError::Away { .. },
            Some(object),
        ) = (error, object)
        {
            (self.shared.conflicts)(object, error);
        }
    }
}

async fn changed<T>(receiver: &mut Option<cell::Receiver<T>>) {
    if let Some(receiver) = receiver
        && receiver.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

/// The next change, together with all that there were since the last one.
async fn event(changes: Option<&mut cell::Receiver<u64>>) {
    if let Some(changes) = changes
        && changes.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}
