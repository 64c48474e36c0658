//! Keys and certificates of one control plane: the CA, what it signs, and the service accounts' key pair. Lives in
//! memory; it knows nothing of files or flags.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};

/// A certificate or key could not be made.
#[derive(Debug, thiserror::Error)]
#[error("can't make a certificate for {subject}")]
pub struct Error {
    subject: String,
    #[source]
    source: rcgen::Error,
}

/// A certificate with its private key, both PEM.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The private key (PKCS #8).
    pub key: String,
}

/// A certificate authority.
pub struct Authority {
    certificate: String,
    der: Vec<u8>,
    key: String,
    issuer: Issuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// A new one, valid for a year from yesterday.
    pub fn new(name: &str) -> Result<Self, Error> {
        let wrap = |source| Error {
            subject: name.to_owned(),
            source,
        };
        let mut params = dated(CertificateParams::default());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
        ];
        params.distinguished_name.push(DnType::CommonName, name);
        let key_pair = KeyPair::generate().map_err(wrap)?;
        let key = key_pair.serialize_pem();
        let certificate = params.self_signed(&key_pair).map_err(wrap)?;
        Ok(Self {
            certificate: certificate.pem(),
            der: certificate.der().to_vec(),
            key,
            issuer: Issuer::new(params, key_pair),
        })
    }

    /// Its own certificate, PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Its own certificate, DER.
    pub fn certificate_der(&self) -> &[u8] {
        &self.der
    }

    /// Its own key, PEM.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// A serving certificate for host names and IP addresses.
    pub fn server(&self, common_name: &str, hosts: &[&str]) -> Result<Pair, Error> {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let params = CertificateParams::new(hosts).map_err(|source| Error {
            subject: common_name.to_owned(),
            source,
        })?;
        self.sign(
            params,
            common_name,
            None,
            ExtendedKeyUsagePurpose::ServerAuth,
        )
    }

    /// A client certificate: `user` is the user's name, `group` its group, as Kubernetes reads common name and
    /// organization.
    pub fn client(&self, user: &str, group: Option<&str>) -> Result<Pair, Error> {
        self.sign(
            CertificateParams::default(),
            user,
            group,
            ExtendedKeyUsagePurpose::ClientAuth,
        )
    }

    fn sign(
        &self,
        params: CertificateParams,
        common_name: &str,
        organization: Option<&str>,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Pair, Error> {
        let wrap = |source| Error {
            subject: common_name.to_owned(),
            source,
        };
        let mut params = dated(params);
        params
            .distinguished_name
            .push(DnType::CommonName, common_name);
        if let Some(organization) = organization {
            params
                .distinguished_name
                .push(DnType::OrganizationName, organization);
        }
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
        ];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().map_err(wrap)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(wrap)?;
        Ok(Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// The key pair that signs service-account tokens: private and public PEM.
pub fn service_account_keys() -> Result<(String, String), Error> {
    let key = KeyPair::generate().map_err(|source| Error {
        subject: "service accounts".to_owned(),
        source,
    })?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

fn dated(mut params: CertificateParams) -> CertificateParams {
    let now = OffsetDateTime::now_utc();
    params.not_before = now - Duration::DAY;
    params.not_after = now + Duration::days(365);
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
}
