//! Our finalizer on the Secrets that Targets use.
//!
//! A namespace that is deleted takes a Target and its Secret along, in any order; without the kubeconfig nobody could
//! clean up in the target, and the Target, with its namespace, would stay for ever. A Secret that somebody deletes by
//! itself, to put another one in its place, is let go at once. One that holds no kubeconfig is none of ours, whoever
//! names it.
//!
//! Where we may read Secrets of some namespaces only, these rights go with the namespace, which a finalizer of ours
//! would then keep for ever: none is put on, and one that an earlier process put on is taken off. Must not know what is
//! in a Secret.
//!
//! While it isn't known what one of the Targets uses, because of a panic, no finalizer is taken off.

pub mod decide;

use std::collections::HashMap;
use std::time::Duration;

use futures::future::select_all;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use pilotage_api::keys;
use pilotage_clusters::spec::Access;
use pilotage_clusters::{Registry, Target, TargetKey, TargetNamespaces, Watch, WatchConfig};
use pilotage_runtime::backoff::dice;
use pilotage_runtime::call::{self, CALL_LIMIT, CallError, Failure};
use pilotage_runtime::caught::{PAUSES, caught_async};
use pilotage_runtime::lease::Leadership;
use pilotage_runtime::retries::Retries;
use serde_json::{Value, json};
use tokio::sync::watch as cell;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::act::FIELD_MANAGER;
use decide::{Held, Index, Name, Step, Use, decide, uses};

/// How soon a Secret that came without an event of ours is noticed, and what failed is tried again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Secrets in a page of a list: anybody may mark any number of own ones, each with a megabyte in it.
const PAGE: u32 = 20;

/// The Secrets that have our label, in all namespaces or in each that we may look into.
struct Labelled {
    /// By namespace; one without stands for all.
    watches: Vec<(Option<String>, Watch<Secret>)>,
}

impl Labelled {
    fn watch(client: &Client, namespaces: &TargetNamespaces, stop: &CancellationToken) -> Self {
        let config = || {
            WatchConfig::all()
                .labels(format!("{}={}", keys::HAS_FINALIZER, keys::TRUE))
                .pages_of(PAGE)
                .trim(trim)
        };
        let one = |namespace: &String| {
            let watch = Watch::of_namespace(client.clone(), namespace, config(), stop);
            (Some(namespace.clone()), watch)
        };
        let watches = if namespaces.is_narrow() {
            namespaces.names().iter().map(one).collect()
        } else {
            vec![(None, Watch::of_client(client.clone(), config(), stop))]
        };
        Self { watches }
    }

    /// The watch that would show Secrets of this namespace, once it has shown those that are there: one namespace that
    /// doesn't let us look delays no other.
    fn of(&self, namespace: &str) -> Option<&Watch<Secret>> {
        let mut watches = self.watches.iter();
        let fits = |of: Option<&str>| of.is_none_or(|of| of == namespace);
        let found = watches.find(|(of, watch)| fits(of.as_deref()) && watch.is_synced());
        found.map(|(_, watch)| watch)
    }

    fn held(&self) -> Vec<Held> {
        let secrets = self.watches.iter().flat_map(|(_, watch)| watch.list());
        secrets.filter_map(|secret| held_by_us(&secret)).collect()
    }

    fn changes(&self) -> Vec<cell::Receiver<u64>> {
        let watches = self.watches.iter();
        watches.map(|(_, watch)| watch.changes()).collect()
    }
}

/// The next change of any of them: only the outcome matters.
async fn any(changes: &mut [cell::Receiver<u64>]) {
    if changes.is_empty() {
        return std::future::pending().await;
    }
    let each = changes.iter_mut().map(|changes| {
        Box::pin(async {
            // The watch has ended, and everything with it.
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    });
    select_all(each).await;
}

/// Keeps our finalizer on the Secrets of `registry`'s Targets and on no others, until `shutdown`.
pub(crate) async fn run(
    client: Client,
    leadership: Leadership,
    registry: Registry,
    shutdown: CancellationToken,
) {
    let labelled = Labelled::watch(&client, registry.namespaces(), &shutdown);
    let work = async {
        // Whose Target isn't known yet isn't nobody's.
        registry.synced().await;
        let (mut secrets, mut targets) = (labelled.changes(), registry.changes());
        let mut kubeconfigs = registry.kubeconfigs();
        let (mut retries, mut failures) = (Retries::new(PAUSES), 0_u32);
        let mut turn = 0_usize;
        loop {
            leadership.acquired().await;
            turn = turn.wrapping_add(1);
            let looked = look(
                &client,
                &leadership,
                &registry,
                &labelled,
                &mut retries,
                turn,
            );
            match caught_async(looked).await {
                // Whose share wasn't enough goes on at once.
                Ok(true) => {
                    failures = 0;
                    continue;
                }
                Ok(false) => failures = 0,
                Err(panic) => {
                    failures = failures.saturating_add(1);
                    tracing::error!(panic, "to look at Secrets panicked");
                    sleep(PAUSES.delay(failures, dice())).await;
                    continue;
                }
            }
            tokio::select! {
                () = any(&mut secrets) => {}
                Ok(()) = targets.changed() => {}
                Ok(()) = kubeconfigs.changed() => {}
                () = sleep(LOOK_AGAIN) => {}
            }
        }
    };
    shutdown.run_until_cancelled(Box::pin(work)).await;
}

/// Does what is to be done in one look; whether there is more, and some of it was done.
async fn look(
    client: &Client,
    leadership: &Leadership,
    registry: &Registry,
    labelled: &Labelled,
    retries: &mut Retries<TargetKey>,
    turn: usize,
) -> bool {
    let targets = registry.targets().into_iter();
    let targets: Vec<_> = targets.map(|it| (it.key().clone(), it)).collect();
    let uses = uses(
        &targets,
        retries,
        Instant::now(),
        |target| use_of(target),
        |target, panic| registry.mistaken("finalizers of Secrets", target, panic),
    );
    let mut held = labelled.held();
    let lasting = !registry.namespaces().is_narrow();
    let index = Index::new(&uses.uses);
    // Each namespace is read once, however many of its Secrets end.
    let mut homes: HashMap<String, Option<bool>> = HashMap::new();
    for secret in &mut held {
        if lasting && index.depends_on_home(secret) {
            let home = &secret.secret.namespace;
            let known = homes.get(home).copied();
            secret.home_ending = if let Some(known) = known {
                known
            } else {
                let ending = is_ending(client, home).await;
                homes.insert(home.clone(), ending);
                ending
            };
        }
    }
    let work = decide(&uses, &index, &held, lasting, turn);
    let mut done = false;
    for step in work.steps {
        if !leadership.is_leader() {
            return false;
        }
        // Before the first list nobody knows which are held.
        let Some(watch) = labelled.of(&step.secret().namespace) else {
            continue;
        };
        let acted = caught_async(act(client, &step)).await;
        let Ok(acted) = acted.inspect_err(|panic| {
            tracing::error!(?step, panic, "to write a Secret's finalizer panicked");
        }) else {
            continue;
        };
        match acted {
            Ok(mut secret) => {
                trim(&mut secret);
                watch.fold(secret);
                done = true;
            }
            // It went, it is going already, or it is another one: the next look tells.
            Err(error)
                if matches!(
                    error.kind(),
                    Failure::NotFound | Failure::Conflict | Failure::Invalid
                ) =>
            {
                tracing::debug!(?step, %error, "a Secret isn't there to be held or let go");
            }
            Err(error) => tracing::warn!(?step, %error, "failed to write a Secret's finalizer"),
        }
    }
    work.more && done
}

fn use_of(target: &Target) -> Option<Use> {
    let object = target.object();
    let Ok(Access::Secret(secret)) = &object.access else {
        return None;
    };
    Some(Use {
        secret: Name {
            namespace: secret.namespace.clone(),
            name: secret.name.clone(),
        },
        deleting: object.is_deleting(),
        housemate: object.key.namespace.as_ref() == Some(&secret.namespace),
        holds: target.has_kubeconfig(),
    })
}

/// Drops all but who it is, and whether it is ours and ends.
fn trim(secret: &mut Secret) {
    let meta = std::mem::take(secret).metadata;
    let ours = meta.finalizers.map(|all| {
        let ours = all.into_iter().filter(|name| name == keys::TARGET_GONE);
        ours.take(1).collect()
    });
    secret.metadata = ObjectMeta {
        deletion_grace_period_seconds: meta.deletion_grace_period_seconds,
        deletion_timestamp: meta.deletion_timestamp,
        finalizers: ours,
        name: meta.name,
        namespace: meta.namespace,
        resource_version: meta.resource_version,
        uid: meta.uid,
        ..ObjectMeta::default()
    };
}

fn held_by_us(secret: &Secret) -> Option<Held> {
    let meta = &secret.metadata;
    let finalizers = meta.finalizers.as_deref().unwrap_or_default();
    let ours = finalizers.iter().any(|name| name == keys::TARGET_GONE);
    let found = Held {
        secret: Name {
            namespace: meta.namespace.clone()?,
            name: meta.name.clone()?,
        },
        uid: meta.uid.clone()?,
        ending: meta.deletion_timestamp.is_some(),
        home_ending: None,
    };
    ours.then_some(found)
}

/// Live read: is this namespace being deleted? `None`: nobody knows.
async fn is_ending(client: &Client, namespace: &str) -> Option<bool> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    match call::find(
        CALL_LIMIT,
        namespaces.get(namespace),
        "namespaces",
        namespace,
    )
    .await
    {
        Ok(found) => Some(found.is_none_or(|it| it.metadata.deletion_timestamp.is_some())),
        Err(error) => {
            tracing::warn!(namespace, %error, "failed to read a namespace whose Secret is deleted");
            None
        }
    }
}

async fn act(client: &Client, step: &Step) -> Result<Secret, CallError> {
    let (name, patch) = match step {
        Step::Hold(name) => (name, hold()),
        Step::LetGo(name, uid) => (name, let_go(uid)),
    };
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &name.namespace);
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    // Strategic: others' finalizers stay, whatever version the Secret has.
    let patch = Patch::Strategic(patch);
    call::within(CALL_LIMIT, secrets.patch(&name.name, &params, &patch)).await
}

fn hold() -> Value {
    json!({ "metadata": {
        "finalizers": [keys::TARGET_GONE],
        "labels": { keys::HAS_FINALIZER: keys::TRUE },
    } })
}

fn let_go(uid: &str) -> Value {
    json!({ "metadata": {
        "uid": uid,
        "$deleteFromPrimitiveList/finalizers": [keys::TARGET_GONE],
        "labels": { keys::HAS_FINALIZER: null },
    } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_marked_secret_who_it_is_is_kept() {
        let long = "x".repeat(200_000);
        let finalizers = (0..1_000).map(|number| format!("example.com/f{number}"));
        let ours = keys::TARGET_GONE.to_owned();
        let marked = json!({
            "metadata": {
                "name": "far", "namespace": "shop", "uid": "u", "resourceVersion": "7",
                "labels": { keys::HAS_FINALIZER: keys::TRUE, "a": "b" }, "annotations": { "a-note": long },
                "finalizers": finalizers.chain([ours]).collect::<Vec<_>>(),
            },
            "data": { "config": "b25l" }, "type": "Opaque",
        });
        let mut secret: Secret = serde_json::from_value(marked).unwrap();
        trim(&mut secret);
        let left = json!({ "metadata": {
            "name": "far", "namespace": "shop", "uid": "u", "resourceVersion": "7",
            "finalizers": [keys::TARGET_GONE],
        } });
        assert_eq!(secret, serde_json::from_value(left).unwrap());
        let held = held_by_us(&secret).unwrap();
        assert_eq!((&*held.uid, held.ending), ("u", false));
    }
}
