//! kube-controller-manager and kube-scheduler of a control plane: their flags. Both serve health and metrics with the
//! plane's certificate.

use std::net::SocketAddr;
use std::path::Path;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client};

use super::apiserver::{
    CA_CERTIFICATE, CA_KEY, SERVER_CERTIFICATE, SERVER_KEY, SERVICE_ACCOUNT_KEY,
};
use crate::access::{Access, write_private};
use crate::namespace;
use crate::ready::Probe;
use crate::supervisor::Spec;
use crate::tools::Tools;
use crate::wait;

/// User name of the controller manager.
pub(super) const USER: &str = "system:kube-controller-manager";
/// User name of the scheduler.
pub(super) const SCHEDULER_USER: &str = "system:kube-scheduler";

/// How to start the controller manager: every controller runs with its own service account, as in a real cluster, or
/// RBAC would forbid them their work.
pub(super) fn spec(
    tools: &Tools,
    directory: &Path,
    port: SocketAddr,
    access: &Access,
    args: &[String],
) -> Result<(Spec, Probe), super::Error> {
    let file = |name: &str| directory.join(name).display().to_string();
    let kubeconfig = directory.join("kube-controller-manager.kubeconfig");
    access.write(&kubeconfig)?;
    let kubeconfig = kubeconfig.display();
    let spec = Spec::new(
        tools.path("kube-controller-manager")?,
        directory.join("kube-controller-manager.log"),
    )
    .arg(format!("--kubeconfig={kubeconfig}"))
    .arg(format!("--authentication-kubeconfig={kubeconfig}"))
    .arg(format!("--authorization-kubeconfig={kubeconfig}"))
    .args(serving(directory, port))
    .arg("--use-service-account-credentials=true")
    .arg(format!(
        "--service-account-private-key-file={}",
        file(SERVICE_ACCOUNT_KEY)
    ))
    .arg(format!("--root-ca-file={}", file(CA_CERTIFICATE)))
    // Of all signers the one that is used: each watches its files, and a user has 128 inotify instances.
    .arg(format!(
        "--cluster-signing-kubelet-serving-cert-file={}",
        file(CA_CERTIFICATE)
    ))
    .arg(format!(
        "--cluster-signing-kubelet-serving-key-file={}",
        file(CA_KEY)
    ))
    .arg("--leader-elect=false")
    // The default of 20 requests a second is what a test of 100 pods would wait for.
    .args(["--kube-api-qps=300", "--kube-api-burst=600"])
    .args(["--node-monitor-period=1s", "--pvclaimbinder-sync-period=2s"])
    .args(args);
    Ok((spec, probe(access, port)))
}

/// How to start the stock scheduler, with the limits of its client lifted: they cost a factor of ten in throughput.
pub(super) fn scheduler_spec(
    tools: &Tools,
    directory: &Path,
    port: SocketAddr,
    access: &Access,
    args: &[String],
) -> Result<(Spec, Probe), super::Error> {
    let kubeconfig = directory.join("kube-scheduler.kubeconfig");
    access.write(&kubeconfig)?;
    let kubeconfig = kubeconfig.display();
    let configuration = directory.join("kube-scheduler.yaml");
    let text = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\n\
         kind: KubeSchedulerConfiguration\n\
         leaderElection: {{leaderElect: false}}\n\
         clientConnection: {{kubeconfig: {kubeconfig}, qps: 5000, burst: 10000}}\n"
    );
    write_private(&configuration, &text).map_err(|source| super::Error::File {
        path: configuration.clone(),
        source,
    })?;
    let spec = Spec::new(
        tools.path("kube-scheduler")?,
        directory.join("kube-scheduler.log"),
    )
    .arg(format!("--config={}", configuration.display()))
    .arg(format!("--authentication-kubeconfig={kubeconfig}"))
    .arg(format!("--authorization-kubeconfig={kubeconfig}"))
    .arg("--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics")
    .args(serving(directory, port))
    .args(args);
    Ok((spec, probe(access, port)))
}

fn serving(directory: &Path, port: SocketAddr) -> [String; 4] {
    [
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", port.port()),
        format!(
            "--tls-cert-file={}",
            directory.join(SERVER_CERTIFICATE).display()
        ),
        format!(
            "--tls-private-key-file={}",
            directory.join(SERVER_KEY).display()
        ),
    ]
}

fn probe(access: &Access, port: SocketAddr) -> Probe {
    let access = access.via(&format!("https://{port}"));
    Probe::Https {
        access: Box::new(access),
        path: "/healthz",
    }
}

/// Waits for the service account of `default`. The controller manager makes it where there is one; seeing it is the
/// proof that its controllers work.
pub(super) async fn default_account(
    client: &Client,
    has_manager: bool,
) -> Result<(), super::Error> {
    if !has_manager {
        for name in ["default", "kube-system"] {
            namespace::default_account(client, name).await?;
        }
        return Ok(());
    }
    let api: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    wait::wait_for(&api, "default", |_| true, wait::LIMIT)
        .await
        .map(drop)
        .map_err(super::Error::wait(
            "the controller manager made no service account",
        ))
}
