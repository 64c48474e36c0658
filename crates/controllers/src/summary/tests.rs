//! What is written when, and what of objects is kept.

use std::sync::Arc;

use std::sync::Mutex;

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::Config;
use kube::client::Body;
use pilotage_runtime::client::from_config;
use pilotage_sched::PodInfo;
use tower::service_fn;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_pod_that_panics_is_tried_again_and_keeps_no_other_out_of_the_sum() {
    let nowhere = Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = from_config(nowhere, "test").unwrap();
    let (stop, args) = (CancellationToken::new(), SummaryArgs::default());
    let cluster = ClusterUid("u".to_owned());
    let mut controller = Controller::new(&client, cluster, args, Leadership::always(), &stop);
    let node = json!({
        "metadata": { "name": "n" },
        "status": {
            "allocatable": { "cpu": "8", "memory": "7Gi", "pods": "9" },
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    });
    let node: Node = serde_json::from_value(node).unwrap();
    controller.node(&Event::Applied(Arc::new(node)));
    let pod = |name: &str| -> Arc<Pod> {
        let pod = json!({
            "metadata": { "namespace": "ns", "name": name, "uid": name, "resourceVersion": "1" },
            "spec": {
                "nodeName": "n",
                "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1" } } }],
            },
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    };
    let free = |controller: &Controller| {
        let free = controller.tally.facts().free.list();
        free.get("cpu").cloned().unwrap_or_default().0
    };
    let bad = pod("bad");
    controller.pods.fold((*bad).clone());
    controller.step(Piece::pod(&bad), |_| panic!("on purpose"));
    controller.pod(&Event::Applied(pod("good")));
    assert_eq!(free(&controller), "7");
    tokio::time::advance(Duration::from_secs(5)).await;
    controller.again();
    assert_eq!(free(&controller), "7", "after a pause");
    tokio::time::advance(Duration::from_secs(6)).await;
    controller.again();
    assert_eq!(free(&controller), "6");
    assert_eq!(controller.retries.next(), None);
    stop.cancel();
}

/// When something was written, and what.
type Written = Arc<Mutex<Vec<(Instant, Vec<u8>)>>>;

/// An API server that takes summaries, and tells of nothing.
fn server() -> (Client, Written) {
    let written = Written::default();
    let heard = written.clone();
    let service = service_fn(move |request: Request<Body>| {
        let heard = heard.clone();
        async move {
            let (parts, body) = request.into_parts();
            let mut answer = Response::builder();
            let mut body = body.collect().await?.to_bytes().to_vec();
            if parts.method == Method::PATCH {
                let mut heard = heard.lock().unwrap();
                heard.push((Instant::now(), body.clone()));
                let mut object: Value = serde_json::from_slice(&body).unwrap();
                object["metadata"]["uid"] = "u".into();
                object["metadata"]["resourceVersion"] = heard.len().to_string().into();
                body = object.to_string().into_bytes();
            } else {
                answer = answer.status(500);
            }
            let answer = answer.body(Body::from(body));
            answer.map_err(|error| Box::new(error) as tower::BoxError)
        }
    });
    (Client::new(service, "default"), written)
}

#[tokio::test(start_paused = true)]
async fn five_thousand_nodes_that_change_cost_one_small_write_a_few_seconds_apart() {
    const NODES: u32 = 5000;
    let (client, written) = server();
    let (stop, args) = (CancellationToken::new(), SummaryArgs::default());
    let cluster = ClusterUid("u".to_owned());
    let controller = Controller::new(&client, cluster, args, Leadership::always(), &stop);
    let (nodes, pods) = (controller.nodes.clone(), controller.pods.subscribe());
    let following = controller.follow(nodes.subscribe(), pods);
    let following = tokio::spawn(stop.clone().run_until_cancelled_owned(following));
    let mut version = 0_u32;
    let mut tell = |number: u32, cordoned: bool| {
        version += 1;
        let node = json!({
            "metadata": {
                "name": format!("n{number}"), "uid": format!("u{number}"), "resourceVersion": version.to_string(),
                "labels": { "tier": "gold", "kubernetes.io/hostname": format!("n{number}") },
            },
            "spec": { "unschedulable": cordoned },
            "status": {
                "capacity": { "cpu": "8", "memory": "32Gi", "pods": "110", "a.b/gpu": (number % 9).to_string() },
                "allocatable": { "cpu": "7500m", "memory": "30Gi", "pods": "110", "a.b/gpu": (number % 9).to_string() },
                "conditions": [{ "type": "Ready", "status": "True" }],
            },
        });
        nodes.fold(serde_json::from_value(node).unwrap());
    };
    for number in 0..NODES {
        tell(number, false);
    }
    // For half a minute a hundred of them change in each second.
    let begun = Instant::now();
    for number in 0..3000 {
        tell(number, true);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    stop.cancel();
    following.await.unwrap();

    let written = written.lock().unwrap();
    let apart = Duration::from_secs(5);
    for pair in written.windows(2) {
        assert!(pair[1].0.duration_since(pair[0].0) >= apart);
    }
    let (first, last) = (written.first().unwrap(), written.last().unwrap());
    assert!(
        first.0.duration_since(begun) < Duration::from_secs(1),
        "at once"
    );
    assert!((6..=9).contains(&written.len()), "{}", written.len());
    assert!(written.iter().all(|(_, body)| body.len() < 4096));
    let last: Value = serde_json::from_slice(&last.1).unwrap();
    let cpu = |list: &str| last[list]["cpu"].clone();
    assert_eq!(
        (cpu("capacity"), cpu("allocatable")),
        (json!("40000"), json!("15000"))
    );
}

#[tokio::test(start_paused = true)]
async fn in_a_small_cluster_a_summary_is_a_second_old_at_most() {
    let (client, _) = server();
    let (stop, args) = (CancellationToken::new(), SummaryArgs::default());
    let cluster = ClusterUid("u".to_owned());
    let mut controller = Controller::new(&client, cluster, args, Leadership::always(), &stop);
    for (nodes, seconds) in [(0, 1.0), (999, 1.0), (2500, 2.5), (9000, 5.0)] {
        for number in 0..nodes {
            let node = json!({ "metadata": { "name": format!("n{number}") } });
            let node = Arc::new(serde_json::from_value(node).unwrap());
            controller.node(&Event::Applied(node));
        }
        assert_eq!(controller.pause(), Duration::from_secs_f64(seconds));
    }
    stop.cancel();
}

#[test]
fn a_trimmed_pod_asks_for_the_same() {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "namespace": "ns", "name": "p", "uid": "u" },
        "spec": {
            "nodeName": "n",
            "overhead": { "cpu": "10m" },
            "initContainers": [{
                "name": "sidecar", "restartPolicy": "Always", "image": "i",
                "resources": { "requests": { "cpu": "200m" } },
            }],
            "containers": [{
                "name": "c", "image": "i", "env": [{ "name": "A", "value": "b" }],
                "resources": { "requests": { "cpu": "1", "a.b/gpu": "2" } },
            }],
            "volumes": [{ "name": "v", "emptyDir": {} }],
        },
        "status": {
            "containerStatuses": [{
                "name": "c", "image": "i", "imageID": "i", "ready": true, "restartCount": 0,
                "allocatedResources": { "cpu": "3" }, "resources": { "requests": { "cpu": "3" } },
            }],
        },
    }))
    .unwrap();
    let mut trimmed = pod.clone();
    trim_pod(&mut trimmed);
    assert!(trimmed.spec.as_ref().unwrap().volumes.is_none());
    let requests = |pod: Pod| PodInfo::parse(pod.into()).unwrap().needs.requests.clone();
    assert_eq!(requests(trimmed), requests(pod.clone()));
    assert_eq!(requests(pod.clone()).total.milli_cpu, 3210);

    // Of a crowd of containers the sum is left.
    let mut crowd = pod;
    let one = crowd.spec.as_ref().unwrap().containers[0].clone();
    crowd.spec.as_mut().unwrap().containers = vec![one; 1_000];
    let mut trimmed = crowd.clone();
    trim_pod(&mut trimmed);
    assert_eq!(trimmed.spec.as_ref().unwrap().containers.len(), 1);
    assert_eq!(requests(trimmed).total, requests(crowd).total);
}
