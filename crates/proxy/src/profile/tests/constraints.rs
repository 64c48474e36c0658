//! Which virtual nodes a proxy's constraints leave it, by where other proxies are.

use pilotage_sched::plugins::MOST_RULES;

use super::*;

/// Everything that one source may have: two regions of a namespace's Targets and of everybody's, another namespace's
/// Targets that claim to be elsewhere and right here, and the source's own machines.
fn nodes() -> Vec<Node> {
    vec![
        virtual_node("eu", Some("shop"), json!({ REGION: "eu" })),
        virtual_node("us", Some("shop"), json!({ REGION: "us" })),
        virtual_node("all-eu", None, json!({ REGION: "eu" })),
        virtual_node("theirs", Some("bank"), json!({ REGION: "ap" })),
        virtual_node("theirs-eu", Some("bank"), json!({ REGION: "eu" })),
        real_node(
            "own",
            &json!({ REGION: "here", "kubernetes.io/hostname": "own" }),
        ),
    ]
}

/// Of these pods that are on nodes.
fn cluster(there: &[Pod]) -> Scheduler {
    let mut scheduler = with_nodes(&Arc::default(), nodes());
    for pod in there {
        scheduler
            .pod_applied(Arc::new(pod.clone()), Moment::ZERO)
            .unwrap();
    }
    scheduler
}

/// Where a pod may go, best first.
fn may_go(scheduler: &mut Scheduler, pod: &Pod) -> Vec<String> {
    let info = PodInfo::parse(Arc::new(pod.clone())).unwrap();
    let found = scheduler.evaluate(RANKING, &info, Arc::default()).unwrap();
    let feasible = found.feasible.iter();
    feasible.map(|node| node.node.to_string()).collect()
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

fn web(key: &str, node: &str) -> Pod {
    proxy(key, &json!({ "app": "web" }), &json!({}), Some(node))
}

fn spread(change: impl FnOnce(&mut Value)) -> Pod {
    let mut constraint = over_regions("DoNotSchedule");
    change(&mut constraint);
    let constraints = json!({ "topologySpreadConstraints": [constraint] });
    proxy("shop/new", &json!({ "app": "web" }), &constraints, None)
}

fn term(app: &str, key: &str, everywhere: bool) -> Value {
    let mut term = json!({
        "labelSelector": { "matchLabels": { "app": app } },
        "topologyKey": key,
    });
    if everywhere {
        term["namespaceSelector"] = json!({});
    }
    term
}

fn required(kind: &str, term: &Value) -> Value {
    json!({ "affinity": { kind: { "requiredDuringSchedulingIgnoredDuringExecution": [term] } } })
}

#[test]
fn places_are_the_regions_of_the_pods_own_virtual_nodes_alone() {
    let policies = [
        ("Honor", "Honor"),
        ("Honor", "Ignore"),
        ("Ignore", "Honor"),
        ("Ignore", "Ignore"),
    ];
    for (affinity, taints) in policies {
        let pod = spread(|constraint| {
            constraint["nodeAffinityPolicy"] = affinity.into();
            constraint["nodeTaintsPolicy"] = taints.into();
        });
        let all = ["all-eu", "eu", "us"];
        assert_eq!(sorted(may_go(&mut cluster(&[]), &pod)), all);
        let one = [web("shop/a", "eu")];
        assert_eq!(
            may_go(&mut cluster(&one), &pod),
            ["us"],
            "{affinity} {taints}"
        );
        // Neither "ap", where nobody of this namespace may go, nor "here" keep the pod waiting for their share.
        let both = [web("shop/a", "all-eu"), web("shop/b", "us")];
        assert_eq!(
            sorted(may_go(&mut cluster(&both), &pod)),
            all,
            "{affinity} {taints}"
        );
    }
}

#[test]
fn a_region_that_takes_nobody_counts_unless_the_constraint_honors_taints() {
    let one = [web("shop/a", "eu")];
    let mut cluster = cluster(&one);
    let mut lost = virtual_node("us", Some("shop"), json!({ REGION: "us" }));
    let taints = lost.spec.as_mut().unwrap().taints.as_mut().unwrap();
    let taint = json!({ "key": keys::UNREACHABLE_TAINT, "effect": "NoSchedule" });
    taints.push(serde_json::from_value(taint).unwrap());
    cluster.node_applied(&lost, Moment::ZERO).unwrap();
    assert_eq!(may_go(&mut cluster, &spread(|_| {})), [""; 0]);
    let honors = spread(|constraint| constraint["nodeTaintsPolicy"] = "Honor".into());
    assert_eq!(sorted(may_go(&mut cluster, &honors)), ["all-eu", "eu"]);
}

#[test]
fn what_should_be_spread_goes_where_fewer_are() {
    let there = [
        web("shop/a", "eu"),
        web("shop/b", "us"),
        web("shop/c", "all-eu"),
    ];
    let soft = spread(|constraint| constraint["whenUnsatisfiable"] = "ScheduleAnyway".into());
    assert_eq!(may_go(&mut cluster(&there), &soft)[0], "us");
}

#[test]
fn clients_go_to_their_database_and_wait_for_one() {
    let beside = |key: &str| required("podAffinity", &term("db", key, false));
    let client = |key: &str| proxy("shop/new", &json!({}), &beside(key), None);
    let db = |key: &str, node: &str| proxy(key, &json!({ "app": "db" }), &json!({}), Some(node));
    let (host, none) = (client("kubernetes.io/hostname"), [""; 0]);
    assert_eq!(may_go(&mut cluster(&[]), &host), none);
    let there = [db("shop/db", "eu"), db("bank/db", "all-eu")];
    assert_eq!(may_go(&mut cluster(&there), &host), ["eu"]);
    let region = sorted(may_go(&mut cluster(&there), &client(REGION)));
    assert_eq!(region, ["all-eu", "eu"]);
    // The first of its kind has to go somewhere.
    let together = required("podAffinity", &term("db", "kubernetes.io/hostname", false));
    let first = proxy("shop/new", &json!({ "app": "db" }), &together, None);
    assert_eq!(may_go(&mut cluster(&[]), &first).len(), 3);
    assert_eq!(may_go(&mut cluster(&there), &first), ["eu"]);
}

#[test]
fn pods_keep_away_from_each_others_clusters() {
    let apart = required(
        "podAntiAffinity",
        &term("web", "kubernetes.io/hostname", false),
    );
    let new = proxy("shop/new", &json!({ "app": "web" }), &apart, None);
    let there = [web("shop/a", "eu"), web("shop/b", "us")];
    assert_eq!(may_go(&mut cluster(&there), &new), ["all-eu"]);
    let there = [
        web("shop/a", "eu"),
        web("shop/b", "us"),
        web("shop/c", "all-eu"),
    ];
    assert_eq!(may_go(&mut cluster(&there), &new), [""; 0]);
    // Of another namespace, nobody is meant.
    let there = [web("bank/c", "all-eu")];
    assert_eq!(may_go(&mut cluster(&there), &new).len(), 3);
}

#[test]
fn a_tenants_labels_steer_no_pod_of_others() {
    // What a namespace's Target says of itself is that namespace's own affair, whatever its pods demand of everybody.
    let alone = required("podAntiAffinity", &term("web", REGION, true));
    let hermit = |node: &str| proxy("bank/h", &json!({ "app": "h" }), &alone, Some(node));
    let new = proxy("shop/new", &json!({ "app": "web" }), &json!({}), None);
    assert_eq!(may_go(&mut cluster(&[hermit("theirs-eu")]), &new).len(), 3);
    // Where both may go it counts, as on one node.
    assert_eq!(may_go(&mut cluster(&[hermit("all-eu")]), &new), ["us"]);

    let near = |everywhere| required("podAffinity", &term("web", REGION, everywhere));
    let follower = proxy("shop/new", &json!({}), &near(true), None);
    assert_eq!(
        may_go(&mut cluster(&[web("bank/a", "theirs-eu")]), &follower),
        [""; 0]
    );
    let shared = [web("bank/a", "all-eu")];
    assert_eq!(
        sorted(may_go(&mut cluster(&shared), &follower)),
        ["all-eu", "eu"]
    );
    let away = required("podAntiAffinity", &term("web", REGION, true));
    let shy = proxy("shop/new", &json!({}), &away, None);
    assert_eq!(
        may_go(&mut cluster(&[web("bank/a", "theirs-eu")]), &shy).len(),
        3
    );
    // Scores, too.
    let preferred = json!([{ "weight": 100, "podAffinityTerm": term("web", REGION, true) }]);
    let wish = json!({ "affinity": { "podAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
    } } });
    let wishes = proxy("shop/new", &json!({}), &wish, None);
    let scores = |there: &[Pod]| {
        let info = PodInfo::parse(Arc::new(wishes.clone())).unwrap();
        let found = cluster(there).evaluate(RANKING, &info, Arc::default());
        let found = found.unwrap().feasible;
        let totals: std::collections::BTreeSet<_> = found.iter().map(|node| node.total).collect();
        totals.len()
    };
    assert_eq!(scores(&[web("bank/a", "theirs-eu")]), 1);
    assert_eq!(
        scores(&[web("bank/a", "all-eu")]),
        2,
        "one region is better"
    );
}

#[test]
fn who_is_expected_counts_once_and_only_for_whom_it_matters() {
    let mut cluster = cluster(&[web("shop/a", "eu")]);
    let parse = |pod: Pod| Arc::new(PodInfo::parse(Arc::new(pod)).unwrap());
    let spread = parse(spread(|_| {}));
    let coming = |key: &str| parse(proxy(key, &json!({ "app": "web" }), &json!({}), None));
    let (b, itself, known) = (coming("shop/b"), coming("shop/new"), coming("shop/a"));
    let mut expecting = |pod: &PodInfo, expected: &[(&str, &Arc<PodInfo>)]| {
        let found = cluster.evaluate_expecting(RANKING, pod, expected.iter().copied());
        let feasible = found.unwrap()?.feasible;
        Some(sorted(
            feasible.iter().map(|node| node.node.to_string()).collect(),
        ))
    };
    let all = ["all-eu", "eu", "us"].map(str::to_owned);
    assert_eq!(expecting(&spread, &[("us", &b)]), Some(all.into()));
    let nobody: [&[(&str, &Arc<PodInfo>)]; 4] =
        [&[], &[("us", &itself)], &[("us", &known)], &[("gone", &b)]];
    for expected in nobody {
        assert_eq!(expecting(&spread, expected), None, "{expected:?}");
    }
    let other = parse(proxy("shop/new", &json!({}), &json!({}), None));
    assert_eq!(expecting(&other, &[("us", &b)]), None);
    // It has left no trace.
    assert_eq!(expecting(&spread, &[]), None);
    let found = cluster.evaluate(RANKING, &spread, Arc::default()).unwrap();
    assert_eq!(found.feasible.len(), 1);
}

#[test]
fn a_proxy_that_waits_for_its_share_is_woken_when_another_one_goes() {
    let board = Arc::<Board>::default();
    let mut scheduler = with_nodes(&board, nodes());
    let pods = [web("shop/a", "eu"), web("shop/b", "eu")];
    for pod in pods {
        scheduler.pod_applied(Arc::new(pod), Moment::ZERO).unwrap();
    }
    let uid = pilotage_sched::PodUid::from("shop/new");
    let answers = [("eu".to_owned(), crate::Answer::Reserved)];
    let posting = crate::board::Posting {
        gate: crate::Gate::Open,
        answers: Arc::new(answers.into()),
        classes: Arc::default(),
    };
    board.post(&uid, posting);
    let pod = Arc::new(spread(|_| {}));
    scheduler.pod_applied(pod, Moment::ZERO).unwrap();
    let mut ties = pilotage_sched::FirstOfEquals;
    let attempt = scheduler.schedule_next(Moment::ZERO, &mut ties);
    let Some(pilotage_sched::Attempt::Failed(failure)) = attempt else {
        panic!("{attempt:?}");
    };
    let condition = failure.status().unwrap().condition.unwrap();
    let words = "didn't match pod topology spread constraints";
    assert!(condition.message.contains(words), "{}", condition.message);
    let waits = |scheduler: &Scheduler| {
        let mut waiting = scheduler.unschedulable_pods();
        waiting.any(|queued| queued.pod.uid == uid)
    };
    assert!(waits(&scheduler));
    scheduler.pod_deleted(&"bank/nobody".into(), Moment::ZERO);
    assert!(waits(&scheduler));
    scheduler.pod_deleted(&"shop/a".into(), Moment::ZERO);
    assert!(!waits(&scheduler), "it is tried again");
}

#[test]
fn a_proxy_with_too_many_rules_goes_nowhere() {
    let mut scheduler = cluster(&[]);
    let wish = |n: usize| {
        let expression = json!({ "key": format!("k{n}"), "operator": "Exists" });
        json!({ "weight": 1, "preference": { "matchExpressions": [expression] } })
    };
    let mut places = |rules: usize| {
        let wishes: Vec<_> = (0..rules).map(wish).collect();
        let nodes = json!({ "preferredDuringSchedulingIgnoredDuringExecution": wishes });
        let constraints = json!({ "affinity": { "nodeAffinity": nodes } });
        let pod = proxy("shop/new", &json!({}), &constraints, None);
        may_go(&mut scheduler, &pod).len()
    };
    assert_eq!(places(MOST_RULES), 3);
    assert_eq!(places(MOST_RULES + 1), 0);
    // Nor are those looked at that are expected somewhere.
    let parse = |pod: Pod| Arc::new(PodInfo::parse(Arc::new(pod)).unwrap());
    let other = parse(proxy("shop/b", &json!({ "app": "web" }), &json!({}), None));
    let mut heeds_others = |rules: usize| {
        let constraints = vec![over_regions("ScheduleAnyway"); rules];
        let constraints = json!({ "topologySpreadConstraints": constraints });
        let pod = parse(proxy("shop/new", &json!({}), &constraints, None));
        let found = scheduler.evaluate_expecting(RANKING, &pod, [("us", &other)]);
        found.unwrap().is_some()
    };
    assert!(heeds_others(MOST_RULES));
    assert!(!heeds_others(MOST_RULES + 1));
}
