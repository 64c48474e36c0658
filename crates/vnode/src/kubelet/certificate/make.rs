//! Making keys, requests for certificates, and certificates that nobody else has signed. The time is an argument;
//! randomness is the operating system's, since keys must be.

use jiff::{SignedDuration, Timestamp};
use pilotage_model::virtual_node::KubeletAddress;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose,
};
use thiserror::Error;
use time::OffsetDateTime;

/// Whom it names: signers take nothing but names of nodes for kubelets. It is none, and the certificate is good for
/// servers only.
const NAME: &str = "system:node:pilotage-virtual-nodes";
/// The group of all nodes, which signers ask for.
const GROUP: &str = "system:nodes";
/// How long our own are good; two thirds of that are used.
const LIFE: SignedDuration = SignedDuration::from_hours(90 * 24);
/// They begin that much earlier, for API servers whose clock is behind.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_hours(1);

/// Why one can't be made.
#[derive(Debug, Error)]
pub(super) enum MakeError {
    #[error("failed to make {what}: {source}")]
    Make {
        what: &'static str,
        #[source]
        source: rcgen::Error,
    },
    #[error("a certificate can't carry a time so far away")]
    Time,
}

/// A request, and the key that it is for; both PEM.
pub(super) struct Made {
    pub(super) request: String,
    pub(super) key: String,
}

fn making(what: &'static str) -> impl Fn(rcgen::Error) -> MakeError {
    move |source| MakeError::Make { what, source }
}

fn params(address: &KubeletAddress) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new([address.to_string()])?;
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::OrganizationName, GROUP);
    params.distinguished_name.push(DnType::CommonName, NAME);
    Ok(params)
}

/// A new key, and a request for a serving certificate for it.
pub(super) fn request(address: &KubeletAddress) -> Result<Made, MakeError> {
    let wrap = making("a request for a certificate");
    let key = KeyPair::generate().map_err(&wrap)?;
    let params = params(address).map_err(&wrap)?;
    let request = params.serialize_request(&key).map_err(&wrap)?;
    Ok(Made {
        request: request.pem().map_err(&wrap)?,
        key: key.serialize_pem(),
    })
}

/// A new key with a certificate of its own signature: certificate and key.
pub(super) fn self_signed(
    address: &KubeletAddress,
    now: Timestamp,
) -> Result<(String, String), MakeError> {
    let wrap = making("a certificate");
    let key = KeyPair::generate().map_err(&wrap)?;
    let mut params = params(address).map_err(&wrap)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let begin = now
        .saturating_sub(CLOCK_SKEW)
        .map_err(|_| MakeError::Time)?;
    let end = now.saturating_add(LIFE).map_err(|_| MakeError::Time)?;
    (params.not_before, params.not_after) = (date(begin)?, date(end)?);
    let certificate = params.self_signed(&key).map_err(&wrap)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn date(time: Timestamp) -> Result<OffsetDateTime, MakeError> {
    OffsetDateTime::from_unix_timestamp(time.as_second()).map_err(|_| MakeError::Time)
}

#[cfg(test)]
mod tests {
    use pilotage_runtime::tls::Certificates;
    use x509_parser::certification_request::X509CertificationRequest;
    use x509_parser::extensions::{GeneralName, ParsedExtension};
    use x509_parser::pem::Pem;
    use x509_parser::prelude::FromDer;

    use super::*;

    #[test]
    fn what_nobody_else_has_signed_can_be_shown() {
        let (chain, key) = self_signed(&"a.b".parse().unwrap(), Timestamp::now()).unwrap();
        let certificates = Certificates::new();
        certificates
            .replace(chain.as_bytes(), key.as_bytes())
            .unwrap();
        assert!(certificates.is_loaded());
    }

    #[test]
    fn a_request_is_one_that_the_signer_of_kubelets_takes() {
        for (address, is_ip) in [("10.1.2.3", true), ("2001:db8::1", true), ("a.b", false)] {
            let made = request(&address.parse().unwrap()).unwrap();
            let pem = Pem::iter_from_buffer(made.request.as_bytes()).next();
            let pem = pem.unwrap().unwrap();
            let (_, request) = X509CertificationRequest::from_der(&pem.contents).unwrap();
            let subject = &request.certification_request_info.subject;
            let name = subject.iter_common_name().next().unwrap();
            assert!(name.as_str().unwrap().starts_with("system:node:"));
            let groups: Vec<_> = subject
                .iter_organization()
                .map(|it| it.as_str().unwrap())
                .collect();
            assert_eq!(groups, [GROUP]);
            let names: Vec<_> = request
                .requested_extensions()
                .unwrap()
                .filter_map(|extension| match extension {
                    ParsedExtension::SubjectAlternativeName(names) => Some(&names.general_names),
                    _ => None,
                })
                .flatten()
                .collect();
            assert_eq!(names.len(), 1);
            assert_eq!(matches!(names[0], GeneralName::IPAddress(_)), is_ip);
        }
    }
}
