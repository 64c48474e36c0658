//! Requests about chaperons in a target, and what their answers mean to the source's state machines.
//!
//! Each takes one action's data and says how it ended; whether and when it is sent is decided elsewhere.

use std::{future::Future, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, ListParams, Preconditions, PropagationPolicy},
};
use pilotage_api::PodChaperon;
use pilotage_proxy::Outcome;
use pilotage_runtime::call::{CallError, Failure, within};

use crate::fleet::{Fleet, Member};

/// Limit of one request to a target.
const REMOTE_LIMIT: Duration = Duration::from_secs(10);

/// How a request ended, and the object that came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    pub(crate) chaperon: Option<Arc<PodChaperon>>,
}

impl From<Outcome> for Answer {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            chaperon: None,
        }
    }
}

impl Answer {
    /// As wanted, with the object as it is now.
    pub(crate) fn done(chaperon: PodChaperon) -> Self {
        Self {
            outcome: Outcome::Done,
            chaperon: Some(Arc::new(chaperon)),
        }
    }
}

/// The APIs of a target that requests about one pod use.
pub(crate) struct Remote {
    member: Member,
    pub(crate) chaperons: Api<PodChaperon>,
    pods: Api<Pod>,
}

impl Remote {
    /// The target behind `node`, in the pod's namespace; an outcome if it can't even be tried.
    pub(crate) fn of(fleet: &Fleet, node: &str, namespace: &str) -> Result<Self, Outcome> {
        let unknown = |why: &str| Outcome::Unknown(format!("{node}: {why}"));
        let member = fleet
            .member(node)
            .ok_or_else(|| unknown("no such target"))?;
        let client = member
            .target
            .client()
            .ok_or_else(|| unknown("no connection"))?;
        Ok(Self {
            chaperons: Api::namespaced(client.clone(), namespace),
            pods: Api::namespaced(client, namespace),
            member,
        })
    }

    /// Sends a request within the limit; without an answer, the target's connection is looked at at once.
    pub(crate) async fn call<T>(
        &self,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, CallError> {
        let answer = within(REMOTE_LIMIT, request).await;
        if matches!(&answer, Err(error) if error.kind() == Failure::Unknown) {
            self.member.target.doubt();
        }
        answer
    }

    /// DELETE with a UID precondition, in the background.
    pub(crate) async fn delete(&self, name: &str, uid: &str) -> Answer {
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Background),
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        match self.call(self.chaperons.delete(name, &params)).await {
            // A chaperon that still holds a finalizer comes back; it is ending now.
            Ok(answer) => answer
                .left()
                .map_or_else(|| Outcome::Gone.into(), Answer::done),
            Err(error) => match error.kind() {
                // 409 here: another UID has the name.
                Failure::NotFound | Failure::Conflict => Outcome::Gone.into(),
                _ => Outcome::Unknown(error.message()).into(),
            },
        }
    }

    /// Live GET: does this UID still exist? For a plain target the pods of that name must be gone as well.
    pub(crate) async fn confirm_gone(&self, name: &str, uid: &str, plain: bool) -> Answer {
        match self.call(self.chaperons.get_opt(name)).await {
            Ok(Some(chaperon)) if chaperon.metadata.uid.as_deref() == Some(uid) => Answer {
                outcome: Outcome::StillThere,
                chaperon: Some(Arc::new(chaperon)),
            },
            Ok(_) if plain => self.confirm_no_pod(name).await.into(),
            Ok(_) => Outcome::Gone.into(),
            Err(error) => Outcome::Unknown(error.message()).into(),
        }
    }

    async fn confirm_no_pod(&self, name: &str) -> Outcome {
        let params = ListParams::default().fields(&format!("metadata.name={name}"));
        match self.call(self.pods.list_metadata(&params)).await {
            Ok(pods) if pods.items.is_empty() => Outcome::Gone,
            Ok(_) => Outcome::StillThere,
            Err(error) => Outcome::Unknown(error.message()),
        }
    }
}

/// What a refused write of the source to its own pod means.
pub(crate) fn local_failure(error: &CallError) -> Outcome {
    match error.kind() {
        // Gone or moved on: the watch brings what is true.
        Failure::NotFound | Failure::Conflict | Failure::AlreadyExists => Outcome::Conflict,
        _ => Outcome::Unknown(error.message()),
    }
}
