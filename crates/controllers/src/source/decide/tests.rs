use pilotage_api::{ClusterSource, ClusterSourceSpec, ServiceAccountRef, Source, SourceSpec};

use super::*;

fn roles() -> Roles {
    Roles {
        source: "source-role".into(),
        summary_viewer: "viewer-role".into(),
    }
}

fn source(account: Option<&str>, user: Option<&str>) -> SourceObject {
    let spec = SourceSpec {
        service_account_name: account.map(Into::into),
        user_name: user.map(Into::into),
        rights: Vec::new(),
    };
    let mut source = Source::new("team", spec);
    source.metadata.namespace = Some("shop".into());
    source.metadata.uid = Some("s".into());
    SourceObject::from_source(&source).unwrap()
}

fn cluster_source() -> SourceObject {
    let account = ServiceAccountRef {
        name: "robot".into(),
        namespace: "pilots".into(),
    };
    let spec = ClusterSourceSpec {
        service_account: Some(account),
        user_name: None,
        rights: Vec::new(),
    };
    let mut source = ClusterSource::new("paris", spec);
    source.metadata.uid = Some("c".into());
    SourceObject::from_cluster_source(&source).unwrap()
}

fn observed<'a>(source: &'a SourceObject, roles: &'a Roles) -> Observed<'a> {
    Observed {
        source,
        roles,
        account: None,
        owned: Vec::new(),
        binding: None,
        viewer: None,
        missing_roles: Vec::new(),
        rights: Vec::new(),
        surplus: Vec::new(),
    }
}

fn account(name: &str, managed: bool, owners: &[&str]) -> ServiceAccount {
    let mut account = ServiceAccount::default();
    account.metadata.name = Some(name.into());
    account.metadata.namespace = Some("shop".into());
    account.metadata.uid = Some(format!("uid-{name}"));
    if managed {
        account.metadata.labels = Some([(MANAGED_BY.0.into(), MANAGED_BY.1.into())].into());
    }
    let owner = |uid: &&str| OwnerReference {
        uid: (*uid).into(),
        ..OwnerReference::default()
    };
    account.metadata.owner_references = Some(owners.iter().map(owner).collect());
    account
}

/// The binding as the API server would have it after a step.
fn stands(step: &Step) -> BindingObject {
    let Step::ApplyBinding { value, .. } = step else {
        panic!("{step:?}")
    };
    let meta: ObjectMeta = serde_json::from_value(value["metadata"].clone()).unwrap();
    BindingObject {
        uid: "b".into(),
        role: serde_json::from_value(value["roleRef"].clone()).unwrap(),
        subjects: serde_json::from_value(value["subjects"].clone()).unwrap(),
        labels: meta.labels.unwrap_or_default(),
        owners: meta.owner_references.unwrap_or_default(),
    }
}

#[test]
fn a_new_source_gets_account_and_bindings_and_then_nothing_more() {
    let (source, roles) = (source(Some("robot"), Some("alice")), roles());
    let first = decide(&observed(&source, &roles));
    let [
        Step::ApplyAccount {
            namespace,
            name,
            value,
        },
        binding,
        viewer,
    ] = &first.steps[..]
    else {
        panic!("{:?}", first.steps);
    };
    assert_eq!((namespace.as_str(), name.as_str()), ("shop", "robot"));
    assert_eq!(value["metadata"]["ownerReferences"][0]["uid"], "s");
    let Step::ApplyBinding { key, value } = binding else {
        panic!()
    };
    assert_eq!(
        *key,
        BindingKey {
            namespace: Some("shop".into()),
            name: "admiralty-source-team".into()
        }
    );
    assert_eq!(value["kind"], "RoleBinding");
    assert_eq!(value["roleRef"]["name"], "source-role");
    assert_eq!(
        value["subjects"],
        json!([
            { "kind": "ServiceAccount", "name": "robot", "namespace": "shop" },
            { "kind": "User", "name": "alice", "apiGroup": RBAC },
        ])
    );
    let Step::ApplyBinding { key, value } = viewer else {
        panic!()
    };
    assert_eq!(
        key.name,
        "admiralty-source-shop-team-cluster-summary-viewer"
    );
    assert_eq!(
        (key.namespace.as_ref(), &value["kind"]),
        (None, &json!("ClusterRoleBinding"))
    );
    assert_eq!(
        value["metadata"].get("ownerReferences"),
        None,
        "no owner across scopes"
    );
    assert_eq!(
        first.ready.message,
        "service account shop/robot and user alice may run pods in namespace shop"
    );

    let settled = Observed {
        account: Some(account("robot", true, &["s"])),
        owned: vec![account("robot", true, &["s"])],
        binding: Some(stands(binding)),
        viewer: Some(stands(viewer)),
        ..observed(&source, &roles)
    };
    assert_eq!(decide(&settled).steps, []);
}

#[test]
fn a_cluster_source_is_bound_everywhere_and_owns_all() {
    let (source, roles) = (cluster_source(), roles());
    let plan = decide(&observed(&source, &roles));
    let [
        Step::ApplyAccount { namespace, .. },
        Step::ApplyBinding { key, value },
        Step::ApplyBinding { key: viewer, .. },
    ] = &plan.steps[..]
    else {
        panic!("{:?}", plan.steps);
    };
    assert_eq!(namespace, "pilots");
    assert_eq!(
        (key.namespace.as_ref(), key.name.as_str()),
        (None, "admiralty-cluster-source-paris")
    );
    assert_eq!(
        value["metadata"]["ownerReferences"][0]["kind"],
        "ClusterSource"
    );
    assert_eq!(
        viewer.name,
        "admiralty-cluster-source-paris-cluster-summary-viewer"
    );
    assert_eq!(
        plan.ready.message,
        "service account pilots/robot may run pods in all namespaces"
    );
}

#[test]
fn whose_account_it_is_decides_what_is_done_with_it() {
    let (source, roles) = (source(Some("robot"), None), roles());
    for (account, want) in [
        (None, 1),
        (Some(account("robot", true, &["s"])), 0),
        (Some(account("robot", true, &["other"])), 1),
        // Somebody's own: bound, but not owned.
        (Some(account("robot", false, &[])), 0),
    ] {
        let plan = decide(&Observed {
            account,
            ..observed(&source, &roles)
        });
        let applied = plan
            .steps
            .iter()
            .filter(|step| matches!(step, Step::ApplyAccount { .. }));
        assert_eq!(applied.count(), want);
    }
}

#[test]
fn accounts_of_an_earlier_spec_go_or_are_let_go_of() {
    let (source, roles) = (source(None, Some("alice")), roles());
    let owned = vec![
        account("mine", true, &["s"]),
        account("shared", true, &["s", "other"]),
    ];
    let plan = decide(&Observed {
        owned,
        ..observed(&source, &roles)
    });
    let [
        Step::DeleteAccount { uid, .. },
        Step::ApplyAccount { name, value, .. },
        ..,
    ] = &plan.steps[..]
    else {
        panic!("{:?}", plan.steps);
    };
    assert_eq!((uid.as_str(), name.as_str()), ("uid-mine", "shared"));
    assert_eq!(value["metadata"].get("ownerReferences"), None);
}

#[test]
fn changed_subjects_are_applied_and_a_changed_role_needs_a_new_binding() {
    let (before, after, roles) = (
        source(None, Some("alice")),
        source(None, Some("bob")),
        roles(),
    );
    let old = decide(&observed(&before, &roles));
    let (binding, viewer) = (Some(stands(&old.steps[0])), Some(stands(&old.steps[1])));
    let plan = decide(&Observed {
        binding: binding.clone(),
        viewer: viewer.clone(),
        ..observed(&after, &roles)
    });
    assert!(matches!(
        &plan.steps[..],
        [Step::ApplyBinding { .. }, Step::ApplyBinding { .. }]
    ));

    let other = Roles {
        source: "new-role".into(),
        ..roles
    };
    let plan = decide(&Observed {
        binding,
        viewer,
        ..observed(&before, &other)
    });
    assert!(
        matches!(&plan.steps[..], [Step::DeleteBinding { uid, .. }, Step::ApplyBinding { .. }] if uid == "b"),
        "{:?}",
        plan.steps
    );
}

#[test]
fn a_spec_for_nobody_unbinds_what_is_ours_only() {
    let (valid, nobody, roles) = (source(None, Some("alice")), source(Some(""), None), roles());
    let old = decide(&observed(&valid, &roles));
    let ours = stands(&old.steps[0]);
    let foreign = BindingObject {
        labels: BTreeMap::new(),
        ..stands(&old.steps[1])
    };
    let plan = decide(&Observed {
        binding: Some(ours),
        viewer: Some(foreign),
        ..observed(&nobody, &roles)
    });
    assert!(
        matches!(&plan.steps[..], [Step::DeleteBinding { .. }]),
        "{:?}",
        plan.steps
    );
    assert_eq!(
        (plan.ready.status, plan.ready.reason.as_str()),
        (Some(false), "InvalidSpec")
    );
}

#[test]
fn an_account_that_can_be_called_nothing_like_that_is_told_and_asked_for_nowhere() {
    let roles = roles();
    for user in [None, Some("alice")] {
        let source = source(Some("?watch=true"), user);
        assert_eq!(source.account, None);
        let plan = decide(&observed(&source, &roles));
        let accounts = plan.steps.iter();
        let accounts = accounts.filter(|step| matches!(step, Step::ApplyAccount { .. }));
        assert_eq!(accounts.count(), 0);
        assert_eq!(
            (plan.ready.status, plan.ready.reason.as_str()),
            (Some(false), "InvalidSpec")
        );
        let field = "spec.serviceAccountName is nothing that a service account can be called";
        assert_eq!(plan.ready.message, field);
    }
}

#[test]
fn a_missing_role_is_told() {
    let (source, roles) = (source(None, Some("alice")), roles());
    let missing_roles = vec!["source-role".into()];
    let plan = decide(&Observed {
        missing_roles,
        ..observed(&source, &roles)
    });
    assert_eq!(plan.ready.reason, "RoleMissing");
    assert!(
        plan.ready.message.contains("source-role"),
        "{}",
        plan.ready.message
    );
}

#[test]
fn rights_are_bound_by_roles_of_their_own_and_taken_back() {
    let roles = roles();
    let mut asking = source(Some("robot"), None);
    asking.rights = vec![Right::FollowSecrets, Right::Logs];
    let observed_right = |right, binding| RightObserved {
        right,
        binding,
        has_role: true,
    };
    let asked = Observed {
        rights: vec![
            observed_right(Right::FollowSecrets, None),
            observed_right(Right::Logs, None),
        ],
        surplus: vec![(right_binding(&asking.key, Right::Exec), "old".into())],
        ..observed(&asking, &roles)
    };
    let plan = decide(&asked);
    let [.., follow, logs, surplus] = &plan.steps[..] else {
        panic!("{:?}", plan.steps);
    };
    let named = |step: &Step| match step {
        Step::ApplyBinding { key, value } => (key.name.clone(), value["roleRef"]["name"].clone()),
        _ => panic!("{step:?}"),
    };
    let of = |name: &str, role: &str| (name.to_owned(), json!(role));
    assert_eq!(
        named(follow),
        of(
            "pilotage-source-follow-secrets-team",
            "pilotage-source-follow-secrets"
        )
    );
    assert_eq!(
        named(logs),
        of("pilotage-source-logs-team", "pilotage-source-logs")
    );
    assert!(matches!(surplus, Step::DeleteBinding { uid, .. } if uid == "old"));
    assert!(
        plan.ready
            .message
            .ends_with(", with the rights FollowSecrets, Logs"),
        "{}",
        plan.ready.message
    );

    let settled = Observed {
        rights: vec![
            observed_right(Right::FollowSecrets, Some(stands(follow))),
            observed_right(Right::Logs, Some(stands(logs))),
        ],
        surplus: Vec::new(),
        ..observed(&asking, &roles)
    };
    let again = decide(&settled).steps;
    let rights = again
        .iter()
        .filter(|step| format!("{step:?}").contains("pilotage-source"));
    assert_eq!(rights.count(), 0);
}

#[test]
fn a_right_that_isnt_installed_is_named_with_the_command_that_installs_it() {
    let roles = roles();
    let mut asking = source(Some("robot"), None);
    asking.rights = vec![Right::Logs, Right::PortForward];
    let lacking = |right| RightObserved {
        right,
        binding: None,
        has_role: false,
    };
    let asked = Observed {
        rights: vec![lacking(Right::Logs), lacking(Right::PortForward)],
        ..observed(&asking, &roles)
    };
    let plan = decide(&asked);
    assert_eq!(
        (plan.ready.status, plan.ready.reason.as_str()),
        (Some(false), ROLE_MISSING)
    );
    let message = &plan.ready.message;
    for part in [
        "Logs,PortForward",
        "kubectl pilotage install --rights=logs,port-forward",
        "pilotage rbac --rights=logs,port-forward",
    ] {
        assert!(message.contains(part), "{message}");
    }
    let bound = plan
        .steps
        .iter()
        .filter(|step| format!("{step:?}").contains("pilotage-source"));
    assert_eq!(bound.count(), 0, "nothing is bound to what isn't there");
}
