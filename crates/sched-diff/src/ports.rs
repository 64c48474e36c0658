//! Host ports of pods, and which of them kube-scheduler has lost sight of: it keeps the ports of a node in a set, from
//! which a port goes with the first of its holders. It reads the rules by itself, since ours are on trial.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::object;

/// The address that means all of a host's.
const ANY: &str = "0.0.0.0";

/// A port of a host, by all that kube-scheduler tells ports apart by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    ip: String,
    protocol: String,
    number: u64,
}

impl Port {
    fn read(port: &Value) -> Option<Self> {
        let number = port["hostPort"].as_u64().filter(|number| *number > 0)?;
        let or = |pointer: &str, usual: &str| match object::text(port, pointer) {
            "" => usual.to_owned(),
            text => text.to_owned(),
        };
        Some(Self {
            ip: or("/hostIP", ANY),
            protocol: or("/protocol", "TCP"),
            number,
        })
    }

    /// Whether one host can't have both.
    pub fn conflicts(&self, other: &Self) -> bool {
        let same_place = self.ip == other.ip || self.ip == ANY || other.ip == ANY;
        same_place && self.protocol == other.protocol && self.number == other.number
    }
}

/// The host ports of a pod's app containers and sidecars.
pub fn of(pod: &Value) -> BTreeSet<Port> {
    let sidecars = object::list(pod, "/spec/initContainers").iter();
    let sidecars = sidecars.filter(|init| init["restartPolicy"] == "Always");
    let containers = object::list(pod, "/spec/containers").iter().chain(sidecars);
    let ports = containers.flat_map(|container| object::list(container, "/ports"));
    ports.filter_map(Port::read).collect()
}

/// The ports that kube-scheduler takes for free although a pod still has them, with their nodes.
#[derive(Clone, Debug, Default)]
pub struct LostPorts(BTreeSet<(String, Port)>);

impl LostPorts {
    /// A pod has come to its node, or is said anew: its ports are in the set.
    pub fn came(&mut self, pod: &Value) {
        let Some(node) = object::node_of(pod) else {
            return;
        };
        for port in of(pod) {
            self.0.remove(&(node.to_owned(), port));
        }
    }

    /// A pod has left its node, and its ports the set, whoever of the `others` has them, too.
    pub fn went<'a>(&mut self, pod: &Value, others: impl Iterator<Item = &'a Value>) {
        let ports = of(pod);
        let Some(node) = object::node_of(pod).filter(|_| !ports.is_empty()) else {
            return;
        };
        let others = others.filter(|other| object::node_of(other) == Some(node));
        let held: BTreeSet<Port> = others.flat_map(of).collect();
        for port in ports {
            let is_held = held.contains(&port);
            let port = (node.to_owned(), port);
            if is_held {
                self.0.insert(port);
            } else {
                self.0.remove(&port);
            }
        }
    }

    /// Whether the port of this node is one of them.
    pub fn has(&self, node: &str, port: &Port) -> bool {
        self.0.contains(&(node.to_owned(), port.clone()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{LostPorts, Port, of};

    fn port(port: &Value) -> Port {
        Port::read(port).unwrap()
    }

    fn pod(node: &str, ports: &Value) -> Value {
        json!({"kind": "Pod", "spec": {"nodeName": node, "containers": [{"ports": ports}]}})
    }

    #[test]
    fn address_protocol_and_number_make_a_conflict() {
        let wanted = port(&json!({"hostPort": 80, "hostIP": "10.0.0.1"}));
        for (other, conflicts) in [
            (json!({"hostPort": 80}), true),
            (
                json!({"hostPort": 80, "hostIP": "0.0.0.0", "protocol": "TCP"}),
                true,
            ),
            (json!({"hostPort": 80, "hostIP": "10.0.0.1"}), true),
            (json!({"hostPort": 80, "hostIP": "10.0.0.2"}), false),
            (json!({"hostPort": 80, "hostIP": "::"}), false),
            (json!({"hostPort": 80, "protocol": "UDP"}), false),
            (json!({"hostPort": 81}), false),
        ] {
            assert_eq!(wanted.conflicts(&port(&other)), conflicts, "{other}");
            assert_eq!(port(&other).conflicts(&wanted), conflicts, "{other}");
        }
        assert_eq!(Port::read(&json!({"hostPort": 0})), None);
        assert_eq!(Port::read(&json!({"containerPort": 80})), None);
    }

    #[test]
    fn init_containers_have_ports_only_as_sidecars() {
        let pod = json!({"spec": {"containers": [{"ports": [{"hostPort": 1}]}], "initContainers": [
            {"restartPolicy": "Always", "ports": [{"hostPort": 2}]}, {"ports": [{"hostPort": 3}]}]}});
        let numbers: Vec<u64> = of(&pod).iter().map(|port| port.number).collect();
        assert_eq!(numbers, [1, 2]);
    }

    #[test]
    fn a_port_is_lost_with_the_first_of_its_holders_until_another_says_it_anew() {
        let held = json!([{"hostPort": 80}]);
        let (it, pod_a, pod_b) = (port(&held[0]), pod("n", &held), pod("n", &held));
        let mut lost = LostPorts::default();
        lost.came(&pod_a);
        lost.came(&pod_b);
        assert!(!lost.has("n", &it));
        // On another node, or under another protocol, it is another port.
        let others = [
            pod("m", &held),
            pod("n", &json!([{"hostPort": 80, "protocol": "UDP"}])),
        ];
        lost.went(&pod_a, others.iter());
        assert!(!lost.has("n", &it));
        lost.went(&pod_a, std::iter::once(&pod_b));
        assert!(lost.has("n", &it) && !lost.has("m", &it));
        lost.came(&pod_b);
        assert!(!lost.has("n", &it));
        lost.went(&pod_a, std::iter::once(&pod_b));
        lost.went(&pod_b, std::iter::empty());
        assert!(!lost.has("n", &it));
    }
}
