//! What of pods and targets is shown on the dashboard, if there is one. What it says of them is pure; nothing is
//! decided by it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use pilotage_api::{keys, summary::ResourceList};
use pilotage_dashboard::{Amount, NodeSeen, PodSeen, Stage, State};
use pilotage_model::virtual_node::READY;
use pilotage_proxy::{Answer, Gate, Note, ProxyView, Reach, Released, board::Posting};
use pilotage_sched::quantity::Quantity;

use super::Edge;
use crate::ask::story::of_others;

/// Why nothing more happens to a pod.
const BEING_DELETED: &str = "it is being deleted";

/// What a decision looked at, and said.
#[derive(Clone, Copy)]
struct Decided<'a> {
    /// The virtual node that a scheduling cycle chose and waits for.
    choice: Option<&'a str>,
    gate: &'a Gate,
    answers: &'a BTreeMap<String, Answer>,
}

/// How far a pod has come, where it is, and why.
#[derive(Debug, PartialEq, Eq)]
struct Standing {
    stage: Stage,
    at: String,
    why: String,
}

impl Standing {
    fn new(stage: Stage, at: &str, why: impl Into<String>) -> Self {
        Self {
            stage,
            at: at.to_owned(),
            why: why.into(),
        }
    }
}

fn standing(view: &ProxyView, decided: Decided<'_>, reach: impl Fn(&str) -> Reach) -> Standing {
    let Decided {
        choice,
        gate,
        answers,
    } = decided;
    if view.terminal {
        let at = view.node_name.as_deref().unwrap_or_default();
        return Standing::new(Stage::Ended, at, "");
    }
    if let Some(node) = &view.node_name {
        return match reach(node) {
            Reach::Lost | Reach::NoSuchTarget => {
                let why = "its target can't be reached: the pod may be running there";
                Standing::new(Stage::Lost, node, why)
            }
            Reach::Reachable | Reach::Unknown | Reach::Unseen => {
                let why = if view.ending { BEING_DELETED } else { "" };
                Standing::new(Stage::Running, node, why)
            }
        };
    }
    if view.ending {
        // Nobody chooses for it any more, and nothing but its record says where it may be.
        let Some(record) = view.record.record() else {
            return Standing::new(Stage::Waiting, "", BEING_DELETED);
        };
        let stage = match reach(&record.node) {
            Reach::Lost | Reach::NoSuchTarget => Stage::Lost,
            Reach::Reachable | Reach::Unknown | Reach::Unseen => Stage::Granted,
        };
        return Standing::new(stage, &record.node, BEING_DELETED);
    }
    let why = match gate {
        Gate::Open => String::new(),
        Gate::Closed(note) => note.to_string(),
    };
    match gate {
        Gate::Closed(Note::Held(node)) => return Standing::new(Stage::Lost, node, why),
        Gate::Closed(Note::Granted(node) | Note::Unfit(node, _)) => {
            return Standing::new(Stage::Granted, node, why);
        }
        _ => {}
    }
    if let Some(node) = choice {
        return Standing::new(Stage::Granted, node, "it is chosen");
    }
    let holds = |answer: &Answer| matches!(answer, Answer::Reserved | Answer::Evicts(_));
    if let Some((node, _)) = answers.iter().find(|(_, answer)| holds(answer)) {
        return Standing::new(Stage::Reserved, node, why);
    }
    let owes = |answer: &Answer| matches!(answer, Answer::Waiting | Answer::Silent);
    let stage = if answers.values().any(owes) {
        Stage::Asked
    } else {
        Stage::Waiting
    };
    let why = if why.is_empty() {
        of_others("", answers)
    } else {
        why
    };
    Standing::new(stage, "", why)
}

/// Since when it has been like this, if it was before anybody looked: bound, or there at all.
fn since(pod: &Pod, stage: Stage) -> Option<i64> {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    let scheduled = conditions.and_then(|all| all.iter().find(|it| it.type_ == "PodScheduled"));
    let time = match stage {
        Stage::Running => scheduled.and_then(|it| it.last_transition_time.as_ref()),
        Stage::Waiting | Stage::Asked => pod.metadata.creation_timestamp.as_ref(),
        Stage::Reserved | Stage::Granted | Stage::Ended | Stage::Lost => None,
    };
    time.map(|time| time.0.as_second())
}

fn node_seen(node: &Node) -> NodeSeen {
    let annotations = node.metadata.annotations.as_ref();
    let free: Option<ResourceList> = annotations
        .and_then(|all| all.get(keys::FREE))
        .and_then(|text| serde_json::from_str(text).ok());
    let status = node.status.as_ref();
    let all = status.and_then(|it| it.allocatable.as_ref());
    let amount = |resource: &str, read: fn(Quantity) -> i64| {
        let of = |list: Option<&ResourceList>| {
            let text = &list?.get(resource)?.0;
            Quantity::parse(text).ok().map(read)
        };
        Amount {
            free: of(free.as_ref()),
            all: of(all),
        }
    };
    let conditions = status.and_then(|it| it.conditions.as_ref());
    let ready = conditions.and_then(|all| all.iter().find(|it| it.type_ == READY));
    let why = ready.filter(|it| it.status != "True").map(|it| {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        format!("{}: {}", text(&it.reason), text(&it.message))
    });
    let since = ready.and_then(|it| it.last_transition_time.as_ref());
    NodeSeen {
        since: since.map(|it| it.0.as_second()),
        why: why.unwrap_or_default(),
        drained: node.spec.as_ref().and_then(|it| it.unschedulable) == Some(true),
        cpu: amount("cpu", Quantity::milli_value),
        memory: amount("memory", Quantity::value),
        pods: amount("pods", Quantity::value),
    }
}

impl Edge {
    /// Whether this process decides from now on.
    pub(super) fn paint_leads(&self, leads: bool) {
        if let Some(dashboard) = &self.parts.dashboard {
            dashboard.paint(|picture, _| picture.lead(leads));
        }
    }

    /// This was decided of a pod. One that is a question only isn't shown.
    pub(super) fn paint_pod(&mut self, uid: &str, posting: &Posting, released: Option<&Released>) {
        let Some(dashboard) = &self.parts.dashboard else {
            return;
        };
        let (Some(view), Some(proxy)) = (self.book.proxy(uid), self.proxies.get_mut(uid)) else {
            return;
        };
        if view.what_if {
            return;
        }
        let (book, fate) = (&self.book, &mut proxy.fate);
        let lost = fate.see(view, |node| book.reach(node), book.is_left(uid), false);
        let lost = released.map(ToString::to_string).or(lost);
        let decided = Decided {
            choice: proxy.choice.as_ref().map(|(node, _)| node.as_str()),
            gate: &posting.gate,
            answers: &posting.answers,
        };
        let standing = standing(view, decided, |node| self.book.reach(node));
        let seen = PodSeen {
            uid,
            namespace: &view.namespace,
            name: &view.name,
            stage: standing.stage,
            at: &standing.at,
            why: &standing.why,
            since: since(&proxy.pod, standing.stage),
        };
        dashboard.paint(|picture, now| {
            picture.see_pod(&seen, now);
            if let Some(why) = lost {
                picture.lose(seen.namespace, seen.name, &why, now);
            }
        });
    }

    /// A pod is gone; to be told before the book is.
    pub(super) fn paint_gone(&mut self, uid: &str) {
        let Some(dashboard) = &self.parts.dashboard else {
            return;
        };
        let book = &self.book;
        let lost = book.proxy(uid).zip(self.proxies.get_mut(uid));
        let lost = lost.and_then(|(view, proxy)| {
            let left = book.is_left(uid);
            let why = proxy.fate.see(view, |node| book.reach(node), left, true)?;
            Some((view, why))
        });
        dashboard.paint(|picture, now| {
            picture.forget_pod(uid);
            if let Some((view, why)) = lost {
                picture.lose(&view.namespace, &view.name, &why, now);
            }
        });
    }

    /// A target can, or can't, be reached.
    pub(super) fn paint_reach(&self, node: &str, reach: Reach) {
        let Some(dashboard) = &self.parts.dashboard else {
            return;
        };
        let state = match reach {
            Reach::Reachable => State::Connected,
            Reach::Unknown => State::Connecting,
            Reach::Unseen => State::Unseen,
            Reach::Lost => State::Lost,
            Reach::NoSuchTarget => {
                return dashboard.paint(|picture, now| picture.forget_reach(node, now));
            }
        };
        dashboard.paint(|picture, now| picture.see_reach(node, state, now));
    }

    /// A virtual node is there in this version, or gone.
    pub(super) fn paint_node(&self, name: &str, node: Option<&Node>) {
        let Some(dashboard) = &self.parts.dashboard else {
            return;
        };
        let seen = node.map(node_seen);
        dashboard.paint(|picture, _| match seen {
            Some(seen) => picture.see_node(name, seen),
            None => picture.forget_node(name),
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(node: Option<&str>, phase: &str, annotations: &serde_json::Value) -> Pod {
        let pod = json!({
            "metadata": {
                "namespace": "shop", "name": "p", "uid": "u", "resourceVersion": "1",
                "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": annotations,
            },
            "spec": { "containers": [], "nodeName": node },
            "status": { "phase": phase, "conditions": [
                { "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z" },
            ] },
        });
        serde_json::from_value(pod).unwrap()
    }

    /// Stage, target and words of a pod that is bound, or isn't.
    fn of(
        node: Option<&str>,
        phase: &str,
        gate: &Gate,
        answers: &[(&str, Answer)],
        reach: Reach,
    ) -> (Stage, String, String) {
        let view = ProxyView::of(&pod(node, phase, &json!({}))).unwrap();
        let answers = answers.iter().cloned();
        let answers = answers
            .map(|(node, answer)| (node.to_owned(), answer))
            .collect();
        let decided = Decided {
            choice: None,
            gate,
            answers: &answers,
        };
        let Standing { stage, at, why } = standing(&view, decided, |_| reach);
        (stage, at, why)
    }

    #[test]
    fn each_stage_is_told_with_its_place_and_reason() {
        let closed = Gate::Closed;
        let (open, reachable) = (Gate::Open, Reach::Reachable);
        let settled = closed(Note::Settled);
        let refused = ("dub", Answer::Refused("2 Insufficient cpu".to_owned()));
        let paris = || "paris".to_owned();
        for (node, phase, gate, answers, reach, want) in [
            (
                None,
                "Pending",
                &closed(Note::Gated),
                vec![],
                reachable,
                (Stage::Waiting, "", "gates hold it"),
            ),
            (
                None,
                "Pending",
                &open,
                vec![refused.clone()],
                reachable,
                (Stage::Waiting, "", "dub refused [2 Ins"),
            ),
            (
                None,
                "Pending",
                &closed(Note::Asked(vec![paris()])),
                vec![refused.clone(), ("paris", Answer::Waiting)],
                reachable,
                (Stage::Asked, "", "an answer of paris"),
            ),
            (
                None,
                "Pending",
                &open,
                vec![refused, ("paris", Answer::Reserved)],
                reachable,
                (Stage::Reserved, "paris", ""),
            ),
            (
                None,
                "Pending",
                &closed(Note::Granted(paris())),
                vec![],
                reachable,
                (Stage::Granted, "paris", "granted"),
            ),
            (
                None,
                "Pending",
                &closed(Note::Held(paris())),
                vec![],
                Reach::Lost,
                (Stage::Lost, "paris", "be reached"),
            ),
            (
                Some("paris"),
                "Running",
                &settled,
                vec![],
                reachable,
                (Stage::Running, "paris", ""),
            ),
            (
                Some("paris"),
                "Running",
                &settled,
                vec![],
                Reach::Unseen,
                (Stage::Running, "paris", ""),
            ),
            (
                Some("paris"),
                "Running",
                &settled,
                vec![],
                Reach::Lost,
                (Stage::Lost, "paris", "may be running"),
            ),
            (
                Some("paris"),
                "Failed",
                &settled,
                vec![],
                Reach::Lost,
                (Stage::Ended, "paris", ""),
            ),
        ] {
            let (stage, at, why) = of(node, phase, gate, &answers, reach);
            assert_eq!((stage, &*at), (want.0, want.1), "{gate:?}");
            assert!(
                why.contains(want.2) && why.is_empty() == want.2.is_empty(),
                "{why}"
            );
        }
    }

    #[test]
    fn what_a_cycle_has_chosen_is_on_its_way() {
        let view = ProxyView::of(&pod(None, "Pending", &json!({}))).unwrap();
        let answers = [("paris".to_owned(), Answer::Reserved)].into();
        let decided = Decided {
            choice: Some("paris"),
            gate: &Gate::Open,
            answers: &answers,
        };
        let told = standing(&view, decided, |_| Reach::Reachable);
        assert_eq!((told.stage, &*told.at), (Stage::Granted, "paris"));
    }

    #[test]
    fn a_pod_that_is_deleted_before_it_is_bound_waits_for_nobody() {
        let standing_of = |record: Option<&str>, reach| {
            let annotations = record.map(|record| json!({ keys::GRANTED_TO: record }));
            let mut pod = pod(None, "Pending", &annotations.unwrap_or_default());
            let now = pod.metadata.creation_timestamp.clone();
            pod.metadata.deletion_timestamp = now;
            let view = ProxyView::of(&pod).unwrap();
            let decided = Decided {
                choice: None,
                gate: &Gate::Closed(Note::Settled),
                answers: &BTreeMap::from([("dub".to_owned(), Answer::Reserved)]),
            };
            let told = standing(&view, decided, |_| reach);
            assert_eq!(told.why, BEING_DELETED);
            (told.stage, told.at)
        };
        let granted = Some("paris/chaperon/1");
        for (record, reach, want) in [
            (None, Reach::Reachable, (Stage::Waiting, "")),
            (granted, Reach::Reachable, (Stage::Granted, "paris")),
            (granted, Reach::Lost, (Stage::Lost, "paris")),
        ] {
            let (stage, at) = standing_of(record, reach);
            assert_eq!((stage, &*at), want);
        }
    }

    #[test]
    fn a_stage_began_when_the_pod_says_so() {
        let pod = pod(Some("paris"), "Running", &json!({}));
        let created = pod
            .metadata
            .creation_timestamp
            .as_ref()
            .unwrap()
            .0
            .as_second();
        assert_eq!(since(&pod, Stage::Waiting), Some(created));
        assert_eq!(since(&pod, Stage::Running), Some(created + 60));
        assert_eq!(since(&pod, Stage::Lost), None);
    }

    #[test]
    fn a_virtual_node_tells_room_and_trouble() {
        let node = json!({
            "metadata": { "name": "paris", "annotations": {
                keys::FREE: json!({ "cpu": "1500m", "memory": "2Gi", "pods": "7" }).to_string(),
            } },
            "spec": { "unschedulable": true },
            "status": {
                "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "bad" },
                "conditions": [{
                    "type": "Ready", "status": "False", "reason": "Silent", "message": "it doesn't answer",
                    "lastTransitionTime": "1970-01-01T00:01:40Z",
                }],
            },
        });
        let seen = node_seen(&serde_json::from_value(node).unwrap());
        let amount = |free, all| Amount { free, all };
        let want = NodeSeen {
            since: Some(100),
            why: "Silent: it doesn't answer".to_owned(),
            drained: true,
            cpu: amount(Some(1500), Some(4000)),
            memory: amount(Some(2 << 30), Some(8 << 30)),
            pods: amount(Some(7), None),
        };
        assert_eq!(seen, want);
        assert_eq!(node_seen(&Node::default()), NodeSeen::default());
    }
}
