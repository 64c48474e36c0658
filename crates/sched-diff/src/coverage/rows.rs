//! The table of what each plugin reads: one row a field, or a kind of value of it.

use serde_json::{Value, json};

use super::field::{Change, Field, On, Point, When};
use crate::object;
use crate::plugins::is_here;

use Change::{Remove, With};
use On::{Node, Pod, Profile, Running};
use Point::{Filter, Score};
use When::{Always, Has, Is, Test};

type Path = &'static [&'static str];

const TAINTS: Path = &["spec", "taints", "*"];
const TOLERATIONS: Path = &["spec", "tolerations", "*"];
const APP_REQUESTS: Path = &["spec", "containers", "*", "resources", "requests", "*"];
const ALLOCATABLE: Path = &["status", "allocatable", "*"];
const REQUIRED: Path = &[
    "spec",
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
    "*",
];
const REQUIRED_LABELS: Path = &[
    "spec",
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
    "*",
    "matchExpressions",
    "*",
];
const REQUIRED_NAMES: Path = &[
    "spec",
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
    "*",
    "matchFields",
    "*",
];
const PREFERRED: Path = &[
    "spec",
    "affinity",
    "nodeAffinity",
    "preferredDuringSchedulingIgnoredDuringExecution",
    "*",
];
const PREFERRED_WEIGHT: Path = &[
    "spec",
    "affinity",
    "nodeAffinity",
    "preferredDuringSchedulingIgnoredDuringExecution",
    "*",
    "weight",
];
const PREFERRED_LABELS: Path = &[
    "spec",
    "affinity",
    "nodeAffinity",
    "preferredDuringSchedulingIgnoredDuringExecution",
    "*",
    "preference",
    "matchExpressions",
    "*",
];
const PREFERRED_NAMES: Path = &[
    "spec",
    "affinity",
    "nodeAffinity",
    "preferredDuringSchedulingIgnoredDuringExecution",
    "*",
    "preference",
    "matchFields",
    "*",
];

/// All rows of the plugins that there are.
pub fn rows() -> Vec<Field> {
    let mut rows = Rows(Vec::new());
    rows.framework();
    rows.taints();
    rows.names();
    rows.affinity();
    rows.ports();
    rows.fit();
    rows.amounts();
    rows.balanced();
    rows.images();
    rows.features();
    let is_known = |row: &Field| row.plugin == "framework" || is_here(row.plugin);
    rows.0.retain(is_known);
    rows.0
}

struct Rows(Vec<Field>);

impl Rows {
    fn add(
        &mut self,
        (plugin, point): (&'static str, Point),
        on: On,
        name: &'static str,
        path: Path,
        when: When,
    ) {
        self.change((plugin, point), on, name, path, when, Remove);
    }

    fn change(
        &mut self,
        (plugin, point): (&'static str, Point),
        on: On,
        name: &'static str,
        path: Path,
        when: When,
        change: Change,
    ) {
        self.0.push(Field {
            plugin,
            point,
            on,
            name,
            path,
            when,
            change,
        });
    }

    fn framework(&mut self) {
        let (filter, score) = (("framework", Filter), ("framework", Score));
        self.add(filter, Pod, "priority", &["spec", "priority"], Always);
        let reverse = |plugins: &mut Value| {
            if let Value::Array(plugins) = plugins {
                plugins.reverse();
            }
        };
        self.change(
            filter,
            Profile,
            "order",
            &["plugins"],
            Always,
            With(reverse),
        );
        let weight: Path = &["plugins", "*", "weight"];
        self.change(score, Profile, "weight", weight, Always, With(one));
    }

    fn names(&mut self) {
        let unschedulable = ("NodeUnschedulable", Filter);
        let mark: Path = &["spec", "unschedulable"];
        self.add(unschedulable, Node, "unschedulable", mark, Always);
        let named = Has("key", "node.kubernetes.io/unschedulable");
        self.add(unschedulable, Pod, "toleration", TOLERATIONS, named);
        self.add(
            unschedulable,
            Pod,
            "toleration of all",
            TOLERATIONS,
            Has("key", ""),
        );
        self.add(
            ("NodeName", Filter),
            Pod,
            "nodeName",
            &["spec", "nodeName"],
            Always,
        );
    }

    fn taints(&mut self) {
        let (filter, score) = (("TaintToleration", Filter), ("TaintToleration", Score));
        for (point, effects) in [
            (filter, &["NoSchedule", "NoExecute"][..]),
            (score, &["PreferNoSchedule"]),
        ] {
            for effect in effects {
                self.add(point, Node, effect, TAINTS, Has("effect", effect));
            }
            let value: Path = &["spec", "taints", "*", "value"];
            self.add(point, Node, "taint's value", value, Always);
            // Gt and Lt count for nothing while their gate is off.
            for (name, operator) in [
                ("Exists", "Exists"),
                ("Equal", "Equal"),
                ("no operator", ""),
            ] {
                self.add(point, Pod, name, TOLERATIONS, Has("operator", operator));
            }
            self.add(point, Pod, "no key", TOLERATIONS, Has("key", ""));
            let effect: Path = &["spec", "tolerations", "*", "effect"];
            self.add(point, Pod, "toleration's effect", effect, Always);
            let value: Path = &["spec", "tolerations", "*", "value"];
            self.add(point, Pod, "toleration's value", value, Always);
        }
    }

    fn affinity(&mut self) {
        let (filter, score) = (("NodeAffinity", Filter), ("NodeAffinity", Score));
        let selector: Path = &["spec", "nodeSelector", "*"];
        self.add(filter, Pod, "nodeSelector", selector, Always);
        self.add(filter, Pod, "required term", REQUIRED, Always);
        self.add(score, Pod, "preferred term", PREFERRED, Always);
        self.change(score, Pod, "weight", PREFERRED_WEIGHT, Always, With(one));
        let is_empty = |term: &Value| term["preference"] == json!({});
        // Every node's, which shifts the others.
        self.add(score, Pod, "empty preference", PREFERRED, Test(is_empty));
        for operator in ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] {
            let has = Has("operator", operator);
            self.add(filter, Pod, operator, REQUIRED_LABELS, has);
            self.add(score, Pod, operator, PREFERRED_LABELS, has);
        }
        for (name, operator) in [("name In", "In"), ("name NotIn", "NotIn")] {
            let has = Has("operator", operator);
            self.add(filter, Pod, name, REQUIRED_NAMES, has);
            self.add(score, Pod, name, PREFERRED_NAMES, has);
        }
        let odd = |expression: &Value| {
            let operator = object::text(expression, "/operator");
            let bounds = ["Gt", "Lt"].contains(&operator);
            bounds && expression["values"] == json!(["many"])
        };
        let number = |expression: &mut Value| expression["values"] = json!(["4"]);
        self.change(
            filter,
            Pod,
            "no number",
            REQUIRED_LABELS,
            Test(odd),
            With(number),
        );
        for point in [filter, score] {
            let labels: Path = &["metadata", "labels", "*"];
            self.add(point, Node, "labels", labels, Always);
        }
        let added: Path = &[
            "arguments",
            "NodeAffinity",
            "addedAffinity",
            "requiredDuringSchedulingIgnoredDuringExecution",
        ];
        self.add(filter, Profile, "addedAffinity", added, Always);
        let added: Path = &[
            "arguments",
            "NodeAffinity",
            "addedAffinity",
            "preferredDuringSchedulingIgnoredDuringExecution",
        ];
        self.add(score, Profile, "addedAffinity", added, Always);
    }

    fn ports(&mut self) {
        let filter = ("NodePorts", Filter);
        for on in [Pod, Running] {
            let path: Path = &["spec", "containers", "*", "ports", "*", "hostPort"];
            self.add(filter, on, "hostPort", path, Always);
            let path: Path = &["spec", "containers", "*", "ports", "*", "hostIP"];
            self.add(filter, on, "hostIP", path, Always);
            self.add(filter, on, "hostIP 0.0.0.0", path, Is("0.0.0.0"));
            let path: Path = &["spec", "containers", "*", "ports", "*", "protocol"];
            self.add(filter, on, "UDP", path, Is("UDP"));
            self.add(filter, on, "SCTP", path, Is("SCTP"));
            let sidecar =
                |init: &Value| init["restartPolicy"] == "Always" && init["ports"] != json!(null);
            let without = |init: &mut Value| init["ports"] = json!([]);
            let path: Path = &["spec", "initContainers", "*"];
            self.change(
                filter,
                on,
                "sidecar's ports",
                path,
                Test(sidecar),
                With(without),
            );
        }
    }

    fn fit(&mut self) {
        for point in [("NodeResourcesFit", Filter), ("NodeResourcesFit", Score)] {
            self.requests(point, Pod);
            self.requests(point, Running);
            self.told(point);
            self.allocatable(point);
        }
        let filter = ("NodeResourcesFit", Filter);
        let pods: Path = &["status", "allocatable", "pods"];
        self.add(filter, Node, "pods", pods, Always);
        let ignored: Path = &["arguments", "NodeResourcesFit", "ignoredResources"];
        self.add(filter, Profile, "ignoredResources", ignored, Always);
        let ignored: Path = &["arguments", "NodeResourcesFit", "ignoredResourceGroups"];
        self.add(filter, Profile, "ignoredResourceGroups", ignored, Always);
        self.defaults();
        self.strategy();
    }

    /// What containers leave open counts as something for scores.
    fn defaults(&mut self) {
        let score = ("NodeResourcesFit", Score);
        for on in [Pod, Running] {
            let path: Path = &["spec", "containers", "*", "resources", "requests", "cpu"];
            self.add(score, on, "cpu of 0", path, Is("0"));
            let path: Path = &["spec", "containers", "*"];
            let silent = |container: &Value| container["resources"]["requests"]["cpu"].is_null();
            let state =
                |container: &mut Value| container["resources"]["requests"]["cpu"] = "0".into();
            self.change(score, on, "no cpu", path, Test(silent), With(state));
            let silent = |container: &Value| container["resources"]["requests"]["memory"].is_null();
            let state =
                |container: &mut Value| container["resources"]["requests"]["memory"] = "0".into();
            self.change(score, on, "no memory", path, Test(silent), With(state));
        }
    }

    fn strategy(&mut self) {
        let score = ("NodeResourcesFit", Score);
        let path: Path = &["arguments", "NodeResourcesFit", "scoringStrategy"];
        let other = |strategy: &mut Value| {
            let was_most = strategy["type"] == "MostAllocated";
            let kind = if was_most {
                "LeastAllocated"
            } else {
                "MostAllocated"
            };
            strategy["type"] = kind.into();
            if let Value::Object(strategy) = strategy {
                strategy.remove("requestedToCapacityRatio");
            }
        };
        for kind in [
            "LeastAllocated",
            "MostAllocated",
            "RequestedToCapacityRatio",
        ] {
            self.change(score, Profile, kind, path, Has("type", kind), With(other));
        }
        let path: Path = &[
            "arguments",
            "NodeResourcesFit",
            "scoringStrategy",
            "resources",
        ];
        self.change(score, Profile, "resources", path, Always, With(cpu_alone));
        let path: Path = &[
            "arguments",
            "NodeResourcesFit",
            "scoringStrategy",
            "resources",
            "*",
            "weight",
        ];
        self.change(score, Profile, "resource's weight", path, Always, With(one));
        let path: Path = &[
            "arguments",
            "NodeResourcesFit",
            "scoringStrategy",
            "requestedToCapacityRatio",
            "shape",
        ];
        let first = |shape: &mut Value| {
            if let Value::Array(shape) = shape {
                shape.truncate(1);
            }
        };
        self.change(score, Profile, "shape", path, Always, With(first));
    }

    /// What a pod asks for, in all its places.
    fn requests(&mut self, point: (&'static str, Point), on: On) {
        let cpu: Path = &["spec", "containers", "*", "resources", "requests", "cpu"];
        self.add(point, on, "cpu", cpu, Always);
        let memory: Path = &["spec", "containers", "*", "resources", "requests", "memory"];
        self.add(point, on, "memory", memory, Always);
        let storage: Path = &[
            "spec",
            "containers",
            "*",
            "resources",
            "requests",
            "ephemeral-storage",
        ];
        self.add(point, on, "ephemeral-storage", storage, Always);
        let gpu: Path = &[
            "spec",
            "containers",
            "*",
            "resources",
            "requests",
            "example.com/gpu",
        ];
        self.add(point, on, "extended resource", gpu, Always);
        let pages: Path = &[
            "spec",
            "containers",
            "*",
            "resources",
            "requests",
            "hugepages-2Mi",
        ];
        self.add(point, on, "hugepages", pages, Always);
        let native: Path = &[
            "spec",
            "containers",
            "*",
            "resources",
            "requests",
            "example.kubernetes.io/thing",
        ];
        self.add(point, on, "native resource", native, Always);
        let init: Path = &["spec", "initContainers", "*"];
        self.add(point, on, "init container", init, Has("restartPolicy", ""));
        self.add(point, on, "sidecar", init, Has("restartPolicy", "Always"));
        let whole: Path = &["spec", "resources", "requests", "*"];
        self.add(point, on, "pod's requests", whole, Always);
        self.add(point, on, "overhead", &["spec", "overhead", "*"], Always);
    }

    /// What the kubelet tells of pods on nodes.
    fn told(&mut self, point: (&'static str, Point)) {
        let path: Path = &["status", "containerStatuses", "*", "resources"];
        self.add(point, Running, "container's status.resources", path, Always);
        let path: Path = &["status", "containerStatuses", "*", "allocatedResources"];
        self.add(
            point,
            Running,
            "container's allocatedResources",
            path,
            Always,
        );
        let path: Path = &["status", "initContainerStatuses", "*"];
        self.add(point, Running, "sidecar's status", path, Always);
        let path: Path = &["status", "resources"];
        self.add(point, Running, "pod's status.resources", path, Always);
        let path: Path = &["status", "allocatedResources"];
        self.add(point, Running, "pod's allocatedResources", path, Always);
        let path: Path = &["status", "conditions", "*"];
        self.add(
            point,
            Running,
            "infeasible resize",
            path,
            Has("reason", "Infeasible"),
        );
    }

    fn allocatable(&mut self, point: (&'static str, Point)) {
        let cpu: Path = &["status", "allocatable", "cpu"];
        self.add(point, Node, "cpu", cpu, Always);
        let memory: Path = &["status", "allocatable", "memory"];
        self.add(point, Node, "memory", memory, Always);
        let storage: Path = &["status", "allocatable", "ephemeral-storage"];
        self.add(point, Node, "ephemeral-storage", storage, Always);
        let gpu: Path = &["status", "allocatable", "example.com/gpu"];
        self.add(point, Node, "extended resource", gpu, Always);
        let pages: Path = &["status", "allocatable", "hugepages-2Mi"];
        self.add(point, Node, "hugepages", pages, Always);
    }

    /// How amounts are written.
    fn amounts(&mut self) {
        for point in [("NodeResourcesFit", Filter), ("NodeResourcesFit", Score)] {
            for (on, path) in [
                (Pod, APP_REQUESTS),
                (Node, ALLOCATABLE),
                (Running, APP_REQUESTS),
            ] {
                for (name, test) in WRITTEN {
                    self.add(point, on, name, path, Test(*test));
                }
            }
        }
    }

    fn balanced(&mut self) {
        let score = ("NodeResourcesBalancedAllocation", Score);
        self.requests(score, Pod);
        self.requests(score, Running);
        self.allocatable(score);
        let path: Path = &["arguments", "NodeResourcesBalancedAllocation", "resources"];
        self.change(score, Profile, "resources", path, Always, With(cpu_alone));
    }

    fn images(&mut self) {
        let score = ("ImageLocality", Score);
        let image: Path = &["spec", "containers", "*", "image"];
        self.add(score, Pod, "image", image, Always);
        let untagged = |image: &Value| !image.as_str().is_some_and(has_tag);
        self.add(score, Pod, "image without tag", image, Test(untagged));
        let digest = |image: &Value| image.as_str().is_some_and(|image| image.contains('@'));
        self.add(score, Pod, "image by digest", image, Test(digest));
        let image: Path = &["spec", "initContainers", "*", "image"];
        self.add(score, Pod, "init container's image", image, Always);
        self.add(
            score,
            Pod,
            "volume's image",
            &["spec", "volumes", "*"],
            Always,
        );
        let images: Path = &["status", "images", "*"];
        self.add(score, Node, "images", images, Always);
        let size: Path = &["status", "images", "*", "sizeBytes"];
        self.change(score, Node, "size", size, Always, With(one));
        let several = |image: &Value| object::list(image, "/names").len() > 1;
        let first = |image: &mut Value| {
            if let Some(names) = image["names"].as_array_mut() {
                names.truncate(1);
            }
        };
        self.change(
            score,
            Node,
            "second name",
            images,
            Test(several),
            With(first),
        );
    }

    fn features(&mut self) {
        let filter = ("NodeDeclaredFeatures", Filter);
        let rules: Path = &["spec", "containers", "*", "restartPolicyRules"];
        self.add(filter, Pod, "restart rule", rules, Always);
        let rules: Path = &["spec", "initContainers", "*", "restartPolicyRules"];
        self.add(filter, Pod, "init container's restart rule", rules, Always);
        self.add(filter, Pod, "hostUsers", &["spec", "hostUsers"], Always);
        self.add(filter, Pod, "hostNetwork", &["spec", "hostNetwork"], Always);
        let declared: Path = &["status", "declaredFeatures", "*"];
        for feature in [
            "RestartAllContainersOnContainerExits",
            "UserNamespacesHostNetworkSupport",
        ] {
            self.add(filter, Node, feature, declared, Is(feature));
        }
    }
}

fn one(value: &mut Value) {
    *value = json!(1);
}

fn cpu_alone(resources: &mut Value) {
    *resources = json!([{"name": "cpu", "weight": 1}]);
}

fn has_tag(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or_default();
    name.contains(':')
}

/// Ways to write an amount, by name.
const WRITTEN: &[(&str, fn(&Value) -> bool)] = &[
    ("amount in n", |amount| suffix(amount) == "n"),
    ("amount in u", |amount| suffix(amount) == "u"),
    ("amount in m", |amount| suffix(amount) == "m"),
    ("amount in k", |amount| suffix(amount) == "k"),
    ("amount in M", |amount| suffix(amount) == "M"),
    ("amount in G", |amount| suffix(amount) == "G"),
    ("amount in T", |amount| suffix(amount) == "T"),
    ("amount in P", |amount| suffix(amount) == "P"),
    ("amount in E", |amount| suffix(amount) == "E"),
    ("amount in Ki", |amount| suffix(amount) == "Ki"),
    ("amount in Mi", |amount| suffix(amount) == "Mi"),
    ("amount in Gi", |amount| suffix(amount) == "Gi"),
    ("amount in Ti", |amount| suffix(amount) == "Ti"),
    ("amount in Pi", |amount| suffix(amount) == "Pi"),
    ("amount in Ei", |amount| suffix(amount) == "Ei"),
    ("amount with exponent", |amount| {
        let suffix = suffix(amount);
        suffix.len() > 1 && suffix.starts_with(['e', 'E']) && !suffix.ends_with('i')
    }),
    ("amount with fraction", |amount| {
        amount.as_str().is_some_and(|amount| amount.contains('.'))
    }),
    ("amount near 2^63", |amount| {
        amount
            .as_str()
            .is_some_and(|amount| amount.starts_with("922337203685477580"))
    }),
];

fn suffix(amount: &Value) -> &str {
    let amount = amount.as_str().unwrap_or_default();
    amount.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.')
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::{WRITTEN, rows, suffix};
    use crate::generate::EXTREME;

    #[test]
    fn no_two_rows_are_the_same() {
        let mut seen = HashSet::new();
        for row in rows() {
            let name = format!("{} {:?} {:?} {}", row.plugin, row.point, row.on, row.name);
            assert!(seen.insert(name.clone()), "{name}");
        }
    }

    #[test]
    fn each_way_to_write_an_amount_is_generated() {
        assert_eq!(suffix(&json!("1.5Gi")), "Gi");
        for (name, test) in WRITTEN {
            let usual = ["64Mi", "1Gi", "100m"];
            let amounts = EXTREME.iter().chain(&usual);
            assert!(
                amounts.copied().any(|amount| test(&json!(amount))),
                "{name}"
            );
        }
    }
}
