//! The task of a watch: list once, then follow, over any number of clients.
//!
//! The position survives errors and new clients, since a resumed watch still brings the DELETED events of the time
//! between, which a new list can't. Every step has a limit, so that a black-holed connection is noticed here too. What
//! no API server does is told as such, and tried again more seldom. So is what panics: it is listed anew after a pause.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::{WatchEvent, WatchParams};
use kube::core::Request;
use pilotage_api::bounds::cut;
use pilotage_api::limits::SUBDOMAIN;
use pilotage_runtime::backoff::{Backoff, dice};
use pilotage_runtime::call::{self, CallError, Failure};
use pilotage_runtime::caught::{PAUSES, caught, caught_async};
use pilotage_runtime::guarded::Guarded;
use serde_json::value::RawValue;
use thiserror::Error;
use tokio::sync::watch as cell;
use tokio::time::{Instant, sleep, timeout};

use super::position::Position;
use super::sparing::Sparing;
use super::stalls::Stalls;
use super::{ApiOf, Core, News, WatchConfig, WatchHealth, Watchable};
use crate::budget::Excess;
use crate::connection::{LostReason, Since};
use crate::door;
use crate::session::Session;

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

/// Pause after what no API server does: reading it all over again costs more than a refused request.
const SHUN: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1)).spread(0.5);
/// A connection may die silently; two in a row, and nothing in between, are no accident.
const IDLE_WATCHES: u32 = 2;
/// Characters of a failure that are told.
const MESSAGE: usize = 500;

/// Why a watch has to start again.
#[derive(Debug, Error)]
pub(super) enum Interruption {
    #[error("failed to list: {0}")]
    List(#[source] CallError),
    #[error("the list has no resource version")]
    NoVersion,
    #[error("a resource version is no number of 64 bits")]
    Version,
    #[error("the token of a list's next page is longer than any API server's")]
    Token,
    #[error("a page of the list can't be read: line {}, column {}", .0.line(), .0.column())]
    Page(#[source] serde_json::Error),
    #[error("{0}")]
    TooMuch(#[from] Excess),
    #[error("failed to open the watch: {0}")]
    Open(#[source] CallError),
    #[error("the watch broke: {}", call::describe(.0))]
    Broken(#[source] kube::Error),
    #[error("the API server ended the watch: {0}")]
    Ended(String),
    #[error("nothing came for {} s, not even a bookmark", IDLE_LIMIT.as_secs())]
    Idle,
    #[error("nothing came in {0} watches in a row, not even a bookmark")]
    Mute(u32),
    /// What it was may quote a Secret, so only the log says it.
    #[error("a mistake in Pilotage, please report it with what its log says")]
    Panicked,
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

    /// What it says of the server, if no API server does such a thing.
    fn offence(&self) -> Option<LostReason> {
        match self {
            Self::List(error) | Self::Open(error) => door::offence_of_call(error),
            Self::Broken(error) => door::offence(error),
            Self::NoVersion | Self::Version | Self::Token | Self::Page(_) | Self::Mute(_) => {
                Some(LostReason::Misbehaving(self.to_string()))
            }
            Self::TooMuch(excess) => Some(LostReason::TooMuch(excess.to_string())),
            Self::Idle | Self::Ended(_) | Self::Panicked | Self::Expired | Self::Over => None,
        }
    }

    /// Whether it was answered with nothing at all. A watch of some age was cut by something in between.
    fn is_stall(&self, age: Duration) -> bool {
        match self {
            Self::List(error) | Self::Open(error) => error.kind() == Failure::Unknown,
            Self::Broken(_) => age < PROVEN_AFTER,
            _ => false,
        }
    }

    /// Whether to go on from the same position would lead to the same again, or nowhere: what was passed over comes
    /// with the next list, and a position that the server doesn't take, or after which it says nothing, may never have
    /// been one of its own.
    fn is_of_position(&self) -> bool {
        match self {
            Self::TooMuch(_) | Self::Panicked | Self::Version | Self::Mute(_) => true,
            Self::Open(error) => error.kind() == Failure::Invalid,
            _ => false,
        }
    }
}

pub(crate) struct Follower<K> {
    pub(super) core: Arc<Core<K>>,
    sessions: cell::Receiver<Option<Session>>,
    api: ApiOf<K>,
    pub(super) config: WatchConfig<K>,
    tell: Box<dyn Fn(News) + Send + Sync>,
    /// Version to go on from; `None`: list first.
    pub(super) position: Option<Position>,
    failures: u32,
    /// Watches in a row in which nothing came.
    idle: u32,
    /// The server did what no API server does, and nothing sensible since.
    offended: bool,
    stalls: Stalls,
    /// Of objects that can't be parsed.
    sparing: Sparing,
}

impl<K: Watchable> Follower<K> {
    pub(crate) fn new(
        core: Arc<Core<K>>,
        sessions: cell::Receiver<Option<Session>>,
        api: ApiOf<K>,
        config: WatchConfig<K>,
        tell: Box<dyn Fn(News) + Send + Sync>,
    ) -> Self {
        Self {
            core,
            sessions,
            api,
            config,
            tell,
            position: None,
            failures: 0,
            idle: 0,
            offended: false,
            stalls: Stalls::default(),
            sparing: Sparing::default(),
        }
    }

    /// Runs until it is dropped, or until no session can come any more.
    pub(crate) async fn run(mut self) {
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
                    self.forgives();
                    continue;
                }
                interruption = caught_async(self.follow(&session)) => {
                    interruption.unwrap_or_else(|panic| {
                        tracing::error!(kind = %K::kind(&()), panic, "a watch panicked");
                        Interruption::Panicked
                    })
                }
            };
            let offence = interruption.offence();
            if began.elapsed() >= PROVEN_AFTER && offence.is_none() {
                self.failures = 0;
            }
            if interruption.is_of_position() {
                self.position = None;
            }
            let stalls = offence.is_none() && interruption.is_stall(began.elapsed());
            let backoff = match &interruption {
                Interruption::Panicked => PAUSES,
                _ if offence.is_some() => SHUN,
                _ => BACKOFF,
            };
            if interruption.is_failure() {
                self.failed(&interruption);
                self.offended |= offence.is_some();
                (self.tell)(News::Failed(offence));
            }
            if !stalls {
                self.stalls.end();
            } else if self.stalls.add(began) {
                self.offended = true;
                let text = format!("it says nothing of {}: {interruption}", K::plural(&()));
                let reason = LostReason::Misbehaving(cut(&text, MESSAGE).to_owned());
                (self.tell)(News::Stalled(reason));
            }
            // Even a fault-free end pauses a little, lest an odd server makes it a loop.
            let pause = backoff.delay(self.failures.max(1), dice());
            tokio::select! {
                biased;
                () = replaced(&mut sessions) => self.forgives(),
                () = sleep(pause) => {}
            }
        }
    }

    /// Another client has failed at nothing yet.
    fn forgives(&mut self) {
        self.failures = 0;
        self.stalls.end();
    }

    fn failed(&mut self, interruption: &Interruption) {
        self.failures = self.failures.saturating_add(1);
        let kind = K::plural(&());
        let error: String = interruption.to_string().chars().take(MESSAGE).collect();
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

    pub(super) fn works(&self) {
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

    /// Something sensible came.
    pub(super) fn hears(&mut self) {
        self.idle = 0;
        self.stalls.end();
        if std::mem::take(&mut self.offended) {
            (self.tell)(News::Works);
        }
    }

    /// A list was read. To whoever was mute in watches this proves nothing: a watch has to say something.
    pub(super) fn hears_a_list(&mut self) {
        if self.idle < IDLE_WATCHES {
            self.hears();
        }
    }

    async fn follow(&mut self, session: &Session) -> Interruption {
        let api = (self.api)(session.client.clone());
        if self.position.is_none()
            && let Err(interruption) = self.list(&session.client, api.resource_url()).await
        {
            return interruption;
        }
        let Some(position) = self.position else {
            return Interruption::NoVersion;
        };
        let params = WatchParams {
            label_selector: self.config.labels.clone(),
            field_selector: self.config.fields.clone(),
            timeout: Some(SERVER_LIMIT_S),
            bookmarks: true,
            send_initial_events: false,
        };
        // Each object is read by itself, when it is known how much there is of it.
        let watch = async {
            let request = Request::new(api.resource_url().to_owned());
            let request = request.watch(&params, &position.to_string());
            let request = request.map_err(kube::Error::BuildRequest)?;
            let client = &session.client;
            client.request_events::<Box<RawValue>>(request).await
        };
        let stream = match call::within(OPEN_LIMIT, watch).await {
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
            let event = match timeout(IDLE_LIMIT, stream.next()).await {
                Err(_) => {
                    self.idle = self.idle.saturating_add(1);
                    return match self.idle {
                        IDLE_WATCHES.. => Interruption::Mute(self.idle),
                        _ => Interruption::Idle,
                    };
                }
                Ok(None) => return Interruption::Over,
                Ok(Some(Err(error))) => return Interruption::Broken(error),
                Ok(Some(Ok(event))) => event,
            };
            if let Err(interruption) = self.take(event) {
                return interruption;
            }
            self.hears();
        }
    }

    fn take(&mut self, event: WatchEvent<Box<RawValue>>) -> Result<(), Interruption> {
        match event {
            WatchEvent::Added(text) | WatchEvent::Modified(text) => {
                let guarded = self.core.read(text.get());
                let version = version_of(guarded.meta())?;
                if let Some(object) = self.unwrap(guarded) {
                    self.core.store.check_one(&object)?;
                    self.core.store.apply(object);
                }
                self.advance(version);
            }
            WatchEvent::Deleted(text) => {
                let guarded = self.core.read(text.get());
                let version = version_of(guarded.meta())?;
                let meta = guarded
                    .0
                    .as_ref()
                    .err()
                    .map(|invalid| invalid.metadata.as_ref().clone());
                match (self.unwrap(guarded), meta) {
                    (Some(object), _) => {
                        self.core.store.check_unread(&object)?;
                        self.core.store.delete(object);
                    }
                    (None, Some(meta)) => self.core.store.delete_unread(&meta),
                    (None, None) => {}
                }
                self.advance(version);
            }
            WatchEvent::Bookmark(bookmark) => {
                let version = bookmark.metadata.resource_version;
                let position = Position::parse(&version).ok_or(Interruption::Version)?;
                self.core.store.bookmark(&version);
                self.position = Some(position);
            }
            WatchEvent::Error(status) if status.code == 410 => {
                self.position = None;
                return Err(Interruption::Expired);
            }
            WatchEvent::Error(status) => return Err(Interruption::Ended(status.message)),
        }
        Ok(())
    }

    fn advance(&mut self, version: Option<Position>) {
        if version.is_some() {
            self.position = version;
        }
    }

    /// The object without what nobody needs; `None` if it is of no use, and, with a line in the log, if it can't be
    /// parsed.
    pub(super) fn unwrap(&self, guarded: Guarded<K>) -> Option<K> {
        match guarded.0 {
            Ok(mut object) => {
                if self.config.keep.is_some_and(|keep| !keep(&object)) {
                    return None;
                }
                // What is left of it can be used.
                if let Some(trim) = &self.config.trim
                    && let Err(panic) = caught(|| trim(&mut object))
                {
                    let name = object.meta().name.as_deref().map(|it| cut(it, SUBDOMAIN));
                    tracing::error!(kind = %K::kind(&()), name, panic, "an object is kept whole");
                }
                Some(object)
            }
            Err(invalid) => {
                let left_out = self.sparing.next(Instant::now())?;
                let meta = &invalid.metadata;
                let error: String = invalid.error.chars().take(MESSAGE).collect();
                tracing::warn!(
                    kind = %K::kind(&()),
                    namespace = meta.namespace.as_deref().unwrap_or_default(),
                    name = meta.name.as_deref().unwrap_or_default(),
                    error,
                    left_out,
                    "object can't be parsed and is passed over"
                );
                None
            }
        }
    }
}

/// The version of an object, if it has one.
fn version_of(meta: &ObjectMeta) -> Result<Option<Position>, Interruption> {
    let version = meta.resource_version.as_deref();
    version
        .map(|version| Position::parse(version).ok_or(Interruption::Version))
        .transpose()
}

/// Completes when there is another session, or none; never, if none can come.
async fn replaced(sessions: &mut cell::Receiver<Option<Session>>) {
    if sessions.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
