//! All attacks of a target's server, and what each makes of the Target that leads there. How the server tells them is
//! `pilotage_testkit::hostile`'s affair.

use pilotage_testkit::fault::Calls;
use pilotage_testkit::hostile::{Lie, Script};

use super::{bodies, copies, lines, watches};

/// What answers hold that nobody is to be told who may read a Target's status.
pub const PRIVATE: &str = "the wiki of another department";

/// A lie that is told again and again.
#[derive(Debug, Clone)]
pub struct Attack {
    /// In words; its test has the same name.
    pub name: &'static str,
    /// What is lied about.
    pub calls: Calls,
    /// How.
    pub lie: Lie,
    /// Reason of the Target's condition and some words of its message; `None`: such a target isn't lost by it, or not
    /// soon.
    pub lost: Option<(&'static str, &'static str)>,
}

impl Attack {
    /// As a server plays it.
    pub fn script(&self) -> Script {
        Script::new().always(self.calls.clone(), self.lie.clone())
    }
}

/// An attack that makes a lost Target.
pub(super) fn losing(
    name: &'static str,
    calls: Calls,
    lie: Lie,
    reason: &'static str,
    words: &'static str,
) -> Attack {
    Attack {
        name,
        calls,
        lie,
        lost: Some((reason, words)),
    }
}

/// All of them.
pub fn all() -> Vec<Attack> {
    [bodies::all(), copies::all(), watches::all(), lines::all()].concat()
}

/// The one of this name.
pub fn named(name: &str) -> Option<Attack> {
    all().into_iter().find(|attack| attack.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_has_a_name_of_its_own() {
        let all = all();
        let names: BTreeSet<_> = all.iter().map(|attack| attack.name).collect();
        assert_eq!(names.len(), all.len());
        assert_eq!(named("silence").unwrap().name, "silence");
        assert!(named("honesty").is_none());
    }
}
