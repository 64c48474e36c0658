//! A `HorizontalPodAutoscaler` scales pods that run in a target: the source's own metrics-server asks virtual nodes for
//! what they use, and the source's controller manager goes by that.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::runtime::watcher;
use pilotage_api::Right;
use pilotage_e2e::fleet::{Fleet, Spec};
use pilotage_testkit::plane::metrics_server::{self, MetricsServer};
use pilotage_testkit::{ControlPlane, build, wait_count, wait_for};
use serde_json::json;
use tokio::time::interval;

use super::kubelet::{ask, kubelet_url, until};
use super::usage::{not_yet, tell};
use super::{LIMIT, Shop, is_running, small_nodes, started};

const TARGET: &str = "east";
/// The Deployment, and the label of its pods in the source.
const NAME: &str = "web";
const PODS: &str = "app=web";
/// What its pods use together, in thousandths of a core, however many they are.
const LOAD: usize = 600;
/// What each asks for, and may use.
const REQUEST: &str = "200m";
/// So many have to share the load then.
const WANTED: i32 = 3;
/// How often the target looks at what pods use.
const PERIOD: Duration = Duration::from_secs(2);

async fn fleet() -> Arc<Fleet> {
    // A pod counts as soon as it is ready, and not some minutes later.
    let flags = [
        "--horizontal-pod-autoscaler-sync-period=1s",
        "--horizontal-pod-autoscaler-cpu-initialization-period=1s",
        "--horizontal-pod-autoscaler-initial-readiness-delay=1s",
    ];
    let target = ControlPlane::builder(TARGET)
        .controller_manager()
        .kwok(small_nodes(TARGET))
        .crd(metrics_server::stand_in());
    let spec = Spec::new()
        .source(|plane| plane.controller_manager_args(flags).aggregates())
        .kubelet()
        .rights(&[Right::Metrics])
        .target_plane(target);
    started(spec).await
}

/// Stands for the target's metrics-server: tells again and again what each of the pods there uses.
async fn share_the_load(shop: &Shop) -> Infallible {
    let (mut ticks, mut round) = (interval(PERIOD), 0);
    // Labels have another prefix there.
    let pods = ListParams::default();
    loop {
        ticks.tick().await;
        round += 1;
        let mut pods = shop.pods_in(TARGET).list(&pods).await.unwrap().items;
        pods.retain(is_running);
        for pod in &pods {
            let cpu = format!("{}m", LOAD / pods.len());
            tell(shop, TARGET, pod, &format!("t{round}"), (&cpu, "64Mi")).await;
        }
    }
}

/// Replicas that are wanted, and the share of their requests that pods use, if that is known.
fn judged(it: &HorizontalPodAutoscaler) -> Option<(i32, i32)> {
    let status = it.status.as_ref()?;
    let mut metrics = status.current_metrics.iter().flatten();
    let used = metrics.find_map(|it| it.resource.as_ref()?.current.average_utilization)?;
    Some((status.desired_replicas, used))
}

/// What `kubectl top` says of whatever begins with this: cores in thousandths, and bytes in MiB.
fn top(said: &str, name: &str) -> Vec<(u32, u32)> {
    let lines = said.lines().filter(|line| line.starts_with(name));
    let read = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let cpu = words.next()?.strip_suffix('m')?.parse().ok()?;
        let memory = words.find_map(|word| word.strip_suffix("Mi"))?;
        Some((cpu, memory.parse().ok()?))
    };
    lines
        .map(|line| read(line).unwrap_or_else(|| panic!("what is {line:?}?")))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_autoscaler_goes_by_what_pods_use_in_the_target() {
    let shop = Shop::connected(fleet().await, "autoscaling").await;
    let deployment = build::deployment(NAME).pod(|pod| pod.elect().request("cpu", REQUEST));
    shop.apply("source", deployment.value()).await;
    tokio::select! {
        never = share_the_load(&shop) => match never {},
        () = it_scales(&shop) => {}
    }
}

async fn it_scales(shop: &Shop) {
    let source = &shop.fleet.source.plane;
    let node = shop.virtual_node(TARGET);
    let (admin, url) = (source.admin_access(), kubelet_url(shop).await);
    until("figures of the virtual node", async || {
        let text = ask(admin, &url, &format!("/metrics/resource/{node}")).await?;
        let has = text.contains("container_cpu_usage_seconds_total{");
        has.then_some(()).ok_or_else(|| not_yet(text))
    })
    .await;
    let server = MetricsServer::start(source).await.unwrap();
    let hpa = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": { "name": NAME },
        "spec": {
            "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": NAME },
            "minReplicas": 1, "maxReplicas": 9,
            "metrics": [{
                "type": "Resource",
                "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 100 } },
            }],
        },
    });
    shop.apply("source", hpa).await;

    // One pod has the whole load, three times as much as it may.
    let hpas = shop.of::<HorizontalPodAutoscaler>("source");
    let scaled = |it: &HorizontalPodAutoscaler| judged(it).is_some_and(|(wanted, _)| wanted > 1);
    let scaled = wait_for(&hpas, NAME, scaled, LIMIT).await;
    let scaled = scaled.unwrap_or_else(|error| panic!("{error}\n{}", server.process().tail()));
    let (wanted, used) = judged(&scaled).unwrap();
    assert_eq!(wanted, WANTED, "{:?}", scaled.status);
    assert!((295..=305).contains(&used), "{used}");
    let all = watcher::Config::default().labels(PODS);
    let proxies = wait_count(&shop.pods(), all, 3, is_running, LIMIT).await;
    for proxy in shop.seen(proxies) {
        let (at, _): (_, Pod) = shop.delegate(&proxy).await;
        assert_eq!(at, TARGET);
    }

    // All three share it, and that is known of those that came last, too: nobody wants more of them, or fewer.
    let settled = |it: &HorizontalPodAutoscaler| {
        judged(it).is_some_and(|(_, used)| (98..=102).contains(&used))
    };
    let settled = wait_for(&hpas, NAME, settled, LIMIT).await;
    let settled = settled.unwrap_or_else(|error| panic!("{error}\n{}", server.process().tail()));
    assert_eq!(judged(&settled).unwrap().0, WANTED);

    // People see the same.
    let namespace = format!("--namespace={}", shop.name);
    let pods = ["top", "pods", "--no-headers", &namespace];
    let said = source.kubectl(&pods).await.unwrap();
    let pods = top(&said, NAME);
    assert_eq!(pods.len(), 3, "{said}");
    for (cpu, memory) in pods {
        assert!((199..=201).contains(&cpu) && memory == 64, "{said}");
    }
    let said = source.kubectl(&["top", "nodes", "--no-headers"]).await;
    let said = said.unwrap();
    let nodes = top(&said, &node);
    assert!(matches!(nodes[..], [(_, 192)]), "{said}");
}
