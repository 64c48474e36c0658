//! Where Targets may lead, as the operator of the source allows it, whatever kubeconfigs say.
//!
//! Who may write a Target lets this process connect to a place of his choice, from inside of the operator's network. An
//! address is judged when a connection is made (`door::connect`), since a name may lead elsewhere each time it is
//! asked. Must not know clients.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use kube::Config;
use thiserror::Error;

/// A place that Targets may lead to: `api.example.com`, `*.example.com`, `192.0.2.7` or `10.0.0.0/8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A host of this name, whatever its addresses.
    Host(String),
    /// All hosts below this domain, whatever their addresses.
    Below(String),
    /// Addresses whose first bits are these.
    Network {
        /// The first of them.
        first: IpAddr,
        /// How many bits.
        bits: u8,
    },
}

impl Place {
    fn is_host(&self, host: &str) -> bool {
        match self {
            Self::Host(name) => host == name,
            Self::Below(domain) => host
                .strip_suffix(domain.as_str())
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
            Self::Network { .. } => false,
        }
    }

    fn holds(&self, address: IpAddr) -> bool {
        let Self::Network { first, bits } = self else {
            return false;
        };
        match (first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                let rest = 32_u32.saturating_sub(u32::from(*bits));
                let head = |ip: u32| ip.checked_shr(rest).unwrap_or_default();
                head(first.to_bits()) == head(address.to_bits())
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                let rest = 128_u32.saturating_sub(u32::from(*bits));
                let head = |ip: u128| ip.checked_shr(rest).unwrap_or_default();
                head(first.to_bits()) == head(address.to_bits())
            }
            _ => false,
        }
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || {
            format!(
                "{text:?} is neither a host (api.example.com, *.example.com) nor an address or CIDR (192.0.2.7, \
                 10.0.0.0/8)"
            )
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        if let Ok(first) = address.parse::<IpAddr>() {
            let most = if first.is_ipv4() { 32 } else { 128 };
            let bits = bits.map_or(Ok(most), str::parse).map_err(|_| fault())?;
            return (bits <= most)
                .then_some(Self::Network { first, bits })
                .ok_or_else(fault);
        }
        let (below, name) = match text.strip_prefix("*.") {
            Some(domain) => (true, domain),
            None => (false, text),
        };
        let name = plain(name);
        let fits = |label: &str| {
            !label.is_empty()
                && label
                    .chars()
                    .all(|it| it.is_ascii_alphanumeric() || it == '-' || it == '_')
        };
        // A last label of digits is an address that somebody has mistyped.
        let last = name.rsplit('.').next().unwrap_or_default();
        if !name.split('.').all(fits) || last.bytes().all(|it| it.is_ascii_digit()) {
            return Err(fault());
        }
        Ok(if below {
            Self::Below(name)
        } else {
            Self::Host(name)
        })
    }
}

/// A host's name as it is compared.
fn plain(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// What the operator of the source allows Targets.
#[derive(Clone, Debug)]
pub struct Allowed {
    /// Servers whose identity nobody checks: http, or https without a look at the certificate.
    pub insecure: bool,
    /// Where they may lead; empty: everywhere.
    pub places: Arc<[Place]>,
}

impl Default for Allowed {
    /// The defaults of the flags.
    fn default() -> Self {
        Self {
            insecure: false,
            places: Arc::new([]),
        }
    }
}

/// Why a Target may not lead where its kubeconfig does.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// An http URL.
    #[error(
        "names an http server: whoever is on the way could read the credentials and say anything in its name. Name an \
         https server; Pilotage takes http only with --allow-insecure-targets"
    )]
    Plain,
    /// The certificate isn't looked at.
    #[error(
        "has \"insecure-skip-tls-verify\": whoever is on the way could read the credentials and say anything in the \
         server's name. Put \"certificate-authority-data\" there instead; Pilotage takes it only with \
         --allow-insecure-targets"
    )]
    Unverified,
    /// Another place than allowed.
    #[error(
        "leads to {host:?}, which is none of the places that Pilotage lets Targets lead to (--allow-targets-at)"
    )]
    Elsewhere {
        /// The server's host, as the kubeconfig names it.
        host: String,
    },
}

impl Refusal {
    /// One word in camel case, for conditions.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Plain | Self::Unverified => "InsecureServer",
            Self::Elsewhere { .. } => "ServerNotAllowed",
        }
    }
}

impl Allowed {
    /// Whether a target may be reached like this, as far as that can be said before its name is resolved.
    pub(crate) fn check(&self, config: &Config) -> Result<(), Refusal> {
        let url = &config.cluster_url;
        if !self.insecure && url.scheme_str() != Some("https") {
            return Err(Refusal::Plain);
        }
        if !self.insecure && config.accept_invalid_certs {
            return Err(Refusal::Unverified);
        }
        let host = url.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let fine = match host.parse::<IpAddr>() {
            Ok(address) => self.is_allowed(address),
            Err(_) => self.names(host) || self.has_networks(),
        };
        fine.then_some(()).ok_or_else(|| Refusal::Elsewhere {
            host: host.chars().take(253).collect(),
        })
    }

    /// Whether a host is allowed by its name, wherever that leads.
    pub(crate) fn names(&self, host: &str) -> bool {
        let host = plain(host);
        self.places.is_empty() || self.places.iter().any(|place| place.is_host(&host))
    }

    /// Whether a connection to this address is allowed, whatever its host is called.
    pub(crate) fn is_allowed(&self, address: IpAddr) -> bool {
        // An IPv4 address in IPv6's clothes is the same place.
        let address = address.to_canonical();
        self.places.is_empty() || self.places.iter().any(|place| place.holds(address))
    }

    fn has_networks(&self) -> bool {
        let network = |place: &Place| matches!(place, Place::Network { .. });
        self.places.iter().any(network)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(places: &[&str]) -> Allowed {
        Allowed {
            insecure: false,
            places: places.iter().map(|it| it.parse().unwrap()).collect(),
        }
    }

    fn check(allowed: &Allowed, url: &str) -> Result<(), Refusal> {
        allowed.check(&Config::new(url.parse().unwrap()))
    }

    #[test]
    fn a_server_is_where_it_may_be() {
        for (places, url, want) in [
            (&[][..], "https://anywhere", true),
            (&[], "https://169.254.169.254", true),
            (&["api.example.com"], "https://API.example.com.:6443", true),
            (&["api.example.com"], "https://xapi.example.com", false),
            (&["*.example.com"], "https://a.b.example.com", true),
            (&["*.example.com"], "https://example.com", false),
            (&["*.example.com"], "https://badexample.com", false),
            (&["*.example.com"], "https://10.0.0.1", false),
            (&["10.0.0.0/8"], "https://10.255.0.1:6443", true),
            (&["10.0.0.0/8"], "https://11.0.0.1", false),
            (&["192.0.2.7"], "https://192.0.2.7", true),
            (&["192.0.2.7"], "https://192.0.2.8", false),
            (&["0.0.0.0/0"], "https://8.8.8.8", true),
            (&["0.0.0.0/0"], "https://[2001:db8::1]", false),
            (&["2001:db8::/32"], "https://[2001:db8::1]:6443", true),
            (&["2001:db8::/32"], "https://[2001:db9::1]", false),
            (&["10.0.0.0/8"], "https://[::ffff:10.0.0.1]", true),
            // Where a name leads is seen when a connection is made.
            (&["10.0.0.0/8"], "https://some.name", true),
            (&["10.0.0.0/8"], "https://0x7f.1", true),
        ] {
            assert_eq!(
                check(&allowed(places), url).is_ok(),
                want,
                "{places:?} {url}"
            );
        }
        let only = allowed(&["10.0.0.0/8", "*.example.com"]);
        for (address, want) in [
            ("10.9.9.9", true),
            ("::ffff:10.9.9.9", true),
            ("127.0.0.1", false),
        ] {
            assert_eq!(only.is_allowed(address.parse().unwrap()), want, "{address}");
        }
        assert!(only.names("a.example.com") && !only.names("some.name"));
    }

    #[test]
    fn insecure_servers_are_taken_by_flag_only() {
        let strict = Allowed::default();
        let loose = Allowed {
            insecure: true,
            ..Allowed::default()
        };
        let mut unverified = Config::new("https://one".parse().unwrap());
        unverified.accept_invalid_certs = true;
        assert_eq!(check(&strict, "http://one"), Err(Refusal::Plain));
        assert_eq!(strict.check(&unverified), Err(Refusal::Unverified));
        assert_eq!(Refusal::Plain.word(), "InsecureServer");
        assert!(check(&loose, "http://one").is_ok() && loose.check(&unverified).is_ok());
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for text in [
            "",
            "*",
            "*.",
            "a..b",
            "https://a",
            "a:6443",
            "10.0.0.0/33",
            "10.0.0.0/x",
            "10.0.0",
            "a.b/8",
            "*.*.com",
            "a b",
        ] {
            let error = text.parse::<Place>().unwrap_err();
            assert!(error.contains("neither a host"), "{error}");
        }
    }
}
