//! Owns a plugin for this crate's tests that says at each point what the test tells it, and logs its calls.

use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;

use crate::context::{Context, Cycle};
use crate::cycle::NodeStatuses;
use crate::event::{Event, EventKind, Hint};
use crate::names::NodeName;
use crate::plugin::{
    Bind, Bound, EnqueueExtensions, Filter, HintReads, Nomination, Permit, PermitDecision, Plugin,
    PostBind, PostFilter, PostFiltered, PreBind, PreEnqueue, PreFilter, PreFilterExtensions,
    PreFiltered, Preflight, Reserve, Score,
};
use crate::plugins::PrioritySort;
use crate::pod_info::PodInfo;
use crate::profile::ProfileBuilder;
use crate::state::CycleState;
use crate::status::{PluginName, Status, Verdict};
use crate::table::{NodeView, Reads};

/// Calls of all fakes of a test, in order.
pub(crate) type Log = Arc<Mutex<Vec<String>>>;

type OfPod<T> = Box<dyn Fn(&PodInfo) -> Verdict<T> + Send + Sync>;
type OfNode<T> = Box<dyn Fn(&PodInfo, NodeView<'_>) -> Verdict<T> + Send + Sync>;
type OfState<T> = Box<dyn Fn(&CycleState, &PodInfo) -> Verdict<T> + Send + Sync>;

pub(crate) struct Fake {
    name: PluginName,
    log: Log,
    pub(crate) events: Vec<EventKind>,
    pub(crate) hint: Hint,
    pub(crate) hint_reads: HintReads,
    pub(crate) pre_enqueue: OfPod<()>,
    pub(crate) pre_filter: OfPod<PreFiltered>,
    pub(crate) filter: OfNode<()>,
    pub(crate) post_filter: Box<dyn Fn(&NodeStatuses) -> PostFiltered + Send + Sync>,
    pub(crate) score: OfNode<i64>,
    pub(crate) reserve: OfState<()>,
    pub(crate) permit: OfState<PermitDecision>,
    pub(crate) preflight: Verdict<Preflight>,
    pub(crate) bind: OfPod<Bound>,
    pub(crate) follows: bool,
    pub(crate) reads: Reads,
}

impl Fake {
    /// A plugin that agrees with everything.
    pub(crate) fn new(name: PluginName) -> Self {
        Self {
            name,
            log: Log::default(),
            events: Vec::new(),
            hint: Hint::Queue,
            hint_reads: HintReads::Pod,
            pre_enqueue: Box::new(|_| Ok(())),
            pre_filter: Box::new(|_| Ok(PreFiltered::AllNodes)),
            filter: Box::new(|_, _| Ok(())),
            post_filter: Box::new(|_| {
                PostFiltered::no_help(Nomination::Keep, Status::unschedulable("no help"))
            }),
            score: Box::new(|_, _| Ok(0)),
            reserve: Box::new(|_, _| Ok(())),
            permit: Box::new(|_, _| Ok(PermitDecision::Allow)),
            preflight: Ok(Preflight::Act { parallel: false }),
            bind: Box::new(|_| Ok(Bound::Done)),
            follows: false,
            reads: Reads::ANYTHING,
        }
    }

    pub(crate) fn set(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(crate) fn log(mut self, log: &Log) -> Self {
        self.log = log.clone();
        self
    }

    fn note(&self, what: &str) {
        self.log
            .lock()
            .unwrap()
            .push(format!("{} {what}", self.name));
    }
}

pub(crate) fn taken(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock().unwrap())
}

/// A profile `test` that sorts by priority, and binds with a fake `Binder`.
pub(crate) fn profile() -> ProfileBuilder {
    ProfileBuilder::new("test")
        .queue_sort(Arc::new(PrioritySort))
        .bind(Arc::new(Fake::new("Binder")))
}

impl Plugin for Fake {
    fn name(&self) -> PluginName {
        self.name
    }
}

impl EnqueueExtensions for Fake {
    fn events(&self) -> Vec<EventKind> {
        self.events.clone()
    }

    fn hint(&self, _pod: &PodInfo, _event: &Event) -> Hint {
        self.hint
    }

    fn hint_reads(&self) -> HintReads {
        self.hint_reads
    }
}

impl PreEnqueue for Fake {
    fn pre_enqueue(&self, pod: &PodInfo) -> Verdict {
        self.note("pre_enqueue");
        (self.pre_enqueue)(pod)
    }
}

impl PreFilter for Fake {
    fn pre_filter(
        &self,
        _: &Context<'_>,
        _: &mut CycleState,
        pod: &PodInfo,
    ) -> Verdict<PreFiltered> {
        (self.pre_filter)(pod)
    }

    fn extensions(&self) -> Option<&dyn PreFilterExtensions> {
        self.follows.then_some(self)
    }
}

impl PreFilterExtensions for Fake {
    fn add_pod(
        &self,
        _: &mut CycleState,
        _: &PodInfo,
        other: &PodInfo,
        node: NodeView<'_>,
    ) -> Verdict {
        self.note(&format!("add {} to {}", other.key.name, node.name()));
        Ok(())
    }

    fn remove_pod(
        &self,
        _: &mut CycleState,
        _: &PodInfo,
        other: &PodInfo,
        node: NodeView<'_>,
    ) -> Verdict {
        self.note(&format!("remove {} from {}", other.key.name, node.name()));
        Ok(())
    }
}

impl Filter for Fake {
    fn filter(&self, _: &CycleState, pod: &PodInfo, node: NodeView<'_>) -> Verdict {
        self.note(&format!(
            "filter {} with {}",
            node.name(),
            node.pods().len()
        ));
        (self.filter)(pod, node)
    }

    fn reads(&self) -> Reads {
        self.reads
    }
}

impl PostFilter for Fake {
    fn post_filter(
        &self,
        _: &mut Cycle<'_>,
        _: &mut CycleState,
        _: &PodInfo,
        statuses: &NodeStatuses,
    ) -> PostFiltered {
        self.note("post_filter");
        (self.post_filter)(statuses)
    }
}

impl Score for Fake {
    fn score(&self, _: &CycleState, pod: &PodInfo, node: NodeView<'_>) -> Verdict<i64> {
        self.note(&format!("score {}", node.name()));
        (self.score)(pod, node)
    }
}

impl Reserve for Fake {
    fn reserve(
        &self,
        _: &Context<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        _: &NodeName,
    ) -> Verdict {
        self.note("reserve");
        (self.reserve)(state, pod)
    }

    fn unreserve(&self, _: &mut CycleState, _: &PodInfo, _: &NodeName) {
        self.note("unreserve");
    }
}

impl Permit for Fake {
    fn permit(
        &self,
        _: &Context<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        _: &NodeName,
    ) -> Verdict<PermitDecision> {
        self.note("permit");
        (self.permit)(state, pod)
    }
}

impl PreBind for Fake {
    fn preflight(&self, _: &CycleState, _: &PodInfo, _: &NodeName) -> Verdict<Preflight> {
        self.preflight.clone()
    }

    fn pre_bind<'a>(
        &'a self,
        _: &'a CycleState,
        _: &'a PodInfo,
        _: &'a NodeName,
    ) -> BoxFuture<'a, Verdict> {
        Box::pin(async {
            self.note("pre_bind begins");
            // Neighbours that run together get their turn here.
            yield_once().await;
            self.note("pre_bind ends");
            Ok(())
        })
    }
}

async fn yield_once() {
    let mut first = true;
    std::future::poll_fn(|cx| {
        if std::mem::take(&mut first) {
            cx.waker().wake_by_ref();
            std::task::Poll::Pending
        } else {
            std::task::Poll::Ready(())
        }
    })
    .await;
}

impl Bind for Fake {
    fn bind<'a>(
        &'a self,
        _: &'a CycleState,
        pod: &'a PodInfo,
        node: &'a NodeName,
    ) -> BoxFuture<'a, Verdict<Bound>> {
        self.note(&format!("bind {} to {node}", pod.key.name));
        Box::pin(async { (self.bind)(pod) })
    }
}

impl PostBind for Fake {
    fn post_bind(&self, _: &CycleState, _: &PodInfo, _: &NodeName) {
        self.note("post_bind");
    }
}

/// Polls a future that never waits for anything outside until it is ready.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            return value;
        }
    }
}
