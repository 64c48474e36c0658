//! TLS from a fault proxy to its API server: connectors that trust the plane's own CA.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use tokio_rustls::TlsConnector;

pub(super) use crate::tls::{HTTP1, HTTP2};

use crate::plane::certs::Authority;
use crate::tls::{Error, provider};

/// One connector for each version of HTTP.
pub(crate) struct Connectors {
    http1: TlsConnector,
    http2: TlsConnector,
}

impl Connectors {
    pub(crate) fn new(authority: &Authority) -> Result<Self, Error> {
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

    pub(crate) fn of(&self, is_http2: bool) -> &TlsConnector {
        if is_http2 { &self.http2 } else { &self.http1 }
    }
}
