//! The story of one pod, from what the source has recorded of it: pure.
//!
//! What each target answered stands in the condition `PodScheduled`, in the words of a scheduler: a count and a reason
//! for each group of nodes, where the reason of a virtual node begins with its name. Of a pod that has gone to a target
//! the events tell what the others had said, as long as the cluster keeps them. They tell its stages, too: each by an
//! event of its own if there was one, else by the words of its binding.

use std::cmp::Reverse;

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, Pod};
use pilotage_api::keys;
use pilotage_api::record::Record;
use serde::Serialize;

use crate::program::program;
use crate::table::{age, columns, one_line, plain};

/// The words of a binding may be wrong by so much: they tell long times in whole seconds.
const ROUNDED: SignedDuration = SignedDuration::from_secs(2);

/// Which pod.
#[derive(Clone, Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Name of the pod, or NAMESPACE/NAME.
    #[arg(value_name = "POD")]
    pub(crate) pod: String,
}

/// A target that may take the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Name of its Target or `ClusterTarget`.
    pub(crate) target: String,
    /// Name of its virtual node.
    pub(crate) node: String,
    /// Why it isn't connected, if so.
    pub(crate) lost: Option<String>,
}

/// What became of a pod, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Story {
    pod: String,
    phase: String,
    /// One sentence.
    verdict: String,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    targets: Vec<OfTarget>,
    /// Reasons that are no target's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    others: Vec<String>,
    stages: Vec<Stage>,
}

/// What one target says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OfTarget {
    pub(crate) target: String,
    pub(crate) node: String,
    pub(crate) answer: String,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Stage {
    time: Timestamp,
    what: String,
}

impl Story {
    /// Tells what is known. Unless they are complete, there may be other places, which whoever asks may not see.
    pub(crate) fn of(pod: &Pod, events: &[Event], places: &[Place], complete: bool) -> Self {
        let meta = &pod.metadata;
        let annotation = |key: &str| meta.annotations.as_ref().and_then(|all| all.get(key));
        let status = pod.status.clone().unwrap_or_default();
        let spec = pod.spec.as_ref();
        let bound = spec
            .and_then(|spec| spec.node_name.clone())
            .filter(|node| !node.is_empty());
        let record = annotation(keys::GRANTED_TO).map(|text| text.parse::<Record>());
        let recorded = record
            .as_ref()
            .and_then(|it| it.as_ref().ok())
            .map(|it| it.node.clone());
        let conditions = status.conditions.unwrap_or_default();
        let scheduled = conditions.iter().find(|it| it.type_ == "PodScheduled");
        let why = scheduled
            .filter(|it| it.status != "True")
            .and_then(|it| it.message.as_deref());
        let phase = status.phase.unwrap_or_else(|| "Unknown".to_owned());

        let name_of = |node: &str| {
            let place = places.iter().find(|place| place.node == node);
            place.map(|place| place.target.clone())
        };
        let is_proxy = annotation(keys::SOURCE_POD_MANIFEST).is_some();
        let there = bound.as_deref().and_then(name_of);
        let verdict = if annotation(keys::ELECT).is_none() && !is_proxy {
            format!(
                "it stays in this cluster: it has no annotation {}",
                keys::ELECT
            )
        } else if let Some(daemons) = daemon_set(pod).filter(|_| !is_proxy) {
            // The webhook left it there; its event on the DaemonSet has the same words.
            format!(
                "it stays in this cluster: DaemonSet {daemons:?} places its own pods, so they are not delegated: \
                 annotation {} has no effect in its template",
                keys::ELECT
            )
        } else if !is_proxy {
            format!(
                "it stays in this cluster: the webhook didn't see it when it was created; label its namespace {}={}, \
                 see whether \"pilotage webhook\" runs, and create the pod again",
                keys::NAMESPACE_LABEL,
                keys::NAMESPACE_LABEL_VALUE
            )
        } else if meta.deletion_timestamp.is_some() {
            match &recorded {
                Some(node) => format!(
                    "it is being deleted, and waits until its delegate behind {node} is gone"
                ),
                None => "it is being deleted".to_owned(),
            }
        } else if let Some(node) = &bound {
            match &there {
                Some(target) => format!(
                    "it went to target {target} (virtual node {node}), and is {phase} there"
                ),
                None if complete => {
                    format!("it is bound to {node}, which no Target here stands behind any more")
                }
                None => format!(
                    "it is bound to virtual node {node}, and is {phase} there; no Target that you may see stands \
                     behind it"
                ),
            }
        } else if let Some(Err(error)) = &record {
            format!("it waits: its record is damaged: {error}")
        } else if let Some(node) = &recorded {
            let target = name_of(node).unwrap_or_else(|| node.clone());
            format!("target {target} was granted the pod, and hasn't bound it yet")
        } else if places.is_empty() && complete {
            format!(
                "it waits: no Target of its namespace and no ClusterTarget is there; \"{} connect\" makes one",
                program()
            )
        } else {
            match why {
                Some(why) => format!("it waits: {}", one_line(why)),
                None if places.is_empty() => "it waits: there is no Target that you may see, and no scheduler has \
                    said anything of it"
                    .to_owned(),
                None => "it waits: no scheduler has said anything of it; see whether \"pilotage proxy-scheduler\" \
                    runs"
                    .to_owned(),
            }
        };

        let reasons = why.map(reasons).unwrap_or_default();
        let earlier = if bound.is_some() || recorded.is_some() {
            answered(events)
        } else {
            Vec::new()
        };
        let says = |node: &str| {
            let mut own = reasons
                .iter()
                .chain(&earlier)
                .filter_map(|reason| reason.strip_prefix(node)?.strip_prefix(' '));
            own.next().map(one_line)
        };
        let answer = |place: &Place| {
            let answer = if bound.as_ref() == Some(&place.node) {
                "runs it".to_owned()
            } else if recorded.as_ref() == Some(&place.node) {
                "was granted it".to_owned()
            } else if let Some(said) = says(&place.node) {
                said
            } else if let Some(lost) = &place.lost {
                format!("can't be reached: {}", one_line(lost))
            } else if bound.is_some() {
                "wasn't taken".to_owned()
            } else {
                "has said nothing".to_owned()
            };
            OfTarget {
                target: place.target.clone(),
                node: place.node.clone(),
                answer,
            }
        };
        let others = reasons.iter().filter(|reason| {
            let of = |place: &Place| {
                reason
                    .strip_prefix(&place.node)
                    .is_some_and(|rest| rest.starts_with(' '))
            };
            !places.iter().any(of)
        });
        Self {
            pod: format!(
                "{}/{}",
                meta.namespace.as_deref().unwrap_or_default(),
                meta.name.as_deref().unwrap_or_default()
            ),
            phase,
            verdict,
            target: there,
            targets: places.iter().map(answer).collect(),
            others: others.map(|reason| one_line(reason)).collect(),
            stages: stages(pod, events),
        }
    }

    /// What each target says, and the reasons that are no target's.
    pub(crate) fn into_answers(self) -> (Vec<OfTarget>, Vec<String>) {
        (self.targets, self.others)
    }

    /// For people.
    pub(crate) fn table(&self, now: Timestamp) -> String {
        let Self {
            pod,
            phase,
            verdict,
            target: _,
            targets,
            others,
            stages,
        } = self;
        let mut text = format!("{}\n", plain(&format!("{pod} ({phase}): {verdict}")));
        if !targets.is_empty() {
            let rows: Vec<_> = targets
                .iter()
                .map(|it| [it.target.clone(), it.answer.clone()])
                .collect();
            text = format!("{text}\n{}", columns(&["TARGET", "ANSWER"], &rows));
        }
        for other in others {
            text = format!("{text}beside these: {other}\n");
        }
        if !stages.is_empty() {
            let rows: Vec<_> = stages
                .iter()
                .map(|it| [age(it.time, now), it.what.clone()])
                .collect();
            text = format!("{text}\n{}", columns(&["AGO", "WHAT HAPPENED"], &rows));
        }
        text
    }
}

/// Name of the `DaemonSet` whose controller made it, if one did.
fn daemon_set(pod: &Pod) -> Option<&str> {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let controller = owners.find(|owner| owner.controller == Some(true))?;
    let is_one = controller.kind == "DaemonSet" && controller.api_version.starts_with("apps/");
    is_one.then_some(controller.name.as_str())
}

/// Created, conditions that came true, the stages of its way to a target, and events, the oldest first.
fn stages(pod: &Pod, events: &[Event]) -> Vec<Stage> {
    let created = pod.metadata.creation_timestamp.as_ref();
    let created = created.map(|it| Stage {
        time: it.0,
        what: "created".to_owned(),
    });
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let conditions = conditions
        .into_iter()
        .flatten()
        .filter(|it| it.status == "True");
    let conditions = conditions.filter_map(|it| {
        let time = it.last_transition_time.as_ref()?.0;
        Some(Stage {
            time,
            what: format!("{} became true", it.type_),
        })
    });
    let told = events.iter();
    let told = told.filter_map(|event| Some((event.reason.as_deref()?, last_seen(event)?)));
    let told: Vec<(&str, Timestamp)> = told.collect();
    // Another attempt's would come later.
    let is_told = |stage: &Stage| {
        let word = stage.what.split(' ').next().unwrap_or_default();
        let is_it = |reason: &str, time: Timestamp| {
            reason.eq_ignore_ascii_case(word) && time.duration_since(stage.time) < ROUNDED
        };
        told.iter().any(|(reason, time)| is_it(reason, *time))
    };
    let events = events.iter().filter_map(|event| {
        let time = last_seen(event)?;
        let reason = event.reason.as_deref().unwrap_or_default();
        let message = event.message.as_deref().unwrap_or_default();
        let mut way = match reason {
            "Scheduled" => way(message, time),
            _ => Vec::new(),
        };
        // What else it tells is in the answers of targets.
        let own = if way.is_empty() {
            message
        } else {
            message.split(": ").next().unwrap_or_default()
        };
        let own = Stage {
            time,
            what: one_line(&format!("{reason}: {own}")),
        };
        way.retain(|stage| !is_told(stage));
        Some(way.into_iter().chain([own]))
    });
    let events = events.flatten();
    let mut all: Vec<Stage> = created
        .into_iter()
        .chain(conditions)
        .chain(events)
        .collect();
    all.sort_by_key(|stage| stage.time);
    all
}

/// The stages that the event of a binding tells of, as `… to NODE: asked after 12 ms, bound after 1 s; …`, each with
/// its time: the event is of the last one's.
fn way(message: &str, bound: Timestamp) -> Vec<Stage> {
    let told = message.split_once(": ").map_or("", |(_, told)| told);
    let own = told.split(';').next().unwrap_or_default();
    let steps: Vec<(&str, i64)> = own.split(", ").filter_map(step).collect();
    let last = steps.last().map_or(0, |(_, after)| *after);
    let stage = |(what, after): &(&str, i64)| {
        let before = SignedDuration::from_millis(last.saturating_sub(*after));
        Stage {
            time: bound.checked_sub(before).unwrap_or(bound),
            what: one_line(what),
        }
    };
    steps.iter().map(stage).collect()
}

/// `asked after 12 ms`, and these milliseconds.
fn step(text: &str) -> Option<(&str, i64)> {
    let (_, after) = text.split_once(" after ")?;
    let (number, unit) = after.split_once(' ')?;
    let number: i64 = number.parse().ok()?;
    match unit {
        "ms" => Some((text, number)),
        "s" => Some((text, number.saturating_mul(1000))),
        _ => None,
    }
}

/// When an event was seen last.
fn last_seen(event: &Event) -> Option<Timestamp> {
    let series = event
        .series
        .as_ref()
        .and_then(|it| it.last_observed_time.as_ref())
        .map(|it| it.0);
    let last = event.last_timestamp.as_ref().map(|it| it.0);
    let first = event.event_time.as_ref().map(|it| it.0);
    series.or(last).or(first)
}

/// What targets have answered by the events of a pod, each with the name of its virtual node before it; what was said
/// last comes first.
fn answered(events: &[Event]) -> Vec<&str> {
    let mut told: Vec<(Option<Timestamp>, Vec<&str>)> = events
        .iter()
        .filter_map(|event| {
            let message = event.message.as_deref()?;
            let parts = match event.reason.as_deref()? {
                // `Successfully assigned shop/web to NODE: STAGES; NODE ANSWER; NODE ANSWER`
                "Scheduled" => apart(message.split_once(": ")?.1, ';'),
                "PassedOver" => apart(message, ';'),
                "Refused" => vec![message],
                "FailedScheduling" => reasons(message),
                _ => return None,
            };
            Some((last_seen(event), parts))
        })
        .collect();
    told.sort_by_key(|(time, _)| Reverse(*time));
    told.into_iter().flat_map(|(_, parts)| parts).collect()
}

/// Parts of a text, without the space around them. What is in brackets stays together.
fn apart(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_u32, 0_usize);
    for (at, letter) in text.char_indices() {
        match letter {
            '[' | '(' => depth = depth.saturating_add(1),
            ']' | ')' => depth = depth.saturating_sub(1),
            _ if letter == separator && depth == 0 => {
                parts.extend(text.get(start..at).map(str::trim));
                start = at.saturating_add(separator.len_utf8());
            }
            _ => {}
        }
    }
    parts.extend(text.get(start..).map(str::trim));
    parts
}

/// The reasons in a scheduler's words, without their counts; none if the words are of another form.
fn reasons(message: &str) -> Vec<&str> {
    let Some((count, rest)) = message.split_once(" nodes are available: ") else {
        return Vec::new();
    };
    if !count.starts_with("0/") {
        return Vec::new();
    }
    let rest = rest
        .split_once(" preemption: ")
        .map_or(rest, |(own, _)| own);
    let plain = apart(rest, ',').into_iter().map(|part| {
        let part = part.trim_end_matches('.');
        match part.split_once(' ') {
            Some((count, rest)) if count.bytes().all(|it| it.is_ascii_digit()) => rest,
            _ => part,
        }
    });
    plain.filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
#[path = "explain/tests.rs"]
mod tests;
