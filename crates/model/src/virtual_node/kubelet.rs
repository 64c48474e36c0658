//! Where a source's API server asks for logs and shells of pods on virtual nodes, as the Node's status says it.
//!
//! Must not know who answers there.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use k8s_openapi::api::core::v1::{DaemonEndpoint, NodeAddress, NodeDaemonEndpoints, NodeStatus};
use thiserror::Error;

/// Longest name of a host.
const LONGEST_HOST: usize = 253;

/// The address that API servers connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeletAddress {
    /// An address.
    Ip(IpAddr),
    /// A name that they can resolve.
    Host(String),
}

/// What is neither.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("it is neither an IP address nor the name of a host")]
pub struct BadAddress;

impl FromStr for KubeletAddress {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Ip(address));
        }
        let fits = |label: &str| {
            let inner = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
            (1..=63).contains(&label.len())
                && label.bytes().all(inner)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        let last = text.rsplit('.').next().unwrap_or_default();
        // A last label of digits is an address that somebody has mistyped.
        let is_host = text.len() <= LONGEST_HOST
            && text.split('.').all(fits)
            && !last.bytes().all(|it| it.is_ascii_digit());
        is_host
            .then(|| Self::Host(text.to_owned()))
            .ok_or(BadAddress)
    }
}

impl fmt::Display for KubeletAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Host(host) => f.write_str(host),
        }
    }
}

/// Address and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletEndpoint {
    /// The address.
    pub address: KubeletAddress,
    /// The port.
    pub port: u16,
}

impl KubeletEndpoint {
    /// The addresses of a Node. There is one and no other: API servers take the first of the types that they prefer, by
    /// default host names, and the name of a virtual node resolves nowhere.
    pub(super) fn addresses(&self) -> Vec<NodeAddress> {
        let type_ = match self.address {
            KubeletAddress::Ip(_) => "InternalIP",
            KubeletAddress::Host(_) => "Hostname",
        };
        vec![NodeAddress {
            type_: type_.to_owned(),
            address: self.address.to_string(),
        }]
    }

    /// The port in a Node's status.
    pub(super) fn endpoints(&self) -> NodeDaemonEndpoints {
        NodeDaemonEndpoints {
            kubelet_endpoint: Some(DaemonEndpoint {
                port: i32::from(self.port),
            }),
        }
    }

    /// Whether a Node says so, and nothing else.
    pub fn is_told_by(&self, status: &NodeStatus) -> bool {
        status.addresses.as_deref() == Some(&self.addresses())
            && status.daemon_endpoints.as_ref() == Some(&self.endpoints())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::super::Status;
    use super::*;

    fn endpoint(address: &str) -> KubeletEndpoint {
        KubeletEndpoint {
            address: address.parse().unwrap(),
            port: 10250,
        }
    }

    #[test]
    fn an_address_is_one_that_an_api_server_finds_in_any_order_of_types() {
        for (address, want) in [
            ("10.1.2.3", "InternalIP"),
            ("2001:db8::1", "InternalIP"),
            ("pilotage.example.com", "Hostname"),
        ] {
            let shown = endpoint(address).addresses();
            assert_eq!(shown.len(), 1);
            assert_eq!((&*shown[0].type_, &*shown[0].address), (want, address));
        }
        let long = format!("{}.a", "x".repeat(64));
        for bad in [
            "",
            "10.1.2",
            "10.1.2.300",
            "a..b",
            "-a",
            "A b",
            "a:1",
            "[::1]",
            &long,
        ] {
            assert_eq!(bad.parse::<KubeletAddress>(), Err(BadAddress), "{bad}");
        }
    }

    #[test]
    fn a_node_says_where_its_pods_are_asked_for() {
        let (none, labels) = (BTreeMap::default(), BTreeMap::default());
        let kubelet = endpoint("10.1.2.3");
        let status = |kubelet| Status {
            capacity: &none,
            allocatable: &none,
            version: "0.1.0",
            labels: &labels,
            kubelet,
        };
        let value = status(Some(&kubelet)).apply("n", &[]);
        assert_eq!(
            value["status"]["addresses"],
            json!([{ "type": "InternalIP", "address": "10.1.2.3" }])
        );
        assert_eq!(
            value["status"]["daemonEndpoints"],
            json!({ "kubeletEndpoint": { "Port": 10250 } })
        );
        let read: NodeStatus = serde_json::from_value(value["status"].clone()).unwrap();
        assert!(kubelet.is_told_by(&read) && !endpoint("10.1.2.4").is_told_by(&read));
        let without = status(None).apply("n", &[]);
        assert_eq!(without["status"].get("addresses"), None);
        assert_eq!(without["status"].get("daemonEndpoints"), None);
    }
}
