//! Pods go to the targets that the pipeline puts first: by distance, by a table that changes live, by weights, past a
//! full one. The proxy scheduler runs on the example of docs/placement.md.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
    runtime::watcher,
};
use pilotage_api::{Target, keys};
use pilotage_e2e::fleet::Spec;
use pilotage_testkit::{build, list_until, wait_count, wait_for, workspace_root};
use serde_json::{Value, json};

use super::user::User;
use super::{Fleet, LIMIT, Lasting, Shop, is_running, is_told, node_of, scheduled};

/// Targets, where they are, and what they cost.
const PLACES: [(&str, &str, &str); 3] = [
    ("dublin", "eu-west-1", "3"),
    ("frankfurt", "eu-central-1", "2"),
    ("virginia", "us-east-1", "1"),
];

/// Where the processes of Pilotage run, and so where tables of regions are read.
const HOME: &str = "pilotage";

async fn fleet() -> Arc<Fleet> {
    static FLEET: Lasting = Lasting::new();
    let spec = || {
        let example = workspace_root().join("docs/placement/proxy-scheduler.yaml");
        let mut spec = Spec::new()
            .part_flag(
                "proxy-scheduler",
                &format!("--config={}", example.display()),
            )
            // All tests that share it are told whole stories.
            .part_flag("proxy-scheduler", "--stage-events-per-second=1000")
            // A busy machine is no reason to prefer the quicker target.
            .part_flag("proxy-scheduler", "--silence=30s")
            .part_flag("proxy-scheduler", "--settle=30s");
        for (name, region, _) in PLACES {
            let nodes = build::nodes(name, 1, |node| {
                node.cpu("4")
                    .memory("16Gi")
                    .pods(110)
                    .label("topology.kubernetes.io/region", region)
            });
            spec = spec.target(name, nodes);
        }
        spec
    };
    FLEET.fleet(spec).await
}

/// A namespace whose targets say where they are and what they cost.
async fn open(prefix: &str) -> Shop {
    let shop = Shop::connected(fleet().await, prefix).await;
    let nodes: Api<Node> = Api::all(shop.fleet.source.plane.admin());
    for (name, region, cost) in PLACES {
        annotate(&shop, name, json!({ "example.com/cost": cost })).await;
        let says_where = |node: &Node| is_told(node, "topology.kubernetes.io/region", region);
        wait_for(&nodes, &shop.virtual_node(name), says_where, LIMIT)
            .await
            .unwrap();
    }
    shop
}

async fn annotate(shop: &Shop, target: &str, annotations: Value) {
    let targets: Api<Target> = Api::namespaced(shop.fleet.source.plane.admin(), &shop.name);
    let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    targets
        .patch(target, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// An elected pod that belongs to a region and has a tier.
fn pod(name: &str, region: Option<&str>, tier: &str, cpu: &str) -> Pod {
    let pod = build::pod(name)
        .elect()
        .request("cpu", cpu)
        .label("tier", tier);
    match region {
        Some(region) => pod.annotation(keys::REGION, region).build(),
        None => pod.build(),
    }
}

/// Where a pod runs.
async fn lands<'a>(shop: &'a Shop, pod: &Pod) -> &'a str {
    shop.create(pod).await;
    let proxy = shop.running(pod.metadata.name.as_deref().unwrap()).await;
    shop.delegate(&proxy).await.0
}

/// Waits for an event about an object, and returns its note.
async fn event(shop: &Shop, namespace: &str, about: &str, reason: &str, words: &str) -> Event {
    let events: Api<Event> = Api::namespaced(shop.fleet.source.plane.admin(), namespace);
    let fits = |event: &Event| {
        let regarding = event.regarding.as_ref();
        let name = regarding.and_then(|object| object.name.as_deref());
        let note = event.note.as_deref().unwrap_or_default();
        name == Some(about) && event.reason.as_deref() == Some(reason) && note.contains(words)
    };
    let all = watcher::Config::default();
    let any = |seen: &std::collections::BTreeMap<_, Event>| seen.values().any(fits);
    match list_until(&events, all, any, LIMIT).await {
        Ok(events) => events.into_iter().find(|event| fits(event)).unwrap(),
        Err(error) => panic!("{error}\nlogs: {:#?}", shop.fleet.logs()),
    }
}

/// Events of a pod's stages up to its binding, by reasons and notes, the oldest first.
async fn way(shop: &Shop, name: &str) -> Vec<(String, String)> {
    const STAGES: [&str; 5] = ["Asked", "Reserved", "Refused", "Granted", "Scheduled"];
    let stage = |event: &Event| {
        let about = event.regarding.as_ref().and_then(|it| it.name.as_deref());
        let reason = event.reason.clone()?;
        let is_stage = about == Some(name) && STAGES.contains(&&*reason);
        is_stage.then(|| (reason, event.note.clone().unwrap_or_default()))
    };
    let events: Api<Event> = shop.of("source");
    let all = watcher::Config::default();
    let whole = |seen: &std::collections::BTreeMap<_, Event>| {
        let told: Vec<_> = seen.values().filter_map(stage).collect();
        STAGES
            .iter()
            .all(|want| told.iter().any(|(reason, _)| reason == want))
    };
    let mut seen = shop.seen(list_until(&events, all, whole, LIMIT).await);
    seen.sort_by_key(|event| event.event_time.as_ref().map(|time| time.0));
    seen.iter().filter_map(stage).collect()
}

/// Writes the table of regions, with a row that can't be read; returns when the scheduler has told so, and thus read
/// it.
async fn write_table(shop: &Shop, bad: &str, rows: Value) {
    let tables: Api<ConfigMap> = Api::namespaced(shop.fleet.source.plane.admin(), HOME);
    let mut data = rows;
    data[bad] = "nowhere: near".into();
    let table = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "latencies",
            "labels": { keys::REGION_TABLE_LABEL: keys::REGION_TABLE_LABEL_VALUE },
        },
        "data": data,
    });
    let params = PatchParams::apply("operator").force();
    tables
        .patch("latencies", &params, &Patch::Apply(table))
        .await
        .unwrap();
    let told = event(shop, HOME, "latencies", "MalformedRegionTable", bad).await;
    assert_eq!(told.type_.as_deref(), Some("Warning"));
    let note = told.note.unwrap();
    assert!(note.contains("by their names instead"), "{note}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_go_to_the_nearest_target_by_weights_and_by_a_table_that_changes_live() {
    let shop = open("nearest").await;
    event(
        &shop,
        HOME,
        "latencies",
        "MissingRegionTable",
        "no ConfigMap",
    )
    .await;
    // By name: eu-central-1 is 2 away from eu-west-1, us-east-1 is 6 away.
    for (name, region, nearest) in [
        ("eu", Some("eu-west-1"), "dublin"),
        ("de", Some("eu-central-1"), "frankfurt"),
        ("us", Some("us-east-1"), "virginia"),
        // The source is in eu-west-1, as the configuration says.
        ("anywhere", None, "dublin"),
    ] {
        assert_eq!(
            lands(&shop, &pod(name, region, "any", "100m")).await,
            nearest,
            "{name}"
        );
    }
    // What its own selector wants of real nodes says where it belongs, too. Dublin could only refuse it, but isn't even
    // asked first.
    let selects = build::pod("by-selector")
        .elect()
        .request("cpu", "100m")
        .label("tier", "any")
        .node_selector("topology.kubernetes.io/region", "us-east-1")
        .build();
    assert_eq!(lands(&shop, &selects).await, "virginia");
    let dublin = shop.virtual_node("dublin");
    let farther = format!("{dublin} is farther: 6 by name against 0 by name");
    event(&shop, &shop.name, "by-selector", "PassedOver", &farther).await;

    let told = event(&shop, &shop.name, "eu", "PassedOver", "")
        .await
        .note
        .unwrap();
    let (far, farther) = (
        shop.virtual_node("frankfurt"),
        shop.virtual_node("virginia"),
    );
    assert_eq!(
        told,
        format!(
            "{far} is farther: 2 by name against 0 by name; {farther} is farther: 6 by name against 0 by name"
        )
    );

    // Cost against distance, 3:1 and 1:3.
    assert_eq!(
        lands(&shop, &pod("cheap", None, "batch", "100m")).await,
        "virginia"
    );
    assert_eq!(
        lands(&shop, &pod("near", None, "web", "100m")).await,
        "dublin"
    );
    let told = event(&shop, &shop.name, "cheap", "PassedOver", "")
        .await
        .note
        .unwrap();
    assert!(
        told.contains(&format!("{dublin} scored 100 against 300")),
        "{told}"
    );

    let row = "eu-central-1: 50\nus-east-1: 5\neu-west-1: 70";
    write_table(&shop, "bad-one", json!({ "eu-west-1": row })).await;
    assert_eq!(
        lands(&shop, &pod("by-table", None, "any", "100m")).await,
        "virginia"
    );
    let row = "eu-central-1: 4\nus-east-1: 5\neu-west-1: 70";
    write_table(&shop, "bad-two", json!({ "eu-west-1": row })).await;
    assert_eq!(
        lands(&shop, &pod("by-change", None, "any", "100m")).await,
        "frankfurt"
    );
    let told = event(&shop, &shop.name, "by-change", "PassedOver", "")
        .await
        .note
        .unwrap();
    assert!(
        told.contains(&format!(
            "{dublin} is farther: 70 by table against 4 by table"
        )),
        "{told}"
    );
    // The row itself can't be read: by name again.
    write_table(&shop, "eu-west-1", json!({})).await;
    assert_eq!(
        lands(&shop, &pod("by-name", None, "any", "100m")).await,
        "dublin"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_nearest_target_gives_way_to_the_next_one_and_says_why() {
    let shop = open("full").await;
    // A target of this test alone would need a fleet of its own: in us-east-1 nobody else needs much room.
    for (name, expected) in [("first", "virginia"), ("second", "frankfurt")] {
        let big = pod(name, Some("us-central-1"), "any", "3");
        // By name us-east-1 is 2 away, eu-central-1 4, eu-west-1 6.
        assert_eq!(lands(&shop, &big).await, expected);
    }
    let virginia = shop.virtual_node("virginia");
    let full = format!("{virginia} refused [1 Insufficient cpu");
    event(&shop, &shop.name, "second", "PassedOver", &full).await;
    // Each stage is told by itself, in order.
    let way = way(&shop, "second").await;
    let told = |reason: &str, target: &str| {
        let node = shop.virtual_node(target);
        let is_it = |(of, note): &(String, String)| of == reason && note.contains(&node);
        let at = way.iter().position(is_it);
        at.unwrap_or_else(|| panic!("{reason} of {target}: {way:#?}"))
    };
    let (asked, refused) = (told("Asked", "virginia"), told("Refused", "virginia"));
    assert!(asked < refused, "{way:#?}");
    assert!(way[refused].1.contains(&full), "{way:#?}");
    let others = ["Asked", "Reserved", "Granted", "Scheduled"].map(|it| told(it, "frankfurt"));
    assert!(others.is_sorted() && refused < others[2], "{way:#?}");
    assert_eq!(others[3], way.len() - 1, "{way:#?}");
    // Who asks later is told the same.
    let user = User::new(&shop.fleet.source.plane, &shop.target("virginia").plane);
    let words = ["explain", "pod", "second", "-n", &shop.name];
    let (code, out, err) = user.run(&words).await;
    assert_eq!(code, 0, "{err}");
    for (target, answer) in [
        ("virginia ", "refused [1 Insufficient cpu"),
        ("frankfurt ", "runs it"),
    ] {
        let says = |line: &str| line.starts_with(target) && line.contains(answer);
        assert!(out.lines().any(says), "{target}: {out}");
    }
    for stage in [
        "Asked: ",
        "Refused: ",
        "Reserved: ",
        "Granted: ",
        "bound after ",
    ] {
        assert!(out.contains(stage), "{stage}: {out}");
    }
    assert!(!out.contains(" asked after "), "{out}");
    // Others find room again.
    for name in ["first", "second"] {
        shop.delete(name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_region_nobody_has_is_told_so_and_runs_when_a_target_says_it_is_there() {
    let shop = open("same").await;
    shop.create(&pod("web", Some("ap-south-1"), "local", "100m"))
        .await;
    let reasons = PLACES
        .map(|(name, region, _)| format!("{} is in region \"{region}\"", shop.virtual_node(name)));
    let told = |pod: &Pod| {
        scheduled(pod).is_some_and(|(status, reason, message)| {
            let all = reasons.iter().all(|words| message.contains(words));
            (status, reason) == ("False", "Unschedulable") && all
        })
    };
    if let Err(error) = wait_for(&shop.pods(), "web", told, LIMIT).await {
        panic!("{error}\nlogs: {:#?}", shop.fleet.logs());
    }
    event(&shop, &shop.name, "web", "FailedScheduling", &reasons[1]).await;
    annotate(&shop, "frankfurt", json!({ keys::REGION: "ap-south-1" })).await;
    let proxy = shop.running("web").await;
    assert_eq!(shop.delegate(&proxy).await.0, "frankfurt");
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_come_together_are_spread_over_regions() {
    let shop = open("spread").await;
    let deployment = build::deployment("web").replicas(6).pod(|pod| {
        let pod = pod.elect().request("cpu", "100m");
        pod.label("tier", "replicas")
    });
    let deployments: Api<Deployment> = Api::namespaced(shop.fleet.source.plane.admin(), &shop.name);
    deployments
        .create(&PostParams::default(), &deployment.build())
        .await
        .unwrap();
    let all = watcher::Config::default();
    let proxies = match wait_count(&shop.pods(), all, 6, is_running, LIMIT).await {
        Ok(proxies) => proxies,
        Err(error) => panic!("{error}\nlogs: {:#?}", shop.fleet.logs()),
    };
    for (name, ..) in PLACES {
        let node = shop.virtual_node(name);
        let here = proxies.iter().filter(|pod| node_of(pod) == Some(&node));
        let here = here.count();
        // Two, unless the machine is so busy that a hold runs out: another pod may take its place meanwhile.
        assert!((1..=3).contains(&here), "{here} in {name}");
    }
}
