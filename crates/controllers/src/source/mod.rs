//! The source controller (target side): makes the identity that a source acts under, and binds it.
//!
//! Stages as everywhere: observe → decide (pure) → act → status. Everything is local to one API server, so one task
//! does all of it, a Source at a time; a panic about one is told in its status and keeps nobody else waiting.

mod accounts;
mod act;
mod args;
mod decide;
#[cfg(test)]
mod fuzz;
mod object;
pub mod rbac;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding, RoleRef};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::{Api, Client, Resource};
use pilotage_api::conditions::{self, ConditionState, types};
use pilotage_api::keys::MANAGED_BY;
use pilotage_api::{ClusterSource, Right, Source, keys};
use pilotage_clusters::{Event, Watch, WatchConfig, Watchable};
use pilotage_runtime::backoff::{Backoff, dice};
use pilotage_runtime::call::CallError;
use pilotage_runtime::caught::{PANICKED, PAUSES, caught, caught_async, note};
use pilotage_runtime::lease::Leadership;
use pilotage_runtime::moment::{after, from_now};
use pilotage_runtime::ready::Gate;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::status;
use act::{ActError, Actor};
pub use args::SourceArgs;
use decide::{BindingKey, Roles, right_binding};
use object::{SourceKey, SourceObject};

/// Pause after a failure.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(2)).spread(0.3);
/// A role that isn't there yet is looked for again: roles aren't watched.
const ROLE_RETRY: Duration = Duration::from_secs(15);
/// After this long everything is looked at again: accounts and roles that aren't ours aren't watched.
const RESYNC: Duration = Duration::from_mins(5);

/// Keeps the identities of all Sources and `ClusterSource`s, until `shutdown`; `ready` is released when they are known.
pub fn run(
    client: Client,
    args: SourceArgs,
    leadership: Leadership,
    ready: Gate,
    shutdown: CancellationToken,
) -> BoxFuture<'static, ()> {
    async move {
        let roles = Roles {
            source: args.source_role,
            summary_viewer: args.cluster_summary_viewer_role,
        };
        let controller = Controller::new(client, roles, leadership, &shutdown);
        let running = Box::pin(controller.run(ready));
        shutdown.run_until_cancelled(running).await;
    }
    .boxed()
}

/// Something to look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Item {
    /// A Source, whether it exists or not.
    Source(SourceKey),
    /// All Sources: something changed that isn't known to belong to one.
    Everything,
}

/// How a turn ended that didn't fail.
enum Settled {
    /// Nothing is left to do until something changes.
    Yes,
    /// A role is missing whose coming nobody will tell.
    LacksRole,
}

struct Controller {
    client: Client,
    roles: Roles,
    leadership: Leadership,
    sources: Watch<Source>,
    cluster_sources: Watch<ClusterSource>,
    role_bindings: Watch<RoleBinding>,
    cluster_role_bindings: Watch<ClusterRoleBinding>,
    actor: Actor,
    due: HashMap<SourceKey, (Instant, u32)>,
}

impl Controller {
    fn new(client: Client, roles: Roles, leadership: Leadership, stop: &CancellationToken) -> Self {
        fn ours<K: Watchable>(client: &Client, stop: &CancellationToken) -> Watch<K> {
            let config = WatchConfig::all().labels(format!("{}={}", MANAGED_BY.0, MANAGED_BY.1));
            Watch::of_client(client.clone(), config, stop)
        }
        Self {
            sources: Watch::of_client(client.clone(), WatchConfig::all(), stop),
            cluster_sources: Watch::of_client(client.clone(), WatchConfig::all(), stop),
            role_bindings: ours(&client, stop),
            cluster_role_bindings: ours(&client, stop),
            actor: Actor {
                client: client.clone(),
                leadership: leadership.clone(),
                accounts: accounts::watch(&client, stop),
            },
            client,
            roles,
            leadership,
            due: HashMap::new(),
        }
    }

    async fn run(mut self, ready: Gate) {
        let (sender, mut items) = mpsc::unbounded_channel();
        forward(&self.sources, &sender, |source| {
            Item::Source(SourceKey::of(source.meta()))
        });
        forward(&self.cluster_sources, &sender, |source| {
            Item::Source(SourceKey::of(source.meta()))
        });
        forward(&self.actor.accounts, &sender, |_| Item::Everything);
        forward(&self.role_bindings, &sender, |binding| {
            marked(&binding.metadata)
        });
        forward(&self.cluster_role_bindings, &sender, |binding| {
            marked(&binding.metadata)
        });
        tokio::join!(
            self.sources.synced(),
            self.cluster_sources.synced(),
            self.actor.accounts.synced(),
            self.role_bindings.synced(),
            self.cluster_role_bindings.synced(),
        );
        ready.release();
        self.lead(&mut items).await;
        self.everything();
        let mut resync = from_now(RESYNC);
        loop {
            let next = self
                .due
                .values()
                .map(|(at, _)| *at)
                .min()
                .unwrap_or(resync)
                .min(resync);
            tokio::select! {
                item = items.recv() => match item {
                    None => return,
                    Some(Item::Source(key)) => self.soon(key),
                    Some(Item::Everything) => self.everything(),
                },
                () = sleep_until(next) => {}
            }
            let mut all = false;
            while let Ok(item) = items.try_recv() {
                match item {
                    Item::Source(key) => self.soon(key),
                    Item::Everything => all = true,
                }
            }
            if all {
                self.everything();
            }
            let now = Instant::now();
            if now >= resync {
                self.everything();
                resync = after(now, RESYNC);
            }
            self.lead(&mut items).await;
            let due: Vec<SourceKey> = self
                .due
                .iter()
                .filter(|(_, (at, _))| *at <= now)
                .map(|(key, _)| key.clone())
                .collect();
            for key in due {
                self.turn(key).await;
            }
        }
    }

    /// Waits until this process leads. Of what comes meanwhile only that something came is kept, so that nothing grows.
    async fn lead(&mut self, items: &mut mpsc::UnboundedReceiver<Item>) {
        let leadership = self.leadership.clone();
        let mut leads = pin!(leadership.acquired());
        let mut missed = false;
        loop {
            tokio::select! {
                biased;
                () = &mut leads => break,
                Some(_) = items.recv() => missed = true,
            }
        }
        if missed {
            self.everything();
        }
    }

    fn soon(&mut self, key: SourceKey) {
        let now = Instant::now();
        self.due
            .entry(key)
            .and_modify(|(at, _)| *at = now)
            .or_insert((now, 0));
    }

    fn everything(&mut self) {
        let sources = self
            .sources
            .list()
            .into_iter()
            .map(|s| SourceKey::of(&s.metadata));
        let cluster_sources = self.cluster_sources.list();
        let cluster_sources = cluster_sources.iter().map(|s| SourceKey::of(&s.metadata));
        let orphans = self.cluster_role_bindings.list();
        let orphans = orphans
            .iter()
            .filter_map(|binding| SourceKey::marked(&binding.metadata));
        let keys: Vec<SourceKey> = sources.chain(cluster_sources).chain(orphans).collect();
        for key in keys {
            self.soon(key);
        }
    }

    fn find(&self, key: &SourceKey) -> Option<SourceObject> {
        if let Some(namespace) = &key.namespace {
            let source = self.sources.get(Some(namespace), &key.name)?;
            SourceObject::from_source(&source)
        } else {
            let source = self.cluster_sources.get(None, &key.name)?;
            SourceObject::from_cluster_source(&source)
        }
    }

    async fn turn(&mut self, key: SourceKey) {
        let ended = caught_async(self.work(&key)).await;
        let panic = ended.as_ref().err().cloned();
        if let Some(panic) = panic {
            self.mistaken(&key, &panic).await;
        }
        self.settle(key, ended);
    }

    async fn work(&self, key: &SourceKey) -> Result<Settled, ActError> {
        match self.find(key) {
            Some(source) if !source.deleting => self.keep(&source).await,
            // What a Source owns goes with it; what it can't own is swept up.
            _ => self.sweep(key).await,
        }
    }

    /// Decides when a Source is looked at again, after its turn has ended so, or with a panic's words.
    fn settle(&mut self, key: SourceKey, ended: Result<Result<Settled, ActError>, String>) {
        let failures = self.due.remove(&key).map_or(0, |(_, failures)| failures);
        let failures = failures.saturating_add(1);
        let (failures, pause) = match ended {
            Ok(Ok(Settled::Yes)) => return,
            Ok(Ok(Settled::LacksRole)) => (0, ROLE_RETRY),
            Ok(Err(error)) => {
                tracing::warn!(?key, %error, "the identity of a source is not as it should be");
                (failures, BACKOFF.delay(failures, dice()))
            }
            Err(_) => (failures, PAUSES.delay(failures, dice())),
        };
        self.due.insert(key, (from_now(pause), failures));
    }

    /// Tells a Source's author of a panic, if that can be done without another one.
    async fn mistaken(&self, key: &SourceKey, panic: &str) {
        tracing::error!(?key, panic, "a source's turn panicked");
        let Ok(Some(source)) = caught(|| self.find(key)) else {
            return;
        };
        match caught_async(self.report(&source, mistake(panic))).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(?key, %error, "a source isn't told of a panic"),
            Err(panic) => tracing::error!(?key, panic, "to tell a source of a panic panicked"),
        }
    }

    async fn keep(&self, source: &SourceObject) -> Result<Settled, ActError> {
        let ready = match self.apply(source).await {
            Ok(ready) => ready,
            Err(ActError::NotLeader) => return Ok(Settled::Yes),
            Err(error) => {
                let failed = ConditionState {
                    type_: types::READY,
                    status: Some(false),
                    reason: error.word().to_owned(),
                    message: error.to_string(),
                };
                self.report(source, failed).await?;
                return Err(error);
            }
        };
        let lacks_role = ready.reason == decide::ROLE_MISSING;
        self.report(source, ready).await?;
        Ok(if lacks_role {
            Settled::LacksRole
        } else {
            Settled::Yes
        })
    }

    async fn apply(&self, source: &SourceObject) -> Result<ConditionState, ActError> {
        let surplus = self.surplus(source);
        let observed = self.actor.observe(source, &self.roles, surplus).await?;
        let decide::Plan { steps, ready } = decide::decide(&observed);
        let field_manager = source.field_manager();
        for step in steps {
            self.actor.act(step, &field_manager).await?;
        }
        Ok(ready)
    }

    /// Bindings of a Source to rights that it doesn't ask for.
    fn surplus(&self, source: &SourceObject) -> Vec<(BindingKey, String)> {
        fn ours(
            source: &SourceObject,
            meta: &ObjectMeta,
            role: &RoleRef,
        ) -> Option<(BindingKey, String)> {
            let right = Right::ALL
                .into_iter()
                .find(|right| right.role() == role.name)?;
            let marked = meta.labels.as_ref()?.get(keys::SOURCE_UID) == Some(&source.uid);
            let key = BindingKey {
                namespace: meta.namespace.clone(),
                name: meta.name.clone()?,
            };
            let wanted = source.rights.contains(&right) && key == right_binding(&source.key, right);
            (marked && !wanted).then(|| (key, meta.uid.clone().unwrap_or_default()))
        }
        let here = self.role_bindings.list();
        let here = here
            .iter()
            .filter_map(|it| ours(source, &it.metadata, &it.role_ref));
        let everywhere = self.cluster_role_bindings.list();
        let everywhere = everywhere
            .iter()
            .filter_map(|it| ours(source, &it.metadata, &it.role_ref));
        here.chain(everywhere).collect()
    }

    async fn report(&self, source: &SourceObject, ready: ConditionState) -> Result<(), ActError> {
        let now = Time(Timestamp::now());
        let current = &source.status.conditions;
        let Some(merged) = conditions::merge(current, &[ready], source.generation, &now) else {
            return Ok(());
        };
        if !self.leadership.is_leader() {
            return Ok(());
        }
        let url = source.key.url();
        let status = json!({ "conditions": merged });
        // An outdated version comes again by the watch, and with it another turn.
        let written = status::write(&self.client, &url, &source.resource_version, &status).await;
        written.map(drop).map_err(|source| ActError::Call {
            what: "write the status".into(),
            source,
        })
    }

    /// Deletes bindings whose Source is gone and could not own them.
    async fn sweep(&self, key: &SourceKey) -> Result<Settled, ActError> {
        let left: Vec<Arc<ClusterRoleBinding>> = self
            .cluster_role_bindings
            .filter(|binding| SourceKey::marked(&binding.metadata).as_ref() == Some(key));
        for binding in left {
            let meta = &binding.metadata;
            let (Some(name), Some(uid)) = (&meta.name, &meta.uid) else {
                continue;
            };
            let marked = meta
                .labels
                .as_ref()
                .and_then(|labels| labels.get(keys::SOURCE_UID));
            // The watch of Sources may be behind that of bindings: only a live read proves the Source gone.
            let live = self.live_uid(key).await;
            let live = live.map_err(|source| ActError::Call {
                what: "read a source".into(),
                source,
            })?;
            if live.as_ref() == marked {
                continue;
            }
            let binding = BindingKey {
                namespace: None,
                name: name.clone(),
            };
            self.actor.delete_binding(&binding, uid.clone()).await?;
        }
        Ok(Settled::Yes)
    }

    async fn live_uid(&self, key: &SourceKey) -> Result<Option<String>, CallError> {
        let uid = |meta: &ObjectMeta| meta.uid.clone();
        if let Some(namespace) = &key.namespace {
            let api: Api<Source> = Api::namespaced(self.client.clone(), namespace);
            Ok(act::get(&api, &key.name)
                .await?
                .and_then(|source| uid(&source.metadata)))
        } else {
            let api: Api<ClusterSource> = Api::all(self.client.clone());
            Ok(act::get(&api, &key.name)
                .await?
                .and_then(|source| uid(&source.metadata)))
        }
    }
}

/// What a Source's status says after a panic.
fn mistake(panic: &str) -> ConditionState {
    ConditionState {
        type_: types::READY,
        status: Some(false),
        reason: PANICKED.to_owned(),
        message: note(panic),
    }
}

fn marked(meta: &ObjectMeta) -> Item {
    SourceKey::marked(meta).map_or(Item::Everything, Item::Source)
}

/// Sends an item for each change of a watch; ends with the watch or the receiver.
fn forward<K: Watchable>(
    watch: &Watch<K>,
    sender: &mpsc::UnboundedSender<Item>,
    item: impl Fn(&K) -> Item + Send + 'static,
) {
    let (mut events, sender) = (watch.subscribe(), sender.clone());
    tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            let sent = match event {
                Event::Applied(object) | Event::Deleted(object) | Event::Gone(object) => {
                    let item = caught(|| item(&object)).unwrap_or_else(|panic| {
                        let kind = K::kind(&());
                        let name = object.meta().name.as_deref();
                        tracing::error!(%kind, name, panic, "to take an object in panicked");
                        Item::Everything
                    });
                    sender.send(item)
                }
                Event::Synced => Ok(()),
            };
            if sent.is_err() {
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests;
