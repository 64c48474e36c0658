//! The certificate that a TLS server shows, and the authorities of those that clients show it: both replaceable while
//! it serves.
//!
//! Owns parsing, checking and re-reading of certificate and key. Must not know where they come from:
//! files are polled here, other sources call [`Certificates::replace`] and [`ClientAuthorities::replace`].
//!
//! Files are polled, not watched: Kubernetes swaps a mounted Secret by a symbolic link, after which
//! a file watch hears nothing any more.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{self, ring};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, VerifierBuilderError,
    WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
};
pub use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{PrivateKeyDer, UnixTime};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

/// How often certificate files are re-read.
pub const RELOAD_PERIOD: Duration = Duration::from_secs(10);

/// Why a certificate and key can't be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file can't be read.
    #[error("failed to read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: std::io::Error,
    },
    /// The certificate chain is no PEM, or empty.
    #[error("the certificate isn't PEM: {0}")]
    Certificate(rustls_pki_types::pem::Error),
    /// There is no certificate in it.
    #[error("the certificate file holds no certificate")]
    NoCertificate,
    /// The key is no PEM.
    #[error("the private key isn't PEM: {0}")]
    Key(rustls_pki_types::pem::Error),
    /// The key isn't one of RSA, ECDSA or Ed25519, or isn't the certificate's.
    #[error("certificate and private key don't make a pair: {0}")]
    Pair(#[source] rustls::Error),
    /// The server can't be configured.
    #[error("failed to configure TLS: {0}")]
    Config(#[source] rustls::Error),
    /// The bundle of client authorities is no PEM.
    #[error("the bundle of client authorities isn't PEM: {0}")]
    Bundle(rustls_pki_types::pem::Error),
    /// None of them can be used.
    #[error("the bundle holds no certificate of a client authority that can be used: {0}")]
    NoAuthority(#[source] VerifierBuilderError),
}

/// The certificate and key now in use; clones share them.
#[derive(Clone, Default)]
pub struct Certificates {
    current: Arc<ArcSwapOption<CertifiedKey>>,
}

impl Certificates {
    /// Without a certificate: handshakes fail until there is one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces certificate chain and key, both PEM. New handshakes use them at once. On an error
    /// the old ones stay.
    pub fn replace(&self, chain_pem: &[u8], key_pem: &[u8]) -> Result<(), TlsError> {
        let pair = parse(chain_pem, key_pem)?;
        self.current.store(Some(Arc::new(pair)));
        Ok(())
    }

    /// Whether there is a certificate to show.
    pub fn is_loaded(&self) -> bool {
        self.current.load().is_some()
    }

    /// A TLS server configuration that shows what is current at each handshake.
    pub fn server_config(&self) -> Result<ServerConfig, TlsError> {
        self.configure(WebPkiClientVerifier::no_client_auth())
    }

    /// The same, for clients that may show certificates of these authorities, and need not.
    pub fn server_config_for(
        &self,
        authorities: &ClientAuthorities,
    ) -> Result<ServerConfig, TlsError> {
        let mut config = self.configure(Arc::new(authorities.clone()))?;
        // A resumed session would bring a certificate along that nobody has looked at again.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    fn configure(&self, clients: Arc<dyn ClientCertVerifier>) -> Result<ServerConfig, TlsError> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Config)?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(Arc::new(self.clone()));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.load_full()
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("loaded", &self.is_loaded())
            .finish()
    }
}

/// The authorities whose certificates clients may show; clones share them. Before there are any, no certificate is
/// taken. Who shows none may connect all the same.
#[derive(Clone, Default)]
pub struct ClientAuthorities {
    current: Arc<ArcSwapOption<Verifier>>,
}

struct Verifier(Arc<dyn ClientCertVerifier>);

impl ClientAuthorities {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces all of them by those of a bundle, PEM. On an error the old ones stay.
    pub fn replace(&self, bundle_pem: &[u8]) -> Result<(), TlsError> {
        let bundle: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(bundle_pem)
            .collect::<Result<_, _>>()
            .map_err(TlsError::Bundle)?;
        let mut roots = RootCertStore::empty();
        // One that can't be used must not take the others along.
        let _ = roots.add_parsable_certificates(bundle);
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(TlsError::NoAuthority)?;
        self.current.store(Some(Arc::new(Verifier(verifier))));
        Ok(())
    }

    /// Whether there are any.
    pub fn is_loaded(&self) -> bool {
        self.current.load().is_some()
    }

    /// Whether one of them has signed this chain, the client's own certificate first, and it is valid now. A connection
    /// may be older than that.
    pub fn accepts(&self, chain: &[CertificateDer<'_>]) -> Result<(), rustls::Error> {
        let Some((own, rest)) = chain.split_first() else {
            return Err(rustls::Error::NoCertificatesPresented);
        };
        self.verify_client_cert(own, rest, UnixTime::now())
            .map(drop)
    }
}

impl fmt::Debug for ClientAuthorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientAuthorities")
            .field("loaded", &self.is_loaded())
            .finish()
    }
}

impl ClientCertVerifier for ClientAuthorities {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// None: which they are changes, and a client that isn't told sends what it has.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        match self.current.load_full() {
            Some(verifier) => verifier
                .0
                .verify_client_cert(end_entity, intermediates, now),
            None => Err(rustls::Error::General(
                "no authority of client certificates is known yet".to_owned(),
            )),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        crypto::verify_tls12_signature(message, cert, dss, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        crypto::verify_tls13_signature(message, cert, dss, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

fn parse(chain_pem: &[u8], key_pem: &[u8]) -> Result<CertifiedKey, TlsError> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(chain_pem)
        .collect::<Result<_, _>>()
        .map_err(TlsError::Certificate)?;
    if chain.is_empty() {
        return Err(TlsError::NoCertificate);
    }
    let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(TlsError::Key)?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(TlsError::Pair)
}

/// A certificate and a key in two files, kept up to date.
#[derive(Debug)]
pub struct CertificateFiles {
    chain: PathBuf,
    key: PathBuf,
    certificates: Certificates,
    seen: Option<(Vec<u8>, Vec<u8>)>,
}

/// What one look at the files gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reload {
    /// The same bytes as last time, good or bad.
    Unchanged,
    /// A new pair is in use.
    Replaced,
}

impl CertificateFiles {
    /// Files `chain` and `key` (PEM), to be put into `certificates`. Reads nothing yet.
    pub fn new(chain: PathBuf, key: PathBuf, certificates: Certificates) -> Self {
        Self {
            chain,
            key,
            certificates,
            seen: None,
        }
    }

    /// Reads both files and puts the pair to use if the bytes changed and make a pair. Bytes that
    /// don't are reported once; the old pair stays in use.
    pub async fn reload(&mut self) -> Result<Reload, TlsError> {
        let pair = (read(&self.chain).await?, read(&self.key).await?);
        if self.seen.as_ref() == Some(&pair) {
            return Ok(Reload::Unchanged);
        }
        let replaced = self.certificates.replace(&pair.0, &pair.1);
        self.seen = Some(pair);
        replaced.map(|()| Reload::Replaced)
    }

    /// Looks at the files every [`RELOAD_PERIOD`] until `token` is cancelled.
    pub async fn watch(mut self, token: CancellationToken) {
        let mut ticks = tokio::time::interval(RELOAD_PERIOD);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = token.cancelled() => return,
                _ = ticks.tick() => {}
            }
            match self.reload().await {
                Ok(Reload::Unchanged) => {}
                Ok(Reload::Replaced) => {
                    tracing::info!(path = %self.chain.display(), "certificate replaced");
                }
                Err(error) => {
                    tracing::warn!(%error, "certificate not replaced, the old one stays in use");
                }
            }
        }
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    tokio::fs::read(path)
        .await
        .map_err(|source| TlsError::Read {
            path: path.to_owned(),
            source,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str) -> (String, String) {
        let pair = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        (pair.cert.pem(), pair.signing_key.serialize_pem())
    }

    fn shown(certificates: &Certificates) -> Vec<u8> {
        certificates.current.load().as_ref().unwrap().cert[0].to_vec()
    }

    #[test]
    fn a_bad_pair_never_replaces_a_good_one() {
        let certificates = Certificates::new();
        let (chain, key) = pair("one");
        let (_, other_key) = pair("two");
        certificates
            .replace(chain.as_bytes(), key.as_bytes())
            .unwrap();
        let good = shown(&certificates);
        for (chain, key, want) in [
            ("", key.as_str(), "holds no certificate"),
            (chain.as_str(), "", "private key isn't PEM"),
            (chain.as_str(), other_key.as_str(), "don't make a pair"),
            (
                "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----",
                key.as_str(),
                "isn't PEM",
            ),
        ] {
            let error = certificates
                .replace(chain.as_bytes(), key.as_bytes())
                .unwrap_err();
            assert!(error.to_string().contains(want), "{error} lacks {want:?}");
            assert_eq!(shown(&certificates), good);
        }
    }

    #[tokio::test]
    async fn files_are_swapped_as_kubernetes_does_and_compared_by_bytes() {
        let dir = std::env::temp_dir().join(format!("pilotage-tls-{}", std::process::id()));
        let write = |name: &str, (chain, key): (String, String)| {
            let target = dir.join(name);
            std::fs::create_dir_all(&target).unwrap();
            std::fs::write(target.join("tls.crt"), chain).unwrap();
            std::fs::write(target.join("tls.key"), key).unwrap();
            let link = dir.join("new");
            std::os::unix::fs::symlink(&target, &link).unwrap();
            std::fs::rename(&link, dir.join("data")).unwrap();
        };
        let certificates = Certificates::new();
        let mut files = CertificateFiles::new(
            dir.join("data/tls.crt"),
            dir.join("data/tls.key"),
            certificates.clone(),
        );
        assert!(matches!(files.reload().await, Err(TlsError::Read { .. })));
        assert!(!certificates.is_loaded());

        write("first", pair("one"));
        assert_eq!(files.reload().await.unwrap(), Reload::Replaced);
        assert_eq!(files.reload().await.unwrap(), Reload::Unchanged);
        let first = shown(&certificates);

        write("bad", (pair("one").0, pair("two").1));
        assert!(matches!(files.reload().await, Err(TlsError::Pair(_))));
        assert_eq!(files.reload().await.unwrap(), Reload::Unchanged);
        assert_eq!(shown(&certificates), first);

        write("second", pair("one"));
        assert_eq!(files.reload().await.unwrap(), Reload::Replaced);
        assert_ne!(shown(&certificates), first);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
