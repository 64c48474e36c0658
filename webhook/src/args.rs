//! The webhook's flags, and the checked options that they become.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args};
use pilotage_runtime::args::parse_duration;
use serde_json::Value;
use thiserror::Error;

use crate::certs::plan::{Timings, TimingsError};
use crate::install::Scope;
use crate::objects::{self, Reach, Writers, host};

/// Name of the Secret that holds the webhook's own certificates.
pub const DEFAULT_SECRET: &str = "pilotage-webhook-tls";
/// Name of the Service in front of the webhook.
pub const DEFAULT_SERVICE: &str = "pilotage-webhook";

/// The most that [`WebhookArgs::shutdown_delay`] may be: a process ends within 25 s, open reviews included.
pub(crate) const LONGEST_DELAY: Duration = Duration::from_secs(9);

/// Flags of the webhook.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Webhook")]
pub struct WebhookArgs {
    /// Address to serve admission reviews on, over TLS. `[::]` is all addresses, of IPv4 too. Port 0 takes a free port.
    #[arg(long, value_name = "IP:PORT", default_value = "[::]:9443")]
    pub webhook_addr: SocketAddr,

    /// How long the webhook goes on after SIGTERM, for API servers that learn late that it ends. At most 9s.
    ///
    /// From the signal on it isn't ready. Afterwards it answers open reviews and ends. In `pilotage all`, no other
    /// replica takes over the Leases before that.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    pub shutdown_delay: Duration,

    /// Install and repair the MutatingWebhookConfiguration and the policies that guard proxy pods and Targets.
    ///
    /// With --manage-configuration=false they must be installed otherwise, as "pilotage admission" prints them, and
    /// only the CA bundle is put into the former.
    #[arg(
        long,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true",
        value_name = "true|false"
    )]
    pub manage_configuration: bool,

    /// Secret for the webhook's own CA and certificate, shared by all replicas; made if it doesn't exist.
    ///
    /// Delete it to rotate the CA: a running replica writes a new one without interruption.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_SECRET, conflicts_with = "tls_cert_file")]
    pub tls_secret: String,

    /// Certificate chain to serve with, PEM, instead of one from an own CA. Re-read when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key_file")]
    pub tls_cert_file: Option<PathBuf>,

    /// Private key of --tls-cert-file, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub tls_key_file: Option<PathBuf>,

    /// CA of --tls-cert-file, PEM, for the API server. Without it the CA bundle is left to others, such as
    /// cert-manager's injector.
    #[arg(long, value_name = "FILE", requires = "tls_cert_file")]
    pub ca_file: Option<PathBuf>,

    /// How long the own CA lives; its successor is published when a third is left.
    #[arg(long, value_name = "DURATION", default_value = "26280h", value_parser = parse_duration)]
    pub ca_validity: Duration,

    /// How long the serving certificate lives; it is replaced when a third is left.
    #[arg(long, value_name = "DURATION", default_value = "720h", value_parser = parse_duration)]
    pub certificate_validity: Duration,

    /// How long a new CA is trusted before it signs, and an old one after it last signed.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_duration)]
    pub ca_overlap: Duration,

    #[command(flatten)]
    admission: AdmissionArgs,
}

/// Flags of the admission configuration, for the webhook and for who prints it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Admission configuration")]
pub struct AdmissionArgs {
    /// URL by which the API server reaches this webhook, if it isn't a Service of the same cluster.
    ///
    /// For a webhook that runs outside of the cluster: `https://192.0.2.7:9443`. Port 0 stands for the port really
    /// bound. The certificate is made for its host.
    #[arg(long, value_name = "URL", conflicts_with_all = ["webhook_service", "webhook_service_namespace",
        "webhook_service_port"])]
    webhook_url: Option<String>,

    /// Service by which the API server reaches this webhook.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_SERVICE)]
    webhook_service: String,

    /// Namespace of the Service. Default: the namespace where the webhook runs.
    #[arg(long, value_name = "NAMESPACE")]
    webhook_service_namespace: Option<String>,

    /// Port of the Service.
    #[arg(long, value_name = "PORT", default_value_t = 443)]
    webhook_service_port: u16,

    /// User that may write the record of a proxy pod, as the API server calls it. May be given several times.
    ///
    /// Only Pilotage's own accounts should: whoever changes the record can have a second delegate started. Default: all
    /// service accounts of the namespace where the webhook runs.
    #[arg(long = "record-writer", value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
    record_writers: Vec<String>,
}

/// Flags that can't work.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ArgsError {
    /// The URL can't be called by an API server.
    #[error("--webhook-url {0:?} is not of the form https://HOST[:PORT][/PATH], without query")]
    Url(String),
    /// The process would end before it has answered.
    #[error("--shutdown-delay {0:?} is longer than {most:?}", most = LONGEST_DELAY)]
    ShutdownDelay(Duration),
    /// The port isn't known yet.
    #[error(
        "--webhook-url {0:?} has port 0, which stands for the one that a running webhook has bound: name that port"
    )]
    NoPort(String),
    /// The certificates' times don't fit.
    #[error(transparent)]
    Timings(#[from] TimingsError),
}

/// Where the serving certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateSource {
    /// An own CA, kept in a Secret.
    Own {
        /// Namespace of the Secret.
        namespace: String,
        /// Its name.
        secret: String,
        /// When what is rotated.
        timings: Timings,
    },
    /// Files that somebody else renews.
    Files {
        /// Certificate chain.
        certificate: PathBuf,
        /// Private key.
        key: PathBuf,
        /// CA bundle for the API server, if it is ours to give.
        ca: Option<PathBuf>,
    },
}

/// The checked options of the webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Address to serve on.
    pub addr: SocketAddr,
    /// How long to go on after the end was asked for.
    pub shutdown_delay: Duration,
    /// How the API server reaches it.
    pub reach: Reach,
    /// Who may write records.
    pub writers: Writers,
    /// Whether to install the whole configuration, or only the CA bundle.
    pub manage_configuration: bool,
    /// Where the certificate comes from.
    pub certificates: CertificateSource,
}

impl AdmissionArgs {
    /// All that the webhook installs if it runs in `namespace`, but for the CA bundle, which is its own to add.
    pub fn objects(&self, namespace: &str) -> Result<Vec<Value>, ArgsError> {
        let reach = self.reach(namespace)?;
        if let Reach::Url(url) = &reach
            && around_port_0(url).is_some()
        {
            return Err(ArgsError::NoPort(url.clone()));
        }
        Ok(objects::all(&reach, &self.writers(namespace), None))
    }

    fn reach(&self, namespace: &str) -> Result<Reach, ArgsError> {
        match &self.webhook_url {
            Some(url) if host(url).is_none() || url.contains(['?', '#', '@']) => {
                Err(ArgsError::Url(url.clone()))
            }
            Some(url) => Ok(Reach::Url(url.clone())),
            None => Ok(Reach::Service {
                namespace: self
                    .webhook_service_namespace
                    .clone()
                    .unwrap_or_else(|| namespace.to_owned()),
                name: self.webhook_service.clone(),
                port: self.webhook_service_port,
            }),
        }
    }

    fn writers(&self, namespace: &str) -> Writers {
        if self.record_writers.is_empty() {
            Writers::AccountsOf(namespace.to_owned())
        } else {
            Writers::Users(self.record_writers.clone())
        }
    }
}

/// Host and path of a URL whose port is 0.
fn around_port_0(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("https://")?;
    let (authority, path) = rest
        .find('/')
        .map_or((rest, ""), |slash| rest.split_at(slash));
    Some((authority.strip_suffix(":0")?, path))
}

impl WebhookArgs {
    /// The checked options; `namespace` is where this process runs.
    pub fn to_options(&self, namespace: &str) -> Result<Options, ArgsError> {
        if self.shutdown_delay > LONGEST_DELAY {
            return Err(ArgsError::ShutdownDelay(self.shutdown_delay));
        }
        let reach = self.admission.reach(namespace)?;
        let certificates = match (&self.tls_cert_file, &self.tls_key_file) {
            (Some(certificate), Some(key)) => CertificateSource::Files {
                certificate: certificate.clone(),
                key: key.clone(),
                ca: self.ca_file.clone(),
            },
            _ => CertificateSource::Own {
                namespace: namespace.to_owned(),
                secret: self.tls_secret.clone(),
                timings: Timings::new(
                    self.ca_validity,
                    self.certificate_validity,
                    self.ca_overlap,
                )?,
            },
        };
        Ok(Options {
            addr: self.webhook_addr,
            shutdown_delay: self.shutdown_delay,
            reach,
            writers: self.admission.writers(namespace),
            manage_configuration: self.manage_configuration,
            certificates,
        })
    }
}

impl Options {
    /// Puts the port really bound into a URL with port 0.
    pub(crate) fn reach_at(&self, port: u16) -> Reach {
        match &self.reach {
            Reach::Url(url) => match around_port_0(url) {
                Some((host, path)) => Reach::Url(format!("https://{host}:{port}{path}")),
                None => self.reach.clone(),
            },
            service @ Reach::Service { .. } => service.clone(),
        }
    }

    /// What is installed, once the port is known.
    pub(crate) fn scope_at(&self, port: u16) -> Scope {
        if self.manage_configuration {
            Scope::All {
                reach: self.reach_at(port),
                writers: self.writers.clone(),
            }
        } else {
            Scope::BundleOnly
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        webhook: WebhookArgs,
    }

    fn parse(args: &[&str]) -> Result<WebhookArgs, clap::Error> {
        Ok(Command::try_parse_from(std::iter::once(&"pilotage").chain(args))?.webhook)
    }

    fn options(args: &[&str]) -> Result<Options, ArgsError> {
        parse(args).unwrap().to_options("pilotage")
    }

    #[test]
    fn defaults_are_for_a_pod_behind_a_service() {
        let options = options(&[]).unwrap();
        assert_eq!(options.addr.to_string(), "[::]:9443");
        assert_eq!(options.reach.names(), ["pilotage-webhook.pilotage.svc"]);
        assert!(options.manage_configuration);
        assert_eq!(options.shutdown_delay, Duration::from_secs(5));
        assert!(matches!(
            options.certificates,
            CertificateSource::Own { namespace, secret, .. } if namespace == "pilotage" && secret == DEFAULT_SECRET
        ));
        assert_eq!(options.writers, Writers::AccountsOf("pilotage".into()));
        let two = self::options(&["--record-writer=a", "--record-writer=b"]).unwrap();
        assert_eq!(two.writers, Writers::Users(vec!["a".into(), "b".into()]));
        let elsewhere =
            parse(&["--webhook-service-namespace=hooks", "--webhook-service=w"]).unwrap();
        assert_eq!(
            elsewhere.to_options("pilotage").unwrap().reach.names(),
            ["w.hooks.svc"]
        );
    }

    #[test]
    fn what_is_printed_is_what_would_be_installed_but_for_the_bundle() {
        let parsed = |args: &[&str]| parse(args).unwrap().admission;
        let objects = parsed(&["--record-writer=a"]).objects("hooks").unwrap();
        let reach = Reach::Service {
            namespace: "hooks".into(),
            name: DEFAULT_SERVICE.into(),
            port: 443,
        };
        let writers = Writers::Users(vec!["a".into()]);
        assert_eq!(objects, objects::all(&reach, &writers, None));
        for (url, want) in [
            ("http://a", ArgsError::Url("http://a".into())),
            ("https://a:0/b", ArgsError::NoPort("https://a:0/b".into())),
        ] {
            let flag = format!("--webhook-url={url}");
            assert_eq!(parsed(&[&flag]).objects("hooks"), Err(want));
        }
    }

    #[test]
    fn port_0_of_a_url_is_the_port_bound() {
        for (url, want) in [
            ("https://127.0.0.1:0", "https://127.0.0.1:7777"),
            ("https://127.0.0.1:0/base", "https://127.0.0.1:7777/base"),
            ("https://[::1]:0", "https://[::1]:7777"),
            ("https://a.example:9443", "https://a.example:9443"),
            ("https://a.example", "https://a.example"),
        ] {
            let options = options(&["--webhook-url", url]).unwrap();
            assert_eq!(options.reach_at(7777), Reach::Url(want.to_owned()));
        }
    }

    #[test]
    fn what_cannot_work_is_refused() {
        for url in [
            "http://a",
            "a:1",
            "https://",
            "https://a?x=1",
            "https://u@a",
        ] {
            assert_eq!(
                options(&["--webhook-url", url]),
                Err(ArgsError::Url(url.to_owned()))
            );
        }
        assert!(matches!(
            options(&["--ca-validity=24h"]),
            Err(ArgsError::Timings(_))
        ));
        assert!(options(&["--shutdown-delay=9s"]).is_ok());
        let error = options(&["--shutdown-delay=10s"]).unwrap_err();
        assert_eq!(error.to_string(), "--shutdown-delay 10s is longer than 9s");
        for args in [
            &["--tls-cert-file=a"][..],
            &["--record-writer="],
            &["--tls-key-file=a"],
            &["--ca-file=a"],
            &["--webhook-url=https://a", "--webhook-service=b"],
            &["--tls-secret=a", "--tls-cert-file=b", "--tls-key-file=c"],
        ] {
            assert!(parse(args).is_err(), "{args:?}");
        }
    }

    #[test]
    fn files_take_the_place_of_the_own_ca() {
        let options = options(&["--tls-cert-file=a", "--tls-key-file=b"]).unwrap();
        assert!(matches!(
            options.certificates,
            CertificateSource::Files { ca: None, .. }
        ));
    }
}
