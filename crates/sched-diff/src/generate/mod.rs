//! Draws cases from seeds: a cluster, a configuration, and what happens then. Everything is as an API server would have
//! taken it, however odd.

mod affinity;
mod amounts;
mod companions;
mod containers;
mod history;
mod nodes;
mod pods;
mod preemption;
mod profile;
mod running;
mod spread;
mod swarm;

use serde_json::Value;

pub use self::amounts::{EXTREME, OVERFLOWING};
use self::history::History;
pub use self::nodes::{OTHER_HOST, SHARED_HOST};
use self::swarm::Swarm;
use crate::case::Case;
use crate::draw::Draw;

/// The case of a seed.
pub fn generate(seed: u64) -> Case {
    let mut draw = Draw::new(seed);
    let swarm = Swarm::draw(&mut draw);
    let configuration = profile::profile(&mut draw, &swarm);
    let count = match draw.below(20) {
        0 => draw.within(0, 4),
        _ => draw.within(5, 30),
    };
    let nodes: Vec<Value> = (0..count)
        .map(|at| nodes::node(&mut draw, &swarm, at))
        .collect();
    let mut running = Vec::new();
    for node in &nodes {
        for _ in 0..draw.below(3 + swarm.crowd) {
            running.push(running::pod(&mut draw, &swarm, running.len(), node));
        }
    }
    // On a node that isn't there, or not yet.
    if draw.percent(20) {
        let later = nodes::node(&mut draw, &swarm, count);
        running.push(running::pod(&mut draw, &swarm, running.len(), &later));
    }
    let mut objects = nodes.clone();
    objects.extend(running.iter().cloned());
    objects.extend(spread::objects(&mut draw, &swarm));
    objects.extend(companions::objects(&mut draw, &swarm));
    objects.extend(preemption::objects(&mut draw, &swarm));
    let history = History::new(nodes, running, &objects);
    Case {
        seed,
        configuration,
        objects,
        steps: history.steps(&mut draw, &swarm),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::generate;
    use crate::case::Case;
    use crate::label_keys;

    #[test]
    fn a_case_is_that_of_its_seed_and_can_be_written_down() {
        for seed in 0..30 {
            let case = generate(seed);
            assert_eq!(case, generate(seed));
            let text = serde_json::to_string(&case).unwrap();
            assert_eq!(serde_json::from_str::<Case>(&text).unwrap(), case);
        }
        assert_ne!(generate(1).objects, generate(2).objects);
    }

    /// Whether a part of the object passes.
    fn has(object: &Value, test: &dyn Fn(&Value) -> bool) -> bool {
        let parts: Vec<&Value> = match object {
            Value::Array(parts) => parts.iter().collect(),
            Value::Object(parts) => parts.values().collect(),
            _ => Vec::new(),
        };
        test(object) || parts.into_iter().any(|part| has(part, test))
    }

    #[test]
    fn label_keys_of_affinity_terms_are_as_an_api_server_leaves_them() {
        for field in ["matchLabelKeys", "mismatchLabelKeys"] {
            let is_term = |part: &Value| {
                let is_affinity = part.get("maxSkew").is_none();
                is_affinity && part.get(field).is_some() && label_keys::are_merged(part)
            };
            let is_there = |seed| has(&serde_json::to_value(generate(seed)).unwrap(), &is_term);
            assert!((0..60).any(is_there), "{field}");
        }
    }
}
