//! Requests about chaperons in a target, and what their answers mean to the source's state machines.
//!
//! Each takes one action's data and says how it ended; whether and when it is sent is decided elsewhere. An answer
//! counts for the chaperon that the request was about, and as done only if that shows it: a target may be anybody's
//! server.

use std::{fmt::Debug, future::Future, time::Duration};

use either::Either;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions, PropagationPolicy},
};
use pilotage_api::{PodChaperon, keys};
use pilotage_model::burden;
use pilotage_proxy::{
    Outcome, Reply, TurnedAway, Wanted,
    wire::{self, Change},
};
use pilotage_runtime::{
    call::{CallError, Failure, says_deleted, within},
    pages, weight,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::fleet::{Fleet, Member};

/// Limit of one request to a target.
const REMOTE_LIMIT: Duration = Duration::from_secs(10);

/// The plural of chaperons.
const CHAPERONS: &str = "podchaperons";

/// How a chaperon is deleted.
#[derive(Clone, Copy, Default)]
pub(crate) struct Deletion<'a> {
    /// A plain target granted it.
    pub(crate) plain: bool,
    /// Only at this version.
    pub(crate) resource_version: Option<&'a str>,
}

/// The APIs of a target that requests about one pod use.
pub(crate) struct Remote<'a> {
    fleet: &'a Fleet,
    member: Member,
    namespace: &'a str,
    /// UID of the pod.
    parent: &'a str,
    pub(crate) chaperons: Api<PodChaperon>,
    pods: Api<Pod>,
}

impl<'a> Remote<'a> {
    /// The target behind `node`, for the pod with the UID `parent` in this namespace; an outcome if it can't even be
    /// tried.
    pub(crate) fn of(
        fleet: &'a Fleet,
        node: &str,
        namespace: &'a str,
        parent: &'a str,
    ) -> Result<Self, Outcome> {
        let unknown = |why: &str| Outcome::Unknown(format!("{node}: {why}"));
        let member = fleet
            .member(node)
            .ok_or_else(|| unknown("no such target"))?;
        // Whatever led here: nothing of a pod is said to a Target of another namespace.
        if !member.target.key().serves(namespace) {
            return Err(unknown("it doesn't serve this namespace"));
        }
        let client = member
            .target
            .client()
            .ok_or_else(|| unknown("no connection"))?;
        Ok(Self {
            fleet,
            namespace,
            parent,
            chaperons: Api::namespaced(client.clone(), namespace),
            pods: Api::namespaced(client, namespace),
            member,
        })
    }

    /// The chaperon that a request is about; without a UID, the one that is to be made.
    pub(crate) fn wanted<'b>(&'b self, name: &'b str, uid: Option<&'b str>) -> Wanted<'b> {
        Wanted {
            namespace: self.namespace,
            name,
            uid,
            parent: self.parent,
            cluster: self.fleet.cluster(),
        }
    }

    /// Whether pods there have their labels as they are as well: its operator wants that, and it is another cluster.
    pub(crate) fn keeps_labels(&self) -> bool {
        let target = &self.member.target;
        let object = target.object();
        let wanted = object.annotations.get(keys::KEEP_LABELS);
        let identity = target.known_identity();
        wanted.is_some_and(|value| value == keys::TRUE)
            && identity.is_some_and(|cluster| cluster != *self.fleet.cluster())
    }

    /// A request was answered with this chaperon: done, if it is the wanted one and `shows` it.
    pub(crate) fn done(
        &self,
        wanted: &Wanted<'_>,
        chaperon: PodChaperon,
        shows: impl FnOnce(&PodChaperon) -> bool,
    ) -> Reply {
        if let Err(why) = wanted.admit(&chaperon.metadata) {
            return self.turn_away(why);
        }
        if !shows(&chaperon) {
            let why = "the target says that it was done, and shows that it wasn't";
            return Outcome::Unknown(why.to_owned()).into();
        }
        Reply {
            chaperon: Some(self.member.keep(chaperon)),
            ..Outcome::Done.into()
        }
    }

    /// The answer counts for nothing: the request may or may not have been done.
    pub(crate) fn turn_away(&self, why: TurnedAway) -> Reply {
        self.fleet.turn_away(self.member.target.node(), why);
        Outcome::Unknown(format!("what came back counts for nothing: {why}")).into()
    }

    /// Sends a request within the limit; without an answer, the target's connection is looked at at once.
    pub(crate) async fn call<T>(
        &self,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, CallError> {
        self.heard(within(REMOTE_LIMIT, request).await)
    }

    /// What a request, or several, ended with.
    fn heard<T>(&self, answer: Result<T, CallError>) -> Result<T, CallError> {
        match answer.as_ref().map_err(CallError::kind) {
            Err(Failure::Unknown) => self.member.target.doubt(),
            Err(Failure::Forbidden) => self.member.target.denied(),
            _ => {}
        }
        answer
    }

    /// DELETE with a UID precondition, in the background; of a plain target in the foreground, so that the chaperon
    /// stays as long as the garbage collector knows of its pod.
    pub(crate) async fn delete(&self, name: &str, uid: &str, how: Deletion<'_>) -> Reply {
        let params = DeleteParams {
            propagation_policy: Some(if how.plain {
                PropagationPolicy::Foreground
            } else {
                PropagationPolicy::Background
            }),
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: how.resource_version.map(str::to_owned),
            }),
            ..DeleteParams::default()
        };
        match self.call(self.chaperons.delete(name, &params)).await {
            // A chaperon that still holds a finalizer comes back; it is ending now.
            Ok(Either::Left(chaperon)) => {
                self.done(&self.wanted(name, Some(uid)), chaperon, wire::is_ending)
            }
            Ok(Either::Right(status)) if says_deleted(&status, CHAPERONS, name, uid) => {
                Outcome::Gone.into()
            }
            Ok(Either::Right(_)) => {
                let why = "the target says that something was done, and not which object is gone";
                Outcome::Unknown(why.to_owned()).into()
            }
            Err(error) if is_absent(&error, name) => Outcome::Gone.into(),
            // It moved on, another UID has the name, or some admission minds: the watch or a live read will tell.
            Err(error) if error.kind() == Failure::Conflict => Outcome::Conflict.into(),
            Err(error) => Outcome::Unknown(error.message()).into(),
        }
    }

    /// Live GET of the whole chaperon, and PATCH of what it lacks of its proxy pod, which was just read.
    pub(crate) async fn change(
        &self,
        name: &str,
        uid: &str,
        proxy: &ObjectMeta,
        spec: &Value,
    ) -> Reply {
        let wanted = self.wanted(name, Some(uid));
        let chaperon = match self.call(self.chaperons.get(name)).await {
            // Gone: the watch will tell.
            Ok(chaperon) if wanted.is_replaced_by(&chaperon.metadata) => {
                return Outcome::Conflict.into();
            }
            Err(error) if is_absent(&error, name) => return Outcome::Conflict.into(),
            Ok(chaperon) => chaperon,
            Err(error) => return Outcome::Unknown(error.message()).into(),
        };
        if let Err(why) = wanted.admit(&chaperon.metadata) {
            return self.turn_away(why);
        }
        let patch = match wire::change(&chaperon, proxy, spec) {
            Change::Nothing => return self.done(&wanted, chaperon, |_| true),
            Change::Refused(why) => return Outcome::Refused(why.to_owned()).into(),
            Change::Patch(patch) => patch,
        };
        // A heavier one could neither be watched nor read by us any more.
        let weighed = serde_json::to_value(&chaperon).map_err(|error| error.to_string());
        let weighed = weighed.and_then(|whole| {
            let checked = burden::check_change(whole, &patch["spec"], weight::of);
            checked.map_err(|error| error.to_string())
        });
        if let Err(why) = weighed {
            return Outcome::Refused(why).into();
        }
        let (params, merge) = (PatchParams::default(), Patch::Merge(&patch));
        let request = self.chaperons.patch(name, &params, &merge);
        let chaperon = match self.call(request).await {
            Ok(chaperon) => chaperon,
            Err(error) => {
                return match error.kind() {
                    Failure::Conflict | Failure::NotFound => Outcome::Conflict,
                    Failure::Forbidden | Failure::Invalid => Outcome::Refused(error.message()),
                    _ => Outcome::Unknown(error.message()),
                }
                .into();
            }
        };
        let keeps = wire::is_changed(&chaperon, &patch);
        let reply = self.done(&wanted, chaperon, |_| true);
        if keeps || reply.outcome != Outcome::Done {
            return reply;
        }
        // Some admission there changes it back, each time.
        let why = "the target keeps another spec of its PodChaperon".to_owned();
        Reply {
            outcome: Outcome::Refused(why),
            ..reply
        }
    }

    /// Does this UID still exist? A live GET; of a plain target live LISTs, by the pod that they are for: the
    /// chaperon's name is Admiralty's, and its end says nothing of its pod.
    pub(crate) async fn confirm_gone(&self, name: &str, uid: &str, plain: bool) -> Reply {
        if plain {
            return self.confirm_nothing_left(uid).await.into();
        }
        let wanted = self.wanted(name, Some(uid));
        match self.call(self.chaperons.get(name)).await {
            Ok(chaperon) if !wanted.is_replaced_by(&chaperon.metadata) => {
                match wanted.admit(&chaperon.metadata) {
                    Ok(()) => Reply {
                        chaperon: Some(self.member.keep(chaperon)),
                        ..Outcome::StillThere.into()
                    },
                    Err(why) => self.turn_away(why),
                }
            }
            Err(error) if !is_absent(&error, name) => Outcome::Unknown(error.message()).into(),
            // Absent, or another UID has the name.
            _ => Outcome::Gone.into(),
        }
    }

    /// The chaperons first: as long as one is there, a pod of it may be made.
    async fn confirm_nothing_left(&self, uid: &str) -> Outcome {
        let params = ListParams::default().labels(&format!("{}={}", keys::PARENT_UID, self.parent));
        let chaperon = self.lists(&self.chaperons, params.clone(), wire::is_among, uid);
        match chaperon.await {
            Ok(true) => return Outcome::StillThere,
            Ok(false) => {}
            Err(error) => return Outcome::Unknown(error.message()),
        }
        let delegate = self.lists(&self.pods, params, wire::is_delegate_left, uid);
        match delegate.await {
            Ok(true) => Outcome::StillThere,
            Ok(false) => Outcome::Gone,
            Err(error) => Outcome::Unknown(error.message()),
        }
    }

    /// Whether a list has an object of the chaperon with this UID. All its pages have the time of one request.
    async fn lists<K>(
        &self,
        api: &Api<K>,
        params: ListParams,
        is_it: fn(&[ObjectMeta], &str) -> bool,
        uid: &str,
    ) -> Result<bool, CallError>
    where
        K: Clone + DeserializeOwned + Debug,
    {
        let mut found = false;
        let read = pages::each_metadata(REMOTE_LIMIT, api, params, |object| {
            found |= is_it(&[object.metadata], uid);
        });
        let read = tokio::time::timeout(REMOTE_LIMIT, read).await;
        self.heard(read.unwrap_or(Err(CallError::TimedOut(REMOTE_LIMIT))))?;
        Ok(found)
    }
}

/// Whether the API server itself said that no chaperon of this name exists.
pub(crate) fn is_absent(error: &CallError, name: &str) -> bool {
    error.says_absent(CHAPERONS, name)
}

/// What a refused write of the source to its own pod means.
pub(crate) fn local_failure(error: &CallError) -> Outcome {
    match error.kind() {
        // Gone or moved on: the watch brings what is true.
        Failure::NotFound | Failure::Conflict | Failure::AlreadyExists => Outcome::Conflict,
        _ => Outcome::Unknown(error.message()),
    }
}
