//! What pods use is asked for in the source, as metrics-server and people ask kubelets for it, and comes from the
//! targets.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

use http::Request;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use pilotage_api::{Right, Source, Target, keys};
use pilotage_e2e::fleet::{Fleet, SOURCE_ACCOUNT, Spec};
use pilotage_testkit::plane::kwok::Kubelet;
use pilotage_testkit::plane::metrics_server;
use pilotage_testkit::{Access, ControlPlane, Part, Signal, build, wait_for};
use serde_json::{Value, json};

use super::kubelet::{ask, code, kubelet_url, until};
use super::{LIMIT, Shop, started};

const TARGETS: [&str; 2] = ["east", "west"];
/// By which pods choose.
const POOL: &str = "pool";

async fn fleet() -> Arc<Fleet> {
    let mut spec = Spec::new()
        .kubelet_at(own_address().unwrap_or(Ipv4Addr::LOCALHOST))
        .rights(&[Right::Logs, Right::Metrics]);
    for name in TARGETS {
        let nodes = build::nodes(name, 2, |node| {
            node.cpu("4").memory("16Gi").pods(110).label(POOL, name)
        });
        let plane = ControlPlane::builder(name)
            .controller_manager()
            .kwok(nodes)
            .kubelet(Kubelet {
                lines: vec![format!("in {name}")],
                // Nobody forwards ports here.
                forward: SocketAddr::from((Ipv4Addr::LOCALHOST, 9)),
            })
            .crd(metrics_server::stand_in());
        spec = spec.target_plane(plane);
    }
    started(spec).await
}

/// Says in a target what a pod there uses.
pub(super) async fn tell(
    shop: &Shop,
    target: &str,
    pod: &Pod,
    at: &str,
    (cpu, memory): (&str, &str),
) {
    let container = &pod.spec.as_ref().unwrap().containers[0].name;
    let told = json!({
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "PodMetrics",
        "metadata": {
            "namespace": shop.name, "name": pod.name_any(), "labels": pod.metadata.labels,
        },
        "timestamp": at,
        "window": "15s",
        "containers": [
            { "name": container, "usage": { "cpu": cpu, "memory": memory } },
            { "name": "foreign", "usage": { "cpu": "1", "memory": "1Gi" } },
        ],
    });
    let plane = &shop.target(target).plane;
    plane.apply_yaml(&told.to_string()).await.unwrap();
}

/// The value and the time of a series with these words in it.
fn series<'a>(text: &'a str, words: &[&str]) -> Option<(&'a str, &'a str)> {
    let fits = |line: &&str| !line.starts_with('#') && words.iter().all(|word| line.contains(word));
    let line = text.lines().find(fits)?;
    let (_, numbers) = line.rsplit_once("} ").or_else(|| line.split_once(' '))?;
    numbers.split_once(' ').or(Some((numbers, "")))
}

/// Core-seconds of a pod's container, and their time in milliseconds.
fn cpu(text: &str, pod: &str) -> Option<(f64, f64)> {
    let pod = format!("pod=\"{pod}\"");
    let (value, at) = series(text, &["container_cpu_usage_seconds_total{", &pod])?;
    Some((value.parse().unwrap(), at.parse().unwrap()))
}

/// Bytes of a pod's container.
fn memory<'a>(text: &'a str, pod: &str) -> Option<&'a str> {
    let pod = format!("pod=\"{pod}\"");
    series(text, &["container_memory_working_set_bytes{", &pod]).map(|it| it.0)
}

/// To be tried again.
pub(super) fn not_yet(text: String) -> kube::Error {
    kube::Error::Service(text.into())
}

/// An address of this machine to which an API server forwards, which it doesn't to those of the loopback.
fn own_address() -> Option<Ipv4Addr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // Nothing is sent. It is an address for documents, which leads out of any machine that has a way out.
    socket.connect((Ipv4Addr::new(198, 51, 100, 1), 9)).ok()?;
    match socket.local_addr().ok()?.ip() {
        IpAddr::V4(address) if !address.is_loopback() && !address.is_link_local() => Some(address),
        _ => None,
    }
}

/// What the kubelet of a virtual node says to who asks for it by the proxy of that node. On a machine with no address
/// but those of the loopback this asks with the words of an API server.
async fn by_proxy(shop: &Shop, who: &Access, node: &str, path: &str) -> kube::Result<String> {
    let asked = format!("/api/v1/nodes/{node}/proxy/{path}");
    if own_address().is_some() {
        let client = who.client().unwrap();
        let request = Request::get(asked).body(Vec::new()).unwrap();
        return client.request_text(request).await;
    }
    let (server, url) = (
        shop.fleet.source.plane.admin_access(),
        kubelet_url(shop).await,
    );
    let client = server.via(&url).client().unwrap();
    let request = Request::get(format!("/{path}")).header("X-Forwarded-Uri", asked);
    client.request_text(request.body(Vec::new()).unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_delegates_use_is_told_in_the_source_by_the_node_that_they_are_on() {
    let shop = Shop::connected(fleet().await, "usage").await;
    let (source, mut delegates) = (&shop.fleet.source.plane, Vec::new());
    for target in TARGETS {
        let pod = build::pod(&format!("in-{target}")).elect();
        let pod = pod.request("cpu", "100m").node_selector(POOL, target);
        shop.create(&pod.build()).await;
        let proxy = shop.running(&format!("in-{target}")).await;
        let (at, delegate) = shop.delegate(&proxy).await;
        assert_eq!(at, target);
        delegates.push(delegate);
    }
    let [east, west] = TARGETS.map(|target| shop.virtual_node(target));
    tell(&shop, "east", &delegates[0], "t1", ("500m", "64Mi")).await;
    tell(&shop, "west", &delegates[1], "t1", ("2", "1Gi")).await;
    // Somebody else's pod, with our delegate's labels.
    let mut foreign = delegates[0].clone();
    foreign.metadata.name = Some("foreign".into());
    tell(&shop, "east", &foreign, "t1", ("4", "4Gi")).await;

    // As metrics-server finds it.
    let nodes: Api<Node> = Api::all(source.admin());
    let node = nodes.get(&east).await.unwrap();
    let path = format!("/metrics/resource/{east}");
    assert_eq!(
        node.annotations().get(keys::RESOURCE_METRICS_PATH),
        Some(&path)
    );

    let (admin, url) = (source.admin_access(), kubelet_url(&shop).await);
    let told = until("metrics/resource", async || {
        let text = by_proxy(&shop, admin, &east, "metrics/resource").await?;
        let has = cpu(&text, "in-east").is_some();
        has.then_some(text.clone()).ok_or_else(|| not_yet(text))
    })
    .await;
    let (first, began) = cpu(&told, "in-east").unwrap();
    assert!((7.4..7.6).contains(&first), "15 s of half a core: {told}");
    assert_eq!(memory(&told, "in-east"), Some("67108864"));
    for words in [
        &["pod_memory_working_set_bytes{", "pod=\"in-east\""][..],
        &["node_memory_working_set_bytes"],
    ] {
        assert_eq!(
            series(&told, words).map(|it| it.0),
            Some("67108864"),
            "{words:?}"
        );
    }
    assert!(told.contains("\nresource_scrape_error 0\n"), "{told}");
    assert!(
        !told.contains("foreign") && !told.contains("in-west"),
        "{told}"
    );

    // The next reading counts for the time since then.
    tell(&shop, "east", &delegates[0], "t2", ("1", "64Mi")).await;
    let (second, now) = until("the next reading", async || {
        let text = by_proxy(&shop, admin, &east, "metrics/resource").await?;
        let (value, at) = cpu(&text, "in-east").unwrap_or_default();
        (at > began)
            .then_some((value, at))
            .ok_or_else(|| not_yet(text))
    })
    .await;
    let rate = (second - first) / ((now - began) / 1000.0);
    assert!((0.99..1.01).contains(&rate), "{rate}");

    let summary = by_proxy(&shop, admin, &east, "stats/summary")
        .await
        .unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["node"]["nodeName"], *east);
    assert_eq!(summary["node"]["cpu"]["usageNanoCores"], 1_000_000_000);
    let pods = summary["pods"].as_array().unwrap();
    assert_eq!(pods.len(), 1, "{summary}");
    assert_eq!(pods[0]["podRef"]["name"], "in-east");
    assert_eq!(
        pods[0]["containers"][0]["memory"]["workingSetBytes"],
        64 << 20
    );

    who_may(&shop, &url, [&east, &west]).await;
    a_node_is_no_way_to_another(&shop, [&east, &west]).await;
    hostile_and_lost(&shop, &url, &delegates).await;
    none_to_be_had(&shop, [&east, &west]).await;
}

/// Makes somebody who may get these subresources of one node.
async fn user(shop: &Shop, name: &str, node: &str, subresources: &[&str]) -> Access {
    let source = &shop.fleet.source.plane;
    let rbac = "rbac.authorization.k8s.io";
    let resources: Vec<_> = subresources
        .iter()
        .map(|it| format!("nodes/{it}"))
        .collect();
    let role = json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": { "name": name },
        "rules": [{ "apiGroups": [""], "resources": resources, "resourceNames": [node], "verbs": ["get"] }],
    });
    let binding = json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": { "name": name },
        "roleRef": { "apiGroup": rbac, "kind": "ClusterRole", "name": name },
        "subjects": [{ "apiGroup": rbac, "kind": "User", "name": name }],
    });
    for object in [role, binding] {
        source.apply_yaml(&object.to_string()).await.unwrap();
    }
    source.user_access(name, None).unwrap()
}

/// Who asks the kubelet itself needs the right on what is asked for.
async fn who_may(shop: &Shop, url: &str, [east, west]: [&str; 2]) {
    let scraper = user(shop, "scraper", east, &["metrics", "stats"]).await;
    let own = format!("/metrics/resource/{east}");
    let told = until("metrics of one node", async || {
        ask(&scraper, url, &own).await
    })
    .await;
    assert!(
        told.contains("in-east") && !told.contains("in-west"),
        "{told}"
    );
    let stats = format!("/stats/summary/{east}");
    assert!(
        ask(&scraper, url, &stats)
            .await
            .unwrap()
            .contains("in-east")
    );
    for path in [
        format!("/metrics/resource/{west}"),
        format!("/stats/summary/{west}"),
        "/metrics/resource".to_owned(),
        "/stats/summary".to_owned(),
    ] {
        assert_eq!(code(ask(&scraper, url, &path).await), 403, "{path}");
    }
    // Who may ask for all nodes has the pods of all, and no figures of a node.
    let admin = shop.fleet.source.plane.admin_access();
    let all = ask(admin, url, "/metrics/resource").await.unwrap();
    assert!(all.contains("in-east") && all.contains("in-west"), "{all}");
    assert!(!all.contains("node_"), "{all}");
}

/// Who may use the proxy of one virtual node reaches what is on that one, though all have one address.
async fn a_node_is_no_way_to_another(shop: &Shop, [east, west]: [&str; 2]) {
    let keeper = &user(shop, "keeper", east, &["proxy", "metrics", "stats"]).await;
    let pod = shop.pods().get("in-east").await.unwrap();
    let container = &pod.spec.unwrap().containers[0].name;
    let logs = |pod: &str| format!("containerLogs/{}/{pod}/{container}", shop.name);
    let own = until("logs by the proxy of a node", async || {
        by_proxy(shop, keeper, east, &logs("in-east")).await
    })
    .await;
    assert_eq!(own, "in east\n");
    for path in [
        logs("in-west"),
        logs("none"),
        format!("metrics/resource/{west}"),
        format!("stats/summary/{west}"),
    ] {
        let answer = by_proxy(shop, keeper, east, &path).await;
        assert_eq!(code(answer), 403, "{path}");
    }
    // Only an API server makes a path of these.
    for path in [
        format!("../{}", logs("in-west")),
        format!("../../x/../{}", logs("in-west")),
        format!("../../{west}/proxy/../../{}", logs("in-west")),
        "../metrics/resource".to_owned(),
    ] {
        if own_address().is_some() {
            let answer = by_proxy(shop, keeper, east, &path).await;
            assert_eq!(code(answer), 403, "{path}");
        }
    }
}

/// Of absurd figures a bounded part is told, and a target that hangs holds nobody up.
async fn hostile_and_lost(shop: &Shop, url: &str, delegates: &[Pod]) {
    let admin = shop.fleet.source.plane.admin_access();
    tell(shop, "east", &delegates[0], "t3", ("9e99", "9e99")).await;
    until("absurd figures", async || {
        let text = ask(admin, url, "/metrics/resource").await?;
        let clamped = memory(&text, "in-east") == Some("1125899906842624");
        clamped.then_some(()).ok_or_else(|| not_yet(text))
    })
    .await;
    let east = &shop.target("east").plane;
    east.signal(Part::ApiServer, Signal::Stop).await.unwrap();
    tell(shop, "west", &delegates[1], "t2", ("3", "2Gi")).await;
    let told = until("the others' figures", async || {
        let asked = Instant::now();
        let text = ask(admin, url, "/metrics/resource").await?;
        assert!(asked.elapsed().as_secs() < 60, "{:?}", asked.elapsed());
        let new = memory(&text, "in-west") == Some("2147483648");
        let failed = text.ends_with("\nscrape_error 1\n");
        (new && failed)
            .then_some(text.clone())
            .ok_or_else(|| not_yet(text))
    })
    .await;
    // What was read last is told as long as it is worth something.
    assert!(told.contains("in-east"), "{told}");
    east.signal(Part::ApiServer, Signal::Continue)
        .await
        .unwrap();
}

/// A target without the API, or without the right, has no figures, and that is no error.
async fn none_to_be_had(shop: &Shop, [east, west]: [&str; 2]) {
    let sources: Api<Source> = Api::namespaced(shop.target("east").plane.admin(), &shop.name);
    let fewer = Patch::Merge(json!({ "spec": { "rights": [Right::Logs] } }));
    let params = PatchParams::default();
    sources
        .patch(SOURCE_ACCOUNT, &params, &fewer)
        .await
        .unwrap();
    let west_plane = &shop.target("west").plane;
    let definitions: Api<CustomResourceDefinition> = Api::all(west_plane.admin());
    definitions
        .delete("pods.metrics.k8s.io", &DeleteParams::default())
        .await
        .unwrap();
    let admin = shop.fleet.source.plane.admin();
    for node in [east, west] {
        until("no figures", async || {
            let text = by_proxy(
                shop,
                shop.fleet.source.plane.admin_access(),
                node,
                "metrics/resource",
            )
            .await?;
            let none = cpu(&text, "in-").is_none() && !text.contains("pod=");
            let fine = none && text.ends_with("\nscrape_error 0\n");
            fine.then_some(()).ok_or_else(|| not_yet(text))
        })
        .await;
    }
    // The Target says which right isn't given.
    let targets: Api<Target> = Api::namespaced(admin, &shop.name);
    let lacks = |target: &Target| {
        let conditions = target.status.as_ref().map(|status| &status.conditions);
        conditions.is_some_and(|all| {
            all.iter().any(|it| {
                it.type_ == "RightsGiven" && it.status == "False" && it.message.contains("Metrics")
            })
        })
    };
    wait_for(&targets, "east", lacks, LIMIT).await.unwrap();
}
