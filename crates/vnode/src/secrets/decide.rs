//! Which Secrets get our finalizer, which lose it, and who comes first. Pure.
//!
//! Targets and marked Secrets are tenants', and there may be any number of either: they meet by name, so that the work
//! is linear. A finalizer that is missing comes before one that is too many, namespaces take turns, and each has a
//! share of a look: whoever marks own Secrets again and again delays nobody else.

use std::collections::{BTreeMap, HashMap, HashSet};

use pilotage_clusters::TargetKey;
use pilotage_runtime::caught::caught;
use pilotage_runtime::retries::Retries;
use tokio::time::Instant;

/// So many finalizers of a namespace are put on in one look, and so many taken off.
pub(super) const SHARE: usize = 16;

/// Which Secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A Target's use of a Secret.
#[derive(Clone, Debug)]
pub struct Use {
    /// The Secret.
    pub secret: Name,
    /// The Target is being deleted.
    pub deleting: bool,
    /// The Target is in the Secret's namespace and goes with it.
    pub housemate: bool,
    /// Whether the Secret holds a kubeconfig at the key that the Target names; `None`: nobody could look yet.
    pub holds: Option<bool>,
}

/// How Targets use Secrets.
#[derive(Debug)]
pub struct Uses {
    /// Each of them.
    pub uses: Vec<Use>,
    /// Whether that is known of each Target; otherwise nobody's Secret may be somebody's.
    pub all: bool,
}

/// Asks each target how it uses a Secret, but for those that panicked and whose time hasn't come.
pub(super) fn uses<T>(
    targets: &[(TargetKey, T)],
    retries: &mut Retries<TargetKey>,
    now: Instant,
    read: impl Fn(&T) -> Option<Use>,
    panicked: impl Fn(&T, &str),
) -> Uses {
    let due = retries.due(now);
    let is_gone = |key: &&TargetKey| targets.iter().all(|(known, _)| known != *key);
    for gone in due.iter().filter(is_gone) {
        retries.succeeded(gone);
    }
    let (mut uses, mut all) = (Vec::new(), true);
    for (key, target) in targets {
        if retries.has_failed(key) && !due.contains(key) {
            all = false;
            continue;
        }
        match caught(|| read(target)) {
            Ok(found) => {
                retries.succeeded(key);
                uses.extend(found);
            }
            Err(panic) => {
                panicked(target, &panic);
                retries.failed(key.clone(), now);
                all = false;
            }
        }
    }
    Uses { uses, all }
}

/// A Secret that has our finalizer.
#[derive(Clone, Debug)]
pub struct Held {
    /// Which Secret.
    pub secret: Name,
    /// Its UID.
    pub uid: String,
    /// It is being deleted.
    pub ending: bool,
    /// So is its namespace; `None`: not known, since nothing depends on it or it can't be read.
    pub home_ending: Option<bool>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Put our finalizer on.
    Hold(Name),
    /// Take it off the Secret with this UID.
    LetGo(Name, String),
}

impl Step {
    pub(super) fn secret(&self) -> &Name {
        match self {
            Self::Hold(name) | Self::LetGo(name, _) => name,
        }
    }
}

/// What all users of one Secret say together.
#[derive(Clone, Copy, Debug, Default)]
struct Users {
    /// One is being deleted.
    deleting: bool,
    /// One goes with the Secret's namespace.
    housemate: bool,
    /// To the one to whom it does most.
    holds: Holds,
}

/// Whether a Secret holds a kubeconfig.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Holds {
    #[default]
    No,
    /// Nobody could look yet.
    Maybe,
    Yes,
}

/// Who uses which Secret.
pub struct Index<'a>(HashMap<&'a Name, Users>);

impl<'a> Index<'a> {
    /// Meets them by name.
    pub fn new(uses: &'a [Use]) -> Self {
        let mut index = Self(HashMap::with_capacity(uses.len()));
        for it in uses {
            let users = index.0.entry(&it.secret).or_default();
            users.deleting |= it.deleting;
            users.housemate |= it.housemate;
            users.holds = users.holds.max(match it.holds {
                Some(false) => Holds::No,
                None => Holds::Maybe,
                Some(true) => Holds::Yes,
            });
        }
        index
    }

    /// Nobody is as good as somebody who can't use it.
    fn of(&self, secret: &Name) -> Users {
        self.0.get(secret).copied().unwrap_or_default()
    }

    /// Whether only the state of its namespace can say if the Secret is still needed.
    pub fn depends_on_home(&self, held: &Held) -> bool {
        let users = self.of(&held.secret);
        let may_hold = users.holds != Holds::No;
        held.ending && may_hold && users.housemate && !users.deleting
    }

    /// Whether a finalizer that is there may go; `lasting`: whether our rights outlive a Secret's namespace.
    fn is_free(&self, held: &Held, lasting: bool) -> bool {
        let users = self.of(&held.secret);
        // Nobody uses it, or nobody can.
        if !lasting || users.holds == Holds::No {
            return true;
        }
        if self.depends_on_home(held) {
            // Somebody deletes it by itself; otherwise the Target's own deletion follows.
            return held.home_ending == Some(false);
        }
        held.ending && !users.deleting
    }
}

/// What one look does.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// In this order.
    pub steps: Vec<Step>,
    /// Whether there is more than some namespace's share.
    pub more: bool,
}

/// The work of look number `turn`.
pub fn decide(uses: &Uses, index: &Index<'_>, held: &[Held], lasting: bool, turn: usize) -> Work {
    let is_held: HashSet<&Name> = held.iter().map(|it| &it.secret).collect();
    let mut wanted: HashSet<&Name> = HashSet::new();
    let needed = uses.uses.iter().map(|it| &it.secret).filter(|&secret| {
        let needs = lasting && index.of(secret).holds == Holds::Yes;
        needs && !is_held.contains(secret) && wanted.insert(secret)
    });
    let holds = needed.map(|secret| Step::Hold(secret.clone()));
    let mut work = shared(holds, turn);
    if lasting && !uses.all {
        return work;
    }
    let free = held.iter().filter(|it| index.is_free(it, lasting));
    let let_go = free.map(|it| Step::LetGo(it.secret.clone(), it.uid.clone()));
    let let_go = shared(let_go, turn);
    work.steps.extend(let_go.steps);
    work.more |= let_go.more;
    work
}

/// A share of each namespace's steps, one of each in turn. Which ones depends on the look, so that some which fail are
/// in nobody's way.
fn shared(steps: impl Iterator<Item = Step>, turn: usize) -> Work {
    let mut homes: BTreeMap<String, Vec<Step>> = BTreeMap::new();
    for step in steps {
        match homes.get_mut(&step.secret().namespace) {
            Some(steps) => steps.push(step),
            None => _ = homes.insert(step.secret().namespace.clone(), vec![step]),
        }
    }
    let mut work = Work::default();
    for steps in homes.values_mut().filter(|steps| steps.len() > SHARE) {
        let begin = turn.wrapping_mul(SHARE).checked_rem(steps.len());
        steps.rotate_left(begin.unwrap_or_default());
        steps.truncate(SHARE);
        work.more = true;
    }
    for nth in 0..SHARE {
        let nths = homes.values().filter_map(|steps| steps.get(nth));
        work.steps.extend(nths.cloned());
    }
    work
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use pilotage_runtime::caught::PAUSES;

    use super::*;

    fn steps(uses: &[Use], all: bool, held: &[Held], lasting: bool) -> Vec<Step> {
        look(uses, all, held, lasting, 0).steps
    }

    fn look(uses: &[Use], all: bool, held: &[Held], lasting: bool, turn: usize) -> Work {
        let index = Index::new(uses);
        let uses = Uses {
            uses: uses.to_vec(),
            all,
        };
        decide(&uses, &index, held, lasting, turn)
    }

    fn name() -> Name {
        Name {
            namespace: "shop".into(),
            name: "paris".into(),
        }
    }

    fn used(deleting: bool, housemate: bool) -> Use {
        Use {
            secret: name(),
            deleting,
            housemate,
            holds: Some(true),
        }
    }

    fn held(ending: bool, home_ending: Option<bool>) -> Held {
        Held {
            secret: name(),
            uid: "u".into(),
            ending,
            home_ending,
        }
    }

    #[test]
    fn a_secret_is_held_as_long_as_a_target_needs_it_to_clean_up() {
        let (target, ending_target) = (used(false, true), used(true, true));
        let abroad = used(false, false);
        let holding = |holds| Use {
            holds,
            ..used(false, true)
        };
        let let_go = || vec![Step::LetGo(name(), "u".into())];
        let table = [
            ("nobody uses it", vec![], held(false, None), let_go()),
            ("in use", vec![target.clone()], held(false, None), vec![]),
            (
                "no kubeconfig is in it any more",
                vec![holding(Some(false))],
                held(false, None),
                let_go(),
            ),
            (
                "nobody could look what is in it",
                vec![holding(Some(false)), holding(None)],
                held(false, None),
                vec![],
            ),
            (
                "its Target goes",
                vec![ending_target.clone()],
                held(false, None),
                vec![],
            ),
            (
                "both go",
                vec![ending_target.clone()],
                held(true, None),
                vec![],
            ),
            (
                "the namespace goes, the Target's turn comes",
                vec![target.clone()],
                held(true, Some(true)),
                vec![],
            ),
            (
                "deleted by itself",
                vec![target.clone()],
                held(true, Some(false)),
                let_go(),
            ),
            (
                "nobody knows why it goes",
                vec![target.clone()],
                held(true, None),
                vec![],
            ),
            (
                "its ClusterTarget stays, whatever becomes of the namespace",
                vec![abroad.clone()],
                held(true, None),
                let_go(),
            ),
            (
                "one of two users goes",
                vec![abroad, ending_target],
                held(true, None),
                vec![],
            ),
        ];
        for (case, uses, secret, want) in table {
            let held = [secret];
            assert_eq!(steps(&uses, true, &held, true), want, "{case}");
            assert_eq!(
                steps(&uses, false, &held, true),
                [],
                "{case}, or another one does"
            );
        }
    }

    #[test]
    fn a_secret_with_a_kubeconfig_is_held_once() {
        for holds in [None, Some(false)] {
            let other = Use {
                holds,
                ..used(false, true)
            };
            assert_eq!(steps(&[other], true, &[], true), [], "{holds:?}");
        }
        for all in [true, false] {
            let both = [used(false, true), used(false, false)];
            assert_eq!(steps(&both, all, &[], true), [Step::Hold(name())]);
        }
    }

    #[test]
    fn none_is_held_where_our_rights_go_with_the_namespace() {
        let uses = vec![used(false, true), used(true, true), used(false, false)];
        assert_eq!(steps(&uses, false, &[], false), []);
        let let_go = [Step::LetGo(name(), "u".into())];
        for (ending, home_ending) in [(false, None), (true, None), (true, Some(true))] {
            let secret = held(ending, home_ending);
            assert_eq!(steps(&uses, false, &[secret], false), let_go, "{ending}");
        }
    }

    /// A Secret that a Target uses, and one that only says that it is held.
    fn of(namespace: &str, name: &str) -> (Use, Held) {
        let secret = Name {
            namespace: namespace.into(),
            name: name.into(),
        };
        let used = Use {
            secret: secret.clone(),
            ..used(false, true)
        };
        let held = Held {
            secret,
            ..held(false, None)
        };
        (used, held)
    }

    #[test]
    fn as_many_targets_as_marked_secrets_are_no_product() {
        let many = |from: usize| (from..from + 10_000).map(|it| of("evil", &it.to_string()));
        let uses: Vec<Use> = many(0).map(|(used, _)| used).collect();
        // Half of them are used.
        let held: Vec<Held> = many(5_000).map(|(_, held)| held).collect();
        let work = pilotage_absurd::bounded(|| look(&uses, true, &held, true, 0));
        assert!(work.more);
        let (holds, let_go) = work.steps.split_at(SHARE);
        assert!(holds.iter().all(|it| matches!(it, Step::Hold(_))));
        assert!(let_go.len() == SHARE && let_go.iter().all(|it| matches!(it, Step::LetGo(..))));
    }

    #[test]
    fn what_is_missing_comes_first_and_namespaces_take_turns() {
        let marked = (0..1_000).map(|it| of("evil", &it.to_string()).1);
        let mut held: Vec<Held> = marked.collect();
        held.extend(["a", "b"].map(|name| of("shop", name).1));
        let targets = (0..1_000).map(|it| of("greedy", &it.to_string()).0);
        let mut uses: Vec<Use> = targets.collect();
        uses.extend([of("bank", "x").0, of("shop", "new").0]);
        let work = look(&uses, true, &held, true, 0);
        let home = |at: usize| {
            let step = &work.steps[at];
            let holds = matches!(step, Step::Hold(_));
            (holds, step.secret().namespace.as_str())
        };
        let begin: Vec<_> = (0..3).map(home).collect();
        assert_eq!(begin, [(true, "bank"), (true, "greedy"), (true, "shop")]);
        let holds = 2 + SHARE;
        let then: Vec<_> = (holds..holds + 5).map(home).collect();
        let (evil, shop) = ((false, "evil"), (false, "shop"));
        assert_eq!(then, [evil, shop, evil, shop, evil]);
        assert_eq!(work.steps.len(), holds + 2 + SHARE);
        assert!(work.more);
    }

    #[test]
    fn each_secret_has_its_turn_whatever_becomes_of_others() {
        let held: Vec<Held> = (0..100).map(|it| of("evil", &it.to_string()).1).collect();
        let looks = (usize::MAX - 3..=usize::MAX).chain(0..4);
        let seen: HashSet<Name> = looks
            .flat_map(|turn| look(&[], true, &held, true, turn).steps)
            .map(|step| step.secret().clone())
            .collect();
        assert_eq!(seen.len(), 100);
        let few = look(&[], true, &held[..SHARE], true, 5);
        assert_eq!((few.steps.len(), few.more), (SHARE, false));
    }

    #[test]
    fn a_target_that_panics_is_told_tried_again_and_hides_no_other() {
        let target = |name: &'static str| (TargetKey::namespaced("shop", name), name);
        let (bad, good) = (target("bad"), target("good"));
        let mut retries = Retries::new(PAUSES);
        let told = Cell::new(0);
        let start = Instant::now();
        let mut look = |targets: &[(TargetKey, &'static str)], seconds| {
            let read = |name: &&str| {
                assert_ne!(*name, "bad", "on purpose");
                Some(used(false, true))
            };
            let now = start + Duration::from_secs(seconds);
            let found = uses(targets, &mut retries, now, read, |name, panic| {
                assert!(
                    *name == "bad" && panic.contains("on purpose"),
                    "{name}: {panic}"
                );
                told.set(told.get() + 1);
            });
            (found.uses.len(), found.all, told.get())
        };
        let both = [bad.clone(), good.clone()];
        for (seconds, panics) in [(0, 1), (9, 1), (10, 2), (29, 2), (30, 3)] {
            assert_eq!(look(&both, seconds), (1, false, panics), "{seconds}");
        }
        assert_eq!(look(&[good], 31), (1, true, 3), "it is gone");
        assert_eq!(
            look(std::slice::from_ref(&bad), 32),
            (0, false, 3),
            "and back before its time"
        );
        assert_eq!(look(&[], 70), (0, true, 3));
        assert_eq!(look(&[bad], 71), (0, false, 4), "and back, anew");
    }
}
