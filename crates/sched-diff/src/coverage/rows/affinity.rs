//! What node affinity reads.

use serde_json::{Value, json};

use super::{HOSTNAME, Path, Rows, one};
use crate::coverage::field::Change::With;
use crate::coverage::field::On::{Node, Pod, Profile};
use crate::coverage::field::Point::{Filter, Score};
use crate::coverage::field::When::{Always, Has, Test};
use crate::generate::OTHER_HOST;
use crate::object;

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

impl Rows {
    pub(super) fn affinity(&mut self) {
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
            let is_other =
                |host: &Value| host.as_str().is_some_and(|it| it.starts_with(OTHER_HOST));
            let named = |host: &mut Value| {
                let name = host.as_str().and_then(|it| it.strip_prefix(OTHER_HOST));
                if let Some(name) = name.map(str::to_owned) {
                    *host = name.into();
                }
            };
            let (is_other, named) = (Test(is_other), With(named));
            self.change(point, Node, "other hostname", HOSTNAME, is_other, named);
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
}
