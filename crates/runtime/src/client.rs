//! Clients of Kubernetes API servers, made the same way everywhere.
//!
//! Owns configuration sources, time-outs and User-Agent. Must not know which cluster is which.

mod silence;

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use kube::client::{Body, ClientBuilder, DynBody};
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use thiserror::Error;
use tower::BoxError;
use tower::util::BoxService;

use crate::args::ClientArgs;
use silence::SilenceLimit;

/// Limit for a TCP connection with its TLS handshake.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Limit for silence where an answer is waited for. The API server sends a bookmark on a quiet watch about
/// every minute, so that only a watch whose connection is dead is cut.
const SILENCE_LIMIT: Duration = Duration::from_mins(2);

/// Why there is no client.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The kubeconfig file, or a file it names, can't be used.
    #[error("failed to read kubeconfig {path}: {source}")]
    Kubeconfig {
        /// Path as given.
        path: String,
        /// What is wrong.
        #[source]
        source: KubeconfigError,
    },
    /// No kubeconfig was given and this isn't a pod with a service account.
    #[error(
        "no cluster to work for: give --kubeconfig or KUBECONFIG, or run in a pod with a service account ({0})"
    )]
    NotInCluster(#[source] InClusterError),
    /// The component's name isn't fit for a User-Agent header.
    #[error("component name {0:?} can't be sent as User-Agent")]
    Component(String),
    /// Certificates, keys or the server's address can't be used.
    #[error("failed to build a client for {server}: {source}")]
    Build {
        /// URL of the API server.
        server: String,
        /// What is wrong.
        #[source]
        source: kube::Error,
    },
}

/// Installs the process-wide TLS provider. May be called any number of times.
pub fn install_crypto_provider() {
    // An error means that one is installed already, which is just as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The client for the cluster that `args` name; `component` goes into the User-Agent, so that audit
/// logs and API priority rules can tell our components apart.
pub async fn connect(args: &ClientArgs, component: &str) -> Result<Client, ClientError> {
    from_config(load_config(args).await?, component)
}

/// The connection settings that `args` name.
pub fn load_config(args: &ClientArgs) -> BoxFuture<'_, Result<Config, ClientError>> {
    async move {
        install_crypto_provider();
        let (path, kubeconfig) = match &args.kubeconfig {
            Some(path) => (
                path.display().to_string(),
                Kubeconfig::read_from(path).map(Some),
            ),
            None => (
                std::env::var("KUBECONFIG").unwrap_or_default(),
                Kubeconfig::from_env(),
            ),
        };
        let wrap = |source| ClientError::Kubeconfig {
            path: path.clone(),
            source,
        };
        match kubeconfig.map_err(wrap)? {
            Some(kubeconfig) => {
                let options = KubeConfigOptions {
                    context: args.context.clone(),
                    ..KubeConfigOptions::default()
                };
                Config::from_custom_kubeconfig(kubeconfig, &options)
                    .await
                    .map_err(wrap)
            }
            None => Config::incluster().map_err(ClientError::NotInCluster),
        }
    }
    .boxed()
}

/// A client for `config`, with our time-outs and User-Agent and without any rate limit of its own
/// (see [`crate::throttle`]): the API server's priority and fairness decides who waits.
///
/// Ordinary calls go through [`crate::call::within`]; the limit for silence here is for watches, whose
/// connection may die unnoticed. It would cut a quiet exec or log stream.
pub fn from_config(config: Config, component: &str) -> Result<Client, ClientError> {
    let builder = build(config, component)?;
    let client = builder.with_layer(&SilenceLimit(SILENCE_LIMIT));
    Ok(client.build())
}

/// The same for streams, which may be silent and may stand still for as long as their users like.
pub fn for_streams(config: Config, component: &str) -> Result<Client, ClientError> {
    Ok(build(config, component)?.build())
}

/// What kube makes of settings.
type Service = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

fn build(config: Config, component: &str) -> Result<ClientBuilder<Service>, ClientError> {
    let mut config = name(config, component)?;
    config.connect_timeout = Some(CONNECT_LIMIT);
    // Their timers would be set with each piece that is read or written.
    config.read_timeout = None;
    config.write_timeout = None;
    let server = config.cluster_url.to_string();
    ClientBuilder::try_from(config).map_err(|source| ClientError::Build { server, source })
}

/// The same settings with our User-Agent, for who builds the client.
pub fn name(mut config: Config, component: &str) -> Result<Config, ClientError> {
    install_crypto_provider();
    let agent = format!("pilotage/{} ({component})", env!("CARGO_PKG_VERSION"));
    let agent =
        HeaderValue::from_str(&agent).map_err(|_| ClientError::Component(component.to_owned()))?;
    config.headers.retain(|(name, _)| *name != USER_AGENT);
    config.headers.push((USER_AGENT, agent));
    Ok(config)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[tokio::test]
    async fn a_missing_kubeconfig_is_named() {
        let args = ClientArgs {
            kubeconfig: Some(PathBuf::from("/nowhere/kubeconfig")),
            context: None,
        };
        let error = load_config(&args).await.unwrap_err();
        assert!(error.to_string().contains("/nowhere/kubeconfig"), "{error}");
    }

    #[tokio::test]
    async fn a_component_needs_a_sendable_name() {
        let config = Config::new("http://127.0.0.1:1".parse().unwrap());
        assert!(from_config(config.clone(), "proxy-scheduler").is_ok());
        assert!(matches!(
            from_config(config, "a\nb"),
            Err(ClientError::Component(_))
        ));
    }
}
