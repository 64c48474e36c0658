//! The follow controller (source side): `ConfigMap`s and Secrets that proxy pods name follow them into their targets,
//! and so do Services that select them and the Ingresses of these.
//!
//! ```text
//! proxies ─ needs: which node needs which object ─┐ (Services: by their authors' selectors)
//! objects ─ briefs: identity and digest only ─────┼─ a place a target and kind ─ decide (pure) ─ act
//! copies ── briefs, by the target's watch ────────┘
//! ```
//!
//! What is known of home is kept once for all targets, and each event looks up whom it concerns.
//!
//! A Service that selects proxies is rerouted at home, too (`reroute`), so that it selects their delegates.
//!
//! A copy is made as soon as a pod's record names the target, which is before the pod is bound there; it goes when no
//! pod names the object any more, or the object is gone. What isn't a copy of ours is never touched. Nothing is written
//! unless something differs, and a target that is lost, or doesn't give the right, keeps no other target waiting.
//!
//! What a pod can't do without and isn't copied here is told on the pod (`unfollowed`). That a finalizer of Admiralty
//! keeps a deleted object is told on the object (`held`).

mod act;
mod brief;
mod decide;
#[cfg(test)]
mod fuzz;
mod held;
mod kinds;
mod left_behind;
mod left_out;
pub mod needs;
mod pace;
mod place;
pub mod rbac;
mod reroute;
mod selected;
mod unfollowed;

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::Ingress;
use kube::Client;
use pilotage_api::Right;
use pilotage_api::parent::ClusterUid;
use pilotage_clusters::{Event, Registry, Watch, WatchConfig};
use pilotage_model::followed::Kind;
use pilotage_runtime::caught::caught;
use pilotage_runtime::lease::Leadership;
use pilotage_sched_driver::publish::Recorder;
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;

use held::tell_held;
use kinds::{Followed, trim};
use left_out::tell_left_out;
use needs::Needs;
use place::{Parts, follow};
use reroute::reroute;

pub use unfollowed::{Unfollowed, count_untold, tell_unfollowed};

/// Objects in a page of a list: of each little is kept.
const PAGE: u32 = 50;
/// Until what was just seen is likely counted.
const SOON: Duration = Duration::from_millis(200);

/// Flags of the controller.
#[allow(clippy::doc_markdown, reason = "these are help texts")]
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Following")]
pub struct FollowArgs {
    /// Copy these objects into the targets of pods, separated by commas: configmaps and secrets that pods name,
    /// services that select them, ingresses in front of these services.
    ///
    /// Pilotage reads all objects of these kinds in all namespaces then, whatever --target-namespaces says, and keeps a
    /// digest of each. Services are rerouted here, too: their
    /// selectors name the labels that pods have in targets. Ingresses bring services along. "pilotage rbac" needs the
    /// same flag, and a target gives the rights FollowConfigMaps, FollowSecrets, FollowServices and FollowIngresses by
    /// its Source.
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    pub follow: Vec<FollowedKind>,
}

/// Flags of the controller that its roles don't depend on.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Pace of following")]
pub struct FollowLimits {
    /// How many objects of each kind are copied, brought in step or deleted at the same time in one target.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub concurrent_follow_syncs: u16,
}

/// A kind that can follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FollowedKind {
    /// `ConfigMap`s.
    ConfigMaps,
    /// Secrets.
    Secrets,
    /// Services.
    Services,
    /// Ingresses.
    Ingresses,
}

impl FollowedKind {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::ConfigMaps,
        Self::Secrets,
        Self::Services,
        Self::Ingresses,
    ];

    /// The right that a target has to give for it.
    pub const fn right(self) -> Right {
        match self {
            Self::ConfigMaps => Right::FollowConfigMaps,
            Self::Secrets => Right::FollowSecrets,
            Self::Services => Right::FollowServices,
            Self::Ingresses => Right::FollowIngresses,
        }
    }

    const fn of(kind: Kind) -> Self {
        match kind {
            Kind::ConfigMap => Self::ConfigMaps,
            Kind::Secret => Self::Secrets,
            Kind::Service => Self::Services,
            Kind::Ingress => Self::Ingresses,
        }
    }

    /// As in the flag.
    const fn flag(self) -> &'static str {
        match self {
            Self::ConfigMaps => "configmaps",
            Self::Secrets => "secrets",
            Self::Services => "services",
            Self::Ingresses => "ingresses",
        }
    }
}

impl FromStr for FollowedKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "configmaps" => Ok(Self::ConfigMaps),
            "secrets" => Ok(Self::Secrets),
            "services" => Ok(Self::Services),
            "ingresses" => Ok(Self::Ingresses),
            _ => Err(
                "what can be followed are configmaps, secrets, services and ingresses".to_owned(),
            ),
        }
    }
}

impl FollowArgs {
    /// The kinds, each once. Ingresses are of no use without their Services.
    pub fn kinds(&self) -> BTreeSet<FollowedKind> {
        let mut kinds: BTreeSet<_> = self.follow.iter().copied().collect();
        if kinds.contains(&FollowedKind::Ingresses) {
            kinds.insert(FollowedKind::Services);
        }
        kinds
    }
}

/// What the controller works with.
pub struct Follow {
    /// The source's own API server.
    pub client: Client,
    /// The source's identity.
    pub cluster: ClusterUid,
    /// Its targets.
    pub registry: Registry,
    /// Its proxy pods ([`crate::feedback::watch_proxies`]).
    pub proxies: Watch<Pod>,
    /// Whether this process may write.
    pub leadership: Leadership,
    /// Takes events about pods and objects.
    pub events: Recorder,
    /// What follows.
    pub kinds: BTreeSet<FollowedKind>,
    /// How many objects of each kind are written at the same time in one target.
    pub at_once: usize,
}

/// Runs the controller until `shutdown`.
pub fn run(with: Follow, shutdown: CancellationToken) -> BoxFuture<'static, ()> {
    async move {
        let follows = |kind| with.kinds.contains(&kind);
        let selects = follows(FollowedKind::Services);
        let parts = Arc::new(Parts {
            client: with.client.clone(),
            cluster: with.cluster.clone(),
            registry: with.registry.clone(),
            leadership: with.leadership.clone(),
            events: with.events.clone(),
            needs: Needs::new(selects),
            at_once: with.at_once,
        });
        let services = selects.then(|| objects::<Service>(&parts, &shutdown));
        let config_maps = async {
            if follows(FollowedKind::ConfigMaps) {
                let config_maps = objects::<ConfigMap>(&parts, &shutdown);
                let telling = shutdown.run_until_cancelled(tell_authors(&parts, &config_maps));
                tokio::join!(each(config_maps.clone(), &parts, &shutdown), telling);
            }
        };
        let secrets = async {
            if follows(FollowedKind::Secrets) {
                let secrets = objects::<Secret>(&parts, &shutdown);
                let telling = shutdown.run_until_cancelled(tell_authors(&parts, &secrets));
                tokio::join!(each(secrets.clone(), &parts, &shutdown), telling);
            }
        };
        let each_service = async {
            if let Some(services) = &services {
                let rerouting = reroute(parts.clone(), services.clone(), shutdown.clone());
                let counting = shutdown.run_until_cancelled(count_services(&parts, services));
                let copying = each(services.clone(), &parts, &shutdown);
                let telling = shutdown.run_until_cancelled(tell_authors(&parts, services));
                tokio::join!(rerouting, counting, copying, telling);
            }
        };
        let each_ingress = async {
            if follows(FollowedKind::Ingresses) {
                let ingresses = objects::<Ingress>(&parts, &shutdown);
                let counting = shutdown.run_until_cancelled(count_ingresses(&parts, &ingresses));
                let telling = shutdown.run_until_cancelled(tell_authors(&parts, &ingresses));
                let copying = each(ingresses.clone(), &parts, &shutdown);
                tokio::join!(counting, copying, telling);
            }
        };
        let counting = shutdown.run_until_cancelled(count(&parts, &with.proxies));
        let going_on = shutdown.run_until_cancelled(go_on(&parts));
        tokio::join!(
            config_maps,
            secrets,
            each_service,
            each_ingress,
            counting,
            going_on
        );
    }
    .boxed()
}

/// Watches objects at home.
fn objects<K: Followed>(parts: &Parts, shutdown: &CancellationToken) -> Watch<K> {
    let config = WatchConfig::all().trim(trim::<K>).pages_of(PAGE);
    Watch::of_client(parts.client.clone(), config, shutdown)
}

/// Follows the objects of one kind into each target.
async fn each<K: Followed>(objects: Watch<K>, parts: &Arc<Parts>, shutdown: &CancellationToken) {
    let (parts, registry) = (parts.clone(), parts.registry.clone());
    let work = move |target, stop| follow(parts.clone(), target, objects.clone(), stop);
    registry.for_each("follow", shutdown, work).await;
}

/// Tells authors of objects of one kind what concerns no target.
async fn tell_authors<K: Followed>(parts: &Parts, objects: &Watch<K>) {
    tokio::join!(tell_left_out(parts, objects), tell_held(parts, objects));
}

/// Keeps count of what pods need.
async fn count(parts: &Parts, proxies: &Watch<Pod>) {
    let mut events = proxies.subscribe();
    while let Some(event) = events.recv().await {
        counted(|| match &event {
            Event::Applied(pod) => parts.needs.apply(pod),
            Event::Deleted(pod) | Event::Gone(pod) => parts.needs.remove(pod),
            Event::Synced => parts.needs.all_known(None),
        });
    }
}

/// The same for what selects them.
async fn count_services(parts: &Parts, services: &Watch<Service>) {
    let mut events = services.subscribe();
    while let Some(event) = events.recv().await {
        counted(|| match &event {
            Event::Applied(service) => parts.needs.service(service, true),
            Event::Deleted(service) | Event::Gone(service) => parts.needs.service(service, false),
            Event::Synced => parts.needs.all_known(Some(Kind::Service)),
        });
    }
}

/// The same for what stands in front of these.
async fn count_ingresses(parts: &Parts, ingresses: &Watch<Ingress>) {
    let mut events = ingresses.subscribe();
    while let Some(event) = events.recv().await {
        counted(|| match &event {
            Event::Applied(ingress) => parts.needs.ingress(ingress, true),
            Event::Deleted(ingress) | Event::Gone(ingress) => parts.needs.ingress(ingress, false),
            Event::Synced => parts.needs.all_known(Some(Kind::Ingress)),
        });
    }
}

/// Counts what large changes leave, beside all others.
async fn go_on(parts: &Parts) {
    loop {
        parts.needs.left().await;
        let mut more = true;
        while more {
            counted(|| more = parts.needs.go_on());
            yield_now().await;
        }
    }
}

fn counted(count: impl FnOnce()) {
    if let Err(panic) = caught(count) {
        tracing::error!(panic, "to see what a pod needs panicked");
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        limits: FollowLimits,
    }

    fn parse(args: &[&str]) -> Result<FollowLimits, clap::Error> {
        let args = std::iter::once(&"pilotage").chain(args);
        Command::try_parse_from(args).map(|command| command.limits)
    }

    #[test]
    fn some_objects_follow_at_the_same_time() {
        assert_eq!(parse(&[]).unwrap().concurrent_follow_syncs, 8);
        let few = parse(&["--concurrent-follow-syncs=2"]).unwrap();
        assert_eq!(few.concurrent_follow_syncs, 2);
        for none in ["0", "257", "-1", "all"] {
            let error = parse(&[&format!("--concurrent-follow-syncs={none}")]).unwrap_err();
            let error = error.to_string();
            assert!(error.contains("--concurrent-follow-syncs"), "{error}");
        }
    }

    #[test]
    fn kinds_are_known_by_the_names_of_their_resources() {
        let names = ["configmaps", "secrets", "services", "ingresses"];
        assert_eq!(FollowedKind::ALL.map(FollowedKind::flag), names);
        assert_eq!(names.map(str::parse), FollowedKind::ALL.map(Ok));
        let error = "pods".parse::<FollowedKind>().unwrap_err();
        assert!(error.contains("services and ingresses"), "{error}");
    }

    #[test]
    fn ingresses_bring_services_along() {
        let follow = vec![FollowedKind::Ingresses];
        let kinds = FollowArgs { follow }.kinds();
        assert!(kinds.contains(&FollowedKind::Services));
    }
}
