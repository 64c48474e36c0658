//! `pilotage webhook`: wiring of the admission webhook.

use std::sync::Arc;

use pilotage_runtime::rbac::Rule;
use pilotage_sched_driver::publish::{EventType, Occurrence, Regarding};
use pilotage_webhook::daemons::DaemonSet;
use pilotage_webhook::{Metrics, Notice, WebhookArgs, rbac};

use crate::error::Error;
use crate::part::Part;
use crate::process::{Process, ProcessArgs};

/// The rules of its components.
pub(crate) const RULES: &[&[Rule]] = &[rbac::RULES];

/// Flags of `pilotage webhook`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    process: ProcessArgs,
    #[command(flatten)]
    webhook: WebhookArgs,
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let mut process = Process::begin(Part::Webhook.name(), &args.process).await?;
    start(&mut process, &args.webhook)?;
    process.run().await
}

/// Adds the webhook to a process. Its replicas need no leader.
pub(crate) fn start(process: &mut Process, args: &WebhookArgs) -> Result<(), Error> {
    let part = Part::Webhook;
    let options = args
        .to_options(process.namespace())
        .map_err(Error::start(part))?;
    let metrics = Arc::new(Metrics::register(process.metrics(part)));
    let client = process.client(part.name())?;
    let events = process.recorder(client.clone());
    let running = pilotage_webhook::run(
        options,
        client,
        metrics,
        Arc::new(move |notice| events.record(stays_local(notice))),
        process.health.clone(),
        process.token(),
    );
    process.component(part.name(), running);
    Ok(())
}

/// The event on a DaemonSet whose pods are elected in vain.
fn stays_local(Notice { namespace, owner }: Notice) -> Occurrence {
    Occurrence {
        type_: EventType::Warning,
        reason: "NotDelegated",
        action: "Admit",
        note: owner.to_string(),
        controller: Part::Webhook.name().into(),
        regarding: Regarding {
            api_version: owner.api_version,
            kind: DaemonSet::KIND.to_owned(),
            namespace,
            name: owner.name,
            uid: owner.uid,
        },
    }
}
