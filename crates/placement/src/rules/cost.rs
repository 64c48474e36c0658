//! Rule `Cost`: `100 · (max − c) / (max − min)`, where c is the number in a label or an annotation of a candidate.
//! One whose cost isn't a number gets nothing.

use serde::Deserialize;

use super::{Gauge, Measure, Measured, Rule, Weight};
use crate::candidate::Candidate;
use crate::limits::KEY;
use crate::pipeline::Context;
use crate::selection::InputError;

/// Costs are kept in millionths.
pub(super) const MICRO: i64 = 1_000_000;

/// Arguments of the rule.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct Args {
    pub(super) weight: Weight,
    from: Cost,
}

/// Where a candidate's cost is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cost {
    /// In the label of this key.
    Label(String),
    /// In the annotation of this key.
    Annotation(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    weight: Weight,
    label: Option<String>,
    annotation: Option<String>,
}

impl TryFrom<Written> for Args {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, &'static str> {
        let from = match (written.label, written.annotation) {
            (Some(key), None) => Cost::Label(key),
            (None, Some(key)) => Cost::Annotation(key),
            _ => return Err("Cost needs the key of either a label or annotation"),
        };
        let (Cost::Label(key) | Cost::Annotation(key)) = &from;
        if key.len() > KEY {
            return Err("Cost needs the key of a label or annotation, which is shorter");
        }
        Ok(Self {
            weight: written.weight,
            from,
        })
    }
}

impl Rule {
    /// The rule `Cost`.
    pub const fn cost(weight: Weight, from: Cost) -> Self {
        Self::Cost(Args { weight, from })
    }
}

impl Args {
    pub(super) const fn from(&self) -> &Cost {
        &self.from
    }

    #[allow(clippy::unnecessary_wraps, reason = "all rules have one signature")]
    pub(super) fn gauge<'a>(&'a self, _: Context<'a>) -> Result<Box<dyn Gauge + 'a>, InputError> {
        Ok(Box::new(Costs {
            from: &self.from,
            costs: Vec::new(),
        }))
    }
}

struct Costs<'a> {
    from: &'a Cost,
    costs: Vec<Measure>,
}

impl Gauge for Costs<'_> {
    fn read(&mut self, candidate: &Candidate) {
        let text = match self.from {
            Cost::Label(key) => candidate.labels.get(key),
            Cost::Annotation(key) => candidate.annotations.get(key),
        };
        let cost = text.and_then(micro);
        self.costs
            .push(cost.map_or(Measure::Unknown, Measure::Amount));
    }

    fn measured(self: Box<Self>) -> Measured {
        Measured::less_is_better(self.costs, |cost| match cost {
            Measure::Amount(micro) => Some(micro),
            _ => None,
        })
    }
}

/// Reads `12`, `0.35`, `.5` in millionths; finer digits are dropped.
fn micro(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let whole: i64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let fraction = fraction.bytes().chain(std::iter::repeat(b'0')).take(6);
    let fraction = fraction.fold(0_i64, |sum, digit| {
        let digit = i64::from(digit.saturating_sub(b'0'));
        sum.saturating_mul(10).saturating_add(digit)
    });
    whole.checked_mul(MICRO)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn numbers() {
        for (text, expected, shown) in [
            ("12", Some(12_000_000), "12"),
            ("0.35", Some(350_000), "0.35"),
            (".5", Some(500_000), "0.5"),
            ("1.", Some(1_000_000), "1"),
            ("0.0000019", Some(1), "0.000001"),
            ("-1", None, ""),
            ("+1", None, ""),
            ("1e3", None, ""),
            ("", None, ""),
            (".", None, ""),
            ("1.2.3", None, ""),
            ("99999999999999999999", None, ""),
            ("9999999999999", None, ""),
        ] {
            assert_eq!(micro(text), expected, "{text}");
            if let Some(micro) = expected {
                assert_eq!(Measure::Amount(micro).to_string(), shown);
            }
        }
    }

    mod fuzz {
        use super::*;

        pilotage_absurd::properties! {
            #[test]
            fn never_panics(text in "\\PC{0,24}", number in "[0-9.]{0,30}") {
                let _ = (micro(&text), micro(&number));
            }
        }
    }
}
