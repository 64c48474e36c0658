//! Statuses of containers: those that the proxy's spec has, each once, and none that ended and runs again.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, PodSpec,
};
use serde_json::{Map, Value};

use super::{
    details::{allocated, mounts, requirements, user},
    reader::{MESSAGE, Reader, WORD},
};

/// The three lists of a pod.
#[derive(Clone, Copy, Debug)]
pub(super) enum List {
    Init,
    Plain,
    Ephemeral,
}

impl List {
    fn field(self) -> &'static str {
        match self {
            Self::Init => "initContainerStatuses",
            Self::Plain => "containerStatuses",
            Self::Ephemeral => "ephemeralContainerStatuses",
        }
    }

    /// The containers that the spec has for it; of an ephemeral one nothing but the name counts.
    fn declared(self, spec: &PodSpec) -> BTreeMap<&str, Option<&Container>> {
        let named = |container| (name(container), Some(container));
        match self {
            Self::Init => spec.init_containers.iter().flatten().map(named).collect(),
            Self::Plain => spec.containers.iter().map(named).collect(),
            Self::Ephemeral => {
                let all = spec.ephemeral_containers.iter().flatten();
                all.map(|container| (&*container.name, None)).collect()
            }
        }
    }
}

fn name(container: &Container) -> &str {
    &container.name
}

/// What the delegate says of the containers of one list, where the proxy has `known` by now.
pub(super) fn containers(
    reader: &mut Reader,
    status: &Map<String, Value>,
    list: List,
    spec: &PodSpec,
    known: Option<&[ContainerStatus]>,
) -> Option<Vec<ContainerStatus>> {
    let field = list.field();
    let declared = list.declared(spec);
    let known: BTreeMap<&str, &ContainerStatus> = known
        .into_iter()
        .flatten()
        .map(|status| (&*status.name, status))
        .collect();
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for said in reader.objects(status, field) {
        let name = said.get("name").and_then(Value::as_str);
        let found = name.and_then(|name| declared.get_key_value(name));
        let Some((name, container)) = found.filter(|(name, _)| seen.insert(**name)) else {
            reader.withhold(field);
            continue;
        };
        let said = read(reader, said, name, *container, spec);
        let runs = said.state.as_ref().is_none_or(|s| s.terminated.is_none());
        match known.get(name) {
            Some(known) if runs && is_over(known, *container, spec) => {
                reader.withhold(field);
                all.push((*known).clone());
            }
            _ => all.push(said),
        }
    }
    (!all.is_empty()).then_some(all)
}

fn read(
    reader: &mut Reader,
    said: &Map<String, Value>,
    name: &str,
    container: Option<&Container>,
    spec: &PodSpec,
) -> ContainerStatus {
    ContainerStatus {
        name: name.to_owned(),
        state: Some(state(reader, said, "state")),
        last_state: Some(state(reader, said, "lastState")),
        ready: reader.flag(said, "ready").unwrap_or_default(),
        started: reader.flag(said, "started"),
        restart_count: reader
            .number(said, "restartCount", &(0..=i32::MAX))
            .unwrap_or_default(),
        image: reader.text(said, "image", WORD).unwrap_or_default(),
        image_id: reader.text(said, "imageID", WORD).unwrap_or_default(),
        container_id: reader.text(said, "containerID", WORD),
        stop_signal: reader.word(said, "stopSignal"),
        resources: requirements(reader, said),
        allocated_resources: reader.quantities(said, "allocatedResources"),
        allocated_resources_status: allocated(reader, said, container),
        volume_mounts: mounts(reader, said),
        user: user(reader, said, spec),
    }
}

/// A container is in one state.
fn state(
    reader: &mut Reader,
    container: &Map<String, Value>,
    field: &'static str,
) -> ContainerState {
    let mut state = ContainerState::default();
    let Some(said) = reader.object(container, field) else {
        return state;
    };
    if let Some(said) = reader.object(said, "terminated") {
        let any = &(i32::MIN..=i32::MAX);
        state.terminated = Some(ContainerStateTerminated {
            exit_code: reader.number(said, "exitCode", any).unwrap_or_default(),
            signal: reader.number(said, "signal", any).filter(|it| *it != 0),
            reason: reader.text(said, "reason", WORD),
            message: reader.text(said, "message", MESSAGE),
            started_at: reader.time(said, "startedAt"),
            finished_at: reader.time(said, "finishedAt"),
            container_id: reader.text(said, "containerID", WORD),
        });
    } else if let Some(said) = reader.object(said, "running") {
        state.running = Some(ContainerStateRunning {
            started_at: reader.time(said, "startedAt"),
        });
    } else if let Some(said) = reader.object(said, "waiting") {
        state.waiting = Some(ContainerStateWaiting {
            reason: reader.text(said, "reason", WORD),
            message: reader.text(said, "message", MESSAGE),
        });
    }
    state
}

// ---- what has ended ---------------------------------------------------------------------------------------------

/// Whether the API server refuses any status in which this container hasn't ended.
fn is_over(known: &ContainerStatus, container: Option<&Container>, spec: &PodSpec) -> bool {
    let state = known.state.as_ref();
    let Some(ended) = state.and_then(|state| state.terminated.as_ref()) else {
        return false;
    };
    container.is_none_or(|container| !may_restart(container, ended.exit_code, spec))
}

/// Whether the kubelet may start a container again that ended with this code.
fn may_restart(container: &Container, exit_code: i32, spec: &PodSpec) -> bool {
    let all = spec.init_containers.iter().flatten();
    let mut rules = all
        .chain(&spec.containers)
        .flat_map(|container| container.restart_policy_rules.iter().flatten());
    if rules.any(|rule| rule.action == "RestartAllContainers") {
        return true;
    }
    let by_policy = |policy: &str| match policy {
        "Always" => Some(true),
        "OnFailure" => Some(exit_code != 0),
        "Never" => Some(false),
        _ => None,
    };
    let own = container.restart_policy.as_deref();
    if own.is_some() && restarts_by_rule(container, exit_code) {
        return true;
    }
    let of_pod = || spec.restart_policy.as_deref().and_then(by_policy);
    own.and_then(by_policy).or_else(of_pod).unwrap_or(true)
}

/// Whether the first of a container's rules that speaks of this code restarts it.
fn restarts_by_rule(container: &Container, exit_code: i32) -> bool {
    let mut rules = container.restart_policy_rules.iter().flatten();
    let rule = rules.find(|rule| {
        rule.exit_codes.as_ref().is_some_and(|codes| {
            let listed = codes.values.iter().flatten().any(|code| *code == exit_code);
            match &*codes.operator {
                "In" => listed,
                "NotIn" => !listed,
                _ => false,
            }
        })
    });
    rule.is_some_and(|rule| rule.action == "Restart")
}
