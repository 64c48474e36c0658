//! Owns builders of pods and nodes for this crate's tests.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Container, ContainerImage, ContainerPort, Namespace, Node, NodeAffinity, NodeCondition,
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, NodeSpec, NodeStatus, Pod,
    PodAffinityTerm, PodCondition, PodSchedulingGate, PodSpec, PodStatus, PreferredSchedulingTerm,
    ResourceRequirements, Taint, Toleration, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, Time};

use crate::context::{Context, Surroundings};
use crate::disruption::{DISRUPTION_TARGET, PREEMPTION_BY_SCHEDULER};
use crate::names::PodUid;
use crate::node_object::NodeObject;
use crate::nominator::Nominator;
use crate::objects::{Object, Objects};
use crate::plugins::stock_profile;
use crate::pod_info::PodInfo;
use crate::table::{NodeInfo, NodeTable};
use crate::waiting::WaitingPods;

fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// A container with requests.
pub(crate) fn container(name: &str, requests: &[(&str, &str)]) -> Container {
    let requests = requests
        .iter()
        .map(|(k, v)| ((*k).to_owned(), Quantity((*v).to_owned())));
    Container {
        name: name.into(),
        resources: Some(ResourceRequirements {
            requests: Some(requests.collect()),
            ..ResourceRequirements::default()
        }),
        ..Container::default()
    }
}

/// One requirement of a node selector.
pub(crate) fn requirement(key: &str, operator: &str, values: &[&str]) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: key.into(),
        operator: operator.into(),
        values: (!values.is_empty()).then(|| values.iter().map(|v| (*v).to_owned()).collect()),
    }
}

/// A term of a node selector.
pub(crate) fn term(
    labels: &[NodeSelectorRequirement],
    fields: &[NodeSelectorRequirement],
) -> NodeSelectorTerm {
    let some = |list: &[NodeSelectorRequirement]| (!list.is_empty()).then(|| list.to_vec());
    NodeSelectorTerm {
        match_expressions: some(labels),
        match_fields: some(fields),
    }
}

/// A selector of these labels.
pub(crate) fn selecting(pairs: &[(&str, &str)]) -> LabelSelector {
    let pairs = pairs.iter();
    LabelSelector {
        match_labels: Some(pairs.map(|(k, v)| ((*k).into(), (*v).into())).collect()),
        match_expressions: None,
    }
}

/// An inter-pod term: pods of the own namespace with these labels.
pub(crate) fn pods_with(topology_key: &str, labels: &[(&str, &str)]) -> PodAffinityTerm {
    PodAffinityTerm {
        topology_key: topology_key.to_owned(),
        label_selector: Some(selecting(labels)),
        ..PodAffinityTerm::default()
    }
}

/// A namespace with these labels.
pub(crate) fn namespace(name: &str, labels: &[(&str, &str)]) -> Object {
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    namespace.metadata.labels = selecting(labels).match_labels;
    Object::Namespace(Arc::new(namespace))
}

/// A pod `default/NAME` with UID `uid-NAME` and one container without requests.
pub(crate) fn pod(name: &str) -> PodBuilder {
    let meta = ObjectMeta {
        name: Some(name.into()),
        namespace: Some("default".into()),
        uid: Some(format!("uid-{name}")),
        ..ObjectMeta::default()
    };
    let spec = PodSpec {
        containers: vec![container("main", &[])],
        scheduler_name: Some("test".into()),
        ..PodSpec::default()
    };
    PodBuilder(Box::new(Pod {
        metadata: meta,
        spec: Some(spec),
        status: Some(PodStatus::default()),
    }))
}

pub(crate) struct PodBuilder(Box<Pod>);

impl PodBuilder {
    fn spec(mut self, change: impl FnOnce(&mut PodSpec)) -> Self {
        change(self.0.spec.get_or_insert_default());
        self
    }

    fn status(mut self, change: impl FnOnce(&mut PodStatus)) -> Self {
        change(self.0.status.get_or_insert_default());
        self
    }

    pub(crate) fn edit(mut self, change: impl FnOnce(&mut Pod)) -> Self {
        change(&mut self.0);
        self
    }

    pub(crate) fn uid(mut self, uid: &str) -> Self {
        self.0.metadata.uid = Some(uid.into());
        self
    }

    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.0
            .metadata
            .labels
            .get_or_insert_default()
            .insert(key.into(), value.into());
        self
    }

    pub(crate) fn annotation(mut self, key: &str, value: &str) -> Self {
        self.0
            .metadata
            .annotations
            .get_or_insert_default()
            .insert(key.into(), value.into());
        self
    }

    pub(crate) fn deleting(mut self) -> Self {
        self.0.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        self
    }

    pub(crate) fn scheduler(self, name: &str) -> Self {
        self.spec(|spec| spec.scheduler_name = Some(name.into()))
    }

    pub(crate) fn on(self, node: &str) -> Self {
        self.spec(|spec| spec.node_name = Some(node.into()))
    }

    pub(crate) fn priority(self, priority: i32) -> Self {
        self.spec(|spec| spec.priority = Some(priority))
    }

    /// Of the first container.
    pub(crate) fn request(self, name: &str, amount: &str) -> Self {
        self.spec(|spec| {
            let resources = spec.containers[0].resources.get_or_insert_default();
            let requests = resources.requests.get_or_insert_default();
            requests.insert(name.into(), Quantity(amount.into()));
        })
    }

    /// Of the first container.
    pub(crate) fn host_port(self, ip: &str, protocol: &str, number: i32) -> Self {
        self.spec(|spec| {
            let ports = spec.containers[0].ports.get_or_insert_default();
            ports.push(ContainerPort {
                container_port: 1,
                host_port: Some(number),
                host_ip: text(ip),
                protocol: text(protocol),
                ..ContainerPort::default()
            });
        })
    }

    pub(crate) fn node_selector(self, key: &str, value: &str) -> Self {
        self.spec(|spec| {
            spec.node_selector
                .get_or_insert_default()
                .insert(key.into(), value.into());
        })
    }

    fn node_affinity(self, change: impl FnOnce(&mut NodeAffinity)) -> Self {
        self.spec(|spec| {
            let affinity = spec.affinity.get_or_insert_default();
            change(affinity.node_affinity.get_or_insert_default());
        })
    }

    pub(crate) fn required_nodes(self, terms: &[NodeSelectorTerm]) -> Self {
        self.node_affinity(|affinity| {
            affinity.required_during_scheduling_ignored_during_execution = Some(NodeSelector {
                node_selector_terms: terms.to_vec(),
            });
        })
    }

    pub(crate) fn preferred_node(self, weight: i32, preference: NodeSelectorTerm) -> Self {
        self.node_affinity(|affinity| {
            affinity
                .preferred_during_scheduling_ignored_during_execution
                .get_or_insert_default()
                .push(PreferredSchedulingTerm { weight, preference });
        })
    }

    /// Required, against pods of its own namespace.
    pub(crate) fn anti_affinity(self, topology_key: &str, against: LabelSelector) -> Self {
        self.away_from(PodAffinityTerm {
            topology_key: topology_key.to_owned(),
            label_selector: Some(against),
            ..PodAffinityTerm::default()
        })
    }

    /// Requires to be near others.
    pub(crate) fn near(self, term: PodAffinityTerm) -> Self {
        self.spec(|spec| {
            let affinity = spec.affinity.get_or_insert_default();
            let near = affinity.pod_affinity.get_or_insert_default();
            let terms = &mut near.required_during_scheduling_ignored_during_execution;
            terms.get_or_insert_default().push(term);
        })
    }

    /// Requires to be away from others.
    pub(crate) fn away_from(self, term: PodAffinityTerm) -> Self {
        self.spec(|spec| {
            let affinity = spec.affinity.get_or_insert_default();
            let away = affinity.pod_anti_affinity.get_or_insert_default();
            let terms = &mut away.required_during_scheduling_ignored_during_execution;
            terms.get_or_insert_default().push(term);
        })
    }

    /// Prefers to be near others, or away from them if the weight is negative.
    pub(crate) fn prefers(self, weight: i32, term: PodAffinityTerm) -> Self {
        let weighted = WeightedPodAffinityTerm {
            weight: weight.abs(),
            pod_affinity_term: term,
        };
        self.spec(|spec| {
            let affinity = spec.affinity.get_or_insert_default();
            let terms = if weight < 0 {
                let away = affinity.pod_anti_affinity.get_or_insert_default();
                &mut away.preferred_during_scheduling_ignored_during_execution
            } else {
                let near = affinity.pod_affinity.get_or_insert_default();
                &mut near.preferred_during_scheduling_ignored_during_execution
            };
            terms.get_or_insert_default().push(weighted);
        })
    }

    pub(crate) fn namespace(self, name: &str) -> Self {
        self.edit(|pod| pod.metadata.namespace = Some(name.to_owned()))
    }

    pub(crate) fn tolerate(self, key: &str, operator: &str, value: &str, effect: &str) -> Self {
        self.spec(|spec| {
            spec.tolerations.get_or_insert_default().push(Toleration {
                key: text(key),
                operator: text(operator),
                value: text(value),
                effect: text(effect),
                toleration_seconds: None,
            });
        })
    }

    pub(crate) fn gate(self, name: &str) -> Self {
        self.spec(|spec| {
            let gates = spec.scheduling_gates.get_or_insert_default();
            gates.push(PodSchedulingGate { name: name.into() });
        })
    }

    pub(crate) fn nominated(self, node: &str) -> Self {
        self.status(|status| status.nominated_node_name = Some(node.into()))
    }

    pub(crate) fn phase(self, phase: &str) -> Self {
        self.status(|status| status.phase = Some(phase.into()))
    }

    pub(crate) fn condition(self, condition: PodCondition) -> Self {
        self.status(|status| status.conditions.get_or_insert_default().push(condition))
    }

    /// At this second since 1970.
    pub(crate) fn started(self, second: i64) -> Self {
        let time = jiff::Timestamp::from_second(second).unwrap();
        self.status(|status| status.start_time = Some(Time(time)))
    }

    /// It may take so many seconds to end.
    pub(crate) fn grace(self, seconds: i64) -> Self {
        self.spec(|spec| spec.termination_grace_period_seconds = Some(seconds))
    }

    pub(crate) fn never_preempts(self) -> Self {
        self.spec(|spec| spec.preemption_policy = Some("Never".to_owned()))
    }

    /// Being deleted, since a scheduler needed its room.
    pub(crate) fn preempted(self) -> Self {
        let condition = PodCondition {
            type_: DISRUPTION_TARGET.to_owned(),
            status: "True".to_owned(),
            reason: Some(PREEMPTION_BY_SCHEDULER.to_owned()),
            ..PodCondition::default()
        };
        self.deleting().condition(condition)
    }

    pub(crate) fn object(self) -> Arc<Pod> {
        Arc::from(self.0)
    }

    pub(crate) fn info(self) -> Arc<PodInfo> {
        Arc::new(PodInfo::parse(self.object()).unwrap())
    }
}

/// The UID that [`pod`] gives.
pub(crate) fn uid(name: &str) -> PodUid {
    PodUid::from(format!("uid-{name}"))
}

/// A node with room for 110 pods and nothing else.
pub(crate) fn node(name: &str) -> NodeBuilder {
    let node = Node {
        metadata: ObjectMeta {
            name: Some(name.into()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec::default()),
        status: Some(NodeStatus::default()),
    };
    NodeBuilder(Box::new(node)).allocatable("pods", "110")
}

pub(crate) struct NodeBuilder(Box<Node>);

impl NodeBuilder {
    pub(crate) fn allocatable(mut self, name: &str, amount: &str) -> Self {
        let status = self.0.status.get_or_insert_default();
        let allocatable = status.allocatable.get_or_insert_default();
        allocatable.insert(name.into(), Quantity(amount.into()));
        self
    }

    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.0
            .metadata
            .labels
            .get_or_insert_default()
            .insert(key.into(), value.into());
        self
    }

    pub(crate) fn annotation(mut self, key: &str, value: &str) -> Self {
        self.0
            .metadata
            .annotations
            .get_or_insert_default()
            .insert(key.into(), value.into());
        self
    }

    pub(crate) fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        let taint = Taint {
            key: key.into(),
            value: text(value),
            effect: effect.into(),
            time_added: None,
        };
        self.0
            .spec
            .get_or_insert_default()
            .taints
            .get_or_insert_default()
            .push(taint);
        self
    }

    pub(crate) fn declares(mut self, feature: &str) -> Self {
        let status = self.0.status.get_or_insert_default();
        let features = status.declared_features.get_or_insert_default();
        features.push(feature.to_owned());
        self
    }

    pub(crate) fn image(mut self, name: &str, size: i64) -> Self {
        let status = self.0.status.get_or_insert_default();
        status.images.get_or_insert_default().push(ContainerImage {
            names: Some(vec![name.to_owned()]),
            size_bytes: Some(size),
        });
        self
    }

    pub(crate) fn unschedulable(mut self) -> Self {
        self.0.spec.get_or_insert_default().unschedulable = Some(true);
        self
    }

    pub(crate) fn condition(mut self, type_: &str, status: &str) -> Self {
        let condition = NodeCondition {
            type_: type_.into(),
            status: status.into(),
            ..NodeCondition::default()
        };
        let known = self
            .0
            .status
            .get_or_insert_default()
            .conditions
            .get_or_insert_default();
        known.push(condition);
        self
    }

    pub(crate) fn build(self) -> Arc<Node> {
        Arc::from(self.0)
    }

    pub(crate) fn object(self) -> Arc<NodeObject> {
        Arc::new(NodeObject::parse(&self.build()).unwrap())
    }

    pub(crate) fn info(self) -> NodeInfo {
        NodeInfo::new(self.object())
    }

    pub(crate) fn with(self, pods: Vec<PodBuilder>) -> NodeInfo {
        let mut info = self.info();
        for pod in pods {
            info.add_pod(pod.info());
        }
        info
    }
}

/// A binder that fails.
pub(crate) struct NeverBinds;

impl crate::plugins::Binder for NeverBinds {
    fn bind<'a>(
        &'a self,
        _pod: &'a PodInfo,
        _node: &'a crate::names::NodeName,
    ) -> futures::future::BoxFuture<'a, Result<(), Box<dyn std::error::Error + Send + Sync>>> {
        Box::pin(async { Err("nothing is bound here".into()) })
    }
}

/// Surroundings of a cycle in which nobody waits and nothing is nominated, unless the test says so.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    pub(crate) nominator: Nominator,
    pub(crate) waiting: WaitingPods,
    pub(crate) objects: Objects,
}

impl Quiet {
    pub(crate) const fn around(&self) -> Surroundings<'_> {
        Surroundings {
            nominator: &self.nominator,
            waiting: &self.waiting,
            objects: &self.objects,
        }
    }
}

/// Asks a plugin in a cycle over no nodes.
pub(crate) fn with_context<T>(ask: impl FnOnce(&Context<'_>) -> T) -> T {
    over(&NodeTable::default(), ask)
}

/// Asks a plugin in a cycle over these nodes.
pub(crate) fn over<T>(nodes: &NodeTable, ask: impl FnOnce(&Context<'_>) -> T) -> T {
    let profile = stock_profile("test", Arc::new(NeverBinds)).build().unwrap();
    let quiet = Quiet::default();
    ask(&Context::new(&profile, nodes, quiet.around()))
}
