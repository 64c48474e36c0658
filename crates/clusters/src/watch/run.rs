//! The task of a watch: list once, then follow, over any number of clients.
//!
//! The position survives errors and new clients, since a resumed watch still brings the DELETED events of the time
//! between, which a new list can't. Every step has a limit, so that a black-holed connection is noticed here too.

use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use pilotage_runtime::backoff::{Backoff, dice};
use pilotage_runtime::call::{self, CallError, Failure};
use pilotage_runtime::guarded::Guarded;
use thiserror::Error;
use tokio::sync::watch as cell;
use tokio::time::{Instant, sleep, timeout};

use super::{ApiOf, Core, WatchConfig, WatchHealth, Watchable};
use crate::connection::Since;
use crate::session::Session;

/// Limit for one page of a list.
const PAGE_LIMIT: Duration = Duration::from_secs(30);
/// Limit for the beginning of the answer to a watch request.
const OPEN_LIMIT: Duration = Duration::from_secs(15);
/// How long the API server keeps a watch open, in seconds; below the usual 5 minutes of load balancers.
const SERVER_LIMIT_S: u32 = 290;
/// API servers send a bookmark about once a minute: two missed ones make a connection suspicious.
const IDLE_LIMIT: Duration = Duration::from_secs(150);
/// A watch that lived this long worked.
const PROVEN_AFTER: Duration = Duration::from_secs(5);
/// Pause after a failure.
const BACKOFF: Backoff =
    Backoff::new(Duration::from_millis(200), Duration::from_secs(10)).spread(0.5);

/// Why a watch has to start again.
#[derive(Debug, Error)]
enum Interruption {
    #[error("failed to list: {0}")]
    List(#[source] CallError),
    #[error("the list has no resource version")]
    NoVersion,
    #[error("failed to open the watch: {0}")]
    Open(#[source] CallError),
    #[error("the watch broke: {}", call::describe(.0))]
    Broken(#[source] kube::Error),
    #[error("the API server ended the watch: {0}")]
    Ended(String),
    #[error("nothing came for {0:?}, not even a bookmark")]
    Idle(Duration),
    /// The position is too old: list again. Nothing is wrong.
    #[error("the position is too old")]
    Expired,
    /// The time of the request is over. Nothing is wrong.
    #[error("the request's time is over")]
    Over,
}

impl Interruption {
    fn is_failure(&self) -> bool {
        !matches!(self, Self::Expired | Self::Over)
    }
}

pub(crate) struct Follower<K> {
    core: Arc<Core<K>>,
    sessions: cell::Receiver<Option<Session>>,
    api: ApiOf<K>,
    config: WatchConfig<K>,
    /// Version to go on from; `None`: list first.
    position: Option<String>,
    failures: u32,
}

impl<K: Watchable> Follower<K> {
    pub(crate) fn new(
        core: Arc<Core<K>>,
        sessions: cell::Receiver<Option<Session>>,
        api: ApiOf<K>,
        config: WatchConfig<K>,
    ) -> Self {
        Self {
            core,
            sessions,
            api,
            config,
            position: None,
            failures: 0,
        }
    }

    /// Runs until it is dropped, or until no session can come any more.
    pub(crate) async fn run(mut self, on_failure: impl Fn() + Send + Sync) {
        let mut sessions = self.sessions.clone();
        let mut realm = None;
        loop {
            let Some(session) = sessions.borrow_and_update().clone() else {
                if sessions.changed().await.is_err() {
                    return;
                }
                continue;
            };
            if realm
                .replace(session.realm)
                .is_some_and(|old| old != session.realm)
            {
                self.position = None;
                self.core.store.forget_versions();
            }
            let began = Instant::now();
            let interruption = tokio::select! {
                biased;
                () = replaced(&mut sessions) => {
                    self.failures = 0;
                    continue;
                }
                interruption = self.follow(&session) => interruption,
            };
            if began.elapsed() >= PROVEN_AFTER {
                self.failures = 0;
            }
            if interruption.is_failure() {
                self.failed(&interruption);
                on_failure();
            }
            // Even a fault-free end pauses a little, lest an odd server makes it a loop.
            let pause = BACKOFF.delay(self.failures.max(1), dice());
            tokio::select! {
                biased;
                () = replaced(&mut sessions) => self.failures = 0,
                () = sleep(pause) => {}
            }
        }
    }

    fn failed(&mut self, interruption: &Interruption) {
        self.failures = self.failures.saturating_add(1);
        let (kind, error) = (K::plural(&()), interruption.to_string());
        self.core.health.send_if_modified(|health| {
            let since = match &*health {
                WatchHealth::Failing { since, error: old } if *old == error => {
                    tracing::debug!(%kind, %error, since = %since.wall, "watch still fails");
                    return false;
                }
                WatchHealth::Failing { since, .. } => *since,
                WatchHealth::Starting | WatchHealth::Live => Since::now(),
            };
            tracing::warn!(%kind, %error, "watch fails");
            *health = WatchHealth::Failing { since, error };
            true
        });
    }

    fn works(&self) {
        self.core.health.send_if_modified(|health| {
            let was_failing = matches!(health, WatchHealth::Failing { .. });
            if was_failing {
                tracing::info!(kind = %K::plural(&()), "watch works again");
            }
            let changed = *health != WatchHealth::Live;
            *health = WatchHealth::Live;
            changed
        });
    }

    async fn follow(&mut self, session: &Session) -> Interruption {
        let api = (self.api)(session.client.clone());
        if self.position.is_none()
            && let Err(interruption) = self.list(&api).await
        {
            return interruption;
        }
        let Some(position) = self.position.clone() else {
            return Interruption::NoVersion;
        };
        let params = WatchParams {
            label_selector: self.config.labels.clone(),
            field_selector: self.config.fields.clone(),
            timeout: Some(SERVER_LIMIT_S),
            bookmarks: true,
            send_initial_events: false,
        };
        let stream = match call::within(OPEN_LIMIT, api.watch(&params, &position)).await {
            Ok(stream) => stream,
            Err(error) if error.kind() == Failure::Expired => {
                self.position = None;
                return Interruption::Expired;
            }
            Err(error) => return Interruption::Open(error),
        };
        self.works();
        futures::pin_mut!(stream);
        loop {
            let event = match timeout(IDLE_LIMIT, stream.try_next()).await {
                Err(_) => return Interruption::Idle(IDLE_LIMIT),
                Ok(Ok(None)) => return Interruption::Over,
                Ok(Err(error)) => return Interruption::Broken(error),
                Ok(Ok(Some(event))) => event,
            };
            if let Err(interruption) = self.take(event) {
                return interruption;
            }
        }
    }

    fn take(&mut self, event: WatchEvent<Guarded<K>>) -> Result<(), Interruption> {
        match event {
            WatchEvent::Added(guarded) | WatchEvent::Modified(guarded) => {
                self.advance(&guarded);
                if let Some(object) = self.unwrap(guarded) {
                    self.core.store.apply(object);
                }
            }
            WatchEvent::Deleted(guarded) => {
                self.advance(&guarded);
                let meta = guarded
                    .0
                    .as_ref()
                    .err()
                    .map(|invalid| invalid.metadata.as_ref().clone());
                match (self.unwrap(guarded), meta) {
                    (Some(object), _) => self.core.store.delete(object),
                    (None, Some(meta)) => self.core.store.delete_unread(&meta),
                    (None, None) => {}
                }
            }
            WatchEvent::Bookmark(bookmark) => {
                let version = bookmark.metadata.resource_version;
                self.core.store.bookmark(&version);
                self.position = Some(version);
            }
            WatchEvent::Error(status) if status.code == 410 => {
                self.position = None;
                return Err(Interruption::Expired);
            }
            WatchEvent::Error(status) => return Err(Interruption::Ended(status.message)),
        }
        Ok(())
    }

    fn advance(&mut self, object: &Guarded<K>) {
        use kube::Resource;
        if let Some(version) = &object.meta().resource_version {
            self.position = Some(version.clone());
        }
    }

    /// The object without what nobody needs; `None`, and a line in the log, if it can't be parsed.
    fn unwrap(&self, guarded: Guarded<K>) -> Option<K> {
        match guarded.0 {
            Ok(mut object) => {
                if let Some(trim) = self.config.trim {
                    trim(&mut object);
                }
                Some(object)
            }
            Err(invalid) => {
                let meta = &invalid.metadata;
                tracing::warn!(
                    kind = %K::kind(&()),
                    namespace = meta.namespace.as_deref().unwrap_or_default(),
                    name = meta.name.as_deref().unwrap_or_default(),
                    error = %invalid.error,
                    "object can't be parsed and is passed over"
                );
                None
            }
        }
    }

    async fn list(&mut self, api: &Api<Guarded<K>>) -> Result<(), Interruption> {
        let mut params = ListParams {
            label_selector: self.config.labels.clone(),
            field_selector: self.config.fields.clone(),
            limit: Some(self.config.page),
            ..ListParams::default()
        };
        let (mut objects, mut unread) = (Vec::new(), Vec::new());
        loop {
            let page = match call::within(PAGE_LIMIT, api.list(&params)).await {
                Ok(page) => page,
                Err(error) if error.kind() == Failure::Expired => {
                    return Err(Interruption::Expired);
                }
                Err(error) => return Err(Interruption::List(error)),
            };
            for guarded in page.items {
                if let Err(invalid) = &guarded.0 {
                    let meta = invalid.metadata.as_ref().clone();
                    unread.push((
                        meta.namespace.unwrap_or_default(),
                        meta.name.unwrap_or_default(),
                    ));
                }
                objects.extend(self.unwrap(guarded));
            }
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_some() {
                continue;
            }
            let version = page
                .metadata
                .resource_version
                .filter(|version| !version.is_empty());
            let version = version.ok_or(Interruption::NoVersion)?;
            self.core.store.replace(objects, &unread, &version);
            self.position = Some(version);
            self.works();
            self.core.synced.send_replace(true);
            return Ok(());
        }
    }
}

/// Completes when there is another session, or none; never, if none can come.
async fn replaced(sessions: &mut cell::Receiver<Option<Session>>) {
    if sessions.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
