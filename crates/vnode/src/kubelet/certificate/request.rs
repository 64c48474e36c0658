//! A serving certificate from the cluster's signer of kubelets: requested, approved by ourselves, awaited, and taken.
//!
//! Whoever may approve requests of a signer may have any of its certificates; so the right to is one on that signer
//! alone.

use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestCondition, CertificateSigningRequestSpec,
    CertificateSigningRequestStatus,
};
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::core::ObjectMeta;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use pilotage_runtime::call::{self, CALL_LIMIT, CallError};
use thiserror::Error;
use tokio::time::timeout;

/// Names of requests begin with this.
const PREFIX: &str = "pilotage-kubelet-";
/// What serving certificates of kubelets are for. A key for signatures has no use for key encipherment.
const USAGES: [&str; 2] = ["digital signature", "server auth"];
/// How long a signer may take.
const SIGN_LIMIT: Duration = Duration::from_mins(3);
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

async fn approved(
    requests: &Api<CertificateSigningRequest>,
    signer: &str,
    mut created: CertificateSigningRequest,
) -> Result<String, RequestError> {
    let name = created.metadata.name.clone().unwrap_or_default();
    let status = created.status.get_or_insert_default();
    status.conditions = Some(vec![CertificateSigningRequestCondition {
        type_: "Approved".to_owned(),
        status: "True".to_owned(),
        reason: Some(REASON.to_owned()),
        message: Some("the kubelet of Pilotage's virtual nodes asks for it".to_owned()),
        ..CertificateSigningRequestCondition::default()
    }]);
    let params = PostParams::default();
    let approving = requests.replace_subresource("approval", &name, &params, &created);
    let approved = call::within(CALL_LIMIT, approving).await;
    approved.map_err(calling("approve of our CertificateSigningRequest"))?;
    let decided = await_condition(
        requests.clone(),
        &name,
        |request: Option<&CertificateSigningRequest>| {
            request.is_none_or(|request| outcome(request.status.as_ref()).is_some())
        },
    );
    let silent = |_| RequestError::Silent {
        signer: signer.to_owned(),
    };
    let request = timeout(SIGN_LIMIT, decided).await.map_err(silent)??;
    let decided = request.and_then(|request| outcome(request.status.as_ref()));
    let decided = decided.unwrap_or_else(|| Err("somebody deleted the request".to_owned()));
    decided.map_err(|why| RequestError::Refused {
        signer: signer.to_owned(),
        why,
    })
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
    use serde_json::json;

    use super::*;

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
