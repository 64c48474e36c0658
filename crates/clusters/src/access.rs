//! What we may do in a target, asked of the target itself.
//!
//! Must not know what the permissions are for: whoever starts the registry says what is needed.

use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use pilotage_api::Right;
use pilotage_runtime::call::{self, CallError};

/// Limit for one question.
const ASK_LIMIT: Duration = Duration::from_secs(10);
/// Questions in flight at once, for one target.
const AT_ONCE: usize = 4;

/// A permission that is needed in a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Need {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Resource, in the plural.
    pub resource: &'static str,
    /// Subresource; empty for none.
    pub subresource: &'static str,
    /// Verb.
    pub verb: &'static str,
    /// Whether the resource is cluster-scoped; otherwise a `Target` needs it in its namespace, a `ClusterTarget` in
    /// all.
    pub cluster_scoped: bool,
    /// The right of a Source that it comes with; `None`: every Source gives it.
    pub right: Option<Right>,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.subresource.is_empty() {
            write!(f, "/{}", self.subresource)?;
        }
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

/// What is known of our permissions in a target.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Authorization {
    /// Not asked yet: the target hasn't been reached, or the registry doesn't ask.
    #[default]
    Unknown,
    /// The target couldn't say.
    Unanswered(String),
    /// Nothing is missing.
    Complete,
    /// Something is.
    Missing(Vec<Need>),
}

/// Asks the cluster behind `client` which of `needs` are missing; `namespace` is where namespaced ones are needed (all
/// if `None`).
pub(crate) async fn review(
    client: &Client,
    namespace: Option<&str>,
    needs: &[Need],
) -> Authorization {
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let questions: Vec<_> = needs
        .iter()
        .map(|need| ask(api.clone(), *need, namespace))
        .collect();
    let answers: Vec<_> = futures::stream::iter(questions)
        .buffered(AT_ONCE)
        .collect()
        .await;
    let mut missing = Vec::new();
    for (need, answer) in answers {
        match answer {
            Ok(review) if review.status.as_ref().is_some_and(|status| status.allowed) => {}
            Ok(_) => missing.push(need),
            Err(error) => return Authorization::Unanswered(error.message()),
        }
    }
    if missing.is_empty() {
        Authorization::Complete
    } else {
        Authorization::Missing(missing)
    }
}

fn ask(
    api: Api<SelfSubjectAccessReview>,
    need: Need,
    namespace: Option<&str>,
) -> BoxFuture<'static, (Need, Result<SelfSubjectAccessReview, CallError>)> {
    let review = question(&need, namespace);
    async move {
        let create = async move { api.create(&PostParams::default(), &review).await };
        (need, call::within(ASK_LIMIT, create).await)
    }
    .boxed()
}

fn question(need: &Need, namespace: Option<&str>) -> SelfSubjectAccessReview {
    let filled = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: Some(need.group.to_owned()),
                resource: Some(need.resource.to_owned()),
                subresource: filled(need.subresource),
                verb: Some(need.verb.to_owned()),
                namespace: namespace
                    .filter(|_| !need.cluster_scoped)
                    .map(ToOwned::to_owned),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGS: Need = Need {
        group: "",
        resource: "pods",
        subresource: "log",
        verb: "get",
        cluster_scoped: false,
        right: Some(Right::Logs),
    };

    #[test]
    fn a_need_reads_as_a_person_would_say_it() {
        let summaries = Need {
            group: "multicluster.admiralty.io",
            resource: "clustersummaries",
            subresource: "",
            verb: "watch",
            cluster_scoped: true,
            right: None,
        };
        assert_eq!(LOGS.to_string(), "get pods/log");
        assert_eq!(
            summaries.to_string(),
            "watch clustersummaries.multicluster.admiralty.io"
        );
        let asked = question(&summaries, Some("shop"))
            .spec
            .resource_attributes
            .unwrap();
        assert_eq!(asked.namespace, None);
        let asked = question(&LOGS, Some("shop"))
            .spec
            .resource_attributes
            .unwrap();
        assert_eq!(asked.namespace.as_deref(), Some("shop"));
    }
}
