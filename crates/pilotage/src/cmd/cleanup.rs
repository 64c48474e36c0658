//! `pilotage cleanup`: takes away what the webhook installed, and the finalizers of Pilotage and of Admiralty off, once
//! neither runs in a cluster any more.
//!
//! A finalizer says that somebody has work to do before an object goes. When nobody is left to do it, the object never goes,
//! and its namespace neither. It knows no rule by which a finalizer is due: who runs it says that all are.

mod admission;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, ResourceExt};
use pilotage_proxy::wire;
use pilotage_runtime::args::{ClientArgs, LogArgs};
use pilotage_runtime::call::{self, CALL_LIMIT, CallError, Failure};
use pilotage_runtime::{client, logs};

use super::finalizers::{Kind, ReadError, Whose, followed, kinds};
use crate::error::Error;
use crate::part::Part;

/// An object that others write is tried so often.
const TRIES: usize = 5;
/// How long a Lease is watched whose holder doesn't say how long it lasts.
const USUAL_LEASE: Duration = Duration::from_secs(15);
/// How long is waited if nobody holds one: somebody who runs may be about to take it.
const BRIEFLY: Duration = Duration::from_secs(3);
/// Nobody's Lease is watched for longer.
const LONGEST_LEASE: Duration = Duration::from_mins(2);

/// Flags of `pilotage cleanup`.
#[derive(Debug, clap::Args)]
#[allow(clippy::doc_markdown, reason = "these are help texts")]
pub struct Args {
    /// Says what would be done, and does nothing.
    #[arg(long)]
    dry_run: bool,

    /// Looks into this namespace alone, and at nothing that belongs to none.
    #[arg(long, value_name = "NAMESPACE", conflicts_with_all = ["admission_only", "namespace"])]
    in_namespace: Option<String>,

    /// Takes away what the webhook installed, and leaves all finalizers.
    #[arg(long)]
    admission_only: bool,

    /// Takes Admiralty's finalizers off ConfigMaps, Secrets, Services and Ingresses, also while Pilotage runs: nothing waits
    /// for them any more. Those on pods go with the pods.
    #[arg(long, conflicts_with_all = ["admission_only", "namespace"])]
    admiralty: bool,

    /// Namespace where Pilotage ran: the webhook's certificate there goes, too.
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,

    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// Why nothing, or not everything, was done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CleanupError {
    /// Somebody is there who takes finalizers off when they are due.
    #[error(
        "{lease} is held by {holder}, which renews it: Pilotage runs here, and takes its finalizers off itself; \
         stop it first"
    )]
    Runs {
        /// Namespace and name of the Lease.
        lease: String,
        /// Who holds it.
        holder: String,
    },
    /// A request failed that everything rests on.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Some are left.
    #[error("{0} object(s) still have such finalizers; each is told above, with the reason")]
    Left(usize),
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    logs::init(&args.log)?;
    let client = client::connect(&args.client, "cleanup").await?;
    // Who may only take away what the webhook installed can't read Leases.
    if !args.dry_run && !args.admission_only && !args.admiralty {
        nobody_runs(&client).await?;
    }
    if args.in_namespace.is_none() && !args.admiralty {
        let namespace = args.namespace.as_deref();
        let did = if args.dry_run {
            "would be deleted"
        } else {
            "deleted"
        };
        let removed = admission::remove(&client, namespace, args.dry_run).await;
        for object in removed.map_err(CleanupError::from)? {
            super::print(&format!("{object}: {did}\n"))?;
        }
    }
    if args.admission_only {
        return Ok(());
    }
    let (whose, kinds) = if args.admiralty {
        (Whose::Admiraltys, Vec::from(followed()))
    } else {
        (Whose::Both, Vec::from(kinds()))
    };
    let mut left = 0_usize;
    let mut objects = 0_usize;
    for kind in &kinds {
        if args.in_namespace.is_some() && !kind.namespaced {
            continue;
        }
        let marked = kind
            .marked(&client, whose, args.in_namespace.as_deref())
            .await;
        for object in marked.map_err(CleanupError::from)? {
            objects = objects.saturating_add(1);
            let name = kind.named(&object);
            let finalizers = whose.of(&object).join(" ");
            let outcome = if args.dry_run {
                Ok(())
            } else {
                release(&client, kind, whose, object).await
            };
            let mut line = format!("{name}: {finalizers}");
            if let Err(error) = outcome {
                left = left.saturating_add(1);
                let _ = write!(line, " stays: {}", crate::explain(&error));
            }
            super::print(&format!("{line}\n"))?;
        }
    }
    let did = if args.dry_run {
        "would be released"
    } else {
        "released"
    };
    let done = objects.saturating_sub(left);
    super::print(&format!("{done} object(s) {did}\n"))?;
    if left > 0 {
        return Err(CleanupError::Left(left).into());
    }
    Ok(())
}

/// Takes the finalizers off one object. Others' stay, and so does what somebody writes meanwhile.
async fn release(
    client: &Client,
    kind: &Kind,
    whose: Whose,
    mut object: PartialObjectMeta<DynamicObject>,
) -> Result<(), CallError> {
    let namespace = object.namespace();
    let api = kind.api(client, namespace.as_deref());
    let name = object.name_any();
    let mut tries = 0_usize;
    loop {
        tries = tries.saturating_add(1);
        let all = object.metadata.finalizers.iter().flatten();
        let others = all.filter(|it| !whose.takes(it));
        let others: Vec<_> = others.cloned().collect();
        let uid = object.metadata.uid.as_deref().unwrap_or_default();
        let version = object.metadata.resource_version.as_deref();
        let patch = wire::finalizers(uid, version.unwrap_or_default(), &others);
        let patch = Patch::Merge(patch);
        let params = PatchParams {
            field_manager: Some("pilotage-cleanup".to_owned()),
            ..PatchParams::default()
        };
        let sent = api.patch_metadata(&name, &params, &patch);
        match call::within(CALL_LIMIT, sent).await {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == Failure::NotFound => return Ok(()),
            Err(error) if error.kind() == Failure::Conflict && tries < TRIES => {
                match call::within(CALL_LIMIT, api.get_metadata(&name)).await {
                    Ok(now) if now.metadata.uid != object.metadata.uid => return Ok(()),
                    Ok(now) => object = now,
                    Err(error) if error.kind() == Failure::NotFound => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whether a Lease of a part of Pilotage has a holder that renews it. Clocks of two machines aren't compared: it is read again
/// after as long as it lasts.
async fn nobody_runs(client: &Client) -> Result<(), CleanupError> {
    let held = held_leases(client).await?;
    let lasts = held.values().map(|held| held.lasts).max();
    let longest = lasts.unwrap_or(BRIEFLY);
    tracing::info!(
        seconds = longest.as_secs(),
        "looking whether those who hold Leases of Pilotage still renew them"
    );
    tokio::time::sleep(longest.min(LONGEST_LEASE)).await;
    let now = held_leases(client).await?;
    let renewed = now.into_iter().find(|(lease, now)| {
        held.get(lease)
            .is_none_or(|before| before.version != now.version)
    });
    match renewed {
        Some((lease, Held { holder, .. })) => Err(CleanupError::Runs { lease, holder }),
        None => Ok(()),
    }
}

/// A Lease that somebody holds.
struct Held {
    holder: String,
    version: Option<String>,
    lasts: Duration,
}

async fn held_leases(client: &Client) -> Result<BTreeMap<String, Held>, CleanupError> {
    let leases: Api<Lease> = Api::all(client.clone());
    let mut held = BTreeMap::new();
    for part in Part::ALL {
        let name = part.object_name();
        let params = ListParams::default().fields(&format!("metadata.name={name}"));
        let found = call::within(CALL_LIMIT, leases.list(&params)).await;
        let found = found.map_err(ReadError::to("list leases"))?;
        for lease in found {
            let spec = lease.spec.clone().unwrap_or_default();
            let Some(holder) = spec.holder_identity.filter(|holder| !holder.is_empty()) else {
                continue;
            };
            let seconds = spec
                .lease_duration_seconds
                .and_then(|it| u64::try_from(it).ok());
            let lasts = seconds.map_or(USUAL_LEASE, Duration::from_secs);
            let namespace = lease.namespace().unwrap_or_default();
            let version = lease.metadata.resource_version;
            held.insert(
                format!("the Lease {namespace}/{name}"),
                Held {
                    holder,
                    version,
                    lasts,
                },
            );
        }
    }
    Ok(held)
}
