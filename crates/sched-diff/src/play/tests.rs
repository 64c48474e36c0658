use serde_json::{Value, json};

use super::{Nobody, Observer, Players, Report, play};
use crate::case::{Case, Step};
use crate::compare::Aspect;
use crate::configuration::Configuration;
use crate::explained::{EXPLAINED, Explanation, Scene};
use crate::generate::generate;
use crate::object;
use crate::shrink::shrink;
use crate::side::{Side, SideError};
use crate::subject::Subject;
use crate::verdict::Verdict;

/// What a false oracle says.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Lie {
    #[default]
    Nothing,
    /// One point too much for tainted nodes.
    Taints,
    /// That no host port is ever in use.
    Ports,
}

/// Plays the oracle: our own scheduler, which may lie.
#[derive(Default)]
struct Liar {
    scheduler: Subject,
    tainted: Vec<String>,
    lie: Lie,
}

impl Side for Liar {
    fn open(&mut self, configuration: &Configuration, objects: &[Value]) -> Result<(), SideError> {
        let nodes = objects
            .iter()
            .filter(|object| object::kind(object) == "Node");
        let tainted = nodes.filter(|node| !object::list(node, "/spec/taints").is_empty());
        self.tainted = tainted.map(|node| object::name(node).to_owned()).collect();
        self.scheduler.open(configuration, objects)
    }

    fn apply(&mut self, object: &Value) -> Result<(), SideError> {
        self.scheduler.apply(object)
    }

    fn delete(&mut self, object: &Value) -> Result<(), SideError> {
        self.scheduler.delete(object)
    }

    fn evaluate(&mut self, pod: &Value) -> Result<Verdict, SideError> {
        let mut verdict = self.scheduler.evaluate(pod)?;
        if self.lie == Lie::Ports {
            verdict
                .filter
                .retain(|_, refusal| refusal.plugin != "NodePorts");
        }
        let tells_of_taints = self.lie == Lie::Taints;
        for node in self.tainted.iter().filter(|_| tells_of_taints) {
            if let Some(score) = verdict
                .scores
                .get_mut(node)
                .and_then(|scores| scores.get_mut("TaintToleration"))
            {
                *score += 1;
                verdict.sum();
            }
        }
        Ok(verdict)
    }

    fn assume(&mut self, pod: &Value, node: &str) -> Result<(), SideError> {
        self.scheduler.assume(pod, node)
    }

    fn nominate(&mut self, pod: &Value, node: &str) -> Result<(), SideError> {
        self.scheduler.nominate(pod, node)
    }
}

fn tried(
    case: &Case,
    lie: Lie,
    explanations: &[Explanation],
    observer: &mut dyn Observer,
) -> Result<Report, SideError> {
    let mut theirs = Liar {
        lie,
        ..Liar::default()
    };
    let mut players = Players {
        ours: &mut Subject::default(),
        theirs: &mut theirs,
        explanations,
    };
    play(case, &mut players, observer)
}

fn played(case: &Case, lie: Lie) -> Report {
    tried(case, lie, &[], &mut Nobody).unwrap()
}

#[test]
fn a_scheduler_agrees_with_itself_whatever_is_generated() {
    let (mut pods, mut placed) = (0, 0);
    for seed in 0..60 {
        let report = played(&generate(seed), Lie::Nothing);
        assert_eq!(report.disagreements, [], "seed {seed}");
        pods += report.pods;
        placed += report.placed;
    }
    assert!(pods > 600, "{pods}");
    // Cases in which nothing fits, or everything does, show little.
    assert!(
        (pods / 5..pods * 19 / 20).contains(&placed),
        "{placed} of {pods}"
    );
}

#[test]
fn a_lie_is_found_and_made_small() {
    let lie = |case: &Case| {
        // What a side refuses isn't smaller, but no case.
        let report = tried(case, Lie::Taints, &[], &mut Nobody).ok()?;
        let mut found = report.disagreements.into_iter();
        found.find(|found| {
            let first = &found.differences[0];
            first.aspect == Aspect::Score && first.plugin.as_deref() == Some("TaintToleration")
        })
    };
    let seed = (0..50)
        .find(|seed| lie(&generate(*seed)).is_some())
        .unwrap();
    let small = shrink(&generate(seed), 2000, &mut |case| lie(case).is_some());
    assert_eq!(
        (small.objects.len(), small.steps.len()),
        (1, 1),
        "{small:?}"
    );
    assert_eq!(small.configuration.arguments.len(), 0);
    let text = serde_json::to_string(&small).unwrap();
    let read: Case = serde_json::from_str(&text).unwrap();
    assert_eq!(read, small);
    assert!(lie(&read).is_some());
}

/// Counts the pods on which both agree.
#[derive(Default)]
struct Agreed(usize);

impl Observer for Agreed {
    fn agreed(&mut self, _: &Scene<'_>) {
        self.0 += 1;
    }
}

#[test]
fn what_is_only_explained_is_not_agreed_on() {
    let anything = [Explanation {
        name: "anything",
        reason: "Whatever.",
        most: 1000,
        explains: |_, _| true,
    }];
    let (mut explained, mut agreed) = (0, Agreed::default());
    let mut pods = 0;
    for seed in 0..30 {
        let report = tried(&generate(seed), Lie::Taints, &anything, &mut agreed).unwrap();
        assert_eq!(report.disagreements, [], "seed {seed}");
        explained += report.explained.values().sum::<usize>();
        pods += report.pods;
    }
    assert!(explained > 0);
    assert_eq!(agreed.0 + explained, pods);
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"allocatable": {"cpu": "1", "pods": "1"}}})
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {"schedulerName": "default-scheduler", "containers": []}})
}

#[test]
fn steps_mean_what_there_is_by_then() {
    let case = |steps: Vec<Step>| Case {
        seed: 1,
        configuration: Configuration::default(),
        objects: vec![node("n")],
        steps,
    };
    let placed = |steps| {
        let report = played(&case(steps), Lie::Nothing);
        assert_eq!(report.disagreements, []);
        report.placed
    };
    let (a, b) = (|| Step::Schedule(pod("a")), || Step::Schedule(pod("b")));
    // The node takes one pod at a time.
    assert_eq!(placed(vec![a(), b()]), 1);
    assert_eq!(placed(vec![a(), Step::Delete(pod("a")), b()]), 2);
    assert_eq!(placed(vec![a(), Step::Finish(pod("a")), b()]), 2);
    assert_eq!(placed(vec![a(), Step::Apply(pod("a")), b()]), 1);
    assert_eq!(placed(vec![Step::Ask(pod("a")), b()]), 1);
    assert_eq!(placed(vec![Step::Delete(node("n")), a()]), 0);
    assert_eq!(
        placed(vec![Step::Delete(node("n")), Step::Apply(node("n")), a()]),
        1
    );
    let nominate = |name| Step::Nominate {
        pod: pod(name),
        node: "n".to_owned(),
    };
    assert_eq!(placed(vec![nominate("b"), a()]), 0);
    assert_eq!(placed(vec![nominate("b"), b(), a()]), 1);
    assert_eq!(placed(vec![nominate("b"), Step::Delete(pod("b")), a()]), 1);
    // What isn't there is passed over.
    assert_eq!(
        placed(vec![
            Step::Delete(pod("x")),
            Step::Apply(pod("x")),
            a(),
            a()
        ]),
        1
    );
}

#[test]
fn a_wrong_rule_of_host_ports_is_found_and_not_explained() {
    let with_port = |name: &str| {
        let mut pod = pod(name);
        pod["spec"]["containers"] = json!([{"name": "c", "ports": [{"hostPort": 80}]}]);
        pod
    };
    let mut roomy = node("n");
    roomy["status"]["allocatable"]["pods"] = "10".into();
    let on_node = |name: &str| object::on_node(&with_port(name), "n");
    let found = |steps: Vec<Step>| {
        let case = Case {
            seed: 1,
            configuration: Configuration::default(),
            objects: vec![roomy.clone(), on_node("a"), on_node("b")],
            steps,
        };
        let report = tried(&case, Lie::Ports, EXPLAINED, &mut Nobody).unwrap();
        let first = report.disagreements.first();
        (
            first.map(|first| first.differences[0].signature().to_string()),
            report.explained.len(),
        )
    };
    let ask = || Step::Ask(with_port("c"));
    let filter = "Filter of NodePorts".to_owned();
    assert_eq!(found(vec![ask()]), (Some(filter), 0));
    // That of the real one is not found.
    let gone = Step::Delete(on_node("a"));
    assert_eq!(found(vec![gone, ask()]), (None, 1));
}
