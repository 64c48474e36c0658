//! What topology spreading reads.

use serde_json::{Value, json};

use super::{HOSTNAME, Path, Rows, labels_before, one, own_host, selector_before};
use crate::coverage::field::Change::With;
use crate::coverage::field::On::{Node, Object, Pod, Profile, Running};
use crate::coverage::field::Point::{Filter, Score};
use crate::coverage::field::When::{Always, Is, Test};
use crate::generate::SHARED_HOST;
use crate::object;

const PLUGIN: &str = "PodTopologySpread";
const ALL: Path = &["spec", "topologySpreadConstraints", "*"];
const DEFAULTS: Path = &["arguments", PLUGIN, "defaultConstraints", "*"];
const DEFAULTING: Path = &["arguments", PLUGIN, "defaultingType"];

/// Fields of a constraint, each of hard and of soft ones.
const FIELDS: [(&str, Path); 5] = [
    (
        "labelSelector",
        &["spec", "topologySpreadConstraints", "*", "labelSelector"],
    ),
    (
        "matchLabelKeys",
        &["spec", "topologySpreadConstraints", "*", "matchLabelKeys"],
    ),
    (
        "minDomains",
        &["spec", "topologySpreadConstraints", "*", "minDomains"],
    ),
    (
        "nodeAffinityPolicy",
        &[
            "spec",
            "topologySpreadConstraints",
            "*",
            "nodeAffinityPolicy",
        ],
    ),
    (
        "nodeTaintsPolicy",
        &["spec", "topologySpreadConstraints", "*", "nodeTaintsPolicy"],
    ),
];
const MAX_SKEW: Path = &["spec", "topologySpreadConstraints", "*", "maxSkew"];

fn is_hard(constraint: &Value) -> bool {
    object::text(constraint, "/whenUnsatisfiable") == "DoNotSchedule"
}

fn is_soft(constraint: &Value) -> bool {
    !is_hard(constraint)
}

impl Rows {
    pub(super) fn spread(&mut self) {
        let (filter, score) = ((PLUGIN, Filter), (PLUGIN, Score));
        self.add(filter, Pod, "hard constraint", ALL, Test(is_hard));
        self.add(score, Pod, "soft constraint", ALL, Test(is_soft));
        for (name, path) in FIELDS {
            self.add(filter, Pod, name, path, Always);
            if name != "minDomains" {
                self.add(score, Pod, name, path, Always);
            }
        }
        for point in [filter, score] {
            self.change(point, Pod, "maxSkew", MAX_SKEW, Always, With(one));
            let labels: Path = &["metadata", "labels", "*"];
            self.add(point, Pod, "own labels", labels, Always);
            self.add(point, Running, "labels", labels, Always);
            let changed = Test(object::is_replaced);
            self.change(
                point,
                Running,
                "changed labels",
                &[],
                changed,
                With(labels_before),
            );
            self.add(point, Node, "labels", labels, Always);
            let going: Path = &["metadata", "deletionTimestamp"];
            self.add(point, Running, "deletionTimestamp", going, Always);
            let namespace: Path = &["metadata", "namespace"];
            let elsewhere = |namespace: &mut Value| *namespace = json!("elsewhere");
            self.change(
                point,
                Running,
                "namespace",
                namespace,
                Always,
                With(elsewhere),
            );
        }
        // For scores each node is a host of its own, whatever it is called.
        let shared = Is(SHARED_HOST);
        self.change(
            filter,
            Node,
            "shared hostname",
            HOSTNAME,
            shared,
            With(own_host),
        );
        self.add(filter, Profile, "hard default", DEFAULTS, Test(is_hard));
        self.add(score, Profile, "soft default", DEFAULTS, Test(is_soft));
        let none = |kind: &mut Value| *kind = "List".into();
        let system = Is("System");
        self.change(
            score,
            Profile,
            "system defaults",
            DEFAULTING,
            system,
            With(none),
        );
        let owners: Path = &["metadata", "ownerReferences"];
        let selector: Path = &["spec", "selector"];
        self.add(score, Pod, "owner", owners, Always);
        for kind in [
            "Service",
            "ReplicationController",
            "ReplicaSet",
            "StatefulSet",
        ] {
            self.add(score, Object(kind), "selector", selector, Always);
            let changed = Test(object::is_replaced);
            let before = With(selector_before);
            self.change(
                score,
                Object(kind),
                "changed selector",
                &[],
                changed,
                before,
            );
        }
    }
}
