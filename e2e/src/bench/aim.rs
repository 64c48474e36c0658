//! An aim of a benchmark, and whether its figure is there. Pure.

use super::error::Error;
use super::table::table;

/// What is aimed at, and what it is.
pub(super) struct Aim {
    pub(super) what: String,
    pub(super) limit: f64,
    /// Otherwise it is to be at least the limit.
    pub(super) at_most: bool,
    pub(super) value: f64,
}

impl Aim {
    fn is_met(&self) -> bool {
        if self.at_most {
            self.value <= self.limit
        } else {
            self.value >= self.limit
        }
    }

    fn row(&self) -> Vec<String> {
        let sign = if self.at_most { "≤" } else { "≥" };
        vec![
            self.what.clone(),
            format!("{sign} {}", self.limit),
            format!("{:.2}", self.value),
            if self.is_met() { "met" } else { "MISSED" }.to_owned(),
        ]
    }
}

/// A table of them.
pub(super) fn text(aims: &[Aim]) -> String {
    let rows: Vec<_> = aims.iter().map(Aim::row).collect();
    table(&["AIM", "LIMIT", "IS", ""], &rows)
}

/// Fails if one is missed, and if there is none.
pub(super) fn insist(aims: &[Aim]) -> Result<(), Error> {
    if aims.is_empty() {
        return Err(Error::NoAims);
    }
    match aims.iter().filter(|aim| !aim.is_met()).count() {
        0 => Ok(()),
        missed => Err(Error::Aims(missed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aim(limit: f64, at_most: bool, value: f64) -> Aim {
        Aim {
            what: "requests".to_owned(),
            limit,
            at_most,
            value,
        }
    }

    #[test]
    fn a_limit_itself_is_met_and_what_is_beyond_is_missed() {
        let met = [
            aim(12.0, true, 12.0),
            aim(0.9, false, 0.9),
            aim(0.9, false, 2.0),
        ];
        assert!(met.iter().all(Aim::is_met));
        assert!(insist(&met).is_ok());
        let missed = [aim(12.0, true, 12.1), aim(0.9, false, 0.89)];
        assert!(!missed.iter().any(Aim::is_met));
        assert_eq!(missed[0].row(), ["requests", "≤ 12", "12.10", "MISSED"]);
        assert!(matches!(insist(&missed), Err(Error::Aims(2))));
        // A figure that is none is no good one.
        assert!(!aim(1.0, true, f64::NAN).is_met());
        assert!(matches!(insist(&[]), Err(Error::NoAims)));
    }
}
