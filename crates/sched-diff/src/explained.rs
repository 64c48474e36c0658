//! Differences that are meant, or that aren't worth what it would cost to copy them. Each has a reason here and its paragraph
//! in `docs/scheduler-differences.md`; all others fail the run.

use pilotage_sched::quantity::Quantity;
use serde_json::Value;

use crate::compare::{Aspect, Difference};
use crate::object;
use crate::verdict::Verdict;
use crate::world::World;

/// What both said of a pod, and when.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The pod.
    pub pod: &'a Value,
    /// What there was.
    pub world: &'a World,
    /// What ours said.
    pub ours: &'a Verdict,
    /// What the oracle said.
    pub theirs: &'a Verdict,
}

/// A reason for differences.
#[derive(Clone, Copy, Debug)]
pub struct Explanation {
    /// Its name, which is the heading of its paragraph in the document.
    pub name: &'static str,
    /// The reason in a sentence.
    pub reason: &'static str,
    /// Whether it is the reason for this difference.
    pub explains: fn(&Scene<'_>, &Difference) -> bool,
}

/// All of them.
pub const EXPLAINED: &[Explanation] = &[
    Explanation {
        name: "Amounts that 64 bits can't hold",
        reason: "kube-scheduler's sums wrap or count such an amount as nothing; ours don't.",
        explains: |scene, difference| {
            let concerned = match &difference.plugin {
                Some(plugin) => plugin.contains("NodeResources"),
                None => {
                    difference.aspect == Aspect::Answer
                        && difference.theirs.contains("NodeResources")
                }
            };
            concerned && has_extreme_amount(scene)
        },
    },
    Explanation {
        name: "A bound that is no integer",
        reason: "kube-scheduler fails the cycle; to ours it is a preference that no node has.",
        explains: |_, difference| {
            difference.aspect == Aspect::Answer
                && difference.theirs.contains("the value must be an integer")
        },
    },
    Explanation {
        name: "A host port that several pods of a node have",
        reason: "kube-scheduler takes it for free when one of them goes; ours when the last one does.",
        explains: |scene, difference| {
            let ours = difference
                .plugin
                .as_deref()
                .is_some_and(|it| it.contains("NodePorts"));
            let node = difference.node.as_deref().unwrap_or_default();
            ours && difference.aspect == Aspect::Filter && has_port_in_use(scene, node)
        },
    },
];

/// Whether a pod or node of the scene names an amount of which a thousand don't fit into 64 bits.
fn has_extreme_amount(scene: &Scene<'_>) -> bool {
    let objects = scene.world.objects();
    objects.iter().chain([scene.pod]).any(is_extreme)
}

/// Whether an object names such an amount.
pub fn is_extreme(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(name, value)| match value {
            Value::Object(amounts) if AMOUNTS.contains(&name.as_str()) => amounts
                .iter()
                .any(|(resource, amount)| is_too_much(resource, amount)),
            _ => is_extreme(value),
        }),
        Value::Array(items) => items.iter().any(is_extreme),
        _ => false,
    }
}

/// Fields that hold amounts by resource.
const AMOUNTS: [&str; 5] = [
    "requests",
    "limits",
    "overhead",
    "allocatable",
    "allocatedResources",
];

/// CPU is counted in thousandths.
fn is_too_much(resource: &str, amount: &Value) -> bool {
    let text = amount.as_str().unwrap_or_default();
    let amount = Quantity::parse(text).map(|amount| {
        if resource == "cpu" {
            amount.milli_value()
        } else {
            amount.value()
        }
    });
    amount.is_ok_and(|amount| amount > i64::MAX / 1000)
}

/// Whether a pod that is on the node wants a port that this one wants, too.
fn has_port_in_use(scene: &Scene<'_>, node: &str) -> bool {
    let wanted = ports(scene.pod);
    let objects = scene.world.objects();
    let there = objects
        .iter()
        .filter(|it| object::node_of(it) == Some(node));
    there.flat_map(ports).any(|port| wanted.contains(&port))
}

fn ports(pod: &Value) -> Vec<u64> {
    let inits = object::list(pod, "/spec/initContainers").iter();
    let containers = object::list(pod, "/spec/containers").iter().chain(inits);
    let ports = containers.flat_map(|container| object::list(container, "/ports"));
    ports.filter_map(|port| port["hostPort"].as_u64()).collect()
}

/// Splits differences: those that nothing explains, and the names of what explains the others. What only follows from an
/// explained difference is explained with it.
pub fn explain<'a>(
    scene: &Scene<'_>,
    differences: Vec<Difference>,
    explanations: &'a [Explanation],
) -> (Vec<Difference>, Vec<&'a str>) {
    let mut names = Vec::new();
    let mut open = Vec::new();
    // Whoever is refused a node, or let on one, shifts the scores of all.
    let mut others_on_nodes = false;
    for difference in differences {
        let found = explanations
            .iter()
            .find(|explanation| (explanation.explains)(scene, &difference));
        if let Some(explanation) = found {
            names.push(explanation.name);
            others_on_nodes |= difference.aspect <= Aspect::Filter;
        } else {
            open.push(difference);
        }
    }
    let follows = |difference: &Difference| {
        difference.aspect.follows() || (others_on_nodes && difference.aspect == Aspect::Score)
    };
    if !names.is_empty() && open.iter().all(follows) {
        open.clear();
    }
    (open, names)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::Value;

    use super::{EXPLAINED, Explanation, Scene, explain};
    use crate::compare::{Aspect, Difference};
    use crate::verdict::Verdict;
    use crate::world::World;

    const SCORES_OF_P: Explanation = Explanation {
        name: "p",
        reason: "P is another one.",
        explains: |_, difference| {
            difference.aspect == Aspect::Score && difference.plugin.as_deref() == Some("P")
        },
    };

    fn difference(aspect: Aspect, plugin: Option<&str>) -> Difference {
        let mut difference = Difference::new(aspect, "1", "2");
        difference.plugin = plugin.map(str::to_owned);
        difference
    }

    fn left(differences: Vec<Difference>) -> (usize, usize) {
        let (pod, world, verdict) = (Value::Null, World::default(), Verdict::default());
        let scene = Scene {
            pod: &pod,
            world: &world,
            ours: &verdict,
            theirs: &verdict,
        };
        let (open, names) = explain(&scene, differences, &[SCORES_OF_P]);
        (open.len(), names.len())
    }

    #[test]
    fn what_follows_from_an_explained_difference_is_explained_with_it() {
        let p = || difference(Aspect::Score, Some("P"));
        let q = || difference(Aspect::Score, Some("Q"));
        let best = || difference(Aspect::Best, None);
        assert_eq!(left(vec![p(), best()]), (0, 1));
        assert_eq!(left(vec![best()]), (1, 0));
        assert_eq!(left(vec![p(), q(), best()]), (2, 1));
    }

    #[test]
    fn each_explanation_has_its_paragraph() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = fs::read_to_string(root.join("docs/scheduler-differences.md")).unwrap();
        let (mut parts, mut headings) = (Vec::new(), Vec::new());
        for line in text.lines() {
            if let Some(part) = line.strip_prefix("## ") {
                parts.push(part);
            } else if let Some(heading) = line.strip_prefix("### ") {
                headings.push((parts.len(), heading));
            }
        }
        assert_eq!(
            parts,
            ["What the test allows", "What the test doesn't see"]
        );
        let of = |part: usize| {
            let headings = headings.iter().filter(move |(at, _)| *at == part);
            headings.map(|(_, heading)| *heading).collect::<Vec<_>>()
        };
        let names: Vec<_> = EXPLAINED.iter().map(|one| one.name).collect();
        assert_eq!(of(1), names);
        assert!(!of(2).is_empty());
    }
}
