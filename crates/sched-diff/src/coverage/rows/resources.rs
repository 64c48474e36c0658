//! What the plugins of resources read: requests, what the kubelet tells, what nodes have, and how amounts are written.

use serde_json::{Value, json};

use super::{Path, Rows, one};
use crate::coverage::field::Change::With;
use crate::coverage::field::On::{self, Node, Pod, Profile, Running};
use crate::coverage::field::Point::{self, Filter, Score};
use crate::coverage::field::When::{Always, Has, Is, Test};

const APP_REQUESTS: Path = &["spec", "containers", "*", "resources", "requests", "*"];
const ALLOCATABLE: Path = &["status", "allocatable", "*"];

impl Rows {
    pub(super) fn fit(&mut self) {
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
        // The scores of 1.36.3's NodeResourcesFit look at containers alone.
        if (point, on) != (("NodeResourcesFit", Score), Pod) {
            self.add(point, on, "pod's requests", whole, Always);
        }
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
        // Without it the node is refused to whoever asks for it, and nobody else's score depends on it.
        if point.1 == Filter {
            let pages: Path = &["status", "allocatable", "hugepages-2Mi"];
            self.add(point, Node, "hugepages", pages, Always);
        }
    }

    /// How amounts are written.
    pub(super) fn amounts(&mut self) {
        for point in [("NodeResourcesFit", Filter), ("NodeResourcesFit", Score)] {
            for (on, path) in [
                (Pod, APP_REQUESTS),
                (Node, ALLOCATABLE),
                (Running, APP_REQUESTS),
            ] {
                for (name, test) in WRITTEN {
                    self.add(point, on, name, path, Test(*test));
                }
                if point.1 == Filter {
                    self.add(point, on, NEAR_MOST, path, Test(is_near_most));
                }
            }
        }
    }

    pub(super) fn balanced(&mut self) {
        let score = ("NodeResourcesBalancedAllocation", Score);
        self.requests(score, Pod);
        self.requests(score, Running);
        self.told(score);
        self.allocatable(score);
        let path: Path = &["arguments", "NodeResourcesBalancedAllocation", "resources"];
        self.change(score, Profile, "resources", path, Always, With(cpu_alone));
    }
}

fn cpu_alone(resources: &mut Value) {
    *resources = json!([{"name": "cpu", "weight": 1}]);
}

/// Whether an amount is written in some way.
type IsWritten = fn(&Value) -> bool;

/// Ways to write an amount, by name.
const WRITTEN: &[(&str, IsWritten)] = &[
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
];

/// Amounts that just fit. Only Filter is asked for them: kube-scheduler's scores multiply them by a hundred, which
/// wraps.
const NEAR_MOST: &str = "amount near 2^63";

fn is_near_most(amount: &Value) -> bool {
    let amount = amount.as_str();
    amount.is_some_and(|amount| amount.starts_with("922337203685477580"))
}

fn suffix(amount: &Value) -> &str {
    let amount = amount.as_str().unwrap_or_default();
    amount.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{NEAR_MOST, WRITTEN, is_near_most, suffix};
    use crate::generate::{EXTREME, OVERFLOWING};

    #[test]
    fn each_way_to_write_an_amount_is_generated() {
        assert_eq!(suffix(&json!("1.5Gi")), "Gi");
        let near = (NEAR_MOST, is_near_most as super::IsWritten);
        for (name, test) in WRITTEN.iter().chain([&near]) {
            let usual = ["64Mi", "1Gi", "100m"];
            let amounts = EXTREME.iter().chain(OVERFLOWING).chain(&usual);
            assert!(
                amounts.copied().any(|amount| test(&json!(amount))),
                "{name}"
            );
        }
    }
}
