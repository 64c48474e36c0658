//! Who may look: only who comes by a port-forward, which the API server has let in. Pure.
//!
//! The admin port is plain HTTP in the network of the pods. A port-forward reaches it from the pod's own loopback
//! address; nobody else does, unless something in the pod passes requests on, which says so in a header. A web site
//! that somebody visits meanwhile can't look either: its name isn't that of this machine, and its requests say where
//! they come from.

use std::net::IpAddr;

use http::header::HOST;
use http::{HeaderMap, HeaderValue};

/// Headers of who passes on what somebody else asked.
const PASSED_ON: [&str; 5] = [
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-real-ip",
];

/// Why somebody may not look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The connection comes from elsewhere.
    Elsewhere,
    /// A proxy has passed it on.
    PassedOn,
    /// The browser took the server for another one.
    Host,
    /// A page of another server asks.
    OtherSite,
}

impl Refusal {
    /// One line for who asked.
    pub(crate) fn line(self) -> &'static str {
        match self {
            Self::Elsewhere => {
                "only a port-forward reaches the dashboard: give \"kubectl pilotage dashboard\"\n"
            }
            Self::PassedOn => {
                "the dashboard takes no requests that a proxy passes on: give \"kubectl pilotage dashboard\"\n"
            }
            Self::Host => "the dashboard is at http://localhost or http://127.0.0.1 only\n",
            Self::OtherSite => {
                "another site may not ask for the dashboard: type its address in the browser\n"
            }
        }
    }
}

/// Whether who asks from `peer` with these headers may look.
pub(crate) fn judge(peer: Option<IpAddr>, headers: &HeaderMap) -> Result<(), Refusal> {
    // A sidecar may come from any other address of 127.0.0.0/8.
    let local = ["127.0.0.1", "::1"].map(str::parse::<IpAddr>);
    if !peer.is_some_and(|peer| local.contains(&Ok(peer.to_canonical()))) {
        return Err(Refusal::Elsewhere);
    }
    if PASSED_ON.iter().any(|name| headers.contains_key(*name)) {
        return Err(Refusal::PassedOn);
    }
    let mut hosts = headers.get_all(HOST).iter();
    if !matches!((hosts.next(), hosts.next()), (Some(host), None) if is_local(host)) {
        return Err(Refusal::Host);
    }
    let site = headers.get("sec-fetch-site");
    if site.is_some_and(|site| site != "same-origin" && site != "none") {
        return Err(Refusal::OtherSite);
    }
    Ok(())
}

/// A name of this machine, and maybe a port.
fn is_local(host: &HeaderValue) -> bool {
    let Ok(host) = host.to_str() else {
        return false;
    };
    let rest = ["localhost", "127.0.0.1", "[::1]"]
        .iter()
        .find_map(|name| host.strip_prefix(name));
    match rest.map(|rest| rest.strip_prefix(':').ok_or(rest)) {
        Some(Ok(port)) => port.parse::<u16>().is_ok(),
        Some(Err(rest)) => rest.is_empty(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn ask(peer: Option<&str>, headers: &[(&str, &str)]) -> Result<(), Refusal> {
        let header = |(name, value): &(&str, &str)| {
            let name: HeaderName = name.parse().unwrap();
            (name, HeaderValue::from_str(value).unwrap())
        };
        let headers: HeaderMap = headers.iter().map(header).collect();
        judge(peer.map(|peer| peer.parse().unwrap()), &headers)
    }

    #[test]
    fn only_a_port_forward_comes_from_here() {
        let host = [("host", "localhost:8080")];
        for peer in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(ask(Some(peer), &host), Ok(()), "{peer}");
        }
        // The last two are a sidecar's, and nobody's.
        for peer in [Some("10.0.0.7"), Some("fe80::1"), Some("127.0.0.6"), None] {
            assert_eq!(ask(peer, &host), Err(Refusal::Elsewhere), "{peer:?}");
        }
        for name in PASSED_ON {
            let headers = [host[0], (name, "10.0.0.7")];
            assert_eq!(ask(Some("127.0.0.1"), &headers), Err(Refusal::PassedOn));
        }
    }

    #[test]
    fn the_server_is_asked_by_a_name_of_this_machine() {
        for host in [
            "localhost",
            "localhost:8080",
            "127.0.0.1:1",
            "[::1]:8080",
            "[::1]",
        ] {
            assert_eq!(ask(Some("::1"), &[("host", host)]), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "localhost:8080.evil.example",
            "localhost:",
            "localhost:99999",
            "127.0.0.1.nip.io",
            "[::1].x",
            "10.0.0.7:8080",
            "",
        ] {
            let refused = Err(Refusal::Host);
            assert_eq!(ask(Some("::1"), &[("host", host)]), refused, "{host}");
        }
        assert_eq!(ask(Some("::1"), &[]), Err(Refusal::Host));
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(ask(Some("::1"), &two), Err(Refusal::Host));
    }

    #[test]
    fn no_other_site_may_ask() {
        for (site, want) in [
            ("same-origin", Ok(())),
            ("none", Ok(())),
            ("cross-site", Err(Refusal::OtherSite)),
            ("same-site", Err(Refusal::OtherSite)),
        ] {
            let headers = [("host", "localhost"), ("sec-fetch-site", site)];
            assert_eq!(ask(Some("127.0.0.1"), &headers), want, "{site}");
        }
    }
}
