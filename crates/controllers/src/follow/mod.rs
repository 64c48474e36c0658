//! The follow controller (source side): `ConfigMap`s and Secrets that proxy pods name follow them into their targets.
//!
//! ```text
//! pods ──── needs: which node needs which object ─┐
//! objects ─ briefs: identity and digest only ─────┼─ a place a target and kind ─ decide (pure) ─ act
//! copies ── briefs, by the target's watch ────────┘
//! ```
//!
//! A copy is made as soon as a pod's record names the target, which is before the pod is bound there; it goes when no pod
//! names the object any more, or the object is gone. What isn't a copy of ours is never touched. Nothing is written unless
//! something differs, and a target that is lost, or doesn't give the right, keeps no other target waiting.

mod act;
mod brief;
mod decide;
mod kinds;
mod needs;
mod pace;
mod place;
pub mod rbac;

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::Client;
use pilotage_api::parent::ClusterUid;
use pilotage_api::{Right, keys};
use pilotage_clusters::{Event, Registry, Watch, WatchConfig};
use pilotage_runtime::caught::caught;
use pilotage_runtime::lease::Leadership;
use pilotage_sched_driver::publish::Recorder;
use tokio_util::sync::CancellationToken;

use kinds::{Followed, trim};
use needs::{Needs, trim_pod};
use place::{Parts, follow};

/// Objects in a page of a list: of each little is kept.
const PAGE: u32 = 50;

/// Flags of the controller.
#[allow(clippy::doc_markdown, reason = "these are help texts")]
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Following")]
pub struct FollowArgs {
    /// Copy these objects into the targets of pods that name them: configmaps, secrets, or both, separated by commas.
    ///
    /// Pilotage reads all objects of these kinds in all namespaces then, whatever --target-namespaces says, and keeps a
    /// digest of each. "pilotage rbac" needs the same flag, and
    /// a target gives the rights FollowConfigMaps and FollowSecrets by its Source.
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    pub follow: Vec<FollowedKind>,
}

/// A kind that can follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FollowedKind {
    /// `ConfigMap`s.
    ConfigMaps,
    /// Secrets.
    Secrets,
}

impl FollowedKind {
    /// The right that a target has to give for it.
    pub const fn right(self) -> Right {
        match self {
            Self::ConfigMaps => Right::FollowConfigMaps,
            Self::Secrets => Right::FollowSecrets,
        }
    }
}

impl FromStr for FollowedKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "configmaps" => Ok(Self::ConfigMaps),
            "secrets" => Ok(Self::Secrets),
            "services" | "ingresses" => Err(format!("{text} can't be followed yet")),
            _ => Err("what can be followed are configmaps and secrets".to_owned()),
        }
    }
}

impl FollowArgs {
    /// The kinds, each once.
    pub fn kinds(&self) -> BTreeSet<FollowedKind> {
        self.follow.iter().copied().collect()
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
    /// Whether this process may write.
    pub leadership: Leadership,
    /// Takes events about pods and objects.
    pub events: Recorder,
    /// What follows.
    pub kinds: BTreeSet<FollowedKind>,
}

/// Runs the controller until `shutdown`.
pub async fn run(with: Follow, shutdown: CancellationToken) {
    let selector = format!("spec.schedulerName={}", keys::PROXY_SCHEDULER);
    let config = WatchConfig::all().fields(selector).trim(trim_pod);
    let pods = Watch::<Pod>::of_client(with.client.clone(), config, &shutdown);
    let parts = Arc::new(Parts {
        client: with.client.clone(),
        cluster: with.cluster.clone(),
        registry: with.registry.clone(),
        leadership: with.leadership.clone(),
        events: with.events.clone(),
        needs: Needs::default(),
        pods,
    });
    let config_maps = with.kinds.contains(&FollowedKind::ConfigMaps);
    let secrets = with.kinds.contains(&FollowedKind::Secrets);
    let each_config_map = each::<ConfigMap>(config_maps, &parts, &shutdown);
    let each_secret = each::<Secret>(secrets, &parts, &shutdown);
    let counting = shutdown.run_until_cancelled(count(&parts));
    tokio::join!(each_config_map, each_secret, counting);
}

/// Follows the objects of one kind into each target.
async fn each<K: Followed>(wanted: bool, parts: &Arc<Parts>, shutdown: &CancellationToken) {
    if !wanted {
        return;
    }
    let config = WatchConfig::all().trim(trim::<K>).pages_of(PAGE);
    let objects = Watch::<K>::of_client(parts.client.clone(), config, shutdown);
    let (parts, registry) = (parts.clone(), parts.registry.clone());
    let work = move |target, stop| follow(parts.clone(), target, objects.clone(), stop);
    registry.for_each("follow", shutdown, work).await;
}

/// Keeps count of what pods need.
async fn count(parts: &Parts) {
    let mut events = parts.pods.subscribe();
    while let Some(event) = events.recv().await {
        let counted = caught(|| match &event {
            Event::Applied(pod) => parts.needs.apply(pod),
            Event::Deleted(pod) | Event::Gone(pod) => parts.needs.remove(pod),
            Event::Synced => parts.needs.all_known(),
        });
        if let Err(panic) = counted {
            tracing::error!(panic, "to see what a pod needs panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_cant_follow_yet_are_refused_by_name() {
        assert_eq!("configmaps".parse(), Ok(FollowedKind::ConfigMaps));
        assert_eq!("secrets".parse(), Ok(FollowedKind::Secrets));
        for (text, want) in [
            ("services", "services can't be followed yet"),
            ("ingresses", "ingresses can't be followed yet"),
            ("pods", "configmaps and secrets"),
        ] {
            let error = text.parse::<FollowedKind>().unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }
}
