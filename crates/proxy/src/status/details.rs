//! What a container's status says besides its state: resources, mounts, the user.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    Container, ContainerUser, ImageVolumeStatus, LinuxContainerUser, PodSpec, ResourceClaim,
    ResourceHealth, ResourceRequirements, ResourceStatus, VolumeMountStatus, VolumeStatus,
};
use serde_json::{Map, Value};

use super::reader::{Reader, WORD};

/// Longest reference of an image in a volume.
const LONGEST_REFERENCE: usize = 256;

const HEALTHS: [&str; 3] = ["Healthy", "Unhealthy", "Unknown"];
const RECURSIVE: [&str; 3] = ["Disabled", "IfPossible", "Enabled"];

/// `resources`, of a container or of a pod.
pub(super) fn requirements(
    reader: &mut Reader,
    status: &Map<String, Value>,
) -> Option<ResourceRequirements> {
    let said = reader.object(status, "resources")?;
    let mut claims = Vec::new();
    for claim in reader.entries(said, "claims") {
        if let Some(name) = reader.word(claim, "name") {
            let request = reader.word(claim, "request");
            claims.push(ResourceClaim { name, request });
        }
    }
    Some(ResourceRequirements {
        claims: (!claims.is_empty()).then_some(claims),
        limits: reader.quantities(said, "limits"),
        requests: reader.quantities(said, "requests"),
    })
}

/// `allocatedResourcesStatus`: the API server takes it for what the container asks for, and not for an ephemeral one.
pub(super) fn allocated(
    reader: &mut Reader,
    status: &Map<String, Value>,
    container: Option<&Container>,
) -> Option<Vec<ResourceStatus>> {
    const FIELD: &str = "allocatedResourcesStatus";
    let entries = reader.entries(status, FIELD);
    if entries.is_empty() {
        return None;
    }
    let mut asked = container.map(asked).unwrap_or_default();
    let mut all = Vec::new();
    for said in entries {
        let name = said.get("name").and_then(Value::as_str);
        let Some(name) = name.and_then(|name| asked.take(name)) else {
            reader.withhold(FIELD);
            continue;
        };
        let mut seen = BTreeSet::new();
        let mut resources = Vec::new();
        for said in reader.entries(said, "resources") {
            let (Some(resource_id), Some(health)) = (
                reader.word(said, "resourceID"),
                reader.one_of(said, "health", &HEALTHS),
            ) else {
                continue;
            };
            if seen.insert(resource_id.clone()) {
                resources.push(ResourceHealth {
                    resource_id,
                    health: Some(health),
                    message: reader.text(said, "message", WORD),
                });
            }
        }
        all.push(ResourceStatus {
            name,
            resources: (!resources.is_empty()).then_some(resources),
        });
    }
    (!all.is_empty()).then_some(all)
}

/// Names of what a container asks for, as its status spells them.
fn asked(container: &Container) -> BTreeSet<String> {
    let resources = container.resources.as_ref();
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    let claims = resources.and_then(|resources| resources.claims.as_ref());
    let claims = claims.into_iter().flatten().map(|claim| {
        let request = claim.request.as_deref().filter(|it| !it.is_empty());
        match request {
            Some(request) => format!("claim:{}/{request}", claim.name),
            None => format!("claim:{}", claim.name),
        }
    });
    let requests = requests.into_iter().flatten().map(|(name, _)| name.clone());
    requests.chain(claims).collect()
}

/// `volumeMounts`.
pub(super) fn mounts(
    reader: &mut Reader,
    status: &Map<String, Value>,
) -> Option<Vec<VolumeMountStatus>> {
    let mut all = Vec::new();
    for said in reader.entries(status, "volumeMounts") {
        let (Some(name), Some(mount_path)) =
            (reader.word(said, "name"), reader.word(said, "mountPath"))
        else {
            continue;
        };
        all.push(VolumeMountStatus {
            name,
            mount_path,
            read_only: reader.flag(said, "readOnly").filter(|it| *it),
            recursive_read_only: reader.one_of(said, "recursiveReadOnly", &RECURSIVE),
            volume_status: volume(reader, said),
        });
    }
    (!all.is_empty()).then_some(all)
}

fn volume(reader: &mut Reader, mount: &Map<String, Value>) -> Option<VolumeStatus> {
    let said = reader.object(mount, "volumeStatus")?;
    let image = reader.object(said, "image")?;
    let image_ref = reader.word(image, "imageRef")?;
    if image_ref.len() > LONGEST_REFERENCE {
        reader.withhold("volumeStatus");
        return None;
    }
    Some(VolumeStatus {
        image: Some(ImageVolumeStatus { image_ref }),
    })
}

/// `user`: the API server takes IDs that Linux has, and none for Windows.
pub(super) fn user(
    reader: &mut Reader,
    status: &Map<String, Value>,
    spec: &PodSpec,
) -> Option<ContainerUser> {
    const IDS: std::ops::RangeInclusive<i64> = 0..=i32::MAX as i64;
    let said = reader.object(status, "user")?;
    let mut user = ContainerUser::default();
    let windows = spec.os.as_ref().is_some_and(|os| os.name == "windows");
    let Some(linux) = reader.object(said, "linux").filter(|_| !windows) else {
        return Some(user);
    };
    let id = |field: &str| {
        let value = linux.get(field);
        value.map_or(Some(0), |id| id.as_i64().filter(|id| IDS.contains(id)))
    };
    let (Some(uid), Some(gid)) = (id("uid"), id("gid")) else {
        reader.withhold("user");
        return Some(user);
    };
    let groups = reader.numbers(linux, "supplementalGroups", &IDS);
    user.linux = Some(LinuxContainerUser {
        uid,
        gid,
        supplemental_groups: (!groups.is_empty()).then_some(groups),
    });
    Some(user)
}
