//! Small sets of rights and requests, and what is found in them.

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
