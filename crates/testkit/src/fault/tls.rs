//! TLS on both sides of a fault proxy: a serving certificate of the plane's own CA, and connectors that trust that CA.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::Error;
use crate::plane::certs::Authority;

/// HTTP/2 in the handshake.
pub(super) const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// One connector for each version of HTTP.
pub(super) struct Connectors {
    http1: TlsConnector,
    http2: TlsConnector,
}

impl Connectors {
    pub(super) fn new(authority: &Authority) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(authority.certificate_der().to_vec()))?;
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let speaking = |protocol: &[u8]| {
            let mut config = config.clone();
            config.alpn_protocols = vec![protocol.to_vec()];
            TlsConnector::from(Arc::new(config))
        };
        Ok(Self {
            http1: speaking(HTTP1),
            http2: speaking(HTTP2),
        })
    }

    pub(super) fn of(&self, is_http2: bool) -> &TlsConnector {
        if is_http2 { &self.http2 } else { &self.http1 }
    }
}

/// Good for any port of the loopback address, like the API server's own certificate.
pub(super) fn acceptor(authority: &Authority) -> Result<TlsAcceptor, Error> {
    let pair = authority.server("fault-proxy", &["127.0.0.1", "localhost"])?;
    let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
