//! Flags of the virtual nodes.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use pilotage_model::virtual_node::KubeletAddress;
use pilotage_runtime::args::parse_period;

/// How virtual nodes show that they are alive.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Virtual nodes")]
pub struct NodeArgs {
    /// How often each virtual node's Lease is renewed.
    ///
    /// It is the heartbeat of this process, not of the target: a lost target makes its node not ready at
    /// once, while leases go on.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_period)]
    pub node_heartbeat_period: Duration,

    /// Duration written into each virtual node's Lease, in whole seconds. What counts is the grace period of the
    /// node-lifecycle controller (--node-monitor-grace-period).
    #[arg(long, value_name = "DURATION", default_value = "40s", value_parser = parse_period)]
    pub node_lease_duration: Duration,
}

impl Default for NodeArgs {
    /// The defaults of the flags, which are a kubelet's.
    fn default() -> Self {
        Self {
            node_heartbeat_period: Duration::from_secs(10),
            node_lease_duration: Duration::from_secs(40),
        }
    }
}

/// Who answers for the kubelets of virtual nodes.
#[allow(clippy::doc_markdown, reason = "these are help texts")]
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Kubelet server of virtual nodes")]
pub struct KubeletArgs {
    /// Answer "kubectl logs", "exec", "attach", "port-forward" and "cp" of pods on virtual nodes, and tell
    /// metrics-server what they use, from their targets: at this address, which API servers reach and virtual nodes
    /// show. In a pod, its IP. Without it nobody answers.
    ///
    /// The roles come from "pilotage rbac --kubelet"; a target lets it in by the rights Logs, Exec, Attach, PortForward
    /// and Metrics of its Source.
    #[arg(long, value_name = "IP|HOST")]
    pub kubelet_address: Option<KubeletAddress>,

    /// Where to listen for that; `[::]` is all addresses, of IPv4 too. Virtual nodes show the port.
    #[arg(long, value_name = "ADDR:PORT", default_value = "[::]:10250")]
    pub kubelet_listen: SocketAddr,

    /// Signer of the serving certificate, which is requested by a CertificateSigningRequest. Another one than the
    /// default needs a right of its own: "approve" on that signer. Without it the request waits for somebody else's
    /// approval.
    #[arg(
        long,
        value_name = "SIGNER",
        default_value = "kubernetes.io/kubelet-serving"
    )]
    pub kubelet_signer: String,

    /// Show a certificate that nobody has signed, instead: for API servers that don't check those of kubelets.
    #[arg(long, conflicts_with = "kubelet_signer")]
    pub kubelet_self_signed: bool,

    /// Streams at the same time; one namespace has half of them at most.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u16).range(2..))]
    pub kubelet_streams: u16,
}
