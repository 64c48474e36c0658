//! Seed: a cluster that hosts control planes. It becomes a candidate right away, everything in it parsed once.

use std::sync::Arc;

use pilotage_placement::{
    Candidate, CandidateNetworks, Cidr, Readiness, Region, Resource, Taint, ZoneMode,
};
use pilotage_sched::quantity::Quantity;
use serde_json::Value;

use crate::fields::{Field, FieldError};
use crate::usage::{SHOOTS, shoots};

/// Annotation by which an operator stops all reconciliations of Shoots.
const EMERGENCY_STOP: &str = "shoot.gardener.cloud/emergency-stop-reconciliations";

/// Annotation in which kubectl keeps what was applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Reads a Seed. Nothing is placed there yet: [`crate::Usage`] counts that.
pub fn seed(value: &Value) -> Result<Candidate, FieldError> {
    let root = Field::root(value);
    let metadata = root.get("metadata")?;
    let spec = root.get("spec")?;
    let provider = spec.get("provider")?;
    let mut annotations = metadata.get("annotations")?.string_map()?;
    // The whole object once more.
    annotations.remove(LAST_APPLIED);
    let restrictions = spec.get("accessRestrictions")?.list()?;
    let restrictions = restrictions
        .iter()
        .map(|restriction| Ok(restriction.get("name")?.label()?.to_owned()))
        .collect::<Result<Vec<_>, FieldError>>()?;
    let mut domains = Vec::new();
    for default in spec.at(&["dns", "defaults"])?.list()? {
        domains.push(default.get("domain")?.name()?.to_owned());
    }
    let mut taints = Vec::new();
    for taint in spec.get("taints")?.list()? {
        taints.push(Taint {
            key: taint.get("key")?.name()?.to_owned(),
            value: taint.get("value")?.string()?.map(ToOwned::to_owned),
        });
    }
    Ok(Candidate {
        name: metadata.get("name")?.name()?.into(),
        labels: metadata.get("labels")?.string_map()?.into_iter().collect(),
        deleting: metadata.get("deletionTimestamp")?.string()?.is_some(),
        visible: visible(&spec)?,
        readiness: readiness(&root)?,
        provider: provider.get("type")?.label()?.into(),
        region: Region::new(provider.get("region")?.label()?),
        zones: provider.get("zones")?.labels()?,
        zone_mode: zone_mode(&spec.at(&["settings", "zoneSelection", "mode"])?)?,
        access_restrictions: restrictions.into_iter().collect(),
        domains,
        stopped: annotations
            .get(EMERGENCY_STOP)
            .is_some_and(|value| value == "true"),
        annotations: annotations.into_iter().collect(),
        networks: networks(&spec.get("networks")?)?,
        taints,
        used: 0,
        resources: vec![Resource {
            name: shoots(),
            allocatable: allocatable(&root.at(&["status", "allocatable", SHOOTS])?)?,
            used: 0,
        }],
    })
}

/// As the API defaults it: visible if `scheduling` is absent, but not if only `visible` is.
fn visible(spec: &Field<'_>) -> Result<bool, FieldError> {
    let scheduling = spec.at(&["settings", "scheduling"])?;
    let visible = scheduling.get("visible")?.boolean()?;
    Ok(visible.unwrap_or(!scheduling.is_present()))
}

fn zone_mode(mode: &Field<'_>) -> Result<ZoneMode, FieldError> {
    match mode.non_empty()? {
        None => Ok(ZoneMode::Ignore),
        Some("Prefer") => Ok(ZoneMode::Prefer),
        Some("Enforce") => Ok(ZoneMode::Enforce),
        Some(_) => Err(mode.error("Prefer or Enforce")),
    }
}

/// Rounded up, as Gardener does.
fn allocatable(field: &Field<'_>) -> Result<Option<i64>, FieldError> {
    let parse = |text: String| {
        let quantity = Quantity::parse(&text);
        let quantity = quantity.map_err(|_| field.error("a quantity such as 250"))?;
        Ok(quantity.value())
    };
    field.quantity()?.map(parse).transpose()
}

/// Ready: a last operation of any kind, `GardenletReady`, and with a backup `BackupBucketsReady`. That a condition is
/// `Progressing`, as after each of its reconciliations, makes a Seed not ready, too.
fn readiness(root: &Field<'_>) -> Result<Readiness, FieldError> {
    let not_ready = |why: &str| Ok(Readiness::NotReady(Arc::from(why)));
    let status = root.get("status")?;
    if !status.get("lastOperation")?.is_present() {
        return not_ready("no last operation");
    }
    let mut needed = vec!["GardenletReady"];
    if root.at(&["spec", "backup"])?.is_present() {
        needed.push("BackupBucketsReady");
    }
    let conditions = status.get("conditions")?.list()?;
    for wanted in needed {
        let mut found = None;
        for condition in &conditions {
            if condition.get("type")?.string()? == Some(wanted) {
                found = Some(condition.get("status")?.string()?.unwrap_or_default());
                break;
            }
        }
        match found {
            Some("True") => {}
            Some(status) => return not_ready(&format!("{wanted} is {status}")),
            None => return not_ready(&format!("no condition {wanted}")),
        }
    }
    Ok(Readiness::Ready)
}

fn networks(field: &Field<'_>) -> Result<CandidateNetworks, FieldError> {
    let cidr = |path: &[&str]| -> Result<Option<Cidr>, FieldError> {
        Ok(field.at(path)?.string()?.map(Cidr::new))
    };
    Ok(CandidateNetworks {
        nodes: cidr(&["nodes"])?,
        pods: cidr(&["pods"])?,
        services: cidr(&["services"])?,
        // One without the other is fine, although Gardener's own scheduler crashes over it.
        default_pods: cidr(&["shootDefaults", "pods"])?,
        default_services: cidr(&["shootDefaults", "services"])?,
    })
}
