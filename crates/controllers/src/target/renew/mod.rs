//! Renews the token in the Secret of a Target that asks for it ([`keys::TOKEN_LIFE`]): asks the target for another one
//! of the same account, and puts it into the kubeconfig, if nobody has written the Secret meanwhile.
//!
//! The old token stays good until its end, and each client goes on with it until the new one has led to the target, so
//! nothing is interrupted. When it is time is decided in `decide`; what becomes of it, the Target's status says.

mod decide;
mod holder;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use pilotage_api::keys;
use pilotage_clusters::spec::{Access, SecretRef};
use pilotage_clusters::{LostReason, Target, kubeconfig};
use pilotage_runtime::backoff::{Backoff, dice};
use pilotage_runtime::call::{CALL_LIMIT, CallError, Failure, within};
use pilotage_runtime::lease::Leadership;
use pilotage_runtime::moment::from_now;
use serde_json::json;
use thiserror::Error;
use tokio::sync::watch as cell;
use tokio::time::{Instant, sleep_until};

use decide::{Ask, Got, Observed, Plan, decide};
use holder::{Holder, Tokens};

const FIELD_MANAGER: &str = "pilotage-renew";
/// Pause after a failure: half of a token's life is left when it comes first.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(5), Duration::from_mins(10)).spread(0.3);

/// What the status of a Target says of the renewal of its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// Its Secret asks for none.
    NotAsked,
    /// It is renewed in time, in one sentence.
    InTime(String),
    /// It isn't: one word in camel case, and a sentence.
    Fails(&'static str, String),
}

/// Why a token wasn't renewed.
#[derive(Debug, Error)]
enum RenewError {
    #[error("the target can't be asked")]
    NoClient,
    #[error("the target gives no other one: {0}")]
    Asked(CallError),
    #[error("what the target gave is no token of the same account that ends")]
    Strange,
    #[error("it doesn't stand in the kubeconfig as one word")]
    Hidden,
    #[error("the new token isn't taken: {0}")]
    NotTaken(LostReason),
    #[error("the Secret can't be written: {0}")]
    Written(CallError),
    #[error("another process leads")]
    NotLeader,
}

impl RenewError {
    /// Whether it will be the same next time, as far as anybody knows.
    fn lasts(&self) -> bool {
        match self {
            Self::Asked(error) => matches!(
                error.kind(),
                Failure::Forbidden | Failure::Invalid | Failure::NotFound
            ),
            Self::Written(error) => {
                matches!(error.kind(), Failure::Forbidden | Failure::Invalid)
            }
            Self::Strange | Self::Hidden => true,
            Self::NoClient | Self::NotTaken(_) | Self::NotLeader => false,
        }
    }

    /// One word in camel case.
    fn word(&self) -> &'static str {
        match self {
            Self::Asked(error) if error.is_open() => "NotAnswered",
            Self::Asked(_) | Self::Strange | Self::NotTaken(_) => "TokenRefused",
            Self::Hidden => "NotRenewable",
            Self::Written(_) => "SecretNotWritten",
            Self::NoClient | Self::NotLeader => "NotAnswered",
        }
    }
}

/// When a version of a Secret is looked at again.
struct Pause {
    version: Option<String>,
    until: Instant,
    /// Another version isn't sooner: whoever touches a Secret over and over makes no request each time.
    soonest: Instant,
}

pub(super) struct Renewer {
    client: Client,
    leadership: Leadership,
    target: Arc<Target>,
    told: cell::Sender<Option<Renewal>>,
    tokens: Tokens,
    /// What was got last, and when.
    got: Option<(Got, Instant)>,
    failures: u32,
    pause: Option<Pause>,
}

impl Renewer {
    /// What becomes of the token is told to `told`.
    pub(super) fn new(
        client: Client,
        leadership: Leadership,
        target: Arc<Target>,
        told: cell::Sender<Option<Renewal>>,
    ) -> Self {
        Self {
            client,
            leadership,
            target,
            told,
            tokens: Tokens::default(),
            got: None,
            failures: 0,
            pause: None,
        }
    }

    /// Never ends by itself.
    pub(super) async fn run(mut self) {
        let (mut secrets, mut states) = (self.target.secret(), self.target.state());
        let mut tried = self.target.tried();
        loop {
            // Nothing waits between this question and the requests, but for the target's answer.
            self.leadership.acquired().await;
            let secret = secrets.borrow_and_update().clone();
            // Before the state, which it is set after: that state is of this version or a newer one.
            let version = tried.borrow_and_update().clone();
            let connected = states.borrow_and_update().is_connected();
            let next = if let Some(holder) = self.holder(secret) {
                let is_tried = version == holder.secret.resource_version();
                self.turn(&holder, connected && is_tried).await
            } else {
                self.tokens = Tokens::default();
                None
            };
            // The senders live in the target.
            tokio::select! {
                _ = secrets.changed() => {}
                _ = states.changed() => {}
                _ = tried.changed() => {}
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
        }
    }

    /// The Secret, if it is the one that the Target names by now.
    fn holder(&self, secret: Option<Arc<Secret>>) -> Option<Holder> {
        let secret = secret?;
        let Ok(Access::Secret(reference)) = self.target.object().access.clone() else {
            return None;
        };
        let meta = &secret.metadata;
        let is_named = meta.name.as_ref() == Some(&reference.name)
            && meta.namespace.as_ref() == Some(&reference.namespace);
        is_named.then_some(Holder { reference, secret })
    }

    /// Does what there is to do with this version of the Secret; when to look again if nothing changes.
    async fn turn(&mut self, holder: &Holder, connected: bool) -> Option<Instant> {
        let token = self.tokens.of(holder);
        let now = Instant::now();
        let got = self.got.as_ref();
        let plan = decide(&Observed {
            mark: holder.mark(),
            token: token.as_deref(),
            connected,
            got: got.map(|(got, at)| (got, now.saturating_duration_since(*at))),
            now: Timestamp::now(),
        });
        let place = holder.place();
        match plan {
            Plan::Leave => {
                self.tell(Renewal::NotAsked);
                None
            }
            Plan::Idle => None,
            Plan::Unable(reason, why) => {
                let what = format!(
                    "{place} can't be renewed, as annotation {} asks: {why}",
                    keys::TOKEN_LIFE
                );
                self.tell(Renewal::Fails(reason, what));
                None
            }
            Plan::Wait(span, until) => {
                self.tell(Renewal::InTime(format!(
                    "{place} is good until {until}, and is renewed before"
                )));
                Some(from_now(span))
            }
            Plan::Renew(ask) => {
                let version = holder.secret.resource_version();
                if let Some(pause) = &self.pause {
                    let until = if pause.version == version {
                        pause.until
                    } else {
                        pause.soonest.min(pause.until)
                    };
                    if until > now {
                        return Some(until);
                    }
                }
                let Err(error) = self.renew(holder, &ask, &token.unwrap_or_default()).await else {
                    (self.failures, self.pause) = (0, None);
                    // The watch brings what was written; until then there is nothing to do.
                    return None;
                };
                tracing::warn!(target_key = %self.target.key(), %error, "failed to renew the token of a target");
                if error.lasts() || ask.is_late {
                    self.tell(Renewal::Fails(
                        error.word(),
                        format!(
                            "{place} is good until {} and couldn't be renewed, which is tried again: {error}; \
                             `kubectl pilotage connect`, given again, gives the right to do so, and with \
                             `--renew-token` a new token",
                            ask.until
                        ),
                    ));
                }
                self.failures = self.failures.saturating_add(1);
                let until = from_now(BACKOFF.delay(self.failures, dice()));
                self.pause = Some(Pause {
                    version,
                    until,
                    soonest: from_now(decide::PACE),
                });
                Some(until)
            }
        }
    }

    fn tell(&self, renewal: Renewal) {
        self.told.send_if_modified(|told| {
            let changed = told.as_ref() != Some(&renewal);
            *told = Some(renewal);
            changed
        });
    }

    async fn renew(&mut self, holder: &Holder, ask: &Ask, token: &str) -> Result<(), RenewError> {
        let client = self.target.client().ok_or(RenewError::NoClient)?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client, &ask.account.namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(ask.life.seconds()),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let params = PostParams::default();
        let asked = accounts.create_token_request(&ask.account.name, &params, &request);
        let answer = within(CALL_LIMIT, asked).await.map_err(RenewError::Asked)?;
        let text = answer.status.and_then(|status| status.token);
        let got = decide::given(text.unwrap_or_default(), ask).ok_or(RenewError::Strange)?;
        let (key, context) = (&holder.reference.key, holder.reference.context.as_deref());
        let kubeconfig = holder
            .kubeconfig()
            .and_then(|it| std::str::from_utf8(it).ok());
        let kubeconfig = kubeconfig.and_then(|it| decide::replaced(it, token, &got));
        let kubeconfig = kubeconfig.ok_or(RenewError::Hidden)?;
        let read = kubeconfig::token(kubeconfig.as_bytes(), context);
        if read.ok().flatten().as_ref() != Some(&got.text) {
            return Err(RenewError::Hidden);
        }
        // The old one is nowhere else, and works.
        let taken = self.target.takes(kubeconfig.as_bytes(), context).await;
        taken.map_err(RenewError::NotTaken)?;
        if !self.leadership.is_leader() {
            return Err(RenewError::NotLeader);
        }
        let meta = &holder.secret.metadata;
        let patch = json!({
            "metadata": { "uid": meta.uid, "resourceVersion": meta.resource_version },
            "data": { key: ByteString(kubeconfig.into_bytes()) },
        });
        let SecretRef {
            namespace, name, ..
        } = &holder.reference;
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(patch);
        let patched = secrets.patch(name, &params, &patch);
        within(CALL_LIMIT, patched)
            .await
            .map_err(RenewError::Written)?;
        tracing::info!(target_key = %self.target.key(), life = %ask.life, "the token of a target is renewed");
        self.got = Some((got, Instant::now()));
        Ok(())
    }
}
