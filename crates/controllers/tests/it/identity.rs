//! Identities of sources: made, changed and taken back, and what they may not do.

use std::fmt::Debug;

use k8s_openapi::api::core::v1::{Node, Pod, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use pilotage_api::{
    ClusterSource, ClusterSourceSpec, ClusterSummary, PodChaperon, Right, ServiceAccountRef,
    Source, SourceSpec, SourceStatus, names,
};
use pilotage_controllers::source::{self, SourceArgs, rbac as roles};
use pilotage_runtime::lease::Leadership;
use pilotage_runtime::rbac::{self, Account, Rule};
use pilotage_runtime::ready::Health;
use pilotage_testkit::{ControlPlane, TestNamespace, apply, build, wait_for, wait_gone};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::target::LIMIT;

const HOME: &str = "default";

/// A plane with the source controller under its own role; ends with the test.
async fn start(name: &str) -> ControlPlane {
    let plane = ControlPlane::builder(name)
        .controller_manager()
        .start()
        .await
        .unwrap();
    plane.service_account(HOME, "sources").await.unwrap();
    let account = Account {
        namespace: HOME,
        name: "sources",
    };
    let giving = Right::ALL.into_iter().flat_map(roles::giving_rules);
    let own = rbac::render(
        "pilotage-controllers",
        account,
        roles::RULES.iter().chain(giving),
    );
    apply::apply_values(&plane.admin(), own, HOME)
        .await
        .unwrap();
    let client = plane.part_client(HOME, "sources", "controllers").await;
    let client = client.unwrap();
    let gate = Health::new().gate("sources");
    tokio::spawn(source::run(
        client,
        SourceArgs::default(),
        Leadership::always(),
        gate,
        CancellationToken::new(),
    ));
    plane
}

async fn give_roles(plane: &ControlPlane) {
    let role = |name: &str, rules: &[Rule]| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": name },
            "rules": rules.iter().map(Rule::to_json).collect::<Vec<Value>>(),
        })
    };
    let both = vec![
        role(roles::SOURCE_ROLE, roles::SOURCE_RULES),
        role(roles::SUMMARY_VIEWER_ROLE, roles::SUMMARY_VIEWER_RULES),
    ];
    apply::apply_values(&plane.admin(), both, HOME)
        .await
        .unwrap();
    let summary = json!({
        "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "ClusterSummary",
        "metadata": { "name": "singleton" }, "capacity": { "cpu": "1" },
    });
    apply::apply_values(&plane.admin(), vec![summary], HOME)
        .await
        .unwrap();
}

/// A binding of that name to another role, as another product may have left it: a role can't be changed.
async fn leave_binding(plane: &ControlPlane, kind: &str, name: &str, namespace: &str) {
    let foreign = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" },
        "subjects": [],
    });
    apply::apply_values(&plane.admin(), vec![foreign], namespace)
        .await
        .unwrap();
}

fn ready(status: Option<&SourceStatus>) -> (&str, &str) {
    let ready = status.and_then(|status| status.conditions.iter().find(|c| c.type_ == "Ready"));
    ready.map_or(("", ""), |ready| (&ready.status, &ready.reason))
}

async fn is_ready(api: &Api<Source>, name: &str, generation: i64) -> String {
    let told = |source: &Source| {
        let ready = source
            .status
            .as_ref()
            .and_then(|status| status.conditions.first().cloned());
        ready
            .filter(|ready| ready.status == "True" && ready.observed_generation == Some(generation))
    };
    let source = wait_for(api, name, |source| told(source).is_some(), LIMIT)
        .await
        .unwrap();
    told(&source).unwrap().message
}

#[track_caller]
fn forbidden<T: Debug>(what: &str, outcome: Result<T, kube::Error>) {
    match outcome {
        Err(kube::Error::Api(status)) if status.code == 403 => {}
        other => panic!("{what}: {other:?}"),
    }
}

fn chaperon(name: &str) -> PodChaperon {
    let spec = json!({ "containers": [{ "name": "c", "image": "i" }] });
    PodChaperon::new(name, serde_json::from_value(spec).unwrap())
}

/// What a source of `home` may and may not do.
async fn check_rights(client: &Client, home: &TestNamespace, other: &TestNamespace) {
    let post = PostParams::default();
    let list = ListParams::default();
    let chaperons = |namespace: &str| Api::<PodChaperon>::namespaced(client.clone(), namespace);
    chaperons(home.name())
        .create(&post, &chaperon("mine"))
        .await
        .unwrap();
    chaperons(home.name())
        .delete("mine", &DeleteParams::default())
        .await
        .unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), home.name());
    pods.list(&list).await.unwrap();
    Api::<ClusterSummary>::all(client.clone())
        .list(&list)
        .await
        .unwrap();

    forbidden(
        "create a pod",
        pods.create(&post, &build::pod("p").build()).await,
    );
    forbidden(
        "delete a pod",
        pods.delete("p", &DeleteParams::default()).await,
    );
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
    forbidden(
        "patch a pod",
        pods.patch("p", &PatchParams::default(), &patch).await,
    );
    forbidden(
        "chaperon elsewhere",
        chaperons(other.name()).create(&post, &chaperon("x")).await,
    );
    forbidden(
        "chaperons everywhere",
        Api::<PodChaperon>::all(client.clone()).list(&list).await,
    );
    let secrets = |namespace: &str| Api::<Secret>::namespaced(client.clone(), namespace);
    forbidden(
        "secrets of kube-system",
        secrets("kube-system").list(&list).await,
    );
    forbidden("its own secrets", secrets(home.name()).list(&list).await);
    forbidden("secrets elsewhere", secrets(other.name()).list(&list).await);
    forbidden("nodes", Api::<Node>::all(client.clone()).list(&list).await);
    let status = Patch::Merge(json!({ "status": { "phase": "Running" } }));
    let chaperon_status = chaperons(home.name());
    forbidden(
        "chaperon status",
        chaperon_status
            .patch_status("mine", &PatchParams::default(), &status)
            .await,
    );
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), home.name());
    forbidden("read bindings", bindings.list(&list).await);
    let sources: Api<Source> = Api::namespaced(client.clone(), home.name());
    forbidden(
        "create a Source",
        sources
            .create(&post, &Source::new("x", SourceSpec::default()))
            .await,
    );
    let summaries = Api::<ClusterSummary>::all(client.clone());
    forbidden(
        "delete the summary",
        summaries
            .delete("singleton", &DeleteParams::default())
            .await,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_gets_an_identity_with_bounds_that_follows_its_spec_and_ends_with_it() {
    let plane = start("source").await;
    give_roles(&plane).await;
    let (home, other) = (
        plane.namespace("team").await.unwrap(),
        plane.namespace("other").await.unwrap(),
    );
    let sources: Api<Source> = home.api();
    let accounts: Api<ServiceAccount> = home.api();
    let bindings: Api<RoleBinding> = home.api();
    let viewers: Api<ClusterRoleBinding> = Api::all(plane.admin());
    let viewer = names::source_summary_viewer_binding(home.name(), "paris");
    leave_binding(&plane, "RoleBinding", "admiralty-source-paris", home.name()).await;
    let spec = SourceSpec {
        service_account_name: Some("robot".into()),
        user_name: None,
        rights: Vec::new(),
    };
    sources
        .create(&PostParams::default(), &Source::new("paris", spec))
        .await
        .unwrap();
    let message = is_ready(&sources, "paris", 1).await;
    assert_eq!(
        message,
        format!(
            "service account {0}/robot may run pods in namespace {0}",
            home.name()
        )
    );
    let robot = plane
        .service_account_client(home.name(), "robot")
        .await
        .unwrap();
    check_rights(&robot, &home, &other).await;

    let bound = bindings.get("admiralty-source-paris").await.unwrap();
    assert_eq!(bound.role_ref.name, roles::SOURCE_ROLE);

    // What somebody takes away by hand comes back.
    let uid = |binding: &RoleBinding| binding.metadata.uid.clone();
    let old = uid(&bindings.get("admiralty-source-paris").await.unwrap());
    bindings
        .delete("admiralty-source-paris", &DeleteParams::default())
        .await
        .unwrap();
    wait_for(
        &bindings,
        "admiralty-source-paris",
        |b| uid(b) != old,
        LIMIT,
    )
    .await
    .unwrap();

    // Another spec: a user instead of the account, which goes.
    let spec = json!({ "spec": { "serviceAccountName": null, "userName": "alice" } });
    sources
        .patch("paris", &PatchParams::default(), &Patch::Merge(&spec))
        .await
        .unwrap();
    is_ready(&sources, "paris", 2).await;
    wait_gone(&accounts, "robot", LIMIT).await.unwrap();
    let subjects = bindings
        .get("admiralty-source-paris")
        .await
        .unwrap()
        .subjects
        .unwrap();
    assert_eq!(
        subjects
            .iter()
            .map(|s| (s.kind.as_str(), s.name.as_str()))
            .collect::<Vec<_>>(),
        [("User", "alice")]
    );
    let alice = plane.user_access("alice", None).unwrap().client().unwrap();
    check_rights(&alice, &home, &other).await;

    // An account that is somebody's own is bound and never owned.
    plane.service_account(home.name(), "own").await.unwrap();
    let spec = json!({ "spec": { "serviceAccountName": "own", "userName": null } });
    sources
        .patch("paris", &PatchParams::default(), &Patch::Merge(&spec))
        .await
        .unwrap();
    is_ready(&sources, "paris", 3).await;
    let own = accounts.get("own").await.unwrap();
    assert_eq!(own.metadata.owner_references, None);

    viewers.get(&viewer).await.unwrap();
    sources
        .delete("paris", &DeleteParams::default())
        .await
        .unwrap();
    wait_gone(&bindings, "admiralty-source-paris", LIMIT)
        .await
        .unwrap();
    wait_gone(&viewers, &viewer, LIMIT).await.unwrap();
    assert!(accounts.get_opt("own").await.unwrap().is_some());
    drop((home, other));
    plane.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_source_may_act_everywhere_once_the_roles_are_there() {
    let plane = start("cluster-source").await;
    let (one, two) = (
        plane.namespace("one").await.unwrap(),
        plane.namespace("two").await.unwrap(),
    );
    let name = "admiralty-cluster-source-paris";
    leave_binding(&plane, "ClusterRoleBinding", name, HOME).await;
    let bindings: Api<ClusterRoleBinding> = Api::all(plane.admin());

    let sources: Api<ClusterSource> = Api::all(plane.admin());
    let account = ServiceAccountRef {
        name: "robot".into(),
        namespace: one.name().into(),
    };
    let spec = ClusterSourceSpec {
        service_account: Some(account),
        user_name: None,
        rights: Vec::new(),
    };
    sources
        .create(&PostParams::default(), &ClusterSource::new("paris", spec))
        .await
        .unwrap();
    let is = |want: (&'static str, &'static str)| {
        move |source: &ClusterSource| ready(source.status.as_ref()) == want
    };
    wait_for(&sources, "paris", is(("False", "RoleMissing")), LIMIT)
        .await
        .unwrap();
    give_roles(&plane).await;
    wait_for(&sources, "paris", is(("True", "Bound")), LIMIT)
        .await
        .unwrap();

    let robot = plane
        .service_account_client(one.name(), "robot")
        .await
        .unwrap();
    let chaperons: Api<PodChaperon> = Api::namespaced(robot.clone(), two.name());
    chaperons
        .create(&PostParams::default(), &chaperon("x"))
        .await
        .unwrap();
    Api::<PodChaperon>::all(robot.clone())
        .list(&ListParams::default())
        .await
        .unwrap();
    let pods: Api<Pod> = Api::namespaced(robot.clone(), two.name());
    forbidden(
        "create a pod",
        pods.create(&PostParams::default(), &build::pod("p").build())
            .await,
    );
    let cluster_roles: Api<ClusterRole> = Api::all(robot.clone());
    forbidden(
        "read roles",
        cluster_roles.list(&ListParams::default()).await,
    );

    let mine = |b: &ClusterRoleBinding| b.role_ref.name == roles::SOURCE_ROLE;
    wait_for(&bindings, name, mine, LIMIT).await.unwrap();

    sources
        .delete("paris", &DeleteParams::default())
        .await
        .unwrap();
    for name in [
        name,
        "admiralty-cluster-source-paris-cluster-summary-viewer",
    ] {
        wait_gone(&bindings, name, LIMIT).await.unwrap();
    }
    let accounts: Api<ServiceAccount> = one.api();
    wait_gone(&accounts, "robot", LIMIT).await.unwrap();
    drop((one, two));
    plane.stop().await;
}

#[tokio::test]
async fn rights_are_given_by_roles_of_their_own_once_these_are_installed_and_taken_back() {
    let plane = start("rights").await;
    give_roles(&plane).await;
    let home = plane.namespace("team").await.unwrap();
    let sources: Api<Source> = home.api();
    let spec = SourceSpec {
        service_account_name: Some("robot".into()),
        user_name: None,
        rights: Right::ALL.to_vec(),
    };
    let made = Source::new("paris", spec);
    sources.create(&PostParams::default(), &made).await.unwrap();
    let lacks = |source: &Source| ready(source.status.as_ref()) == ("False", "RoleMissing");
    let source = wait_for(&sources, "paris", lacks, LIMIT).await.unwrap();
    let message = &source.status.unwrap().conditions[0].message;
    assert!(
        message.contains(
            "--rights=follow-configmaps,follow-secrets,follow-services,follow-ingresses,logs,"
        ),
        "{message}"
    );

    let role = |right: Right| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": right.role() },
            "rules": roles::right_rules(right).iter().map(Rule::to_json).collect::<Vec<Value>>(),
        })
    };
    let all = Right::ALL.map(role).to_vec();
    apply::apply_values(&plane.admin(), all, HOME)
        .await
        .unwrap();
    let message = is_ready(&sources, "paris", 1).await;
    assert!(
        message.ends_with(
            "with the rights FollowConfigMaps, FollowSecrets, FollowServices, FollowIngresses, Logs, Exec, Attach, \
             PortForward, Metrics"
        ),
        "{message}"
    );
    let robot = plane
        .service_account_client(home.name(), "robot")
        .await
        .unwrap();
    let secrets: Api<Secret> = Api::namespaced(robot.clone(), home.name());
    secrets.list(&ListParams::default()).await.unwrap();
    let elsewhere: Api<Secret> = Api::namespaced(robot, HOME);
    forbidden(
        "another namespace",
        elsewhere.list(&ListParams::default()).await,
    );

    let fewer = Patch::Merge(json!({ "spec": { "rights": ["Logs"] } }));
    sources
        .patch("paris", &PatchParams::default(), &fewer)
        .await
        .unwrap();
    let bindings: Api<RoleBinding> = home.api();
    let name = |right: Right| names::source_right_binding("paris", right.flag());
    for right in Right::ALL.into_iter().filter(|right| *right != Right::Logs) {
        wait_gone(&bindings, &name(right), LIMIT).await.unwrap();
    }
    bindings.get(&name(Right::Logs)).await.unwrap();
    is_ready(&sources, "paris", 2).await;
}
