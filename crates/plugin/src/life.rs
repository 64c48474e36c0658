//! How long the token of a connection lives: pure.

use pilotage_api::token::TokenLife;

/// What kind of token a source gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// One that Kubernetes writes into a Secret of the target, and that is good as long as that is there.
    Endless,
    /// One that lives so long, and that the source renews before.
    Renewed(TokenLife),
}

impl Default for Life {
    fn default() -> Self {
        Self::Renewed(TokenLife::default())
    }
}

impl Life {
    /// What a flag says.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "never" || text == "0" {
            return Ok(Self::Endless);
        }
        let life = text.parse::<TokenLife>().map(Self::Renewed);
        life.map_err(|error| format!("{error}; \"never\" makes a token without an end"))
    }

    /// What a connection gets that has a token of this kind already, if it has, and whose user says this, if anything.
    /// Without `renew` the kind stays; with it, only who says so gets a token without an end.
    pub(crate) fn chosen(given: Option<Self>, standing: Option<Self>, renew: bool) -> Self {
        match (standing, given) {
            (Some(Self::Endless), _) if !renew => Self::Endless,
            (Some(stands @ Self::Renewed(_)), None) => stands,
            (Some(stands @ Self::Renewed(_)), Some(Self::Endless)) if !renew => stands,
            (_, given) => given.unwrap_or_default(),
        }
    }

    /// Whether a token ends.
    pub(crate) const fn ends(self) -> bool {
        matches!(self, Self::Renewed(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_a_duration_or_never() {
        for endless in ["never", "0"] {
            assert_eq!(Life::parse(endless), Ok(Life::Endless));
        }
        assert_eq!(Life::parse("720h"), Ok(Life::default()));
        for wrong in ["", "0h", "10m", "a year", "100000h"] {
            let error = Life::parse(wrong).unwrap_err();
            assert!(
                error.contains("from 1h to 8760h") && error.contains("never"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_kind_of_a_token_stays_until_it_is_renewed() {
        let of = |text: &str| Life::parse(text).unwrap();
        let (endless, day, month) = (of("never"), of("24h"), of("720h"));
        for (given, standing, renew, want) in [
            // Nothing is there.
            (None, None, false, month),
            (Some(day), None, false, day),
            (Some(endless), None, false, endless),
            (Some(endless), None, true, endless),
            // One of an earlier version, or of one's own choice.
            (None, Some(endless), false, endless),
            (Some(day), Some(endless), false, endless),
            (None, Some(endless), true, month),
            (Some(day), Some(endless), true, day),
            (Some(endless), Some(endless), true, endless),
            // One that ends.
            (None, Some(day), false, day),
            (None, Some(day), true, day),
            (Some(month), Some(day), false, month),
            (Some(endless), Some(day), false, day),
            (Some(endless), Some(day), true, endless),
        ] {
            let chosen = Life::chosen(given, standing, renew);
            assert_eq!(chosen, want, "{given:?} {standing:?} {renew}");
        }
    }
}
