//! The commands for people, as `kubectl-pilotage`, on real control planes: they connect, tell, disconnect, and say in
//! one line what to do when something is wrong.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use pilotage_api::{Right, Source, Target, keys};
use pilotage_e2e::fleet::{Side, Spec, lone};
use pilotage_testkit::ports::Port;
use pilotage_testkit::{ControlPlane, pilotage};

use super::{LIMIT, Shop, elected, small_nodes, started};

/// Who runs the commands: kubeconfigs and contexts of both clusters.
pub(super) struct User {
    pub(super) plugin: PathBuf,
    pub(super) source: PathBuf,
    pub(super) target: PathBuf,
}

/// How a command ended: exit code, standard output, standard error.
pub(super) type Ended = (i32, String, String);

impl User {
    pub(super) fn new(source: &ControlPlane, target: &ControlPlane) -> Self {
        let directory = source.directory().join(pilotage_testkit::unique());
        std::fs::create_dir(&directory).unwrap();
        let plugin = directory.join("kubectl-pilotage");
        symlink(pilotage::binary().unwrap(), &plugin).unwrap();
        Self {
            plugin,
            source: source.admin_kubeconfig(),
            target: target.admin_kubeconfig(),
        }
    }

    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.plugin);
        command.args(words).arg("--kubeconfig").arg(&self.source);
        if words[0].ends_with("connect") || words[0] == "version" {
            command.arg("--target-kubeconfig").arg(&self.target);
        }
        command
    }

    pub(super) async fn run(&self, words: &[&str]) -> Ended {
        let mut command = self.command(words);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap());
        let output = output.await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code().unwrap(),
            text(output.stdout),
            text(output.stderr),
        )
    }

    /// It fails with this code, and its last line, which is returned, has these words.
    pub(super) async fn fails(&self, words: &[&str], code: i32, said: &[&str]) -> String {
        let (ended, out, err) = self.run(words).await;
        assert_eq!((ended, &*out), (code, ""), "{words:?}: {err}");
        let last = err.lines().last().unwrap_or_default();
        for word in said {
            assert!(last.contains(word), "{word} in: {err}");
        }
        if code == 4 {
            assert_eq!(err.lines().count(), 1, "{err}");
        }
        last.to_owned()
    }
}

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
async fn two_clusters_are_connected_told_of_and_disconnected_and_each_may_be_repeated() {
    let spec = Spec::new()
        .one_process()
        .rights(&[Right::Logs, Right::Exec, Right::FollowConfigMaps])
        .target("paris", small_nodes("paris"));
    let shop = Shop::unconnected(started(spec).await, "plugin").await;
    let (source, paris) = (&shop.fleet.source.plane, &shop.target("paris").plane);
    let user = User::new(source, paris);
    let (at, server) = (shop.name.as_str(), paris.url());
    let both = ["--source", "source", "--target", "paris", "-n", at];
    let with = |command: &'static str, more: &[&'static str]| {
        let words = [&[command][..], &both[..]].concat();
        let server = ["--target-server", server];
        let server = if command == "connect" {
            &server[..]
        } else {
            &[]
        };
        [&words[..], server, more].concat()
    };

    let (code, out, err) = user.run(&["status", "-n", at]).await;
    assert_eq!(
        (code, &*out),
        (
            0,
            "there is no Target; \"kubectl pilotage connect\" makes one\n"
        ),
        "{err}"
    );

    // What is printed for git needs no cluster, and has no credential.
    let (code, out, _) = user
        .run(&with("connect", &["--dry-run", "-o", "yaml"]))
        .await;
    assert_eq!(code, 0);
    let kinds: Vec<_> = out
        .lines()
        .filter_map(|it| it.strip_prefix("kind: "))
        .collect();
    assert_eq!(
        kinds,
        ["Source", "ServiceAccount", "Role", "RoleBinding", "Target"]
    );
    let sources: Api<Source> = Api::namespaced(paris.admin(), at);
    assert!(sources.get_opt("source").await.unwrap().is_none());

    let done = format!(
        "connected: Target paris of the source leads to Source source of the target at {server}; pods of namespace \
         {at} with the annotation multicluster.admiralty.io/elect may run there\n"
    );
    let (code, out, err) = user.run(&with("connect", &[])).await;
    assert_eq!((code, &*out), (0, &*done), "{err}");
    for line in [
        "warning: https://127.0.0.1",
        "target: Source source\n",
        "source: Target paris\n",
    ] {
        assert!(err.contains(line), "{line} in\n{err}");
    }
    let kubeconfigs: Api<Secret> = Api::namespaced(source.admin(), at);
    let kubeconfig = async || {
        let secret = kubeconfigs.get("paris-kubeconfig").await.unwrap();
        String::from_utf8(secret.data.unwrap().remove("config").unwrap().0).unwrap()
    };
    let first = kubeconfig().await;
    // Without an address, too: this kubeconfig's is one of this machine only, and the one that works stays.
    let again = [&["connect"][..], &both].concat();
    let renewed = [&again[..], &["--renew-token"]].concat();
    for (words, same) in [
        (&with("connect", &[]), true),
        (&again, true),
        (&renewed, false),
    ] {
        let (code, out, err) = user.run(words).await;
        assert_eq!((code, &*out), (0, &*done), "{err}");
        assert_eq!(kubeconfig().await == first, same, "{words:?}");
    }
    // Rights stay until somebody says otherwise.
    let rights = async || sources.get("source").await.unwrap().spec.rights;
    for (more, want) in [
        (
            &["--rights", "exec,logs"][..],
            vec![Right::Logs, Right::Exec],
        ),
        (&[], vec![Right::Logs, Right::Exec]),
        (&["--rights", "logs"], vec![Right::Logs]),
        (&["--rights", "none"], vec![]),
    ] {
        let (code, out, err) = user.run(&with("connect", more)).await;
        assert_eq!((code, &*out), (0, &*done), "{err}");
        assert_eq!(rights().await, want, "{more:?}");
        let loses = err.contains("target: Source source loses the right ");
        assert_eq!(
            loses,
            more.last().is_some_and(|it| *it != "exec,logs"),
            "{err}"
        );
    }

    // The target lets them follow, and nobody in the source sees to it.
    let follow = with("connect", &["--follow", "configmaps"]);
    let (code, out, err) = user.run(&follow).await;
    assert_eq!((code, &*out), (0, &*done), "{err}");
    let said = "warning: configmaps don't follow yet";
    assert!(err.contains(said), "{err}");

    // An earlier kubeconfig that works says nothing of a new one that doesn't, and comes back.
    let port = Port::reserve().unwrap();
    let nowhere = format!("https://{}", port.address());
    let dead = [
        &again[..],
        &["--target-server", &nowhere, "--timeout", "10s"],
    ]
    .concat();
    let said = [
        "isn't connected by the new kubeconfig after 10 s",
        "the earlier one is in place again",
        "another --target-server",
    ];
    for (more, same) in [(&[][..], true), (&["--renew-token"][..], false)] {
        let before = kubeconfig().await;
        user.fails(&[&dead[..], more].concat(), 3, &said).await;
        let back = kubeconfig().await;
        assert!(back.contains(&format!("{server:?}")), "{more:?}");
        assert_eq!(back == before, same, "its token is void: {more:?}");
        let (code, out, err) = user.run(&again).await;
        assert_eq!((code, &*out), (0, &*done), "{err}");
    }

    // Another cluster that is called the same, by somebody else.
    let other = lone(ControlPlane::builder("source"), Side::Source)
        .await
        .unwrap();
    let theirs = User::new(&other.plane, paris);
    other
        .plane
        .named_namespace(at, BTreeMap::new())
        .await
        .unwrap();
    for command in ["connect", "disconnect"] {
        let said = [
            "Source source of the target",
            "lets another cluster in",
            "--source-name",
        ];
        theirs.fails(&with(command, &[]), 4, &said).await;
    }

    let namespaces: Api<Namespace> = Api::all(source.admin());
    let labels = namespaces.get(at).await.unwrap().metadata.labels.unwrap();
    assert_eq!(labels[keys::NAMESPACE_LABEL], keys::NAMESPACE_LABEL_VALUE);

    // A pod that fits, and one that doesn't.
    shop.fleet.elect(at).await.unwrap();
    shop.create(&elected("web", "100m")).await;
    shop.running("web").await;
    let node = shop.virtual_node("paris");
    let (code, out, err) = user.run(&["status", "pod", "web", "-n", at]).await;
    assert_eq!(code, 0, "{err}");
    let first = format!(
        "{at}/web (Running): it went to target paris (virtual node {node}), and is Running there\n"
    );
    assert!(out.starts_with(&first), "{out}");
    assert!(
        out.contains("\nTARGET   ANSWER\nparis    runs it\n"),
        "{out}"
    );
    assert!(out.contains("PodScheduled became true"), "{out}");
    shop.create(&elected("huge", "64")).await;
    let refused = |pod: &Pod| {
        super::scheduled(pod).is_some_and(|(_, _, message)| message.contains("refused ["))
    };
    pilotage_testkit::wait_for(&shop.pods(), "huge", refused, LIMIT)
        .await
        .unwrap();
    let (code, out, err) = user.run(&["explain", "pod", &format!("{at}/huge")]).await;
    assert_eq!(code, 0, "{err}");
    assert!(
        out.contains("(Pending): it waits: 0/1 nodes are available"),
        "{out}"
    );
    assert!(
        out.contains("\nparis    refused [2 Insufficient cpu]\n"),
        "{out}"
    );

    // One that has ended isn't counted any more.
    shop.create(&elected("done", "100m")).await;
    shop.running("done").await;
    let delegates = shop.pods_in("paris");
    let all = delegates.list(&ListParams::default()).await.unwrap();
    let mut names = all
        .items
        .iter()
        .filter_map(|it| it.metadata.name.as_deref());
    let delegate = names.find(|it| it.starts_with("done")).unwrap();
    let ended = Patch::Merge(serde_json::json!({ "status": { "phase": "Succeeded" } }));
    let params = PatchParams::default();
    delegates
        .patch_status(delegate, &params, &ended)
        .await
        .unwrap();
    let has_ended = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
        phase == Some("Succeeded")
    };
    pilotage_testkit::wait_for(&shop.pods(), "done", has_ended, LIMIT)
        .await
        .unwrap();

    let (code, out, err) = user.run(&["status", "-n", at, "-o", "json"]).await;
    assert_eq!(code, 0, "{err}");
    let rows: serde_json::Value = serde_json::from_str(&out).unwrap();
    let row = &rows[0];
    assert!(
        row["name"] == "paris" && row["connected"] == "True",
        "{out}"
    );
    assert!(row["pods"] == 1 && row["node"] == node.as_str(), "{out}");
    let (_, out, _) = user.run(&["status", "-n", at]).await;
    assert!(out.starts_with("NAMESPACE"), "{out}");
    let line = out.lines().nth(1).unwrap();
    assert!(
        line.contains("paris    True") && line.contains(" of 8"),
        "{out}"
    );

    // Whoever can't reach the target ends the source's part, and is told what is left.
    let lost = User {
        target: paris.directory().join("lost.kubeconfig"),
        plugin: user.plugin.clone(),
        source: user.source.clone(),
    };
    paris
        .admin_access()
        .via(&nowhere)
        .write(&lost.target)
        .unwrap();
    for done in [
        "gone from the source: Target paris, Secret paris-kubeconfig; Source source, and Secret, Role and RoleBinding \
         source-token of the target",
        "nothing was left in the source; Source source, and Secret, Role and RoleBinding source-token of the target",
    ] {
        let said = [
            done,
            "give the same command again when that cluster answers",
            "doesn't answer at",
        ];
        lost.fails(&with("disconnect", &[]), 1, &said).await;
    }
    assert!(sources.get_opt("source").await.unwrap().is_some());

    let gone = "disconnected: Target paris and Source source are gone, with their Secrets; labels of namespaces stay\n";
    let none = "there is no connection of these names: Target paris, Source source\n";
    for want in [gone, none] {
        let (code, out, err) = user.run(&with("disconnect", &[])).await;
        assert_eq!((code, &*out), (0, want), "{err}");
    }
    let roles: Api<Role> = Api::namespaced(paris.admin(), at);
    let bindings: Api<RoleBinding> = Api::namespaced(paris.admin(), at);
    assert!(roles.get_opt("source-token").await.unwrap().is_none());
    assert!(bindings.get_opt("source-token").await.unwrap().is_none());
    assert!(sources.get_opt("source").await.unwrap().is_none());
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
        "1s",
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
            "Source source of the target isn't ready after 1 s",
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
        lines.push(user.fails(&force, 3, &["isn't ready after 1 s"]).await);
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
        lines.push(user.fails(&words, 3, &["isn't ready after 1 s"]).await);
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
