//! `make demo`: the main job on three local clusters, from an empty directory to an empty cluster.
//!
//! The stages stand here in order; how they are done is in the other files. Everything is waited for on watches.

mod error;
mod leftovers;
mod say;
pub mod table;
pub mod timeline;
mod watch;

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::DeleteParams;
use kube::runtime::watcher;
use kube::{Api, Resource};
use pilotage_api::{PodChaperon, Target, names};
use pilotage_testkit::build::nodes;
use pilotage_testkit::{LIMIT, list_until, wait_for};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::error::Error;
use self::say::Say;
use self::timeline::{Story, Timeline, seconds};
use self::watch::Watches;
use crate::fleet::{Fleet, SOURCE_ACCOUNT, Spec, manifest, secret};

/// What the demo applies, and how many pods come of it.
const WORKLOADS: [(&str, usize); 4] = [
    ("deployment.yaml", 10),
    ("job.yaml", 3),
    ("pod.yaml", 1),
    ("big-pod.yaml", 1),
];
/// Where the workloads run, in all clusters.
const NAMESPACE: &str = "default";

/// Runs the demo. With `keep` it stops after the table, and everything stays until Ctrl-C.
pub async fn run(keep: bool) -> Result<(), Error> {
    let say = Say::default();
    say.line("starting three clusters: source (no nodes), small (2 × 4 CPUs), large (2 × 8 CPUs)");
    let spec = Spec::new()
        .one_process()
        .target("small", nodes("small", 2, |node| node.cpu("4")))
        .target("large", nodes("large", 2, |node| node.cpu("8")));
    let mut fleet = tokio::select! {
        fleet = spec.start() => fleet?,
        interrupted = interruption() => return Err(interrupted),
    };
    let outcome = tokio::select! {
        outcome = stages(&say, &mut fleet, keep) => outcome,
        interrupted = interruption() => Err(interrupted),
    };
    if let Err(error) = &outcome
        && !matches!(error, Error::Interrupted)
    {
        println!("\nlogs:");
        for log in fleet.logs() {
            println!("  {}", log.display());
        }
    }
    fleet.stop().await;
    say.line("clusters stopped");
    outcome
}

async fn interruption() -> Error {
    match tokio::signal::ctrl_c().await {
        Ok(()) => Error::Interrupted,
        Err(error) => Error::Signal(error),
    }
}

async fn stages(say: &Say, fleet: &mut Fleet, keep: bool) -> Result<(), Error> {
    say.line("clusters are up; starting Pilotage in each, under its generated roles");
    fleet.install().await?;
    say.line("connecting: a Source in each target, its kubeconfig as a Secret and a Target in the source");
    connect(fleet).await?;
    say.line("both targets are connected, their virtual nodes are ready");
    let fleet = &*fleet;
    tokio::select! {
        outcome = workloads(say, fleet, keep) => outcome,
        ended = fleet.ended() => Err(ended.into()),
    }
}

/// As an administrator would do it, with the manifests that a reader can open.
async fn connect(fleet: &Fleet) -> Result<(), Error> {
    fleet.elect(NAMESPACE).await?;
    for target in &fleet.targets {
        target
            .plane
            .apply_yaml(&manifest("source-of-target.yaml")?)
            .await?;
        let kubeconfig = target.source_kubeconfig(SOURCE_ACCOUNT, NAMESPACE).await?;
        let secret = secret(target.name(), NAMESPACE, &kubeconfig);
        fleet.source.plane.apply_yaml(&secret.to_string()).await?;
    }
    fleet
        .source
        .plane
        .apply_yaml(&manifest("targets.yaml")?)
        .await?;
    for target in &fleet.targets {
        fleet.source.connected(target.name(), NAMESPACE).await?;
    }
    Ok(())
}

async fn workloads(say: &Say, fleet: &Fleet, keep: bool) -> Result<(), Error> {
    let mut watches = Watches::start(fleet, NAMESPACE);
    say.stage("applying a Deployment, a Job and two Pods, all with the annotation elect");
    for (file, _) in WORKLOADS {
        fleet.source.plane.apply_yaml(&manifest(file)?).await?;
    }
    let mut timeline = Timeline::default();
    let watched = follow(say, &mut watches, &mut timeline);
    if tokio::time::timeout(LIMIT, watched).await.is_err() {
        println!("\n{}", table::table(&timeline));
        return Err(Error::Missing {
            missing: missing(&timeline),
            after: LIMIT,
        });
    }
    controllers_are_content(fleet).await?;
    say.stage("all pods have run; times are seconds since each pod was created\n");
    println!("{}", table::table(&timeline));
    check(&timeline)?;
    if keep {
        return play(fleet).await;
    }
    clean_up(say, fleet).await
}

/// Tells what happens until every pod has run.
async fn follow(say: &Say, watches: &mut Watches, timeline: &mut Timeline) {
    let wanted: usize = WORKLOADS.iter().map(|(_, pods)| pods).sum();
    loop {
        let stories = timeline.stories();
        if stories.len() >= wanted && stories.iter().all(|story| is_done(story)) {
            return;
        }
        let seen = watches.next().await;
        if let Some(line) = timeline.see(say.elapsed(), seen) {
            say.line(&line);
        }
    }
}

fn is_done(story: &Story) -> bool {
    story.ran.is_some() && story.placed.is_some() && !story.delegates.is_empty()
}

fn missing(timeline: &Timeline) -> String {
    let missing: Vec<_> = timeline
        .stories()
        .into_iter()
        .filter(|story| !is_done(story))
        .map(|story| {
            let refused: Vec<_> = story
                .refused
                .iter()
                .map(|(cluster, why)| format!("{cluster}: {why}"))
                .collect();
            format!("pod {} doesn't run ({})", story.name, refused.join("; "))
        })
        .collect();
    if missing.is_empty() {
        "some pods were never created".to_owned()
    } else {
        missing.join(", ")
    }
}

/// The source's own controllers see their pods run and end.
async fn controllers_are_content(fleet: &Fleet) -> Result<(), Error> {
    let client = fleet.source.plane.admin();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let is_available = |deployment: &Deployment| {
        deployment
            .status
            .as_ref()
            .and_then(|status| status.available_replicas)
            == Some(10)
    };
    wait_for(&deployments, "web", is_available, LIMIT)
        .await
        .map_err(Error::wait("the Deployment is not available"))?;
    let jobs: Api<Job> = Api::namespaced(client, NAMESPACE);
    let is_complete =
        |job: &Job| job.status.as_ref().and_then(|status| status.succeeded) == Some(3);
    wait_for(&jobs, "report", is_complete, LIMIT)
        .await
        .map(drop)
        .map_err(Error::wait("the Job is not complete"))
}

/// Every pod runs in exactly one cluster, the one that its virtual node stands for, and the big one in the large one.
fn check(timeline: &Timeline) -> Result<(), Error> {
    for story in timeline.stories() {
        let clusters: Vec<_> = story.delegates.keys().map(String::as_str).collect();
        let [cluster] = clusters[..] else {
            return Err(Error::Wrong(format!(
                "{} was bound in {clusters:?}",
                story.name
            )));
        };
        let want = names::virtual_node(Some(NAMESPACE), cluster);
        let placed = story.placed.as_ref().map(|(node, _)| node.as_str());
        if placed != Some(want.as_str()) {
            return Err(Error::Wrong(format!(
                "{} runs in {cluster}, not at {placed:?}",
                story.name
            )));
        }
        if story.name == "big" && cluster != "large" {
            return Err(Error::Wrong(
                "the big pod runs in a small cluster".to_owned(),
            ));
        }
    }
    Ok(())
}

async fn clean_up(say: &Say, fleet: &Fleet) -> Result<(), Error> {
    say.stage("deleting the workloads");
    let client = fleet.source.plane.admin();
    let delete = DeleteParams::background();
    let request = |what| Error::request(what);
    Api::<Deployment>::namespaced(client.clone(), NAMESPACE)
        .delete("web", &delete)
        .await
        .map_err(request("can't delete the Deployment"))?;
    Api::<Job>::namespaced(client.clone(), NAMESPACE)
        .delete("report", &delete)
        .await
        .map_err(request("can't delete the Job"))?;
    let pods = Api::<Pod>::namespaced(client.clone(), NAMESPACE);
    for name in ["alone", "big"] {
        pods.delete(name, &delete)
            .await
            .map_err(request("can't delete a pod"))?;
    }
    let began = say.elapsed();
    for cluster in fleet.all() {
        let name = cluster.name();
        let pods = Api::<Pod>::namespaced(cluster.plane.admin(), NAMESPACE);
        empty(&pods, &format!("pods are left in {name}")).await?;
        let chaperons = Api::<PodChaperon>::all(cluster.plane.admin());
        empty(&chaperons, &format!("chaperons are left in {name}")).await?;
    }
    let after = seconds(say.elapsed().saturating_sub(began));
    say.line(&format!(
        "pods and chaperons are gone in all clusters, {after} after the last deletion"
    ));
    say.line("deleting the Targets");
    let targets = Api::<Target>::namespaced(client.clone(), NAMESPACE);
    for target in &fleet.targets {
        targets
            .delete(target.name(), &DeleteParams::default())
            .await
            .map_err(request("can't delete a Target"))?;
    }
    empty(&targets, "Targets are left").await?;
    empty(&Api::<Node>::all(client), "virtual nodes are left").await?;
    let left = leftovers::find(fleet).await?;
    if !left.is_empty() {
        return Err(Error::Wrong(format!(
            "left in the clusters: {}",
            left.join(", ")
        )));
    }
    say.line("listed again: no pod, chaperon, finalizer, hold, Target or virtual node is left");
    Ok(())
}

/// Waits until nothing of a kind is left.
async fn empty<K>(api: &Api<K>, failure: &str) -> Result<(), Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Serialize + std::fmt::Debug + Send,
    K: 'static,
{
    let config = watcher::Config::default();
    list_until(api, config, BTreeMap::is_empty, LIMIT)
        .await
        .map(drop)
        .map_err(Error::wait(failure))
}

/// Leaves everything running until Ctrl-C.
async fn play(fleet: &Fleet) -> Result<(), Error> {
    let kubectl = fleet.source.plane.tools().directory().join("kubectl");
    println!("\nThe clusters go on. In another terminal:\n");
    println!("  alias kubectl={}", kubectl.display());
    for cluster in fleet.all() {
        let kubeconfig = cluster.plane.admin_kubeconfig();
        println!(
            "  export KUBECONFIG={}  # {}",
            kubeconfig.display(),
            cluster.name()
        );
    }
    println!("\nLogs of Pilotage:");
    for pilotage in fleet.all().flat_map(|cluster| cluster.processes.values()) {
        println!("  {}", pilotage.log().display());
    }
    println!("\nCtrl-C stops everything and removes it.");
    std::future::pending().await
}
