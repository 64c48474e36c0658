//! Secrets that come, change, break and go, while everything runs on.

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams};
use pilotage_clusters::{Authorization, Connection, TargetKey, WatchConfig};
use pilotage_runtime::rbac::Rule;
use serde_json::json;
use tokio::time::timeout;

use crate::bench::{Bench, LIMIT, account, connects, event, is_lost, shows, watch};

#[tokio::test(flavor = "multi_thread")]
async fn a_target_is_added_rotated_lost_and_found_without_a_restart() {
    let bench = Bench::start("rotate").await;
    let target = bench.target("c2").await;
    let text = is_lost(&target, "SecretMissing").await;
    assert_eq!(text, format!("secret {}/c2 does not exist", bench.name()));
    assert!(target.client().is_none());

    // The watch may be asked for before there is any way to connect.
    let maps = watch(&target);
    let mut feed = maps.subscribe();
    bench.config_map("a", "1").await;
    bench
        .secret(
            "c2",
            "config",
            &bench.identity("first").await.kubeconfig_yaml(),
        )
        .await;
    connects(&target).await;
    event(&mut feed, "first value", shows("a", "1")).await;

    // Rotation: another identity, and the first one is revoked.
    let generation = target.sessions().borrow().as_ref().unwrap().generation;
    let mut states = target.state();
    states.mark_unchanged();
    bench
        .secret(
            "c2",
            "config",
            &bench.identity("second").await.kubeconfig_yaml(),
        )
        .await;
    let mut sessions = target.sessions();
    let newer = sessions.wait_for(|s| s.as_ref().is_some_and(|s| s.generation > generation));
    timeout(LIMIT, newer).await.expect("a new session").unwrap();
    bench
        .admin::<ServiceAccount>()
        .delete("first", &DeleteParams::default())
        .await
        .unwrap();
    bench.config_map("a", "2").await;
    event(&mut feed, "second value", shows("a", "2")).await;
    assert!(
        !states.has_changed().unwrap(),
        "a rotation costs no connection: {states:?}"
    );

    // No secret: lost, not removed; what was known stays readable.
    bench.no_secret("c2").await;
    is_lost(&target, "SecretMissing").await;
    assert!(bench.registry.get(target.key()).is_some() && target.client().is_none());
    assert!(maps.get(Some(bench.name()), "a").is_some());
    bench.config_map("a", "3").await;
    bench
        .secret(
            "c2",
            "config",
            &bench.identity("second").await.kubeconfig_yaml(),
        )
        .await;
    connects(&target).await;
    event(&mut feed, "third value", shows("a", "3")).await;

    // Only the object's own end removes it.
    let targets = bench.admin::<pilotage_api::Target>();
    targets
        .delete("c2", &DeleteParams::default())
        .await
        .unwrap();
    timeout(LIMIT, target.removed().cancelled())
        .await
        .expect("is removed");
    assert!(bench.registry.get(target.key()).is_none());
    assert!(bench.registry.by_node(target.node()).is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_secret_says_what_is_wrong() {
    let bench = Bench::start("broken").await;
    let target = bench.target("c2").await;
    let place = format!("secret {}/c2", bench.name());

    bench.secret("c2", "value", "x").await;
    let text = is_lost(&target, "KeyMissing").await;
    assert_eq!(
        text,
        format!(r#"{place} has no key "config"; it has value"#)
    );

    bench.secret("c2", "config", "clusters: [").await;
    let text = is_lost(&target, "KubeconfigUnreadable").await;
    assert!(
        text.contains(&place) && text.contains("can't be parsed"),
        "{text}"
    );

    // A program in the kubeconfig is never run.
    let exec = bench
        .identity("someone")
        .await
        .kubeconfig_yaml()
        .replace("token:", "exec: {command: /bin/false}\n    x-token:");
    bench.secret("c2", "config", &exec).await;
    let mut state = target.state();
    let refused = |state: &Connection| {
        state
            .lost()
            .is_some_and(|r| r.to_string().contains(r#"uses "exec""#))
    };
    let found = timeout(LIMIT, state.wait_for(refused)).await.is_ok();
    assert!(found, "{:?}", target.connection());

    // Credentials that the target doesn't know.
    let stranger = bench.identity("stranger").await.kubeconfig_yaml();
    let accounts = bench.admin::<ServiceAccount>();
    accounts
        .delete("stranger", &DeleteParams::default())
        .await
        .unwrap();
    bench.secret("c2", "config", &stranger).await;
    let text = is_lost(&target, "Unauthorized").await;
    assert!(text.contains("refuses our credentials"), "{text}");

    bench
        .secret(
            "c2",
            "config",
            &bench.identity("someone").await.kubeconfig_yaml(),
        )
        .await;
    connects(&target).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn self_is_the_local_cluster_and_changes_to_a_secret_live() {
    let bench = Bench::start("self").await;
    let targets = bench.admin::<pilotage_api::Target>();
    let object = json!({
        "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "Target",
        "metadata": { "name": "here" }, "spec": { "self": true },
    });
    let params = PatchParams::apply("test");
    targets
        .patch("here", &params, &Patch::Apply(&object))
        .await
        .unwrap();
    let key = TargetKey::namespaced(bench.name(), "here");
    let mut events = bench.registry.subscribe();
    let target = loop {
        match bench.registry.get(&key) {
            Some(target) => break target,
            None => drop(timeout(LIMIT, events.recv()).await.expect("is added")),
        }
    };
    connects(&target).await;

    let spec = json!({ "spec": { "self": null, "kubeconfigSecret": { "name": "gone" } } });
    targets
        .patch("here", &PatchParams::default(), &Patch::Merge(&spec))
        .await
        .unwrap();
    is_lost(&target, "SecretMissing").await;
    assert!(
        bench
            .registry
            .get(&key)
            .is_some_and(|same| std::sync::Arc::ptr_eq(&same, &target))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_permitted_is_named_until_it_is() {
    let bench = Bench::start("rights").await;
    let target = bench.target("c2").await;
    bench
        .secret(
            "c2",
            "config",
            &bench.identity("reader").await.kubeconfig_yaml(),
        )
        .await;
    let mut rights = target.authorization();
    let missing = rights.wait_for(|rights| matches!(rights, Authorization::Missing(_)));
    let missing = timeout(LIMIT, missing)
        .await
        .expect("asks")
        .unwrap()
        .clone();
    let Authorization::Missing(needs) = missing else {
        panic!()
    };
    assert_eq!(
        needs.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["get pods/log"]
    );

    let more = [Rule::own_namespace(
        &[""],
        &["configmaps", "pods/log"],
        &["get", "list", "watch"],
    )];
    account(&bench.plane, bench.name(), "reader", &more).await;
    let complete = rights.wait_for(|rights| *rights == Authorization::Complete);
    assert!(
        timeout(LIMIT, complete).await.is_ok(),
        "still {:?}",
        target.authorization().borrow()
    );

    // A role that is taken away is noticed by who needs it, long before it would be asked for again.
    let fewer = [Rule::own_namespace(&[""], &["pods/log"], &["get"])];
    account(&bench.plane, bench.name(), "reader", &fewer).await;
    let maps = target.watch::<ConfigMap>(WatchConfig::all().labels("new"));
    let missing = rights.wait_for(|rights| matches!(rights, Authorization::Missing(_)));
    assert!(timeout(LIMIT, missing).await.is_ok());
    assert!(target.is_connected() && !maps.is_synced());
}
