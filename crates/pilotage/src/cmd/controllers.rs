//! `pilotage controllers`: wiring of everything that keeps objects in order, in sources and in targets.

use std::convert::Infallible;

use pilotage_clusters::{Registry, TargetArgs, cluster_uid, identity};
use pilotage_controllers::chaperon::{self, Chaperons};
use pilotage_controllers::feedback::{self, Feedback};
use pilotage_proxy::Settings;
use pilotage_runtime::args::LeaseArgs;
use pilotage_runtime::lease;
use pilotage_runtime::rbac::Rule;
use pilotage_vnode::NodeArgs;

use crate::error::Error;
use crate::part::Part;
use crate::process::{Process, ProcessArgs};

/// The rules of its components.
pub(crate) const RULES: &[&[Rule]] = &[
    lease::RULES,
    identity::RULES,
    pilotage_clusters::rbac::RULES,
    pilotage_vnode::rbac::RULES,
    feedback::rbac::RULES,
    chaperon::rbac::RULES,
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
    own: OwnArgs,
}

/// Flags that only this part has.
#[derive(Debug, clap::Args)]
pub(crate) struct OwnArgs {
    #[command(flatten)]
    nodes: NodeArgs,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let mut process = Process::begin(Part::Controllers.name(), &args.process).await?;
    start(&mut process, &args.own, &args.lease, args.targets).await?;
    process.run().await
}

/// Adds the controllers to a process.
pub(crate) async fn start(
    process: &mut Process,
    args: &OwnArgs,
    lease: &LeaseArgs,
    targets: TargetArgs,
) -> Result<(), Error> {
    let part = Part::Controllers;
    let client = process.client(part.name())?;
    let leadership = process.leadership(lease, &part.object_name())?;
    let events = process.recorder(client.clone());
    let token = process.token();

    // In a source.
    let registry = Registry::start(&client, targets.to_options(part.name(), &[]), &token);
    let nodes = {
        let (client, registry, nodes) = (client.clone(), registry.clone(), args.nodes);
        let (leadership, health, token) =
            (leadership.clone(), process.health.clone(), token.clone());
        async move {
            pilotage_vnode::run(client, registry, nodes, leadership, &health, token).await;
            Ok::<_, Infallible>(())
        }
    };
    process.component("virtual nodes", nodes).await;
    let gate = process.health.gate("proxy pods listed for feedback");
    let back = {
        let (client, events, leadership) = (client.clone(), events.clone(), leadership.clone());
        let token = token.clone();
        async move {
            let cluster = cluster_uid(&client).await?;
            let settings = Settings::default();
            let with = Feedback {
                client,
                cluster,
                registry,
                settings,
                leadership,
                events,
            };
            feedback::run(with, token, gate).await;
            Ok::<_, identity::IdentityError>(())
        }
    };
    process.component("feedback", back).await;

    // In a target.
    let gate = process.health.gate("chaperons listed");
    let chaperons = async move {
        chaperon::run(
            Chaperons {
                client,
                leadership,
                events,
            },
            token,
            gate,
        )
        .await;
        Ok::<_, Infallible>(())
    };
    process.component("chaperons", chaperons).await;
    Ok(())
}
