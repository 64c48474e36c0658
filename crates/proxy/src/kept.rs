//! What is kept of proxy pods: what somebody reads of them.
//!
//! Of one that is too heavy even so, only who it is and what the protocol reads is left, and a mark says what is
//! missing. It ends and is released as any other, and it is placed as long as nothing is missing that says where it may
//! run. Who weighs is an argument.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::core::v1::{
        ConfigMapProjection, Container, EphemeralContainer, Pod, PodSpec, PodStatus,
        ProjectedVolumeSource, SecretProjection, Volume, VolumeProjection,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use pilotage_api::{bounds, keys, left_out, limits::KEY};
use pilotage_model::followed::{Kind, Need, needs, required};
use serde::Serialize;
use serde_json::Value;

/// Annotations that the protocol, or a ranking, reads. Of the manifest only that it is there is kept.
const ANNOTATIONS: [&str; 9] = [
    keys::GRANTED_TO,
    keys::RECORDED,
    keys::NO_RESERVATION,
    keys::WHAT_IF,
    keys::REPLACE_AFTER,
    keys::REGION,
    keys::CLOUD_PROVIDER,
    keys::ZONES,
    keys::ACCESS_RESTRICTIONS,
];
/// Those of them whose whole text may be long.
const LISTS: [&str; 2] = [keys::ZONES, keys::ACCESS_RESTRICTIONS];
/// Longest text of the others. A longer one means nothing.
const LONGEST: usize = 1024;
/// How many finalizers may be known of a heavy pod.
pub(crate) const FINALIZERS: usize = 16;
/// What all that is kept of a heavy pod may weigh, besides who it is.
pub(crate) const ROOM: usize = 48 << 10;

/// Where a manifest stands.
const MANIFEST: Field = &["metadata", "annotations", keys::SOURCE_POD_MANIFEST];
/// Where finalizers stand.
const KEEPERS: Field = &["metadata", "finalizers"];

/// A field of an object: keys, one within the other.
type Field = &'static [&'static str];

/// What is read of a pod that is too heavy to be read whole.
pub const OUTLINE: [Field; 50] = [
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "uid"],
    &["metadata", "resourceVersion"],
    &["metadata", "generation"],
    &["metadata", "creationTimestamp"],
    &["metadata", "deletionTimestamp"],
    &["metadata", "deletionGracePeriodSeconds"],
    &["metadata", "labels"],
    &["metadata", "ownerReferences"],
    KEEPERS,
    MANIFEST,
    &["metadata", "annotations", keys::GRANTED_TO],
    &["metadata", "annotations", keys::RECORDED],
    &["metadata", "annotations", keys::NO_RESERVATION],
    &["metadata", "annotations", keys::WHAT_IF],
    &["metadata", "annotations", keys::REPLACE_AFTER],
    &["metadata", "annotations", keys::REGION],
    &["metadata", "annotations", keys::CLOUD_PROVIDER],
    &["metadata", "annotations", keys::ZONES],
    &["metadata", "annotations", keys::ACCESS_RESTRICTIONS],
    &["spec", "affinity"],
    &["spec", "containers"],
    &["spec", "ephemeralContainers"],
    &["spec", "hostNetwork"],
    &["spec", "hostUsers"],
    &["spec", "imagePullSecrets"],
    &["spec", "initContainers"],
    &["spec", "nodeName"],
    &["spec", "nodeSelector"],
    &["spec", "os"],
    &["spec", "overhead"],
    &["spec", "preemptionPolicy"],
    &["spec", "priority"],
    &["spec", "readinessGates"],
    &["spec", "resourceClaims"],
    &["spec", "resources"],
    &["spec", "restartPolicy"],
    &["spec", "schedulerName"],
    &["spec", "schedulingGates"],
    &["spec", "schedulingGroup"],
    &["spec", "terminationGracePeriodSeconds"],
    &["spec", "tolerations"],
    &["spec", "topologySpreadConstraints"],
    &["spec", "volumes"],
    &["status", "conditions"],
    &["status", "nominatedNodeName"],
    &["status", "phase"],
    &["status", "reason"],
    &["status", "startTime"],
];

/// What isn't known of a pod that is too heavy to be kept whole: with each of these goes all before it, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// Nothing.
    #[default]
    Nothing,
    /// Its manifest, annotations that nobody here writes or asks for, what it says of its containers' state, and maybe
    /// what it names.
    Words,
    /// Something that says where it may run.
    Rules,
    /// Who else keeps it by a finalizer.
    Finalizers,
}

impl LeftOut {
    /// What isn't known of this one.
    pub fn of(pod: &Pod) -> Self {
        match left_out::word(&pod.metadata) {
            None => Self::Nothing,
            Some("words") => Self::Words,
            Some("rules") => Self::Rules,
            Some(_) => Self::Finalizers,
        }
    }

    fn mark(self, pod: &mut Pod) {
        let word = match self {
            Self::Nothing => return,
            Self::Words => "words",
            Self::Rules => "rules",
            Self::Finalizers => "finalizers",
        };
        left_out::mark(&mut pod.metadata, word);
    }

    /// What goes with a field that isn't there.
    fn with(field: Field) -> Self {
        match field {
            MANIFEST
            | ["status", ..]
            | [
                "spec",
                "ephemeralContainers"
                | "imagePullSecrets"
                | "readinessGates"
                | "resourceClaims"
                | "volumes",
            ] => Self::Words,
            KEEPERS => Self::Finalizers,
            _ => Self::Rules,
        }
    }
}

// ---- what nobody reads ------------------------------------------------------------------------------------------

/// Takes off a pod what nobody reads. What it names of `ConfigMap`s and Secrets stands in one volume afterwards.
pub fn lean(pod: &mut Pod) {
    let Some(spec) = &mut pod.spec else { return };
    let required = required(spec);
    let named = needs(spec).into_iter();
    let named = named.map(|need| {
        let optional = (!required.contains(&need)).then_some(true);
        source(need, optional)
    });
    let named: Vec<_> = named.collect();
    let named = (!named.is_empty()).then(|| Volume {
        projected: Some(ProjectedVolumeSource {
            sources: Some(named),
            ..ProjectedVolumeSource::default()
        }),
        ..Volume::default()
    });
    let mut claims = BTreeSet::new();
    let own = spec.volumes.take().into_iter().flatten();
    let own = own.filter_map(|volume| {
        let claim = volume.persistent_volume_claim;
        let claim = claim.filter(|claim| claims.insert(claim.claim_name.clone()));
        let image = volume.image;
        (claim.is_some() || image.is_some()).then(|| Volume {
            persistent_volume_claim: claim,
            image,
            ..Volume::default()
        })
    });
    let volumes: Vec<_> = own.chain(named).collect();
    spec.volumes = (!volumes.is_empty()).then_some(volumes);
    spec.image_pull_secrets = None;
    spec.containers.iter_mut().for_each(bare);
    spec.init_containers.iter_mut().flatten().for_each(bare);
    for debug in spec.ephemeral_containers.iter_mut().flatten() {
        let EphemeralContainer { name, image, .. } = std::mem::take(debug);
        *debug = EphemeralContainer {
            name,
            image,
            ..EphemeralContainer::default()
        };
    }
    spec.dns_config = None;
    spec.host_aliases = None;
    spec.security_context = None;
}

fn source(Need { kind, name }: Need, optional: Option<bool>) -> VolumeProjection {
    match kind {
        Kind::Secret => VolumeProjection {
            secret: Some(SecretProjection {
                name,
                optional,
                ..SecretProjection::default()
            }),
            ..VolumeProjection::default()
        },
        // No pod names a Service.
        Kind::ConfigMap | Kind::Service | Kind::Ingress => VolumeProjection {
            config_map: Some(ConfigMapProjection {
                name,
                optional,
                ..ConfigMapProjection::default()
            }),
            ..VolumeProjection::default()
        },
    }
}

fn bare(container: &mut Container) {
    let Container {
        name,
        image,
        ports,
        resources,
        restart_policy,
        restart_policy_rules,
        ..
    } = std::mem::take(container);
    let ports = ports.into_iter().flatten();
    let ports: Vec<_> = ports.filter(|port| port.host_port.is_some()).collect();
    *container = Container {
        name,
        image,
        ports: (!ports.is_empty()).then_some(ports),
        resources,
        restart_policy,
        restart_policy_rules,
        ..Container::default()
    };
}

// ---- what a heavy one is kept without ---------------------------------------------------------------------------

/// Takes off a pod all that the protocol doesn't read, and what is too heavy of the rest.
pub fn slim(pod: &mut Pod, weigh: impl Fn(&Value) -> usize) {
    let mut parts = Parts {
        weigh,
        room: ROOM,
        left_out: LeftOut::of(pod).max(LeftOut::Words),
    };
    let meta = std::mem::take(&mut pod.metadata);
    let labels = parts.rule(meta.labels);
    pod.spec = pod.spec.take().map(|spec| parts.spec(spec));
    pod.status = pod.status.take().map(|status| parts.status(status));
    let owners = meta.owner_references.map(|mut owners| {
        owners.retain(|owner| owner.controller == Some(true));
        owners
    });
    pod.metadata = ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        uid: meta.uid,
        resource_version: meta.resource_version,
        generation: meta.generation,
        creation_timestamp: meta.creation_timestamp,
        deletion_timestamp: meta.deletion_timestamp,
        deletion_grace_period_seconds: meta.deletion_grace_period_seconds,
        owner_references: parts.rule(owners),
        finalizers: parts.finalizers(meta.finalizers),
        annotations: meta.annotations.map(|all| parts.annotations(all)),
        labels,
        ..ObjectMeta::default()
    };
    parts.left_out.mark(pod);
}

/// Finishes a pod of which the [`OUTLINE`] alone was read, and of that not what was `left_out`.
pub fn outlined(pod: &mut Pod, left_out: &[Field], weigh: impl Fn(&Value) -> usize) {
    if left_out.contains(&MANIFEST) {
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert(keys::SOURCE_POD_MANIFEST.to_owned(), String::new());
    }
    lean(pod);
    slim(pod, weigh);
    let missing = left_out.iter().copied().map(LeftOut::with).max();
    missing.unwrap_or_default().max(LeftOut::of(pod)).mark(pod);
}

/// What is left of a heavy pod, part by part.
struct Parts<W> {
    weigh: W,
    room: usize,
    left_out: LeftOut,
}

impl<W: Fn(&Value) -> usize> Parts<W> {
    /// A part, if there is room for it.
    fn part<T: Serialize>(&mut self, part: Option<T>, with_it: LeftOut) -> Option<T> {
        let part = part?;
        let weight = serde_json::to_value(&part).map_or(usize::MAX, |it| (self.weigh)(&it));
        let Some(room) = self.room.checked_sub(weight) else {
            self.left_out = self.left_out.max(with_it);
            return None;
        };
        self.room = room;
        Some(part)
    }

    /// A part that says where the pod may run.
    fn rule<T: Serialize>(&mut self, part: Option<T>) -> Option<T> {
        self.part(part, LeftOut::Rules)
    }

    /// Any other part.
    fn word<T: Serialize>(&mut self, part: Option<T>) -> Option<T> {
        self.part(part, LeftOut::Words)
    }

    fn spec(&mut self, spec: PodSpec) -> PodSpec {
        PodSpec {
            node_name: spec.node_name,
            scheduler_name: spec.scheduler_name,
            priority: spec.priority,
            preemption_policy: spec.preemption_policy,
            restart_policy: spec.restart_policy,
            termination_grace_period_seconds: spec.termination_grace_period_seconds,
            host_network: spec.host_network,
            host_users: spec.host_users,
            os: spec.os,
            scheduling_gates: self.rule(spec.scheduling_gates),
            containers: self.rule(Some(spec.containers)).unwrap_or_default(),
            init_containers: self.rule(spec.init_containers),
            node_selector: self.rule(spec.node_selector),
            affinity: self.rule(spec.affinity),
            topology_spread_constraints: self.rule(spec.topology_spread_constraints),
            tolerations: self.rule(spec.tolerations),
            overhead: self.rule(spec.overhead),
            resources: self.rule(spec.resources),
            scheduling_group: self.rule(spec.scheduling_group),
            volumes: self.word(spec.volumes),
            resource_claims: self.word(spec.resource_claims),
            ephemeral_containers: self.word(spec.ephemeral_containers),
            readiness_gates: self.word(spec.readiness_gates),
            ..PodSpec::default()
        }
    }

    /// Its phase, and whether it has a place.
    fn status(&mut self, status: PodStatus) -> PodStatus {
        let conditions = status.conditions.map(|mut all| {
            all.retain(|condition| condition.type_ == "PodScheduled");
            all
        });
        PodStatus {
            phase: status.phase,
            nominated_node_name: status.nominated_node_name,
            conditions: self.word(conditions),
            ..PodStatus::default()
        }
    }

    /// All of them or, if they are too many, ours.
    fn finalizers(&mut self, all: Option<Vec<String>>) -> Option<Vec<String>> {
        let mut all = all?;
        if all.len() > FINALIZERS || all.iter().any(|it| it.len() > KEY) {
            self.left_out = LeftOut::Finalizers;
            all.retain(|it| it == keys::DELEGATE_GONE);
            all.truncate(1);
        }
        Some(all)
    }

    fn annotations(&mut self, mut all: BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut kept = BTreeMap::new();
        for key in ANNOTATIONS {
            let Some(text) = all.remove(key) else {
                continue;
            };
            let text = if text.len() <= LONGEST {
                text
            } else if LISTS.contains(&key) {
                let Some(text) = self.rule(Some(text)) else {
                    continue;
                };
                text
            } else {
                format!("{}…", bounds::cut(&text, LONGEST))
            };
            kept.insert(key.to_owned(), text);
        }
        if all.contains_key(keys::SOURCE_POD_MANIFEST) {
            kept.insert(keys::SOURCE_POD_MANIFEST.to_owned(), String::new());
        }
        kept
    }
}

#[cfg(test)]
mod tests;
