//! By which address the source reaches the target, and what it needs to trust it: pure.

use http::Uri;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

use crate::error::Error;

/// What is known of the target's addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known<'a> {
    /// What the user says.
    pub(crate) given: Option<&'a str>,
    /// By what the source has reached it before.
    pub(crate) standing: Option<&'a str>,
    /// What his kubeconfig says.
    pub(crate) kubeconfig: &'a str,
    /// What the cluster says of itself.
    pub(crate) own: Vec<String>,
}

/// The address that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) server: String,
    /// What the user should know of it.
    pub(crate) note: Option<String>,
    /// Whether it stays as the source has it, although the kubeconfig has another one.
    pub(crate) kept: bool,
}

/// Chooses an address. What the user says counts, then what the source has reached; of the others one that isn't this
/// machine's.
pub(crate) fn choose(known: &Known<'_>) -> Result<Address, Error> {
    if let Some(given) = known.given {
        let server = url(given)?;
        let note = is_local(&server).then(|| {
            format!(
                "{server} is an address of one machine only: it works if Pilotage of the source runs there, and not \
                 in pods; otherwise give another one by --target-server"
            )
        });
        return Ok(Address {
            server,
            note,
            kept: false,
        });
    }
    if let Some(server) = known.standing.and_then(|it| url(it).ok()) {
        let kept = url(known.kubeconfig).ok().as_ref() != Some(&server);
        return Ok(Address {
            server,
            note: None,
            kept,
        });
    }
    let server = url(known.kubeconfig)?;
    if !is_local(&server) {
        return Ok(Address {
            server,
            note: None,
            kept: false,
        });
    }
    let own = known.own.iter().filter_map(|own| url(own).ok());
    let own: Vec<String> = own.filter(|own| !is_local(own)).collect();
    // Names of that kind are often known inside of the target alone, as minikube's is.
    let public = own.iter().find(|own| !is_internal(own));
    let own = public.or(own.first()).cloned();
    let own = own.ok_or_else(|| Error::NoAddress {
        server: server.clone(),
    })?;
    let note = format!(
        "the kubeconfig's address {server} is one of this machine only: {own} is taken, which the target says of \
         itself; if the source can't reach that, give another one by --target-server"
    );
    Ok(Address {
        server: own,
        note: Some(note),
        kept: false,
    })
}

/// What else the target says of itself that the source might reach, each once.
pub(crate) fn others(known: &Known<'_>, chosen: &str) -> Vec<String> {
    let mut others: Vec<String> = Vec::new();
    for own in known.own.iter().filter_map(|own| url(own).ok()) {
        if own != chosen && !is_local(&own) && !others.contains(&own) {
            others.push(own);
        }
    }
    others
}

/// `https://HOST:PORT`, of that or `HOST:PORT`.
fn url(text: &str) -> Result<String, Error> {
    let bad = || Error::BadAddress(text.chars().take(253).collect());
    let whole = if text.contains("://") {
        text.to_owned()
    } else {
        format!("https://{text}")
    };
    let parsed: Uri = whole.parse().map_err(|_| bad())?;
    let is_https = parsed.scheme_str() == Some("https");
    (is_https && parsed.host().is_some_and(|host| !host.is_empty()) && parsed.query().is_none())
        .then(|| whole.trim_end_matches('/').to_owned())
        .ok_or_else(bad)
}

/// Whether an address means another machine for everybody.
fn is_local(server: &str) -> bool {
    let parsed: Option<Uri> = server.parse().ok();
    let host = parsed.as_ref().and_then(Uri::host).unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches([']', '.']);
    if let Ok(address) = host.parse::<std::net::IpAddr>() {
        return address.is_loopback() || address.is_unspecified();
    }
    let host = host.to_ascii_lowercase();
    // Docker Desktop has the machine's own address by such names.
    host == "localhost"
        || [".localhost", ".docker.internal"]
            .iter()
            .any(|end| host.ends_with(end))
}

/// Whether its name is one that not everybody resolves.
fn is_internal(server: &str) -> bool {
    let parsed: Option<Uri> = server.parse().ok();
    let host = parsed.as_ref().and_then(Uri::host).unwrap_or_default();
    host.trim_end_matches('.')
        .to_ascii_lowercase()
        .ends_with(".internal")
}

/// `controlPlaneEndpoint` of kubeadm's configuration of a cluster, which kind has as well.
pub(crate) fn of_kubeadm(configuration: &str) -> Option<String> {
    let configuration: Value = serde_saphyr::from_str(configuration).ok()?;
    configuration["controlPlaneEndpoint"]
        .as_str()
        .map(str::to_owned)
}

/// The server in a kubeconfig of one cluster: of those that `connect` writes, and of the one that a cluster shows to
/// those who want to join.
pub(crate) fn of_kubeconfig(kubeconfig: &str) -> Option<String> {
    let kubeconfig: Value = serde_saphyr::from_str(kubeconfig).ok()?;
    kubeconfig["clusters"][0]["cluster"]["server"]
        .as_str()
        .map(str::to_owned)
}

/// Where API servers say that they are, in the Service of every cluster that pods reach them by.
pub(crate) fn of_endpoints(slice: &EndpointSlice) -> Vec<String> {
    let mut ports = slice.ports.iter().flatten();
    let port = ports.find(|it| it.name.as_deref() == Some("https"));
    let Some(port) = port.and_then(|it| it.port) else {
        return Vec::new();
    };
    let endpoints = slice.endpoints.iter().flatten();
    let addresses = endpoints.flat_map(|it| &it.addresses);
    addresses
        .map(|address| {
            if address.contains(':') {
                format!("[{address}]:{port}")
            } else {
                format!("{address}:{port}")
            }
        })
        .collect()
}

/// What makes the target's certificate believed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trust {
    /// Base64 of PEM.
    pub(crate) ca: Option<String>,
    pub(crate) server_name: Option<String>,
    pub(crate) insecure: bool,
}

/// The kubeconfig that the source gets.
pub(crate) fn kubeconfig(
    name: &str,
    server: &str,
    trust: &Trust,
    namespace: Option<&str>,
    token: &str,
) -> Value {
    let Trust {
        ca,
        server_name,
        insecure,
    } = trust;
    let mut cluster = json!({ "server": server });
    if let Some(ca) = ca {
        cluster["certificate-authority-data"] = json!(ca);
    }
    if let Some(server_name) = server_name {
        cluster["tls-server-name"] = json!(server_name);
    }
    if *insecure {
        cluster["insecure-skip-tls-verify"] = json!(true);
    }
    let mut context = json!({ "cluster": name, "user": name });
    if let Some(namespace) = namespace {
        context["namespace"] = json!(namespace);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": name, "cluster": cluster }],
        "users": [{ "name": name, "user": { "token": token } }],
        "contexts": [{ "name": name, "context": context }],
        "current-context": name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(
        given: Option<&str>,
        kubeconfig: &str,
        own: &[&str],
    ) -> Result<(String, bool), String> {
        let own = own.iter().map(ToString::to_string).collect();
        choose(&Known {
            given,
            standing: None,
            kubeconfig,
            own,
        })
        .map(|address| (address.server, address.note.is_some()))
        .map_err(|error| error.to_string())
    }

    #[test]
    fn the_users_word_counts_then_what_others_reach() {
        let local = "https://127.0.0.1:6443";
        let ok = |server: &str, note| Ok((server.to_owned(), note));
        assert_eq!(
            chosen(None, "https://10.0.0.7:6443/", &[]),
            ok("https://10.0.0.7:6443", false)
        );
        assert_eq!(
            chosen(Some("api.example.com"), local, &[]),
            ok("https://api.example.com", false)
        );
        assert_eq!(
            chosen(Some(local), "https://10.0.0.7", &[]),
            ok(local, true)
        );
        let own = ["0.0.0.0:6443", "paris-control-plane:6443"];
        assert_eq!(
            chosen(None, local, &own),
            ok("https://paris-control-plane:6443", true)
        );
        let minikube = ["control-plane.minikube.internal:8443", "192.168.49.2:8443"];
        assert_eq!(
            chosen(None, local, &minikube),
            ok("https://192.168.49.2:8443", true)
        );
        assert_eq!(
            chosen(
                None,
                "https://kubernetes.docker.internal:6443",
                &minikube[..1]
            ),
            ok("https://control-plane.minikube.internal:8443", true)
        );
        let private = "https://ip-10-0-0-7.ec2.internal:6443";
        assert_eq!(chosen(None, private, &own), ok(private, false));
        for none in [
            local,
            "https://localhost:1",
            "https://[::1]:1",
            "https://0.0.0.0:1",
        ] {
            let error = chosen(None, none, &["127.0.0.1:1"]).unwrap_err();
            assert!(
                error.contains("--target-server") && error.contains(none),
                "{error}"
            );
        }
        for bad in ["http://10.0.0.7", "https://", "https://a?b", "a b"] {
            assert!(
                chosen(Some(bad), local, &[])
                    .unwrap_err()
                    .contains("https://HOST:PORT"),
                "{bad}"
            );
        }
    }

    #[test]
    fn what_the_source_has_reached_stays() {
        let (bastion, other) = ("https://bastion:6443", "https://10.0.0.7:6443");
        let chosen = |given, standing| {
            let known = Known {
                given,
                standing,
                kubeconfig: other,
                own: vec!["paris-control-plane:6443".to_owned()],
            };
            choose(&known)
                .map(|it| (it.server, it.note.is_some(), it.kept))
                .unwrap()
        };
        let server = |it: &str, kept| (it.to_owned(), false, kept);
        assert_eq!(chosen(None, Some(bastion)), server(bastion, true));
        assert_eq!(chosen(None, Some(other)), server(other, false));
        assert_eq!(
            chosen(Some(other), Some(bastion)),
            server(other, false),
            "the user's word"
        );
        // Nobody can have reached that.
        assert_eq!(chosen(None, Some("no url")), server(other, false));
        let written = kubeconfig("paris", bastion, &Trust::default(), None, "t");
        assert_eq!(
            of_kubeconfig(&written.to_string()).as_deref(),
            Some(bastion)
        );
    }

    #[test]
    fn clusters_say_their_address() {
        let kubeadm =
            "kind: ClusterConfiguration\ncontrolPlaneEndpoint: paris-control-plane:6443\n";
        assert_eq!(
            of_kubeadm(kubeadm).as_deref(),
            Some("paris-control-plane:6443")
        );
        assert_eq!(of_kubeadm("kind: x"), None);
        let info = "clusters:\n- cluster:\n    server: https://10.0.0.7:6443\n  name: ''\n";
        assert_eq!(
            of_kubeconfig(info).as_deref(),
            Some("https://10.0.0.7:6443")
        );
        assert_eq!(of_kubeconfig("}"), None);
    }

    #[test]
    fn api_servers_are_where_their_endpoints_are() {
        let slice = |port: &str, addresses: &[&str]| -> EndpointSlice {
            serde_json::from_value(json!({
                "metadata": { "name": "kubernetes" },
                "addressType": "IPv4",
                "endpoints": [{ "addresses": addresses }],
                "ports": [{ "name": port, "port": 6443 }],
            }))
            .unwrap()
        };
        assert_eq!(
            of_endpoints(&slice("https", &["172.18.0.2", "fd00::2"])),
            ["172.18.0.2:6443", "[fd00::2]:6443"]
        );
        assert!(of_endpoints(&slice("other", &["172.18.0.2"])).is_empty());
        assert!(of_endpoints(&EndpointSlice::default()).is_empty());
        // k3d's kubeconfig leads to a port of this machine.
        let own = of_endpoints(&slice("https", &["172.18.0.2"]));
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let found = chosen(None, "https://0.0.0.0:40123", &own);
        assert_eq!(found, Ok(("https://172.18.0.2:6443".to_owned(), true)));
    }

    #[test]
    fn a_kubeconfig_has_everything_in_it() {
        let trust = Trust {
            ca: Some("Q0E=".to_owned()),
            server_name: None,
            insecure: false,
        };
        let it = kubeconfig("paris", "https://a", &trust, Some("shop"), "t");
        let cluster = json!({ "server": "https://a", "certificate-authority-data": "Q0E=" });
        assert_eq!(it["clusters"][0]["cluster"], cluster);
        assert_eq!(it["users"][0]["user"], json!({ "token": "t" }));
        assert_eq!(it["contexts"][0]["context"]["namespace"], "shop");
    }
}
