//! The real metrics-server beside a control plane, with the account, the rights and the arguments of its own manifests:
//! it asks the kubelets of all nodes, and the API server asks it for `metrics.k8s.io`.

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use serde_json::{Value, json};

use super::{ControlPlane, Error};
use crate::access::write_private;
use crate::ports::Port;
use crate::process::Process;
use crate::ready::Probe;
use crate::supervisor::Spec;
use crate::wait;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "metrics-server";
/// What it serves.
const API_SERVICE: &str = "v1beta1.metrics.k8s.io";
const GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "v1beta1";
/// Account and rights.
const RIGHTS: &str = include_str!("metrics-server.yaml");

/// A metrics-server that runs. Dropping it kills it; the plane's API server goes on looking for it then.
#[derive(Debug)]
pub struct MetricsServer {
    process: Process,
    // It stays ours as long as the process.
    _port: Port,
}

impl MetricsServer {
    /// Starts it beside a plane that [aggregates](super::Builder::aggregates). When this returns, the API server serves
    /// `metrics.k8s.io`; there are figures when it has asked kubelets.
    pub async fn start(plane: &ControlPlane) -> Result<Self, Error> {
        plane.apply_yaml(RIGHTS).await?;
        let port = Port::reserve().map_err(Error::Prepare)?;
        let process = Process::start(NAME, spec(plane, &port).await?, probe(plane, &port)).await?;
        process.ready(wait::LIMIT).await?;
        for object in registration(plane, &port) {
            plane.apply_yaml(&object.to_string()).await?;
        }
        let services: Api<APIService> = Api::all(plane.admin());
        let waited = wait::wait_for(&services, API_SERVICE, is_available, wait::LIMIT).await;
        waited.map_err(Error::wait("the API server doesn't reach metrics-server"))?;
        Ok(Self {
            process,
            _port: port,
        })
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

/// Stands for metrics-server where nodes run nothing: its API as a definition, in which tests write what pods use.
pub fn stand_in() -> Value {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "pods.metrics.k8s.io",
            "annotations": { "api-approved.kubernetes.io": "unapproved, for tests" },
        },
        "spec": {
            "group": GROUP,
            "names": { "kind": "PodMetrics", "listKind": "PodMetricsList", "plural": "pods", "singular": "podmetrics" },
            "scope": "Namespaced",
            "versions": [{
                "name": VERSION, "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}

async fn spec(plane: &ControlPlane, port: &Port) -> Result<Spec, Error> {
    let file = |name: &str| plane.directory().join(format!("{NAME}.{name}"));
    let kubeconfig = file("kubeconfig");
    let access = plane.service_account_access(NAMESPACE, NAME).await?;
    access.write(&kubeconfig)?;
    let pair = plane
        .authority()
        .server(NAME, &["127.0.0.1", &format!("{NAME}.{NAMESPACE}.svc")])?;
    let (certificate, key) = (file("crt"), file("key"));
    for (path, text) in [(&certificate, &pair.certificate), (&key, &pair.key)] {
        write_private(path, text).map_err(|source| Error::File {
            path: path.clone(),
            source,
        })?;
    }
    let kubeconfig = kubeconfig.display();
    let spec = Spec::new(plane.tools().path(NAME)?, file("log"))
        .arg(format!("--kubeconfig={kubeconfig}"))
        .arg(format!("--authentication-kubeconfig={kubeconfig}"))
        .arg(format!("--authorization-kubeconfig={kubeconfig}"))
        .arg("--bind-address=127.0.0.1")
        .arg(format!("--secure-port={}", port.number()))
        .arg(format!("--tls-cert-file={}", certificate.display()))
        .arg(format!("--tls-private-key-file={}", key.display()))
        // From here on as in its manifests. Kubelets have to show a certificate of the cluster's own authority.
        .arg("--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname")
        .arg("--kubelet-use-node-status-port")
        .arg("--metric-resolution=15s");
    Ok(spec)
}

/// Whether it runs; it says that it is ready only when it has figures.
fn probe(plane: &ControlPlane, port: &Port) -> Probe {
    let access = plane
        .admin_access()
        .via(&format!("https://{}", port.address()));
    Probe::Https {
        access: Box::new(access),
        path: "/livez",
    }
}

/// What tells the API server of it. There is no network for Services here, so this one is a name of the loopback
/// address.
fn registration(plane: &ControlPlane, port: &Port) -> [Value; 2] {
    [
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": NAME, "namespace": NAMESPACE },
            "spec": { "type": "ExternalName", "externalName": "localhost" },
        }),
        json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": { "name": API_SERVICE },
            "spec": {
                "group": GROUP, "version": VERSION, "groupPriorityMinimum": 100, "versionPriority": 100,
                "service": { "name": NAME, "namespace": NAMESPACE, "port": port.number() },
                "caBundle": plane.admin_access().ca_bundle(),
            },
        }),
    ]
}

fn is_available(service: &APIService) -> bool {
    let status = service.status.as_ref();
    let mut conditions = status
        .and_then(|it| it.conditions.as_ref())
        .into_iter()
        .flatten();
    conditions.any(|it| it.type_ == "Available" && it.status == "True")
}
