//! All attacks one after the other on one source, each by Targets of its own, which have no back-off yet: what a
//! server lies about, and then what else a tenant can do.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;
use kube::api::DeleteParams;
use pilotage_api::{Target, conditions::types, keys};
use pilotage_testkit::{HostileServer, wait_for, wait_gone};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::attacks::{self, Attack};
use super::deeds::Deed;
use super::error::Error;
use crate::fleet::{Fleet, secret, target_object};

/// Whose pods are measured.
pub(super) const HONEST: &str = "honest";
/// Who leads Pilotage to servers of its own.
pub(super) const TENANT: &str = "tenant";
/// How long an attack goes on once its target is lost, or whatever else it does is done.
const HOLD: Duration = Duration::from_secs(5);
/// How long a target may take to be lost, or to go.
pub(super) const LIMIT: Duration = Duration::from_mins(3);

/// How much was told.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// How many attacks there are.
    pub(super) known: usize,
    /// How many were played, those that were played again included.
    pub(super) attacks: usize,
    pub(super) lies: u64,
    pub(super) bytes: u64,
}

/// Plays all attacks, again and again for so long; each once at least, however long that takes.
pub(super) async fn run(fleet: &Fleet, time: Duration) -> Result<Told, Error> {
    let end = Instant::now() + time;
    let server = HostileServer::start("liar").await?;
    let (attacks, ground) = (attacks::all(), Ground { fleet });
    let mut told = Told {
        known: attacks.len() + Deed::ALL.len(),
        ..Told::default()
    };
    let is_over = |played: usize| played >= told.known && Instant::now() >= end;
    let mut played = 0;
    'all: loop {
        for attack in &attacks {
            if is_over(played) {
                break 'all;
            }
            let before = server.lies();
            Box::pin(ground.lie(&server, attack, &format!("evil-{played}"))).await?;
            played += 1;
            eprintln!("  {}: {} lies", attack.name, server.lies() - before);
        }
        for deed in Deed::ALL {
            if is_over(played) {
                break 'all;
            }
            Box::pin(deed.run(&ground, &format!("evil-{played}"))).await?;
            played += 1;
            eprintln!("  {}", deed.name());
        }
    }
    told.attacks = played;
    (told.lies, told.bytes) = (server.lies(), server.sent());
    server.stop().await;
    Ok(told)
}

/// The attack goes on for a while.
pub(super) async fn hold() {
    sleep(HOLD).await;
}

/// Where they are played.
pub(super) struct Ground<'a> {
    pub(super) fleet: &'a Fleet,
}

impl Ground<'_> {
    /// A server lies about requests.
    async fn lie(&self, server: &HostileServer, attack: &Attack, name: &str) -> Result<(), Error> {
        let before = server.lies();
        server.play(attack.script());
        self.lead_to(server, name).await?;
        let (status, reason) = match attack.lost {
            Some((reason, _)) => ("False", Some(reason)),
            None => ("True", None),
        };
        self.told(name, types::CONNECTED, status, reason, attack.name)
            .await?;
        hold().await;
        if server.lies() == before {
            return Err(Error::NotPlayed(attack.name));
        }
        server.tell_truth();
        server.cut_connections();
        self.leave(name).await
    }

    pub(super) fn targets(&self) -> Api<Target> {
        Api::namespaced(self.fleet.source.plane.admin(), TENANT)
    }

    pub(super) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.fleet.source.plane.admin(), TENANT)
    }

    pub(super) fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.fleet.source.plane.admin(), namespace)
    }

    /// The tenant has a Target that leads to this server, of which nobody waits for the end of what runs there.
    pub(super) async fn lead_to(&self, server: &HostileServer, name: &str) -> Result<(), Error> {
        let mut target = target_object(name, TENANT);
        target["metadata"]["annotations"] = json!({ keys::FORGET: keys::TRUE });
        for object in [secret(name, TENANT, &server.kubeconfig()), target] {
            let plane = &self.fleet.source.plane;
            plane.apply_yaml(&object.to_string()).await?;
        }
        Ok(())
    }

    /// Waits until the tenant's Target has this condition, for this reason if one is given.
    pub(super) async fn told(
        &self,
        name: &str,
        type_: &str,
        status: &str,
        reason: Option<&str>,
        attack: &str,
    ) -> Result<(), Error> {
        let is_told = |target: &Target| {
            let conditions = target.status.iter().flat_map(|status| &status.conditions);
            let mut found = conditions.filter(|it| it.type_ == type_ && it.status == status);
            found.any(|it| reason.is_none_or(|reason| it.reason == reason))
        };
        let what = format!("{attack}: {name} isn't {type_}={status}, reason {reason:?}");
        let told = wait_for(&self.targets(), name, is_told, LIMIT).await;
        told.map(drop).map_err(Error::wait(what))
    }

    /// The tenant's Target goes, and its Secret.
    pub(super) async fn leave(&self, name: &str) -> Result<(), Error> {
        let (targets, params) = (self.targets(), DeleteParams::default());
        let deleted = targets.delete(name, &params).await;
        deleted.map_err(Error::request("delete a Target"))?;
        wait_gone(&targets, name, LIMIT)
            .await
            .map_err(Error::wait(format!("{name} doesn't go")))?;
        let deleted = self.secrets().delete(name, &params).await;
        deleted.map_err(Error::request("delete a Secret"))?;
        Ok(())
    }
}
