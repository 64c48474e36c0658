use super::*;

const CONNECT: Doing = Doing::Connect {
    label: true,
    renew: true,
    anew: false,
};

fn connection(namespace: Option<&str>) -> Connection {
    Connection {
        target_name: "paris".to_owned(),
        source_name: "london".to_owned(),
        namespace: namespace.map(str::to_owned),
        home: "pilotage".to_owned(),
        rights: vec![Right::Logs],
        source_uid: None,
        life: Life::Endless,
    }
}

fn renewed(namespace: Option<&str>) -> Connection {
    Connection {
        life: Life::default(),
        ..connection(namespace)
    }
}

#[test]
fn one_namespace_has_everything_in_it() {
    let it = connection(Some("shop"));
    for object in [it.source(), it.token(), it.target(), it.secret(&json!({}))] {
        assert_eq!(object["metadata"]["namespace"], "shop", "{object}");
    }
    assert_eq!(
        it.source()["spec"],
        json!({ "serviceAccountName": "london", "rights": ["Logs"] })
    );
    assert_eq!(
        it.target()["spec"],
        json!({ "kubeconfigSecret": { "name": "paris-kubeconfig" } })
    );
    let text = it.manifests(true).unwrap();
    assert_eq!(text.matches("kind: ").count(), 4, "{text}");
    assert!(!text.contains("kind: Namespace"), "{text}");
    assert!(
        text.contains("label namespace shop multicluster-scheduler=enabled"),
        "{text}"
    );
    assert!(!it.manifests(false).unwrap().contains("label namespace"));
}

#[test]
fn the_objects_of_a_connection_with_what_follows() {
    let it = Connection {
        rights: vec![Right::FollowConfigMaps, Right::FollowSecrets],
        source_uid: Some("u".to_owned()),
        ..connection(Some("shop"))
    };
    let labels = json!({ "app.kubernetes.io/managed-by": "kubectl-pilotage" });
    let meta = |name: &str| json!({ "name": name, "namespace": "shop", "labels": labels });
    let mut let_in = meta("london");
    let_in["annotations"] = json!({ keys::SOURCE_CLUSTER_UID: "u" });
    let version = "multicluster.admiralty.io/v1alpha1";
    assert_eq!(
        it.source(),
        json!({
            "apiVersion": version,
            "kind": "Source",
            "metadata": let_in,
            "spec": { "serviceAccountName": "london", "rights": ["FollowConfigMaps", "FollowSecrets"] },
        })
    );
    assert_eq!(
        it.account(),
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta("london") })
    );
    let mut of_account = meta("london-token");
    of_account["annotations"] = json!({ "kubernetes.io/service-account.name": "london" });
    assert_eq!(
        it.token(),
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": of_account,
            "type": "kubernetes.io/service-account-token",
        })
    );
    assert_eq!(
        it.target(),
        json!({
            "apiVersion": version,
            "kind": "Target",
            "metadata": meta("paris"),
            "spec": { "kubeconfigSecret": { "name": "paris-kubeconfig" } },
        })
    );
    assert_eq!(
        it.secret(&json!({ "kind": "Config" })),
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": meta("paris-kubeconfig"),
            "stringData": { "config": "{\"kind\":\"Config\"}" },
        })
    );
    // What is printed for git is the same.
    let printed = it.manifests(false).unwrap();
    let printed: Vec<Value> = serde_saphyr::from_multiple(&printed).unwrap();
    assert_eq!(
        printed,
        [it.source(), it.account(), it.token(), it.target()]
    );
}

#[test]
fn a_token_that_ends_comes_with_the_right_to_renew_it_and_no_other_one() {
    let it = renewed(Some("shop"));
    let labels = json!({ "app.kubernetes.io/managed-by": "kubectl-pilotage" });
    let meta = json!({ "name": "london-token", "namespace": "shop", "labels": labels });
    assert_eq!(
        it.role(),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": meta,
            "rules": [{
                "apiGroups": [""],
                "resources": ["serviceaccounts/token"],
                "resourceNames": ["london"],
                "verbs": ["create"],
            }],
        })
    );
    assert_eq!(
        it.role_binding(),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "london-token" },
            "subjects": [{ "kind": "ServiceAccount", "name": "london", "namespace": "shop" }],
        })
    );
    let mark = &it.secret(&"{}")["metadata"]["annotations"];
    assert_eq!(
        mark,
        &json!({ "multicluster.admiralty.io/token-life": "720h" })
    );
    let endless = connection(Some("shop")).secret(&"{}");
    assert_eq!(endless["metadata"].get("annotations"), None);

    let printed = it.manifests(true).unwrap();
    let told = "kubectl create token london --namespace shop --duration 720h";
    assert!(printed.contains(told), "{printed}");
    assert!(
        printed.contains("\n# multicluster.admiralty.io/token-life: 720h.\n"),
        "{printed}"
    );
    let printed: Vec<Value> = serde_saphyr::from_multiple(&printed).unwrap();
    let objects = [
        it.source(),
        it.account(),
        it.role(),
        it.role_binding(),
        it.target(),
    ];
    assert_eq!(printed, objects);

    let at_home = renewed(None);
    let subjects = json!([{ "kind": "ServiceAccount", "name": "london", "namespace": "pilotage" }]);
    assert_eq!(at_home.role_binding()["subjects"], subjects);
    assert_eq!(at_home.role()["metadata"]["namespace"], "pilotage");
}

#[test]
fn an_account_that_is_made_anew_is_whose_it_was() {
    let anew = |by: Option<&str>| {
        let old = by.map(|by| ObjectMeta {
            labels: Some([(MANAGED_BY.to_owned(), by.to_owned())].into()),
            ..ObjectMeta::default()
        });
        connection(Some("shop")).account_anew(old.as_ref())
    };
    let of = |by: &str| {
        let labels = json!({ "app.kubernetes.io/managed-by": by });
        let metadata = json!({ "name": "london", "namespace": "shop", "labels": labels });
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata })
    };
    for (old, want) in [
        (Some("pilotage"), "pilotage"),
        (Some("kubectl-pilotage"), "kubectl-pilotage"),
        (None, "pilotage"),
    ] {
        assert_eq!(anew(old), of(want), "{old:?}");
    }
}

#[test]
fn all_namespaces_have_it_at_home() {
    let it = connection(None);
    let account = json!({ "name": "london", "namespace": "pilotage" });
    assert_eq!(
        (
            it.source()["kind"].as_str(),
            &it.source()["spec"]["serviceAccount"]
        ),
        (Some("ClusterSource"), &account)
    );
    assert_eq!(it.token()["metadata"]["namespace"], "pilotage");
    let secret = json!({ "name": "paris-kubeconfig", "namespace": "pilotage" });
    assert_eq!(it.target()["spec"]["kubeconfigSecret"], secret);
    assert_eq!(it.target()["metadata"].get("namespace"), None);
    assert!(!it.manifests(true).unwrap().contains("kind: Namespace"));
    assert!(
        it.needs(Side::Source, CONNECT)
            .iter()
            .all(|need| need.resource != "namespaces")
    );
}

#[test]
fn what_is_missing_is_told_once_a_resource() {
    let it = connection(Some("shop"));
    let said = |side, doing| listed(&it.needs(side, doing));
    assert_eq!(
        said(Side::Source, CONNECT),
        [
            "get/list/watch/create/patch targets of namespace shop",
            "get/create/patch secrets of namespace shop",
            "patch namespace shop",
        ]
    );
    assert_eq!(
        said(Side::Target, CONNECT),
        [
            "get/list/watch/create/patch sources of namespace shop",
            "get/list/watch/create/patch/delete secrets of namespace shop",
            "get serviceaccounts of namespace shop",
        ]
    );
    let once = Doing::Connect {
        label: true,
        renew: false,
        anew: false,
    };
    let anew = Doing::Connect {
        label: true,
        renew: true,
        anew: true,
    };
    let ends = listed(&connection(Some("shop")).needs(Side::Target, anew));
    assert_eq!(
        ends.get(2..).unwrap(),
        [
            "get/list/watch/create/delete serviceaccounts of namespace shop",
            "get/delete roles of namespace shop",
            "get/delete rolebindings of namespace shop",
        ]
    );
    for (doing, secrets, accounts) in [
        (once, "get", "get"),
        (CONNECT, "get/delete", "get"),
        (anew, "get/delete", "get/list/watch/create/delete"),
    ] {
        assert_eq!(
            listed(&renewed(Some("shop")).needs(Side::Target, doing)),
            [
                "get/list/watch/create/patch sources of namespace shop".to_owned(),
                format!("{secrets} secrets of namespace shop"),
                format!("{accounts} serviceaccounts of namespace shop"),
                "create serviceaccounts/token of namespace shop".to_owned(),
                "get/create/patch roles of namespace shop".to_owned(),
                "get/create/patch rolebindings of namespace shop".to_owned(),
            ]
        );
    }
    assert_eq!(
        said(Side::Target, Doing::Disconnect),
        [
            "get/delete sources of namespace shop",
            "get/delete secrets of namespace shop"
        ]
    );
}

#[test]
fn a_sources_identity_stands_on_its_object() {
    let it = Connection {
        source_uid: Some("u".to_owned()),
        ..connection(None)
    };
    assert_eq!(
        it.source()["metadata"]["annotations"],
        json!({ "multicluster.admiralty.io/source-cluster-uid": "u" })
    );
}

#[test]
fn versions_are_numbers() {
    for (version, as_this, want) in [
        ("10", "9", true),
        ("9", "10", false),
        ("9", "9", true),
        ("18446744073709551617", "18446744073709551616", true),
        ("a", "9", false),
        ("a", "a", true),
    ] {
        assert_eq!(is_as_new(version, as_this), want, "{version} {as_this}");
    }
}

#[test]
fn names_of_contexts_become_names_of_objects() {
    for (context, name, fits) in [
        ("kind-paris", "kind-paris", true),
        ("admin@Paris", "admin-paris", true),
        (
            "arn:aws:eks:eu-west-1:1:cluster/x_y",
            "arn-aws-eks-eu-west-1-1-cluster-x-y",
            true,
        ),
        ("//", "", false),
    ] {
        assert_eq!(name_of(context), name);
        assert_eq!(is_name(name), fits, "{name}");
    }
    assert!(!is_name(&"a".repeat(64)) && !is_name("a.b") && !is_name("-a"));
}
