//! etcd of a control plane: plain HTTP on the loopback address, no fsync, since its data is worth nothing after the
//! run.

use std::net::SocketAddr;
use std::path::Path;

use crate::ready::Probe;
use crate::supervisor::Spec;
use crate::tools::{self, Tools};

/// Where it keeps everything, below the run's data.
pub(super) const DATA: &str = "etcd";

/// How to start it, and how to see that it serves.
pub(super) fn spec(
    tools: &Tools,
    directory: &Path,
    client: SocketAddr,
    peer: SocketAddr,
) -> Result<(Spec, Probe), tools::Error> {
    let client_url = format!("http://{client}");
    let peer_url = format!("http://{peer}");
    let spec = Spec::new(tools.path("etcd")?, directory.join("etcd.log"))
        .arg("--name=testkit")
        .arg(format!(
            "--data-dir={}",
            directory.join("data").join(DATA).display()
        ))
        .arg("--unsafe-no-fsync")
        .arg(format!("--listen-client-urls={client_url}"))
        .arg(format!("--advertise-client-urls={client_url}"))
        .arg(format!("--listen-peer-urls={peer_url}"))
        .arg(format!("--initial-advertise-peer-urls={peer_url}"))
        .arg(format!("--initial-cluster=testkit={peer_url}"))
        .arg("--log-level=warn");
    Ok((
        spec,
        Probe::Http {
            address: client,
            path: "/health",
        },
    ))
}
