//! Owns what the plugin can be told, and what kube-scheduler 1.36.3 takes of it (`ValidatePodTopologySpreadArgs`).

use k8s_openapi::api::core::v1 as core;
use thiserror::Error;

use crate::labels::HOSTNAME;
use crate::topology_spread::{SpreadRule, WhenUnsatisfiable};

/// The label of a node's zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// Longest name within a label's key.
const LONGEST_NAME: usize = 63;
/// Longest domain before it.
const LONGEST_DOMAIN: usize = 253;

/// What `PodTopologySpread` can be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpreadArgs {
    /// The constraints of pods without any.
    pub defaults: SpreadDefaults,
}

/// Constraints of pods that state none. They spread the pods of the Services, and of the controller, that the pod
/// belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SpreadDefaults {
    /// kube-scheduler's own: pods go where few of their kind are on the node (skew 3) and in the zone (skew 5). Nodes
    /// without a zone are ranked, too.
    #[default]
    System,
    /// These.
    List(Vec<DefaultConstraint>),
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultConstraint {
    /// How pods are spread.
    pub rule: SpreadRule,
    /// What becomes of those that it can't be kept for.
    pub when: WhenUnsatisfiable,
}

/// Why arguments aren't taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpreadArgsError {
    /// `defaultingType` is neither System nor List.
    #[error("defaulting type {0:?} is neither System nor List")]
    DefaultingType(String),
    /// The system's defaults beside a list of others.
    #[error("there are default constraints although the defaulting type is System")]
    SystemWithList,
    /// `maxSkew` isn't above 0.
    #[error("default constraint {at} has the max skew {skew}, which isn't above 0")]
    MaxSkew {
        /// Its place in the list.
        at: usize,
        /// What it says.
        skew: i32,
    },
    /// `topologyKey` isn't the key of a label.
    #[error("default constraint {at} has the topology key {key:?}, which is no label's key")]
    TopologyKey {
        /// Its place in the list.
        at: usize,
        /// What it says.
        key: String,
    },
    /// `whenUnsatisfiable` is neither `DoNotSchedule` nor `ScheduleAnyway`.
    #[error(
        "default constraint {at} says {said:?}, which is neither DoNotSchedule nor ScheduleAnyway"
    )]
    WhenUnsatisfiable {
        /// Its place in the list.
        at: usize,
        /// What it says.
        said: String,
    },
    /// A `labelSelector`, although each pod's is made for it.
    #[error("default constraint {at} has a label selector")]
    LabelSelector {
        /// Its place in the list.
        at: usize,
    },
    /// Key and `whenUnsatisfiable` are those of an earlier one.
    #[error("default constraint {at} repeats another one over {key:?}")]
    Repeated {
        /// Its place in the list.
        at: usize,
        /// Over what.
        key: String,
    },
}

impl SpreadDefaults {
    /// Reads `defaultingType` (absent or empty: System) and `defaultConstraints` of a configuration.
    pub fn parse(
        defaulting_type: Option<&str>,
        constraints: &[core::TopologySpreadConstraint],
    ) -> Result<Self, SpreadArgsError> {
        match defaulting_type.unwrap_or_default() {
            "" | "System" if constraints.is_empty() => Ok(Self::System),
            "" | "System" => Err(SpreadArgsError::SystemWithList),
            "List" => {
                let read = constraints.iter().enumerate();
                let read = read.map(|(at, given)| DefaultConstraint::parse(at, given));
                Ok(Self::List(read.collect::<Result<_, _>>()?))
            }
            other => Err(SpreadArgsError::DefaultingType(other.to_owned())),
        }
    }

    /// The constraints, if they may be used.
    pub(super) fn checked(self) -> Result<Vec<DefaultConstraint>, SpreadArgsError> {
        match self {
            Self::System => {
                let soft = |key, max_skew| DefaultConstraint {
                    rule: SpreadRule::new(key, max_skew),
                    when: WhenUnsatisfiable::ScheduleAnyway,
                };
                Ok(vec![soft(HOSTNAME, 3), soft(ZONE, 5)])
            }
            Self::List(list) => {
                for at in 0..list.len() {
                    check(&list, at)?;
                }
                Ok(list)
            }
        }
    }
}

impl DefaultConstraint {
    fn parse(at: usize, given: &core::TopologySpreadConstraint) -> Result<Self, SpreadArgsError> {
        if given.label_selector.is_some() {
            return Err(SpreadArgsError::LabelSelector { at });
        }
        let said = &given.when_unsatisfiable;
        let when = WhenUnsatisfiable::parse(said);
        let unknown = || SpreadArgsError::WhenUnsatisfiable {
            at,
            said: said.clone(),
        };
        Ok(Self {
            rule: SpreadRule::of(given),
            when: when.ok_or_else(unknown)?,
        })
    }
}

fn check(list: &[DefaultConstraint], at: usize) -> Result<(), SpreadArgsError> {
    let DefaultConstraint { rule, when } = &list[at];
    let key = &rule.topology_key;
    if rule.max_skew <= 0 {
        let skew = rule.max_skew;
        return Err(SpreadArgsError::MaxSkew { at, skew });
    }
    if !is_label_key(key) {
        let key = key.clone();
        return Err(SpreadArgsError::TopologyKey { at, key });
    }
    let mut before = list[..at].iter();
    if before.any(|other| other.rule.topology_key == *key && other.when == *when) {
        let key = key.clone();
        return Err(SpreadArgsError::Repeated { at, key });
    }
    Ok(())
}

/// Whether a label may have this key: a name, with or without a domain before it.
fn is_label_key(key: &str) -> bool {
    let within = |text: &str, longest: usize, also: &[u8]| {
        let bytes = text.as_bytes();
        let ends = bytes.first().zip(bytes.last());
        text.len() <= longest
            && ends.is_some_and(|(first, last)| {
                first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric()
            })
            && bytes
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || also.contains(byte))
    };
    let is_name = |name| within(name, LONGEST_NAME, b"-_.");
    let is_domain = |domain: &str| {
        domain.len() <= LONGEST_DOMAIN
            && domain == domain.to_ascii_lowercase()
            && domain
                .split('.')
                .all(|part| within(part, LONGEST_DOMAIN, b"-"))
    };
    match key.split_once('/') {
        Some((domain, name)) => is_domain(domain) && is_name(name),
        None => is_name(key),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::TopologySpreadConstraint;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

    use super::{DefaultConstraint, SpreadArgsError, SpreadDefaults};
    use crate::topology_spread::{SpreadRule, WhenUnsatisfiable};

    fn given(key: &str, max_skew: i32, when: &str) -> TopologySpreadConstraint {
        TopologySpreadConstraint {
            max_skew,
            topology_key: key.into(),
            when_unsatisfiable: when.into(),
            ..TopologySpreadConstraint::default()
        }
    }

    #[test]
    fn arguments_are_taken_or_refused_with_the_reason() {
        let (hard, soft) = ("DoNotSchedule", "ScheduleAnyway");
        let zone = || given("zone", 1, hard);
        let with_selector = TopologySpreadConstraint {
            label_selector: Some(LabelSelector::default()),
            ..zone()
        };
        let key = |key: &str| SpreadArgsError::TopologyKey {
            at: 0,
            key: key.into(),
        };
        let long = "x".repeat(64);
        for (kind, list, error) in [
            ("System", vec![], None),
            ("", vec![], None),
            ("List", vec![], None),
            ("List", vec![zone(), given("zone", 1, soft)], None),
            ("List", vec![given("a.example/b_c.D", 1, soft)], None),
            ("", vec![zone()], Some(SpreadArgsError::SystemWithList)),
            (
                "system",
                vec![],
                Some(SpreadArgsError::DefaultingType("system".into())),
            ),
            (
                "List",
                vec![zone(), given("rack", 0, soft)],
                Some(SpreadArgsError::MaxSkew { at: 1, skew: 0 }),
            ),
            ("List", vec![given("", 1, hard)], Some(key(""))),
            ("List", vec![given("a b", 1, hard)], Some(key("a b"))),
            ("List", vec![given("a/b/c", 1, hard)], Some(key("a/b/c"))),
            ("List", vec![given("A.b/c", 1, hard)], Some(key("A.b/c"))),
            ("List", vec![given("a..b/c", 1, hard)], Some(key("a..b/c"))),
            ("List", vec![given("-a", 1, hard)], Some(key("-a"))),
            ("List", vec![given(&long, 1, hard)], Some(key(&long))),
            (
                "List",
                vec![given("zone", 1, "")],
                Some(SpreadArgsError::WhenUnsatisfiable {
                    at: 0,
                    said: String::new(),
                }),
            ),
            (
                "List",
                vec![with_selector],
                Some(SpreadArgsError::LabelSelector { at: 0 }),
            ),
            (
                "List",
                vec![zone(), given("zone", 2, hard)],
                Some(SpreadArgsError::Repeated {
                    at: 1,
                    key: "zone".into(),
                }),
            ),
        ] {
            let said = SpreadDefaults::parse(Some(kind), &list);
            let said = said.and_then(SpreadDefaults::checked);
            assert_eq!(said.err(), error, "{kind} {list:?}");
        }
    }

    #[test]
    fn what_is_read() {
        let list = [TopologySpreadConstraint {
            min_domains: Some(3),
            node_taints_policy: Some("Honor".into()),
            ..given("rack", 2, "DoNotSchedule")
        }];
        let rule = SpreadRule {
            min_domains: 3,
            honors_taints: true,
            ..SpreadRule::new("rack", 2)
        };
        let when = WhenUnsatisfiable::DoNotSchedule;
        assert_eq!(
            SpreadDefaults::parse(Some("List"), &list),
            Ok(SpreadDefaults::List(vec![DefaultConstraint { rule, when }]))
        );
        let system = SpreadDefaults::parse(None, &[]).unwrap().checked().unwrap();
        let system = system
            .iter()
            .map(|it| (&*it.rule.topology_key, it.rule.max_skew, it.when));
        let soft = WhenUnsatisfiable::ScheduleAnyway;
        let expected = [
            ("kubernetes.io/hostname", 3, soft),
            ("topology.kubernetes.io/zone", 5, soft),
        ];
        assert_eq!(system.collect::<Vec<_>>(), expected);
    }
}
