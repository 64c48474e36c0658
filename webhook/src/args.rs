//! The webhook's flags, and the checked options that they become.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args};
use pilotage_runtime::args::parse_duration;
use thiserror::Error;

use crate::certs::plan::{Timings, TimingsError};
use crate::install::Scope;
use crate::objects::{Reach, Writers, host};

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
    /// Address to serve admission reviews on, over TLS. Port 0 takes a free port.
    #[arg(long, value_name = "IP:PORT", default_value = "0.0.0.0:9443")]
    pub webhook_addr: SocketAddr,

    /// How long the webhook goes on after SIGTERM, for API servers that learn late that it ends. At most 9s.
    ///
    /// From the signal on it isn't ready. Afterwards it answers open reviews and ends. In `pilotage all`, no other
    /// replica takes over the Leases before that.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    pub shutdown_delay: Duration,

    /// URL by which the API server reaches this webhook, if it isn't a Service of the same cluster.
    ///
    /// For a webhook that runs outside of the cluster: `https://192.0.2.7:9443`. Port 0 stands for the port really
    /// bound. The certificate is made for its host.
    #[arg(long, value_name = "URL", conflicts_with_all = ["webhook_service", "webhook_service_namespace",
        "webhook_service_port"])]
    pub webhook_url: Option<String>,

    /// Service by which the API server reaches this webhook.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_SERVICE)]
    pub webhook_service: String,

    /// Namespace of the Service. Default: the namespace of this pod, or of the kubeconfig's context.
    #[arg(long, value_name = "NAMESPACE")]
    pub webhook_service_namespace: Option<String>,

    /// Port of the Service.
    #[arg(long, value_name = "PORT", default_value_t = 443)]
    pub webhook_service_port: u16,

    /// Install and repair the MutatingWebhookConfiguration and the policy that guards proxy pods.
    ///
    /// With --manage-configuration=false they must be installed otherwise, and only the CA bundle is put into the
    /// former.
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

    /// User that may write the record of a proxy pod, as the API server calls it. May be given several times.
    ///
    /// Only Pilotage's own accounts should: whoever changes the record can have a second delegate started. Default: all
    /// service accounts of the namespace where the webhook runs.
    #[arg(long = "record-writer", value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
    pub record_writers: Vec<String>,

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

impl WebhookArgs {
    /// The checked options; `namespace` is where this process runs.
    pub fn to_options(&self, namespace: &str) -> Result<Options, ArgsError> {
        if self.shutdown_delay > LONGEST_DELAY {
            return Err(ArgsError::ShutdownDelay(self.shutdown_delay));
        }
        let reach = match &self.webhook_url {
            Some(url) if host(url).is_none() || url.contains(['?', '#', '@']) => {
                return Err(ArgsError::Url(url.clone()));
            }
            Some(url) => Reach::Url(url.clone()),
            None => Reach::Service {
                namespace: self
                    .webhook_service_namespace
                    .clone()
                    .unwrap_or_else(|| namespace.to_owned()),
                name: self.webhook_service.clone(),
                port: self.webhook_service_port,
            },
        };
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
        let writers = if self.record_writers.is_empty() {
            Writers::AccountsOf(namespace.to_owned())
        } else {
            Writers::Users(self.record_writers.clone())
        };
        Ok(Options {
            addr: self.webhook_addr,
            shutdown_delay: self.shutdown_delay,
            reach,
            writers,
            manage_configuration: self.manage_configuration,
            certificates,
        })
    }
}

impl Options {
    /// Puts the port really bound into a URL with port 0.
    pub(crate) fn reach_at(&self, port: u16) -> Reach {
        match &self.reach {
            Reach::Url(url) => {
                let (scheme, rest) = url.split_at("https://".len());
                let (authority, path) = rest
                    .find('/')
                    .map_or((rest, ""), |slash| rest.split_at(slash));
                match authority.strip_suffix(":0") {
                    Some(host) => Reach::Url(format!("{scheme}{host}:{port}{path}")),
                    None => self.reach.clone(),
                }
            }
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
