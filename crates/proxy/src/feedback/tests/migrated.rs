//! Pods that Admiralty made, and their chaperons, which name no source.

use super::*;

#[test]
fn a_pod_that_admiralty_placed_goes_when_nothing_is_seen_where_it_ran() {
    let left = |node: Option<&str>| {
        let mut scene = Scene::ending(None);
        if let Some(proxy) = &mut scene.proxy {
            proxy.node_name = node.map(str::to_owned);
            let of_targets = [
                "multicluster.admiralty.io/shop-a",
                "multicluster.admiralty.io/shop-b",
            ];
            let others = ["example.com/mine"];
            proxy.finalizers = of_targets
                .iter()
                .chain(&others)
                .map(ToString::to_string)
                .collect();
            proxy.recorded = false;
        }
        scene
    };
    let goes = |plan: &Plan| {
        matches!(
            plan.actions.as_slice(),
            [Action::RemoveFinalizer { remaining, .. }] if *remaining == ["example.com/mine"]
        )
    };
    let mut running = left(Some("a")).with(chaperon("a", "ua").bound());
    let plan = running.step();
    assert_eq!(deletes(&plan), ["ua"]);
    assert_eq!(plan.actions.len(), 1, "the finalizers stay");
    running.chaperons.clear();
    assert!(goes(&running.step()));

    let mut anew = left(Some("a"));
    anew.targets.set_reach("a", Reach::Lost, NOW);
    anew.targets.set_reach("a", Reach::Reachable, NOW);
    let plan = anew.step();
    assert!(plan.actions.is_empty(), "its list isn't taken in yet");
    anew.now = plan.wake_at.unwrap();
    assert!(goes(&anew.step()));

    let mut lost = left(Some("a"));
    lost.targets.set_reach("a", Reach::Lost, NOW);
    let plan = lost.step();
    assert!(plan.actions.is_empty() && plan.tell.is_some());
    let mut elsewhere = left(Some("a"));
    elsewhere.targets.set_reach("b", Reach::Lost, NOW);
    assert!(goes(&elsewhere.step()), "another target doesn't hold it");

    // Of a pod without a place nobody knows where Admiralty granted it.
    let mut waiting = left(None).with(chaperon("b", "ub").reserved(1));
    assert_eq!(deletes(&waiting.step()), ["ub"]);
    waiting.chaperons.clear();
    waiting.targets.set_reach("a", Reach::Lost, NOW);
    let plan = waiting.step();
    assert!(plan.actions.is_empty() && plan.tell.is_some(), "{plan:?}");
    waiting.targets.set_reach("a", Reach::Reachable, NOW);
    let plan = waiting.step();
    assert!(plan.actions.is_empty(), "its list isn't taken in yet");
    waiting.now = plan.wake_at.unwrap();
    assert!(goes(&waiting.step()));
}

#[test]
fn a_placed_pod_without_record_is_kept_by_our_finalizer_alone() {
    let mut scene = Scene::ending(None).with(chaperon("a", "ua").plainly_granted().bound());
    if let Some(proxy) = &mut scene.proxy {
        proxy.node_name = Some("a".into());
    }
    let plan = scene.step();
    assert!(matches!(
        plan.actions.as_slice(),
        [Action::DeleteChaperon { uid, plain: true, .. }] if uid == "ua"
    ));
    scene.chaperons.clear();
    assert!(matches!(
        scene.step().actions.as_slice(),
        [Action::RemoveFinalizer { .. }]
    ));
}

#[test]
fn a_pod_that_admiralty_placed_is_replaced_when_its_delegate_is_evicted() {
    let delegate = || chaperon("a", "ua").plainly_granted().of_plain_source();
    let mut scene = Scene::placed("a/ua/-").with(delegate().bound().missing());
    let plan = scene.step();
    assert!(matches!(
        plan.actions.as_slice(),
        [Action::DeleteChaperon { uid, plain: true, .. }] if uid == "ua"
    ));
    scene.finish(&plan, &Outcome::Gone);
    scene.chaperons.clear();
    let plan = scene.step();
    assert!(matches!(
        plan.actions.as_slice(),
        [Action::ConfirmGone { uid, plain: true, .. }] if uid == "ua"
    ));
    scene.finish(&plan, &Outcome::Gone);
    assert_eq!(scene.step().actions, [Action::DeleteProxy]);
}

#[test]
fn a_placed_pod_tolerates_the_taints_of_a_lost_target_for_ever() {
    let toleration = json!({
        "key": keys::UNREACHABLE_TAINT, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
    });
    let pod = json!({
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "p", "resourceVersion": "1",
            "annotations": { keys::GRANTED_TO: "a/ua/-" },
        },
        "spec": { "containers": [], "nodeName": "a", "tolerations": [toleration] },
    });
    let mut book = Book::new(ClusterUid("source".into()));
    book.set_serves("a", Serves::Everybody);
    book.set_reach("a", Reach::Lost, NOW);
    book.proxy_applied(Arc::new(serde_json::from_value(pod).unwrap()));
    let plan = book.plan("p", NOW).unwrap();
    assert!(matches!(plan.actions.as_slice(), [Action::Endure { .. }]));
}

#[test]
fn a_target_where_a_pod_is_bound_and_that_nobody_knows_is_looked_for() {
    let mut book = Book::new(ClusterUid("source".into()));
    let gone = "admiralty-shop-gone";
    let mut apply = |uid: &str, node: &str| {
        let pod = json!({
            "metadata": { "name": uid, "namespace": "shop", "uid": uid, "resourceVersion": "1" },
            "spec": { "containers": [], "nodeName": node },
        });
        book.proxy_applied(Arc::new(serde_json::from_value(pod).unwrap()));
        book.unknown_target(uid).map(str::to_owned)
    };
    assert_eq!(apply("p", gone).as_deref(), Some(gone));
    assert_eq!(
        apply("q", "worker-1"),
        None,
        "no virtual node has such a name"
    );
    book.set_reach(gone, Reach::NoSuchTarget, NOW);
    assert_eq!(book.unknown_target("p"), None);
    assert_eq!(book.plan("p", NOW).unwrap().actions, [Action::DeleteProxy]);
}

#[test]
fn a_chaperon_that_names_no_source_is_an_orphan_of_a_pod_that_was_known() {
    let orphans = |was| {
        let mut scene = Scene::new();
        scene.proxy = None;
        scene.was = was;
        let mut scene = scene.with(chaperon("a", "ua").of_plain_source());
        scene.step().actions.len()
    };
    assert_eq!(orphans(Some(("shop", "web"))), 1);
    assert_eq!(orphans(Some(("shop", "api"))), 0);
    assert_eq!(orphans(Some(("bank", "web"))), 0);
    assert_eq!(orphans(None), 0, "it may be any source's");

    let mut book = Book::new(ClusterUid("source".into()));
    book.proxies_listed();
    book.set_serves("a", Serves::Everybody);
    book.set_reach("a", Reach::Reachable, NOW);
    let pod = json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "p", "resourceVersion": "1" },
        "spec": { "containers": [] },
    });
    book.proxy_applied(Arc::new(serde_json::from_value(pod).unwrap()));
    let mut object = stored_chaperon(&proxy(), "ua", "1");
    let labels = object["metadata"]["labels"].as_object_mut().unwrap();
    labels.remove(keys::PARENT_CLUSTER_UID);
    let object = Arc::new(serde_json::from_value(object).unwrap());
    let _ = book.chaperon("a", ChaperonNews::Applied(object));
    book.proxy_gone("p");
    let plan = book.plan("p", NOW).unwrap();
    assert!(matches!(
        plan.actions.as_slice(),
        [Action::DeleteIfOrphan { uid, .. }] if uid == "ua"
    ));
}

#[test]
fn a_forgotten_target_keeps_no_pod_that_admiralty_made_whatever_it_shows() {
    let terms = crate::targets::Terms {
        forgotten: true,
        ..Default::default()
    };
    let lets_go = |plan: &Plan| {
        let lets_go = |action: &Action| matches!(action, Action::RemoveFinalizer { .. });
        plan.actions.iter().any(lets_go)
    };
    for node in [Some("a"), None] {
        let shown = chaperon("a", "ua").plainly_granted().bound();
        let mut scene = Scene::ending(None).with(shown);
        if let Some(proxy) = &mut scene.proxy {
            proxy.node_name = node.map(str::to_owned);
            proxy.finalizers = vec!["multicluster.admiralty.io/shop-a".to_owned()];
            proxy.recorded = false;
        }
        let mut held = 0;
        for _ in 0..10 {
            held += u32::from(!lets_go(&scene.step()));
            scene.now += Duration::from_mins(1);
        }
        assert_eq!(held, 10, "{node:?}: nobody's word");
        scene.targets.set_terms("a", terms);
        // It was gone for a moment.
        scene.targets.set_reach("a", Reach::Unknown, scene.now);
        scene.targets.set_reach("a", Reach::Reachable, scene.now);
        assert!(lets_go(&scene.step()), "{node:?}");
    }
}
