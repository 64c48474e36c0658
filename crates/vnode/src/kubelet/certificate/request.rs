//! A serving certificate from the cluster's signer of kubelets: requested, approved, awaited, and taken.
//!
//! Whoever may approve requests of a signer may have any of its certificates; so the right to is one on that signer
//! alone. Operators may keep it, and approve of our requests by a means of their own, before or after we try to.

use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
};
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use kube::core::ObjectMeta;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use pilotage_runtime::call::{self, CALL_LIMIT, CallError, Failure};
use thiserror::Error;
use tokio::time::timeout;

/// Names of requests begin with this.
const PREFIX: &str = "pilotage-kubelet-";
/// What serving certificates of kubelets are for. A key for signatures has no use for key encipherment.
const USAGES: [&str; 2] = ["digital signature", "server auth"];
/// How long a signer may take.
const SIGN_LIMIT: Duration = Duration::from_mins(3);
/// How long it may take where somebody else has to approve: as long as kubelets wait.
const APPROVE_LIMIT: Duration = Duration::from_mins(15);
/// So often others may write a request while we approve of it.
const TRIES: usize = 5;
/// Why we approve of it.
const REASON: &str = "PilotageKubelet";

/// Why nobody signed.
#[derive(Debug, Error)]
pub(super) enum RequestError {
    #[error("failed to {what}: {source}")]
    Call {
        what: &'static str,
        #[source]
        source: CallError,
    },
    #[error("failed to wait for the certificate: {0}")]
    Wait(#[from] kube::runtime::wait::Error),
    #[error(
        "signer {signer} has signed nothing within {} s: is there one? It is chosen by --kubelet-signer, and \
         --kubelet-self-signed needs none",
        SIGN_LIMIT.as_secs()
    )]
    Silent { signer: String },
    #[error(
        "there is no certificate of signer {signer} after {} s: Pilotage may not approve of its request, and nobody \
         else did ({why})",
        APPROVE_LIMIT.as_secs()
    )]
    Unapproved { signer: String, why: String },
    #[error("signer {signer} refuses: {why}")]
    Refused { signer: String, why: String },
}

fn calling(what: &'static str) -> impl FnOnce(CallError) -> RequestError {
    move |source| RequestError::Call { what, source }
}

/// The certificate, PEM, for this request, PEM.
pub(super) async fn signed(
    client: &Client,
    signer: &str,
    request: &str,
) -> Result<String, RequestError> {
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    let asked = object(signer, request);
    let created = call::within(CALL_LIMIT, requests.create(&PostParams::default(), &asked)).await;
    let created = created.map_err(calling("create a CertificateSigningRequest"))?;
    let name = created.metadata.name.clone().unwrap_or_default();
    let uid = created.metadata.uid.clone();
    let outcome = approved(&requests, signer, created).await;
    let params = DeleteParams::default().preconditions(Preconditions {
        uid,
        ..Preconditions::default()
    });
    // What stays, the cluster cleans up by itself.
    if let Err(error) = call::within(CALL_LIMIT, requests.delete(&name, &params)).await {
        tracing::debug!(name, %error, "a CertificateSigningRequest of ours stays");
    }
    outcome
}

/// Who approves of a request.
enum Approval {
    /// We did, or somebody has decided before.
    Done,
    /// Somebody else has to: what the API server says to us.
    Others(String),
}

async fn approved(
    requests: &Api<CertificateSigningRequest>,
    signer: &str,
    created: CertificateSigningRequest,
) -> Result<String, RequestError> {
    let name = created.metadata.name.clone().unwrap_or_default();
    let approval = approve(requests, &name, created).await?;
    let limit = match &approval {
        Approval::Done => SIGN_LIMIT,
        Approval::Others(why) => {
            tracing::warn!(
                name,
                signer,
                why,
                "somebody else has to approve of this CertificateSigningRequest: kubectl certificate approve NAME"
            );
            APPROVE_LIMIT
        }
    };
    let decided = await_condition(
        requests.clone(),
        &name,
        |request: Option<&CertificateSigningRequest>| {
            request.is_none_or(|request| outcome(request.status.as_ref()).is_some())
        },
    );
    let signer = signer.to_owned();
    let Ok(decided) = timeout(limit, decided).await else {
        return Err(match approval {
            Approval::Done => RequestError::Silent { signer },
            Approval::Others(why) => RequestError::Unapproved { signer, why },
        });
    };
    let decided = decided?.and_then(|request| outcome(request.status.as_ref()));
    let decided = decided.unwrap_or_else(|| Err("somebody deleted the request".to_owned()));
    decided.map_err(|why| RequestError::Refused { signer, why })
}

/// Approves of a request, unless somebody has decided about it meanwhile.
async fn approve(
    requests: &Api<CertificateSigningRequest>,
    name: &str,
    mut request: CertificateSigningRequest,
) -> Result<Approval, RequestError> {
    let mut tries = 0_usize;
    loop {
        if is_decided(request.status.as_ref()) {
            return Ok(Approval::Done);
        }
        let status = request.status.get_or_insert_default();
        status.conditions = Some(vec![CertificateSigningRequestCondition {
            type_: "Approved".to_owned(),
            status: "True".to_owned(),
            reason: Some(REASON.to_owned()),
            message: Some("the kubelet of Pilotage's virtual nodes asks for it".to_owned()),
            ..CertificateSigningRequestCondition::default()
        }]);
        let params = PostParams::default();
        let approving = requests.replace_subresource("approval", name, &params, &request);
        let Err(source) = call::within(CALL_LIMIT, approving).await else {
            return Ok(Approval::Done);
        };
        tries = tries.saturating_add(1);
        if source.kind() == Failure::Forbidden {
            return Ok(Approval::Others(source.message()));
        }
        let written = source.kind() == Failure::Conflict || source.is_open();
        if !written || tries >= TRIES {
            return Err(calling("approve of our CertificateSigningRequest")(source));
        }
        match found(requests, name).await? {
            Some(newer) => request = newer,
            // Who waits for it is told.
            None => return Ok(Approval::Done),
        }
    }
}

/// The request as it is now. Our rights are those of a list.
async fn found(
    requests: &Api<CertificateSigningRequest>,
    name: &str,
) -> Result<Option<CertificateSigningRequest>, RequestError> {
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    let found = call::within(CALL_LIMIT, requests.list(&params)).await;
    let found = found.map_err(calling("read our CertificateSigningRequest"))?;
    let mut found = found.items.into_iter();
    Ok(found.find(|it| it.metadata.name.as_deref() == Some(name)))
}

/// Whether somebody has approved or denied, or even signed.
fn is_decided(status: Option<&CertificateSigningRequestStatus>) -> bool {
    let conditions = status.and_then(|it| it.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    conditions.any(|it| it.type_ == "Approved") || outcome(status).is_some()
}

fn object(signer: &str, request: &str) -> CertificateSigningRequest {
    CertificateSigningRequest {
        metadata: ObjectMeta {
            generate_name: Some(PREFIX.to_owned()),
            ..ObjectMeta::default()
        },
        spec: CertificateSigningRequestSpec {
            request: ByteString(request.as_bytes().to_vec()),
            signer_name: signer.to_owned(),
            usages: Some(USAGES.map(str::to_owned).to_vec()),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    }
}

/// What became of a request, once that is known: the certificate, or why there is none.
fn outcome(status: Option<&CertificateSigningRequestStatus>) -> Option<Result<String, String>> {
    let status = status?;
    if let Some(ByteString(certificate)) = &status.certificate
        && !certificate.is_empty()
    {
        let text = String::from_utf8(certificate.clone());
        return Some(text.map_err(|_| "its certificate is no text".to_owned()));
    }
    let mut conditions = status.conditions.iter().flatten();
    let no = conditions.find(|it| matches!(&*it.type_, "Denied" | "Failed"))?;
    let message = no.message.as_deref().unwrap_or_default();
    Some(Err(format!("{}: {message}", no.type_)))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use http::{Method, Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};
    use tower::service_fn;

    use super::*;

    const SIGNER: &str = "example.com/kubelets";

    fn shown(status: &Value) -> Value {
        json!({
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": { "name": "pilotage-kubelet-x", "uid": "u", "resourceVersion": "1" },
            "spec": { "request": "", "signerName": SIGNER },
            "status": status,
        })
    }

    fn failure(code: u16) -> Value {
        let reason = match code {
            403 => "Forbidden",
            409 => "Conflict",
            _ => "InternalError",
        };
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "no luck", "reason": reason, "code": code,
        })
    }

    /// An API server where others have a say: its answer to each approval of ours, and the request's status in each
    /// list, of which the last one stays. It remembers what it was asked.
    fn server(approvals: &[u16], statuses: &[Value]) -> (Client, Arc<Mutex<Vec<&'static str>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let script = (approvals.to_vec(), statuses.to_vec());
        let script = (VecDeque::from(script.0), VecDeque::from(script.1));
        let (heard, script) = (asked.clone(), Arc::new(Mutex::new(script)));
        let service = service_fn(move |request: Request<Body>| {
            let (heard, script) = (heard.clone(), script.clone());
            async move {
                let mut script = script.lock().unwrap();
                let (approvals, statuses) = &mut *script;
                let (what, code, answer) = match request.into_parts().0.method {
                    Method::POST => ("create", 201, shown(&json!({}))),
                    Method::PUT => match approvals.pop_front().unwrap() {
                        200 => ("approve", 200, shown(&json!({}))),
                        code => ("approve", code, failure(code)),
                    },
                    Method::GET => {
                        let last = statuses.len() == 1;
                        let status = statuses.front().cloned().unwrap();
                        if !last {
                            statuses.pop_front();
                        }
                        let metadata = json!({ "resourceVersion": "1" });
                        let list = json!({ "metadata": metadata, "items": [shown(&status)] });
                        ("read", 200, list)
                    }
                    _ => {
                        let status = json!({
                            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                        });
                        ("delete", 200, status)
                    }
                };
                heard.lock().unwrap().push(what);
                let answer = Body::from(answer.to_string().into_bytes());
                let answer = Response::builder().status(code).body(answer);
                answer.map_err(|error| Box::new(error) as tower::BoxError)
            }
        });
        (Client::new(service, "default"), asked)
    }

    #[tokio::test]
    async fn whoever_approves_the_certificate_is_taken_and_no_request_is_deleted_before() {
        let approved = json!({ "conditions": [{ "type": "Approved", "status": "True" }] });
        let signed = json!({ "certificate": "cGVt" });
        let denied = json!({ "conditions": [{ "type": "Denied", "status": "True" }] });
        let undecided = json!({});
        let pem = Ok("pem".to_owned());
        let refused = Err(format!("signer {SIGNER} refuses: Denied: "));
        let table = [
            ("nobody else", vec![200], vec![&signed], &pem),
            (
                "somebody was faster",
                vec![409],
                vec![&approved, &signed],
                &pem,
            ),
            ("and so was the signer", vec![409], vec![&signed], &pem),
            (
                "somebody only labelled it",
                vec![409, 200],
                vec![&undecided, &signed],
                &pem,
            ),
            (
                "an answer is lost",
                vec![500],
                vec![&approved, &signed],
                &pem,
            ),
            ("we may not", vec![403], vec![&signed], &pem),
            ("somebody denied it", vec![409], vec![&denied], &refused),
        ];
        for (case, approvals, statuses, want) in table {
            let statuses: Vec<_> = statuses.into_iter().cloned().collect();
            let (client, asked) = server(&approvals, &statuses);
            let outcome = signed_by(&client).await;
            assert_eq!(&outcome, want, "{case}");
            let asked = asked.lock().unwrap();
            let count = |what: &str| asked.iter().filter(|it| **it == what).count();
            assert_eq!(count("approve"), approvals.len(), "{case}: {asked:?}");
            assert_eq!(
                (count("create"), count("delete")),
                (1, 1),
                "{case}: {asked:?}"
            );
            assert_eq!(asked.last(), Some(&"delete"), "{case}: {asked:?}");
        }
    }

    async fn signed_by(client: &Client) -> Result<String, String> {
        let signed = signed(client, SIGNER, "request").await;
        signed.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_request_that_others_write_again_and_again_is_given_up() {
        let (client, asked) = server(&[409; TRIES], &[json!({})]);
        let error = signed_by(&client).await.unwrap_err();
        assert!(
            error.contains("approve of our") && error.contains("no luck"),
            "{error}"
        );
        assert_eq!(asked.lock().unwrap().last(), Some(&"delete"));
    }

    #[test]
    fn a_request_has_an_outcome_when_somebody_has_decided() {
        let of =
            |status: serde_json::Value| outcome(Some(&serde_json::from_value(status).unwrap()));
        assert_eq!(outcome(None), None);
        assert_eq!(
            of(json!({ "conditions": [{ "type": "Approved", "status": "True" }] })),
            None
        );
        assert_eq!(of(json!({ "certificate": "" })), None);
        assert_eq!(of(json!({ "certificate": "cGVt" })), Some(Ok("pem".into())));
        let failed = json!({ "type": "Failed", "status": "True", "message": "no SAN" });
        assert_eq!(
            of(json!({ "conditions": [failed] })),
            Some(Err("Failed: no SAN".into()))
        );
    }

    #[test]
    fn what_is_asked_for_is_what_the_signer_of_kubelets_gives() {
        let spec = object("kubernetes.io/kubelet-serving", "pem").spec;
        assert_eq!(spec.usages.unwrap(), USAGES);
        assert_eq!(spec.signer_name, "kubernetes.io/kubelet-serving");
    }
}
