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
mod tests;
