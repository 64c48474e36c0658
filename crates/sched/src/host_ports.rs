//! Owns host ports: which ones a pod wants, and which ones a node has in use. Knows nothing of pods and nodes.
//!
//! An author may write thousands of them, and a node has those of all its pods. So each is looked up among the others,
//! and never compared with all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerPort, PodSpec};

use crate::requests::is_sidecar;

/// The address that means all of a host's addresses.
const ANY: &str = "0.0.0.0";

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Protocol {
    Tcp,
    Udp,
    Sctp,
    Other(Arc<str>),
}

impl Protocol {
    fn read(text: Option<&str>) -> Self {
        match text.unwrap_or_default() {
            "" | "TCP" => Self::Tcp,
            "UDP" => Self::Udp,
            "SCTP" => Self::Sctp,
            other => Self::Other(other.into()),
        }
    }

    fn write(&self) -> String {
        let text = match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
            Self::Other(other) => other,
        };
        text.to_owned()
    }
}

/// Addresses are the same if they are written alike. All of them come first in the order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Address {
    All,
    One(Arc<str>),
}

impl Address {
    fn read(text: Option<&str>) -> Self {
        match text.unwrap_or_default() {
            "" | ANY => Self::All,
            one => Self::One(one.into()),
        }
    }

    fn write(&self) -> Option<String> {
        match self {
            Self::All => None,
            Self::One(one) => Some((**one).to_owned()),
        }
    }
}

/// A port, on whatever address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Socket {
    number: i32,
    protocol: Protocol,
}

/// A port of the host, on one address or all of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct HostPort {
    socket: Socket,
    address: Address,
}

impl HostPort {
    fn read(port: &ContainerPort) -> Option<Self> {
        let number = port.host_port.filter(|number| *number > 0)?;
        Some(Self {
            socket: Socket {
                number,
                protocol: Protocol::read(port.protocol.as_deref()),
            },
            address: Address::read(port.host_ip.as_deref()),
        })
    }

    fn write(&self) -> ContainerPort {
        let number = self.socket.number;
        ContainerPort {
            container_port: number,
            host_ip: self.address.write(),
            host_port: Some(number),
            protocol: Some(self.socket.protocol.write()),
            ..ContainerPort::default()
        }
    }
}

/// The host ports that a pod wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WantedPorts(
    // In order.
    Box<[HostPort]>,
);

impl WantedPorts {
    /// Those of its app containers and sidecars.
    pub(crate) fn of(spec: &PodSpec) -> Self {
        let sidecars = spec
            .init_containers
            .iter()
            .flatten()
            .filter(|c| is_sidecar(c));
        let containers = spec.containers.iter().chain(sidecars);
        let ports = containers.flat_map(|container| container.ports.iter().flatten());
        let mut ports: Vec<_> = ports.filter_map(HostPort::read).collect();
        ports.sort_unstable();
        Self(ports.into())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it wants none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// At most so many of them, each once, as one container would want them.
    pub fn container_ports(&self, most: usize) -> Vec<ContainerPort> {
        let mut ports: Vec<_> = self.0.iter().collect();
        ports.dedup();
        ports.truncate(most);
        ports.into_iter().map(HostPort::write).collect()
    }

    /// Whether two pods can't have what they want on one host.
    pub fn clash_with(&self, other: &Self) -> bool {
        let (few, many) = if self.len() <= other.len() {
            (self, other)
        } else {
            (other, self)
        };
        few.0.iter().any(|port| many.exclude(port))
    }

    fn exclude(&self, port: &HostPort) -> bool {
        let at = self.0.partition_point(|own| own.socket < port.socket);
        let rest = self.0.get(at..).unwrap_or_default();
        let first = rest.first().filter(|own| own.socket == port.socket);
        first.is_some_and(|first| {
            let all = first.address == Address::All || port.address == Address::All;
            all || rest.binary_search(port).is_ok()
        })
    }
}

/// On which addresses a port is in use, and by how many pods on each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Uses {
    all: usize,
    one: BTreeMap<Arc<str>, usize>,
}

impl Uses {
    fn add(&mut self, address: &Address) {
        let count = match address {
            Address::All => &mut self.all,
            Address::One(address) => self.one.entry(address.clone()).or_default(),
        };
        *count = count.saturating_add(1);
    }

    fn remove(&mut self, address: &Address) {
        match address {
            Address::All => self.all = self.all.saturating_sub(1),
            Address::One(address) => {
                let Some(count) = self.one.get_mut(address) else {
                    return;
                };
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.one.remove(address);
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.all == 0 && self.one.is_empty()
    }

    /// Of a port that is in use.
    fn exclude(&self, address: &Address) -> bool {
        match address {
            Address::All => true,
            Address::One(address) => self.all > 0 || self.one.contains_key(address),
        }
    }
}

/// The host ports that are in use on a node. A port that several pods have is free when all of them have gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsedPorts(BTreeMap<Socket, Uses>);

impl UsedPorts {
    /// A pod with these comes.
    pub(crate) fn add(&mut self, ports: &WantedPorts) {
        for port in &*ports.0 {
            let uses = self.0.entry(port.socket.clone()).or_default();
            uses.add(&port.address);
        }
    }

    /// It goes.
    pub(crate) fn remove(&mut self, ports: &WantedPorts) {
        for port in &*ports.0 {
            let Some(uses) = self.0.get_mut(&port.socket) else {
                continue;
            };
            uses.remove(&port.address);
            if uses.is_empty() {
                self.0.remove(&port.socket);
            }
        }
    }

    /// Whether a pod can't have what it wants beside them.
    pub fn clash_with(&self, wanted: &WantedPorts) -> bool {
        wanted.0.iter().any(|port| {
            let uses = self.0.get(&port.socket);
            uses.is_some_and(|uses| uses.exclude(&port.address))
        })
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, ContainerPort, PodSpec};
    use proptest::prelude::*;
    use proptest::sample::{Index, select};

    use super::{UsedPorts, WantedPorts};

    type Port = (i32, &'static str, &'static str);

    fn port((host_port, host_ip, protocol): Port) -> ContainerPort {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        ContainerPort {
            container_port: 1,
            host_port: Some(host_port),
            host_ip: text(host_ip),
            protocol: text(protocol),
            ..ContainerPort::default()
        }
    }

    fn container(ports: &[Port], restart_policy: Option<&str>) -> Container {
        Container {
            ports: Some(ports.iter().copied().map(port).collect()),
            restart_policy: restart_policy.map(Into::into),
            ..Container::default()
        }
    }

    fn wanted(ports: &[Port]) -> WantedPorts {
        WantedPorts::of(&PodSpec {
            containers: vec![container(ports, None)],
            ..PodSpec::default()
        })
    }

    fn used(ports: &[Port]) -> UsedPorts {
        let mut used = UsedPorts::default();
        used.add(&wanted(ports));
        used
    }

    #[test]
    fn app_containers_and_sidecars_want_ports() {
        let spec = PodSpec {
            containers: vec![container(
                &[(81, "", "UDP"), (0, "", ""), (-1, "", "")],
                None,
            )],
            init_containers: Some(vec![
                container(&[(80, "", "")], Some("Always")),
                container(&[(82, "", "")], None),
            ]),
            ..PodSpec::default()
        };
        let ports = WantedPorts::of(&spec);
        let written = PodSpec {
            containers: vec![Container {
                ports: Some(ports.container_ports(2)),
                ..Container::default()
            }],
            ..PodSpec::default()
        };
        assert_eq!(WantedPorts::of(&written), ports);
        assert_eq!(ports.container_ports(1).len(), 1);
        assert_eq!(ports.len(), 2);
        assert_eq!(ports, wanted(&[(80, "0.0.0.0", "TCP"), (81, "", "UDP")]));
        assert!(wanted(&[(0, "", "")]).is_empty());
    }

    #[test]
    fn what_conflicts() {
        for (other, conflicts) in [
            ((80, "10.0.0.1", "TCP"), true),
            ((80, "10.0.0.2", "TCP"), false),
            ((80, "", ""), true),
            ((80, "0.0.0.0", "TCP"), true),
            // To kube-scheduler this is one address.
            ((80, "::", "TCP"), false),
            ((80, "", "UDP"), false),
            ((80, "", "tcp"), false),
            ((81, "", "TCP"), false),
        ] {
            let this = (80, "10.0.0.1", "");
            for (a, b) in [(this, other), (other, this)] {
                assert_eq!(
                    wanted(&[a]).clash_with(&wanted(&[b])),
                    conflicts,
                    "{other:?}"
                );
                assert_eq!(used(&[a]).clash_with(&wanted(&[b])), conflicts, "{other:?}");
            }
        }
    }

    /// The rule for two ports.
    fn conflict(a: Port, b: Port) -> bool {
        let of_port = |(number, address, protocol): Port| {
            let address = if address.is_empty() {
                "0.0.0.0"
            } else {
                address
            };
            let protocol = if protocol.is_empty() { "TCP" } else { protocol };
            ((number, protocol), address)
        };
        let ((a, on), (b, other)) = (of_port(a), of_port(b));
        a.0 > 0 && a == b && (on == other || on == "0.0.0.0" || other == "0.0.0.0")
    }

    fn ports() -> impl Strategy<Value = Vec<Port>> {
        let addresses = vec!["", "0.0.0.0", "10.0.0.1", "10.0.0.2", "!", "::"];
        let protocols = vec!["", "TCP", "UDP", "SCTP", "!"];
        let port = (0..4_i32, select(addresses), select(protocols));
        prop::collection::vec(port, 0..8)
    }

    proptest! {
        #[test]
        fn what_is_looked_up_is_what_is_compared(
            pods in prop::collection::vec(ports(), 1..6), gone in any::<Index>(), new in ports(),
        ) {
            let compared = |pods: &[Vec<Port>]| {
                let mut all = pods.iter().flatten();
                all.any(|a| new.iter().any(|b| conflict(*a, *b)))
            };
            let asked = wanted(&new);
            let mut used = UsedPorts::default();
            for pod in &pods {
                let pod_wants = wanted(pod);
                let clash = compared(std::slice::from_ref(pod));
                prop_assert_eq!(asked.clash_with(&pod_wants), clash);
                prop_assert_eq!(pod_wants.clash_with(&asked), clash);
                used.add(&pod_wants);
            }
            prop_assert_eq!(used.clash_with(&asked), compared(&pods));
            let mut left = pods.clone();
            let first = left.swap_remove(gone.index(pods.len()));
            used.remove(&wanted(&first));
            prop_assert_eq!(used.clash_with(&asked), compared(&left));
            for pod in &left {
                used.remove(&wanted(pod));
            }
            prop_assert_eq!(used, UsedPorts::default());
        }
    }
}
