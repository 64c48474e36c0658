//! Draws containers: images, requests, host ports, restart rules.

use serde_json::{Value, json};

use super::amounts::requests;
use super::swarm::Swarm;
use crate::draw::Draw;

/// Images as containers name them: with tag, without, by digest, from a registry with a port.
const IMAGES: &[&str] = &[
    "registry.example/app:v1",
    "registry.example/app@sha256:1111",
    "registry.example/web",
    "registry.example/web:latest",
    "registry.example:5000/db",
    "registry.example:5000/db:v2",
    "plain",
    "plain:latest",
    "registry.example/tool@sha256:2222",
    "registry.example/nowhere:v1",
];

/// The app containers of a pod.
pub(super) fn apps(draw: &mut Draw, swarm: &Swarm) -> Vec<Value> {
    let count = *draw.one(&[1, 1, 1, 2, 3]);
    let one = |at| container(draw, swarm, &format!("c{at}"));
    (0..count).map(one).collect()
}

/// The init containers of a pod, sidecars among them.
pub(super) fn inits(draw: &mut Draw, swarm: &Swarm) -> Vec<Value> {
    if !draw.percent(swarm.init) {
        return Vec::new();
    }
    let count = draw.within(1, 3);
    let one = |at| {
        let mut init = container(draw, swarm, &format!("i{at}"));
        if draw.percent(50) {
            init["restartPolicy"] = "Always".into();
        }
        init
    };
    (0..count).map(one).collect()
}

fn container(draw: &mut Draw, swarm: &Swarm, name: &str) -> Value {
    let mut container = json!({"name": name, "image": image(draw)});
    let requests = requests(draw, swarm);
    if !requests.is_empty() || draw.percent(50) {
        container["resources"] = json!({"requests": requests});
    }
    if draw.percent(swarm.ports) {
        let count = draw.within(1, 2);
        let ports: Vec<Value> = (0..count).map(|_| port(draw)).collect();
        container["ports"] = ports.into();
    }
    if draw.percent(swarm.features / 3) {
        let action = draw.word(&["RestartAllContainers", "Restart"]);
        container["restartPolicyRules"] = json!([{"action": action,
            "exitCodes": {"operator": "In", "values": [42]}}]);
    }
    container
}

/// An image as a container names it.
pub(super) fn image(draw: &mut Draw) -> String {
    draw.word(IMAGES)
}

fn port(draw: &mut Draw) -> Value {
    let mut port = json!({"containerPort": 80});
    if draw.percent(85) {
        port["hostPort"] = (*draw.one(&[80, 80, 443, 8080, 65535])).into();
    }
    // The API server fills in TCP; older objects may lack it.
    if draw.percent(95) {
        port["protocol"] = draw.word(&["TCP", "TCP", "UDP", "SCTP"]).into();
    }
    if draw.percent(50) {
        let address = draw.word(&["", "0.0.0.0", "127.0.0.1", "10.0.0.1", "::", "::1"]);
        port["hostIP"] = address.into();
    }
    port
}
