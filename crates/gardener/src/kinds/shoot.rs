//! Shoot: a cluster that is to be placed.

use std::collections::BTreeSet;

use pilotage_placement::{Cidr, Families, ObservedNetworks, Selector, SelectorError, Toleration};
use serde_json::Value;

use super::cloud_profile::{ProfileKind, ProfileRef};
use super::selector;
use crate::fields::{Field, FieldError};

/// A Shoot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shoot {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// It is being deleted.
    pub deleting: bool,
    /// Seed that it is to be at.
    pub seed: Option<String>,
    /// Seed that it is at.
    pub status_seed: Option<String>,
    /// Scheduler that is to place it; none is the default one.
    pub scheduler: Option<String>,
    /// Which Seeds its author wants.
    pub selector: Option<Result<Selector, SelectorError>>,
    /// Taints that it tolerates.
    pub tolerations: Vec<Toleration>,
    /// Its provider.
    pub provider: String,
    /// Its region.
    pub region: String,
    /// Its purpose is `testing`.
    pub testing: bool,
    /// Its profile.
    pub profile: Option<ProfileRef>,
    /// Names of its access restrictions.
    pub access_restrictions: Vec<String>,
    /// Its pools of workers.
    pub workers: Vec<Worker>,
    /// It must survive the loss of a zone.
    pub zonal: bool,
    /// Zones that its control plane must be in.
    pub control_plane_zones: BTreeSet<String>,
    /// Its networks.
    pub networking: Option<Networking>,
    /// Its domain.
    pub domain: Option<String>,
    /// Networks that it was observed to have.
    pub observed: Option<ObservedNetworks>,
}

/// A pool of workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Worker {
    /// Its zones.
    pub zones: Vec<String>,
    /// The control plane runs in it: such a Shoot hosts itself.
    pub hosts_itself: bool,
}

/// What a Shoot says of its networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networking {
    /// Of nodes.
    pub nodes: Option<Cidr>,
    /// Of pods.
    pub pods: Option<Cidr>,
    /// Of services.
    pub services: Option<Cidr>,
    /// Address families; IPv4 if it doesn't say.
    pub families: Families,
}

impl Shoot {
    /// Reads one.
    pub fn read(value: &Value) -> Result<Self, FieldError> {
        let root = Field::root(value);
        let metadata = root.get("metadata")?;
        let spec = root.get("spec")?;
        let text = |field: Field<'_>| -> Result<Option<String>, FieldError> {
            Ok(field.optional_name()?.map(ToOwned::to_owned))
        };
        let mut tolerations = Vec::new();
        for toleration in spec.get("tolerations")?.list()? {
            tolerations.push(Toleration {
                key: toleration.get("key")?.name()?.to_owned(),
                value: toleration.get("value")?.string()?.map(ToOwned::to_owned),
            });
        }
        let mut access_restrictions = Vec::new();
        for restriction in spec.get("accessRestrictions")?.list()? {
            access_restrictions.push(restriction.get("name")?.label()?.to_owned());
        }
        let mut workers = Vec::new();
        for worker in spec.at(&["provider", "workers"])?.list()? {
            workers.push(Worker {
                zones: worker.get("zones")?.labels()?,
                hosts_itself: worker.get("controlPlane")?.is_present(),
            });
        }
        let control_plane = spec.get("controlPlane")?;
        let tolerance = control_plane.at(&["highAvailability", "failureTolerance", "type"])?;
        Ok(Self {
            namespace: text(metadata.get("namespace")?)?.unwrap_or_else(|| "default".to_owned()),
            name: metadata.get("name")?.name()?.to_owned(),
            deleting: metadata.get("deletionTimestamp")?.string()?.is_some(),
            seed: text(spec.get("seedName")?)?,
            status_seed: text(root.at(&["status", "seedName"])?)?,
            scheduler: text(spec.get("schedulerName")?)?,
            selector: selector::read(&spec.get("seedSelector")?)?,
            tolerations,
            provider: spec.at(&["provider", "type"])?.label()?.to_owned(),
            region: spec.get("region")?.label()?.to_owned(),
            testing: spec.get("purpose")?.string()? == Some("testing"),
            profile: profile(&spec)?,
            access_restrictions,
            workers,
            zonal: match tolerance.non_empty()? {
                None | Some("node") => false,
                Some("zone") => true,
                Some(_) => return Err(tolerance.error("node or zone")),
            },
            control_plane_zones: control_plane.get("zones")?.labels()?.into_iter().collect(),
            networking: networking(&spec.get("networking")?)?,
            domain: text(spec.at(&["dns", "domain"])?)?,
            observed: observed(&root.at(&["status", "networking"])?)?,
        })
    }

    /// Its namespace and name.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// It has no workers.
    pub const fn workerless(&self) -> bool {
        self.workers.is_empty()
    }
}

/// `cloudProfile` wins over `cloudProfileName`.
fn profile(spec: &Field<'_>) -> Result<Option<ProfileRef>, FieldError> {
    let reference = spec.get("cloudProfile")?;
    if reference.is_present() {
        return Ok(Some(ProfileRef {
            kind: ProfileKind::parse(&reference.get("kind")?)?,
            name: reference.get("name")?.name()?.to_owned(),
        }));
    }
    let name = spec.get("cloudProfileName")?.optional_name()?;
    Ok(name.map(|name| ProfileRef {
        kind: ProfileKind::CloudProfile,
        name: name.to_owned(),
    }))
}

fn networking(field: &Field<'_>) -> Result<Option<Networking>, FieldError> {
    if !field.is_present() {
        return Ok(None);
    }
    let cidr = |name: &str| -> Result<Option<Cidr>, FieldError> {
        Ok(field.get(name)?.string()?.map(Cidr::new))
    };
    let listed = field.get("ipFamilies")?.list()?;
    let mut families = Families {
        v4: listed.is_empty(),
        v6: false,
    };
    for family in listed {
        match family.string()? {
            Some("IPv4") => families.v4 = true,
            Some("IPv6") => families.v6 = true,
            _ => return Err(family.error("IPv4 or IPv6")),
        }
    }
    Ok(Some(Networking {
        nodes: cidr("nodes")?,
        pods: cidr("pods")?,
        services: cidr("services")?,
        families,
    }))
}

fn observed(field: &Field<'_>) -> Result<Option<ObservedNetworks>, FieldError> {
    let cidrs = |name: &str| -> Result<Vec<Cidr>, FieldError> {
        let texts = field.get(name)?.strings()?;
        Ok(texts.iter().map(|text| Cidr::new(text)).collect())
    };
    if !field.is_present() {
        return Ok(None);
    }
    Ok(Some(ObservedNetworks {
        nodes: cidrs("nodes")?,
        pods: cidrs("pods")?,
        services: cidrs("services")?,
    }))
}
