//! kwok of a control plane: what its nodes and pods do, as Stage objects. It manages only nodes that carry
//! [`ANNOTATION`], so never a virtual node of Pilotage.
//!
//! - A node becomes Ready, keeps what it was created with, and renews a lease.
//! - A pod bound to it becomes Running and ready at once.
//! - A pod that is not to be restarted for ever (`restartPolicy` other than `Always`, so each pod of a Job) then ends:
//!   Succeeded, or Failed when [`EXIT_CODE`] says a code other than 0, after [`RUN_FOR`].
//! - A pod with `activeDeadlineSeconds` runs so long, and fails then.
//! - A deleted pod goes.
//! - If asked for, there is a kubelet for all of them ([`Kubelet`]): what it runs "in" a pod it runs on this machine.
//!
//! A kwok that was killed and started again takes its nodes over only when their leases have run out, up to 40 s later.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;

use super::certs::Pair;
use crate::access::{Access, write_private};
use crate::supervisor::Spec;
use crate::tools::Tools;

/// Annotation of the nodes that kwok keeps alive.
pub const ANNOTATION: &str = "kwok.x-k8s.io/node";
/// Its value.
pub const ANNOTATION_VALUE: &str = "fake";
/// Annotation of a pod: how long it runs before it completes, as a Go duration (`2s`). Default: not at all.
pub const RUN_FOR: &str = "testkit.pilotage.invalid/run-for";
/// Annotation of a pod: exit code of its containers. Default: `0`.
pub const EXIT_CODE: &str = "testkit.pilotage.invalid/exit-code";
/// What each container wrote before it was restarted, if there is a kubelet.
pub const BEFORE: &str = "before";
/// User name of kwok in audit logs.
pub(super) const USER: &str = "kwok";

/// Renewed every quarter of this by kwok; node-lifecycle waits for longer.
const LEASE_SECONDS: u32 = 40;

const STAGES: &str = include_str!("kwok-stages.yaml");

/// What every pod does when its node's kubelet is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubelet {
    /// Lines that each container has written, and what who attaches reads. Before it was restarted it wrote [`BEFORE`].
    pub lines: Vec<String>,
    /// Where each port leads.
    pub forward: SocketAddr,
}

/// The kubelet as it is started: what it does, where it listens, and what it shows.
pub(super) type Serving<'a> = (&'a Kubelet, SocketAddr, Pair);

/// How to start it. Whether it works is seen by its nodes.
pub(super) fn spec(
    tools: &Tools,
    directory: &Path,
    access: &Access,
    kubelet: Option<Serving<'_>>,
) -> Result<Spec, super::Error> {
    let kubeconfig = directory.join("kwok.kubeconfig");
    access.write(&kubeconfig)?;
    let text = format!(
        "apiVersion: config.kwok.x-k8s.io/v1alpha1\n\
         kind: KwokConfiguration\n\
         options:\n\
         \x20 manageAllNodes: false\n\
         \x20 manageNodesWithAnnotationSelector: {ANNOTATION}={ANNOTATION_VALUE}\n\
         \x20 nodeLeaseDurationSeconds: {LEASE_SECONDS}\n\
         \x20 nodeIP: 127.0.0.1\n\
         \x20 cidr: 10.128.0.0/16\n\
         \x20 enableDebuggingHandlers: true\n\
         \x20 podPlayStageParallelism: 16\n\
         \x20 nodePlayStageParallelism: 8\n\
         \x20 nodeLeaseParallelism: 8\n\
         ---\n{STAGES}"
    );
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        let written = write_private(&path, text).map(|()| path.display().to_string());
        written.map_err(|source| super::Error::File { path, source })
    };
    let mut text = text;
    let mut flags = Vec::new();
    if let Some((kubelet, address, pair)) = kubelet {
        let logs = write("kwok-container.log", &log(&kubelet.lines))?;
        let before = write("kwok-container-before.log", &log(&[BEFORE.to_owned()]))?;
        text.push_str(&kubelet.objects(&logs, &before));
        flags = vec![
            format!("--server-address={address}"),
            format!("--node-port={}", address.port()),
            format!("--tls-cert-file={}", write("kwok.crt", &pair.certificate)?),
            format!("--tls-private-key-file={}", write("kwok.key", &pair.key)?),
        ];
    }
    let configuration = write("kwok.yaml", &text)?;
    Ok(Spec::new(tools.path("kwok")?, directory.join("kwok.log"))
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--config={configuration}"))
        .args(flags)
        // It would merge a user's own ~/.kwok/kwok.yaml.
        .env("KWOK_WORKDIR", directory.join("data/kwok"))
        .env("HOME", directory.join("data")))
}

/// The log of a container, as container runtimes write it.
fn log(lines: &[String]) -> String {
    let mut log = String::new();
    for (number, line) in lines.iter().enumerate() {
        // A String takes whatever is written to it.
        let _ = writeln!(
            log,
            "2026-01-01T00:00:{:02}.000000000Z stdout F {line}",
            number % 60
        );
    }
    log
}

impl Kubelet {
    /// What it does, for all pods.
    fn objects(&self, logs: &str, before: &str) -> String {
        let (address, port) = (self.forward.ip(), self.forward.port());
        let object = |kind: &str, spec: String| {
            format!(
                "---\napiVersion: kwok.x-k8s.io/v1alpha1\nkind: {kind}\nmetadata: {{name: all}}\nspec: {spec}\n"
            )
        };
        [
            object(
                "ClusterLogs",
                format!("{{logs: [{{logsFile: {logs:?}, previousLogsFile: {before:?}}}]}}"),
            ),
            object(
                "ClusterAttach",
                format!("{{attaches: [{{logsFile: {logs:?}}}]}}"),
            ),
            object("ClusterExec", "{execs: [{local: {workDir: /}}]}".to_owned()),
            object(
                "ClusterPortForward",
                format!("{{forwards: [{{target: {{address: {address}, port: {port}}}}}]}}"),
            ),
        ]
        .concat()
    }
}
