//! Owns the way from a Shoot and what belongs to it to a request for a place.

use std::sync::Arc;

use pilotage_placement::{Domain, Region, RegionTable, Request, RequestNetworks, ZoneHints};

use crate::kinds::{CloudProfile, Project, Shoot};
use crate::usage::shoots;

/// Something that a Shoot needs is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// It names no profile.
    #[error(
        "shoot {shoot} names no cloud profile: neither spec.cloudProfile nor spec.cloudProfileName is set"
    )]
    NoProfile {
        /// Namespace and name of the Shoot.
        shoot: String,
    },
    /// Its profile isn't there.
    #[error("shoot {shoot} names the {kind} {name:?}, which was not found")]
    ProfileNotFound {
        /// Namespace and name of the Shoot.
        shoot: String,
        /// Kind of the profile.
        kind: &'static str,
        /// Name of the profile.
        name: String,
    },
    /// Its namespace belongs to no project.
    #[error("no project with the namespace {namespace:?} was found")]
    NoProject {
        /// Namespace of the Shoot.
        namespace: String,
    },
}

/// What a Shoot asks for: with its profile out of `profiles`, its project out of `projects`, and the table of
/// regions that is for its profile.
pub fn request<'a>(
    shoot: &Shoot,
    profile: &CloudProfile,
    projects: impl IntoIterator<Item = &'a Project>,
    distances: Option<Arc<RegionTable>>,
) -> Result<Request, RequestError> {
    let mut projects = projects.into_iter();
    let project = projects
        .find(|project| project.namespace.as_deref() == Some(&shoot.namespace))
        .ok_or_else(|| RequestError::NoProject {
            namespace: shoot.namespace.clone(),
        })?;
    let zones = if shoot.control_plane_zones.is_empty() {
        let zones = shoot.workers.iter().flat_map(|worker| &worker.zones);
        ZoneHints::Near(zones.cloned().collect())
    } else {
        ZoneHints::All(shoot.control_plane_zones.clone())
    };
    Ok(Request {
        profile_selector: profile.selector.clone(),
        own_selector: shoot.selector.clone(),
        provider: Some(shoot.provider.as_str().into()),
        providers: profile.providers.clone(),
        region: Some(Region::new(&shoot.region)),
        distances,
        zonal: shoot.zonal,
        zones,
        access_restrictions: shoot.access_restrictions.clone(),
        domain: shoot.domain.as_ref().map(|domain| Domain {
            domain: domain.clone(),
            name: shoot.name.clone(),
            project: project.name.clone(),
        }),
        networks: shoot.networking.as_ref().map(|networking| RequestNetworks {
            nodes: networking.nodes.clone(),
            pods: networking.pods.clone(),
            services: networking.services.clone(),
            families: networking.families,
            workerless: shoot.workerless(),
            observed: shoot.observed.clone(),
        }),
        tolerations: shoot.tolerations.clone(),
        demand: vec![(shoots(), 1)],
        peers: None,
        testing: shoot.testing,
    })
}

/// The profile that a Shoot names, out of these.
pub fn profile_of<'a>(
    shoot: &Shoot,
    profiles: impl IntoIterator<Item = &'a CloudProfile>,
) -> Result<&'a CloudProfile, RequestError> {
    let name = || format!("{}/{}", shoot.namespace, shoot.name);
    let Some(reference) = &shoot.profile else {
        return Err(RequestError::NoProfile { shoot: name() });
    };
    let mut profiles = profiles.into_iter();
    profiles
        .find(|profile| profile.is(reference, &shoot.namespace))
        .ok_or_else(|| RequestError::ProfileNotFound {
            shoot: name(),
            kind: reference.kind.name(),
            name: reference.name.clone(),
        })
}
