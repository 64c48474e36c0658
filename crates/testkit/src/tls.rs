//! TLS for what the testkit serves by itself: a serving certificate of a given authority. It knows nothing of what is
//! said over it.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::plane::certs::{self, Authority};

/// HTTP/2 in the handshake.
pub(crate) const HTTP2: &[u8] = b"h2";
/// HTTP/1.1 in the handshake.
pub(crate) const HTTP1: &[u8] = b"http/1.1";

/// TLS can't be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No serving certificate.
    #[error(transparent)]
    Certificate(#[from] certs::Error),
    /// The serving certificate can't be read.
    #[error("the serving certificate can't be read")]
    Pem(#[from] rustls_pki_types::pem::Error),
    /// TLS can't be configured.
    #[error("TLS can't be configured")]
    Config(#[from] rustls::Error),
}

/// Good for any port of the loopback address, like an API server's own certificate. A client that names protocols has
/// to name one of `protocols`.
pub(crate) fn acceptor(
    authority: &Authority,
    name: &str,
    protocols: &[&[u8]],
) -> Result<TlsAcceptor, Error> {
    let pair = authority.server(name, &["127.0.0.1", "localhost"])?;
    let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

pub(crate) fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
