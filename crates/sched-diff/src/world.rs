//! What there is while a case is played: nodes, pods on nodes, nominations. Says what a later step means by then.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::configuration::Configuration;
use crate::object;
use crate::ports::{LostPorts, Port};

/// The state of a cluster.
#[derive(Clone, Debug, Default)]
pub struct World {
    configuration: Configuration,
    nodes: BTreeMap<String, Value>,
    pods: BTreeMap<String, Value>,
    // On a node by our word alone: no watch has shown it.
    assumed: BTreeSet<String>,
    nominated: BTreeMap<String, (Value, String)>,
    // By kind, namespace and name.
    others: BTreeMap<String, Value>,
    lost: LostPorts,
}

impl World {
    /// A world with these objects.
    pub fn new(configuration: &Configuration, objects: &[Value]) -> Self {
        let mut world = Self {
            configuration: configuration.clone(),
            ..Self::default()
        };
        for object in objects {
            world.apply(object);
        }
        world
    }

    /// The profile.
    pub const fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// The nodes by name.
    pub const fn nodes(&self) -> &BTreeMap<String, Value> {
        &self.nodes
    }

    /// The pods on nodes by namespace and name.
    pub const fn pods(&self) -> &BTreeMap<String, Value> {
        &self.pods
    }

    /// Whether the pod has a node that no watch has shown yet.
    pub fn is_assumed(&self, pod: &Value) -> bool {
        self.assumed.contains(&object::key(pod))
    }

    /// Whether kube-scheduler takes a port of the node for free although a pod there has it.
    pub fn is_lost(&self, node: &str, port: &Port) -> bool {
        self.lost.has(node, port)
    }

    /// The node that a pod is nominated for.
    pub fn nomination(&self, pod: &Value) -> Option<&str> {
        let (_, node) = self.nominated.get(&object::key(pod))?;
        Some(node)
    }

    /// The pods that are nominated, with their nodes.
    pub fn nominations(&self) -> impl Iterator<Item = (&Value, &str)> {
        let nominated = self.nominated.values();
        nominated.map(|(pod, node)| (pod, node.as_str()))
    }

    /// All objects, as for a new world. Pods on nodes are as a watch would show them.
    pub fn objects(&self) -> Vec<Value> {
        let nodes = self.nodes.values().chain(self.pods.values());
        self.others.values().chain(nodes).cloned().collect()
    }

    /// The object as it has to be applied now: a pod with its node. `None` if it is a pod without one.
    pub fn current(&self, object: &Value) -> Option<Value> {
        if object::kind(object) != "Pod" || object::node_of(object).is_some() {
            return Some(object.clone());
        }
        let known = self.pods.get(&object::key(object))?;
        Some(object::on_node(object, object::node_of(known)?))
    }

    /// Takes in an object that was created or changed.
    pub fn apply(&mut self, object: &Value) {
        match object::kind(object) {
            "Node" => {
                let name = object::name(object).to_owned();
                self.nodes.insert(name, object.clone());
            }
            "Pod" => {
                let key = object::key(object);
                self.nominated.remove(&key);
                self.assumed.remove(&key);
                // kube-scheduler, too, takes the pod off its node and puts it there anew.
                self.leave(&key);
                self.lost.came(object);
                self.pods.insert(key, object.clone());
            }
            kind => {
                let key = format!("{kind} {}", object::key(object));
                self.others.insert(key, object.clone());
            }
        }
    }

    /// Takes the pod off its node, if it has one.
    fn leave(&mut self, key: &str) {
        if let Some(pod) = self.pods.remove(key) {
            self.lost.went(&pod, self.pods.values());
        }
    }

    /// A pod was placed.
    pub fn assume(&mut self, pod: &Value, node: &str) {
        self.apply(&object::on_node(pod, node));
        self.assumed.insert(object::key(pod));
    }

    /// A pod was nominated.
    pub fn nominate(&mut self, pod: &Value, node: &str) {
        let nomination = (pod.clone(), node.to_owned());
        self.nominated.insert(object::key(pod), nomination);
    }

    /// Forgets an object.
    pub fn delete(&mut self, object: &Value) {
        match object::kind(object) {
            "Node" => {
                self.nodes.remove(object::name(object));
            }
            "Pod" => {
                let key = object::key(object);
                self.nominated.remove(&key);
                self.assumed.remove(&key);
                self.leave(&key);
            }
            kind => {
                self.others
                    .remove(&format!("{kind} {}", object::key(object)));
            }
        }
    }

    /// The objects of a kind other than nodes and pods.
    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        let others = self.others.values();
        others.filter(move |object| object::kind(object) == kind)
    }

    /// Whether there is such an object; of pods, one on a node or a nominated one.
    pub fn has(&self, object: &Value) -> bool {
        match object::kind(object) {
            "Node" => self.nodes.contains_key(object::name(object)),
            "Pod" => {
                let key = object::key(object);
                self.pods.contains_key(&key) || self.nominated.contains_key(&key)
            }
            kind => {
                let key = format!("{kind} {}", object::key(object));
                self.others.contains_key(&key)
            }
        }
    }
}
