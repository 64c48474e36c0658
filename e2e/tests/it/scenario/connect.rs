//! The commands for people, as `kubectl-pilotage`, on real control planes: they connect, tell and disconnect.

mod wrong;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use pilotage_api::{Right, Source, keys};
use pilotage_e2e::fleet::{Side, Spec, lone};
use pilotage_testkit::ControlPlane;
use pilotage_testkit::ports::Port;

use super::user::User;
use super::{LIMIT, Shop, elected, small_nodes, started};

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
        &["--target-server", &nowhere, "--timeout", "30s"],
    ]
    .concat();
    let said = [
        "isn't connected by the new kubeconfig after 30 s",
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
