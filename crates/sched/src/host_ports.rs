//! Owns host ports: what a pod wants and what a node has in use. Knows nothing of pods and nodes.

use std::fmt;

use k8s_openapi::api::core::v1::{ContainerPort, PodSpec};

use crate::requests::is_sidecar;

/// The address that means all of a host's addresses.
const ANY: &str = "0.0.0.0";

/// A port of the host, on one address or all of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// The address; `0.0.0.0` for all.
    pub ip: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The number.
    pub port: i32,
}

impl HostPort {
    fn wanted(port: &ContainerPort) -> Option<Self> {
        let number = port.host_port.filter(|number| *number > 0)?;
        let or = |text: &Option<String>, default: &str| match text.as_deref() {
            None | Some("") => default.to_owned(),
            Some(text) => text.to_owned(),
        };
        Some(Self {
            ip: or(&port.host_ip, ANY),
            protocol: or(&port.protocol, "TCP"),
            port: number,
        })
    }

    /// Whether both can't be had on one host.
    pub fn conflicts(&self, other: &Self) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || self.ip == ANY || other.ip == ANY)
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}/{}", self.ip, self.port, self.protocol)
    }
}

/// The host ports that a pod wants: those of its app containers and sidecars.
pub(crate) fn wanted(spec: &PodSpec) -> Vec<HostPort> {
    let sidecars = spec
        .init_containers
        .iter()
        .flatten()
        .filter(|c| is_sidecar(c));
    spec.containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| container.ports.iter().flatten())
        .filter_map(HostPort::wanted)
        .collect()
}
