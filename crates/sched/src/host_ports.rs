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

/// Whether a wanted port can't be had beside those in use.
pub fn clash(wanted: &[HostPort], used: &[HostPort]) -> bool {
    wanted
        .iter()
        .any(|port| used.iter().any(|used| used.conflicts(port)))
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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, ContainerPort, PodSpec};

    use super::{HostPort, wanted};

    fn port(host_port: i32, host_ip: &str, protocol: &str) -> ContainerPort {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        ContainerPort {
            container_port: 1,
            host_port: Some(host_port),
            host_ip: text(host_ip),
            protocol: text(protocol),
            ..ContainerPort::default()
        }
    }

    fn container(ports: Vec<ContainerPort>, restart_policy: Option<&str>) -> Container {
        Container {
            ports: Some(ports),
            restart_policy: restart_policy.map(Into::into),
            ..Container::default()
        }
    }

    #[test]
    fn app_containers_and_sidecars_want_ports() {
        let spec = PodSpec {
            containers: vec![container(vec![port(80, "", ""), port(0, "", "")], None)],
            init_containers: Some(vec![
                container(vec![port(81, "", "UDP")], Some("Always")),
                container(vec![port(82, "", "")], None),
            ]),
            ..PodSpec::default()
        };
        let ports = wanted(&spec)
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>();
        assert_eq!(ports, ["0.0.0.0:80/TCP", "0.0.0.0:81/UDP"]);
    }

    #[test]
    fn what_conflicts() {
        let one = |number, ip, protocol| HostPort::wanted(&port(number, ip, protocol)).unwrap();
        for (other, conflicts) in [
            (one(80, "10.0.0.1", "TCP"), true),
            (one(80, "10.0.0.2", "TCP"), false),
            (one(80, "", ""), true),
            (one(80, "0.0.0.0", "TCP"), true),
            (one(80, "", "UDP"), false),
            (one(81, "", "TCP"), false),
        ] {
            let this = one(80, "10.0.0.1", "");
            assert_eq!(this.conflicts(&other), conflicts, "{other}");
            assert_eq!(other.conflicts(&this), conflicts, "{other}");
        }
    }
}
