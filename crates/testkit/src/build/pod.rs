//! Pods.

use k8s_openapi::api::core::v1::{
    Affinity, Container, Pod, PodSchedulingGate, PodSpec, PodTemplateSpec, ResourceRequirements,
    Toleration, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use pilotage_api::keys;
use serde_json::Value;

use super::{Meta, Quantities, json, metadata_setters};

/// The image that pods have; nothing ever pulls it.
const IMAGE: &str = "registry.k8s.io/pause:3.10";

/// Builds a pod of one container.
#[derive(Debug, Clone)]
pub struct PodBuilder {
    meta: Meta,
    spec: PodSpec,
    requests: Quantities,
    limits: Quantities,
    image: String,
    tweak: Option<fn(&mut Pod)>,
}

/// A pod with one container, without requests.
pub fn pod(name: &str) -> PodBuilder {
    PodBuilder {
        meta: Meta::named(name),
        spec: PodSpec::default(),
        requests: Quantities::new(),
        limits: Quantities::new(),
        image: IMAGE.to_owned(),
        tweak: None,
    }
}

impl PodBuilder {
    metadata_setters!();

    /// To be delegated to another cluster.
    #[must_use]
    pub fn elect(self) -> Self {
        self.annotation(keys::ELECT, "")
    }

    /// Asks for a resource: `request("cpu", "500m")`.
    #[must_use]
    pub fn request(mut self, resource: &str, quantity: &str) -> Self {
        self.requests
            .insert(resource.to_owned(), Quantity(quantity.to_owned()));
        self
    }

    /// Limits a resource.
    #[must_use]
    pub fn limit(mut self, resource: &str, quantity: &str) -> Self {
        self.limits
            .insert(resource.to_owned(), Quantity(quantity.to_owned()));
        self
    }

    /// The container's image.
    #[must_use]
    pub fn image(mut self, image: &str) -> Self {
        image.clone_into(&mut self.image);
        self
    }

    /// The scheduler that it waits for.
    #[must_use]
    pub fn scheduler(mut self, name: &str) -> Self {
        self.spec.scheduler_name = Some(name.to_owned());
        self
    }

    /// The node that it is bound to.
    #[must_use]
    pub fn node_name(mut self, node: &str) -> Self {
        self.spec.node_name = Some(node.to_owned());
        self
    }

    /// A label that its node must have.
    #[must_use]
    pub fn node_selector(mut self, key: &str, value: &str) -> Self {
        let selector = self.spec.node_selector.get_or_insert_default();
        selector.insert(key.to_owned(), value.to_owned());
        self
    }

    /// A taint that it tolerates; no key tolerates every key, no value any value, no effect every effect.
    #[must_use]
    pub fn tolerate(
        mut self,
        key: Option<&str>,
        value: Option<&str>,
        effect: Option<&str>,
    ) -> Self {
        let operator = if value.is_some() { "Equal" } else { "Exists" };
        self.spec
            .tolerations
            .get_or_insert_default()
            .push(Toleration {
                key: key.map(str::to_owned),
                operator: Some(operator.to_owned()),
                value: value.map(str::to_owned),
                effect: effect.map(str::to_owned),
                ..Toleration::default()
            });
        self
    }

    /// Its affinity.
    #[must_use]
    pub fn affinity(mut self, affinity: Affinity) -> Self {
        self.spec.affinity = Some(affinity);
        self
    }

    /// A spreading constraint.
    #[must_use]
    pub fn spread(mut self, constraint: TopologySpreadConstraint) -> Self {
        self.spec
            .topology_spread_constraints
            .get_or_insert_default()
            .push(constraint);
        self
    }

    /// A scheduling gate.
    #[must_use]
    pub fn gate(mut self, name: &str) -> Self {
        let gates = self.spec.scheduling_gates.get_or_insert_default();
        gates.push(PodSchedulingGate {
            name: name.to_owned(),
        });
        self
    }

    /// Its priority class.
    #[must_use]
    pub fn priority_class(mut self, name: &str) -> Self {
        self.spec.priority_class_name = Some(name.to_owned());
        self
    }

    /// Its priority, for pods that no API server admits.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.spec.priority = Some(priority);
        self
    }

    /// Its service account.
    #[must_use]
    pub fn service_account(mut self, name: &str) -> Self {
        self.spec.service_account_name = Some(name.to_owned());
        self
    }

    /// `Always`, `OnFailure` or `Never`.
    #[must_use]
    pub fn restart_policy(mut self, policy: &str) -> Self {
        self.spec.restart_policy = Some(policy.to_owned());
        self
    }

    /// Seconds that a deletion may take.
    #[must_use]
    pub fn grace(mut self, seconds: i64) -> Self {
        self.spec.termination_grace_period_seconds = Some(seconds);
        self
    }

    /// Changes whatever has no method of its own.
    #[must_use]
    pub fn tweak(mut self, tweak: fn(&mut Pod)) -> Self {
        self.tweak = Some(tweak);
        self
    }

    /// The pod.
    pub fn build(self) -> Pod {
        let mut spec = self.spec;
        let some = |quantities: Quantities| Some(quantities).filter(|q| !q.is_empty());
        let (requests, limits) = (some(self.requests), some(self.limits));
        let resources = (requests.is_some() || limits.is_some()).then(|| ResourceRequirements {
            requests,
            limits,
            ..ResourceRequirements::default()
        });
        spec.containers.push(Container {
            name: "main".to_owned(),
            image: Some(self.image),
            resources,
            ..Container::default()
        });
        let mut pod = Pod {
            metadata: self.meta.build(),
            spec: Some(spec),
            status: None,
        };
        if let Some(tweak) = self.tweak {
            tweak(&mut pod);
        }
        pod
    }

    /// The pod as JSON.
    pub fn value(self) -> Value {
        json(&self.build())
    }

    /// The pod as a template, its name left out.
    pub fn template(self) -> PodTemplateSpec {
        let Pod {
            mut metadata, spec, ..
        } = self.build();
        metadata.name = None;
        metadata.namespace = None;
        PodTemplateSpec {
            metadata: Some(metadata),
            spec,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_says_what_was_asked_and_nothing_else() {
        let value = pod("a")
            .ns("x")
            .label("l", "v")
            .request("cpu", "500m")
            .elect()
            .value();
        let expected = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "a",
                "namespace": "x",
                "labels": { "l": "v" },
                "annotations": { "multicluster.admiralty.io/elect": "" },
            },
            "spec": { "containers": [{
                "name": "main",
                "image": IMAGE,
                "resources": { "requests": { "cpu": "500m" } },
            }]},
        });
        assert_eq!(value, expected);
    }
}
