//! `drain`: no new pod goes to a target, and those that are there may be made anew elsewhere.
//!
//! It is `kubectl cordon` of the target's virtual node, and eviction of its proxies: their controller in the source
//! makes others, which go elsewhere. A proxy keeps its name until its delegate is gone: of a StatefulSet's pods there
//! are never two.

use std::time::Duration;

use clap::Args;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use pilotage_api::keys;
use pilotage_api::record::Record;
use pilotage_runtime::args::parse_duration;
use pilotage_runtime::call::{CALL_LIMIT, CallError, Failure, find, within};
use pilotage_runtime::pages;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::plan::{MANAGER, Need};
use crate::program::program;
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

    /// Evict the pods that are there and have a controller that makes others: these go elsewhere. Disruption budgets
    /// count.
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
pub(crate) async fn drain(args: DrainArgs) -> Result<String, Error> {
    let (source, target) = args.which.open().await?;
    preflight::rights(&source, &needs(&target, args.r#move)).await?;
    let (title, node) = (target.title(), target.node());
    let (connected, ..) = target.connected();
    if args.r#move && connected != "True" {
        return Err(Error::NotNow {
            what: format!("{title} isn't connected, and its pods may run on there"),
            instead: format!(
                "wait until it answers, or give it up by \"{} forget\"; without --move only new pods are kept away",
                program()
            ),
        });
    }
    cordon(&source, &target, &node, !args.undo).await?;
    if args.undo {
        return Ok(format!("{title} takes new pods again\n"));
    }
    progress(&format!(
        "source: no new pod goes to {title} (virtual node {node})"
    ));
    let pods = proxies(&source, &target, &node).await?;
    if !args.r#move {
        return Ok(kept_away(&title, pods.len()));
    }
    let until = Instant::now().checked_add(args.timeout);
    let slots = Semaphore::new(TOGETHER);
    let (mut pods, mut moved) = (pods, 0_usize);
    let stay = loop {
        let (stay, go): (Vec<Pod>, Vec<Pod>) = pods.into_iter().partition(|pod| !can_move(pod));
        if go.is_empty() {
            break stay;
        }
        moved = moved.saturating_add(go.len());
        let (together, ends) = (go.len(), stream::iter(go));
        let ends = ends.map(|pod| async {
            let end = evict(&source, &slots, &pod, until, args.timeout).await;
            (pod, end)
        });
        let ends: Vec<_> = ends.buffer_unordered(together).collect().await;
        gone(&source, &title, ends, args.timeout)?;
        // Who was granted to it before it was cordoned has been bound there meanwhile.
        pods = proxies(&source, &target, &node).await?;
    };
    let stay: Vec<String> = stay.iter().map(title_of).collect();
    Ok(emptied(&title, moved, &stay))
}

/// What is printed when no new pod comes any more.
fn kept_away(title: &str, pods: usize) -> String {
    let stay = match pods {
        1 => "1 pod there stays until it ends".to_owned(),
        _ => format!("{pods} pods there stay until they end"),
    };
    format!("drained: {title} takes no new pods; {stay}, or until --move; --undo takes it back\n")
}

/// The same when so many have gone, and these stay.
fn emptied(title: &str, moved: usize, stay: &[String]) -> String {
    let stay = if stay.is_empty() {
        String::new()
    } else {
        format!("; what no controller makes anew stays: {}", told(stay))
    };
    format!(
        "drained: {title} takes no new pods, and {} left it{stay}\n",
        count(moved)
    )
}

/// All are gone, or an error says who isn't and why.
fn gone(
    source: &Cluster,
    title: &str,
    ends: Vec<(Pod, Result<Option<String>, CallError>)>,
    limit: Duration,
) -> Result<(), Error> {
    let (mut left, mut failed) = (Vec::new(), None);
    for (pod, end) in ends {
        let why = match end {
            Ok(None) => continue,
            Ok(Some(why)) => why,
            Err(error) => {
                let why = error.message();
                failed.get_or_insert(error);
                why
            }
        };
        left.push(format!("{} ({why})", title_of(&pod)));
    }
    if left.is_empty() {
        return Ok(());
    }
    left.sort();
    let (count, last) = (count(left.len()), told(&left));
    match failed {
        Some(error) => Err(source.failed(format!("move {count} of {title}: {last}"))(
            error,
        )),
        None => Err(Error::Waited {
            what: format!("{count} of {title} aren't gone"),
            seconds: limit.as_secs(),
            last,
            instead: "give the same command again".to_owned(),
        }),
    }
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
    let there = there.map_err(source.unread(format!("read node {node}")))?;
    let Some(there) = there else {
        return Err(Error::Missing {
            what: format!("virtual node {node} of {}", target.title()),
            instead: "see whether \"pilotage controllers\" runs in the source".to_owned(),
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

/// Pods that a target runs, or is about to: those that it was granted are bound there soon.
async fn proxies(source: &Cluster, target: &Seen, node: &str) -> Result<Vec<Pod>, Error> {
    let pods = pods(source, target.namespace.as_deref());
    // By what nobody can change: labels, anybody can.
    let proxies = format!("spec.schedulerName={}", keys::PROXY_SCHEDULER);
    let proxies = ListParams::default().fields(&proxies);
    let mut there = Vec::new();
    let read = pages::each(CALL_LIMIT, &pods, proxies, |pod| {
        if runs(&pod) && is_at(&pod, node) {
            there.push(pod);
        }
    })
    .await;
    read.map_err(source.failed("list pods"))?;
    Ok(there)
}

/// Whether it is bound to a virtual node, or, if it isn't bound yet, was granted there.
fn is_at(pod: &Pod, node: &str) -> bool {
    let bound = pod.spec.as_ref().and_then(|it| it.node_name.as_deref());
    if let Some(bound) = bound.filter(|it| !it.is_empty()) {
        return bound == node;
    }
    let record = pod.annotations().get(keys::GRANTED_TO);
    let record = record.and_then(|text| text.parse::<Record>().ok());
    record.is_some_and(|it| it.node == node)
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
    slots: &Semaphore,
    pod: &Pod,
    until: Option<Instant>,
    limit: Duration,
) -> Result<Option<String>, CallError> {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let pods: Api<Pod> = source.api(&namespace);
    let uid = pod.uid();
    let mut last = "not evicted: time is up".to_owned();
    // Whom a budget keeps lets others go first. Nobody closes the slots.
    let _slot = loop {
        let slot = slots.acquire().await.ok();
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(Some(last));
        }
        let eviction = eviction(source, &namespace, &name, uid.as_deref());
        match within(CALL_LIMIT, eviction).await {
            Ok(_) => break slot,
            Err(error) => match error.kind() {
                // It is gone, or another one has its name: the look below tells.
                Failure::NotFound | Failure::Conflict => break slot,
                Failure::Throttled => last = error.message(),
                _ => return Err(error),
            },
        }
        drop(slot);
        tokio::time::sleep(BUDGET_PAUSE).await;
    };
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
    source.unrepeated.request(request).await
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
    fn a_pod_is_where_it_is_bound_or_else_where_it_was_granted() {
        let at = |bound: Option<&str>, record: &str| {
            let mut pod = pod(None, "Pending");
            let spec = json!({ "containers": [], "nodeName": bound });
            pod.spec = Some(serde_json::from_value(spec).unwrap());
            let record = (keys::GRANTED_TO.to_owned(), record.to_owned());
            pod.annotations_mut().extend([record]);
            is_at(&pod, "n-a")
        };
        assert!(at(Some("n-a"), "n-b/u/1") && at(None, "n-a/u/1") && at(Some(""), "n-a/u/1"));
        assert!(!at(Some("n-b"), "n-a/u/1") && !at(None, "n-b/u/1") && !at(None, "?"));
    }

    #[test]
    fn what_was_done_is_told_with_what_stays() {
        assert_eq!(
            kept_away("Target shop/paris", 1),
            "drained: Target shop/paris takes no new pods; 1 pod there stays until it ends, or until --move; \
             --undo takes it back\n"
        );
        let many = kept_away("Target shop/paris", 2);
        assert!(
            many.contains("; 2 pods there stay until they end, or "),
            "{many}"
        );
        assert_eq!(
            emptied("Target shop/paris", 2, &[]),
            "drained: Target shop/paris takes no new pods, and 2 pods left it\n"
        );
        let stay = ["shop/db".to_owned(), "shop/web".to_owned()];
        assert_eq!(
            emptied("ClusterTarget rome", 0, &stay),
            "drained: ClusterTarget rome takes no new pods, and 0 pods left it; what no controller makes anew stays: \
             shop/db, shop/web\n"
        );
    }

    #[test]
    fn of_many_the_first_are_told() {
        let all: Vec<String> = (0..12).map(|n| n.to_string()).collect();
        assert_eq!(told(&all), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more");
        assert_eq!(told(&all[..2]), "0, 1");
    }
}
