//! What inter-pod affinity and anti-affinity read.

use serde_json::Value;

use super::{HOSTNAME, Path, Rows, labels_before, one, own_host};
use crate::coverage::field::Change::With;
use crate::coverage::field::On::{self, Node, Object, Pod, Profile, Running};
use crate::coverage::field::Point::{Filter, Score};
use crate::coverage::field::When::{Always, Is, Test};
use crate::generate::SHARED_HOST;
use crate::{label_keys, object};

const PLUGIN: &str = "InterPodAffinity";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// The terms of each direction, and of each kind.
const REQUIRED_WITH: Path = &["spec", "affinity", "podAffinity", REQUIRED, "*"];
const REQUIRED_ANTI: Path = &["spec", "affinity", "podAntiAffinity", REQUIRED, "*"];
const PREFERRED_WITH: Path = &["spec", "affinity", "podAffinity", PREFERRED, "*"];
const PREFERRED_ANTI: Path = &["spec", "affinity", "podAntiAffinity", PREFERRED, "*"];

/// Terms in which requirements were made of label keys.
const REQUIRED_TERMS: [(&str, Path); 2] = [
    ("label keys", REQUIRED_WITH),
    ("anti label keys", REQUIRED_ANTI),
];
const PREFERRED_TERMS: [(&str, Path); 2] = [
    (
        "label keys",
        &[
            "spec",
            "affinity",
            "podAffinity",
            PREFERRED,
            "*",
            "podAffinityTerm",
        ],
    ),
    (
        "anti label keys",
        &[
            "spec",
            "affinity",
            "podAntiAffinity",
            PREFERRED,
            "*",
            "podAffinityTerm",
        ],
    ),
];

const REQUIRED_FIELDS: [(&str, Path); 6] = [
    (
        "namespaces",
        &[
            "spec",
            "affinity",
            "podAffinity",
            REQUIRED,
            "*",
            "namespaces",
        ],
    ),
    (
        "namespaceSelector",
        &[
            "spec",
            "affinity",
            "podAffinity",
            REQUIRED,
            "*",
            "namespaceSelector",
        ],
    ),
    (
        "labelSelector",
        &[
            "spec",
            "affinity",
            "podAffinity",
            REQUIRED,
            "*",
            "labelSelector",
        ],
    ),
    (
        "anti namespaces",
        &[
            "spec",
            "affinity",
            "podAntiAffinity",
            REQUIRED,
            "*",
            "namespaces",
        ],
    ),
    (
        "anti namespaceSelector",
        &[
            "spec",
            "affinity",
            "podAntiAffinity",
            REQUIRED,
            "*",
            "namespaceSelector",
        ],
    ),
    (
        "anti labelSelector",
        &[
            "spec",
            "affinity",
            "podAntiAffinity",
            REQUIRED,
            "*",
            "labelSelector",
        ],
    ),
];
const PREFERRED_FIELDS: [(&str, Path); 6] = [
    (
        "namespaces",
        &[
            "spec",
            "affinity",
            "podAffinity",
            PREFERRED,
            "*",
            "podAffinityTerm",
            "namespaces",
        ],
    ),
    (
        "namespaceSelector",
        &[
            "spec",
            "affinity",
            "podAffinity",
            PREFERRED,
            "*",
            "podAffinityTerm",
            "namespaceSelector",
        ],
    ),
    (
        "labelSelector",
        &[
            "spec",
            "affinity",
            "podAffinity",
            PREFERRED,
            "*",
            "podAffinityTerm",
            "labelSelector",
        ],
    ),
    (
        "anti namespaces",
        &[
            "spec",
            "affinity",
            "podAntiAffinity",
            PREFERRED,
            "*",
            "podAffinityTerm",
            "namespaces",
        ],
    ),
    (
        "anti namespaceSelector",
        &[
            "spec",
            "affinity",
            "podAntiAffinity",
            PREFERRED,
            "*",
            "podAffinityTerm",
            "namespaceSelector",
        ],
    ),
    (
        "anti labelSelector",
        &[
            "spec",
            "affinity",
            "podAntiAffinity",
            PREFERRED,
            "*",
            "podAffinityTerm",
            "labelSelector",
        ],
    ),
];
const WEIGHTS: [Path; 2] = [
    &["spec", "affinity", "podAffinity", PREFERRED, "*", "weight"],
    &[
        "spec",
        "affinity",
        "podAntiAffinity",
        PREFERRED,
        "*",
        "weight",
    ],
];

impl Rows {
    pub(super) fn companions(&mut self) {
        let (filter, score) = ((PLUGIN, Filter), (PLUGIN, Score));
        self.add(filter, Pod, "required affinity", REQUIRED_WITH, Always);
        for on in [Pod, Running] {
            self.add(filter, on, "required anti-affinity", REQUIRED_ANTI, Always);
            self.add(score, on, "preferred affinity", PREFERRED_WITH, Always);
            self.add(score, on, "preferred anti-affinity", PREFERRED_ANTI, Always);
            self.change(score, on, "weight", WEIGHTS[0], Always, With(one));
            self.change(score, on, "anti weight", WEIGHTS[1], Always, With(one));
            self.fields(filter, on, &REQUIRED_FIELDS);
            self.fields(score, on, &PREFERRED_FIELDS);
        }
        self.add(score, Running, "required affinity", REQUIRED_WITH, Always);
        for (point, terms) in [(filter, REQUIRED_TERMS), (score, PREFERRED_TERMS)] {
            let (merged, unmerge) = (Test(label_keys::are_merged), With(label_keys::unmerge));
            for (name, path) in terms {
                self.change(point, Pod, name, path, merged, unmerge);
            }
        }
        for point in [filter, score] {
            let labels: Path = &["metadata", "labels", "*"];
            for on in [Pod, Running, Node, Object("Namespace")] {
                self.add(point, on, "labels", labels, Always);
            }
            let changed = Test(object::is_replaced);
            self.change(
                point,
                Running,
                "changed labels",
                &[],
                changed,
                With(labels_before),
            );
            let shared = Is(SHARED_HOST);
            self.change(
                point,
                Node,
                "shared hostname",
                HOSTNAME,
                shared,
                With(own_host),
            );
        }
        let arguments = |name: &'static str, path: Path, rows: &mut Self| {
            rows.add(score, Profile, name, path, Always);
        };
        arguments(
            "hardPodAffinityWeight",
            &["arguments", PLUGIN, "hardPodAffinityWeight"],
            self,
        );
        arguments(
            "ignorePreferredTermsOfExistingPods",
            &["arguments", PLUGIN, "ignorePreferredTermsOfExistingPods"],
            self,
        );
    }

    fn fields(
        &mut self,
        at: (&'static str, crate::coverage::field::Point),
        on: On,
        fields: &[(&'static str, Path)],
    ) {
        for (name, path) in fields {
            // A term of a running pod keeps others off by anti-affinity alone.
            if on == Running && at.1 == Filter && !name.starts_with("anti") {
                continue;
            }
            if name.ends_with("namespaceSelector") {
                let nobody = |selector: &mut Value| {
                    *selector = serde_json::json!({"matchLabels": {"nobody": "x"}});
                };
                self.change(at, on, name, path, Always, With(nobody));
            } else {
                self.add(at, on, name, path, Always);
            }
        }
    }
}
