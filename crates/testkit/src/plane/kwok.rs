//! kwok of a control plane: what its nodes and pods do, as Stage objects. It manages only nodes that carry
//! [`ANNOTATION`], so never a virtual node of Pilotage.
//!
//! - A node becomes Ready, keeps what it was created with, and renews a lease.
//! - A pod bound to it becomes Running and ready at once.
//! - A pod that is not to be restarted for ever (`restartPolicy` other than `Always`, so each pod of a Job) then ends:
//!   Succeeded, or Failed when [`EXIT_CODE`] says a code other than 0, after [`RUN_FOR`].
//! - A deleted pod goes.
//!
//! A kwok that was killed and started again takes its nodes over only when their leases have run out, up to 40 s later.

use std::path::Path;

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
/// User name of kwok in audit logs.
pub(super) const USER: &str = "kwok";

/// Renewed every quarter of this by kwok; node-lifecycle waits for longer.
const LEASE_SECONDS: u32 = 40;

const STAGES: &str = include_str!("kwok-stages.yaml");

/// How to start it. Whether it works is seen by its nodes.
pub(super) fn spec(tools: &Tools, directory: &Path, access: &Access) -> Result<Spec, super::Error> {
    let kubeconfig = directory.join("kwok.kubeconfig");
    access.write(&kubeconfig)?;
    let configuration = directory.join("kwok.yaml");
    let text = format!(
        "apiVersion: config.kwok.x-k8s.io/v1alpha1\n\
         kind: KwokConfiguration\n\
         options:\n\
         \x20 manageAllNodes: false\n\
         \x20 manageNodesWithAnnotationSelector: {ANNOTATION}={ANNOTATION_VALUE}\n\
         \x20 nodeLeaseDurationSeconds: {LEASE_SECONDS}\n\
         \x20 nodeIP: 127.0.0.1\n\
         \x20 cidr: 10.128.0.0/16\n\
         \x20 podPlayStageParallelism: 16\n\
         \x20 nodePlayStageParallelism: 8\n\
         \x20 nodeLeaseParallelism: 8\n\
         ---\n{STAGES}"
    );
    write_private(&configuration, &text).map_err(|source| super::Error::File {
        path: configuration.clone(),
        source,
    })?;
    Ok(Spec::new(tools.path("kwok")?, directory.join("kwok.log"))
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--config={}", configuration.display()))
        // It would merge a user's own ~/.kwok/kwok.yaml.
        .env("KWOK_WORKDIR", directory.join("data/kwok"))
        .env("HOME", directory.join("data")))
}
