//! Who a cluster is: the UID of its kube-system namespace, which lives as long as the cluster does.
//!
//! Must not know when it is asked, nor what becomes of a cluster that isn't the right one.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::{Api, Client};
use pilotage_api::parent::ClusterUid;
use pilotage_api::{ClusterSummary, bounds, keys};
use pilotage_runtime::call::{self, CALL_LIMIT, CallError, Failure};
use pilotage_runtime::rbac::Rule;
use thiserror::Error;

use crate::connection::LostReason;

/// The namespace that every cluster has from its birth.
const NAMESPACE: &str = "kube-system";

/// What [`cluster_uid`] needs.
pub const RULES: &[Rule] = &[Rule::cluster(&[""], &["namespaces"], &["get"]).named(&[NAMESPACE])];

/// Why a cluster's identity isn't known.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// The namespace can't be read.
    #[error("failed to read namespace kube-system, whose UID identifies this cluster: {0}")]
    Read(#[source] CallError),
    /// The API server gave it no UID.
    #[error("namespace kube-system has no UID")]
    NoUid,
}

/// What the cluster behind `client` says of its identity, to a source that may not read kube-system: `None` if it
/// doesn't run Pilotage, hasn't said so yet, or doesn't let us read it.
pub(crate) async fn told(
    client: &Client,
    limit: Duration,
) -> Result<Option<ClusterUid>, CallError> {
    let summaries: Api<ClusterSummary> = Api::all(client.clone());
    let own = format!("metadata.name={}", keys::CLUSTER_SUMMARY_NAME);
    let params = ListParams::default().fields(&own);
    match call::within(limit, summaries.list(&params)).await {
        Ok(listed) => Ok(listed.items.into_iter().find_map(said)),
        Err(error) if matches!(error.kind(), Failure::Forbidden | Failure::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Who a summary says that its cluster is. What can't be a UID says nothing: it is kept in the Target's status, of
/// which our own API server would refuse the whole, and people read it there.
pub(crate) fn said(summary: ClusterSummary) -> Option<ClusterUid> {
    summary.cluster_uid.filter(|uid| bounds::is_uid(&uid.0))
}

/// Whether the cluster that says this of itself is the one that is known; its identity, if that is news.
///
/// Silence is no proof: another cluster that hasn't said who it is yet would answer "not found" to every question.
pub(crate) fn recognize(
    known: Option<ClusterUid>,
    told: Option<ClusterUid>,
) -> Result<Option<ClusterUid>, LostReason> {
    match (known, told) {
        (Some(known), Some(found)) if known != found => {
            Err(LostReason::OtherCluster { known, found })
        }
        (Some(known), None) => Err(LostReason::Unidentified { known }),
        (Some(_), Some(_)) => Ok(None),
        (None, told) => Ok(told),
    }
}

/// Identity of the cluster behind `client`.
pub fn cluster_uid(client: &Client) -> BoxFuture<'_, Result<ClusterUid, IdentityError>> {
    async move {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace = call::within(CALL_LIMIT, namespaces.get(NAMESPACE)).await;
        let uid = namespace.map_err(IdentityError::Read)?.metadata.uid;
        uid.map(ClusterUid).ok_or(IdentityError::NoUid)
    }
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_no_uid_says_nothing() {
        for (text, good) in [
            ("5f6c", true),
            ("", false),
            (&"x".repeat(63), true),
            (&"x".repeat(64), false),
            ("the operator of this cluster", false),
        ] {
            let uid = ClusterUid(text.to_owned());
            let summary = ClusterSummary {
                cluster_uid: Some(uid.clone()),
                ..ClusterSummary::default()
            };
            assert_eq!(said(summary), good.then_some(uid));
        }
    }

    #[test]
    fn who_is_known_has_to_say_so_each_time() {
        let uid = |text: &str| Some(ClusterUid(text.to_owned()));
        let known = || ClusterUid("x".into());
        let other = LostReason::OtherCluster {
            known: known(),
            found: ClusterUid("y".into()),
        };
        let table = [
            (None, None, Ok(None)),
            (None, uid("x"), Ok(uid("x"))),
            (uid("x"), uid("x"), Ok(None)),
            (uid("x"), uid("y"), Err(other)),
            (
                uid("x"),
                None,
                Err(LostReason::Unidentified { known: known() }),
            ),
        ];
        for (known, told, want) in table {
            assert_eq!(
                recognize(known.clone(), told.clone()),
                want,
                "{known:?} {told:?}"
            );
        }
    }
}
