//! Draws what happens: pods come one after the other, and between them nodes change, come and go, pods end, get other
//! labels, are resized or nominated, and come again, and Services and controllers select other pods.

use serde_json::{Value, json};

use super::swarm::Swarm;
use super::{amounts, companions, nodes, pods, preemption, running, spread};
use crate::case::Step;
use crate::draw::Draw;
use crate::object;

/// What was drawn so far.
pub(super) struct History {
    nodes: Vec<Value>,
    // On nodes by now, or perhaps, since nobody knows yet whether they fit.
    pods: Vec<Value>,
    gone: Vec<Value>,
    // As they came first.
    asked: Vec<Value>,
    // Namespaces, budgets, and what pods are spread by.
    others: Vec<Value>,
    named: usize,
    steps: Vec<Step>,
}

impl History {
    pub(super) fn new(nodes: Vec<Value>, pods: Vec<Value>, objects: &[Value]) -> Self {
        let is_other = |object: &&Value| !["Node", "Pod"].contains(&object::kind(object));
        Self {
            nodes,
            pods,
            gone: Vec::new(),
            asked: Vec::new(),
            others: objects.iter().filter(is_other).cloned().collect(),
            named: 0,
            steps: Vec::new(),
        }
    }

    /// All of it.
    pub(super) fn steps(mut self, draw: &mut Draw, swarm: &Swarm) -> Vec<Step> {
        let count = draw.within(10, 40);
        let mut last: Option<Value> = None;
        for _ in 0..count {
            while draw.percent(swarm.events) {
                self.event(draw, swarm);
            }
            // Pods of one kind come in a row.
            let pod = match &last {
                Some(last) if draw.percent(30) => self.twin(draw, swarm, last),
                _ => self.pod(draw, swarm),
            };
            self.ask(draw, swarm, &pod);
            last = Some(pod);
            if draw.percent(swarm.again) && !self.asked.is_empty() {
                // If it has a node by then, that is nothing.
                let pod = draw.one(&self.asked).clone();
                self.steps.push(Step::Schedule(pod));
            }
        }
        self.steps
    }

    fn name(&mut self) -> String {
        self.named += 1;
        format!("p{}", self.named)
    }

    fn pod(&mut self, draw: &mut Draw, swarm: &Swarm) -> Value {
        let name = self.name();
        let mut pod = pods::pod(draw, swarm, &name);
        if draw.percent(swarm.gates) {
            pod["spec"]["schedulingGates"] = json!([{"name": "example.com/gate"}]);
        }
        pod
    }

    fn twin(&mut self, draw: &mut Draw, swarm: &Swarm, of: &Value) -> Value {
        let name = self.name();
        let mut pod = of.clone();
        preemption::start(draw, swarm, &mut pod);
        pod["metadata"]["uid"] = format!("pod-{name}").into();
        pod["metadata"]["name"] = name.into();
        pod
    }

    fn ask(&mut self, draw: &mut Draw, swarm: &Swarm, pod: &Value) {
        if draw.percent(swarm.named) {
            let mut pod = pod.clone();
            pod["spec"]["nodeName"] = format!("n{}", draw.below(self.nodes.len() + 1)).into();
            self.steps.push(Step::Ask(pod));
            return;
        }
        if draw.percent(swarm.nominations) {
            self.nominate(draw, swarm);
        }
        self.steps.push(Step::Schedule(pod.clone()));
        self.pods.push(pod.clone());
        self.asked.push(pod.clone());
    }

    /// Nominates a pod, whose turn may come later, or never.
    fn nominate(&mut self, draw: &mut Draw, swarm: &Swarm) {
        let pod = self.pod(draw, swarm);
        let node = format!("n{}", draw.below(self.nodes.len() + 1));
        let nomination = Step::Nominate {
            pod: pod.clone(),
            node,
        };
        self.steps.push(nomination);
        if draw.percent(50) {
            self.pods.push(pod);
        } else {
            let other = self.pod(draw, swarm);
            self.steps.push(Step::Schedule(other.clone()));
            self.pods.push(other);
            self.steps.push(Step::Schedule(pod.clone()));
            self.pods.push(pod);
        }
    }

    fn event(&mut self, draw: &mut Draw, swarm: &Swarm) {
        match draw.below(10) {
            0 | 1 => self.other_event(draw),
            2..=4 => self.node_event(draw, swarm),
            _ => self.pod_event(draw, swarm),
        }
    }

    /// Something else comes, changes or goes.
    fn other_event(&mut self, draw: &mut Draw) {
        if self.others.is_empty() {
            return;
        }
        let at = draw.below(self.others.len());
        let other = &mut self.others[at];
        let name = object::name(other).to_owned();
        match object::kind(other) {
            _ if draw.percent(30) => return self.steps.push(Step::Delete(other.clone())),
            "Namespace" => *other = companions::namespace(draw, &name),
            "PodDisruptionBudget" => {
                let number = name.trim_start_matches('b').parse().unwrap_or(0);
                *other = preemption::budget(draw, number);
            }
            "Service" | "ReplicationController" if draw.percent(80) => {
                spread::reselect(draw, other);
            }
            "ReplicaSet" | "StatefulSet" if draw.percent(80) => {
                // The selector of one that is there can't be changed.
                self.steps.push(Step::Delete(other.clone()));
                spread::reselect(draw, other);
            }
            // It comes again, if it had gone.
            _ => {}
        }
        self.steps.push(Step::Apply(other.clone()));
    }

    fn node_event(&mut self, draw: &mut Draw, swarm: &Swarm) {
        let chance = draw.below(10);
        if chance == 0 && !self.gone.is_empty() {
            let at = draw.below(self.gone.len());
            let node = self.gone.swap_remove(at);
            self.nodes.push(node.clone());
            self.steps.push(Step::Apply(node));
            return;
        }
        if chance == 1 {
            let number = self.nodes.len() + self.gone.len();
            let node = nodes::node(draw, swarm, number);
            self.nodes.push(node.clone());
            self.steps.push(Step::Apply(node));
            return;
        }
        if self.nodes.is_empty() {
            return;
        }
        let at = draw.below(self.nodes.len());
        if chance == 2 {
            let node = self.nodes.swap_remove(at);
            self.steps.push(Step::Delete(node.clone()));
            self.gone.push(node);
            return;
        }
        let node = &mut self.nodes[at];
        match chance {
            3 | 4 => {
                let name = object::name(node).to_owned();
                node["metadata"]["labels"] = nodes::labels(draw, &name).into();
            }
            5 => nodes::taint(draw, swarm, node),
            6 => nodes::unschedulable(draw, swarm, node),
            7 => nodes::images(draw, swarm, node),
            8 => nodes::features(draw, swarm, node),
            _ => node["status"]["allocatable"] = amounts::allocatable(draw, swarm).into(),
        }
        self.steps.push(Step::Apply(node.clone()));
    }

    fn pod_event(&mut self, draw: &mut Draw, swarm: &Swarm) {
        if self.pods.is_empty() {
            return;
        }
        let at = draw.below(self.pods.len());
        match draw.below(10) {
            0 | 1 => {
                let pod = self.pods.swap_remove(at);
                self.steps.push(Step::Delete(pod));
            }
            2 => {
                let pod = self.pods.swap_remove(at);
                self.steps.push(Step::Finish(pod));
            }
            3 => {
                let pod = &mut self.pods[at];
                running::terminate(draw, pod);
                self.steps.push(Step::Apply(pod.clone()));
            }
            5 | 6 => {
                let pod = &mut self.pods[at];
                pods::relabel(draw, pod);
                self.steps.push(Step::Apply(pod.clone()));
            }
            // A watch shows it as it is.
            4 => self.steps.push(Step::Apply(self.pods[at].clone())),
            _ => {
                let pod = &mut self.pods[at];
                running::resize(draw, swarm, pod);
                self.steps.push(Step::Apply(pod.clone()));
            }
        }
    }
}
