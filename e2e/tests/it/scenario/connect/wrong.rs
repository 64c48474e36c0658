//! What is wrong when clusters are connected: one line says it, and what to do.

use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use pilotage_api::{Right, Source, Target};
use pilotage_e2e::fleet::{Side, lone};
use pilotage_testkit::ports::Port;
use pilotage_testkit::{ControlPlane, pilotage};

use super::super::LIMIT;
use super::super::user::User;

/// Lines without ports and paths, and without the words of libraries and API servers. What is told again at once is
/// there once.
fn told(mut lines: Vec<String>) -> String {
    lines.dedup();
    let plain = lines.into_iter().map(|mut line| {
        for end in ["log in again", "version\" does"] {
            if let Some(at) = line.find(end) {
                line.truncate(at + end.len());
            }
        }
        if let Some((before, rest)) = line.split_once("https://127.0.0.1:") {
            let rest = rest.trim_start_matches(|it: char| it.is_ascii_digit());
            line = format!("{before}https://127.0.0.1:PORT{rest}");
        }
        if let Some((before, rest)) = line.split_once("--kubeconfig ") {
            let (_, rest) = rest.split_once(' ').unwrap();
            line = format!("{before}--kubeconfig FILE {rest}");
        }
        if let Some((before, rest)) = line.split_once("to other values (") {
            let (_, rest) = rest.rsplit_once(");").unwrap();
            line = format!("{before}to other values (WHO AND WHICH);{rest}");
        }
        line + "\n"
    });
    plain.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_said_in_one_line_with_what_to_do() {
    // Nobody runs here: what is asked for never comes about.
    let (source, target) = tokio::join!(
        lone(ControlPlane::builder("source"), Side::Source),
        lone(ControlPlane::builder("bare").no_crds(), Side::Target)
    );
    let (source, target) = (source.unwrap(), target.unwrap());
    let user = User::new(&source.plane, &target.plane);
    let connect = [
        "connect",
        "--source",
        "source",
        "--target",
        "bare",
        "-n",
        "default",
        "--timeout",
        "5s",
    ];
    let with = |more: &[&'static str]| [&connect[..], more].concat();
    let mut lines = Vec::new();

    let wrong = ["connect", "--source", "nowhere", "--target", "bare"];
    lines.push(
        user.fails(
            &wrong,
            4,
            &["no context \"nowhere\"", "--source one of: source"],
        )
        .await,
    );
    let wrong = [
        "connect", "--source", "source", "--target", "bare", "--name", "A_B",
    ];
    lines.push(user.fails(&wrong, 4, &["\"A_B\"", "--name"]).await);
    lines.push(
        user.fails(
            &with(&[]),
            4,
            &[
                "isn't installed in the target",
                "\"kubectl pilotage install --context bare --kubeconfig ",
                " --image IMAGE\"",
            ],
        )
        .await,
    );
    lines.push(
        user.fails(&["status", "pod", "web"], 4, &["no pod default/web", "-n"])
            .await,
    );

    let crds = pilotage::run(
        &pilotage::binary().unwrap(),
        target.plane.directory(),
        ["crds"],
    )
    .await
    .unwrap();
    target.plane.apply_yaml(&crds).await.unwrap();
    lines.push(
        user.fails(
            &with(&[]),
            4,
            &["address https://127.0.0.1", "--target-server"],
        )
        .await,
    );
    lines.push(
        user.fails(
            &with(&["--target-server", "ftp://x"]),
            4,
            &["\"ftp://x\"", "https://HOST:PORT"],
        )
        .await,
    );
    let elsewhere = [
        "connect", "--source", "source", "--target", "bare", "-n", "shop",
    ];
    lines.push(
        user.fails(
            &elsewhere,
            4,
            &[
                "no namespace shop",
                "kubectl --context bare --kubeconfig ",
                " create namespace shop",
            ],
        )
        .await,
    );

    // Somebody without rights in the target, and one whom it doesn't know.
    let stranger = target.plane.user_access("stranger", None).unwrap();
    let file = target.plane.directory().join("stranger.kubeconfig");
    stranger.write(&file).unwrap();
    let limited = User {
        target: file.clone(),
        plugin: user.plugin.clone(),
        source: user.source.clone(),
    };
    let rights = "get/list/watch/create/patch sources of namespace default";
    lines.push(
        limited
            .fails(&with(&[]), 4, &["you may not", rights, "in the target"])
            .await,
    );
    let unknown = stranger.with(pilotage_testkit::access::Credential::Token("x".to_owned()));
    unknown.write(&file).unwrap();
    lines.push(
        limited
            .fails(
                &with(&[]),
                4,
                &["doesn't accept the credentials", "log in again"],
            )
            .await,
    );
    // Nobody listens there.
    let port = Port::reserve().unwrap();
    stranger
        .via(&format!("https://{}", port.address()))
        .write(&file)
        .unwrap();
    lines.push(
        limited
            .fails(
                &with(&[]),
                4,
                &[
                    "doesn't answer at https://127.0.0.1",
                    "kubectl --context bare --kubeconfig ",
                    " version\" does",
                ],
            )
            .await,
    );
    // The same cluster twice.
    let twice = User {
        target: user.source.clone(),
        plugin: user.plugin.clone(),
        source: user.source.clone(),
    };
    let same = ["connect", "--source", "source", "--target", "source"];
    lines.push(twice.fails(&same, 4, &["lead to the same cluster"]).await);
    let targets: Api<Target> = Api::all(source.plane.admin());
    assert!(
        targets
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty(),
        "nothing was written"
    );

    // An account that does something else would get the source's rights, and its token would leave the cluster.
    let worker =
        "{apiVersion: v1, kind: ServiceAccount, metadata: {name: worker, namespace: default}}";
    target.plane.apply_yaml(worker).await.unwrap();
    let account = with(&[
        "--target-server",
        "https://127.0.0.1:1",
        "--source-name",
        "worker",
    ]);
    let said = [
        "ServiceAccount default/worker of the target is there already",
        "another --source-name",
    ];
    lines.push(user.fails(&account, 4, &said).await);

    // Half done, since nobody takes the Source up; and undone again.
    let server = with(&["--target-server", "https://127.0.0.1:1"]);
    for _ in 0..2 {
        let said = [
            "Source source of the target isn't ready after 5 s",
            "pilotage controllers",
            "same command again",
        ];
        lines.push(user.fails(&server, 3, &said).await);
    }
    // Somebody else sees to the rights.
    let object = "{apiVersion: multicluster.admiralty.io/v1alpha1, kind: Source, metadata: {name: source, namespace: \
        default}, spec: {rights: [Exec]}}";
    let words = [
        "apply",
        "--server-side",
        "--field-manager=gitops",
        "-f",
        "-",
    ];
    target
        .plane
        .kubectl_with_input(&words, object)
        .await
        .unwrap();
    let rights = [&server[..], &["--rights", "logs"]].concat();
    let said = [
        "Source source of the target has fields that somebody else set",
        "\"gitops\"",
        ".spec.rights",
        "--force-conflicts",
    ];
    lines.push(user.fails(&rights, 4, &said).await);
    let none = [&server[..], &["--rights", "none"]].concat();
    lines.push(user.fails(&none, 4, &said).await);
    let sources: Api<Source> = Api::namespaced(target.plane.admin(), "default");
    for (words, want) in [(&rights, vec![Right::Logs]), (&none, vec![])] {
        let force = [&words[..], &["--force-conflicts"]].concat();
        lines.push(user.fails(&force, 3, &["isn't ready after 5 s"]).await);
        assert_eq!(sources.get("source").await.unwrap().spec.rights, want);
    }
    // What follows is a part of the rights.
    for (more, want) in [
        (
            &["--follow", "secrets,configmaps"][..],
            vec![Right::FollowConfigMaps, Right::FollowSecrets],
        ),
        (
            &["--rights", "logs", "--follow", "services"],
            vec![Right::FollowServices, Right::Logs],
        ),
        (&["--follow", "none"], vec![Right::Logs]),
    ] {
        let words = [&server[..], more].concat();
        lines.push(user.fails(&words, 3, &["isn't ready after 5 s"]).await);
        let rights = sources.get("source").await.unwrap().spec.rights;
        assert_eq!(rights, want, "{more:?}");
    }

    let undo = [
        "disconnect",
        "--source",
        "source",
        "--target",
        "bare",
        "-n",
        "default",
    ];
    stranger.write(&file).unwrap();
    let rights = "you may not get/delete sources of namespace default, get/delete secrets of namespace default in \
        the target";
    lines.push(limited.fails(&undo, 4, &[rights]).await);
    let (code, out, err) = user.run(&undo).await;
    assert!(code == 0 && out.starts_with("disconnected:"), "{out}{err}");

    // A Target that goes isn't connected anew.
    let targets: Api<Target> = Api::namespaced(source.plane.admin(), "default");
    let going = "{apiVersion: multicluster.admiralty.io/v1alpha1, kind: Target, metadata: {name: bare, namespace: \
        default, labels: {app.kubernetes.io/managed-by: kubectl-pilotage}, finalizers: [example.com/mine]}, spec: \
        {kubeconfigSecret: {name: bare-kubeconfig}}}";
    source.plane.apply_yaml(going).await.unwrap();
    let params = DeleteParams::default();
    targets.delete("bare", &params).await.unwrap();
    let said = [
        "Target bare of the source is being deleted",
        "wait until it is gone",
    ];
    lines.push(user.fails(&server, 4, &said).await);
    let none = Patch::Merge(serde_json::json!({ "metadata": { "finalizers": null } }));
    targets
        .patch("bare", &PatchParams::default(), &none)
        .await
        .unwrap();
    pilotage_testkit::wait_gone(&targets, "bare", LIMIT)
        .await
        .unwrap();

    // Somebody else's Target has the name.
    let other = "{apiVersion: multicluster.admiralty.io/v1alpha1, kind: Target, metadata: {name: bare, namespace: \
        default}, spec: {self: true}}";
    source.plane.apply_yaml(other).await.unwrap();
    lines.push(
        user.fails(
            &server,
            4,
            &[
                "Target bare of the source is there already",
                "another --name",
            ],
        )
        .await,
    );
    lines.push(
        user.fails(
            &undo,
            4,
            &["wasn't made by \"connect\"", "delete it with kubectl"],
        )
        .await,
    );
    insta::assert_snapshot!("wrong", told(lines));

    // A token that somebody else put there, which ended in 1970.
    let old = "{apiVersion: v1, kind: Secret, metadata: {name: old, namespace: default}, stringData: {config: 'users: \
        [{name: a, user: {token: e30.eyJleHAiOjF9.c2ln}}]'}}\n---\n{apiVersion: \
        multicluster.admiralty.io/v1alpha1, kind: Target, metadata: {name: old, namespace: default}, spec: \
        {kubeconfigSecret: {name: old}}}";
    source.plane.apply_yaml(old).await.unwrap();
    let (code, out, err) = user.run(&["status", "-n", "default"]).await;
    assert_eq!(code, 0, "{out}{err}");
    let said = "warning: the token in Secret default/old, which Target default/old uses, ended ";
    assert!(err.contains(said), "{err}");
}
