//! `drain`: no new pod goes to a target, and those that are there may be made anew elsewhere.
//!
//! It is `kubectl cordon` of the target's virtual node, and eviction of its proxies: their controller in the source makes others,
//! which go elsewhere. A proxy keeps its name until its delegate is gone, so at no moment there are two.

use std::time::Duration;

use clap::Args;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use pilotage_api::keys;
use pilotage_runtime::args::parse_duration;
use pilotage_runtime::call::{CALL_LIMIT, Failure, find, within};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::plan::{MANAGER, Need};
use crate::targets::Seen;
use crate::wait::{self, Shows};
use crate::which::WhichArgs;
use crate::{preflight, progress};

/// Pause after an eviction that a disruption budget doesn't allow yet.
const BUDGET_PAUSE: Duration = Duration::from_secs(2);
/// So many pods are evicted at the same time.
const TOGETHER: usize = 16;
/// So many names are told.
const TOLD: usize = 10;

/// Flags of `drain`.
#[derive(Clone, Debug, Args)]
pub struct DrainArgs {
    #[command(flatten)]
    which: WhichArgs,

    /// Evict the pods that are there and have a controller that makes others: these go elsewhere. Disruption budgets count.
    #[arg(long)]
    r#move: bool,

    /// Let new pods go there again.
    #[arg(long, conflicts_with = "move")]
    undo: bool,

    /// How long the pods may take to go.
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = parse_duration)]
    timeout: Duration,
}

/// Keeps new pods away from a target; returns what is to be printed.
pub async fn drain(args: DrainArgs) -> Result<String, Error> {
    let (source, target) = args.which.open().await?;
    preflight::rights(&source, &needs(&target, args.r#move)).await?;
    let (title, node) = (target.title(), target.node());
    cordon(&source, &target, &node, !args.undo).await?;
    if args.undo {
        return Ok(format!("{title} takes new pods again\n"));
    }
    progress(&format!(
        "source: no new pod goes to {title} (virtual node {node})"
    ));
    let pods = proxies(&source, &target, &node).await?;
    if !args.r#move {
        return Ok(format!(
            "drained: {title} takes no new pods; {} there stay until they end, or until --move; --undo takes it back\n",
            count(pods.len())
        ));
    }
    let (stay, go): (Vec<Pod>, Vec<Pod>) = pods.into_iter().partition(|pod| !can_move(pod));
    let until = Instant::now().checked_add(args.timeout);
    let ends = go
        .iter()
        .map(|pod| evict(&source, pod, until, args.timeout));
    let ends: Vec<_> = ends.collect();
    let ended: Vec<_> = stream::iter(ends).buffered(TOGETHER).collect().await;
    let mut left = Vec::new();
    for (pod, ended) in go.iter().zip(ended) {
        if let Some(why) = ended? {
            left.push(format!("{} ({why})", title_of(pod)));
        }
    }
    if !left.is_empty() {
        return Err(Error::Waited {
            what: format!("{} of {title} aren't gone", count(left.len())),
            seconds: args.timeout.as_secs(),
            last: told(&left),
            instead: "give the same command again".to_owned(),
        });
    }
    let stay: Vec<String> = stay.iter().map(title_of).collect();
    let stay = if stay.is_empty() {
        String::new()
    } else {
        format!("; what no controller makes anew stays: {}", told(&stay))
    };
    Ok(format!(
        "drained: {title} takes no new pods, and {} left it{stay}\n",
        count(go.len())
    ))
}

fn needs(target: &Seen, moves: bool) -> Vec<Need> {
    let need = |group, resource, verb, namespace| Need {
        group,
        resource,
        verb,
        namespace,
    };
    let at = || target.namespace.clone();
    let mut needs = vec![
        need("", "nodes", "get", None),
        need("", "nodes", "patch", None),
        need("", "pods", "list", at()),
    ];
    if moves {
        needs.push(need("", "pods", "watch", at()));
        needs.push(need("", "pods/eviction", "create", at()));
    }
    needs
}

/// As `kubectl cordon` does; Pilotage leaves a person's cordon alone.
async fn cordon(source: &Cluster, target: &Seen, node: &str, cordoned: bool) -> Result<(), Error> {
    let nodes: Api<Node> = Api::all(source.client.clone());
    let there = find(CALL_LIMIT, nodes.get_metadata(node), "nodes", node).await;
    let there = there.map_err(source.failed(format!("read node {node}")))?;
    let Some(there) = there else {
        return Err(Error::Missing {
            what: format!("virtual node {node} of {}", target.title()),
            instead: "see whether \"pilotage controllers\" runs in the source",
        });
    };
    let unschedulable = cordoned.then_some(true);
    // Of the node that was seen, so that another one of that name isn't touched.
    let body = json!({
        "metadata": { "uid": there.uid() },
        "spec": { "unschedulable": unschedulable },
    });
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let sent = within(CALL_LIMIT, nodes.patch(node, &params, &Patch::Merge(body))).await;
    sent.map_err(source.failed(format!("write node {node}")))
        .map(drop)
}

/// Pods that a target runs, or is about to.
async fn proxies(source: &Cluster, target: &Seen, node: &str) -> Result<Vec<Pod>, Error> {
    let pods = pods(source, target.namespace.as_deref());
    let there = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let list = within(CALL_LIMIT, pods.list(&there)).await;
    let list = list.map_err(source.failed("list pods"))?;
    Ok(list.into_iter().filter(runs).collect())
}

fn pods(source: &Cluster, namespace: Option<&str>) -> Api<Pod> {
    match namespace {
        Some(namespace) => source.api(namespace),
        None => Api::all(source.client.clone()),
    }
}

/// Whether it is one that a target runs, and hasn't ended.
fn runs(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    pod.annotations().contains_key(keys::SOURCE_POD_MANIFEST)
        && !matches!(phase, Some("Succeeded" | "Failed"))
}

/// Whether somebody makes another one for it, which may go elsewhere.
fn can_move(pod: &Pod) -> bool {
    pod.owner_references()
        .iter()
        .any(|owner| owner.controller == Some(true) && owner.kind != "DaemonSet")
}

/// Evicts a pod and waits until it is gone; why it isn't, if time is up.
async fn evict(
    source: &Cluster,
    pod: &Pod,
    until: Option<Instant>,
    limit: Duration,
) -> Result<Option<String>, Error> {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let pods: Api<Pod> = source.api(&namespace);
    let uid = pod.uid();
    let over = || until.is_some_and(|until| Instant::now() >= until);
    loop {
        match within(
            CALL_LIMIT,
            eviction(source, &namespace, &name, uid.as_deref()),
        )
        .await
        {
            Ok(_) => break,
            Err(error) => match error.kind() {
                // It is gone, or another one has its name: the look below tells.
                Failure::NotFound | Failure::Conflict => break,
                Failure::Throttled if over() => return Ok(Some(error.message())),
                Failure::Throttled => tokio::time::sleep(BUDGET_PAUSE).await,
                _ => return Err(source.failed(format!("evict {}", title_of(pod)))(error)),
            },
        }
    }
    progress(&format!("source: {namespace}/{name} is evicted"));
    let look = |it: Option<&Pod>| match it {
        Some(it) if it.uid() == uid => Shows::Yet(format!("{name} ends in the target")),
        _ => Shows::Done,
    };
    let left = until.map_or(limit, |until| {
        until.saturating_duration_since(Instant::now())
    });
    Ok(wait::quietly(pods, &name, left, look).await.err())
}

/// The client's own has another word for the options, by which it would evict whoever has the name.
async fn eviction(
    source: &Cluster,
    namespace: &str,
    name: &str,
    uid: Option<&str>,
) -> Result<Value, kube::Error> {
    let body = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": { "name": name, "namespace": namespace },
        "deleteOptions": { "preconditions": { "uid": uid } },
    });
    let url = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
    let request = http::Request::post(url).header(http::header::CONTENT_TYPE, "application/json");
    let request = request
        .body(body.to_string().into_bytes())
        .map_err(kube::Error::HttpError)?;
    source.client.request(request).await
}

fn title_of(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any())
}

fn count(pods: usize) -> String {
    match pods {
        1 => "1 pod".to_owned(),
        _ => format!("{pods} pods"),
    }
}

/// The first of them, and how many more there are.
fn told(all: &[String]) -> String {
    let first = all.iter().take(TOLD).map(String::as_str);
    let first = first.collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(TOLD) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(owner: Option<&str>, phase: &str) -> Pod {
        let owners = owner.map(|kind| {
            json!([{ "apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": true }])
        });
        serde_json::from_value(json!({
            "metadata": { "name": "a", "namespace": "shop", "annotations": { keys::SOURCE_POD_MANIFEST: "" },
                "ownerReferences": owners },
            "status": { "phase": phase },
        }))
        .unwrap()
    }

    #[test]
    fn only_what_a_controller_makes_anew_can_move() {
        for (owner, want) in [
            (Some("ReplicaSet"), true),
            (Some("StatefulSet"), true),
            (Some("Job"), true),
            (Some("DaemonSet"), false),
            (None, false),
        ] {
            assert_eq!(can_move(&pod(owner, "Running")), want, "{owner:?}");
        }
    }

    #[test]
    fn what_has_ended_or_is_no_proxy_is_no_pod_of_the_target() {
        assert!(runs(&pod(None, "Running")) && runs(&pod(None, "Pending")));
        assert!(!runs(&pod(None, "Succeeded")) && !runs(&pod(None, "Failed")));
        assert!(!runs(&Pod::default()));
    }

    #[test]
    fn of_many_the_first_are_told() {
        let all: Vec<String> = (0..12).map(|n| n.to_string()).collect();
        assert_eq!(told(&all), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more");
        assert_eq!(told(&all[..2]), "0, 1");
    }
}
