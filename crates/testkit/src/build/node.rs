//! Nodes.

use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSpec, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::Value;

use super::{Meta, Quantities, json, metadata_setters};

/// Builds a node.
#[derive(Debug, Clone)]
pub struct NodeBuilder {
    meta: Meta,
    spec: NodeSpec,
    capacity: Quantities,
    allocatable: Quantities,
    ready: Option<bool>,
}

/// A node of 4 CPUs, 16 GiB and 110 pods, with the labels that a kubelet gives itself.
pub fn node(name: &str) -> NodeBuilder {
    let builder = NodeBuilder {
        meta: Meta::named(name),
        spec: NodeSpec::default(),
        capacity: Quantities::new(),
        allocatable: Quantities::new(),
        ready: None,
    };
    builder
        .label("kubernetes.io/hostname", name)
        .label("kubernetes.io/os", "linux")
        .label("kubernetes.io/arch", "amd64")
        .cpu("4")
        .memory("16Gi")
        .pods(110)
        .resource("ephemeral-storage", "100Gi")
}

/// Nodes `<prefix>-0` to `<prefix>-<count - 1>`, each shaped by `shape`.
pub fn nodes(prefix: &str, count: usize, shape: impl Fn(NodeBuilder) -> NodeBuilder) -> Vec<Node> {
    (0..count)
        .map(|index| shape(node(&format!("{prefix}-{index}"))).build())
        .collect()
}

impl NodeBuilder {
    metadata_setters!();

    /// Capacity and allocatable of CPU.
    #[must_use]
    pub fn cpu(self, quantity: &str) -> Self {
        self.resource("cpu", quantity)
    }

    /// Capacity and allocatable of memory.
    #[must_use]
    pub fn memory(self, quantity: &str) -> Self {
        self.resource("memory", quantity)
    }

    /// How many pods it takes.
    #[must_use]
    pub fn pods(self, count: u32) -> Self {
        self.resource("pods", &count.to_string())
    }

    /// Capacity and allocatable of any resource.
    #[must_use]
    pub fn resource(mut self, resource: &str, quantity: &str) -> Self {
        self.capacity
            .insert(resource.to_owned(), Quantity(quantity.to_owned()));
        self.allocatable(resource, quantity)
    }

    /// Allocatable alone.
    #[must_use]
    pub fn allocatable(mut self, resource: &str, quantity: &str) -> Self {
        self.allocatable
            .insert(resource.to_owned(), Quantity(quantity.to_owned()));
        self
    }

    /// Adds a taint.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        self.spec.taints.get_or_insert_default().push(Taint {
            key: key.to_owned(),
            value: Some(value.to_owned()),
            effect: effect.to_owned(),
            time_added: None,
        });
        self
    }

    /// Takes no new pods.
    #[must_use]
    pub fn unschedulable(mut self) -> Self {
        self.spec.unschedulable = Some(true);
        self
    }

    /// Sets the condition Ready, for nodes that no kwok keeps.
    #[must_use]
    pub fn ready(mut self, ready: bool) -> Self {
        self.ready = Some(ready);
        self
    }

    /// The node.
    pub fn build(self) -> Node {
        let condition = |ready| NodeCondition {
            type_: "Ready".to_owned(),
            status: if ready { "True" } else { "False" }.to_owned(),
            ..NodeCondition::default()
        };
        Node {
            metadata: self.meta.build(),
            spec: Some(self.spec),
            status: Some(NodeStatus {
                capacity: Some(self.capacity),
                allocatable: Some(self.allocatable),
                conditions: self.ready.map(|ready| vec![condition(ready)]),
                ..NodeStatus::default()
            }),
        }
    }

    /// The node as JSON.
    pub fn value(self) -> Value {
        json(&self.build())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_kept() {
        let all = nodes("n", 2, |node| node.cpu("8").taint("k", "v", "NoSchedule"));
        assert_eq!(all.len(), 2);
        let value = json(&all[1]);
        assert_eq!(value["metadata"]["labels"]["kubernetes.io/hostname"], "n-1");
        assert_eq!(value["status"]["allocatable"]["cpu"], "8");
        assert_eq!(value["status"]["capacity"]["cpu"], "8");
        assert_eq!(value["spec"]["taints"][0]["effect"], "NoSchedule");
    }
}
