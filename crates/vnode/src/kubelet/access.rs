//! Who may call: what a kubelet asks its API server about a caller, asked of this cluster's.
//!
//! A certificate counts if one of the cluster's client authorities has signed it, judged anew with each request; a
//! token if the API server knows it. What callers may do is theirs by the rights on the virtual node, as on any other
//! node. Nobody is let in whom the API server can't judge.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use pilotage_runtime::call;
use pilotage_runtime::serve::PeerCertificates;
use pilotage_runtime::tls::ClientAuthorities;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::answers::{Answers, Question};
use super::caller::{self, Caller};
use super::refusal::Refusal;

/// Limit for one question.
const ASK_LIMIT: Duration = Duration::from_secs(10);
/// Questions at the same time: whoever reaches this port can cause them.
const AT_ONCE: usize = 32;

/// Judges callers.
pub(crate) struct Gatekeeper {
    client: Client,
    authorities: ClientAuthorities,
    answers: Mutex<Answers>,
    turns: Semaphore,
}

impl Gatekeeper {
    pub(crate) fn new(client: Client, authorities: ClientAuthorities) -> Self {
        Self {
            client,
            authorities,
            answers: Mutex::default(),
            turns: Semaphore::new(AT_ONCE),
        }
    }

    /// Who it is.
    pub(crate) async fn authenticate(
        &self,
        peer: &PeerCertificates,
        headers: &HeaderMap,
    ) -> Result<Caller, Refusal> {
        if let Some(own) = peer.0.first()
            && self.authorities.accepts(&peer.0).is_ok()
            && let Some(caller) = Caller::of_certificate(own)
        {
            return Ok(caller);
        }
        let token = caller::token(headers).ok_or_else(unknown)?;
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                audiences: None,
            },
            ..TokenReview::default()
        };
        let reviews: Api<TokenReview> = Api::all(self.client.clone());
        let params = PostParams::default();
        let asked = reviews.create(&params, &review);
        let answer = self.ask("to review a token failed", asked).await?;
        let status = answer.status.unwrap_or_default();
        let known = status.authenticated == Some(true) && status.error.is_none();
        let user = status.user.filter(|_| known);
        user.and_then(Caller::of_review).ok_or_else(unknown)
    }

    /// Whether he may.
    pub(crate) async fn authorize(&self, question: Question) -> Result<(), Refusal> {
        let known = {
            let answers = self.answers.lock();
            let answers = answers.unwrap_or_else(PoisonError::into_inner);
            answers.get(&question, Instant::now())
        };
        let allowed = match known {
            Some(allowed) => allowed,
            None => self.review(&question).await?,
        };
        if allowed {
            return Ok(());
        }
        let Question {
            caller,
            verb,
            subresource,
            ..
        } = question;
        // It doesn't say which node: that of a pod is nobody's affair who may not ask for its logs.
        let text = format!(
            "user {:?} may not {verb} nodes/{subresource} here",
            caller.user
        );
        Err(Refusal::new(StatusCode::FORBIDDEN, text))
    }

    async fn review(&self, question: &Question) -> Result<bool, Refusal> {
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let (params, review) = (PostParams::default(), review_of(question));
        let asked = reviews.create(&params, &review);
        let answer = self.ask("to review access failed", asked).await?;
        let status = answer.status.unwrap_or_default();
        let allowed = status.allowed && status.denied != Some(true);
        let answers = self.answers.lock();
        let mut answers = answers.unwrap_or_else(PoisonError::into_inner);
        answers.keep(question.clone(), allowed, Instant::now());
        Ok(allowed)
    }

    async fn ask<T>(
        &self,
        failed: &str,
        asked: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Refusal> {
        let busy = || Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too many callers at once");
        let turn = timeout(ASK_LIMIT, self.turns.acquire()).await;
        let _turn = turn.map_err(|_| busy())?.map_err(|_| busy())?;
        let answer = call::within(ASK_LIMIT, asked).await;
        answer.map_err(|error| Refusal::local(failed, &error))
    }
}

fn unknown() -> Refusal {
    Refusal::new(StatusCode::UNAUTHORIZED, "Unauthorized")
}

fn review_of(question: &Question) -> SubjectAccessReview {
    let filled = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let caller = &question.caller;
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(caller.user.clone()),
            uid: caller.uid.clone(),
            groups: Some(caller.groups.clone()),
            extra: (!caller.extra.is_empty()).then(|| caller.extra.clone()),
            resource_attributes: Some(ResourceAttributes {
                group: Some(String::new()),
                version: Some("v1".to_owned()),
                resource: Some("nodes".to_owned()),
                subresource: filled(question.subresource),
                name: filled(&question.node),
                verb: Some(question.verb.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_caller_is_asked_about_as_a_kubelet_asks() {
        let question = Question {
            caller: Caller {
                user: "u".into(),
                uid: Some("1".into()),
                groups: vec!["g".into()],
                extra: BTreeMap::new(),
            },
            verb: "create",
            subresource: "proxy",
            node: "admiralty-c2".into(),
        };
        let spec = review_of(&question).spec;
        let asked = spec.resource_attributes.unwrap();
        assert_eq!(
            (spec.user.as_deref(), spec.uid.as_deref()),
            (Some("u"), Some("1"))
        );
        assert_eq!(spec.groups.unwrap(), ["g"]);
        assert_eq!(asked.resource.as_deref(), Some("nodes"));
        assert_eq!(asked.subresource.as_deref(), Some("proxy"));
        assert_eq!(asked.verb.as_deref(), Some("create"));
        assert_eq!(asked.name.as_deref(), Some("admiralty-c2"));
        assert_eq!(asked.namespace, None);
    }
}
