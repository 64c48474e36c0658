//! `install`: Pilotage in a cluster, without Helm. Asks first whether the cluster would take everything.

pub(crate) mod manifest;
pub(crate) mod options;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, Preconditions};
use kube::{Api, ResourceExt};
use pilotage_api::keys;
use pilotage_runtime::args::parse_duration;
use pilotage_runtime::call::{CALL_LIMIT, Failure, find, within};
use serde_json::Value;
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::connect::Manifests;
use crate::connect::lacking::LEASE;
use crate::error::Error;
use crate::program::program;
use crate::targets::allowed;
use crate::wait::{self, Shows};
use crate::{Side, copies, plan, preflight, progress};
use manifest::Image;
use options::{Options, Roles};

/// The oldest version of Kubernetes that has everything that is installed (1.X).
const OLDEST: u32 = 30;

/// Flags of `install`.
#[derive(Clone, Debug, Args)]
pub struct InstallArgs {
    /// Context of the cluster. Without it, the current one.
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,

    /// Kubeconfig file. Without it, that of kubectl: KUBECONFIG, else ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Image of Pilotage, as the cluster's nodes pull it. None is published yet.
    #[arg(long, value_name = "IMAGE")]
    image: Image,

    /// Namespace where Pilotage runs; it is made if it isn't there.
    #[arg(short, long, value_name = "NAMESPACE", default_value = "pilotage")]
    namespace: String,

    #[command(flatten)]
    options: Options,

    /// Take over fields that somebody else has set to other values.
    #[arg(long)]
    force_conflicts: bool,

    /// How long the parts may take to run; 0s doesn't wait for them.
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = parse_duration)]
    timeout: Duration,

    /// Print the objects, and write nothing. No cluster is asked.
    #[arg(long)]
    dry_run: bool,

    /// Form of what --dry-run prints.
    #[arg(short, long, value_enum, requires = "dry_run", default_value_t)]
    output: Manifests,
}

/// Installs Pilotage; returns what is to be printed.
pub(crate) async fn install(args: InstallArgs, roles: Roles) -> Result<String, Error> {
    let mut objects = manifest::objects(&args.namespace, &args.image)?;
    let wanted = roles(&args.options.roles_for(&args.namespace));
    args.options.apply(&mut objects, &wanted);
    if args.dry_run {
        let Manifests::Yaml = args.output;
        let documents: Result<Vec<String>, Error> = objects.iter().map(plan::yaml).collect();
        return Ok(documents?.join("---\n"));
    }
    let file = args.kubeconfig.as_deref();
    let cluster = Cluster::open(Side::Cluster, file, args.context.as_deref()).await?;
    preflight::identity(&cluster).await?;
    new_enough(&cluster).await?;
    no_release(&cluster, &objects, "upgrade that by \"helm upgrade\"").await?;
    not_elsewhere(&cluster, &objects, &args.namespace).await?;
    let force = args.force_conflicts;
    for object in &objects {
        let resource = manifest::resource(object);
        cluster.would_apply_as(&resource, object, force).await?;
    }

    let followed = followed(&cluster, &args.namespace).await?;
    let follows = args.options.follows();
    if let Some(note) = copies::turned_off(followed.as_deref(), &follows) {
        progress(&format!("warning: cluster: {note}"));
    }

    for object in &objects {
        let resource = manifest::resource(object);
        progress(&format!("cluster: {}", manifest::title(object)));
        cluster.apply_as(&resource, object, force).await?;
    }
    let all = options::everything(&args.namespace, roles)?;
    for object in options::turned_off(&objects, all) {
        take_back(&cluster, &object).await?;
    }
    established(&cluster, &objects).await?;
    if !args.timeout.is_zero() {
        available(&cluster, &objects, args.timeout).await?;
    }
    Ok(format!(
        "installed: Pilotage {} in namespace {}; next, once it is in both clusters: {} connect --source CONTEXT \
         --target CONTEXT\n",
        env!("CARGO_PKG_VERSION"),
        args.namespace,
        program()
    ))
}

/// What has followed pods from here, as the controllers say; nothing, if one may not read it.
async fn followed(cluster: &Cluster, namespace: &str) -> Result<Option<String>, Error> {
    let leases: Api<Lease> = cluster.api(namespace);
    let there = find(CALL_LIMIT, leases.get(LEASE), "leases", LEASE).await;
    let there = allowed(there).map_err(cluster.unread(format!("read Lease {LEASE}")))?;
    let there = there.flatten();
    Ok(there.and_then(|it| it.annotations().get(keys::FOLLOWED_KINDS).cloned()))
}

async fn new_enough(cluster: &Cluster) -> Result<(), Error> {
    let version = within(CALL_LIMIT, cluster.client.apiserver_version()).await;
    let version = version.map_err(cluster.unread("ask for the version"))?;
    if is_new_enough(&version.major, &version.minor) {
        return Ok(());
    }
    Err(Error::NotNow {
        what: format!(
            "the cluster runs Kubernetes {}, and Pilotage needs 1.{OLDEST}",
            version.git_version
        ),
        instead: "upgrade it, or take another --context".to_owned(),
    })
}

/// Some clouds write `30+`.
fn is_new_enough(major: &str, minor: &str) -> bool {
    let number = |text: &str| text.trim_end_matches('+').parse::<u32>();
    match (number(major), number(minor)) {
        (Ok(1), Ok(minor)) => minor >= OLDEST,
        (Ok(major), _) => major > 1,
        // Nobody knows; its answers will tell.
        (Err(_), _) => true,
    }
}

/// What Helm has installed is Helm's: `instead` says what to do with it.
pub(crate) async fn no_release(
    cluster: &Cluster,
    objects: &[Value],
    instead: &'static str,
) -> Result<(), Error> {
    for object in objects.iter().filter(|it| it["kind"] == "Deployment") {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        let api: Api<Deployment> = cluster.api(namespace);
        let there = find(CALL_LIMIT, api.get_metadata(name), "deployments", name).await;
        // Who may not look may not write either, which the next questions tell.
        let there = allowed(there).map_err(cluster.unread(format!("read Deployment {name}")))?;
        let there = there.flatten();
        let manager = there
            .as_ref()
            .and_then(|it| it.labels().get(keys::MANAGED_BY.0));
        if manager.is_some_and(|it| it == "Helm") {
            return Err(Error::Taken {
                what: manifest::title(object),
                why: "belongs to a release of Helm".to_owned(),
                instead,
            });
        }
    }
    Ok(())
}

/// Names of roles are the same wherever Pilotage runs: a second one would take its rights from the first.
pub(crate) async fn not_elsewhere(
    cluster: &Cluster,
    objects: &[Value],
    namespace: &str,
) -> Result<(), Error> {
    let bindings: Api<ClusterRoleBinding> = Api::all(cluster.client.clone());
    for object in objects
        .iter()
        .filter(|it| it["kind"] == "ClusterRoleBinding")
    {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let there = find(CALL_LIMIT, bindings.get(name), "clusterrolebindings", name);
        // Who may not look may not write either, which the next questions tell.
        let there = allowed(there.await);
        let there = there.map_err(cluster.unread(format!("read ClusterRoleBinding {name}")))?;
        let there = there.flatten();
        if let Some(other) = there.as_ref().and_then(|it| elsewhere(it, namespace)) {
            return Err(Error::Taken {
                what: manifest::title(object),
                why: format!("belongs to Pilotage in namespace {other}"),
                instead: "give that namespace by --namespace",
            });
        }
    }
    Ok(())
}

/// Another namespace whose accounts have the rights.
fn elsewhere<'a>(binding: &'a ClusterRoleBinding, namespace: &str) -> Option<&'a str> {
    let subjects = binding.subjects.iter().flatten();
    let mut namespaces = subjects.filter_map(|it| it.namespace.as_deref());
    namespaces.find(|it| *it != namespace)
}

/// Deletes what an earlier installation has turned on, and this one doesn't.
async fn take_back(cluster: &Cluster, object: &Value) -> Result<(), Error> {
    let (resource, title) = (manifest::resource(object), manifest::title(object));
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let client = cluster.client.clone();
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let there = find(CALL_LIMIT, api.get_metadata(name), &resource.plural, name).await;
    let there = allowed(there).map_err(cluster.failed(format!("read {title}")))?;
    let there = there.flatten();
    let there = there.filter(|it| plan::is_ours(&it.metadata));
    let Some(there) = there else { return Ok(()) };
    progress(&format!("cluster: {title} goes"));
    let params = DeleteParams::default().preconditions(Preconditions {
        uid: there.uid(),
        resource_version: None,
    });
    match within(CALL_LIMIT, api.delete(name, &params)).await {
        Err(error) if error.kind() != Failure::NotFound => {
            Err(cluster.failed(format!("delete {title}"))(error))
        }
        _ => Ok(()),
    }
}

/// From now on everybody may use the kinds.
async fn established(cluster: &Cluster, objects: &[Value]) -> Result<(), Error> {
    let definitions = objects
        .iter()
        .filter(|it| it["kind"] == "CustomResourceDefinition");
    for object in definitions {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let look = |it: Option<&CustomResourceDefinition>| {
            let status = it.and_then(|it| it.status.as_ref());
            let mut conditions = status
                .into_iter()
                .flat_map(|it| it.conditions.iter().flatten());
            if conditions.any(|it| it.type_ == "Established" && it.status == "True") {
                return Shows::Done;
            }
            Shows::Yet("the API server doesn't serve it yet".to_owned())
        };
        let api: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
        let waited = wait::until(api, name, CALL_LIMIT, look).await;
        waited.map_err(|last| late(&manifest::title(object), "isn't served", CALL_LIMIT, last))?;
    }
    Ok(())
}

async fn available(cluster: &Cluster, objects: &[Value], limit: Duration) -> Result<(), Error> {
    let until = Instant::now().checked_add(limit);
    for object in objects.iter().filter(|it| it["kind"] == "Deployment") {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        let left = until.map_or(limit, |until| {
            until.saturating_duration_since(Instant::now())
        });
        progress(&format!("cluster: {} starts", manifest::title(object)));
        let api: Api<Deployment> = cluster.api(namespace);
        let waited = wait::until(api, name, left, runs).await;
        waited.map_err(|last| late(&manifest::title(object), "doesn't run", limit, last))?;
    }
    Ok(())
}

/// Whether all replicas of what was applied last are available.
fn runs(deployment: Option<&Deployment>) -> Shows {
    let Some(deployment) = deployment else {
        return Shows::Yet("it was deleted".to_owned());
    };
    let wanted = deployment
        .spec
        .as_ref()
        .and_then(|it| it.replicas)
        .unwrap_or(1);
    let Some(status) = &deployment.status else {
        return Shows::Yet("nobody has taken it up".to_owned());
    };
    let seen = status.observed_generation >= deployment.metadata.generation;
    let (updated, available) = (
        status.updated_replicas.unwrap_or_default(),
        status.available_replicas.unwrap_or_default(),
    );
    // An old one may still serve beside those.
    let old = status.replicas.unwrap_or_default() > updated;
    if seen && updated >= wanted && available >= wanted {
        if old {
            return Shows::Yet("a pod of an earlier version hasn't gone yet".to_owned());
        }
        return Shows::Done;
    }
    Shows::Yet(format!("{available} of {wanted} pods are available"))
}

fn late(title: &str, what: &str, limit: Duration, last: String) -> Error {
    Error::Waited {
        what: format!("{title} of the cluster {what}"),
        seconds: limit.as_secs(),
        last,
        instead: "see its pods and events by \"kubectl describe\", and give the same command again"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_serves_beside_an_old_pod_is_not_installed_yet() {
        let shows = |replicas: i32| {
            let status = serde_json::json!({
                "observedGeneration": 2, "replicas": replicas, "updatedReplicas": 2, "availableReplicas": 2,
            });
            let deployment = serde_json::json!({
                "metadata": { "generation": 2 },
                "spec": { "replicas": 2, "selector": {}, "template": {} },
                "status": status,
            });
            runs(Some(&serde_json::from_value(deployment).unwrap()))
        };
        assert_eq!(shows(2), Shows::Done);
        assert!(matches!(shows(3), Shows::Yet(_)));
    }

    #[test]
    fn other_namespaces_of_a_binding_are_found() {
        let binding = |namespaces: &[&str]| -> ClusterRoleBinding {
            let subject = |it: &&str| serde_json::json!({ "kind": "ServiceAccount", "name": "a", "namespace": it });
            let subjects: Vec<_> = namespaces.iter().map(subject).collect();
            let role = serde_json::json!({ "apiGroup": "", "kind": "ClusterRole", "name": "a" });
            let binding = serde_json::json!({ "roleRef": role, "subjects": subjects });
            serde_json::from_value(binding).unwrap()
        };
        assert_eq!(elsewhere(&binding(&["ships"]), "ships"), None);
        assert_eq!(elsewhere(&binding(&[]), "ships"), None);
        assert_eq!(elsewhere(&binding(&["ships"]), "other"), Some("ships"));
    }

    #[test]
    fn clusters_that_are_too_old_are_refused() {
        for (major, minor, want) in [
            ("1", "29", false),
            ("1", "30", true),
            ("1", "30+", true),
            ("2", "0", true),
            ("", "", true),
        ] {
            assert_eq!(is_new_enough(major, minor), want, "{major}.{minor}");
        }
    }
}
