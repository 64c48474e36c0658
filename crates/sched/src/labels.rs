//! Owns label selectors in parsed form: requirements on a map of labels. Knows nothing of what is labelled.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;

/// The label that tells nodes apart and nothing else.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// One condition on the value of one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// What its value must be.
    pub test: Test,
}

/// What a label's value must be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Test {
    /// One of these.
    In(BTreeSet<String>),
    /// None of these; an absent key passes.
    NotIn(BTreeSet<String>),
    /// Anything, but present.
    Exists,
    /// Absent.
    DoesNotExist,
    /// An integer above this one.
    Gt(i64),
    /// An integer below this one.
    Lt(i64),
    /// Nothing passes: the bound of `Gt` or `Lt` isn't an integer.
    Never,
}

/// An operator that isn't one, or that lacks its values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequirementError {
    /// Not one of In, `NotIn`, Exists, `DoesNotExist` (and Gt, Lt on nodes).
    #[error("has the unknown operator {0:?}")]
    Operator(String),
    /// In and `NotIn` need a value at least, Gt and Lt exactly one.
    #[error("has the wrong number of values for {0}")]
    Values(String),
}

impl Requirement {
    /// Reads a requirement of a node selector (`bounds`: Gt and Lt are allowed) or a label selector.
    pub(crate) fn parse(
        key: &str,
        operator: &str,
        values: &[String],
        bounds: bool,
    ) -> Result<Self, RequirementError> {
        let wrong_values = || RequirementError::Values(operator.to_owned());
        let set = || -> Result<BTreeSet<String>, RequirementError> {
            if values.is_empty() {
                Err(wrong_values())
            } else {
                Ok(values.iter().cloned().collect())
            }
        };
        let bound = || match values {
            [value] => Ok(value.parse::<i64>().ok()),
            _ => Err(wrong_values()),
        };
        let test = match operator {
            "In" => Test::In(set()?),
            "NotIn" => Test::NotIn(set()?),
            "Exists" => Test::Exists,
            "DoesNotExist" => Test::DoesNotExist,
            "Gt" if bounds => bound()?.map_or(Test::Never, Test::Gt),
            "Lt" if bounds => bound()?.map_or(Test::Never, Test::Lt),
            other => return Err(RequirementError::Operator(other.to_owned())),
        };
        Ok(Self {
            key: key.to_owned(),
            test,
        })
    }

    /// Whether these labels pass.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.matches_value(labels.get(&self.key).map(String::as_str))
    }

    /// Whether this value of the key passes.
    pub fn matches_value(&self, value: Option<&str>) -> bool {
        let integer = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            Test::In(set) => value.is_some_and(|value| set.contains(value)),
            Test::NotIn(set) => value.is_none_or(|value| !set.contains(value)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
            Test::Gt(bound) => integer().is_some_and(|value| value > *bound),
            Test::Lt(bound) => integer().is_some_and(|value| value < *bound),
            Test::Never => false,
        }
    }
}

/// A label selector: all requirements must pass. An absent one selects nothing, an empty one everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Selector {
    /// Selects nothing.
    Nothing,
    /// Selects what passes all of these.
    All(Vec<Requirement>),
}

impl Selector {
    /// Reads a label selector of the API.
    pub fn parse(selector: Option<&meta::LabelSelector>) -> Result<Self, RequirementError> {
        let Some(selector) = selector else {
            return Ok(Self::Nothing);
        };
        let pairs = selector.match_labels.iter().flatten().map(|(key, value)| {
            Ok(Requirement {
                key: key.clone(),
                test: Test::In(BTreeSet::from([value.clone()])),
            })
        });
        let expressions = selector
            .match_expressions
            .iter()
            .flatten()
            .map(|expression| {
                let values = expression.values.as_deref().unwrap_or_default();
                Requirement::parse(&expression.key, &expression.operator, values, false)
            });
        Ok(Self::All(
            pairs.chain(expressions).collect::<Result<_, _>>()?,
        ))
    }

    /// Whether it selects an object with these labels.
    pub fn matches(&self, labels: &Labels) -> bool {
        match self {
            Self::Nothing => false,
            Self::All(requirements) => requirements.iter().all(|r| r.matches(labels)),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

    use super::{Labels, Requirement, RequirementError, Selector, Test};

    #[test]
    fn every_operator() {
        let values = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        let cases: &[(&str, &[&str], Option<&str>, bool)] = &[
            ("In", &["a", "b"], Some("b"), true),
            ("In", &["a"], Some("c"), false),
            ("In", &["a"], None, false),
            ("NotIn", &["a"], Some("a"), false),
            ("NotIn", &["a"], Some("b"), true),
            ("NotIn", &["a"], None, true),
            ("Exists", &[], Some(""), true),
            ("Exists", &[], None, false),
            ("DoesNotExist", &[], Some("a"), false),
            ("DoesNotExist", &[], None, true),
            ("Gt", &["5"], Some("6"), true),
            ("Gt", &["5"], Some("5"), false),
            ("Gt", &["5"], Some("six"), false),
            ("Gt", &["five"], Some("6"), false),
            ("Gt", &["5"], None, false),
            ("Lt", &["-1"], Some("-2"), true),
            ("Lt", &["5"], Some("5"), false),
        ];
        for (operator, set, value, expected) in cases {
            let requirement = Requirement::parse("k", operator, &values(set), true).unwrap();
            assert_eq!(
                requirement.matches_value(*value),
                *expected,
                "{operator} {set:?} {value:?}"
            );
        }
        assert_eq!(
            Requirement::parse("k", "Gt", &values(&["x"]), true)
                .unwrap()
                .test,
            Test::Never
        );
    }

    #[test]
    fn malformed_requirements() {
        let operator = |name: &str| RequirementError::Operator(name.into());
        let values = |name: &str| RequirementError::Values(name.into());
        for (name, set, bounds, error) in [
            ("in", 1, true, operator("in")),
            ("Gt", 1, false, operator("Gt")),
            ("In", 0, true, values("In")),
            ("Lt", 2, true, values("Lt")),
        ] {
            let set = vec!["1".to_owned(); set];
            assert_eq!(Requirement::parse("k", name, &set, bounds), Err(error));
        }
    }

    #[test]
    fn absent_selects_nothing_and_empty_everything() {
        let labels = Labels::from([("app".into(), "web".into())]);
        assert!(!Selector::parse(None).unwrap().matches(&labels));
        assert!(
            Selector::parse(Some(&LabelSelector::default()))
                .unwrap()
                .matches(&labels)
        );
        let both = LabelSelector {
            match_labels: Some(labels.clone()),
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: "tier".into(),
                operator: "Exists".into(),
                values: None,
            }]),
        };
        let both = Selector::parse(Some(&both)).unwrap();
        assert!(!both.matches(&labels));
        let mut more = labels;
        more.insert("tier".into(), "front".into());
        assert!(both.matches(&more));
    }
}
