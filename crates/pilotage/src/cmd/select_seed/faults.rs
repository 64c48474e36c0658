//! Owns what is wrong inside objects that can be read all the same. A scheduler goes on until a Shoot needs it, since
//! one bad field must not hide the others; whoever asks about files wants to know.

use pilotage_gardener::fields::FieldError;
use pilotage_gardener::kinds::{CloudProfile, ProfileKind, RegionConfig, Shoot};
use pilotage_placement::{Candidate, Cidr, Selector, SelectorError, SelectorFault};
use serde_json::Value;

/// An object of which something may be kept that can't be used.
pub(super) trait Faults {
    /// What it is.
    fn faults(&self) -> Vec<FieldError>;
}

/// Reads as `read`, and takes nothing that has faults: the first one is told.
pub(super) fn strictly<T: Faults>(
    read: impl Fn(&Value) -> Result<T, FieldError> + Copy,
) -> impl Fn(&Value) -> Result<T, FieldError> + Copy {
    move |value| {
        let object = read(value)?;
        match object.faults().into_iter().next() {
            None => Ok(object),
            Some(fault) => Err(fault),
        }
    }
}

impl Faults for Shoot {
    fn faults(&self) -> Vec<FieldError> {
        let mut ranges = Vec::new();
        if let Some(networking) = &self.networking {
            let at = |name: &str| format!("spec.networking.{name}");
            ranges.push((at("nodes"), networking.nodes.as_ref()));
            ranges.push((at("pods"), networking.pods.as_ref()));
            ranges.push((at("services"), networking.services.as_ref()));
        }
        if let Some(observed) = &self.observed {
            for (name, list) in [
                ("nodes", &observed.nodes),
                ("pods", &observed.pods),
                ("services", &observed.services),
            ] {
                let at = |number| format!("status.networking.{name}[{number}]");
                let list = list.iter().enumerate();
                ranges.extend(list.map(|(number, cidr)| (at(number), Some(cidr))));
            }
        }
        let mut faults = selector("spec.seedSelector", self.selector.as_ref());
        faults.extend(malformed(ranges));
        faults
    }
}

/// A Seed.
impl Faults for Candidate {
    fn faults(&self) -> Vec<FieldError> {
        let networks = &self.networks;
        let ranges = [
            ("nodes", &networks.nodes),
            ("pods", &networks.pods),
            ("services", &networks.services),
            ("shootDefaults.pods", &networks.default_pods),
            ("shootDefaults.services", &networks.default_services),
        ];
        let ranges = ranges.map(|(name, range)| (format!("spec.networks.{name}"), range.as_ref()));
        malformed(ranges).collect()
    }
}

impl Faults for CloudProfile {
    fn faults(&self) -> Vec<FieldError> {
        let path = match self.kind {
            ProfileKind::CloudProfile => "spec.seedSelector",
            ProfileKind::NamespacedCloudProfile => "status.cloudProfileSpec.seedSelector",
        };
        selector(path, self.selector.as_ref())
    }
}

impl Faults for RegionConfig {
    fn faults(&self) -> Vec<FieldError> {
        let rows = self.table.malformed();
        rows.map(|(region, error)| FieldError {
            path: format!("data[{region:?}]"),
            expected: "a mapping of regions to whole numbers".to_owned(),
            found: format!("what can't be read as one: {error}"),
        })
        .collect()
    }
}

fn malformed<'a>(
    ranges: impl IntoIterator<Item = (String, Option<&'a Cidr>)>,
) -> impl Iterator<Item = FieldError> {
    let ranges = ranges.into_iter();
    let bad =
        ranges.filter_map(|(path, range)| Some((path, range.filter(|it| it.is_malformed())?)));
    bad.map(|(path, range)| FieldError {
        path,
        expected: "a range of addresses such as 10.0.0.0/16".to_owned(),
        found: format!("{:?}", range.as_str()),
    })
}

fn selector(path: &str, selector: Option<&Result<Selector, SelectorError>>) -> Vec<FieldError> {
    let Some(Err(error)) = selector else {
        return Vec::new();
    };
    let expressions = error.expressions.iter();
    let keyed = |wanted: &str| expressions.clone().position(|one| one.key == wanted);
    let expression = |number: Option<usize>, field: &str| match number {
        Some(number) => format!("{path}.matchExpressions[{number}].{field}"),
        None => format!("{path}.matchLabels"),
    };
    let (path, expected, found) = match &error.fault {
        SelectorFault::Operator { key, operator } => {
            let is =
                |one: &pilotage_placement::Expression| one.key == *key && one.operator == *operator;
            let at = expressions.clone().position(is);
            let expected = "In, NotIn, Exists or DoesNotExist";
            (
                expression(at, "operator"),
                expected,
                format!("{operator:?}"),
            )
        }
        SelectorFault::Values { key, operator } => {
            let set = matches!(operator.as_str(), "In" | "NotIn");
            let is = |one: &pilotage_placement::Expression| {
                one.key == *key && one.operator == *operator && one.values.is_empty() == set
            };
            let at = expressions.clone().position(is);
            let (expected, found) = if set {
                ("values, since the operator is In or NotIn", "none")
            } else {
                (
                    "no values, since the operator is Exists or DoesNotExist",
                    "some",
                )
            };
            (expression(at, "values"), expected, found.to_owned())
        }
        SelectorFault::Key(key) => {
            let at = keyed(key).filter(|_| !error.labels.contains_key(key));
            (
                expression(at, "key"),
                "the key of a label",
                format!("{key:?}"),
            )
        }
        SelectorFault::Value { key, value } => {
            let at = keyed(key).filter(|_| error.labels.get(key) != Some(value));
            let found = format!("{value:?}");
            (expression(at, "values"), "the value of a label", found)
        }
        SelectorFault::TooMany => {
            let expected = "fewer requirements, or values";
            (path.to_owned(), expected, error.to_string())
        }
        other => (path.to_owned(), "a label selector", other.to_string()),
    };
    vec![FieldError {
        path,
        expected: expected.to_owned(),
        found,
    }]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shoot(selector: &Value, networking: &Value, status: &Value) -> Vec<String> {
        let shoot = json!({
            "metadata": {"name": "a"},
            "spec": {
                "provider": {"type": "aws"}, "region": "eu",
                "seedSelector": selector, "networking": networking,
            },
            "status": {"networking": status},
        });
        let faults = Shoot::read(&shoot).unwrap().faults();
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_selector_is_told_by_the_field_that_is_wrong() {
        let expression = |key: &str, operator: &str, values: &[&str]| {
            json!({"matchExpressions": [
                {"key": "fine", "operator": "Exists"},
                {"key": key, "operator": operator, "values": values},
            ]})
        };
        for (selector, told) in [
            (
                expression("a", "Equals", &["b"]),
                "matchExpressions[1].operator: expected In, NotIn, Exists or DoesNotExist, found \"Equals\"",
            ),
            (
                expression("a", "In", &[]),
                "matchExpressions[1].values: expected values, since the operator is In or NotIn, found none",
            ),
            (
                expression("a", "Exists", &["b"]),
                "matchExpressions[1].values: expected no values, since the operator is Exists or DoesNotExist, found \
                 some",
            ),
            (
                expression("a b", "Exists", &[]),
                "matchExpressions[1].key: expected the key of a label, found \"a b\"",
            ),
            (
                expression("a", "In", &["b c"]),
                "matchExpressions[1].values: expected the value of a label, found \"b c\"",
            ),
            (
                json!({"matchLabels": {"a": "b c"}}),
                "matchLabels: expected the value of a label, found \"b c\"",
            ),
            (
                json!({"matchLabels": {"a b": "c"}}),
                "matchLabels: expected the key of a label, found \"a b\"",
            ),
        ] {
            let told = format!("spec.seedSelector.{told}");
            assert_eq!(shoot(&selector, &Value::Null, &Value::Null), [told]);
        }
        let fine = expression("a", "In", &["b"]);
        assert!(shoot(&fine, &Value::Null, &Value::Null).is_empty());
    }

    #[test]
    fn each_range_is_told() {
        let networking = json!({"nodes": "10.0.0.0/16", "pods": "10.1.0.0"});
        let status = json!({"pods": ["10.1.0.0/16", "x"]});
        let range = "expected a range of addresses such as 10.0.0.0/16, found";
        assert_eq!(
            shoot(&Value::Null, &networking, &status),
            [
                format!("spec.networking.pods: {range} \"10.1.0.0\""),
                format!("status.networking.pods[1]: {range} \"x\""),
            ]
        );
    }
}
