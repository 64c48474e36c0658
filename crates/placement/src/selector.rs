//! Owns label selectors in parsed form, and the canonical text that Kubernetes writes them in.
//! Knows nothing of what is labelled.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::limits::{KEY, NAME, REQUIREMENTS, VALUES};
use crate::shared_labels::Labelled;

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// One of a selector's `matchExpressions`, unread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expression {
    /// The label's key.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// Of `In` and `NotIn` only.
    pub values: Vec<String>,
}

/// A label selector: all of its requirements must pass. One without requirements matches everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

/// Something that isn't a label selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct SelectorError {
    /// What was to be selected by value.
    pub labels: Labels,
    /// The other requirements.
    pub expressions: Vec<Expression>,
    /// What is wrong.
    #[source]
    pub fault: SelectorFault,
}

/// Why something isn't a label selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorFault {
    /// The operator isn't one of the four.
    #[error("{operator:?} is no operator of a label selector (key {key:?})")]
    Operator {
        /// Key of the requirement.
        key: String,
        /// What stood there.
        operator: String,
    },
    /// `In` and `NotIn` need values, the others must have none.
    #[error("{operator} has the wrong number of values (key {key:?})")]
    Values {
        /// Key of the requirement.
        key: String,
        /// Its operator.
        operator: String,
    },
    /// The key isn't a label's key.
    #[error("{0:?} is no key of a label")]
    Key(String),
    /// The value isn't a label's value.
    #[error("{value:?} is no value of a label (key {key:?})")]
    Value {
        /// Key of the requirement.
        key: String,
        /// The value.
        value: String,
    },
    /// It has too many requirements, or they have too many values.
    #[error("a label selector may have {REQUIREMENTS} requirements, with {VALUES} values together")]
    TooMany,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Equals(String),
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Reads a selector as the API server's own conversion does, which checks keys and values as well.
    pub fn new(labels: &Labels, expressions: &[Expression]) -> Result<Self, SelectorError> {
        Self::read(labels, expressions).map_err(|fault| {
            let (labels, expressions) = match fault {
                // What is too much isn't kept either.
                SelectorFault::TooMany => Default::default(),
                _ => (labels.clone(), expressions.to_vec()),
            };
            SelectorError {
                labels,
                expressions,
                fault,
            }
        })
    }

    fn read(labels: &Labels, expressions: &[Expression]) -> Result<Self, SelectorFault> {
        let values: usize = expressions.iter().map(|one| one.values.len()).sum();
        let count = labels.len().saturating_add(expressions.len());
        if count > REQUIREMENTS || values > VALUES {
            return Err(SelectorFault::TooMany);
        }
        let mut requirements = Vec::with_capacity(count);
        for (key, value) in labels {
            let test = Test::Equals(value.clone());
            requirements.push(Requirement::new(key, test)?);
        }
        for Expression {
            key,
            operator,
            values,
        } in expressions
        {
            let set = || values.iter().cloned().collect();
            let test = match (operator.as_str(), values.is_empty()) {
                ("In", false) => Test::In(set()),
                ("NotIn", false) => Test::NotIn(set()),
                ("Exists", true) => Test::Exists,
                ("DoesNotExist", true) => Test::DoesNotExist,
                ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {
                    return Err(SelectorFault::Values {
                        key: key.clone(),
                        operator: operator.clone(),
                    });
                }
                _ => {
                    return Err(SelectorFault::Operator {
                        key: key.clone(),
                        operator: operator.clone(),
                    });
                }
            };
            requirements.push(Requirement::new(key, test)?);
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self(requirements))
    }

    /// Whether an object with these labels is selected. All requirements count; an absent key passes `NotIn`.
    pub fn matches(&self, labels: &impl Labelled) -> bool {
        self.0.iter().all(|requirement| {
            let value = labels.value(&requirement.key);
            match &requirement.test {
                Test::Equals(wanted) => value == Some(&**wanted),
                Test::In(set) => value.is_some_and(|value| set.contains(value)),
                Test::NotIn(set) => value.is_none_or(|value| !set.contains(value)),
                Test::Exists => value.is_some(),
                Test::DoesNotExist => value.is_none(),
            }
        })
    }
}

impl Requirement {
    fn new(key: &str, test: Test) -> Result<Self, SelectorFault> {
        if !is_key(key) {
            return Err(SelectorFault::Key(key.to_owned()));
        }
        let wrong = match &test {
            Test::Equals(value) => Some(value).filter(|value| !is_value(value)),
            Test::In(set) | Test::NotIn(set) => set.iter().find(|value| !is_value(value)),
            Test::Exists | Test::DoesNotExist => None,
        };
        if let Some(value) = wrong {
            return Err(SelectorFault::Value {
                key: key.to_owned(),
                value: value.clone(),
            });
        }
        Ok(Self {
            key: key.to_owned(),
            test,
        })
    }
}

/// At most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at either end.
fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    text.len() <= NAME
        && bytes.iter().copied().all(inner)
        && edge(bytes.first())
        && edge(bytes.last())
}

fn is_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

/// A name, or a DNS subdomain, a slash and a name.
fn is_key(text: &str) -> bool {
    let Some((prefix, name)) = text.split_once('/') else {
        return is_name(text);
    };
    // A part of a subdomain may be longer than a label of DNS.
    let part = |part: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !part.is_empty()
            && part.bytes().all(inner)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    is_name(name) && prefix.len() < KEY - NAME && prefix.split('.').all(part)
}

impl fmt::Display for Selector {
    /// The canonical text: `a=b,c in (d,e),f notin (g),h,!i`, by key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(",");
        for (number, Requirement { key, test }) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str(",")?;
            }
            match test {
                Test::Equals(value) => write!(f, "{key}={value}")?,
                Test::In(set) => write!(f, "{key} in ({})", list(set))?,
                Test::NotIn(set) => write!(f, "{key} notin ({})", list(set))?,
                Test::Exists => write!(f, "{key}")?,
                Test::DoesNotExist => write!(f, "!{key}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> Expression {
        Expression {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: values.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn operators_and_canonical_text() {
        let ours = labels(&[("a", "1"), ("empty", "")]);
        for (operator, key, values, matches, text) in [
            ("In", "a", &["1", "0"][..], true, "a in (0,1)"),
            ("In", "b", &["1"], false, "b in (1)"),
            ("NotIn", "a", &["1"], false, "a notin (1)"),
            ("NotIn", "b", &["1"], true, "b notin (1)"),
            ("Exists", "empty", &[], true, "empty"),
            ("Exists", "b", &[], false, "b"),
            ("DoesNotExist", "a", &[], false, "!a"),
            ("DoesNotExist", "b", &[], true, "!b"),
        ] {
            let selector =
                Selector::new(&Labels::new(), &[expression(key, operator, values)]).unwrap();
            assert_eq!(selector.matches(&ours), matches, "{selector}");
            assert_eq!(selector.to_string(), text);
        }
        let everything = Selector::new(&Labels::new(), &[]).unwrap();
        assert!(everything.matches(&Labels::new()));
        assert_eq!(everything.to_string(), "");
    }

    #[test]
    fn all_requirements_count() {
        let wanted = labels(&[("seed.gardener.cloud/region", "eu")]);
        let selector = Selector::new(&wanted, &[expression("env", "In", &["two"])]).unwrap();
        assert_eq!(
            selector.to_string(),
            "env in (two),seed.gardener.cloud/region=eu"
        );
        assert!(!selector.matches(&wanted));
        let both = labels(&[("seed.gardener.cloud/region", "eu"), ("env", "two")]);
        assert!(selector.matches(&both));
    }

    #[test]
    fn keys() {
        let long = "x".repeat(64);
        for (key, good) in [
            ("a", true),
            ("A_b.c-d", true),
            ("example.com/a", true),
            (&format!("{long}.com/a"), true),
            (&long, false),
            ("example.com/", false),
            ("example.com/a/b", false),
            ("-a.com/a", false),
            ("a..com/a", false),
            ("a_b.com/a", false),
            (&format!("{}/a", "x".repeat(253)), true),
            (&format!("{}/a", "x".repeat(254)), false),
        ] {
            assert_eq!(is_key(key), good, "{key}");
        }
    }

    #[test]
    fn what_is_no_selector() {
        let nothing = Labels::new();
        for (key, operator, values, message) in [
            ("a", "in", &["1"][..], "\"in\" is no operator"),
            ("a", "In", &[], "wrong number of values"),
            ("a", "Exists", &["1"], "wrong number of values"),
            ("a b", "Exists", &[], "no key"),
            ("/a", "Exists", &[], "no key"),
            ("Up.Case/a", "Exists", &[], "no key"),
            ("", "Exists", &[], "no key"),
            ("a", "In", &["-"], "\"-\" is no value"),
        ] {
            let error = Selector::new(&nothing, &[expression(key, operator, values)]).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        }
    }

    #[test]
    fn too_much_is_no_selector_either() {
        let labels: Labels = (0..REQUIREMENTS)
            .map(|number| (format!("k{number}"), String::new()))
            .collect();
        assert!(Selector::new(&labels, &[]).is_ok());
        let more = expression("more", "Exists", &[]);
        let error = Selector::new(&labels, &[more]).unwrap_err();
        assert_eq!(error.fault, SelectorFault::TooMany);
        assert!(error.labels.is_empty() && error.expressions.is_empty());
        let values = vec!["v"; VALUES + 1];
        let error = Selector::new(&Labels::new(), &[expression("a", "In", &values)]);
        assert_eq!(error.unwrap_err().fault, SelectorFault::TooMany);
    }

    mod fuzz {
        use super::*;

        pilotage_absurd::properties! {
            #[test]
            fn never_panics(key in "\\PC{0,20}", operator in "(In|NotIn|Exists|\\PC{0,4})", value in "\\PC{0,80}") {
                let expression = expression(&key, &operator, &[&value]);
                let labels = labels(&[(&key, &value)]);
                if let Ok(selector) = Selector::new(&labels, &[expression]) {
                    prop_assert!(selector.to_string().len() < 1024);
                }
            }
        }
    }
}
