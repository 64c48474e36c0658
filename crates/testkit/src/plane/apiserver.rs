//! kube-apiserver of a control plane: its flags and files. RBAC and node authorization, anonymous requests for health
//! checks only, real certificates, the admission plugins of a production cluster.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use super::audit;
use super::certs::{self, Authority};
use crate::access::write_private;
use crate::supervisor::Spec;
use crate::tools::Tools;

/// What the builder chose.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Options {
    /// Lift the limits on requests in flight.
    pub(super) unlimited: bool,
    /// What the test wants in the audit log.
    pub(super) audit: Option<audit::Policy>,
    /// Store objects as text that others can read.
    pub(super) json_storage: bool,
    /// Ask other servers for the API groups that they have registered.
    pub(super) aggregates: bool,
    /// Further flags.
    pub(super) args: Vec<String>,
}

impl Options {
    /// Whether there is an audit log.
    fn audits(&self) -> bool {
        self.audit.is_some() || !self.unlimited
    }
}

/// File names below the run's directory, shared with the controller manager.
pub(super) const CA_CERTIFICATE: &str = "ca.crt";
pub(super) const CA_KEY: &str = "ca.key";
pub(super) const SERVER_CERTIFICATE: &str = "server.crt";
pub(super) const SERVER_KEY: &str = "server.key";
pub(super) const SERVICE_ACCOUNT_KEY: &str = "service-account.key";
const SERVICE_ACCOUNT_PUBLIC: &str = "service-account.pub";

/// Lets anybody ask for health and nothing else.
const AUTHENTICATION: &str = "\
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous:
  enabled: true
  conditions: [{path: /livez}, {path: /readyz}, {path: /healthz}]
";

/// Writes keys, certificates and configuration that the components read.
pub(super) fn write_files(
    directory: &Path,
    authority: &Authority,
    options: &Options,
) -> Result<(), super::Error> {
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        write_private(&path, text).map_err(|source: io::Error| super::Error::File { path, source })
    };
    let kubelet_client =
        authority.client("kube-apiserver-kubelet-client", Some("system:masters"))?;
    let server = authority.server(
        "kube-apiserver",
        &[
            "127.0.0.1",
            "localhost",
            "10.0.0.1",
            "kubernetes",
            "kubernetes.default.svc",
        ],
    )?;
    let (account_key, account_public) = certs::service_account_keys()?;
    write(CA_CERTIFICATE, authority.certificate())?;
    write(CA_KEY, authority.key())?;
    write(SERVER_CERTIFICATE, &server.certificate)?;
    write(SERVER_KEY, &server.key)?;
    write("kubelet-client.crt", &kubelet_client.certificate)?;
    write("kubelet-client.key", &kubelet_client.key)?;
    write(SERVICE_ACCOUNT_KEY, &account_key)?;
    write(SERVICE_ACCOUNT_PUBLIC, &account_public)?;
    write("authentication.yaml", AUTHENTICATION)?;
    if options.aggregates {
        let front_proxy = Authority::new("testkit-front-proxy-ca")?;
        let proxy_client = front_proxy.client("front-proxy-client", None)?;
        write("front-proxy-ca.crt", front_proxy.certificate())?;
        write("front-proxy-client.crt", &proxy_client.certificate)?;
        write("front-proxy-client.key", &proxy_client.key)?;
    }
    if options.audits() {
        write(
            "audit-policy.yaml",
            &audit::Policy::yaml(options.audit.as_ref()),
        )?;
    }
    Ok(())
}

/// How to start it.
pub(super) fn spec(
    tools: &Tools,
    directory: &Path,
    port: SocketAddr,
    etcd: SocketAddr,
    options: &Options,
) -> Result<Spec, super::Error> {
    let file = |name: &str| directory.join(name).display().to_string();
    let mut spec = Spec::new(
        tools.path("kube-apiserver")?,
        directory.join("kube-apiserver.log"),
    )
    .arg(format!("--etcd-servers=http://{etcd}"))
    .arg("--bind-address=127.0.0.1")
    .arg(format!("--secure-port={}", port.port()))
    // The address is that of `kubernetes.default`'s endpoints; on loopback no reconciler takes it.
    .args([
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
    ])
    .arg("--service-cluster-ip-range=10.0.0.0/16")
    .arg(format!("--tls-cert-file={}", file(SERVER_CERTIFICATE)))
    .arg(format!("--tls-private-key-file={}", file(SERVER_KEY)))
    .arg(format!("--client-ca-file={}", file(CA_CERTIFICATE)))
    .arg(format!(
        "--authentication-config={}",
        file("authentication.yaml")
    ))
    .arg("--authorization-mode=Node,RBAC")
    .arg("--service-account-issuer=https://kubernetes.default.svc")
    .arg(format!(
        "--service-account-key-file={}",
        file(SERVICE_ACCOUNT_PUBLIC)
    ))
    .arg(format!(
        "--service-account-signing-key-file={}",
        file(SERVICE_ACCOUNT_KEY)
    ))
    .arg("--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement")
    .arg("--allow-privileged=true")
    .arg(format!(
        "--kubelet-certificate-authority={}",
        file(CA_CERTIFICATE)
    ))
    .arg(format!(
        "--kubelet-client-certificate={}",
        file("kubelet-client.crt")
    ))
    .arg(format!(
        "--kubelet-client-key={}",
        file("kubelet-client.key")
    ))
    // A virtual node's host name resolves nowhere here.
    .arg("--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname");
    // Each of these files is watched.
    if options.aggregates {
        spec = spec
            .arg(format!(
                "--requestheader-client-ca-file={}",
                file("front-proxy-ca.crt")
            ))
            .arg("--requestheader-allowed-names=front-proxy-client")
            .arg("--requestheader-username-headers=X-Remote-User")
            .arg("--requestheader-group-headers=X-Remote-Group")
            .arg("--requestheader-extra-headers-prefix=X-Remote-Extra-")
            .arg(format!(
                "--proxy-client-cert-file={}",
                file("front-proxy-client.crt")
            ))
            .arg(format!(
                "--proxy-client-key-file={}",
                file("front-proxy-client.key")
            ));
    }
    if options.unlimited {
        spec = spec.args([
            "--enable-priority-and-fairness=false",
            "--max-requests-inflight=3000",
            "--max-mutating-requests-inflight=2000",
        ]);
    }
    if options.json_storage {
        spec = spec.arg("--storage-media-type=application/json");
    }
    if options.audits() {
        spec = spec
            .arg(format!("--audit-policy-file={}", file("audit-policy.yaml")))
            .arg(format!("--audit-log-path={}", file(audit::FILE)))
            .args([
                "--audit-log-format=json",
                "--audit-log-mode=blocking",
                "--audit-log-maxsize=0",
            ]);
    }
    Ok(spec.args(&options.args))
}
