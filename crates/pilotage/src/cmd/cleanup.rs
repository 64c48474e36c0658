//! `pilotage cleanup`: takes away what the webhook installed, and the finalizers of Pilotage and of Admiralty off, once
//! neither runs in a cluster any more.
//!
//! A finalizer says that somebody has work to do before an object goes. When nobody is left to do it, the object never
//! goes, and its namespace neither. It knows no rule by which a finalizer is due: who runs it says that all are.

mod admission;

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
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

    /// Takes Admiralty's finalizers off ConfigMaps, Secrets, Services and Ingresses, also while Pilotage runs: nothing
    /// waits for them any more. Those on pods go with the pods.
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
    /// Not everything was looked at, or something is left.
    #[error("{0}")]
    Left(Left),
}

/// What a clean-up didn't come to the end of.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// What couldn't be looked at, by plural.
    unread: Vec<String>,
    /// Objects that keep their finalizers.
    objects: usize,
    /// What the webhook installed, and couldn't be deleted.
    kept: usize,
    /// What the webhook has installed anew.
    back: Option<String>,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            unread,
            objects,
            kept,
            back,
        } = self;
        let mut all = Vec::new();
        if let Some(back) = back {
            all.push(format!(
                "{back} is there again: a webhook of Pilotage runs, which installs it; stop it, and give the same \
                 command again"
            ));
        }
        if !unread.is_empty() {
            all.push(format!(
                "nobody knows what is left of {}; each is told above, with the reason",
                unread.join(", ")
            ));
        }
        if *objects > 0 {
            all.push(format!(
                "{objects} object(s) still have such finalizers; each is told above, with the reason"
            ));
        }
        if *kept > 0 {
            all.push(format!(
                "{kept} object(s) of the webhook couldn't be deleted; each is told above, with the reason"
            ));
        }
        f.write_str(&all.join("; "))
    }
}

pub(crate) async fn run(args: Args) -> Result<(), Error> {
    let Args {
        dry_run,
        in_namespace,
        admission_only,
        admiralty,
        namespace,
        client,
        log,
    } = args;
    logs::init(&log)?;
    let client = client::connect(&client, "cleanup").await?;
    // Who may only take away what the webhook installed can't read Leases.
    if !dry_run && !admission_only && !admiralty {
        nobody_runs(&client).await?;
    }
    let mut left = Left::default();
    let may_come_back = if in_namespace.is_none() && !admiralty {
        take_admission(&client, namespace.as_deref(), dry_run, &mut left).await?
    } else {
        false
    };
    if !admission_only {
        let whose = if admiralty {
            Whose::Admiraltys
        } else {
            Whose::Both
        };
        take_finalizers(&client, whose, in_namespace.as_deref(), dry_run, &mut left).await?;
    }
    if may_come_back {
        left.back = admission::back(&client).await;
    }
    left.verdict().map_err(Error::from)
}

impl Left {
    fn verdict(self) -> Result<(), CleanupError> {
        if self == Self::default() {
            return Ok(());
        }
        Err(CleanupError::Left(self))
    }
}

/// What the webhook installed, while it still answers and nobody lets it install that anew. The API server may know of
/// that only a moment later.
pub(super) async fn disarm(client: &Client) -> Result<(), Error> {
    let mut left = Left::default();
    for _ in 0..TRIES {
        let may_come_back = take_admission(client, None, false, &mut left).await?;
        left.back = None;
        if may_come_back && left.kept == 0 {
            left.back = admission::back(client).await;
        }
        if left.back.is_none() {
            break;
        }
    }
    left.verdict().map_err(Error::from)
}

/// Everything, once the parts are gone that were installed: others may run all the same.
pub(super) async fn all(client: &Client, namespace: &str) -> Result<(), Error> {
    nobody_runs(client).await?;
    let mut left = Left::default();
    let may_come_back = take_admission(client, Some(namespace), false, &mut left).await?;
    take_finalizers(client, Whose::Both, None, false, &mut left).await?;
    if may_come_back {
        left.back = admission::back(client).await;
    }
    left.verdict().map_err(Error::from)
}

/// Deletes what the webhook installed, and tells of each object that was there. Returns whether its configuration was
/// deleted, and may come back.
async fn take_admission(
    client: &Client,
    namespace: Option<&str>,
    dry_run: bool,
    left: &mut Left,
) -> Result<bool, Error> {
    let did = if dry_run {
        "would be deleted"
    } else {
        "deleted"
    };
    let removed = admission::remove(client, namespace, dry_run).await;
    // The first one is the configuration.
    let was_there = matches!(removed.first(), Some((_, Ok(true))));
    for (object, deleted) in removed {
        match deleted {
            Ok(false) => {}
            Ok(true) => super::print(&format!("{object}: {did}\n"))?,
            Err(error) => {
                left.kept = left.kept.saturating_add(1);
                super::print(&format!("{object} stays: {}\n", crate::explain(&error)))?;
            }
        }
    }
    Ok(was_there && !dry_run)
}

/// Takes finalizers off all objects that carry some, or off those of one namespace, and tells of each object. What
/// can't be read keeps nothing else from being looked at.
async fn take_finalizers(
    client: &Client,
    whose: Whose,
    namespace: Option<&str>,
    dry_run: bool,
    left: &mut Left,
) -> Result<(), Error> {
    let kinds = match whose {
        Whose::Admiraltys => Vec::from(followed()),
        Whose::Both => Vec::from(kinds()),
    };
    let mut done = 0_usize;
    for kind in &kinds {
        if namespace.is_some() && !kind.namespaced {
            continue;
        }
        let marked = match kind.marked(client, whose, namespace).await {
            Ok(marked) => marked,
            Err(error) => {
                let plural = kind.resource.plural.clone();
                super::print(&format!("{plural}: {}\n", crate::explain(&error)))?;
                left.unread.push(plural);
                continue;
            }
        };
        for object in marked {
            let name = kind.named(&object);
            let finalizers = whose.of(&object).join(" ");
            let outcome = if dry_run {
                Ok(())
            } else {
                release(client, kind, whose, object).await
            };
            let mut line = format!("{name}: {finalizers}");
            match outcome {
                Ok(()) => done = done.saturating_add(1),
                Err(error) => {
                    left.objects = left.objects.saturating_add(1);
                    let _ = write!(line, " stays: {}", crate::explain(&error));
                }
            }
            super::print(&format!("{line}\n"))?;
        }
    }
    let did = if dry_run {
        "would be released"
    } else {
        "released"
    };
    super::print(&format!("{done} object(s) {did}\n"))
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

/// Whether a Lease of a part of Pilotage has a holder that renews it. Clocks of two machines aren't compared: it is
/// read again after as long as it lasts.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_left_is_told() {
        assert!(Left::default().verdict().is_ok());
        let left = Left {
            unread: vec!["pods".to_owned(), "secrets".to_owned()],
            objects: 2,
            kept: 1,
            back: Some("a/b".to_owned()),
        };
        let told = left.verdict().unwrap_err().to_string();
        for words in [
            "a/b is there again: a webhook of Pilotage runs",
            "nobody knows what is left of pods, secrets;",
            "2 object(s) still have such finalizers",
            "1 object(s) of the webhook couldn't be deleted",
        ] {
            assert!(told.contains(words), "{words} in {told}");
        }
    }
}
