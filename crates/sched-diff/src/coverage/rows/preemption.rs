//! What preemption reads.

use serde_json::{Value, json};

use super::{Path, Rows};
use crate::coverage::field::Change::With;
use crate::coverage::field::On::{Object, Pod, Profile, Running};
use crate::coverage::field::Point::Preemption;
use crate::coverage::field::When::{Always, Is};

const PLUGIN: &str = "DefaultPreemption";

impl Rows {
    pub(super) fn preemption(&mut self) {
        let preemption = (PLUGIN, Preemption);
        let priority: Path = &["spec", "priority"];
        self.add(preemption, Pod, "priority", priority, Always);
        self.add(preemption, Running, "priority", priority, Always);
        let policy: Path = &["spec", "preemptionPolicy"];
        self.add(preemption, Pod, "preemptionPolicy", policy, Is("Never"));
        let started: Path = &["status", "startTime"];
        self.add(preemption, Running, "startTime", started, Always);
        let going: Path = &["metadata", "deletionTimestamp"];
        self.add(preemption, Running, "deletionTimestamp", going, Always);
        let conditions: Path = &["status", "conditions"];
        self.add(preemption, Running, "DisruptionTarget", conditions, Always);
        let budget = Object("PodDisruptionBudget");
        self.add(
            preemption,
            budget,
            "selector",
            &["spec", "selector"],
            Always,
        );
        let many = |allowed: &mut Value| *allowed = json!(100);
        let allowed: Path = &["status", "disruptionsAllowed"];
        self.change(
            preemption,
            budget,
            "disruptionsAllowed",
            allowed,
            Always,
            With(many),
        );
        let percentage: Path = &["arguments", PLUGIN, "minCandidateNodesPercentage"];
        let least: Path = &["arguments", PLUGIN, "minCandidateNodesAbsolute"];
        for (name, path) in [
            ("minCandidateNodesPercentage", percentage),
            ("minCandidateNodesAbsolute", least),
        ] {
            self.add(preemption, Profile, name, path, Always);
        }
        let disrupted: Path = &["status", "disruptedPods"];
        self.add(preemption, budget, "disruptedPods", disrupted, Always);
    }
}
