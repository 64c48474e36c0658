//! Our finalizer on the Secrets that Targets use.
//!
//! A namespace that is deleted takes a Target and its Secret along, in any order; without the kubeconfig nobody could clean
//! up in the target, and the Target, with its namespace, would stay for ever. A Secret that somebody deletes by itself, to
//! put another one in its place, is let go at once. One that holds no kubeconfig is none of ours, whoever names it.
//!
//! Where we may read Secrets of some namespaces only, these rights go with the namespace, which a finalizer of ours
//! would then keep for ever: none is put on, and one that an earlier process put on is taken off. Must not know what is
//! in a Secret.
//!
//! While it isn't known what one of the Targets uses, because of a panic, no finalizer is taken off.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use pilotage_api::keys;
use pilotage_clusters::spec::Access;
use pilotage_clusters::{Feed, Registry, Target, TargetKey, TargetNamespaces, Watch, WatchConfig};
use pilotage_runtime::backoff::dice;
use pilotage_runtime::call::{self, CALL_LIMIT, CallError, Failure};
use pilotage_runtime::caught::{PAUSES, caught, caught_async};
use pilotage_runtime::lease::Leadership;
use pilotage_runtime::retries::Retries;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::act::FIELD_MANAGER;

/// How soon a Secret that came without an event of ours is noticed, and what failed is tried again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Which Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    namespace: String,
    name: String,
}

/// A Target's use of a Secret.
#[derive(Clone, Debug)]
struct Use {
    secret: Name,
    /// The Target is being deleted.
    deleting: bool,
    /// The Target is in the Secret's namespace and goes with it.
    housemate: bool,
    /// Whether the Secret holds a kubeconfig at the key that the Target names; `None`: nobody could look yet.
    holds: Option<bool>,
}

/// How Targets use Secrets.
#[derive(Debug)]
struct Uses {
    uses: Vec<Use>,
    /// Whether that is known of each Target; otherwise nobody's Secret may be somebody's.
    all: bool,
}

/// Asks each target how it uses a Secret, but for those that panicked and whose time hasn't come.
fn uses<T>(
    targets: &[(TargetKey, T)],
    retries: &mut Retries<TargetKey>,
    now: Instant,
    read: impl Fn(&T) -> Option<Use>,
    panicked: impl Fn(&T, &str),
) -> Uses {
    let due = retries.due(now);
    let is_gone = |key: &&TargetKey| targets.iter().all(|(known, _)| known != *key);
    for gone in due.iter().filter(is_gone) {
        retries.succeeded(gone);
    }
    let (mut uses, mut all) = (Vec::new(), true);
    for (key, target) in targets {
        if retries.has_failed(key) && !due.contains(key) {
            all = false;
            continue;
        }
        match caught(|| read(target)) {
            Ok(found) => {
                retries.succeeded(key);
                uses.extend(found);
            }
            Err(panic) => {
                panicked(target, &panic);
                retries.failed(key.clone(), now);
                all = false;
            }
        }
    }
    Uses { uses, all }
}

/// A Secret that has our finalizer.
#[derive(Clone, Debug)]
struct Held {
    secret: Name,
    uid: String,
    /// It is being deleted.
    ending: bool,
    /// So is its namespace; `None`: not known, since nothing depends on it or it can't be read.
    home_ending: Option<bool>,
}

/// One thing to do.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Put our finalizer on.
    Hold(Name),
    /// Take it off the Secret with this UID.
    LetGo(Name, String),
}

impl Step {
    fn secret(&self) -> &Name {
        match self {
            Self::Hold(name) | Self::LetGo(name, _) => name,
        }
    }
}

/// Whether only the state of its namespace can say if the Secret is still needed.
fn depends_on_home(held: &Held, uses: &[Use]) -> bool {
    let mut users = uses.iter().filter(|it| it.secret == held.secret);
    held.ending && users.clone().any(|it| it.housemate) && !users.any(|it| it.deleting)
}

/// Whether a finalizer that is there may go; `lasting`: whether our rights outlive a Secret's namespace.
fn is_free(held: &Held, uses: &[Use], lasting: bool) -> bool {
    if !lasting {
        return true;
    }
    let mut users = uses.iter().filter(|it| it.secret == held.secret);
    // Nobody uses it, or nobody can.
    if users.clone().all(|it| it.holds == Some(false)) {
        return true;
    }
    if depends_on_home(held, uses) {
        // Somebody deletes it by itself; otherwise the Target's own deletion follows.
        return held.home_ending == Some(false);
    }
    held.ending && !users.any(|it| it.deleting)
}

fn decide(uses: &Uses, held: &[Held], lasting: bool) -> Vec<Step> {
    let mut steps = decide_by(&uses.uses, held, lasting);
    if lasting && !uses.all {
        steps.retain(|step| matches!(step, Step::Hold(_)));
    }
    steps
}

fn decide_by(uses: &[Use], held: &[Held], lasting: bool) -> Vec<Step> {
    let free = held.iter().filter(|it| is_free(it, uses, lasting));
    let mut steps: Vec<Step> = free
        .map(|it| Step::LetGo(it.secret.clone(), it.uid.clone()))
        .collect();
    let needed = uses.iter().filter(|it| lasting && it.holds == Some(true));
    for it in needed {
        let step = Step::Hold(it.secret.clone());
        if !held.iter().any(|held| held.secret == it.secret) && !steps.contains(&step) {
            steps.push(step);
        }
    }
    steps
}

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
                .trim(|secret: &mut Secret| secret.data = None)
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

    fn subscribe(&self) -> Vec<Feed<Secret>> {
        let watches = self.watches.iter();
        watches.map(|(_, watch)| watch.subscribe()).collect()
    }
}

/// Takes all events that are there, and at least one: only the outcome matters.
async fn any(feeds: &mut [Feed<Secret>]) {
    poll_fn(|context| {
        let mut came = Poll::Pending;
        for feed in &mut *feeds {
            while let Poll::Ready(Some(_)) = feed.poll_recv(context) {
                came = Poll::Ready(());
            }
        }
        came
    })
    .await;
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
        let (mut events, mut targets) = (labelled.subscribe(), registry.subscribe());
        let mut kubeconfigs = registry.kubeconfigs();
        let (mut retries, mut failures) = (Retries::new(PAUSES), 0_u32);
        loop {
            leadership.acquired().await;
            let looked = look(&client, &leadership, &registry, &labelled, &mut retries);
            if let Err(panic) = caught_async(looked).await {
                failures = failures.saturating_add(1);
                tracing::error!(panic, "to look at Secrets panicked");
                sleep(PAUSES.delay(failures, dice())).await;
                continue;
            }
            failures = 0;
            tokio::select! {
                () = any(&mut events) => {}
                Some(_) = targets.recv() => while targets.try_recv().is_ok() {},
                Ok(()) = kubeconfigs.changed() => {}
                () = sleep(LOOK_AGAIN) => {}
            }
        }
    };
    shutdown.run_until_cancelled(Box::pin(work)).await;
}

async fn look(
    client: &Client,
    leadership: &Leadership,
    registry: &Registry,
    labelled: &Labelled,
    retries: &mut Retries<TargetKey>,
) {
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
    for secret in &mut held {
        if lasting && depends_on_home(secret, &uses.uses) {
            secret.home_ending = is_ending(client, &secret.secret.namespace).await;
        }
    }
    for step in decide(&uses, &held, lasting) {
        if !leadership.is_leader() {
            return;
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
            Ok(secret) => watch.fold(secret),
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
    use std::cell::Cell;

    use super::*;

    fn name() -> Name {
        Name {
            namespace: "shop".into(),
            name: "paris".into(),
        }
    }

    fn used(deleting: bool, housemate: bool) -> Use {
        Use {
            secret: name(),
            deleting,
            housemate,
            holds: Some(true),
        }
    }

    fn held(ending: bool, home_ending: Option<bool>) -> Held {
        Held {
            secret: name(),
            uid: "u".into(),
            ending,
            home_ending,
        }
    }

    #[test]
    fn a_secret_is_held_as_long_as_a_target_needs_it_to_clean_up() {
        let (target, ending_target) = (used(false, true), used(true, true));
        let abroad = used(false, false);
        let holding = |holds| Use {
            holds,
            ..used(false, true)
        };
        let let_go = || vec![Step::LetGo(name(), "u".into())];
        let table = [
            ("nobody uses it", vec![], held(false, None), let_go()),
            ("in use", vec![target.clone()], held(false, None), vec![]),
            (
                "no kubeconfig is in it any more",
                vec![holding(Some(false))],
                held(false, None),
                let_go(),
            ),
            (
                "nobody could look what is in it",
                vec![holding(Some(false)), holding(None)],
                held(false, None),
                vec![],
            ),
            (
                "its Target goes",
                vec![ending_target.clone()],
                held(false, None),
                vec![],
            ),
            (
                "both go",
                vec![ending_target.clone()],
                held(true, None),
                vec![],
            ),
            (
                "the namespace goes, the Target's turn comes",
                vec![target.clone()],
                held(true, Some(true)),
                vec![],
            ),
            (
                "deleted by itself",
                vec![target.clone()],
                held(true, Some(false)),
                let_go(),
            ),
            (
                "nobody knows why it goes",
                vec![target.clone()],
                held(true, None),
                vec![],
            ),
            (
                "its ClusterTarget stays, whatever becomes of the namespace",
                vec![abroad.clone()],
                held(true, None),
                let_go(),
            ),
            (
                "one of two users goes",
                vec![abroad, ending_target],
                held(true, None),
                vec![],
            ),
        ];
        for (case, uses, secret, want) in table {
            let uses = |all| Uses {
                uses: uses.clone(),
                all,
            };
            let held = [secret];
            assert_eq!(decide(&uses(true), &held, true), want, "{case}");
            assert_eq!(
                decide(&uses(false), &held, true),
                [],
                "{case}, or another one does"
            );
        }
    }

    #[test]
    fn a_secret_with_a_kubeconfig_is_held_once() {
        for holds in [None, Some(false)] {
            let other = Use {
                holds,
                ..used(false, true)
            };
            assert_eq!(decide_by(&[other], &[], true), [], "{holds:?}");
        }
        for all in [true, false] {
            let uses = vec![used(false, true), used(false, false)];
            let both = Uses { uses, all };
            assert_eq!(decide(&both, &[], true), [Step::Hold(name())]);
        }
    }

    #[test]
    fn none_is_held_where_our_rights_go_with_the_namespace() {
        let uses = vec![used(false, true), used(true, true), used(false, false)];
        let uses = Uses { uses, all: false };
        assert_eq!(decide(&uses, &[], false), []);
        let let_go = [Step::LetGo(name(), "u".into())];
        for (ending, home_ending) in [(false, None), (true, None), (true, Some(true))] {
            let secret = held(ending, home_ending);
            assert_eq!(decide(&uses, &[secret], false), let_go, "{ending}");
        }
    }

    #[test]
    fn a_target_that_panics_is_told_tried_again_and_hides_no_other() {
        let target = |name: &'static str| (TargetKey::namespaced("shop", name), name);
        let (bad, good) = (target("bad"), target("good"));
        let mut retries = Retries::new(PAUSES);
        let told = Cell::new(0);
        let start = Instant::now();
        let mut look = |targets: &[(TargetKey, &'static str)], seconds| {
            let read = |name: &&str| {
                assert_ne!(*name, "bad", "on purpose");
                Some(used(false, true))
            };
            let now = start + Duration::from_secs(seconds);
            let found = uses(targets, &mut retries, now, read, |name, panic| {
                assert!(
                    *name == "bad" && panic.contains("on purpose"),
                    "{name}: {panic}"
                );
                told.set(told.get() + 1);
            });
            (found.uses.len(), found.all, told.get())
        };
        let both = [bad.clone(), good.clone()];
        for (seconds, panics) in [(0, 1), (9, 1), (10, 2), (29, 2), (30, 3)] {
            assert_eq!(look(&both, seconds), (1, false, panics), "{seconds}");
        }
        assert_eq!(look(&[good], 31), (1, true, 3), "it is gone");
        assert_eq!(
            look(std::slice::from_ref(&bad), 32),
            (0, false, 3),
            "and back before its time"
        );
        assert_eq!(look(&[], 70), (0, true, 3));
        assert_eq!(look(&[bad], 71), (0, false, 4), "and back, anew");
    }
}
