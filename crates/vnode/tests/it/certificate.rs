//! The kubelet server's certificate, from a signer that isn't Kubernetes' own and by somebody else's approval; and the
//! next one, at the same port, before the first has ended.

use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Api, Client, Config};
use pilotage_clusters::{Options, Registry, Watch, WatchConfig, cluster_uid};
use pilotage_runtime::rbac::{self, Account};
use pilotage_runtime::throttle::Unthrottled;
use pilotage_testkit::{ControlPlane, apply, list_until};
use pilotage_vnode::KubeletArgs;
use pilotage_vnode::kubelet::{Kubelet, KubeletMetrics, KubeletWith};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm,
};
use serde_json::json;
use time::OffsetDateTime;
use tokio::task::JoinHandle;
use tokio::time::{interval, timeout};
use tokio_util::sync::CancellationToken;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;

use crate::bench::{HOME, LIMIT};

const SIGNER: &str = "example.com/kubelets";
const ADDRESS: &str = "127.0.0.1";
/// So long each certificate is good; the next one is due after two thirds, and half a minute at least.
const LIFE: Duration = Duration::from_mins(1);
/// Between two looks at what is served.
const PERIOD: Duration = Duration::from_millis(200);

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyCertSign,
    ];
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// The key that a request is for.
struct Asked(Vec<u8>);

impl PublicKeyData for Asked {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

/// A certificate for this request, PEM.
fn signed(request: &[u8], authority: &Authority) -> String {
    let pem = Pem::iter_from_buffer(request).next().unwrap().unwrap();
    let (_, request) = X509CertificationRequest::from_der(&pem.contents).unwrap();
    let key = &request.certification_request_info.subject_pki;
    let key = Asked(key.subject_public_key.data.to_vec());
    let mut params = CertificateParams::new([ADDRESS.to_owned()]).unwrap();
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let now = OffsetDateTime::now_utc();
    (params.not_before, params.not_after) = (now - Duration::from_secs(5), now + LIFE);
    params.signed_by(&key, authority).unwrap().pem()
}

/// Waits for the next request, approves of it and signs it, as the operator of that signer does.
async fn sign(plane: &ControlPlane, authority: &Authority) {
    let requests: Api<CertificateSigningRequest> = Api::all(plane.admin());
    let waits = |request: &CertificateSigningRequest| {
        let status = request.status.as_ref();
        request.spec.signer_name == SIGNER && status.is_none_or(|it| it.certificate.is_none())
    };
    let all = watcher::Config::default();
    let asked = list_until(&requests, all, |all| all.values().any(waits), LIMIT).await;
    let asked = asked.unwrap().into_iter().find(waits).unwrap();
    let name = asked.metadata.name.unwrap();
    plane
        .kubectl(&["certificate", "approve", &name])
        .await
        .unwrap();
    let chain = ByteString(signed(&asked.spec.request.0, authority).into_bytes());
    let patch = Patch::Merge(json!({ "status": { "certificate": chain } }));
    requests
        .patch_status(&name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Whether what is served now is of this authority, or of any: then it is told who asks.
async fn is_served(port: u16, authority: Option<&Authority>) -> bool {
    let mut config = Config::new(format!("https://{ADDRESS}:{port}").parse().unwrap());
    config.root_cert = authority.map(|it| vec![it.der().to_vec()]);
    config.accept_invalid_certs = authority.is_none();
    let client = Client::try_from(config).unwrap();
    let request = http::Request::get("/healthz").body(Vec::new()).unwrap();
    let answer = client.request_text(request).await;
    matches!(answer, Err(kube::Error::Api(status)) if status.code == 401)
}

async fn served(port: u16, authority: Option<&Authority>) {
    let mut ticks = interval(PERIOD);
    let looking = async {
        while !is_served(port, authority).await {
            ticks.tick().await;
        }
    };
    timeout(LIMIT, looking).await.unwrap();
}

/// A kubelet server that runs under its roles, which approve of requests to the default signer alone.
struct Running {
    port: u16,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    async fn start(plane: &ControlPlane, self_signed: bool) -> Self {
        pilotage_runtime::client::install_crypto_provider();
        plane.service_account(HOME, "kubelet").await.unwrap();
        let rules = pilotage_clusters::rbac::RULES
            .iter()
            .chain(pilotage_vnode::rbac::RULES)
            .chain(pilotage_vnode::kubelet::rbac::RULES)
            .chain(pilotage_clusters::identity::RULES);
        let account = Account {
            namespace: HOME,
            name: "kubelet",
        };
        let roles = rbac::render("kubelet", account, rules);
        apply::apply_values(&plane.admin(), roles, HOME)
            .await
            .unwrap();
        let client = plane.service_account_client(HOME, "kubelet").await.unwrap();
        let args = KubeletArgs {
            kubelet_address: Some(ADDRESS.parse().unwrap()),
            kubelet_listen: ([127, 0, 0, 1], 0).into(),
            kubelet_signer: SIGNER.to_owned(),
            kubelet_self_signed: self_signed,
            kubelet_streams: 2,
        };
        let kubelet = Kubelet::bind(&args).await.unwrap().unwrap();
        let port = kubelet.endpoint().port;
        let stop = CancellationToken::new();
        let with = KubeletWith {
            cluster: cluster_uid(&client).await.unwrap(),
            registry: Registry::start(&client, Options::new("test"), &stop),
            proxies: Watch::of_client(client.clone(), WatchConfig::all(), &stop),
            client: Unthrottled(client),
            metrics: KubeletMetrics::default(),
        };
        let task = tokio::spawn(kubelet.run(with, stop.clone()));
        Self { port, stop, task }
    }

    async fn end(self) {
        self.stop.cancel();
        timeout(LIMIT, self.task).await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_signer_and_somebody_elses_approval_give_a_certificate_and_the_next_one() {
    let plane = ControlPlane::builder("certificate").start().await.unwrap();
    let running = Running::start(&plane, false).await;
    let (first, second) = (authority(), authority());
    let (port, first, second) = (running.port, &first, &second);
    assert!(!is_served(port, None).await, "nothing is signed yet");
    sign(&plane, first).await;
    served(port, Some(first)).await;
    sign(&plane, second).await;
    served(port, Some(second)).await;
    assert!(!is_served(port, Some(first)).await, "it shows the newer");
    running.end().await;
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_nobody_else_signs_is_asked_of_nobody() {
    let plane = ControlPlane::builder("self-signed").start().await.unwrap();
    let running = Running::start(&plane, true).await;
    served(running.port, None).await;
    let requests: Api<CertificateSigningRequest> = Api::all(plane.admin());
    let asked = requests.list(&ListParams::default()).await.unwrap().items;
    assert!(asked.is_empty(), "{asked:?}");
    running.end().await;
    plane.stop().await;
}
