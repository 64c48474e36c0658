//! What a plain API server lacks of a garden: Gardener's kinds as CRDs, and the subresource `shoots/binding`, served by
//! a proxy in front of it. It knows nothing of schedulers.
//!
//! The binding answers as gardener-apiserver does: who may not bind gets 403, a version that isn't the newest 409, a
//! binding to the Seed that a Shoot has already 403, and one that carries another change of the spec 422. A landed one
//! clears a last operation `Create`/`Pending`, ignores the status that it brings, and counts the generation up.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode};
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::access::{Access, Credential};
use crate::fault::{self, Answer, Call, FaultProxy, Verb};
use crate::plane::{ControlPlane, Error as PlaneError};

/// Definitions of Gardener's kinds.
pub const CRDS: &str = include_str!("../gardener/crds.yaml");
/// Group of Gardener's kinds.
const GROUP: &str = "core.gardener.cloud";

/// A garden can't be made of a plane.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The definitions were refused.
    #[error(transparent)]
    Plane(#[from] PlaneError),
    /// The proxy can't start.
    #[error(transparent)]
    Proxy(#[from] fault::Error),
}

/// A plane with Gardener's kinds, and the proxy that serves bindings in front of it.
#[derive(Debug)]
pub struct Garden {
    /// Where faults are injected, too.
    pub proxy: FaultProxy,
    bindings: Arc<Bindings>,
}

/// How bindings ended so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Landed.
    pub landed: u64,
    /// Answered with 409.
    pub conflicts: u64,
    /// Refused otherwise.
    pub refused: u64,
}

impl Garden {
    /// Installs the kinds and the namespace `garden`, and starts the proxy.
    pub async fn start(plane: &ControlPlane) -> Result<Self, Error> {
        plane.apply_yaml(CRDS).await?;
        plane
            .apply_yaml("apiVersion: v1\nkind: Namespace\nmetadata: {name: garden}\n")
            .await?;
        let bindings = Arc::new(Bindings {
            admin: plane.admin(),
            access: plane.admin_access().clone(),
            may: Mutex::default(),
            deny: Mutex::default(),
            landed: AtomicU64::new(0),
            conflicts: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        });
        let proxy = FaultProxy::start_with(plane, Some(bindings.clone())).await?;
        Ok(Self { proxy, bindings })
    }

    /// Refuses all bindings with 403 and this text, as admission does; none lets them pass.
    pub fn deny(&self, text: Option<&str>) {
        let mut deny = self
            .bindings
            .deny
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *deny = text.map(ToOwned::to_owned);
    }

    /// How bindings ended so far.
    pub fn counts(&self) -> Counts {
        let read = |count: &AtomicU64| count.load(Ordering::SeqCst);
        Counts {
            landed: read(&self.bindings.landed),
            conflicts: read(&self.bindings.conflicts),
            refused: read(&self.bindings.refused),
        }
    }
}

struct Bindings {
    admin: Client,
    access: Access,
    /// Who may bind, by bearer token.
    may: Mutex<HashSet<String>>,
    deny: Mutex<Option<String>>,
    landed: AtomicU64,
    conflicts: AtomicU64,
    refused: AtomicU64,
}

impl std::fmt::Debug for Bindings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bindings").finish_non_exhaustive()
    }
}

/// What the API server would answer.
type Refusal = (StatusCode, &'static str, String);

impl Answer for Arc<Bindings> {
    fn takes(&self, call: &Call) -> bool {
        call.resource == "shoots/binding"
    }

    fn answer(&self, call: &Call, request: Request<Bytes>) -> BoxFuture<'static, Response<Bytes>> {
        let (bindings, call) = (Arc::clone(self), call.clone());
        async move {
            match bindings.bind(&call, &request).await {
                Ok(shoot) => {
                    bindings.landed.fetch_add(1, Ordering::SeqCst);
                    reply(StatusCode::OK, &shoot)
                }
                Err((code, reason, message)) => {
                    let count = if code == StatusCode::CONFLICT {
                        &bindings.conflicts
                    } else {
                        &bindings.refused
                    };
                    count.fetch_add(1, Ordering::SeqCst);
                    let status = json!({
                        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
                        "code": code.as_u16(), "reason": reason, "message": message,
                        "details": {"group": GROUP, "kind": "shoots", "name": call.name},
                    });
                    reply(code, &status)
                }
            }
        }
        .boxed()
    }
}

fn reply(code: StatusCode, body: &Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body.to_string()));
    *response.status_mut() = code;
    let json = http::HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, json);
    response
}

fn forbidden(message: impl Into<String>) -> Refusal {
    (StatusCode::FORBIDDEN, "Forbidden", message.into())
}

fn invalid(name: &str, detail: &str) -> Refusal {
    let message = format!("Shoot.{GROUP} {name:?} is invalid: {detail}");
    (StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
}

fn passed_on(error: kube::Error) -> Refusal {
    match error {
        kube::Error::Api(status) => {
            let code = StatusCode::from_u16(status.code);
            let reason = match status.code {
                404 => "NotFound",
                409 => "Conflict",
                _ => "InternalError",
            };
            let code = code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            (code, reason, status.message.clone())
        }
        other => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            other.to_string(),
        ),
    }
}

impl Bindings {
    async fn bind(&self, call: &Call, request: &Request<Bytes>) -> Result<Value, Refusal> {
        let namespace = call.namespace.as_deref().unwrap_or_default();
        let name = call.name.as_deref().unwrap_or_default();
        if call.verb != Verb::Update {
            let text = "the server does not allow this method on the requested resource";
            let code = StatusCode::METHOD_NOT_ALLOWED;
            return Err((code, "MethodNotAllowed", text.to_owned()));
        }
        if !self.may(namespace, request).await {
            let text = format!(
                "shoots.{GROUP} {name:?} is forbidden: User cannot update resource \"shoots/binding\" in API group \
                 {GROUP:?} in the namespace {namespace:?}"
            );
            return Err(forbidden(text));
        }
        let sent: Value = serde_json::from_slice(request.body())
            .map_err(|error| (StatusCode::BAD_REQUEST, "BadRequest", error.to_string()))?;
        let resource = ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk(GROUP, "v1beta1", "Shoot"),
            "shoots",
        );
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.admin.clone(), namespace, &resource);
        let mut live = api.get(name).await.map_err(passed_on)?;
        let version = sent["metadata"]["resourceVersion"].as_str();
        let Some(version) = version.filter(|version| !version.is_empty()) else {
            let detail =
                "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
            return Err(invalid(name, detail));
        };
        if sent["metadata"]["name"] != name
            || Some(version) != live.metadata.resource_version.as_deref()
        {
            let text = format!(
                "Operation cannot be fulfilled on shoots.{GROUP} {name:?}: the object has been modified; please \
                 apply your changes to the latest version and try again"
            );
            return Err((StatusCode::CONFLICT, "Conflict", text));
        }
        let old = live.data["spec"]["seedName"]
            .as_str()
            .map(ToOwned::to_owned);
        let new = sent["spec"]["seedName"]
            .as_str()
            .filter(|seed| !seed.is_empty());
        let Some(new) = new else {
            return Err(invalid(
                name,
                "spec.seedName: Required value: seed name is required",
            ));
        };
        if old.as_deref() == Some(new) {
            return Err(forbidden(format!(
                "shoots.{GROUP} {name:?} is forbidden: shoot is already assigned to seed {new:?}"
            )));
        }
        if old.is_some() {
            return Err(forbidden(format!(
                "shoots.{GROUP} {name:?} is forbidden: backup is not configured for old seed, cannot change seed"
            )));
        }
        let mut wanted = live.data["spec"].clone();
        wanted["seedName"] = json!(new);
        if sent["spec"] != wanted {
            return Err(invalid(
                name,
                "spec: Forbidden: only .spec.seedName may be changed by a binding",
            ));
        }
        let deny = self
            .deny
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(text) = deny {
            return Err(forbidden(format!(
                "shoots.{GROUP} {name:?} is forbidden: {text}"
            )));
        }
        live.data["spec"] = wanted;
        let params = PostParams::default();
        let mut bound = api.replace(name, &params, &live).await.map_err(passed_on)?;
        let operation = &bound.data["status"]["lastOperation"];
        if operation["type"] == "Create" && operation["state"] == "Pending" {
            let patch = Patch::Merge(json!({"status": {"lastOperation": null}}));
            let params = PatchParams::default();
            bound = api
                .patch_status(name, &params, &patch)
                .await
                .map_err(passed_on)?;
        }
        serde_json::to_value(bound).map_err(|error| {
            let code = StatusCode::INTERNAL_SERVER_ERROR;
            (code, "InternalError", error.to_string())
        })
    }

    /// Whether whoever sent a request has a role that lets him bind.
    async fn may(&self, namespace: &str, request: &Request<Bytes>) -> bool {
        let header = request.headers().get(AUTHORIZATION);
        let token = header.and_then(|header| header.to_str().ok()?.strip_prefix("Bearer "));
        let Some(token) = token else {
            return false;
        };
        let known = self
            .may
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(token);
        if known {
            return true;
        }
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "group": GROUP, "resource": "shoots", "subresource": "binding", "verb": "update",
                "namespace": namespace,
            }},
        });
        let user = self
            .access
            .with(Credential::Token(token.to_owned()))
            .client();
        let (Ok(user), Ok(review)) = (
            user,
            serde_json::from_value::<SelfSubjectAccessReview>(review),
        ) else {
            return false;
        };
        let api = Api::<SelfSubjectAccessReview>::all(user);
        let answer = api.create(&PostParams::default(), &review).await;
        let may = answer.is_ok_and(|review| review.status.is_some_and(|status| status.allowed));
        if may {
            let mut all = self.may.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert(token.to_owned());
        }
        may
    }
}
