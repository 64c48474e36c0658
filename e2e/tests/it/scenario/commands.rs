//! The commands that look at targets and empty them, as `kubectl-pilotage`, on real control planes.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Secret};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::Config;
use kube::{Api, ResourceExt};
use pilotage_api::conditions::types;
use pilotage_api::{Target, keys};
use pilotage_e2e::fleet::{Side, lone};
use pilotage_testkit::{ControlPlane, build, wait_count, wait_for, wait_gone};

use super::kubelet::until;
use super::user::User;
use super::{LIMIT, Shop, TARGETS, elected, is_running, node_of};

/// What was printed, without what each run has of its own: names, files, ages, versions, what other tests leave free,
/// and the width of columns.
fn plain(text: &str, shop: &Shop) -> String {
    let text = text.replace(&shop.name, "shop");
    let is_age = |word: &str| {
        let digits = word.trim_end_matches(['s', 'm']);
        digits != word && digits.parse::<u32>().is_ok()
    };
    let is_amount = |word: &str| word.starts_with(|it: char| it.is_ascii_digit());
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is = |at: Option<usize>, what: &str| at.and_then(|at| words.get(at)) == Some(&what);
        let is_of = |at: Option<usize>| is(at, "of");
        let shown = words.iter().enumerate().map(|(at, word)| match *word {
            word if is_amount(word) && is_of(Some(at + 1)) => "FREE",
            word if is_amount(word) && is_of(at.checked_sub(1)) => "ALL",
            word if is_age(word) => "AGE",
            _ if is(at.checked_sub(1), "--kubeconfig") => "FILE",
            word if word.starts_with("admiralty-") => "NODE",
            env!("CARGO_PKG_VERSION") => "VERSION",
            word if word.starts_with("v1.") => "KUBERNETES",
            word => word,
        });
        shown.collect::<Vec<_>>().join(" ") + "\n"
    };
    text.lines().map(line).collect()
}

fn user(shop: &Shop, target: &str) -> User {
    User::new(&shop.fleet.source.plane, &shop.target(target).plane)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_is_drained_its_pods_move_and_it_is_filled_again() {
    let shop = Shop::open("drain").await;
    let user = user(&shop, "east");
    let at = shop.name.as_str();
    let deployments: Api<Deployment> = Api::namespaced(shop.fleet.source.plane.admin(), at);
    let web = build::deployment("web").pod(|pod| pod.elect().request("cpu", "100m"));
    deployments
        .create(&PostParams::default(), &web.build())
        .await
        .unwrap();
    let running = async |without: Option<&str>| -> Pod {
        let is_there = |pod: &Pod| {
            let stays = pod.metadata.deletion_timestamp.is_none();
            stays && is_running(pod) && Some(&*pod.name_any()) != without
        };
        let of_web = Config::default().labels("app=web");
        let found = wait_count(&shop.pods(), of_web, 1, is_there, LIMIT).await;
        found.unwrap().remove(0)
    };
    let first = running(None).await;
    let (from, _) = shop.delegate(&first).await;
    shop.create(&elected("alone", "100m")).await;
    let alone = shop.running("alone").await;
    let (stays, _) = shop.delegate(&alone).await;
    // A proxy is one whatever labels somebody takes away.
    let none = serde_json::json!({ "metadata": { "labels": { keys::HAS_FINALIZER: null } } });
    let (params, none) = (PatchParams::default(), Patch::Merge(none));
    let name = first.name_any();
    shop.pods().patch(&name, &params, &none).await.unwrap();

    let name = format!("{at}/{from}");
    let (code, out, err) = user.run(&["drain", &name]).await;
    assert_eq!(code, 0, "{err}");
    assert!(
        out.starts_with(&format!("drained: Target {name} takes no new pods; ")),
        "{out}"
    );
    let nodes: Api<Node> = Api::all(shop.fleet.source.plane.admin());
    let cordoned = async || {
        let node = nodes.get(&shop.virtual_node(from)).await.unwrap();
        node.spec.unwrap().unschedulable
    };
    assert_eq!(cordoned().await, Some(true));
    let (_, out, err) = user.run(&["status", "-n", at, "-o", "wide"]).await;
    assert!(out.contains("no (drained)"), "{out}{err}");

    // Each time the same, until there is nothing to move.
    let (code, out, err) = user.run(&["drain", from, "-n", at, "--move"]).await;
    assert_eq!(code, 0, "{err}");
    let evicted = format!("source: {at}/{} is evicted", first.name_any());
    assert!(err.contains(&evicted), "{err}");
    let moved = format!("drained: Target {name} takes no new pods, and 1 pod left it");
    let told = format!("; what no controller makes anew stays: {at}/alone");
    assert!(out.starts_with(&moved), "{out}");
    assert_eq!(out.contains(&told), stays == from, "{out}");
    let second = running(Some(&first.name_any())).await;
    let (to, _) = shop.delegate(&second).await;
    assert_ne!(to, from);
    let old = shop
        .pods_in(from)
        .list(&ListParams::default())
        .await
        .unwrap();
    let of_first = |pod: &Pod| {
        let uid = pod.labels().get(keys::PARENT_UID);
        uid == first.metadata.uid.as_ref()
    };
    assert!(!old.iter().any(of_first), "the old delegate is gone");

    let (code, out, err) = user.run(&["drain", &name, "--undo"]).await;
    assert_eq!(
        (code, out),
        (0, format!("Target {name} takes new pods again\n")),
        "{err}"
    );
    assert_ne!(cordoned().await, Some(true));

    let said = [
        "there is no Target",
        "give its namespace by -n, or --cluster-wide",
    ];
    user.fails(&["drain", "nowhere", "-n", at], 4, &said).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_a_budget_keeps_hold_up_no_others() {
    let shop = Shop::open("budget").await;
    let user = user(&shop, "east");
    let (at, source) = (shop.name.as_str(), &shop.fleet.source.plane);
    for other in ["north", "west"] {
        let (code, _, err) = user.run(&["drain", other, "-n", at]).await;
        assert_eq!(code, 0, "{err}");
    }
    let budget = format!(
        "{{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {{name: all, namespace: {at}}}, \
         spec: {{maxUnavailable: 0, selector: {{matchLabels: {{app: all}}}}}}}}"
    );
    source.apply_yaml(&budget).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(source.admin(), at);
    // As many as are evicted at the same time, and before the other one by name.
    for (name, replicas) in [("all", 16), ("web", 1)] {
        let it = build::deployment(name)
            .replicas(replicas)
            .pod(|pod| pod.elect().request("cpu", "10m"));
        deployments
            .create(&PostParams::default(), &it.build())
            .await
            .unwrap();
    }
    let east = shop.virtual_node("east");
    let at_east = |pod: &Pod| is_running(pod) && node_of(pod) == Some(&east);
    wait_count(&shop.pods(), Config::default(), 17, at_east, LIMIT)
        .await
        .unwrap();
    let (code, _, err) = user.run(&["drain", "west", "-n", at, "--undo"]).await;
    assert_eq!(code, 0, "{err}");

    let drain = ["drain", "east", "-n", at, "--move", "--timeout"];
    let none = [&drain[..], &["0s"]].concat();
    user.fails(&none, 3, &["17 pods of", "not evicted: time is up"])
        .await;
    let all = shop.pods().list(&ListParams::default()).await.unwrap();
    assert!(
        all.iter()
            .all(|it| it.metadata.deletion_timestamp.is_none())
    );
    let some = [&drain[..], &["8s"]].concat();
    user.fails(&some, 3, &["pods of Target", "aren't gone", " more"])
        .await;
    let west = shop.virtual_node("west");
    let at_west = |pod: &Pod| node_of(pod) == Some(&west);
    let web = Config::default().labels("app=web");
    wait_count(&shop.pods(), web, 1, at_west, LIMIT)
        .await
        .unwrap();
    // Those that the budget keeps are all there.
    let east = shop.virtual_node("east");
    let at_east = |pod: &Pod| node_of(pod) == Some(&east);
    let kept = Config::default().labels("app=all");
    wait_count(&shop.pods(), kept, 16, at_east, LIMIT)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_is_lost_may_be_forgotten_and_another_one_by_a_word_of_its_own() {
    let shop = Shop::open("forget").await;
    let user = user(&shop, "east");
    let (at, source) = (shop.name.as_str(), shop.fleet.source.plane.admin());
    shop.create(&elected("web", "100m")).await;
    let web = shop.running("web").await;
    let (there, _) = shop.delegate(&web).await;
    let name = format!("{at}/{there}");
    let said = [
        "is connected",
        "\"kubectl pilotage disconnect\"",
        "\"kubectl pilotage drain --move\"",
        "say --even-connected",
    ];
    user.fails(&["forget", &name, "--yes"], 4, &said).await;
    let idle = TARGETS.iter().find(|target| **target != there).unwrap();
    let idle = format!("{at}/{idle}");
    let asked = ["forget", &idle, "--even-connected"];
    let said = ["half a minute", "run a second time elsewhere", "say --yes"];
    user.fails(&asked, 4, &said).await;
    let (code, out, err) = user.run(&[&asked[..], &["--yes"]].concat()).await;
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("is gone, and 0 pod(s)"), "{out}");

    // Nobody has its credentials any more.
    let secrets: Api<Secret> = Api::namespaced(source.clone(), at);
    let targets: Api<Target> = Api::namespaced(source.clone(), at);
    let broken = serde_json::json!({ "data": { "config": "" } });
    let (params, patch) = (PatchParams::default(), Patch::Merge(broken));
    secrets.patch(there, &params, &patch).await.unwrap();
    let lost = |target: &Target| {
        let status = target.status.as_ref();
        let mut all = status.into_iter().flat_map(|it| &it.conditions);
        all.any(|it| it.type_ == types::CONNECTED && it.status == "False")
    };
    wait_for(&targets, there, lost, LIMIT).await.unwrap();

    let said = ["isn't connected", "kubectl pilotage forget"];
    user.fails(&["drain", &name, "--move"], 4, &said).await;
    let said = [
        "1 pod(s) of Target",
        "run a second time elsewhere",
        "say --yes",
    ];
    user.fails(&["forget", &name], 4, &said).await;
    let (code, out, err) = user.run(&["forget", &name, "--yes"]).await;
    assert_eq!(code, 0, "{err}");
    let namespaces: Api<Namespace> = Api::all(source.clone());
    let uid = namespaces.get("kube-system").await.unwrap().metadata.uid;
    // Its Secret is called the same.
    let out = out.replace(there, "paris").replace(&uid.unwrap(), "UID");
    insta::assert_snapshot!("forgotten", plain(&out, &shop));
    assert!(targets.get_opt(there).await.unwrap().is_none());
    wait_gone(&shop.pods(), "web", LIMIT).await.unwrap();
    let left = shop
        .pods_in(there)
        .list(&ListParams::default())
        .await
        .unwrap();
    assert_eq!(left.items.len(), 1, "what ran there runs on");
    shop.chaperons_in(there)
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_of_all_parts_are_told() {
    let shop = Shop::open("version").await;
    let user = user(&shop, "east");
    let (code, out, err) = user.run(&["version", "--target", "east"]).await;
    assert_eq!(code, 0, "{err}");
    insta::assert_snapshot!("version", plain(&out, &shop));
    let (code, out, _) = user.run(&["version", "--client", "-o", "json"]).await;
    let all: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, all["client"].as_str()),
        (0, Some(env!("CARGO_PKG_VERSION")))
    );
    let (code, out, err) = user.run(&["version", "--home", "default"]).await;
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("no part of Pilotage has a Lease"), "{out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sees_one_namespace_is_told_of_its_targets() {
    let shop = Shop::open("narrow").await;
    let all = user(&shop, "east");
    let (at, plane) = (shop.name.as_str(), &shop.fleet.source.plane);
    let nodes: Api<Node> = Api::all(plane.admin());
    for target in TARGETS {
        let shows_room = |node: &Node| {
            let status = node.status.as_ref();
            let all = status.and_then(|it| it.allocatable.as_ref());
            node.annotations().contains_key(keys::FREE)
                && all.is_some_and(|it| it.contains_key("cpu"))
        };
        let node = shop.virtual_node(target);
        wait_for(&nodes, &node, shows_room, LIMIT).await.unwrap();
    }
    let (code, out, err) = all.run(&["status", "-n", at, "-o", "wide"]).await;
    assert_eq!(code, 0, "{err}");
    insta::assert_snapshot!("status_wide", plain(&out, &shop));

    let access = plane.user_access(at, None).unwrap().in_namespace(at);
    let file = plane.directory().join(format!("{at}.kubeconfig"));
    access.write(&file).unwrap();
    let limited = User {
        source: file.clone(),
        target: file,
        plugin: all.plugin.clone(),
    };
    let said = [
        "you may not list targets of namespace",
        "in the source; take a context whose user may",
    ];
    limited.fails(&["status"], 4, &said).await;
    let role = format!(
        "{{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {{name: sees, namespace: {at}}}, \
         rules: [{{apiGroups: [multicluster.admiralty.io], resources: [targets], verbs: [get, list]}}]}}\n---\n\
         {{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {{name: sees, namespace: {at}}}, \
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: sees}}, \
         subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {at}}}]}}"
    );
    plane.apply_yaml(&role).await.unwrap();
    let (out, err) = until("the role to be in force", async || {
        let (code, out, err) = limited.run(&["status"]).await;
        if code == 0 { Ok((out, err)) } else { Err(err) }
    })
    .await;
    insta::assert_snapshot!("status_narrow", plain(&format!("{out}{err}"), &shop));
    let said = ["you may not get/patch nodes", "list pods of namespace"];
    limited.fails(&["drain", "east"], 4, &said).await;
    shop.create(&elected("web", "10m")).await;
    let role = format!(
        "{{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {{name: sees, namespace: {at}}}, rules: [\
         {{apiGroups: [multicluster.admiralty.io], resources: [targets], verbs: [get, list]}}, \
         {{apiGroups: [''], resources: [pods], verbs: [get]}}]}}"
    );
    plane.apply_yaml(&role).await.unwrap();
    let err = until("the role to be in force", async || {
        let (code, _, err) = limited.run(&["explain", "pod", "web"]).await;
        if code == 0 { Ok(err) } else { Err(err) }
    })
    .await;
    for note in ["may not list ClusterTargets", "may not list events"] {
        assert!(err.contains(note), "{err}");
    }
    // Rights in the namespace alone are enough to ask what if.
    let role = format!(
        "{{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {{name: sees, namespace: {at}}}, rules: [\
         {{apiGroups: [multicluster.admiralty.io], resources: [targets], verbs: [get, list]}}, \
         {{apiGroups: [''], resources: [namespaces], verbs: [get]}}, \
         {{apiGroups: [''], resources: [pods], verbs: [get, list, watch, create, delete]}}]}}"
    );
    plane.apply_yaml(&role).await.unwrap();
    let mut pod = serde_json::to_value(elected("asks", "10m")).unwrap();
    (pod["apiVersion"], pod["kind"]) = ("v1".into(), "Pod".into());
    let file = plane.directory().join(format!("{at}-asks.json"));
    std::fs::write(&file, pod.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let out = until("answers", async || {
        let (code, out, err) = limited.run(&["what-if", "-f", file, "-n", at]).await;
        let answered = code == 0 && !out.contains("has not answered yet");
        if answered {
            Ok(out)
        } else {
            Err(format!("{out}{err}"))
        }
    })
    .await;
    assert!(
        out.starts_with("3 of 3 target(s) could take the pod\n"),
        "{out}"
    );
    limited
        .fails(&["forget", "east"], 4, &["you may not patch/delete"])
        .await;
    let said = ["you may not list leases of namespace pilotage"];
    limited.fails(&["version"], 4, &said).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_is_printed_until_it_is_interrupted() {
    let shop = Shop::open("watch").await;
    let user = user(&shop, "east");
    let at = shop.name.clone();
    let mut command = user.command(&["status", "--watch", "-n", &at, "-o", "wide"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (send, mut receive) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    let mut until = async |words: &[&str]| {
        let found = async {
            loop {
                let line = receive.recv().await.unwrap();
                if words.iter().all(|word| line.contains(word)) {
                    return;
                }
            }
        };
        tokio::time::timeout(LIMIT, found).await.unwrap();
    };
    until(&["NAMESPACE", "NEW PODS"]).await;
    until(&["west", "yes"]).await;
    let (code, _, err) = user.run(&["drain", &format!("{at}/east")]).await;
    assert_eq!(code, 0, "{err}");
    until(&["east", "no (drained)"]).await;
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn pilotage_is_installed_without_helm_again_and_again() {
    let bare = ControlPlane::builder("empty")
        .no_crds()
        .controller_manager();
    let cluster = lone(bare, Side::Source).await.unwrap();
    let plane = &cluster.plane;
    let user = User::new(plane, plane);
    let install = [
        "install",
        "--image",
        "registry.example/pilotage:1",
        "-n",
        "ships",
    ];
    let with = |more: &[&'static str]| [&install[..], more].concat();

    let (code, out, err) = user.run(&with(&["--dry-run", "-o", "yaml"])).await;
    assert_eq!(code, 0, "{err}");
    let kinds = out.lines().filter(|it| it.starts_with("kind: "));
    let kinds = kinds.collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!("installed", kinds);
    let bad = ["install", "--image", "a: b"];
    user.fails(&bad, 2, &["try '--help'"]).await;
    let bad = ["install", "--image", "a", "-n", "Ships"];
    user.fails(&bad, 4, &["\"Ships\" is no name", "--namespace"])
        .await;

    let stranger = plane.user_access("stranger", None).unwrap();
    let file = plane.directory().join("stranger.kubeconfig");
    stranger.write(&file).unwrap();
    let limited = User {
        source: file.clone(),
        target: file,
        plugin: user.plugin.clone(),
    };
    let said = [
        "the cluster wouldn't take Namespace ships",
        "User \"stranger\" cannot patch",
    ];
    limited.fails(&with(&[]), 4, &said).await;
    let namespaces: Api<Namespace> = Api::all(plane.admin());
    assert!(namespaces.get_opt("ships").await.unwrap().is_none());

    for _ in 0..2 {
        let (code, out, err) = user.run(&with(&["--timeout", "0s"])).await;
        assert_eq!(code, 0, "{err}");
        assert!(out.starts_with("installed: Pilotage "), "{out}");
    }
    // What a flag turns on goes when that isn't given any more.
    for (more, is_there) in [(&["--rights", "logs", "--kubelet"][..], true), (&[], false)] {
        let words = [&with(&["--timeout", "0s"])[..], more].concat();
        let (code, _, err) = user.run(&words).await;
        assert_eq!(code, 0, "{err}");
        for role in [
            ["get", "clusterrole", "pilotage-source-logs"].as_slice(),
            &["get", "role", "pilotage-controllers", "-n", "kube-system"],
            &[
                "get",
                "rolebinding",
                "pilotage-controllers",
                "-n",
                "kube-system",
            ],
        ] {
            let found = plane.kubectl(role).await.is_ok();
            assert_eq!(found, is_there, "{role:?} after {more:?}");
        }
    }
    // What doesn't follow any more leaves its copies.
    let lease = serde_json::json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "name": "pilotage-controllers", "namespace": "ships",
            "annotations": { keys::FOLLOWED_KINDS: "configmaps,secrets" },
        },
    });
    plane.apply_yaml(&lease.to_string()).await.unwrap();
    let words = with(&["--timeout", "0s", "--follow", "configmaps"]);
    let (code, _, err) = user.run(&words).await;
    assert_eq!(code, 0, "{err}");
    let said = "warning: cluster: secrets followed pods so far, and don't any more: copies";
    assert!(err.contains(said), "{err}");
    // No node is here for them.
    let said = [
        "Deployment ships/pilotage-",
        "doesn't run after 5 s: 0 of 2 pods are available",
        "kubectl describe",
    ];
    user.fails(&with(&["--timeout", "5s"]), 3, &said).await;
    let targets: Api<Target> = Api::all(plane.admin());
    assert!(
        targets
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );

    // Names of roles are the same in every namespace.
    let bindings: Api<ClusterRoleBinding> = Api::all(plane.admin());
    let subjects = async || {
        let all = bindings.list(&ListParams::default()).await.unwrap();
        let ours = all
            .into_iter()
            .filter(|it| it.name_any().starts_with("pilotage"));
        ours.map(|it| it.subjects).collect::<Vec<_>>()
    };
    let before = subjects().await;
    let elsewhere = [
        "install",
        "--image",
        "registry.example/pilotage:1",
        "-n",
        "other",
    ];
    let said = [
        "ClusterRoleBinding pilotage",
        "belongs to Pilotage in namespace ships",
        "give that namespace by --namespace",
    ];
    user.fails(&elsewhere, 4, &said).await;
    assert!(!before.is_empty());
    assert_eq!(subjects().await, before);

    let deployments: Api<Deployment> = Api::namespaced(plane.admin(), "ships");
    let all = deployments
        .list(&ListParams::default())
        .await
        .unwrap()
        .items;
    assert_eq!(all.len(), 4);
    let label =
        serde_json::json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": "Helm" } } });
    let (params, patch) = (PatchParams::default(), Patch::Merge(label));
    deployments
        .patch(&all[0].name_any(), &params, &patch)
        .await
        .unwrap();
    let said = ["belongs to a release of Helm", "helm upgrade"];
    user.fails(&with(&[]), 4, &said).await;
}
