//! Whether certificates do what they are for: an API server that trusts the bundle accepts what the webhook shows.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use thiserror::Error;

use super::Material;

/// Why an API server would refuse the webhook's certificate.
#[derive(Debug, Error)]
pub enum CheckError {
    /// A certificate is no PEM.
    #[error("a certificate isn't PEM: {0}")]
    Pem(rustls_pki_types::pem::Error),
    /// A name is neither a DNS name nor an IP address.
    #[error("{0:?} is no name of a server")]
    Name(String),
    /// The time is before 1970.
    #[error("the clock says {0}")]
    Clock(Timestamp),
    /// The bundle has no CA in it.
    #[error("the bundle can't be used: {0}")]
    Bundle(String),
    /// Not trusted, expired, or made for another name.
    #[error("the serving certificate isn't accepted for {name:?}: {source}")]
    Refused {
        /// The name asked for.
        name: String,
        /// Why.
        #[source]
        source: rustls::Error,
    },
}

/// Checks that the key, the certificate and the bundle of `material` go together for all `names` at `now`.
pub fn usable(material: &Material, names: &[String], now: Timestamp) -> Result<(), CheckError> {
    accepted(
        &material.bundle(),
        &material.serving.certificate,
        names,
        now,
    )
}

/// Checks that who trusts `bundle` accepts `certificate` for all `names` at `now`.
pub fn accepted(
    bundle: &str,
    certificate: &str,
    names: &[String],
    now: Timestamp,
) -> Result<(), CheckError> {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots
            .add(root.map_err(CheckError::Pem)?)
            .map_err(|error| CheckError::Bundle(error.to_string()))?;
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(
        Arc::new(roots),
        Arc::new(ring::default_provider()),
    )
    .build()
    .map_err(|error| CheckError::Bundle(error.to_string()))?;
    let certificate =
        CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(CheckError::Pem)?;
    let seconds = u64::try_from(now.as_second()).map_err(|_| CheckError::Clock(now))?;
    let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    for name in names {
        let server =
            ServerName::try_from(name.as_str()).map_err(|_| CheckError::Name(name.clone()))?;
        verifier
            .verify_server_cert(&certificate, &[], &server, &[], now)
            .map_err(|source| CheckError::Refused {
                name: name.clone(),
                source,
            })?;
    }
    Ok(())
}
