//! Draws node selectors and node affinity, of pods and of the configuration.

use serde_json::{Map, Value, json};

use super::nodes::{HOSTNAME, LABELS};
use super::swarm::Swarm;
use crate::draw::Draw;

/// Names of hosts that some nodes have.
const HOSTS: &[&str] = &[
    "n0", "n1", "n2", "n3", "host-n0", "host-n1", "host-n2", "host-n3", "twin",
];

/// An affinity with parts as often as the swarm wants them; `None` without any.
pub(super) fn affinity(draw: &mut Draw, swarm: &Swarm) -> Option<Value> {
    let mut affinity = Map::new();
    if draw.percent(swarm.required) {
        let count = draw.within(1, 3);
        let terms: Vec<Value> = (0..count).map(|_| term(draw, swarm)).collect();
        affinity.insert(
            "requiredDuringSchedulingIgnoredDuringExecution".to_owned(),
            json!({"nodeSelectorTerms": terms}),
        );
    }
    if draw.percent(swarm.preferred) {
        affinity.insert(
            "preferredDuringSchedulingIgnoredDuringExecution".to_owned(),
            preferred(draw, swarm).into(),
        );
    }
    (!affinity.is_empty()).then(|| affinity.into())
}

/// Preferred terms with weights; an empty one is every node's.
fn preferred(draw: &mut Draw, swarm: &Swarm) -> Vec<Value> {
    let count = draw.within(1, 3);
    let one = |draw: &mut Draw| {
        let weight = *draw.one(&[1, 2, 10, 33, 50, 99, 100]);
        let preference = if draw.percent(10) {
            json!({})
        } else {
            term(draw, swarm)
        };
        json!({"weight": weight, "preference": preference})
    };
    (0..count).map(|_| one(draw)).collect()
}

/// A selector by labels, and by the node's name.
fn term(draw: &mut Draw, swarm: &Swarm) -> Value {
    let mut term = Map::new();
    if draw.percent(85) {
        let count = draw.within(1, 2);
        let expressions: Vec<Value> = (0..count).map(|_| expression(draw, swarm)).collect();
        term.insert("matchExpressions".to_owned(), expressions.into());
    }
    if draw.percent(25) {
        let count = draw.within(1, 2);
        let fields: Vec<Value> = (0..count).map(|_| field(draw)).collect();
        term.insert("matchFields".to_owned(), fields.into());
    }
    // Without both it is a term that no node matches.
    term.into()
}

fn field(draw: &mut Draw) -> Value {
    let operator = draw.word(&["In", "In", "In", "NotIn"]);
    let name = format!("n{}", draw.below(32));
    json!({"key": "metadata.name", "operator": operator, "values": [name]})
}

fn expression(draw: &mut Draw, swarm: &Swarm) -> Value {
    let (key, values) = match draw.below(10) {
        0 => ("absent", &["x"][..]),
        1 => (HOSTNAME, HOSTS),
        _ => *draw.one(LABELS),
    };
    let operator = match key {
        "rank" => draw.word(&["Gt", "Lt", "Gt", "Lt", "In", "NotIn", "Exists"]),
        _ => draw.word(&["In", "In", "NotIn", "Exists", "DoesNotExist"]),
    };
    let values = match &*operator {
        "Exists" | "DoesNotExist" => return json!({"key": key, "operator": operator}),
        // The API server takes bounds that aren't numbers.
        "Gt" | "Lt" if draw.percent(swarm.odd_bounds) => vec!["many".to_owned()],
        "Gt" | "Lt" => vec![draw.word(&["0", "1", "4", "5", "7", "9223372036854775806"])],
        _ => {
            let count = draw.within(1, 2);
            let some = draw.some(values, count);
            some.into_iter().map(str::to_owned).collect()
        }
    };
    json!({"key": key, "operator": operator, "values": values})
}

/// A plain node selector; `None` mostly.
pub(super) fn node_selector(draw: &mut Draw, swarm: &Swarm) -> Option<Value> {
    if !draw.percent(swarm.required / 2) {
        return None;
    }
    let mut selector = Map::new();
    let count = draw.below(3);
    for (key, values) in draw.some(LABELS, count) {
        selector.insert(key.to_owned(), draw.word(values).into());
    }
    Some(selector.into())
}
