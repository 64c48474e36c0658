//! Holds rights against requests: pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use pilotage_testkit::usage::{Answer, Place, Use, Uses};

use super::PARTS;
use super::exceptions::{Exceptions, Forbidden};
use super::grants::{Grant, Part};

/// What is wrong with the roles, or with the exceptions.
#[derive(Debug, PartialEq, Eq)]
pub enum Finding {
    /// Nobody used it.
    Unused(Grant),
    /// It is given for the whole cluster and was used in the part's own namespace alone.
    TooWide(Grant),
    /// A part did what only another part's role allows, with which it shares an account.
    Borrowed(String),
    /// It was refused to a part.
    Forbidden(String),
    /// An exception of which the tests show that it isn't one.
    Needless(String),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unused(grant) => write!(f, "granted and never used: {grant}"),
            Self::TooWide(grant) => write!(
                f,
                "granted for all namespaces and used in the part's own one alone: {grant}"
            ),
            Self::Borrowed(used) => write!(
                f,
                "allowed only by the role of another part in the same process: {used}"
            ),
            Self::Forbidden(used) => write!(f, "403: {used}"),
            Self::Needless(exception) => write!(f, "the exception isn't needed: {exception}"),
        }
    }
}

/// What the logs show.
#[derive(Debug)]
pub(super) struct Checked {
    /// What is wrong.
    pub(super) found: Vec<Finding>,
    /// Exceptions of chance that weren't needed this time.
    pub(super) spared: Vec<String>,
    /// Refusals in targets of which the logs don't show whether they were wanted.
    pub(super) doubtful: Vec<String>,
}

pub(super) fn check(grants: &BTreeSet<Grant>, uses: &Uses, exceptions: &Exceptions) -> Checked {
    let mut seen: BTreeSet<&Grant> = BTreeSet::new();
    let mut seen_elsewhere: BTreeSet<&Grant> = BTreeSet::new();
    // By requests that were done: what failed may have asked for nothing inside.
    let mut done: BTreeSet<&Grant> = BTreeSet::new();
    let mut given: BTreeSet<String> = BTreeSet::new();
    let mut needed: BTreeSet<String> = BTreeSet::new();
    let (mut found, mut spared) = (Vec::new(), Vec::new());
    let bound = bound(uses);
    let mut doubts: BTreeMap<String, (BTreeSet<&Account>, &str)> = BTreeMap::new();
    for (used, run) in uses {
        let Some(role) = role_of(used, grants) else {
            if let Answer::Forbidden(words) = &used.answer {
                match refusal(used, grants, &bound, exceptions) {
                    Refusal::Wanted => {}
                    Refusal::Excepted(exception) => needed.extend([exception.to_string()]),
                    Refusal::Doubtful(roles) => {
                        let what = format!(
                            "{}: {} {}, which {roles} would allow",
                            used.agent, used.verb, used.resource
                        );
                        let doubt = doubts
                            .entry(what)
                            .or_insert((BTreeSet::new(), run.as_str()));
                        doubt.0.insert(&used.account);
                    }
                    Refusal::Wrong => {
                        let told = format!("{}: {words}", told(used, run));
                        found.push(Finding::Forbidden(told));
                    }
                }
            }
            continue;
        };
        for verb in verbs(used) {
            let mut fitting: Vec<_> = grants
                .iter()
                .filter(|grant| grant.role == role && fits(grant, used, verb))
                .collect();
            // The narrowest is the one that was meant.
            fitting.sort_by_key(|grant| {
                let narrow = grant.namespace.is_some();
                (!narrow, grant.is_for_named(), grant.name.is_none())
            });
            match fitting.first() {
                Some(grant) => {
                    seen.insert(grant);
                    if !matches!(used.answer, Answer::Failed(_)) {
                        done.insert(grant);
                    }
                    if used.place != Place::Own {
                        seen_elsewhere.insert(grant);
                    }
                }
                None => found.push(Finding::Borrowed(told(used, run))),
            }
        }
    }
    for inside in exceptions.inside {
        let is = |grant: &Grant, (verb, resource): (&str, &str)| {
            grant.verb == verb && grant.resource == resource
        };
        for grant in grants.iter().filter(|grant| is(grant, inside.right)) {
            let by = done.iter().find(|other| {
                other.role == grant.role && inside.by.iter().any(|by| is(other, *by))
            });
            if by.is_some() {
                seen.insert(grant);
                seen_elsewhere.insert(grant);
            }
        }
    }
    let own = |grant: &Grant| PARTS.iter().any(|part| part.role() == grant.role);
    for grant in grants {
        let exception = exceptions.unused.iter().find(|it| {
            (it.role, it.verb, it.resource)
                == (
                    grant.role.as_str(),
                    grant.verb.as_str(),
                    grant.resource.as_str(),
                )
        });
        given.extend(exception.map(ToString::to_string));
        if !seen.contains(grant) {
            match exception {
                Some(it) => {
                    needed.insert(it.to_string());
                }
                None => found.push(Finding::Unused(grant.clone())),
            }
        } else if grant.namespace.is_none() && own(grant) && !seen_elsewhere.contains(grant) {
            found.push(Finding::TooWide(grant.clone()));
        }
    }
    for exception in exceptions.unused {
        let told = exception.to_string();
        if needed.contains(&told) {
            continue;
        }
        if exception.seldom && given.contains(&told) {
            spared.push(told);
        } else {
            found.push(Finding::Needless(told));
        }
    }
    let forbidden = exceptions.forbidden.iter().map(ToString::to_string);
    let needless = forbidden.filter(|exception| !needed.contains(exception));
    found.extend(needless.map(Finding::Needless));
    let doubtful = doubts.into_iter().map(|(what, (accounts, run))| {
        let count = accounts.len();
        format!("{what} (to {count} account(s), first in target/testkit: {run})")
    });
    Checked {
        found,
        spared,
        doubtful: doubtful.collect(),
    }
}

/// Namespace and name.
type Account = (String, String);

/// The roles by which each account was let through: they were bound to it, at some time.
fn bound(uses: &Uses) -> BTreeMap<&Account, BTreeSet<&str>> {
    let mut bound: BTreeMap<&Account, BTreeSet<&str>> = BTreeMap::new();
    for used in uses.keys() {
        if let Answer::Allowed(by) | Answer::Failed(by) | Answer::Created(by) = &used.answer {
            bound.entry(&used.account).or_default().insert(by);
        }
    }
    bound
}

/// The role whose right a request used: the asking part's own, or one that was given to a source. None if it used
/// somebody else's, such as those that Kubernetes gives to everybody, or was refused.
fn role_of(used: &Use, grants: &BTreeSet<Grant>) -> Option<String> {
    let (Answer::Allowed(by) | Answer::Failed(by) | Answer::Created(by)) = &used.answer else {
        return None;
    };
    if PARTS.iter().any(|part| part.role() == *by) {
        // With one account for all parts the API server names any role that fits.
        return Some(part_of(used)?.role());
    }
    grants
        .iter()
        .any(|grant| grant.role == *by)
        .then(|| by.clone())
}

/// The part that sent a request.
fn part_of(used: &Use) -> Option<Part> {
    let named = |name: &str| PARTS.into_iter().find(|part| part.name == name);
    match used.agent.as_str() {
        "shoot-events" => named("gardener-scheduler"),
        // Parts that share an account have Leases of their own.
        "leader-election" => {
            named(&used.account.1).or_else(|| named(used.name.strip_prefix("pilotage-")?))
        }
        agent => named(agent),
    }
}

/// Verbs that a request needs.
fn verbs(used: &Use) -> impl Iterator<Item = &str> {
    let created = matches!(used.answer, Answer::Created(_)).then_some("create");
    std::iter::once(used.verb.as_str()).chain(created)
}

fn fits(grant: &Grant, used: &Use, verb: &str) -> bool {
    let in_place = match (&grant.namespace, &used.place) {
        // What a role of some namespace let through needs no right to all.
        (None, _) => !used.by_namespace,
        (Some(_), place) if grant.is_for_named() => {
            used.by_namespace && matches!(place, Place::Own | Place::Elsewhere)
        }
        // Tests of a single component call home what they like.
        (Some(namespace), Place::Own) => PARTS
            .iter()
            .any(|part| part.role() == grant.role && part.home == namespace),
        (Some(namespace), Place::System(name)) => namespace == name,
        (Some(_), Place::Cluster | Place::Elsewhere) => false,
    };
    in_place
        && grant.verb == verb
        && grant.group == used.group
        && grant.resource == used.resource
        && grant.name.as_ref().is_none_or(|name| *name == used.name)
}

/// What a refused request says of the roles.
enum Refusal<'e> {
    /// Nothing: the account had the right, elsewhere or at another time, and a target gives as much as it wants.
    Wanted,
    /// Nobody knows: no role that has the right, which are these, was ever bound to the account. Its target didn't give
    /// it, or somebody forgot to.
    Doubtful(String),
    /// Nothing, by this exception.
    Excepted(&'e Forbidden),
    /// One lacks a right.
    Wrong,
}

fn refusal<'e>(
    used: &Use,
    grants: &BTreeSet<Grant>,
    bound: &BTreeMap<&Account, BTreeSet<&str>>,
    exceptions: &'e Exceptions,
) -> Refusal<'e> {
    let (namespace, name) = &used.account;
    // Alone under its own name, or all in one process under that of the namespace.
    let is_own = |part: &Part| part.home == *namespace && (part.name == *name || name == namespace);
    let at_home = PARTS.iter().any(is_own);
    let given = |grant: &&Grant| PARTS.iter().all(|part| part.role() != grant.role);
    let given = grants.iter().filter(given);
    let able = given.filter(|grant| !at_home && fits(grant, used, &used.verb));
    let able: BTreeSet<&str> = able.map(|grant| grant.role.as_str()).collect();
    let had = bound.get(&used.account);
    if had.is_some_and(|had| !had.is_disjoint(&able)) {
        return Refusal::Wanted;
    }
    let mut forbidden = exceptions.forbidden.iter();
    let exception = forbidden.find(|it| {
        let asked = (
            used.agent.as_str(),
            used.verb.as_str(),
            used.resource.as_str(),
        );
        (it.agent, it.verb, it.resource) == asked && it.at_home == at_home
    });
    match exception {
        Some(exception) => Refusal::Excepted(exception),
        None if able.is_empty() => Refusal::Wrong,
        None => Refusal::Doubtful(able.into_iter().collect::<Vec<_>>().join(" or ")),
    }
}

fn told(used: &Use, run: &str) -> String {
    let place = match &used.place {
        Place::Cluster => "cluster-wide".to_owned(),
        Place::Own => "in its own namespace".to_owned(),
        Place::System(name) => format!("in {name}"),
        Place::Elsewhere => "in some namespace".to_owned(),
    };
    format!(
        "{} as {}/{}: {} {} {place} (first in target/testkit: {run})",
        used.agent, used.account.0, used.account.1, used.verb, used.resource
    )
}

#[cfg(test)]
mod tests {
    use pilotage_testkit::usage::Uses;

    use super::*;
    use crate::roles::NAMED;
    use crate::roles::exceptions::{Inside, Unused};

    const NONE: Exceptions = Exceptions {
        inside: &[],
        unused: &[],
        forbidden: &[],
    };

    fn grant(role: &str, verb: &str, resource: &str) -> Grant {
        Grant {
            role: role.to_owned(),
            namespace: None,
            group: String::new(),
            resource: resource.to_owned(),
            name: None,
            verb: verb.to_owned(),
        }
    }

    fn allowed(by: &str) -> Answer {
        Answer::Allowed(by.to_owned())
    }

    /// A request of the controllers in some namespace.
    fn request(account: (&str, &str), verb: &str, resource: &str, answer: Answer) -> Use {
        Use {
            agent: "controllers".to_owned(),
            account: (account.0.to_owned(), account.1.to_owned()),
            verb: verb.to_owned(),
            group: String::new(),
            resource: resource.to_owned(),
            place: Place::Elsewhere,
            name: String::new(),
            answer,
            by_namespace: false,
        }
    }

    const HOME: (&str, &str) = ("pilotage", "controllers");
    const ABROAD: (&str, &str) = ("shop", "source");
    const OWN: &str = "pilotage-controllers";

    fn found<const G: usize, const U: usize>(
        grants: [Grant; G],
        uses: [Use; U],
        exceptions: &Exceptions,
    ) -> Vec<String> {
        let uses: Uses = uses.map(|used| (used, "run-1".to_owned())).into();
        let checked = check(&grants.into(), &uses, exceptions);
        checked.found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_right_that_was_used_is_well_and_another_one_is_found() {
        let grants = [grant(OWN, "get", "pods"), grant(OWN, "list", "pods")];
        let uses = [request(HOME, "get", "pods", allowed(OWN))];
        assert_eq!(
            found(grants, uses, &NONE),
            ["granted and never used: pilotage-controllers: list pods"]
        );
    }

    #[test]
    fn somebody_elses_use_and_everybodys_right_dont_count() {
        let own = || [grant(OWN, "get", "pods")];
        // In a target: by the role of a source, or one that a test made.
        for by in ["pilotage-source", "system:basic-user", ""] {
            let used = request(ABROAD, "get", "pods", allowed(by));
            assert_eq!(found(own(), [used], &NONE).len(), 1, "{by}");
        }
        let mut used = request(HOME, "get", "pods", allowed(OWN));
        used.agent = "proxy-scheduler".to_owned();
        let text = found(own(), [used], &NONE).join("\n");
        assert!(
            text.contains("role of another part") && text.contains("never used"),
            "{text}"
        );
    }

    #[test]
    fn a_given_role_is_used_by_whoever_asks_under_it() {
        let grants = [grant("pilotage-source", "create", "podchaperons")];
        let by = allowed("pilotage-source");
        let used = request(ABROAD, "create", "podchaperons", by);
        assert_eq!(found(grants, [used], &NONE), [""; 0]);
    }

    #[test]
    fn what_is_used_at_home_alone_need_not_be_granted_everywhere() {
        let mut used = request(HOME, "get", "secrets", allowed(OWN));
        used.place = Place::Own;
        let text = found([grant(OWN, "get", "secrets")], [used.clone()], &NONE).join("\n");
        assert!(text.contains("own one alone"), "{text}");
        let mut narrow = grant(OWN, "get", "secrets");
        narrow.namespace = Some("pilotage".to_owned());
        assert_eq!(found([narrow], [used], &NONE), [""; 0]);
    }

    #[test]
    fn the_narrowest_right_is_the_one_that_was_used() {
        let mut named = grant(OWN, "get", "namespaces");
        named.name = Some("kube-system".to_owned());
        let mut used = request(HOME, "get", "namespaces", allowed(OWN));
        (used.place, used.name) = (Place::Cluster, "kube-system".to_owned());
        let grants = [named, grant(OWN, "get", "namespaces")];
        assert_eq!(
            found(grants, [used], &NONE),
            ["granted and never used: pilotage-controllers: get namespaces"]
        );
    }

    #[test]
    fn a_right_to_all_and_one_in_named_namespaces_are_used_by_different_requests() {
        let grants = || {
            let mut named = grant(OWN, "list", "secrets");
            named.namespace = Some(NAMED.to_owned());
            [named, grant(OWN, "list", "secrets")]
        };
        let used = |by_namespace| Use {
            by_namespace,
            ..request(HOME, "list", "secrets", allowed(OWN))
        };
        let all = "granted and never used: pilotage-controllers: list secrets";
        let named = format!("{all} in namespace {NAMED}");
        assert_eq!(found(grants(), [used(true)], &NONE), [all]);
        assert_eq!(found(grants(), [used(false)], &NONE), [named]);
        assert_eq!(found(grants(), [used(true), used(false)], &NONE), [""; 0]);
    }

    #[test]
    fn a_patch_that_makes_its_object_needs_create_as_well() {
        let grants = || {
            [
                grant(OWN, "create", "leases"),
                grant(OWN, "patch", "leases"),
            ]
        };
        let patch = |answer| [request(HOME, "patch", "leases", answer)];
        assert_eq!(found(grants(), patch(allowed(OWN)), &NONE).len(), 1);
        let created = Answer::Created(OWN.to_owned());
        assert_eq!(found(grants(), patch(created), &NONE), [""; 0]);
    }

    #[test]
    fn a_right_that_is_asked_for_inside_a_request_was_used_by_that() {
        let exceptions = Exceptions {
            inside: &[Inside {
                right: ("update", "podchaperons/finalizers"),
                by: &[("create", "pods")],
            }],
            ..NONE
        };
        let grants = || {
            [
                grant(OWN, "create", "pods"),
                grant(OWN, "update", "podchaperons/finalizers"),
            ]
        };
        let used = request(HOME, "create", "pods", allowed(OWN));
        assert_eq!(found(grants(), [used], &exceptions), [""; 0]);
        assert_eq!(found(grants(), [], &exceptions).len(), 2);
        // Refused by a quota, say, before anybody looked at its owner.
        let failed = Answer::Failed(OWN.to_owned());
        let failed = request(HOME, "create", "pods", failed);
        assert_eq!(
            found(grants(), [failed], &exceptions),
            ["granted and never used: pilotage-controllers: update podchaperons/finalizers"]
        );
    }

    #[test]
    fn a_refusal_at_home_is_found_and_one_in_a_target_if_no_source_may_do_that() {
        let refused = |account| {
            [request(
                account,
                "list",
                "pods",
                Answer::Forbidden(String::new()),
            )]
        };
        assert_eq!(found([], refused(HOME), &NONE).len(), 1);
        assert_eq!(found([], refused(ABROAD), &NONE).len(), 1);
        // All parts in one process.
        assert_eq!(found([], refused(("pilotage", "pilotage")), &NONE).len(), 1);
        let text = found(
            [grant("pilotage-source", "list", "pods")],
            refused(ABROAD),
            &NONE,
        );
        assert_eq!(text, ["granted and never used: pilotage-source: list pods"]);
    }

    #[test]
    fn a_refusal_to_an_account_that_never_had_such_a_role_is_doubtful() {
        let grants: BTreeSet<_> = [
            grant("pilotage-source", "list", "pods"),
            grant("pilotage-source-exec", "create", "pods/exec"),
        ]
        .into();
        let checked = |uses: &[(&str, &str, Answer)]| {
            let uses = uses.iter().map(|(verb, resource, answer)| {
                let used = request(ABROAD, verb, resource, answer.clone());
                (used, "run-1".to_owned())
            });
            let uses: Uses = uses.collect();
            check(&grants, &uses, &NONE)
        };
        let no = || Answer::Forbidden(String::new());
        let by_source = ("list", "pods", allowed("pilotage-source"));
        // It had the right at another time.
        let taken = checked(&[by_source.clone(), ("list", "pods", no())]);
        assert_eq!(taken.doubtful, [""; 0]);
        // It has another role, and nobody bound this one.
        let unbound = checked(&[by_source, ("create", "pods/exec", no())]);
        let told = "controllers: create pods/exec, which pilotage-source-exec would allow (to 1 account(s), first in \
                    target/testkit: run-1)";
        assert_eq!(unbound.doubtful, [told]);
        assert!(
            !unbound
                .found
                .iter()
                .any(|it| matches!(it, Finding::Forbidden(_)))
        );
        // An exception names it.
        let exceptions = Exceptions {
            forbidden: &[Forbidden {
                agent: "controllers",
                verb: "create",
                resource: "pods/exec",
                at_home: false,
                why: "on purpose",
            }],
            ..NONE
        };
        let refused = request(ABROAD, "create", "pods/exec", no());
        let uses: Uses = [(refused, "run-1".to_owned())].into();
        let named = check(&grants, &uses, &exceptions);
        assert_eq!(named.doubtful, [""; 0]);
        assert!(
            !named
                .found
                .iter()
                .any(|it| matches!(it, Finding::Needless(_)))
        );
    }

    #[test]
    fn an_exception_serves_only_as_long_as_it_is_needed() {
        let exceptions = Exceptions {
            unused: &[Unused {
                role: OWN,
                verb: "get",
                resource: "nodes",
                seldom: false,
                why: "never",
            }],
            forbidden: &[Forbidden {
                agent: "controllers",
                verb: "list",
                resource: "pods",
                at_home: false,
                why: "on purpose",
            }],
            ..NONE
        };
        let refused = || request(ABROAD, "list", "pods", Answer::Forbidden(String::new()));
        assert_eq!(
            found([grant(OWN, "get", "nodes")], [refused()], &exceptions),
            [""; 0]
        );
        let used = request(HOME, "get", "nodes", allowed(OWN));
        let text = found([grant(OWN, "get", "nodes")], [used], &exceptions).join("\n");
        assert_eq!(text.matches("isn't needed").count(), 2, "{text}");
    }

    #[test]
    fn what_is_used_by_chance_is_told_and_a_right_that_is_not_given_needs_no_exception() {
        let exceptions = Exceptions {
            unused: &[Unused {
                role: OWN,
                verb: "get",
                resource: "nodes",
                seldom: true,
                why: "by chance",
            }],
            ..NONE
        };
        let given = || [grant(OWN, "get", "nodes")];
        let told = "pilotage-controllers: get nodes (by chance)";
        for (used, spared) in [(None, &[][..]), (Some(allowed(OWN)), &[told][..])] {
            let uses = used.map(|answer| request(HOME, "get", "nodes", answer));
            let uses: Uses = uses
                .map(|used| (used, "run-1".to_owned()))
                .into_iter()
                .collect();
            let checked = check(&given().into(), &uses, &exceptions);
            assert!(checked.found.is_empty(), "{checked:?}");
            assert_eq!(checked.spared, spared);
        }
        assert_eq!(
            found([], [], &exceptions),
            [format!("the exception isn't needed: {told}")]
        );
    }
}
