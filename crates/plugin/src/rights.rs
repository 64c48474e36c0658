//! What a source may be given besides running pods, as it is written in a flag. Pure.

use pilotage_api::Right;
use pilotage_api::rights::UnknownRight;

/// All that a source may do besides running pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rights(pub(crate) Vec<Right>);

impl Rights {
    /// `none`, or some separated by commas.
    pub(crate) fn parse(text: &str) -> Result<Self, UnknownRight> {
        if text == "none" {
            return Ok(Self::default());
        }
        let rights: Result<Vec<Right>, _> = text.split(',').map(str::parse).collect();
        let mut rights = rights?;
        rights.sort_unstable();
        rights.dedup();
        Ok(Self(rights))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_a_list_or_none() {
        let rights = |text: &str| Rights::parse(text).map(|it| it.0);
        assert_eq!(rights("none"), Ok(vec![]));
        let both = vec![Right::Logs, Right::Exec];
        assert_eq!(rights("exec,logs,exec"), Ok(both));
        assert!(rights("").is_err() && rights("logs,none").is_err());
    }
}
