//! Our finalizer on the Secrets that Targets use.
//!
//! A namespace that is deleted takes a Target and its Secret along, in any order; without the kubeconfig nobody could clean
//! up in the target, and the Target, with its namespace, would stay for ever. A Secret that somebody deletes by itself, to
//! put another one in its place, is let go at once. One that holds no kubeconfig is none of ours, whoever names it.
//!
//! Where we may read Secrets of some namespaces only, these rights go with the namespace, which a finalizer of ours
//! would then keep for ever: none is put on, and one that an earlier process put on is taken off. Must not know what is
//! in a Secret.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use pilotage_api::keys;
use pilotage_clusters::spec::Access;
use pilotage_clusters::{Event, Registry, Target, TargetNamespaces, Watch, WatchConfig};
use pilotage_runtime::call::{self, CALL_LIMIT, CallError, Failure};
use pilotage_runtime::lease::Leadership;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;
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

fn decide(uses: &[Use], held: &[Held], lasting: bool) -> Vec<Step> {
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

    fn subscribe(&self) -> Vec<mpsc::UnboundedReceiver<Event<Secret>>> {
        let watches = self.watches.iter();
        watches.map(|(_, watch)| watch.subscribe()).collect()
    }
}

/// Takes all events that are there, and at least one: only the outcome matters.
async fn any(feeds: &mut [mpsc::UnboundedReceiver<Event<Secret>>]) {
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
        loop {
            leadership.acquired().await;
            look(&client, &leadership, &registry, &labelled).await;
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

async fn look(client: &Client, leadership: &Leadership, registry: &Registry, labelled: &Labelled) {
    let targets = registry.targets();
    let uses: Vec<Use> = targets.iter().filter_map(|target| use_of(target)).collect();
    let mut held = labelled.held();
    let lasting = !registry.namespaces().is_narrow();
    for secret in &mut held {
        if lasting && depends_on_home(secret, &uses) {
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
        match act(client, &step).await {
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
            assert_eq!(decide(&uses, &[secret], true), want, "{case}");
        }
    }

    #[test]
    fn a_secret_with_a_kubeconfig_is_held_once() {
        for holds in [None, Some(false)] {
            let other = Use {
                holds,
                ..used(false, true)
            };
            assert_eq!(decide(&[other], &[], true), [], "{holds:?}");
        }
        let both = [used(false, true), used(false, false)];
        assert_eq!(decide(&both, &[], true), [Step::Hold(name())]);
    }

    #[test]
    fn none_is_held_where_our_rights_go_with_the_namespace() {
        let uses = [used(false, true), used(true, true), used(false, false)];
        assert_eq!(decide(&uses, &[], false), []);
        let let_go = [Step::LetGo(name(), "u".into())];
        for (ending, home_ending) in [(false, None), (true, None), (true, Some(true))] {
            let secret = held(ending, home_ending);
            assert_eq!(decide(&uses, &[secret], false), let_go, "{ending}");
        }
    }
}
