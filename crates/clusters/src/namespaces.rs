//! The namespaces whose Secrets are read and marked, as the operator of the source narrows it. Must not know what is in
//! a Secret.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;

use pilotage_api::{bounds, limits};

/// How many may be named: each one costs a watch, and a role for each part that reads Secrets.
const MOST: usize = 256;

/// Namespaces whose Secrets may hold kubeconfigs of Targets; all of them, if none is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetNamespaces {
    names: Arc<[String]>,
}

impl TargetNamespaces {
    /// Their names, each one once; none stands for all.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether some are named, so that others are left alone.
    pub fn is_narrow(&self) -> bool {
        !self.names.is_empty()
    }

    /// Whether Secrets of this namespace may be read.
    pub fn allows(&self, namespace: &str) -> bool {
        !self.is_narrow() || self.names.iter().any(|name| name == namespace)
    }
}

impl FromStr for TargetNamespaces {
    type Err = String;

    /// Reads names that are separated by commas; an empty text names none.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let mut names = BTreeSet::new();
        for name in text.split(',') {
            if !is_namespace(name) {
                return Err(format!(
                    "{:?} is no name of a namespace: expected names of up to {} lower-case letters, digits and dashes, \
                     which begin and end with a letter or digit, separated by commas alone",
                    bounds::cut(name, limits::LABEL),
                    limits::LABEL
                ));
            }
            names.insert(name.to_owned());
            if names.len() > MOST {
                return Err(format!("more than {MOST} namespaces are named"));
            }
        }
        Ok(Self {
            names: names.into_iter().collect(),
        })
    }
}

/// Whether the API server would take that as the name of a namespace: a DNS label.
fn is_namespace(name: &str) -> bool {
    let outer = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let (first, last) = (name.bytes().next(), name.bytes().next_back());
    name.len() <= limits::LABEL
        && first.is_some_and(outer)
        && last.is_some_and(outer)
        && name.bytes().all(|byte| outer(byte) || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<TargetNamespaces, String> {
        text.parse()
    }

    #[test]
    fn without_names_all_are_allowed_and_with_some_only_they() {
        let all = parse("").unwrap();
        assert!(!all.is_narrow() && all.allows("shop"));
        let some = parse("shop,team-2,shop").unwrap();
        assert_eq!(some.names(), ["shop", "team-2"]);
        assert!(some.is_narrow() && some.allows("shop") && some.allows("team-2"));
        for other in ["", "sho", "shop2", "Shop"] {
            assert!(!some.allows(other), "{other}");
        }
    }

    #[test]
    fn what_can_be_no_namespace_is_refused_in_few_words() {
        let long = "a".repeat(64);
        for text in [
            "Shop", "a, b", "a,", ",", "a,,b", "-a", "a-", "a.b", "a/b", "*", "ä", &long,
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains("is no name of a namespace"), "{error}");
        }
        assert!(parse(&"a".repeat(63)).is_ok());
        assert!(parse(&"é".repeat(100_000)).unwrap_err().len() < 500);
    }

    #[test]
    fn their_number_is_bounded() {
        let names = |count: usize| {
            let names: Vec<_> = (0..count).map(|number| format!("n{number}")).collect();
            parse(&names.join(","))
        };
        assert_eq!(names(MOST).unwrap().names().len(), MOST);
        let error = names(MOST + 1).unwrap_err();
        assert_eq!(error, "more than 256 namespaces are named");
    }
}
