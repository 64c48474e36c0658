//! A virtual node as a candidate of seed selection: what node and Target say of provider, region, zones, access and
//! room.
//!
//! Made when one of the two changes, never for a pod. The word of a Target counts before that of its node, and one
//! under our prefix before a well-known label. It knows no pod.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::{Node, Taint};
use pilotage_api::{
    bounds, keys, limits,
    summary::{FreeShape, ResourceList},
};
use pilotage_placement::{Candidate, Readiness, Region, Resource, Taint as Marked, ZoneMode};
use pilotage_sched::{
    resources::Resources,
    taints::{Effect, Taint as HardTaint},
};

use super::words::{NO_WORDS, Words};
use crate::rank::Room;

/// How many annotations of a target the rules may look at, and how long they are at most. The others are notes to
/// somebody.
const ANNOTATIONS: usize = 256;
/// How many labels of a target count.
const LABELS: usize = 1024;

/// What a node and its Target say under one key. A text that is longer than it may be says nothing: that is told in the
/// Target's status.
struct Said<'a> {
    node: &'a Node,
    words: &'a Words,
}

impl<'a> Said<'a> {
    fn label(&self, key: &str) -> Option<&'a str> {
        self.node
            .metadata
            .labels
            .as_ref()?
            .get(key)
            .map(|text| &**text)
    }

    /// Said by the Target under our prefix, as a label or an annotation.
    fn by_target(&self, key: &str) -> Option<&'a str> {
        let words = self.words;
        let said = words.labels.get(key).or(words.annotations.get(key));
        said.map(|text| text.trim())
    }

    /// The same of its node.
    fn by_node(&self, key: &str) -> Option<&'a str> {
        let annotations = self.node.metadata.annotations.as_ref();
        let annotation = annotations.and_then(|all| all.get(key)).map(|text| &**text);
        self.label(key).or(annotation).map(str::trim)
    }

    /// A name said under our prefix: by the Target, or else by the node.
    fn of(&self, key: &str) -> Option<&'a str> {
        let said = self.by_target(key).or_else(|| self.by_node(key))?;
        (!said.is_empty() && said.len() <= limits::LABEL).then_some(said)
    }

    /// Said under our prefix or by one of these labels, in so many bytes: by the Target, or else by the node.
    fn of_or_labelled(&self, key: &str, labels: [&str; 2], longest: usize) -> Option<&'a str> {
        let target = labels.map(|label| self.words.labels.get(label).map(|text| &**text));
        let node = labels.map(|label| self.label(label));
        let mut said = [self.by_target(key)]
            .into_iter()
            .chain(target)
            .chain([self.by_node(key)])
            .chain(node);
        said.find_map(|said| said.filter(|text| !text.is_empty() && text.len() <= longest))
    }

    /// Access restrictions that are supported: those of which the Target says so, or the node where the Target says
    /// nothing.
    fn supported(&self) -> impl Iterator<Item = &'a str> {
        let node = self.node.metadata.labels.iter().flatten();
        let silent = node.filter(|(key, _)| !self.words.labels.contains_key(*key));
        self.words
            .labels
            .iter()
            .chain(silent)
            .filter(|(_, value)| *value == keys::TRUE)
            .filter_map(|(key, _)| key.strip_prefix(keys::ACCESS_PREFIX))
            .take(limits::LISTED)
    }

    /// `aws` of `aws:///eu-west-1a/i-1`; our own scheme says nothing.
    fn scheme(&self) -> Option<&'a str> {
        let id = self.node.spec.as_ref()?.provider_id.as_deref()?;
        let (scheme, _) = id.split_once("://")?;
        let is_name = !scheme.is_empty() && scheme.len() <= limits::LABEL;
        (is_name && scheme != keys::PROVIDER_VALUE).then_some(scheme)
    }
}

/// The region and the provider of a node that is no virtual one.
pub(super) fn location(node: &Node) -> (Option<&str>, Option<&str>) {
    let said = Said {
        node,
        words: &NO_WORDS,
    };
    (
        said.of_or_labelled(keys::REGION, keys::REGION_LABELS, limits::LABEL),
        said.of(keys::CLOUD_PROVIDER).or_else(|| said.scheme()),
    )
}

/// Names separated by commas, as many as a list may have, but for those that are too long.
pub(super) fn list(text: &str) -> impl Iterator<Item = &str> {
    limits::names(bounds::cut(text, limits::LIST))
        .filter(|name| name.len() <= limits::LABEL)
        .take(limits::LISTED)
}

/// The name under which the pipeline knows a taint: it compares keys and values alone, a pod's tolerations more.
pub(super) fn taint_name(taint: &HardTaint) -> String {
    let effect = match taint.effect {
        Effect::NoSchedule => "NoSchedule",
        Effect::PreferNoSchedule => "PreferNoSchedule",
        Effect::NoExecute => "NoExecute",
    };
    let HardTaint { key, value, .. } = taint;
    if value.is_empty() {
        format!("{key}:{effect}")
    } else {
        format!("{key}={value}:{effect}")
    }
}

/// Taints that keep pods away.
pub(super) fn hard_taints(node: &Node) -> impl Iterator<Item = HardTaint> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let parsed = taints
        .into_iter()
        .flatten()
        .filter_map(|taint: &Taint| HardTaint::parse(taint));
    parsed.filter(|taint| taint.effect.is_hard())
}

/// The candidate; nothing is placed there yet as far as it says.
pub(super) fn candidate(node: &Node, words: &Words) -> Candidate {
    let said = Said { node, words };
    let meta = &node.metadata;
    let region = said.of_or_labelled(keys::REGION, keys::REGION_LABELS, limits::LABEL);
    let zones = said.of_or_labelled(keys::ZONES, keys::ZONE_LABELS, limits::LIST);
    let zones = zones.map(|zones| list(zones).map(str::to_owned).collect());
    // What a pod selects are the labels of the node, so these count.
    let labels = words.labels.iter().take(LABELS);
    let labels = labels.chain(meta.labels.iter().flatten().take(LABELS));
    let annotations = meta.annotations.iter().flatten();
    let annotations = annotations
        .filter(|(key, _)| ![keys::FREE, keys::FREE_SHAPES].contains(&key.as_str()))
        .chain(&words.annotations)
        .filter(|(_, value)| value.len() <= limits::KEY)
        .take(ANNOTATIONS);
    Candidate {
        name: meta.name.as_deref().unwrap_or_default().into(),
        deleting: meta.deletion_timestamp.is_some(),
        readiness: readiness(node),
        provider: said
            .of(keys::CLOUD_PROVIDER)
            .or_else(|| said.scheme())
            .unwrap_or_default()
            .into(),
        region: Region::new(region.unwrap_or_default()),
        zones: zones.unwrap_or_default(),
        zone_mode: ZoneMode::Prefer,
        access_restrictions: said.supported().map(str::to_owned).collect(),
        taints: hard_taints(node)
            .map(|taint| Marked {
                key: taint_name(&taint),
                value: None,
            })
            .collect(),
        resources: resources(node),
        labels: labels.collect(),
        annotations: annotations.collect(),
        ..Candidate::default()
    }
}

fn readiness(node: &Node) -> Readiness {
    let conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.filter(|condition| condition.type_ == "Ready");
    match ready.next() {
        None => Readiness::NotReady("it hasn't said so yet".into()),
        Some(condition) if condition.status == "True" => Readiness::Ready,
        Some(condition) => {
            let reason = condition.reason.as_deref().unwrap_or(&condition.status);
            Readiness::NotReady(bounds::cut(reason, limits::SUBDOMAIN).into())
        }
    }
}

/// CPU and memory of the whole target, and how much of them isn't published as free. A target that publishes no
/// free room has none of both: nobody knows how full it is.
fn resources(node: &Node) -> Vec<Resource> {
    let allocatable = node
        .status
        .as_ref()
        .and_then(|status| status.allocatable.as_ref());
    let (Some((cpu, memory)), Some(allocatable)) = (free(node), allocatable) else {
        return Vec::new();
    };
    let allocatable = Resources::parse(allocatable, |_, _| {});
    [
        ("cpu", allocatable.milli_cpu, cpu),
        ("memory", allocatable.memory, memory),
    ]
    .map(|(name, allocatable, free)| Resource {
        name: Arc::from(name),
        allocatable: Some(allocatable),
        used: allocatable.saturating_sub(free).max(0),
    })
    .into()
}

/// CPU and memory that a target publishes as free: their sum, or else what the shapes of its roomiest nodes come to,
/// which is less.
fn free(node: &Node) -> Option<(i64, i64)> {
    let annotations = node.metadata.annotations.as_ref()?;
    let sum = annotations
        .get(keys::FREE)
        .and_then(|text| serde_json::from_str::<ResourceList>(text).ok());
    if let Some(sum) = sum {
        let sum = Resources::parse(&sum, |_, _| {});
        return Some((sum.milli_cpu, sum.memory));
    }
    let shapes = annotations
        .get(keys::FREE_SHAPES)
        .and_then(|text| serde_json::from_str::<Vec<FreeShape>>(text).ok())?;
    let (mut cpu, mut memory) = (0_i64, 0_i64);
    for (nodes, free) in Room::shapes_of(&shapes) {
        cpu = cpu.saturating_add(nodes.saturating_mul(free.milli_cpu));
        memory = memory.saturating_add(nodes.saturating_mul(free.memory));
    }
    Some((cpu, memory))
}

/// Every taint of these nodes that keeps pods away, once.
pub(super) fn all_taints<'a>(nodes: impl Iterator<Item = &'a Node>) -> Vec<(String, HardTaint)> {
    let mut known = BTreeSet::new();
    let mut taints = Vec::new();
    for taint in nodes.flat_map(hard_taints) {
        let name = taint_name(&taint);
        if known.insert(name.clone()) {
            taints.push((name, taint));
        }
    }
    taints
}
