//! Requests about one object and its copy: they read what a step rests on and write it, and decide nothing else. A
//! write names the UID of what it changes or deletes, and a change its version, too.

use std::time::Duration;

use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client};
use pilotage_api::Right;
use pilotage_api::parent::{ClusterUid, ParentLink};
use pilotage_model::followed::{NotCopied, carry_over};
use pilotage_runtime::call::{CALL_LIMIT, CallError, Failure, find, within};
use pilotage_runtime::lease::Leadership;
use thiserror::Error;

use super::decide::{Step, Why};
use super::kinds::{Followed, trim};

/// Who wrote a copy, in its managed fields.
pub(super) const FIELD_MANAGER: &str = "pilotage-follow";
/// Limit of one request to a target.
const REMOTE_LIMIT: Duration = Duration::from_secs(10);

/// What is read of the object itself.
const AT_HOME: &str = "read the object";
/// What is written over one version.
const IN_STEP: &str = "bring the copy in step";

/// Why an object isn't followed as it should be.
#[derive(Debug, Error)]
pub(super) enum Fault {
    /// Another object has its name there.
    #[error("another object of that name is there, which isn't a copy of it: it is left as it is")]
    Foreign,
    /// The target doesn't let it be followed.
    #[error(
        "the target doesn't give the right {0}; add it to spec.rights of the Source or ClusterSource there (the \
         Target's condition RightsGiven has the command)"
    )]
    NoRight(Right),
    /// What is there now isn't what was decided on.
    #[error("it has moved on")]
    Outdated,
    /// Another process leads now.
    #[error("this process doesn't lead any more")]
    NotLeader,
    /// It must not be copied.
    #[error(transparent)]
    NotCopied(#[from] NotCopied),
    /// A request failed.
    #[error("failed to {what}: {source}")]
    Call {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        #[source]
        source: CallError,
    },
}

impl Fault {
    fn of(what: &'static str) -> impl FnOnce(CallError) -> Self {
        move |source| Self::Call { what, source }
    }

    /// Whether something moved on meanwhile: the watch tells what is true now.
    pub(super) fn is_outdated(&self) -> bool {
        match self {
            Self::Outdated | Self::NotLeader => true,
            Self::Call { what, source } => {
                *what == IN_STEP && matches!(source.kind(), Failure::Conflict | Failure::NotFound)
            }
            Self::Foreign | Self::NoRight(_) | Self::NotCopied(_) => false,
        }
    }

    /// Whether a target didn't answer.
    pub(super) fn is_silence(&self) -> bool {
        self.of_target() == Some(Failure::Unknown)
    }

    /// Whether a target says that we may not.
    pub(super) fn is_denial(&self) -> bool {
        self.of_target() == Some(Failure::Forbidden)
    }

    fn of_target(&self) -> Option<Failure> {
        match self {
            Self::Call { what, source } if *what != AT_HOME => Some(source.kind()),
            _ => None,
        }
    }
}

/// The APIs on both sides of one object, and whose copies are ours.
pub(super) struct Pair<'a, K> {
    home: Api<K>,
    there: Api<K>,
    cluster: &'a ClusterUid,
    leadership: &'a Leadership,
    namespace: &'a str,
    name: &'a str,
}

impl<'a, K: Followed> Pair<'a, K> {
    pub(super) fn new(
        home: Client,
        there: Client,
        (cluster, leadership): (&'a ClusterUid, &'a Leadership),
        (namespace, name): (&'a str, &'a str),
    ) -> Self {
        Self {
            home: Api::namespaced(home, namespace),
            there: Api::namespaced(there, namespace),
            cluster,
            leadership,
            namespace,
            name,
        }
    }

    /// Asked before each write.
    fn check(&self) -> Result<(), Fault> {
        if self.leadership.is_leader() {
            Ok(())
        } else {
            Err(Fault::NotLeader)
        }
    }

    /// Does one step; the copy as it is then, trimmed, with the digest of what was written.
    pub(super) async fn act(&self, step: &Step) -> Result<Option<(K, String)>, Fault> {
        match step {
            Step::Rest => Ok(None),
            Step::Create => self.create().await,
            Step::Replace { uid, version } => self.replace(uid, version).await,
            Step::Delete { uid, why } => {
                // The watch may be older than the object.
                if *why == Why::NoSource && self.source().await?.is_some() {
                    return Ok(None);
                }
                self.delete(uid).await.map(|()| None)
            }
        }
    }

    async fn source(&self) -> Result<Option<K>, Fault> {
        let read = find(CALL_LIMIT, self.home.get(self.name), K::PLURAL, self.name);
        read.await.map_err(Fault::of(AT_HOME))
    }

    /// The object as it is now, made into a copy; its digest beside it.
    async fn copied(&self) -> Result<Option<(K, String)>, Fault> {
        let Some(source) = self.source().await? else {
            return Ok(None);
        };
        let link = ParentLink {
            cluster_uid: Some(self.cluster.clone()),
            cluster_name: None,
            uid: source.meta().uid.clone().unwrap_or_default(),
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
        };
        let digest = source.content().digest;
        Ok(Some((source.copy(&link)?, digest)))
    }

    async fn create(&self) -> Result<Option<(K, String)>, Fault> {
        let Some((copy, digest)) = self.copied().await? else {
            return Ok(None);
        };
        self.check()?;
        let created = within(REMOTE_LIMIT, self.there.create(&params(), &copy)).await;
        match created {
            Ok(created) => Ok(Some((trimmed(created), digest))),
            Err(error) if error.kind() == Failure::AlreadyExists => self.take_over(&copy).await,
            Err(error) => Err(Fault::of("make the copy")(error)),
        }
    }

    /// Something of that name is there and our watch doesn't show it: a copy that another watch will show, or one that
    /// a source without an identity, as Admiralty is, made of this very object; else somebody's own.
    async fn take_over(&self, copy: &K) -> Result<Option<(K, String)>, Fault> {
        let get = self.there.get(self.name);
        let read = find(REMOTE_LIMIT, get, K::PLURAL, self.name);
        let Some(found) = read.await.map_err(Fault::of("read what is there"))? else {
            // It went in between, and nothing will tell.
            return Err(Fault::Outdated);
        };
        let parent = ParentLink::of(copy.meta()).map(|link| link.uid);
        let link = ParentLink::of(found.meta());
        let ours = link.is_some_and(|link| {
            link.leads_to(self.namespace, self.name)
                && match &link.cluster_uid {
                    Some(cluster) => cluster == self.cluster,
                    None => Some(link.uid) == parent,
                }
        });
        if !ours {
            return Err(Fault::Foreign);
        }
        let meta = found.meta();
        let (uid, version) = (meta.uid.clone(), meta.resource_version.clone());
        let (uid, version) = (uid.unwrap_or_default(), version.unwrap_or_default());
        self.replace(&uid, &version).await
    }

    async fn replace(&self, uid: &str, version: &str) -> Result<Option<(K, String)>, Fault> {
        let Some((mut copy, digest)) = self.copied().await? else {
            return Ok(None);
        };
        if K::SHARED {
            let get = self.there.get(self.name);
            let read = find(REMOTE_LIMIT, get, K::PLURAL, self.name);
            let Some(found) = read.await.map_err(Fault::of("read the copy"))? else {
                return Ok(None);
            };
            carry_over(copy.meta_mut(), found.meta());
            copy.keep(&found);
        }
        let meta = copy.meta_mut();
        meta.uid = Some(uid.to_owned());
        meta.resource_version = Some(version.to_owned());
        let params = params();
        self.check()?;
        let call = self.there.replace(self.name, &params, &copy);
        let replaced = within(REMOTE_LIMIT, call).await;
        let replaced = replaced.map_err(Fault::of(IN_STEP))?;
        Ok(Some((trimmed(replaced), digest)))
    }

    async fn delete(&self, uid: &str) -> Result<(), Fault> {
        self.check()?;
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                ..Preconditions::default()
            }),
            ..DeleteParams::default()
        };
        match within(REMOTE_LIMIT, self.there.delete(self.name, &params)).await {
            Ok(_) => Ok(()),
            Err(error) if error.says_absent(K::PLURAL, self.name) => Ok(()),
            // Another one has its name by now.
            Err(error) if error.kind() == Failure::Conflict => Err(Fault::Outdated),
            Err(error) => Err(Fault::of("delete the copy")(error)),
        }
    }
}

fn params() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

fn trimmed<K: Followed>(mut object: K) -> K {
    trim(&mut object);
    object
}
