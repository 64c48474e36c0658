//! The table of what each plugin reads: one row a field, or a kind of value of it.

mod affinity;
mod companions;
mod others;
mod preemption;
mod resources;
mod spread;

use serde_json::{Value, json};

use super::field::Change::{Remove, With};
use super::field::On::{Node, Pod, Profile};
use super::field::Point::{Filter, Score};
use super::field::When::{Always, Has};
use super::field::{Change, Field, On, Point, When};
use crate::configuration::COMPARES_TAINTS;
use crate::object;
use crate::plugins::is_here;

type Path = &'static [&'static str];

const TAINTS: Path = &["spec", "taints", "*"];
const TOLERATIONS: Path = &["spec", "tolerations", "*"];
const GATE: Path = &["gates", COMPARES_TAINTS];
const HOSTNAME: Path = &["metadata", "labels", "kubernetes.io/hostname"];

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
    rows.spread();
    rows.companions();
    rows.preemption();
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
            for (name, operator) in [
                ("Exists", "Exists"),
                ("Equal", "Equal"),
                ("Gt", "Gt"),
                ("Lt", "Lt"),
                ("no operator", ""),
            ] {
                self.add(point, Pod, name, TOLERATIONS, Has("operator", operator));
            }
            self.add(point, Profile, COMPARES_TAINTS, GATE, Always);
            self.add(point, Pod, "no key", TOLERATIONS, Has("key", ""));
            let effect: Path = &["spec", "tolerations", "*", "effect"];
            self.add(point, Pod, "toleration's effect", effect, Always);
            let value: Path = &["spec", "tolerations", "*", "value"];
            self.add(point, Pod, "toleration's value", value, Always);
        }
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
}

fn one(value: &mut Value) {
    *value = json!(1);
}

/// A pod as it was before its labels changed.
fn labels_before(pod: &mut Value) {
    object::restore(pod, "/metadata/labels");
}

/// A Service or a controller as it was before its selector changed.
fn selector_before(object: &mut Value) {
    object::restore(object, "/spec/selector");
}

/// A hostname that only this node has.
fn own_host(host: &mut Value) {
    *host = json!("alone");
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::rows;

    #[test]
    fn no_two_rows_are_the_same() {
        let mut seen = HashSet::new();
        for row in rows() {
            let name = format!("{} {:?} {:?} {}", row.plugin, row.point, row.on, row.name);
            assert!(seen.insert(name.clone()), "{name}");
        }
    }
}
