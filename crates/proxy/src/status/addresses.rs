//! A pod's own addresses and those of its host: one of each family at most, the first of the list also by itself.

use std::net::IpAddr;

use serde_json::{Map, Value};

use super::reader::Reader;

/// Most entries of a list that are looked at.
const MOST: usize = 16;

/// The addresses that the field `single` and the list `all` tell; of a `pod`, those that an endpoint may have.
pub(super) fn addresses(
    reader: &mut Reader,
    status: &Map<String, Value>,
    single: &'static str,
    all: &'static str,
    pod: bool,
) -> Vec<String> {
    let first = reader.word(status, single).map(|text| (single, text));
    let mut said: Vec<_> = first.into_iter().collect();
    for entry in reader.objects(status, all).take(MOST) {
        said.extend(reader.word(entry, "ip").map(|text| (all, text)));
    }
    let mut kept: Vec<(IpAddr, String)> = Vec::new();
    for (field, text) in said {
        match parse(&text).filter(|ip| !pod || may_be_endpoint(ip)) {
            // The list repeats the single one.
            Some(ip) if kept.iter().any(|(known, _)| *known == ip) => {}
            Some(ip)
                if kept
                    .iter()
                    .all(|(known, _)| known.is_ipv4() != ip.is_ipv4()) =>
            {
                kept.push((ip, text));
            }
            _ => reader.withhold(field),
        }
    }
    kept.into_iter().map(|(_, text)| text).collect()
}

/// An address as the API server takes it: none that other programs read as one of the other family.
fn parse(text: &str) -> Option<IpAddr> {
    let ip: IpAddr = text.parse().ok()?;
    let mapped = matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some());
    (!mapped).then_some(ip)
}

/// Services of the source lead to the addresses of its pods; one that no endpoint may have makes theirs unwritable.
fn may_be_endpoint(ip: &IpAddr) -> bool {
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || is_link_local)
}
