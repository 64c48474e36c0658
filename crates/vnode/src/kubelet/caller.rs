//! Who calls, by what a request shows: pure. Whether that is true is found out elsewhere (`access`).

use std::collections::BTreeMap;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use k8s_openapi::api::authentication::v1::UserInfo;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The group of all who are known.
const AUTHENTICATED: &str = "system:authenticated";
/// Bytes of a token; a service account's has some thousand.
const LONGEST_TOKEN: usize = 32 << 10;

/// Somebody who is known to the cluster, as its roles name him.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Caller {
    pub(crate) user: String,
    pub(crate) uid: Option<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl Caller {
    /// Whom a certificate names, which somebody has verified: common name and organizations.
    pub(crate) fn of_certificate(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let subject = certificate.subject();
        // The last one counts, as it does for API servers.
        let user = subject.iter_common_name().last()?.as_str().ok()?;
        let organizations = subject.iter_organization();
        let mut groups: Vec<String> = organizations
            .map(|it| it.as_str().map(str::to_owned))
            .collect::<Result<_, _>>()
            .ok()?;
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        let user = Some(user.to_owned()).filter(|user| !user.is_empty())?;
        Some(Self {
            user,
            uid: None,
            groups,
            extra: BTreeMap::new(),
        })
    }

    /// Whom the API server names for a token.
    pub(crate) fn of_review(user: UserInfo) -> Option<Self> {
        Some(Self {
            user: user.username.filter(|name| !name.is_empty())?,
            uid: user.uid.filter(|uid| !uid.is_empty()),
            groups: user.groups.unwrap_or_default(),
            extra: user.extra.unwrap_or_default(),
        })
    }
}

/// The bearer token of a request.
pub(crate) fn token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    let fits = scheme.eq_ignore_ascii_case("bearer")
        && !token.is_empty()
        && token.len() <= LONGEST_TOKEN
        && !token.contains(' ');
    fits.then_some(token)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn certificate(names: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), *name);
        }
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn a_certificate_names_a_user_and_his_groups() {
        let named = certificate(&[
            (DnType::CommonName, "kube-apiserver-kubelet-client"),
            (DnType::OrganizationName, "system:masters"),
        ]);
        let caller = Caller::of_certificate(&named).unwrap();
        assert_eq!(caller.user, "kube-apiserver-kubelet-client");
        assert_eq!(caller.groups, ["system:masters", AUTHENTICATED]);
        for nobody in [
            certificate(&[(DnType::OrganizationName, "system:masters")]),
            certificate(&[(DnType::CommonName, "")]),
            b"garbage".to_vec(),
            Vec::new(),
        ] {
            assert_eq!(Caller::of_certificate(&nobody), None);
        }
    }

    #[test]
    fn a_token_is_one_word_of_bounded_length() {
        let of = |value: &str| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
            token(&headers).map(str::to_owned)
        };
        assert_eq!(of("Bearer a.b.c").as_deref(), Some("a.b.c"));
        assert_eq!(of("bearer  a").as_deref(), Some("a"));
        let long = format!("Bearer {}", "x".repeat(LONGEST_TOKEN + 1));
        for none in ["Bearer", "Bearer ", "Basic a", "a", "Bearer a b", &long] {
            assert_eq!(of(none), None, "{none}");
        }
        assert_eq!(token(&HeaderMap::new()), None);
    }

    #[test]
    fn who_has_no_name_is_nobody() {
        assert_eq!(Caller::of_review(UserInfo::default()), None);
    }
}
