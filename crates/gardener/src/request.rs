//! Owns the way from a Shoot and what belongs to it to a request for a place.

use std::sync::Arc;

use pilotage_placement::{Domain, Region, RegionTable, Request, RequestNetworks, ZoneHints};

use crate::fields::FieldError;
use crate::kinds::{CloudProfile, ProfileId, Project, Shoot};
use crate::usage::shoots;

/// Something that a Shoot needs is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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
    /// Its profile can't be read.
    #[error("the {kind} {name:?} can't be read: {error}")]
    ProfileUnreadable {
        /// Kind of the profile.
        kind: &'static str,
        /// Name of the profile.
        name: String,
        /// Why not.
        #[source]
        error: Box<FieldError>,
    },
    /// Its namespace belongs to no project.
    #[error("no project with the namespace {namespace:?} was found")]
    NoProject {
        /// Namespace of the Shoot.
        namespace: String,
    },
}

impl RequestError {
    /// There is no such profile.
    pub fn not_found(shoot: &Shoot, id: &ProfileId) -> Self {
        Self::ProfileNotFound {
            shoot: shoot.full_name(),
            kind: id.kind.name(),
            name: id.name.clone(),
        }
    }

    /// A profile can't be read.
    pub fn unreadable(id: &ProfileId, error: FieldError) -> Self {
        Self::ProfileUnreadable {
            kind: id.kind.name(),
            name: id.name.clone(),
            error: Box::new(error),
        }
    }
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

/// Where the profile of a Shoot is looked for.
pub fn profile_id(shoot: &Shoot) -> Result<ProfileId, RequestError> {
    match &shoot.profile {
        Some(reference) => Ok(reference.id(&shoot.namespace)),
        None => Err(RequestError::NoProfile {
            shoot: shoot.full_name(),
        }),
    }
}

/// The profile that a Shoot names, out of these.
pub fn profile_of<'a>(
    shoot: &Shoot,
    profiles: impl IntoIterator<Item = &'a CloudProfile>,
) -> Result<&'a CloudProfile, RequestError> {
    let id = profile_id(shoot)?;
    let mut profiles = profiles.into_iter();
    profiles
        .find(|profile| profile.is(&id))
        .ok_or_else(|| RequestError::not_found(shoot, &id))
}
