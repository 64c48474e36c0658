//! Why a server's certificate was refused, in words of our own: rustls quotes the names in it, and these are the
//! server's word. It must not know what the connection was for.

use std::error::Error as StdError;
use std::io;

use rustls::CertificateError;

/// What is wrong with the certificate, if that is why a call failed.
pub(super) fn refused(error: &(dyn StdError + 'static)) -> Option<&'static str> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = within(error) {
            return Some(words(error));
        }
        next = error.source();
    }
    None
}

/// An [`io::Error`] hides the error that it holds: its source is that one's source.
fn within<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a CertificateError> {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return within(error.get_ref()?);
    }
    match error.downcast_ref()? {
        rustls::Error::InvalidCertificate(error) => Some(error),
        _ => None,
    }
}

fn words(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::BadEncoding => "it can't be read",
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it isn't valid yet"
        }
        CertificateError::Revoked => "it is revoked",
        CertificateError::UnknownIssuer => "no known authority has issued it",
        CertificateError::BadSignature => "its signature is wrong",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another name than that of the server"
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "it isn't for servers"
        }
        _ => "it isn't valid",
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::ServerName;

    use super::*;
    use crate::call::describe;

    fn nested(error: CertificateError) -> kube::Error {
        let error = io::Error::other(rustls::Error::InvalidCertificate(error));
        kube::Error::Service(Box::new(io::Error::other(error)))
    }

    #[test]
    fn no_word_of_a_certificate_is_repeated() {
        let error = nested(CertificateError::NotValidForNameContext {
            expected: ServerName::try_from("asked.example").unwrap(),
            presented: vec!["DnsName(\"private.wiki\")".to_owned()],
        });
        assert!(error.to_string().contains("private.wiki"), "{error}");
        assert_eq!(
            describe(&error),
            "the server's certificate is refused: it is for another name than that of the server"
        );
    }

    #[test]
    fn the_reason_is_told() {
        let text = describe(&nested(CertificateError::UnknownIssuer));
        assert!(text.ends_with("no known authority has issued it"), "{text}");
        assert_eq!(refused(&io::Error::other("no luck")), None);
    }
}
