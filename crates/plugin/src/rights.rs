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

/// What may follow pods into the target: the rights of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Follow(pub(crate) Vec<Right>);

impl Follow {
    /// `none`, or some kinds separated by commas.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::default());
        }
        let kinds = || Right::ALL.into_iter().filter_map(kind);
        let right = |word: &str| {
            let found = Right::ALL.into_iter().find(|it| kind(*it) == Some(word));
            found.ok_or_else(|| {
                let kinds = kinds().collect::<Vec<_>>().join(", ");
                format!("nothing of that name follows; there are {kinds}; or none")
            })
        };
        let rights: Result<Vec<Right>, _> = text.split(',').map(right).collect();
        Ok(Self(rights?))
    }
}

/// The kind whose objects follow by this right, if it is one of these.
pub(crate) fn kind(right: Right) -> Option<&'static str> {
    right.flag().strip_prefix("follow-")
}

/// What a source gets that has these: what is said of all rights, and what is said of following beside it.
pub(crate) fn wanted(
    rights: Option<&Rights>,
    follow: Option<&Follow>,
    has: &[Right],
) -> Vec<Right> {
    let mut wanted = rights.map_or_else(|| has.to_vec(), |rights| rights.0.clone());
    if let Some(Follow(follow)) = follow {
        if rights.is_none() {
            wanted.retain(|right| kind(*right).is_none());
        }
        wanted.extend(follow);
        wanted.sort_unstable();
        wanted.dedup();
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn following_is_said_by_kinds_and_leaves_other_rights_alone() {
        let follow = |text: &str| Follow::parse(text).unwrap();
        let both = follow("secrets,configmaps");
        let has = [Right::FollowServices, Right::Logs];
        let (maps, secrets) = (Right::FollowConfigMaps, Right::FollowSecrets);
        assert_eq!(wanted(None, None, &has), has);
        assert_eq!(
            wanted(None, Some(&both), &has),
            [maps, secrets, Right::Logs]
        );
        assert_eq!(wanted(None, Some(&follow("none")), &has), [Right::Logs]);
        let exec = Rights::parse("exec,follow-secrets").unwrap();
        assert_eq!(wanted(Some(&exec), None, &has), [secrets, Right::Exec]);
        assert_eq!(
            wanted(Some(&exec), Some(&both), &has),
            [maps, secrets, Right::Exec]
        );
        for wrong in ["", "pods", "secrets,", "logs", "secrets,none"] {
            let error = Follow::parse(wrong).unwrap_err();
            assert!(error.contains("configmaps, secrets, services, ingresses"));
        }
    }

    #[test]
    fn rights_are_a_list_or_none() {
        let rights = |text: &str| Rights::parse(text).map(|it| it.0);
        assert_eq!(rights("none"), Ok(vec![]));
        let both = vec![Right::Logs, Right::Exec];
        assert_eq!(rights("exec,logs,exec"), Ok(both));
        assert!(rights("").is_err() && rights("logs,none").is_err());
    }
}
