//! What `version` and `disconnect` end with when only one of two clusters does its part, on real control planes where
//! nobody runs.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use pilotage_api::{Source, Target, keys};
use pilotage_e2e::fleet::{Cluster, Side, lone};
use pilotage_testkit::ports::Port;
use pilotage_testkit::{ControlPlane, wait_for, wait_gone};
use serde_json::{Value, json};

use super::LIMIT;
use super::kubelet::until;
use super::user::User;

async fn cluster(name: &str, side: Side) -> Cluster {
    lone(ControlPlane::builder(name), side).await.unwrap()
}

/// Who reaches the source, and in place of the target a port where nobody listens.
fn cut_off(user: &User, target: &ControlPlane) -> User {
    let port = Port::reserve().unwrap();
    let file = target.directory().join("lost.kubeconfig");
    let access = target.admin_access();
    let access = access.via(&format!("https://{}", port.address()));
    access.write(&file).unwrap();
    User {
        target: file,
        plugin: user.plugin.clone(),
        source: user.source.clone(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_silent_keeps_no_version_of_others_back() {
    let (source, target) = tokio::join!(
        cluster("source", Side::Source),
        cluster("paris", Side::Target)
    );
    let user = User::new(&source.plane, &target.plane);
    let lost = cut_off(&user, &target.plane);
    let leases: Api<Lease> = Api::namespaced(source.plane.admin(), "default");
    // Who held it crashed long ago.
    let lease = json!({
        "metadata": {
            "name": "pilotage-controllers",
            "annotations": { "multicluster.admiralty.io/version": "0.0.1" },
        },
        "spec": {
            "holderIdentity": "somebody",
            "leaseDurationSeconds": 15,
            "renewTime": "2020-01-02T03:04:05.000000Z",
        },
    });
    let lease = serde_json::from_value(lease).unwrap();
    leases.create(&PostParams::default(), &lease).await.unwrap();

    let version = ["version", "--home", "default", "--target", "paris"];
    let (code, out, err) = lost.run(&version).await;
    assert_eq!(code, 1, "{err}");
    for line in [
        "source    controllers    0.0.1",
        "not heard of since 2020-01-02T03:04:05Z (",
        "\nparis: the cluster (context \"paris\") doesn't answer at https://127.0.0.1:",
    ] {
        let spaces = |text: &str| {
            text.split(' ')
                .filter(|it| !it.is_empty())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert!(spaces(&out).contains(&spaces(line)), "{line} in {out}");
    }
    let last = err.lines().last().unwrap();
    assert!(last.contains("1 of 2 clusters couldn't be asked"), "{err}");
    let (code, out, err) = lost.run(&[&version[..], &["-o", "json"]].concat()).await;
    let all: Value = serde_json::from_str(&out).unwrap();
    let clusters = &all["clusters"];
    assert_eq!(
        (code, &clusters[0]["parts"][0]["leads"]),
        (1, &json!(false)),
        "{err}"
    );
    assert_eq!(
        clusters[0]["parts"][0]["silentSince"],
        "2020-01-02T03:04:05Z"
    );
    assert_eq!(clusters[1]["kubernetes"], Value::Null);
    assert!(clusters[1]["error"].is_string(), "{out}");

    // Of one alone there is nothing to tell.
    let alone = User {
        source: lost.target.clone(),
        target: lost.target.clone(),
        plugin: user.plugin.clone(),
    };
    alone.fails(&["version"], 4, &["doesn't answer at"]).await;
}

const DISCONNECT: [&str; 7] = [
    "disconnect",
    "--source",
    "source",
    "--target",
    "paris",
    "--namespace",
    "default",
];

/// What `connect` makes, as far as it may be made by hand; somebody keeps the Target from going.
async fn connected(user: &User, source: &ControlPlane) {
    let connect = [
        &["connect"][..],
        &DISCONNECT[1..],
        &["--target-server", "https://127.0.0.1:1", "--timeout", "1s"],
    ]
    .concat();
    user.fails(&connect, 3, &["Source source of the target isn't ready"])
        .await;
    let label = "labels: {app.kubernetes.io/managed-by: kubectl-pilotage}";
    let made = format!(
        "{{apiVersion: v1, kind: Secret, metadata: {{name: paris-kubeconfig, namespace: default, \
         {label}}}}}\n---\n{{apiVersion: multicluster.admiralty.io/v1alpha1, kind: Target, metadata: {{name: paris, \
         namespace: default, {label}, finalizers: [example.com/mine]}}, spec: {{kubeconfigSecret: {{name: \
         paris-kubeconfig}}}}}}"
    );
    source.apply_yaml(&made).await.unwrap();
}

async fn let_go(targets: &Api<Target>) {
    let none = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let params = PatchParams::default();
    targets.patch("paris", &params, &none).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn how_disconnect_ends_says_how_far_it_came() {
    let (source, target) = tokio::join!(
        cluster("source", Side::Source),
        cluster("paris", Side::Target)
    );
    let user = User::new(&source.plane, &target.plane);
    let targets: Api<Target> = Api::namespaced(source.plane.admin(), "default");
    let secrets: Api<Secret> = Api::namespaced(source.plane.admin(), "default");
    let sources: Api<Source> = Api::namespaced(target.plane.admin(), "default");
    connected(&user, &source.plane).await;

    // Pods don't end: the same again, and nothing else is deleted.
    for _ in 0..2 {
        let short = [&DISCONNECT[..], &["--timeout", "1s"]].concat();
        let said = [
            "Target paris of the source is deleted and isn't gone after 1 s",
            "the Secrets and the Source stay",
            "kubectl pilotage forget default/paris --source source",
        ];
        user.fails(&short, 3, &said).await;
    }
    assert!(secrets.get_opt("paris-kubeconfig").await.unwrap().is_some());
    assert!(sources.get_opt("source").await.unwrap().is_some());

    // The target was cut off before: the source's part is done, which isn't all.
    let_go(&targets).await;
    wait_gone(&targets, "paris", LIMIT).await.unwrap();
    let lost = cut_off(&user, &target.plane);
    let said = [
        "gone from the source: Secret paris-kubeconfig; Source source, and Secret, Role and RoleBinding source-token \
         of the target couldn't be looked at",
        "doesn't answer at",
    ];
    lost.fails(&DISCONNECT, 1, &said).await;

    // Its user loses his rights there while he waits: then, too, something was deleted.
    connected(&user, &source.plane).await;
    let file = target.plane.directory().join("stranger.kubeconfig");
    let stranger = target.plane.user_access("stranger", None).unwrap();
    stranger.write(&file).unwrap();
    let binding = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: stranger}, \
                   roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, \
                   subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: stranger}]}";
    target.plane.apply_yaml(binding).await.unwrap();
    let theirs: Api<Namespace> = Api::all(stranger.client().unwrap());
    let may = async |may: bool| {
        until("the binding's rights", async || {
            let found = theirs.get("default").await;
            if found.is_ok() == may {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        })
        .await;
    };
    may(true).await;
    let limited = User {
        target: file,
        plugin: user.plugin.clone(),
        source: user.source.clone(),
    };
    let meanwhile = async {
        let goes = |it: &Target| it.metadata.deletion_timestamp.is_some();
        wait_for(&targets, "paris", goes, LIMIT).await.unwrap();
        let bindings: Api<ClusterRoleBinding> = Api::all(target.plane.admin());
        let params = DeleteParams::default();
        bindings.delete("stranger", &params).await.unwrap();
        may(false).await;
        let_go(&targets).await;
    };
    let said = [
        "gone from the source: Target paris, Secret paris-kubeconfig; Source source",
        "couldn't be looked at",
        "you may not get/delete sources of namespace default",
    ];
    tokio::join!(limited.fails(&DISCONNECT, 1, &said), meanwhile);

    // He would be told before anything is deleted.
    let said = ["you may not get/delete sources of namespace default"];
    limited.fails(&DISCONNECT, 4, &said).await;

    // So is who sees the right to renew the token, and may not take it away.
    let role = |name: &str, label: &str, rules: &str| {
        format!(
            "{{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {{name: {name}, namespace: default, \
             {label}}}, rules: [{rules}]}}\n---\n"
        )
    };
    let objects = [
        role("source-token", "labels: {app.kubernetes.io/managed-by: kubectl-pilotage}", ""),
        role(
            "most",
            "",
            "{apiGroups: [multicluster.admiralty.io], resources: [sources], verbs: [get, delete]}, \
             {apiGroups: [''], resources: [secrets], verbs: [get, delete]}, \
             {apiGroups: [rbac.authorization.k8s.io], resources: [roles, rolebindings], verbs: [get]}",
        ),
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: most, namespace: default}, \
         roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: most}, \
         subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: stranger}]}"
            .to_owned(),
    ];
    target.plane.apply_yaml(&objects.concat()).await.unwrap();
    let theirs: Api<Source> = Api::namespaced(stranger.client().unwrap(), "default");
    until("the role to be in force", async || {
        let found = theirs.get("source").await;
        found.map_err(|error| error.to_string())
    })
    .await;
    let said = ["you may not delete roles of namespace default in the target"];
    limited.fails(&DISCONNECT, 4, &said).await;
    assert!(sources.get_opt("source").await.unwrap().is_some());

    // What followed pods, and nobody deletes any more, is named with the command that does.
    let namespaces: Api<Namespace> = Api::all(source.plane.admin());
    let uid = namespaces.get("kube-system").await.unwrap().metadata.uid;
    let copies: Api<Secret> = Api::namespaced(target.plane.admin(), "default");
    let copy = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": "key", "namespace": "default", "labels": { keys::PARENT_CLUSTER_UID: uid } },
    });
    target.plane.apply_yaml(&copy.to_string()).await.unwrap();
    let (code, out, err) = user.run(&DISCONNECT).await;
    assert!(code == 0 && out.starts_with("disconnected: "), "{out}{err}");
    let told = out.lines().nth(1).unwrap_or_default();
    assert!(told.contains(": Secret default/key; unless"), "{out}{err}");
    let (_, words) = told.split_once(" delete ").unwrap();
    let words: Vec<&str> = words.split(' ').collect();
    let delete = [&["delete"][..], &words[..]].concat();
    target.plane.kubectl(&delete).await.unwrap();
    assert!(copies.get_opt("key").await.unwrap().is_none());
    let (code, out, err) = user.run(&DISCONNECT).await;
    let none = "there is no connection of these names";
    assert!(code == 0 && out.starts_with(none), "{out}{err}");
    assert!(sources.get_opt("source").await.unwrap().is_none());
}
