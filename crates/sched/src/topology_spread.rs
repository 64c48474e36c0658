//! Owns a pod's topology spread constraints in parsed form. Knows nothing of nodes, nor of constraints that a
//! configuration adds to pods without any.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;

use crate::counts::{Namespaces, PodSet, Selected};
use crate::labels::{Labels, Requirement, RequirementError, Selector, Test};

/// Over which places pods are spread, and how evenly.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpreadRule {
    /// The node label whose equal values make a place.
    pub topology_key: String,
    /// By how many pods places may differ.
    pub max_skew: i32,
    /// With fewer places than this, an empty one is thought of beside them. 1 unless a constraint says more.
    pub min_domains: i32,
    /// Whether only nodes count that the pod's node selector and required node affinity allow (`nodeAffinityPolicy`).
    pub honors_affinity: bool,
    /// Whether only nodes count whose hard taints the pod tolerates (`nodeTaintsPolicy`).
    pub honors_taints: bool,
}

impl SpreadRule {
    /// Over the values of this label, with defaults for everything else.
    pub fn new(topology_key: &str, max_skew: i32) -> Self {
        Self {
            topology_key: topology_key.to_owned(),
            max_skew,
            min_domains: 1,
            honors_affinity: true,
            honors_taints: false,
        }
    }

    /// Reads the rule of a constraint of the API; a policy that isn't known honors nothing.
    pub fn of(constraint: &core::TopologySpreadConstraint) -> Self {
        let honors = |policy: &Option<String>, default| match policy {
            None => default,
            Some(policy) => policy == "Honor",
        };
        Self {
            topology_key: constraint.topology_key.clone(),
            max_skew: constraint.max_skew,
            min_domains: constraint.min_domains.unwrap_or(1),
            honors_affinity: honors(&constraint.node_affinity_policy, true),
            honors_taints: honors(&constraint.node_taints_policy, false),
        }
    }
}

/// What becomes of a pod that its constraint isn't kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhenUnsatisfiable {
    /// It waits.
    DoNotSchedule,
    /// It goes where the constraint is violated least.
    ScheduleAnyway,
}

impl WhenUnsatisfiable {
    /// Reads it; `None` if it isn't one of these.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "DoNotSchedule" => Some(Self::DoNotSchedule),
            "ScheduleAnyway" => Some(Self::ScheduleAnyway),
            _ => None,
        }
    }
}

/// A rule, and the pods that it spreads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpreadConstraint {
    /// How they are spread.
    pub rule: SpreadRule,
    /// Which pods of the namespace.
    pub selector: Selector,
    pods: PodSet,
}

impl SpreadConstraint {
    /// For the pods that `selector` selects in this namespace.
    pub fn new(rule: SpreadRule, namespace: &Arc<str>, selector: Selector) -> Self {
        let pods = PodSet::staying(Selected {
            namespaces: Namespaces::one(namespace),
            selector: selector.clone(),
        });
        Self {
            rule,
            selector,
            pods,
        }
    }

    /// The pods that count; `None` if none do. Those are none, too, that an empty selector selects, although each pod
    /// passes it: kube-scheduler 1.36.3 counts no pods then (`podtopologyspread/common.go`).
    pub const fn counted(&self) -> Option<&PodSet> {
        match &self.selector {
            Selector::All(requirements) if !requirements.is_empty() => Some(&self.pods),
            _ => None,
        }
    }
}

/// The constraints of a pod that states any.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpreadConstraints {
    hard: Arc<[SpreadConstraint]>,
    soft: Arc<[SpreadConstraint]>,
}

impl SpreadConstraints {
    /// Reads the constraints of a pod of this namespace with these labels; `None` if it has none. Those that say
    /// neither `DoNotSchedule` nor `ScheduleAnyway` are read and do nothing.
    pub fn parse(
        constraints: &[core::TopologySpreadConstraint],
        namespace: &Arc<str>,
        labels: &Labels,
    ) -> Result<Option<Self>, RequirementError> {
        if constraints.is_empty() {
            return Ok(None);
        }
        let (mut hard, mut soft) = (Vec::new(), Vec::new());
        for constraint in constraints {
            let mut selector = Selector::parse(constraint.label_selector.as_ref())?;
            let keys = constraint.match_label_keys.as_deref().unwrap_or_default();
            merge(&mut selector, keys, labels);
            let list = match WhenUnsatisfiable::parse(&constraint.when_unsatisfiable) {
                Some(WhenUnsatisfiable::DoNotSchedule) => &mut hard,
                Some(WhenUnsatisfiable::ScheduleAnyway) => &mut soft,
                None => continue,
            };
            let rule = SpreadRule::of(constraint);
            list.push(SpreadConstraint::new(rule, namespace, selector));
        }
        Ok(Some(Self {
            hard: hard.into(),
            soft: soft.into(),
        }))
    }

    /// Those of one kind, in the pod's order.
    pub const fn of(&self, when: WhenUnsatisfiable) -> &Arc<[SpreadConstraint]> {
        match when {
            WhenUnsatisfiable::DoNotSchedule => &self.hard,
            WhenUnsatisfiable::ScheduleAnyway => &self.soft,
        }
    }
}

/// Adds the pod's own values of `matchLabelKeys` to what selects. The API server of 1.36 has done that already, to pods
/// that it created; kube-scheduler still does it, for others. A selector that selects nothing stays so.
fn merge(selector: &mut Selector, keys: &[String], labels: &Labels) {
    let Selector::All(requirements) = selector else {
        return;
    };
    for key in keys {
        if let Some(value) = labels.get(key) {
            let requirement = Requirement {
                key: key.clone(),
                test: Test::In(BTreeSet::from([value.clone()])),
            };
            if !requirements.contains(&requirement) {
                requirements.push(requirement);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1 as core;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

    use super::{SpreadConstraints, SpreadRule, WhenUnsatisfiable};
    use crate::labels::{Labels, RequirementError, Selector};

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        let pairs = pairs.iter();
        pairs
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    fn constraint(when: &str, selector: Option<&[(&str, &str)]>) -> core::TopologySpreadConstraint {
        core::TopologySpreadConstraint {
            max_skew: 2,
            topology_key: "zone".into(),
            when_unsatisfiable: when.into(),
            label_selector: selector.map(|pairs| LabelSelector {
                match_labels: Some(labels(pairs)),
                match_expressions: None,
            }),
            ..core::TopologySpreadConstraint::default()
        }
    }

    fn parse(
        constraints: &[core::TopologySpreadConstraint],
    ) -> Result<Option<SpreadConstraints>, RequirementError> {
        let own = labels(&[("app", "web"), ("hash", "1")]);
        SpreadConstraints::parse(constraints, &"default".into(), &own)
    }

    #[test]
    fn hard_and_soft_ones_are_kept_apart_in_order() {
        assert_eq!(parse(&[]).unwrap(), None);
        let mut given = vec![
            constraint("DoNotSchedule", None),
            constraint("ScheduleAnyway", Some(&[])),
            constraint("Sometimes", None),
            constraint("DoNotSchedule", Some(&[("app", "web")])),
        ];
        given[3].min_domains = Some(4);
        given[3].node_affinity_policy = Some("Ignore".into());
        given[3].node_taints_policy = Some("Honor".into());
        let parsed = parse(&given).unwrap().unwrap();
        let hard = parsed.of(WhenUnsatisfiable::DoNotSchedule);
        let soft = parsed.of(WhenUnsatisfiable::ScheduleAnyway);
        assert_eq!((hard.len(), soft.len()), (2, 1));
        assert_eq!(hard[0].rule, SpreadRule::new("zone", 2));
        let fourth = SpreadRule {
            min_domains: 4,
            honors_affinity: false,
            honors_taints: true,
            ..SpreadRule::new("zone", 2)
        };
        assert_eq!(hard[1].rule, fourth);
        assert_eq!(
            hard[0].counted(),
            None,
            "no selector selects nothing, and none count"
        );
        assert_eq!(soft[0].counted(), None, "an empty one counts none, either");
        assert!(hard[1].counted().is_some());
        let nothing = parse(&[constraint("Sometimes", None)]).unwrap();
        assert!(
            nothing.is_some(),
            "such a pod has stated something, and gets no defaults"
        );
    }

    #[test]
    fn own_values_of_match_label_keys_select_too() {
        let keys = |selector, keys: &[&str]| {
            let mut given = constraint("DoNotSchedule", selector);
            given.match_label_keys = Some(keys.iter().map(|key| (*key).to_owned()).collect());
            let parsed = parse(&[given]).unwrap().unwrap();
            parsed.of(WhenUnsatisfiable::DoNotSchedule)[0]
                .selector
                .clone()
        };
        let web: &[(&str, &str)] = &[("app", "web")];
        let merged = keys(Some(web), &["hash", "absent", "app"]);
        let both = labels(&[("app", "web"), ("hash", "1")]);
        assert!(merged.matches(&both));
        assert!(!merged.matches(&labels(&[("app", "web"), ("hash", "2")])));
        let Selector::All(requirements) = merged else {
            panic!("{merged:?}")
        };
        assert_eq!(requirements.len(), 2, "what is there already isn't added");
        let of_empty = keys(Some(&[]), &["hash"]);
        assert!(of_empty.matches(&both) && !of_empty.matches(&Labels::new()));
        assert_eq!(keys(None, &["hash"]), Selector::Nothing);
    }

    #[test]
    fn a_malformed_selector_is_an_error() {
        let mut given = constraint("DoNotSchedule", Some(&[]));
        given.label_selector = Some(LabelSelector {
            match_labels: None,
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: "k".into(),
                operator: "Gt".into(),
                values: None,
            }]),
        });
        assert_eq!(
            parse(&[given]),
            Err(RequirementError::Operator("Gt".into()))
        );
    }
}
