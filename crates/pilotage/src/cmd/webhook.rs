//! `pilotage webhook`: wiring of the admission webhook.

use std::sync::Arc;

use futures::FutureExt;
use pilotage_runtime::rbac::Rule;
use pilotage_webhook::{Metrics, WebhookArgs, rbac};

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
    let running = pilotage_webhook::run(
        options,
        client,
        metrics,
        process.health.clone(),
        process.token(),
    );
    process.component(part.name(), running.boxed());
    Ok(())
}
