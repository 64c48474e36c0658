//! `pilotage controllers`: wiring of everything that keeps objects in order, in sources and in targets.

use std::convert::Infallible;
use std::error::Error as StdError;

use futures::FutureExt;
use futures::future::BoxFuture;
use pilotage_api::{Right, keys};
use pilotage_clusters::{LocalStreams, Need, Registry, TargetArgs, cluster_uid, identity};
use pilotage_controllers::chaperon::{self, Chaperons};
use pilotage_controllers::feedback::{self, Feedback};
use pilotage_controllers::fleet::FleetMetrics;
use pilotage_controllers::follow::{
    self, Follow, FollowArgs, FollowLimits, FollowedKind, Unfollowed,
};
use pilotage_controllers::source::{self, SourceArgs};
use pilotage_controllers::summary::{self, SummaryArgs};
use pilotage_controllers::target;
use pilotage_proxy::Settings;
use pilotage_runtime::args::LeaseArgs;
use pilotage_runtime::lease;
use pilotage_runtime::rbac::Rule;
use pilotage_vnode::kubelet::{Kubelet, KubeletMetrics, KubeletWith};
use pilotage_vnode::{KubeletArgs, NodeArgs, VirtualNodes};

use crate::error::Error;
use crate::part::Part;
use crate::process::{Process, ProcessArgs};

/// The rules of its components.
pub(crate) const RULES: &[&[Rule]] = &[
    lease::RULES,
    identity::RULES,
    pilotage_clusters::rbac::RULES,
    pilotage_vnode::rbac::RULES,
    target::rbac::RULES,
    target::rbac::SELF_TARGET_RULES,
    feedback::rbac::RULES,
    source::rbac::RULES,
    chaperon::rbac::RULES,
    summary::rbac::RULES,
];

/// Roles that the controllers give to sources; nobody else is bound to them.
pub(crate) const GIVEN_ROLES: &[(&str, &[Rule])] = &[
    (source::rbac::SOURCE_ROLE, source::rbac::SOURCE_RULES),
    (
        source::rbac::SUMMARY_VIEWER_ROLE,
        source::rbac::SUMMARY_VIEWER_RULES,
    ),
];

/// Flags of `pilotage controllers`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    process: ProcessArgs,
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    targets: TargetArgs,
    #[command(flatten)]
    own: ControllersArgs,
}

/// Flags that only this part has.
#[derive(Debug, clap::Args)]
pub(crate) struct ControllersArgs {
    #[command(flatten)]
    nodes: NodeArgs,
    #[command(flatten)]
    kubelet: KubeletArgs,
    #[command(flatten)]
    sources: SourceArgs,
    #[command(flatten)]
    summary: SummaryArgs,
    #[command(flatten)]
    follow: FollowArgs,
    #[command(flatten)]
    follow_limits: FollowLimits,
}

impl ControllersArgs {
    /// What is needed in each target.
    fn needs(&self) -> Vec<Need> {
        let kinds = self.follow.kinds().into_iter();
        let kubelet = self.kubelet.kubelet_address.as_ref();
        let kubelet = kubelet.map(|_| {
            [
                Right::Logs,
                Right::Exec,
                Right::Attach,
                Right::PortForward,
                Right::Metrics,
            ]
        });
        let rights = kinds
            .map(FollowedKind::right)
            .chain(kubelet.into_iter().flatten());
        let extra = rights.flat_map(target::rbac::right_needs);
        target::rbac::NEEDS.iter().copied().chain(extra).collect()
    }
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let mut process = Process::begin(Part::Controllers.name(), &args.process).await?;
    start(&mut process, &args.own, &args.lease, args.targets)?;
    process.run().await
}

/// Adds the controllers to a process.
pub(crate) fn start(
    process: &mut Process,
    args: &ControllersArgs,
    lease: &LeaseArgs,
    targets: TargetArgs,
) -> Result<(), Error> {
    let part = Part::Controllers;
    let client = process.client(part.name())?;
    let unthrottled = process.unthrottled(part.name())?;
    let config = lease.to_config(&part.object_name(), process.namespace())?;
    // Who connects a target has no other place to see it.
    let kinds = args.follow.kinds().into_iter();
    let kinds = kinds.map(|kind| kind.right().flag().trim_start_matches("follow-"));
    let kinds = kinds.collect::<Vec<_>>().join(",");
    let config = config.map(|config| config.annotated(keys::FOLLOWED_KINDS, &kinds));
    let leadership = process.elected(config)?;
    let events = process.recorder(client.clone());
    let token = process.token();

    // In a source.
    let mut options = targets.to_options(part.name(), &args.needs());
    options.local_streams = Some(LocalStreams(process.streams_client(part.name())?));
    options.unthrottled = Some(unthrottled.clone());
    let registry = Registry::start(&client, options, &token);
    let gate = process.health.gate("targets listed");
    let status = target::run(
        client.clone(),
        registry.clone(),
        events.clone(),
        leadership.clone(),
        gate,
        token.clone(),
    );
    process.component("target status", unfailing(status));
    let proxies = feedback::watch_proxies(&client, &token);
    let nodes = {
        let (client, registry, nodes) = (client.clone(), registry.clone(), args.nodes);
        let proxies = proxies.clone();
        let (leadership, health, token) =
            (leadership.clone(), process.health.clone(), token.clone());
        let follows = args.follow.kinds().into_iter();
        let follows = follows.map(FollowedKind::right).collect();
        let (kubelet, asked) = (args.kubelet.clone(), args.kubelet.kubelet_address.is_some());
        let metrics = asked.then(|| KubeletMetrics::register(process.metrics(Part::Controllers)));
        async move {
            // It has to listen before virtual nodes say that it does.
            let kubelet = Kubelet::bind(&kubelet).await?;
            let cluster = cluster_uid(&client).await?;
            let with = VirtualNodes {
                cluster: cluster.clone(),
                client: client.clone(),
                leases: unthrottled.clone(),
                registry: registry.clone(),
                args: nodes,
                kubelet: kubelet.as_ref().map(|kubelet| kubelet.endpoint().clone()),
                follows,
                leadership,
            };
            let answering = async {
                if let Some(kubelet) = kubelet {
                    let with = KubeletWith {
                        client: unthrottled,
                        cluster,
                        registry,
                        proxies,
                        metrics: metrics.unwrap_or_default(),
                    };
                    kubelet.run(with, token.clone()).await;
                }
            };
            tokio::join!(pilotage_vnode::run(with, &health, token.clone()), answering);
            Ok::<_, Box<dyn StdError + Send + Sync>>(())
        }
    };
    process.component("virtual nodes", nodes.boxed());
    let gate = process.health.gate("proxy pods listed for feedback");
    let back = {
        let (client, events, leadership) = (client.clone(), events.clone(), leadership.clone());
        let (token, registry) = (token.clone(), registry.clone());
        let proxies = proxies.clone();
        let metrics = FleetMetrics::register(process.metrics(Part::Controllers), registry.clone());
        async move {
            let cluster = cluster_uid(&client).await?;
            let settings = Settings::default();
            let with = Feedback {
                client,
                cluster,
                registry,
                proxies,
                settings,
                leadership,
                metrics,
                events,
            };
            feedback::run(with, token, gate).await;
            Ok::<_, identity::IdentityError>(())
        }
    };
    process.component("feedback", back.boxed());
    let kinds = args.follow.kinds();
    let untold = {
        let (client, registry, events) = (client.clone(), registry.clone(), events.clone());
        let (leadership, token) = (leadership.clone(), token.clone());
        let (proxies, kinds) = (proxies.clone(), kinds.clone());
        let untold = follow::count_untold(process.metrics(part));
        async move {
            let cluster = cluster_uid(&client).await?;
            let with = Unfollowed {
                cluster,
                registry,
                proxies,
                leadership,
                events,
                kinds,
                untold,
            };
            follow::tell_unfollowed(with, token).await;
            Ok::<_, identity::IdentityError>(())
        }
    };
    process.component("what follows no pod", untold.boxed());
    if !kinds.is_empty() {
        let (client, registry, events) = (client.clone(), registry.clone(), events.clone());
        let (leadership, token) = (leadership.clone(), token.clone());
        let at_once = usize::from(args.follow_limits.concurrent_follow_syncs);
        let follow = async move {
            let cluster = cluster_uid(&client).await?;
            let with = Follow {
                client,
                cluster,
                registry,
                proxies,
                leadership,
                events,
                kinds,
                at_once,
            };
            follow::run(with, token).await;
            Ok::<_, identity::IdentityError>(())
        };
        process.component("follow", follow.boxed());
    }

    // In a target.
    let gate = process.health.gate("sources listed");
    let (leads, ending) = (leadership.clone(), token.clone());
    let sources = source::run(client.clone(), args.sources.clone(), leads, gate, ending);
    process.component("sources", unfailing(sources));
    let gate = process.health.gate("nodes and pods listed for the summary");
    let (leads, ending) = (leadership.clone(), token.clone());
    let sum = {
        let (client, summary) = (client.clone(), args.summary);
        async move {
            let cluster = cluster_uid(&client).await?;
            summary::run(client, cluster, summary, leads, gate, ending).await;
            Ok::<_, identity::IdentityError>(())
        }
    };
    process.component("summary", sum.boxed());
    let gate = process.health.gate("chaperons listed");
    let chaperons = chaperon::run(
        Chaperons {
            client,
            leadership,
            events,
        },
        token,
        gate,
    );
    process.component("chaperons", unfailing(chaperons));
    Ok(())
}

/// For components that try again whatever fails.
fn unfailing(running: BoxFuture<'static, ()>) -> BoxFuture<'static, Result<(), Infallible>> {
    running.map(Ok).boxed()
}
