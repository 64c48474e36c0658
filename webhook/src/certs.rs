//! The webhook's own certificates: a CA of its own and a serving certificate, kept in a Secret, shared by all replicas.
//!
//! | module | owns |
//! | --- | --- |
//! | [`plan`] | what is to be done and when: pure |
//! | [`issue`] | making keys and certificates |
//! | [`check`] | whether they do what they are for |
//! | [`keeper`] | the Secret: compare-and-swap, watch, and handing over what it holds |
//!
//! A CA is rotated in three steps, each [`plan::Timings::overlap`] after the one before, so that at any moment every
//! API server trusts what every replica shows: the new CA is *published* (trusted, signs nothing), then *used* (it
//! signs a new serving certificate), then the old one is *retired* (no longer trusted).

pub mod check;
pub mod issue;
pub mod keeper;
pub mod plan;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Everything that the Secret holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Material {
    /// The CA that signs.
    pub ca: Authority,
    /// The serving certificate, signed by [`Self::ca`].
    pub serving: Serving,
    /// A CA that is trusted already and signs once the time has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
    /// A CA that signs no more and is still trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retired: Option<Retired>,
}

/// A certificate authority.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Authority {
    /// Common name, different for each CA.
    pub name: String,
    /// When it expires.
    pub not_after: Timestamp,
    /// The certificate, PEM.
    pub certificate: String,
    /// The private key, PEM.
    pub key: String,
}

/// A serving certificate.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Serving {
    /// DNS names and IP addresses that it is good for.
    pub names: Vec<String>,
    /// When it was made.
    pub made: Timestamp,
    /// When it expires.
    pub not_after: Timestamp,
    /// The certificate, PEM.
    pub certificate: String,
    /// The private key, PEM.
    pub key: String,
}

/// A CA that will sign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Next {
    /// The CA.
    pub ca: Authority,
    /// From when on.
    pub from: Timestamp,
}

/// A CA that signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retired {
    /// Its certificate, PEM. Its key is gone.
    pub certificate: String,
    /// Until when it is trusted.
    pub until: Timestamp,
}

impl Material {
    /// All certificates that clients should trust, PEM; the signing CA first.
    pub fn bundle(&self) -> String {
        let next = self.next.as_ref().map(|next| next.ca.certificate.as_str());
        let retired = self
            .retired
            .as_ref()
            .map(|retired| retired.certificate.as_str());
        [Some(self.ca.certificate.as_str()), next, retired]
            .into_iter()
            .flatten()
            .collect()
    }
}

// Private keys stay out of logs and of failed assertions.
impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority")
            .field("name", &self.name)
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Serving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serving")
            .field("names", &self.names)
            .field("made", &self.made)
            .field("not_after", &self.not_after)
            .finish_non_exhaustive()
    }
}
