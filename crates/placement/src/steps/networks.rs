//! Step `Networks`: networks that would be connected must not have addresses in common.
//!
//! IPv4 networks of a request and a candidate may overlap: the VPN between them translates addresses twice. Ranges
//! that this translation uses may not be used by anybody.

use std::fmt;
use std::sync::{Arc, LazyLock};

use crate::candidate::CandidateNetworks;
use crate::cidr::Cidr;
use crate::pipeline::{Context, Pass};
use crate::request::RequestNetworks;
use crate::selection::InputError;

/// Why a candidate's networks don't fit: all that is wrong, in a fixed order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(pub Arc<[NetworkError]>);

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, error) in self.0.iter().enumerate() {
            let comma = if number > 0 { ", " } else { "" };
            write!(f, "{comma}{error}")?;
        }
        Ok(())
    }
}

/// One thing that is wrong between the networks of a request and a candidate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// A network of the request isn't a range of addresses.
    #[error("{network} network {cidr:?} is no range of addresses")]
    Malformed {
        /// Which network.
        network: Network,
        /// As it was written.
        cidr: Arc<str>,
    },
    /// It intersects a network of the candidate.
    #[error("{network} network {cidr} intersects the candidate's {with} network")]
    Candidate {
        /// Which network of the request.
        network: Network,
        /// As it was written.
        cidr: Arc<str>,
        /// Which network of the candidate.
        with: Network,
    },
    /// It intersects a range that is reserved.
    #[error("{network} network {cidr} intersects {range}")]
    Reserved {
        /// Which network of the request.
        network: Network,
        /// As it was written.
        cidr: Arc<str>,
        /// The range.
        range: Range,
    },
    /// It must be known by now.
    #[error("{0} network is not known")]
    Required(Network),
}

/// One of a cluster's networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Of nodes.
    Node,
    /// Of services.
    Service,
    /// Of pods.
    Pod,
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Node => "node",
            Self::Service => "service",
            Self::Pod => "pod",
        })
    }
}

/// A range that is reserved for the connection between a cluster and its control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// The VPN itself.
    Vpn,
    /// Where kube-apiserver is seen.
    ApiServer,
    /// Where pods of the candidate are seen.
    SeedPods,
    /// Where nodes of the request are seen.
    ShootNodes,
    /// Where services of the request are seen.
    ShootServices,
    /// Where pods of the request are seen.
    ShootPods,
}

impl Range {
    const ALL: [Self; 6] = [
        Self::Vpn,
        Self::ApiServer,
        Self::SeedPods,
        Self::ShootNodes,
        Self::ShootServices,
        Self::ShootPods,
    ];

    /// Its addresses.
    pub const fn cidr(self) -> &'static str {
        match self {
            Self::Vpn => "fd8f:6d53:b97a:1::/96",
            Self::ApiServer => "240.0.0.0/8",
            Self::SeedPods => "241.0.0.0/8",
            Self::ShootNodes => "242.0.0.0/8",
            Self::ShootServices => "243.0.0.0/8",
            Self::ShootPods => "244.0.0.0/8",
        }
    }

    /// What it is for, in Gardener's words.
    pub const fn purpose(self) -> &'static str {
        match self {
            Self::Vpn => "default vpn network",
            Self::ApiServer => "kube-apiserver mapping range",
            Self::SeedPods => "seed pod network mapping range",
            Self::ShootNodes => "shoot node network mapping range",
            Self::ShootServices => "shoot service network mapping range",
            Self::ShootPods => "shoot pod network mapping range",
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} {}", self.purpose(), self.cidr())
    }
}

static RESERVED: LazyLock<[(Range, Cidr); 6]> =
    LazyLock::new(|| Range::ALL.map(|range| (range, Cidr::new(range.cidr()))));

#[allow(clippy::unnecessary_wraps, reason = "all steps have one signature")]
pub(super) fn prepare(context: Context<'_>) -> Result<Pass<'_>, InputError> {
    let Some(networks) = &context.request.networks else {
        return Ok(Pass::All);
    };
    let gardener_compatible = context.settings.gardener_compatible;
    // What doesn't depend on the candidate is checked once.
    let common = check_common(networks, gardener_compatible);
    if !depends_on_candidate(networks) {
        let nowhere = CandidateNetworks::default();
        let errors: Arc<[_]> = check(networks, &nowhere, &common, gardener_compatible).into();
        return Ok(if errors.is_empty() {
            Pass::All
        } else {
            Pass::each(move |_| Err(Reason(errors.clone())))
        });
    }
    Ok(Pass::each(move |candidate| {
        let errors = check(networks, &candidate.networks, &common, gardener_compatible);
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Reason(errors.into()))
        }
    }))
}

/// Whether a candidate's own networks matter: to IPv6 ones, and where its defaults may be used.
fn depends_on_candidate(networks: &RequestNetworks) -> bool {
    let own = [&networks.nodes, &networks.services, &networks.pods];
    let own = own.into_iter().flatten();
    let defaults = (networks.families.v4 || networks.families.v6)
        && (networks.services.is_none() || (networks.pods.is_none() && !networks.workerless));
    let mut all = own.chain(observed(networks).map(|(_, cidr)| cidr));
    defaults || all.any(Cidr::is_v6)
}

/// Errors of one network that don't depend on the candidate.
fn check_reserved(network: Network, cidr: &Cidr, gardener_compatible: bool) -> Vec<NetworkError> {
    if cidr.is_malformed() && !gardener_compatible {
        return vec![NetworkError::Malformed {
            network,
            cidr: cidr.shared_text(),
        }];
    }
    RESERVED
        .iter()
        .filter(|(_, reserved)| reserved.intersects(cidr))
        .map(|(range, _)| NetworkError::Reserved {
            network,
            cidr: cidr.shared_text(),
            range: *range,
        })
        .collect()
}

/// Errors of the networks that a request says itself, in the order in which they are checked.
struct Common {
    nodes: Vec<NetworkError>,
    services: Vec<NetworkError>,
    pods: Vec<NetworkError>,
    observed: Vec<Vec<NetworkError>>,
    required: Vec<NetworkError>,
}

fn check_common(networks: &RequestNetworks, gardener_compatible: bool) -> Common {
    let check = |network: Network, cidr: Option<&Cidr>| {
        cidr.map_or_else(Vec::new, |cidr| {
            check_reserved(network, cidr, gardener_compatible)
        })
    };
    let mut required = Vec::new();
    if let Some(observed) = &networks.observed {
        let nothing =
            observed.nodes.is_empty() && observed.services.is_empty() && observed.pods.is_empty();
        // Gardener takes a status that only has addresses of egress for one that lacks networks.
        if gardener_compatible || !nothing {
            if observed.services.is_empty() {
                required.push(NetworkError::Required(Network::Service));
            }
            if observed.pods.is_empty() && !networks.workerless {
                required.push(NetworkError::Required(Network::Pod));
            }
        }
    }
    Common {
        nodes: check(Network::Node, networks.nodes.as_ref()),
        services: check(Network::Service, networks.services.as_ref()),
        pods: check(Network::Pod, networks.pods.as_ref()),
        observed: observed(networks)
            .map(|(network, cidr)| check(network, Some(cidr)))
            .collect(),
        required,
    }
}

fn observed(networks: &RequestNetworks) -> impl Iterator<Item = (Network, &Cidr)> {
    networks.observed.iter().flat_map(|observed| {
        let nodes = observed.nodes.iter().map(|cidr| (Network::Node, cidr));
        let services = observed
            .services
            .iter()
            .map(|cidr| (Network::Service, cidr));
        let pods = observed.pods.iter().map(|cidr| (Network::Pod, cidr));
        nodes.chain(services).chain(pods)
    })
}

/// Intersections of one IPv6 network of the request with those of the candidate.
fn check_candidate(
    network: Network,
    cidr: &Cidr,
    candidate: &CandidateNetworks,
    errors: &mut Vec<NetworkError>,
) {
    if !cidr.is_v6() {
        return;
    }
    for (with, own) in [
        (Network::Service, &candidate.services),
        (Network::Pod, &candidate.pods),
        (Network::Node, &candidate.nodes),
    ] {
        if own.as_ref().is_some_and(|own| own.intersects(cidr)) {
            errors.push(NetworkError::Candidate {
                network,
                cidr: cidr.shared_text(),
                with,
            });
        }
    }
}

/// An IPv4 request needs ranges for services and, if it has nodes of its own, for pods. Gardener selects without them,
/// and its API server then refuses the binding, again and again.
fn missing(
    network: Network,
    networks: &RequestNetworks,
    gardener_compatible: bool,
) -> Option<NetworkError> {
    let observed = networks.observed.as_ref();
    let needs = match network {
        Network::Node => false,
        Network::Service => observed.is_none_or(|known| known.services.is_empty()),
        Network::Pod => !networks.workerless && observed.is_none_or(|known| known.pods.is_empty()),
    };
    (needs && networks.families.v4 && !gardener_compatible)
        .then_some(NetworkError::Required(network))
}

fn check(
    networks: &RequestNetworks,
    candidate: &CandidateNetworks,
    common: &Common,
    gardener_compatible: bool,
) -> Vec<NetworkError> {
    let mut errors = Vec::new();
    let of_family = |default: &'_ &Cidr| networks.families.include(default);
    let default_services = candidate.default_services.as_ref().filter(of_family);
    let default_pods = candidate.default_pods.as_ref().filter(of_family);
    let default_pods = default_pods.filter(|_| !networks.workerless);
    for (network, own, default, reserved) in [
        (Network::Node, &networks.nodes, None, &common.nodes),
        (
            Network::Service,
            &networks.services,
            default_services,
            &common.services,
        ),
        (Network::Pod, &networks.pods, default_pods, &common.pods),
    ] {
        match (own, default) {
            (Some(own), _) => {
                check_candidate(network, own, candidate, &mut errors);
                errors.extend(reserved.iter().cloned());
            }
            (None, Some(default)) => {
                check_candidate(network, default, candidate, &mut errors);
                errors.extend(check_reserved(network, default, gardener_compatible));
            }
            (None, None) => errors.extend(missing(network, networks, gardener_compatible)),
        }
    }
    for ((network, cidr), reserved) in observed(networks).zip(&common.observed) {
        check_candidate(network, cidr, candidate, &mut errors);
        errors.extend(reserved.iter().cloned());
    }
    errors.extend(common.required.iter().cloned());
    errors
}
