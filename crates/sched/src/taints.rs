//! Owns taints and tolerations in parsed form, and which tolerates which. Knows nothing of pods and nodes.

use k8s_openapi::api::core::v1 as core;

/// What a taint does to pods that don't tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// New pods don't come.
    NoSchedule,
    /// New pods come if there is nothing better.
    PreferNoSchedule,
    /// New pods don't come, running ones go.
    NoExecute,
}

impl Effect {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "NoSchedule" => Some(Self::NoSchedule),
            "PreferNoSchedule" => Some(Self::PreferNoSchedule),
            "NoExecute" => Some(Self::NoExecute),
            _ => None,
        }
    }

    /// Whether the scheduler must keep intolerant pods away.
    pub const fn is_hard(self) -> bool {
        matches!(self, Self::NoSchedule | Self::NoExecute)
    }
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value, often empty.
    pub value: String,
    /// What it does.
    pub effect: Effect,
}

impl Taint {
    /// Reads a taint; `None` if its effect is unknown.
    pub fn parse(taint: &core::Taint) -> Option<Self> {
        Some(Self {
            key: taint.key.clone(),
            value: taint.value.clone().unwrap_or_default(),
            effect: Effect::parse(&taint.effect)?,
        })
    }
}

/// How a toleration compares values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TolerationOperator {
    /// The values are equal.
    Equal,
    /// Any value.
    Exists,
    /// The taint's value is an integer above the toleration's (see [`Comparison`]).
    Gt,
    /// The taint's value is an integer below the toleration's (see [`Comparison`]).
    Lt,
}

/// Whether tolerations may compare integers: the feature gate `TaintTolerationComparisonOperators`, which is alpha and
/// off in Kubernetes 1.36.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// A toleration with `Gt` or `Lt` tolerates nothing.
    #[default]
    Off,
    /// It tolerates what it says.
    On,
}

/// A toleration of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// The taint's key; empty with Exists means any.
    pub key: String,
    /// How values are compared.
    pub operator: TolerationOperator,
    /// The value to compare with.
    pub value: String,
    /// The taint's effect; `None` means any.
    pub effect: Option<Effect>,
}

impl Toleration {
    /// Reads a toleration; `None` if its effect or operator is unknown, so that it tolerates nothing.
    pub fn parse(toleration: &core::Toleration) -> Option<Self> {
        let effect = match toleration.effect.as_deref() {
            None | Some("") => None,
            Some(effect) => Some(Effect::parse(effect)?),
        };
        let operator = match toleration.operator.as_deref() {
            None | Some("" | "Equal") => TolerationOperator::Equal,
            Some("Exists") => TolerationOperator::Exists,
            Some("Gt") => TolerationOperator::Gt,
            Some("Lt") => TolerationOperator::Lt,
            Some(_) => return None,
        };
        Some(Self {
            key: toleration.key.clone().unwrap_or_default(),
            operator,
            value: toleration.value.clone().unwrap_or_default(),
            effect,
        })
    }

    /// Whether a pod with it may be where the taint is. After `ToleratesTaint` of Kubernetes 1.36.3: a toleration
    /// without key is one of any key, whatever its operator is.
    pub fn tolerates(&self, taint: &Taint, comparison: Comparison) -> bool {
        if self.effect.is_some_and(|effect| effect != taint.effect) {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        let compared = |test: fn(i64, i64) -> bool| {
            comparison == Comparison::On
                && integer(&taint.value)
                    .zip(integer(&self.value))
                    .is_some_and(|(taint, own)| test(taint, own))
        };
        match self.operator {
            TolerationOperator::Exists => true,
            TolerationOperator::Equal => self.value == taint.value,
            TolerationOperator::Gt => compared(|taint, own| taint > own),
            TolerationOperator::Lt => compared(|taint, own| taint < own),
        }
    }
}

/// An integer in its only form: no plus sign, no zeros in front, no minus zero.
fn integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = text == "0" || digits.starts_with(|first: char| matches!(first, '1'..='9'));
    text.parse().ok().filter(|_| plain)
}

/// The first taint with a hard effect that none of the tolerations tolerates.
pub fn first_untolerated<'a>(
    taints: &'a [Taint],
    tolerations: &[Toleration],
    comparison: Comparison,
) -> Option<&'a Taint> {
    taints
        .iter()
        .filter(|taint| taint.effect.is_hard())
        .find(|taint| {
            !tolerations
                .iter()
                .any(|toleration| toleration.tolerates(taint, comparison))
        })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1 as core;

    use super::{Comparison, Effect, Taint, Toleration, first_untolerated};

    fn taint(key: &str, value: &str, effect: Effect) -> Taint {
        Taint {
            key: key.into(),
            value: value.into(),
            effect,
        }
    }

    fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> Option<Toleration> {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Toleration::parse(&core::Toleration {
            key: text(key),
            operator: text(operator),
            value: text(value),
            effect: text(effect),
            toleration_seconds: None,
        })
    }

    #[test]
    fn what_tolerates_what() {
        let gpu = taint("gpu", "8", Effect::NoSchedule);
        for (key, operator, value, effect, expected) in [
            ("gpu", "", "8", "", true),
            ("gpu", "Equal", "8", "NoSchedule", true),
            ("gpu", "Equal", "7", "NoSchedule", false),
            ("gpu", "Exists", "", "", true),
            ("gpu", "Exists", "", "NoExecute", false),
            ("", "Exists", "", "", true),
            ("", "Exists", "", "PreferNoSchedule", false),
            ("", "Equal", "8", "", true),
            ("", "Equal", "7", "", false),
            ("cpu", "Exists", "", "", false),
            ("gpu", "Gt", "4", "", false),
            ("gpu", "Lt", "9", "", false),
        ] {
            let found = toleration(key, operator, value, effect)
                .unwrap()
                .tolerates(&gpu, Comparison::Off);
            assert_eq!(found, expected, "{key} {operator} {value} {effect}");
        }
        assert_eq!(toleration("gpu", "Like", "", ""), None);
        assert_eq!(toleration("gpu", "Exists", "", "Never"), None);
    }

    #[test]
    fn integers_are_compared_only_if_the_gate_is_on() {
        for (key, operator, value, taint_value, tolerated) in [
            ("gpu", "Gt", "4", "8", true),
            ("gpu", "Gt", "8", "8", false),
            ("gpu", "Lt", "9", "8", true),
            ("gpu", "Lt", "8", "8", false),
            ("gpu", "Gt", "-3", "0", true),
            ("", "Gt", "4", "8", true),
            ("cpu", "Gt", "4", "8", false),
            ("gpu", "Lt", "many", "8", false),
            ("gpu", "Lt", "9", "few", false),
            ("gpu", "Lt", "+9", "8", false),
            ("gpu", "Lt", "09", "8", false),
            ("gpu", "Gt", "-0", "8", false),
            ("gpu", "Lt", "", "8", false),
            ("gpu", "Lt", "9223372036854775808", "8", false),
        ] {
            let toleration = toleration(key, operator, value, "").unwrap();
            let taint = taint("gpu", taint_value, Effect::NoSchedule);
            let found = toleration.tolerates(&taint, Comparison::On);
            assert_eq!(found, tolerated, "{key} {operator} {value} {taint_value}");
            assert!(!toleration.tolerates(&taint, Comparison::Off));
        }
    }

    #[test]
    fn only_hard_taints_keep_pods_away() {
        let taints = [
            taint("soft", "", Effect::PreferNoSchedule),
            taint("hard", "", Effect::NoExecute),
        ];
        let untolerated =
            |tolerations: &[_]| first_untolerated(&taints, tolerations, Comparison::Off);
        assert_eq!(untolerated(&[]).unwrap().key, "hard");
        let tolerations = [toleration("hard", "Exists", "", "").unwrap()];
        assert_eq!(untolerated(&tolerations), None);
    }
}
