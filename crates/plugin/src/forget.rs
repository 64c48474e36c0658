//! `forget`: gives up a target that never answers again, or never lets go of its pods, and what may still run there.

use std::time::Duration;

use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Resource};
use pilotage_api::parent::{ClusterUid, selector_of_source};
use pilotage_api::{ClusterTarget, GROUP, Target, keys};
use pilotage_runtime::args::parse_duration;
use pilotage_runtime::call::{CALL_LIMIT, Failure, within};
use pilotage_runtime::pages;
use serde_json::json;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::plan::{MANAGER, Need};
use crate::program::program;
use crate::targets::{Seen, allowed, running_at};
use crate::wait::{self, Shows};
use crate::which::WhichArgs;
use crate::{preflight, progress};

/// Flags of `forget`.
#[derive(Clone, Debug, Args)]
pub struct ForgetArgs {
    #[command(flatten)]
    which: WhichArgs,

    /// Do it: pods may run on in the target, and run a second time elsewhere.
    #[arg(long)]
    yes: bool,

    /// Also if the target is connected: it answers, and doesn't let go of its pods.
    #[arg(long)]
    even_connected: bool,

    /// How long the pods in the source may take to go. What a connected target runs has half a minute and its grace
    /// period.
    #[arg(long, value_name = "DURATION", default_value = "180s", value_parser = parse_duration)]
    timeout: Duration,
}

/// Gives a target up; returns what is to be printed.
pub(crate) async fn forget(args: ForgetArgs) -> Result<String, Error> {
    let (source, target) = args.which.open().await?;
    let title = target.title();
    let verbs = ["patch", "delete", "list", "watch"];
    let resource = match target.namespace {
        Some(_) => "targets",
        None => "clustertargets",
    };
    let needs = verbs.map(|verb| Need {
        group: GROUP,
        resource,
        verb,
        namespace: target.namespace.clone(),
    });
    preflight::rights(&source, &needs).await?;
    let (connected, ..) = target.connected();
    let connected = connected == "True";
    if connected && !args.even_connected {
        return Err(still_connected(&title));
    }
    let pods = pods(&source, &target).await?;
    let pods = pods.map_or("pods".to_owned(), |pods| format!("{pods} pod(s)"));
    if !args.yes {
        return Err(unconfirmed(&title, &pods, connected));
    }
    if let Some(namespace) = target.namespace.as_deref() {
        give_up(
            &source,
            &target,
            source.api::<Target>(namespace),
            args.timeout,
        )
        .await?;
    } else {
        let api: Api<ClusterTarget> = Api::all(source.client.clone());
        give_up(&source, &target, api, args.timeout).await?;
    }
    // What was done is told all the same.
    let uid = preflight::identity(&source).await.ok().flatten();
    Ok(format!(
        "forgotten: {title} is gone, and {pods} of it; {}{}",
        left_there(uid),
        left_here(&source.flags("--context"), target.secret.as_ref())
    ))
}

/// Who answers usually ends its pods, too.
fn still_connected(title: &str) -> Error {
    Error::NotNow {
        what: format!("{title} is connected, and its pods needn't be given up"),
        instead: format!(
            "end it by \"{program} disconnect\", or empty it by \"{program} drain --move\"; if it answers and never \
             lets go of its pods, say --even-connected",
            program = program()
        ),
    }
}

fn unconfirmed(title: &str, pods: &str, connected: bool) -> Error {
    let (how, instead) = if connected {
        (
            ", and waited for no longer than half a minute and their grace period, whatever the target says of them",
            "if that cluster is not to be believed, or its pods don't matter, say --yes",
        )
    } else {
        (
            " without knowing what becomes of them there",
            "if that cluster is gone for good, or its pods don't matter, say --yes",
        )
    };
    Error::NotNow {
        what: format!(
            "{pods} of {title} would be deleted here{how}: they may run on, and run a second time elsewhere"
        ),
        instead: instead.to_owned(),
    }
}

/// All of it but the Source has a label, with the UID of the source's namespace kube-system.
fn left_there(uid: Option<String>) -> String {
    let label = uid.map_or_else(
        || keys::PARENT_CLUSTER_UID.to_owned(),
        |uid| selector_of_source(&ClusterUid(uid)),
    );
    format!(
        "should its cluster ever answer again, delete what the source left there, unless another Target leads there: \
         its Source, and with the label {label} its PodChaperons and the ConfigMaps, Secrets, Services and Ingresses \
         that followed pods\n"
    )
}

/// Credentials outlive what they are for, and may be another target's, too.
fn left_here(reach: &str, secret: Option<&(String, String)>) -> String {
    secret.map_or_else(String::new, |(namespace, name)| {
        format!(
            "Secret {namespace}/{name} with its kubeconfig stays here; unless another target uses it: \
             kubectl {reach} --namespace {namespace} delete secret {name}\n"
        )
    })
}

/// How many pods run by its virtual node, if one may know that.
async fn pods(source: &Cluster, target: &Seen) -> Result<Option<usize>, Error> {
    let pods: Api<Pod> = match &target.namespace {
        Some(namespace) => source.api(namespace),
        None => Api::all(source.client.clone()),
    };
    let there = running_at(&target.node());
    let count = allowed(pages::count(CALL_LIMIT, &pods, there).await);
    count.map_err(source.unread("list pods"))
}

/// The word first: a Target that is deleted without it waits for its cluster.
async fn give_up<K>(
    source: &Cluster,
    target: &Seen,
    api: Api<K>,
    limit: Duration,
) -> Result<(), Error>
where
    K: Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + Send
        + serde::de::DeserializeOwned
        + 'static,
{
    let (name, title) = (target.name.as_str(), target.title());
    let word =
        json!({ "metadata": { "uid": target.uid, "annotations": { keys::FORGET: keys::TRUE } } });
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let sent = within(
        CALL_LIMIT,
        api.patch_metadata(name, &params, &Patch::Merge(word)),
    )
    .await;
    sent.map_err(source.failed(format!("annotate {title}")))?;
    progress(&format!(
        "source: nobody waits for the pods of {title} any more"
    ));
    let params = DeleteParams::default().preconditions(Preconditions {
        uid: target.uid.clone(),
        resource_version: None,
    });
    match within(CALL_LIMIT, api.delete(name, &params)).await {
        Ok(_) => {}
        Err(error) if error.kind() == Failure::NotFound => return Ok(()),
        Err(error) => return Err(source.failed(format!("delete {title}"))(error)),
    }
    let look = |it: Option<&K>| match it {
        Some(it) if it.meta().uid == target.uid => {
            Shows::Yet("its pods here are still there".to_owned())
        }
        _ => Shows::Done,
    };
    wait::until(api, name, limit, look)
        .await
        .map_err(|last| Error::Waited {
            what: format!("{title} is deleted and isn't gone"),
            seconds: limit.as_secs(),
            last,
            instead: "see whether \"pilotage controllers\" runs in the source, and by \"kubectl describe\" what it \
                waits for"
                .to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_connected_is_forgotten_by_a_word_of_its_own() {
        let refused = still_connected("Target shop/paris").to_string();
        assert!(refused.contains("is connected"), "{refused}");
        assert!(refused.contains("--even-connected"), "{refused}");
        for (connected, why) in [(true, "half a minute"), (false, "without knowing")] {
            let refused = unconfirmed("Target shop/paris", "2 pod(s)", connected).to_string();
            assert!(refused.contains(why), "{refused}");
            assert!(refused.contains("run a second time elsewhere"), "{refused}");
            assert!(refused.contains("--yes"), "{refused}");
        }
    }

    #[test]
    fn what_stays_in_the_target_is_known_by_its_label() {
        let label = "with the label multicluster.admiralty.io/parent-cluster-uid";
        for (uid, want) in [
            (None, format!("{label} its ")),
            (Some("u"), format!("{label}=u its ")),
        ] {
            let told = left_there(uid.map(str::to_owned));
            assert!(told.contains(&want), "{told}");
        }
    }

    #[test]
    fn the_secret_that_stays_is_named() {
        let secret = ("shop".to_owned(), "paris-kubeconfig".to_owned());
        assert_eq!(
            left_here("--context london", Some(&secret)),
            "Secret shop/paris-kubeconfig with its kubeconfig stays here; unless another target uses it: \
             kubectl --context london --namespace shop delete secret paris-kubeconfig\n"
        );
        assert_eq!(left_here("--context london", None), "");
    }
}
