//! A kubeconfig from a secret, read as data from a stranger.
//!
//! Whoever may write the secret must not gain anything on the machine that reads it: no plugin is run, no file is
//! opened. Everything has to be in the kubeconfig itself. Must not know clients or secrets' watches.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::Config;
use kube::config::{AuthInfo, Cluster, Context, Kubeconfig};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use thiserror::Error;

/// Longest kubeconfig, in bytes: certificates, keys and tokens of forty clusters.
pub(crate) const LONGEST: usize = 256 * 1024;
/// How many values it may have, keys and list items among them: so many are read in a few milliseconds.
const VALUES: usize = 4096;
/// How deep they may be nested.
const DEPTH: usize = 32;
/// Names of contexts that are told.
const NAMES_TOLD: usize = 10;
/// Characters of a server or of a name that are told.
const TOLD: usize = 253;

/// Why a kubeconfig can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KubeconfigFault {
    /// Not text.
    #[error("is not UTF-8 text")]
    NotText,
    /// Nobody needs so much, and all of it would have to be read.
    #[error(
        "is too large: a kubeconfig may have {LONGEST} bytes, {VALUES} values and {DEPTH} levels"
    )]
    TooLarge,
    /// Not the YAML or JSON of a kubeconfig.
    #[error("can't be parsed: {0}")]
    Syntax(String),
    /// Neither the target nor the file names a context.
    #[error("has no current-context, and the target names no context")]
    NoContext,
    /// The context isn't there.
    #[error("has no context {name:?}; there is {}", listed(.known))]
    UnknownContext {
        /// The context that was asked for.
        name: String,
        /// The contexts that are there.
        known: Vec<String>,
    },
    /// The context's cluster isn't there.
    #[error("context {context:?} names cluster {cluster:?}, which is not defined")]
    UnknownCluster {
        /// The context.
        context: String,
        /// The cluster that it names.
        cluster: String,
    },
    /// The context's user isn't there.
    #[error("context {context:?} names user {user:?}, which is not defined")]
    UnknownUser {
        /// The context.
        context: String,
        /// The user that it names.
        user: String,
    },
    /// No server, or no URL.
    #[error("cluster {cluster:?} has no usable server URL: {reason}")]
    Server {
        /// The cluster.
        cluster: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A way to log in that would run a program or read a file here.
    #[error(
        "{place} uses {field:?}, which would {would} on the machine of the controller and is refused; put {instead} \
         into the kubeconfig instead"
    )]
    Refused {
        /// Where it stands.
        place: String,
        /// The field.
        field: &'static str,
        /// What it would do.
        would: &'static str,
        /// What to write instead.
        instead: &'static str,
    },
    /// A proxy, for which there is no support.
    #[error("cluster {cluster:?} uses \"proxy-url\", which is not supported")]
    Proxy {
        /// The cluster.
        cluster: String,
    },
    /// Data that isn't what it should be.
    #[error("{place}: {field:?} is {reason}")]
    Data {
        /// Where it stands.
        place: String,
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// Certificates, keys or address can't be used together.
    #[error("no client can be built from it: {0}")]
    Client(String),
}

/// A name as it is told, who knows to whom.
fn told(name: &str) -> String {
    name.chars().take(TOLD).collect()
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

/// The connection settings of `context` (the current one unless given) in the kubeconfig `bytes`.
pub fn parse(bytes: &[u8], context: Option<&str>) -> Result<Config, KubeconfigFault> {
    if bytes.len() > LONGEST {
        return Err(KubeconfigFault::TooLarge);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| KubeconfigFault::NotText)?;
    let file = read(text)?;
    let (context_name, context) = find_context(&file, context)?;
    let cluster = file
        .clusters
        .iter()
        .find(|named| named.name == context.cluster)
        .and_then(|named| named.cluster.as_ref())
        .ok_or_else(|| KubeconfigFault::UnknownCluster {
            context: told(context_name),
            cluster: told(&context.cluster),
        })?;
    let (user_name, user) = find_user(&file, context_name, context)?;

    let mut config = cluster_config(&context.cluster, cluster)?;
    config.auth_info = login(&user_name, user)?;
    if let Some(namespace) = &context.namespace {
        config.default_namespace.clone_from(namespace);
    }
    // Each caller has a back-off of its own, and wants to see the answers that it backs off from.
    config.default_retry = false;
    Ok(config)
}

/// The token by which the user of `context` logs in, if one stands there, of a kubeconfig that [`parse`] takes.
pub fn token(bytes: &[u8], context: Option<&str>) -> Result<Option<String>, KubeconfigFault> {
    let user = serde_json::to_value(parse(bytes, context)?.auth_info).ok();
    Ok(user.and_then(|user| user["token"].as_str().map(str::to_owned)))
}

/// The file's own form, whatever it names.
fn read(text: &str) -> Result<Kubeconfig, KubeconfigFault> {
    let options = serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_depth: DEPTH,
            flow_nesting_limit: DEPTH,
            max_nodes: VALUES,
            max_anchors: 64,
            max_aliases: 256,
            max_merge_keys: 64,
            max_recorded_anchor_events: VALUES,
            max_recorded_anchor_bytes: LONGEST,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: VALUES,
            max_replay_stack_depth: 8,
        },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| match error {
        serde_saphyr::Error::Budget { .. } => KubeconfigFault::TooLarge,
        error => KubeconfigFault::Syntax(position(error.location())),
    })
}

fn find_context<'a>(
    file: &'a Kubeconfig,
    asked: Option<&'a str>,
) -> Result<(&'a str, &'a Context), KubeconfigFault> {
    let current = file
        .current_context
        .as_deref()
        .filter(|name| !name.is_empty());
    let name = asked.or(current).ok_or(KubeconfigFault::NoContext)?;
    let context = file
        .contexts
        .iter()
        .find(|named| named.name == name)
        .and_then(|named| named.context.as_ref())
        .ok_or_else(|| KubeconfigFault::UnknownContext {
            name: told(name),
            known: file
                .contexts
                .iter()
                .map(|named| told(&named.name))
                .take(NAMES_TOLD)
                .collect(),
        })?;
    Ok((name, context))
}

fn find_user(
    file: &Kubeconfig,
    context_name: &str,
    context: &Context,
) -> Result<(String, AuthInfo), KubeconfigFault> {
    let Some(name) = context.user.as_ref().filter(|name| !name.is_empty()) else {
        return Ok((String::new(), AuthInfo::default()));
    };
    let named = file
        .auth_infos
        .iter()
        .find(|named| named.name == *name)
        .ok_or_else(|| KubeconfigFault::UnknownUser {
            context: told(context_name),
            user: told(name),
        })?;
    Ok((name.clone(), named.auth_info.clone().unwrap_or_default()))
}

fn cluster_config(name: &str, cluster: &Cluster) -> Result<Config, KubeconfigFault> {
    let place = format!("cluster {:?}", told(name));
    let server_fault = |reason: String| KubeconfigFault::Server {
        cluster: told(name),
        reason,
    };
    let server = cluster
        .server
        .as_deref()
        .filter(|server| !server.is_empty());
    let server = server.ok_or_else(|| server_fault("none is given".to_owned()))?;
    let url: http::Uri = server
        .parse()
        .map_err(|error: http::uri::InvalidUri| server_fault(error.to_string()))?;
    // It would be sent with each request, and shown wherever the server is named.
    if url.authority().is_some_and(|it| it.as_str().contains('@')) {
        let reason = "it holds a user, who belongs among the users of the kubeconfig";
        return Err(server_fault(reason.to_owned()));
    }
    if let (Some("http" | "https"), Some(_)) = (url.scheme_str(), url.host()) {
    } else {
        let server = told(server);
        return Err(server_fault(format!("{server:?} is no http or https URL")));
    }
    if cluster.certificate_authority_data.is_none() && cluster.certificate_authority.is_some() {
        return Err(refuse_file(
            place,
            "certificate-authority",
            "certificate-authority-data",
        ));
    }
    if cluster
        .proxy_url
        .as_ref()
        .is_some_and(|url| !url.is_empty())
    {
        return Err(KubeconfigFault::Proxy {
            cluster: told(name),
        });
    }
    let mut config = Config::new(url);
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or_default();
    config.tls_server_name.clone_from(&cluster.tls_server_name);
    config.disable_compression = cluster.disable_compression.unwrap_or_default();
    config.root_cert = match &cluster.certificate_authority_data {
        Some(data) => Some(authority(&place, data)?),
        None => None,
    };
    Ok(config)
}

/// The certificates in `certificate-authority-data`, as DER.
fn authority(place: &str, data: &str) -> Result<Vec<Vec<u8>>, KubeconfigFault> {
    let field = "certificate-authority-data";
    let fault = |reason: String| KubeconfigFault::Data {
        place: place.to_owned(),
        field,
        reason,
    };
    let pem = decode(place, field, data)?;
    let certs: Vec<Vec<u8>> = CertificateDer::pem_slice_iter(&pem)
        .map(|cert| cert.map(|cert| cert.to_vec()))
        .collect::<Result<_, _>>()
        // The error would quote a line of what is there.
        .map_err(|_| fault("not PEM".to_owned()))?;
    if certs.is_empty() {
        return Err(fault("without any certificate".to_owned()));
    }
    Ok(certs)
}

fn decode(place: &str, field: &'static str, data: &str) -> Result<Vec<u8>, KubeconfigFault> {
    STANDARD
        .decode(data.trim())
        .map_err(|error| KubeconfigFault::Data {
            place: place.to_owned(),
            field,
            reason: format!("not base64: {error}"),
        })
}

/// Checks that `user` logs in with what stands in the kubeconfig alone.
fn login(name: &str, user: AuthInfo) -> Result<AuthInfo, KubeconfigFault> {
    let place = format!("user {:?}", told(name));
    let run = |field| KubeconfigFault::Refused {
        place: place.clone(),
        field,
        would: "run a program",
        instead: "a token or a client certificate",
    };
    if user.exec.is_some() {
        return Err(run("exec"));
    }
    if user.auth_provider.is_some() {
        return Err(run("auth-provider"));
    }
    for (field, path, data, instead) in [
        ("tokenFile", &user.token_file, user.token.is_some(), "token"),
        (
            "client-certificate",
            &user.client_certificate,
            user.client_certificate_data.is_some(),
            "client-certificate-data",
        ),
        (
            "client-key",
            &user.client_key,
            user.client_key_data.is_some(),
            "client-key-data",
        ),
    ] {
        // A path beside the data itself is never read, as in client-go.
        if path.is_some() && !data {
            return Err(refuse_file(place, field, instead));
        }
    }
    if let Some(data) = &user.client_certificate_data {
        decode(&place, "client-certificate-data", data)?;
    }
    match (&user.client_certificate_data, &user.client_key_data) {
        (Some(_), None) => Err(half(place, "client-key-data")),
        (None, Some(_)) => Err(half(place, "client-certificate-data")),
        _ => Ok(AuthInfo {
            token_file: None,
            client_certificate: None,
            client_key: None,
            ..user
        }),
    }
}

fn half(place: String, field: &'static str) -> KubeconfigFault {
    KubeconfigFault::Data {
        place,
        field,
        reason: "missing, though its other half is given".into(),
    }
}

fn refuse_file(place: String, field: &'static str, instead: &'static str) -> KubeconfigFault {
    KubeconfigFault::Refused {
        place,
        field,
        would: "read a file",
        instead,
    }
}

/// Where a mistake is. What it is would be quoted by the parser, and may be a token, or a Secret that is no kubeconfig.
fn position(location: Option<serde_saphyr::Location>) -> String {
    let place = location.map(|it| format!(" at line {}, column {}", it.line(), it.column()));
    let place = place.unwrap_or_default();
    format!("it is no YAML, or not of a kubeconfig's form{place}")
}

#[cfg(test)]
#[path = "kubeconfig/tests.rs"]
mod tests;
