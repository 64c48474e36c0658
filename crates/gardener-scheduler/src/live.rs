//! Reads a garden once, as it is now, for questions about one Shoot. It writes nothing and watches nothing.

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client};
use pilotage_clusters::Watchable;
use pilotage_gardener::Usage;
use pilotage_gardener::kinds::{GARDEN, GROUP, ProfileKind, Project, RegionConfig, Shoot};
use pilotage_gardener::scheduler::Profile;
use pilotage_placement::Candidate;
use pilotage_runtime::call::{CallError, find, within};
use pilotage_runtime::guarded::Guarded;
use serde_json::Value;

use crate::feed::region_configs;
use crate::objects::{
    CloudProfileObject, NamespacedCloudProfileObject, ProjectObject, RegionConfigObject,
    SeedObject, ShootObject, VERSION,
};

/// Limit for one page of a list.
const PAGE_LIMIT: std::time::Duration = std::time::Duration::from_secs(30);
/// Objects in a page, as client-go's.
const PAGE_SIZE: u32 = 500;

/// What a garden has to say about one Shoot.
#[derive(Debug)]
pub struct Snapshot {
    /// Its Seeds, with the Shoots that they have. The one in question doesn't count.
    pub seeds: Vec<Candidate>,
    /// How many Shoots they have.
    pub usage: Usage,
    /// The Shoot's profile, if it is there.
    pub profile: Option<Profile>,
    /// All projects.
    pub projects: Vec<Project>,
    /// All tables of distances.
    pub configs: Vec<RegionConfig>,
    /// What can't be read, and why.
    pub unread: Vec<String>,
}

/// A garden can't be read.
#[derive(Debug, thiserror::Error)]
#[error("can't read {what} of the garden: {source}")]
pub struct ReadError {
    /// Which objects.
    pub what: String,
    /// Why not.
    #[source]
    pub source: CallError,
}

/// A Shoot as it is; nothing if there is none.
pub async fn shoot(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<Value>, ReadError> {
    let kind = GroupVersionKind::gvk(GROUP, VERSION, "Shoot");
    let resource = ApiResource::from_gvk_with_plural(&kind, "shoots");
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let wrap = |source| ReadError {
        what: format!("the Shoot {namespace}/{name}"),
        source,
    };
    let shoot = find(PAGE_LIMIT, api.get(name), "shoots", name).await;
    let Some(shoot) = shoot.map_err(wrap)? else {
        return Ok(None);
    };
    let value = serde_json::to_value(shoot);
    let value = value.map_err(|error| wrap(CallError::Api(kube::Error::SerdeError(error))))?;
    Ok(Some(value))
}

/// All that a selection for this Shoot needs.
pub fn snapshot<'a>(
    client: &'a Client,
    shoot: &'a Shoot,
) -> BoxFuture<'a, Result<Snapshot, ReadError>> {
    async move {
        let mut unread = Vec::new();
        let mut usage = Usage::default();
        for other in list::<ShootObject>(Api::all(client.clone()), None, &mut unread).await? {
            let meta = &other.metadata;
            let same = meta.namespace.as_deref() == Some(&shoot.namespace)
                && meta.name.as_deref() == Some(&shoot.name);
            if !same {
                let (spec, status) = (&other.content.seed, &other.content.status_seed);
                usage.count(
                    meta.namespace.as_deref().unwrap_or_default(),
                    spec.as_deref(),
                    status.as_deref(),
                );
            }
        }
        let mut seeds = Vec::new();
        for seed in list::<SeedObject>(Api::all(client.clone()), None, &mut unread).await? {
            match seed.content {
                Ok(mut candidate) => {
                    usage.fill(&mut candidate);
                    seeds.push(candidate);
                }
                Err(error) => unread.push(told(&seed.metadata, "Seed", &error)),
            }
        }
        let projects = list::<ProjectObject>(Api::all(client.clone()), None, &mut unread).await?;
        let found = Api::namespaced(client.clone(), GARDEN);
        let mut configs = Vec::new();
        for config in
            list::<RegionConfigObject>(found, Some(&region_configs()), &mut unread).await?
        {
            match config.content {
                Ok(content) => configs.push(content),
                Err(error) => unread.push(told(&config.metadata, "ConfigMap", &error)),
            }
        }
        Ok(Snapshot {
            profile: profile(client, shoot).await?,
            seeds,
            usage,
            projects: projects.into_iter().map(|one| one.content).collect(),
            configs,
            unread,
        })
    }
    .boxed()
}

/// The profile that a Shoot names.
async fn profile(client: &Client, shoot: &Shoot) -> Result<Option<Profile>, ReadError> {
    let Some(reference) = &shoot.profile else {
        return Ok(None);
    };
    let (kind, name) = (reference.kind.name(), &reference.name);
    let profile = match reference.kind {
        ProfileKind::CloudProfile => {
            let api: Api<CloudProfileObject> = Api::all(client.clone());
            let found = find(PAGE_LIMIT, api.get(name), "cloudprofiles", name).await;
            found.map(|found| found.map(|found| found.content))
        }
        ProfileKind::NamespacedCloudProfile => {
            let api: Api<NamespacedCloudProfileObject> =
                Api::namespaced(client.clone(), &shoot.namespace);
            let found = find(PAGE_LIMIT, api.get(name), "namespacedcloudprofiles", name).await;
            found.map(|found| found.map(|found| found.content))
        }
    };
    profile.map_err(|source| ReadError {
        what: format!("the {kind} {name}"),
        source,
    })
}

async fn list<K: Watchable>(
    api: Api<Guarded<K>>,
    labels: Option<&str>,
    unread: &mut Vec<String>,
) -> Result<Vec<K>, ReadError> {
    let mut params = ListParams {
        label_selector: labels.map(ToOwned::to_owned),
        limit: Some(PAGE_SIZE),
        ..ListParams::default()
    };
    let mut objects = Vec::new();
    loop {
        let page = within(PAGE_LIMIT, api.list(&params)).await;
        let page = page.map_err(|source| ReadError {
            what: format!("the {}", K::plural(&())),
            source,
        })?;
        for guarded in page.items {
            match guarded.0 {
                Ok(object) => objects.push(object),
                Err(invalid) => {
                    unread.push(told(&invalid.metadata, &K::kind(&()), &invalid.error));
                }
            }
        }
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(objects);
        }
    }
}

fn told(
    meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    kind: &str,
    error: &dyn std::fmt::Display,
) -> String {
    let name = meta.name.as_deref().unwrap_or_default();
    format!("{kind} {name}: {error}")
}
