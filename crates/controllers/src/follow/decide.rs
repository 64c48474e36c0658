//! What becomes of one object in one target: pure.

use super::brief::Brief;

/// All that a decision rests on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed<'a> {
    /// Whether a pod that is recorded at this Target names the object.
    pub(super) needed: bool,
    /// The same of any Target that says that it leads to that cluster. A target's word of which cluster it is keeps
    /// copies, and makes none.
    pub(super) kept: bool,
    /// The object at home.
    pub(super) source: Option<&'a Brief>,
    /// Our copy there.
    pub(super) copy: Option<&'a Brief>,
    /// One that Admiralty made of this very object: who needs the object takes it over by making a copy.
    pub(super) plain: Option<&'a Brief>,
    /// The digest that we wrote last, and the copy's then: something there may change what is written.
    pub(super) accepted: Option<(&'a str, &'a str)>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// All is as it should be, or will be by what is under way.
    Rest,
    /// Make the copy.
    Create,
    /// Bring the copy of this UID and version in step.
    Replace { uid: String, version: String },
    /// Delete the copy of this UID.
    Delete { uid: String, why: Why },
}

/// Why a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// No pod there names it.
    Unneeded,
    /// The object isn't there any more, as far as the watch says.
    NoSource,
    /// It differs in what can't be changed: the next one is made when it is gone.
    Unchangeable,
}

pub(super) fn decide(observed: &Observed<'_>) -> Step {
    let Observed {
        needed,
        kept,
        source,
        copy,
        plain,
        accepted,
    } = *observed;
    let none = copy.is_none() && plain.is_none();
    // What nobody needs goes all the same.
    if source.is_some_and(|source| source.unreadable) && (kept || none) {
        return Step::Rest;
    }
    let Some(copy) = copy else {
        if let Some(plain) = plain.filter(|plain| !kept && !plain.deleting) {
            return Step::Delete {
                uid: plain.uid.clone(),
                why: Why::Unneeded,
            };
        }
        let there = source.is_some_and(|source| !source.deleting);
        return if needed && there {
            Step::Create
        } else {
            Step::Rest
        };
    };
    let delete = |why| Step::Delete {
        uid: copy.uid.clone(),
        why,
    };
    if copy.deleting {
        return Step::Rest;
    }
    if !needed {
        return if kept {
            Step::Rest
        } else {
            delete(Why::Unneeded)
        };
    }
    let Some(source) = source else {
        return delete(Why::NoSource);
    };
    let in_step = copy.digest == source.digest
        || accepted == Some((source.digest.as_str(), copy.digest.as_str()));
    if in_step && copy.parent() == Some(&source.uid) {
        return Step::Rest;
    }
    if (copy.immutable && !in_step) || copy.type_ != source.type_ {
        return delete(Why::Unchangeable);
    }
    Step::Replace {
        uid: copy.uid.clone(),
        version: copy.version.clone(),
    }
}

#[cfg(test)]
mod tests {
    use pilotage_api::parent::{ClusterUid, ParentLink};

    use super::*;

    fn source(digest: &str) -> Brief {
        Brief {
            uid: "s".into(),
            version: "1".into(),
            deleting: false,
            digest: digest.into(),
            immutable: false,
            unreadable: false,
            type_: None,
            link: None,
        }
    }

    fn copy(digest: &str) -> Brief {
        let link = ParentLink {
            cluster_uid: Some(ClusterUid("home".into())),
            cluster_name: None,
            uid: "s".into(),
            namespace: "n".into(),
            name: "x".into(),
        };
        Brief {
            uid: "c".into(),
            version: "9".into(),
            link: Some(link),
            ..source(digest)
        }
    }

    fn step(needed: bool, source: Option<&Brief>, copy: Option<&Brief>) -> Step {
        decide(&Observed {
            needed,
            kept: needed,
            source,
            copy,
            plain: None,
            accepted: None,
        })
    }

    fn delete(why: Why) -> Step {
        Step::Delete {
            uid: "c".into(),
            why,
        }
    }

    #[test]
    fn a_copy_comes_with_the_need_and_goes_with_it_or_with_its_object() {
        let (at_home, there) = (source("a"), copy("a"));
        assert_eq!(step(true, Some(&at_home), None), Step::Create);
        assert_eq!(step(false, Some(&at_home), None), Step::Rest);
        assert_eq!(step(true, None, None), Step::Rest);
        assert_eq!(step(true, Some(&at_home), Some(&there)), Step::Rest);
        assert_eq!(
            step(false, Some(&at_home), Some(&there)),
            delete(Why::Unneeded)
        );
        assert_eq!(step(true, None, Some(&there)), delete(Why::NoSource));
        let going = Brief {
            deleting: true,
            ..there.clone()
        };
        assert_eq!(
            step(false, None, Some(&going)),
            Step::Rest,
            "it goes already"
        );
        let leaving = Brief {
            deleting: true,
            ..at_home
        };
        assert_eq!(
            step(true, Some(&leaving), None),
            Step::Rest,
            "it is as good as gone"
        );
        assert_eq!(
            step(true, Some(&leaving), Some(&there)),
            Step::Rest,
            "others still hold it"
        );
    }

    #[test]
    fn what_another_target_of_the_cluster_needs_is_kept_and_not_made() {
        let (at_home, old) = (source("b"), copy("a"));
        let observed = |copy| Observed {
            needed: false,
            kept: true,
            source: Some(&at_home),
            copy,
            plain: None,
            accepted: None,
        };
        assert_eq!(decide(&observed(None)), Step::Rest);
        assert_eq!(
            decide(&observed(Some(&old))),
            Step::Rest,
            "nor is it refreshed"
        );
    }

    #[test]
    fn a_copy_that_admiralty_made_is_taken_over_or_goes() {
        let (at_home, there) = (source("a"), copy("a"));
        let unreadable = Brief {
            unreadable: true,
            ..source("a")
        };
        let going = Brief {
            deleting: true,
            ..there.clone()
        };
        for (needed, kept, source, plain, expected) in [
            (true, true, &at_home, &there, Step::Create),
            (false, true, &at_home, &there, Step::Rest),
            (false, false, &at_home, &there, delete(Why::Unneeded)),
            (false, false, &at_home, &going, Step::Rest),
            (true, true, &unreadable, &there, Step::Rest),
            (false, false, &unreadable, &there, delete(Why::Unneeded)),
        ] {
            let observed = Observed {
                needed,
                kept,
                source: Some(source),
                copy: None,
                plain: Some(plain),
                accepted: None,
            };
            assert_eq!(decide(&observed), expected, "{observed:?}");
        }
    }

    #[test]
    fn a_copy_is_brought_in_step_or_made_anew_where_it_cant_be_changed() {
        let replace = Step::Replace {
            uid: "c".into(),
            version: "9".into(),
        };
        assert_eq!(step(true, Some(&source("b")), Some(&copy("a"))), replace);
        let again = Brief {
            uid: "s2".into(),
            ..source("a")
        };
        assert_eq!(
            step(true, Some(&again), Some(&copy("a"))),
            replace,
            "of another object"
        );
        let fixed = Brief {
            immutable: true,
            ..copy("a")
        };
        assert_eq!(
            step(true, Some(&source("b")), Some(&fixed)),
            delete(Why::Unchangeable)
        );
        assert_eq!(step(true, Some(&source("a")), Some(&fixed)), Step::Rest);
        assert_eq!(
            step(true, Some(&again), Some(&fixed)),
            replace,
            "its link can be changed"
        );
        let other = Brief {
            type_: Some("kubernetes.io/tls".into()),
            ..source("b")
        };
        assert_eq!(
            step(true, Some(&other), Some(&copy("a"))),
            delete(Why::Unchangeable)
        );
    }

    #[test]
    fn the_copy_of_what_cant_be_read_is_left_as_it_is() {
        let unreadable = Brief {
            unreadable: true,
            ..source("b")
        };
        let there = copy("a");
        for needed in [true, false] {
            assert_eq!(step(needed, Some(&unreadable), None), Step::Rest);
        }
        assert_eq!(step(true, Some(&unreadable), Some(&there)), Step::Rest);
        let unneeded = step(false, Some(&unreadable), Some(&there));
        assert_eq!(unneeded, delete(Why::Unneeded), "it holds up nobody");
    }

    #[test]
    fn what_a_target_makes_of_a_copy_is_taken_until_somebody_changes_it() {
        let (at_home, there) = (source("a"), copy("other"));
        let observed = |accepted| Observed {
            needed: true,
            kept: true,
            source: Some(&at_home),
            copy: Some(&there),
            plain: None,
            accepted,
        };
        let accepted = Some(("a", "other"));
        assert_eq!(decide(&observed(accepted)), Step::Rest);
        let touched = Brief {
            version: "10".into(),
            ..there.clone()
        };
        let status_written = Observed {
            copy: Some(&touched),
            ..observed(accepted)
        };
        assert_eq!(
            decide(&status_written),
            Step::Rest,
            "its content is as it was"
        );
        for accepted in [Some(("a", "x")), Some(("b", "other")), None] {
            assert!(
                matches!(decide(&observed(accepted)), Step::Replace { .. }),
                "{accepted:?}"
            );
        }
    }
}
