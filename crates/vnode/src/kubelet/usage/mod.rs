//! What pods on virtual nodes use, asked of their targets when somebody asks here.
//!
//! ```text
//! proxies of the node (ours) ─ PodMetricsList of the target (reading) ─ counters (books) ─ text (render)
//! ```
//!
//! A target is asked by one at a time, and not again within seconds, whoever asks here. All have the same time to
//! answer, each for itself: who is late, lost or hostile leaves out its own pods, or shows them as they were read last.
//! Only what the source's own pods need is kept.

mod books;
#[cfg(test)]
mod fuzz;
mod reading;
mod render;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::core::Request;
use pilotage_api::parent::{ClusterUid, selector_of_plain_sources, selector_of_source};
use pilotage_clusters::{Registry, Target, TargetKey, Watch};
use pilotage_runtime::call::{self, Failure};
use tokio::time::{Instant, timeout};

pub(crate) use self::render::{METRICS, SUMMARY, metrics, summary};

use self::books::{Books, Meter, PodUsage};
use self::reading::{List, Ours, Reading, readings};

/// How long a target is believed, what it said or that it didn't.
const FRESH: Duration = Duration::from_secs(5);
/// Limit for one question to a target.
const ASK_LIMIT: Duration = Duration::from_secs(4);
/// Limit for all that is asked of a target; who asks here waits for 10 s as a rule.
const LIMIT: Duration = Duration::from_secs(5);
/// The metrics API.
const METRICS_API: &str = "/apis/metrics.k8s.io/v1beta1";

/// What is known of the pods of one virtual node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) pods: Vec<PodUsage>,
    /// All of them together.
    pub(crate) node: Option<Meter>,
    /// Its target should have told of them, and didn't.
    pub(crate) failed: bool,
}

/// What comes of a question.
enum Outcome {
    Read(Vec<Reading>),
    /// It has nothing to tell, which is its operator's choice.
    Nothing(&'static str),
    Failed(String),
}

/// Knows what pods use.
pub(crate) struct Usage {
    cluster: ClusterUid,
    registry: Registry,
    proxies: Watch<Pod>,
    targets: Mutex<HashMap<TargetKey, Arc<Told>>>,
}

/// What one target has told.
#[derive(Default)]
struct Told {
    /// Held by who asks.
    turn: tokio::sync::Mutex<()>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    books: Books,
    /// When it was asked last.
    asked: Option<Instant>,
    failed: bool,
    /// Why there was nothing to be had, as it was logged last.
    logged: Option<String>,
}

impl Usage {
    pub(crate) fn new(cluster: ClusterUid, registry: Registry, proxies: Watch<Pod>) -> Self {
        Self {
            cluster,
            registry,
            proxies,
            targets: Mutex::default(),
        }
    }

    /// What the pods of these targets use.
    pub(crate) async fn of(&self, targets: &[Arc<Target>]) -> Vec<Report> {
        self.targets()
            .retain(|key, _| self.registry.get(key).is_some());
        let mut pods = self.pods(targets);
        let asked = targets.iter().map(|target| {
            let pods = pods.remove(target.node()).unwrap_or_default();
            self.of_target(target, pods)
        });
        let asked: Vec<_> = asked.collect();
        join_all(asked).await
    }

    /// The proxies of these targets, by node.
    fn pods(&self, targets: &[Arc<Target>]) -> HashMap<String, Vec<Arc<Pod>>> {
        let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let all = match targets {
            [target] => self
                .proxies
                .filter(|pod| node(pod).is_some_and(|node| node == target.node())),
            _ => self.proxies.list(),
        };
        let mut pods: HashMap<String, Vec<Arc<Pod>>> = HashMap::new();
        for pod in all {
            if let Some(node) = node(&pod) {
                pods.entry(node).or_default().push(pod);
            }
        }
        pods
    }

    async fn of_target(&self, target: &Target, pods: Vec<Arc<Pod>>) -> Report {
        let ours = Ours::of(pods, target.node(), target.key().namespace.as_deref());
        if ours.is_empty() {
            let failed = !self.proxies.is_synced();
            return Report {
                failed,
                ..Report::default()
            };
        }
        let told = self
            .targets()
            .entry(target.key().clone())
            .or_default()
            .clone();
        if timeout(LIMIT, self.ask(target, &ours, &told))
            .await
            .is_err()
        {
            let late = format!("it hasn't answered within {} s", LIMIT.as_secs());
            told.take(target, Outcome::Failed(late), &ours);
        }
        let known = told.known();
        let (pods, node) = known.books.told(&ours, Timestamp::now());
        let failed = known.failed;
        Report { pods, node, failed }
    }

    fn targets(&self) -> MutexGuard<'_, HashMap<TargetKey, Arc<Told>>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a target, unless somebody just has.
    async fn ask(&self, target: &Target, ours: &Ours, told: &Told) {
        let _turn = told.turn.lock().await;
        let asked = told.known().asked;
        if asked.is_some_and(|asked| asked.elapsed() < FRESH) {
            return;
        }
        let outcome = self.read(target, ours).await;
        told.take(target, outcome, ours);
    }

    async fn read(&self, target: &Target, ours: &Ours) -> Outcome {
        let client = target.client().filter(|_| target.is_connected());
        let Some(client) = client else {
            return Outcome::Failed("it isn't connected".to_owned());
        };
        let path = match &target.key().namespace {
            Some(namespace) => format!("{METRICS_API}/namespaces/{namespace}/pods"),
            None => format!("{METRICS_API}/pods"),
        };
        let mut selectors = vec![selector_of_source(&self.cluster)];
        if ours.has_unnamed() {
            selectors.push(selector_of_plain_sources());
        }
        let mut read = Vec::new();
        for selector in selectors {
            let params = ListParams::default().labels(&selector);
            let list = async {
                let request = Request::new(path.clone()).list(&params);
                let request = request.map_err(kube::Error::BuildRequest)?;
                client.request::<List>(request).await
            };
            match call::within(ASK_LIMIT, list).await {
                Ok(list) => read.extend(readings(list, ours)),
                Err(error) => match error.kind() {
                    Failure::NotFound => {
                        return Outcome::Nothing("it has no metrics.k8s.io/v1beta1");
                    }
                    Failure::Forbidden => {
                        return Outcome::Nothing("it doesn't give the right Metrics");
                    }
                    _ => return Outcome::Failed(error.message()),
                },
            }
        }
        Outcome::Read(read)
    }
}

impl Told {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, target: &Target, outcome: Outcome, ours: &Ours) {
        let mut known = self.known();
        known.asked = Some(Instant::now());
        known.failed = matches!(outcome, Outcome::Failed(_));
        let why = match outcome {
            Outcome::Read(readings) => {
                known.books.take(readings, ours, Timestamp::now());
                None
            }
            Outcome::Nothing(why) => {
                // It may have told something before; that isn't true any more.
                known.books = Books::default();
                Some(why.to_owned())
            }
            Outcome::Failed(why) => Some(why),
        };
        // Once for each reason: it is asked several times a minute.
        if let Some(why) = &why
            && known.logged.as_ref() != Some(why)
        {
            let target = target.key();
            tracing::warn!(%target, why, "what pods use in a target isn't known");
        }
        known.logged = why.or(known.logged.take());
    }
}
