//! `pilotage uninstall`: takes away what `pilotage install` made, unless pods still need it; with `--check`, reads what
//! of Pilotage a cluster still holds. What the findings come to is [`left`]'s to say; which objects go, the plugin's.

mod left;

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{ListParams, ObjectMeta};
use kube::{Api, Client};
use pilotage_api::conditions::types;
use pilotage_api::parent::ParentLink;
use pilotage_api::record::Record;
use pilotage_api::{ClusterTarget, PodChaperon, Target, TargetStatus, keys, names};
use pilotage_plugin::{Installed, UninstallArgs};

use self::left::{Connection, Left, Place};
use super::cleanup;
use super::finalizers::{ReadError, Whose, each, followed, kinds};
use crate::error::Error;

/// Flags of `pilotage uninstall`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Looks what is left, however it was installed, and does nothing.
    #[arg(long, conflicts_with_all = ["dry_run", "leave_pods", "with_definitions"])]
    check: bool,

    #[command(flatten)]
    what: UninstallArgs,
}

/// Why the answer isn't that nothing is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UninstallError {
    /// Nobody knows.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Something is.
    #[error("{0}")]
    Left(String),
    /// Pods need what is to be taken away; nothing was written.
    #[error("{0}; or leave them as they are, by --leave-pods")]
    Runs(String),
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let Args { check, what } = args;
    let (dry_run, leave_pods) = (what.dry_run, what.leave_pods);
    let mut installed = Installed::open(what, super::rbac::of_controllers).await?;
    if check {
        let left = read(installed.client()).await;
        let left = left.map_err(UninstallError::from)?;
        super::print(&left.report())?;
        return match left.verdict(&installed.reach()) {
            Some(verdict) => Err(UninstallError::Left(verdict).into()),
            None => Ok(()),
        };
    }
    if !installed.look().await? {
        return super::print(&installed.nothing_text());
    }
    let runs = if leave_pods {
        None
    } else {
        let left = read(installed.client()).await;
        left.map_err(UninstallError::from)?.running()
    };
    if dry_run {
        super::print(&installed.told())?;
    }
    match runs {
        Some(runs) => Err(UninstallError::Runs(runs).into()),
        None if dry_run => Ok(()),
        None => delete(&installed).await,
    }
}

/// At each step nobody who creates pods waits for a webhook that is gone. What is interrupted goes on when it is called
/// again.
async fn delete(installed: &Installed) -> Result<(), Error> {
    installed.disarm().await?;
    cleanup::disarm(installed.client()).await?;
    installed.delete_parts().await?;
    cleanup::all(installed.client(), installed.namespace()).await?;
    installed.delete_definitions().await?;
    super::print(&installed.gone_text().await?)
}

async fn read(client: &Client) -> Result<Left, ReadError> {
    let mut left = Left::default();
    let all = ListParams::default;
    let targets: Api<Target> = Api::all(client.clone());
    each(&targets, all(), |target| {
        left.target(place(&target.metadata), connection(target.status.as_ref()));
    })
    .await?;
    let targets: Api<ClusterTarget> = Api::all(client.clone());
    each(&targets, all(), |target| {
        left.target(place(&target.metadata), connection(target.status.as_ref()));
    })
    .await?;
    let pods: Api<Pod> = Api::all(client.clone());
    // By what nobody can change: labels, anybody can.
    let proxies = all().fields(&format!("spec.schedulerName={}", keys::PROXY_SCHEDULER));
    each(&pods, proxies, |pod| {
        left.proxy(place(&pod.metadata), virtual_node(&pod), has_ended(&pod));
    })
    .await?;
    each(&pods, all().labels(keys::PARENT_UID), |pod| {
        let is_bound = pod.spec.as_ref().is_some_and(|it| it.node_name.is_some());
        if is_bound && !has_ended(&pod) {
            left.delegate(&source(&pod.metadata));
        }
    })
    .await?;
    let chaperons: Api<PodChaperon> = Api::all(client.clone());
    each(&chaperons, all(), |chaperon| {
        left.chaperon(&source(&chaperon.metadata));
    })
    .await?;
    for kind in followed() {
        let api = kind.api(client, None);
        let copies = all().labels(keys::PARENT_UID);
        kind.each_meta(&api, copies, |copy| {
            left.copy(&source(&copy.metadata), &kind.resource.plural);
        })
        .await?;
    }
    let services: Api<Service> = Api::all(client.clone());
    let rerouted = |meta: &ObjectMeta| {
        let annotations = meta.annotations.as_ref();
        annotations.is_some_and(|all| all.contains_key(keys::ORIGINAL_SELECTOR))
    };
    let own = all().labels(&format!("!{}", keys::PARENT_UID));
    each(&services, own, |service| {
        if rerouted(&service.metadata) {
            left.rerouted(place(&service.metadata));
        }
    })
    .await?;
    for kind in kinds() {
        let marked = kind.marked(client, Whose::Both, None).await?.len();
        left.finalizers(&kind.resource.plural, marked);
    }
    Ok(left)
}

fn place(meta: &ObjectMeta) -> Place {
    Place {
        namespace: meta.namespace.clone(),
        name: meta.name.clone().unwrap_or_default(),
    }
}

fn connection(status: Option<&TargetStatus>) -> Connection {
    let conditions = status.map(|status| status.conditions.as_slice());
    let mut conditions = conditions.into_iter().flatten();
    match conditions.find(|it| it.type_ == types::CONNECTED) {
        None => Connection::Unknown,
        Some(it) if it.status == "True" => Connection::Stands,
        Some(it) => Connection::Fails(it.reason.clone()),
    }
}

/// Behind which virtual node a proxy pod's delegate is: the pod is bound there, or was granted there. Admiralty's pods
/// have no record.
fn virtual_node(pod: &Pod) -> Option<String> {
    let bound = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let annotations = pod.metadata.annotations.as_ref();
    let record = annotations.and_then(|all| all.get(keys::GRANTED_TO));
    let recorded = record.and_then(|text| text.parse::<Record>().ok());
    let bound = bound.filter(|node| !node.is_empty());
    bound.or_else(|| recorded.map(|record| record.node))
}

fn has_ended(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// What the source is called where an object of it is: its name, or its UID.
fn source(meta: &ObjectMeta) -> String {
    let link = ParentLink::of(meta);
    let called = link.and_then(|it| it.cluster_name.or(it.cluster_uid.map(|uid| uid.0)));
    called.unwrap_or_else(|| "that doesn't say its name".to_owned())
}

/// The virtual node of a Target or `ClusterTarget`.
fn node_of(target: &Place) -> String {
    names::virtual_node(target.namespace.as_deref(), &target.name)
}
