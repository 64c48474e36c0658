//! The live page of a real run: `kubectl pilotage dashboard` finds who leads, and a port-forward brings the page of it.

use std::io::{BufRead, BufReader as Lines};
use std::net::SocketAddr;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use pilotage_api::Target;
use pilotage_e2e::fleet::Spec;
use pilotage_testkit::plane::kwok::Kubelet;
use pilotage_testkit::ports::Port;
use pilotage_testkit::supervisor::Exit;
use pilotage_testkit::{build, wait_for};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::kubelet::until;
use super::user::User;
use super::{LIMIT, Shop, elected, is_running, small_nodes, started};

const TARGET: &str = "east";
const PART: &str = "proxy-scheduler";
const HOME: &str = "pilotage";
static NOTHING: Value = Value::Null;

/// Stands for the network of pods, in which each has a port 8080: where that leads is said during the test.
#[derive(Clone)]
struct Relay {
    address: SocketAddr,
    to: Arc<Mutex<Option<SocketAddr>>>,
}

impl Relay {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let to = Arc::<Mutex<Option<SocketAddr>>>::default();
        let relay = Self {
            address,
            to: to.clone(),
        };
        tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                let to = *to.lock().unwrap();
                tokio::spawn(async move {
                    let Some(to) = to else { return };
                    let Ok(mut to) = TcpStream::connect(to).await else {
                        return;
                    };
                    let (mut here, mut back) = from.split();
                    let (mut there, mut away) = to.split();
                    // As container runtimes do: who hangs up ends both ways.
                    tokio::select! {
                        _ = copy(&mut here, &mut away) => {}
                        _ = copy(&mut there, &mut back) => {}
                    }
                });
            }
        });
        relay
    }

    fn leads_to(&self, address: SocketAddr) {
        *self.to.lock().unwrap() = Some(address);
    }
}

/// What a page knows that listens there.
struct Listener {
    lines: tokio::io::Lines<BufReader<TcpStream>>,
    head: Value,
    pods: Vec<Value>,
    targets: Vec<Value>,
    losses: Vec<Value>,
    /// Stages in which the pod `web` was seen.
    stages: Vec<String>,
}

impl Listener {
    async fn open(address: SocketAddr) -> std::io::Result<Self> {
        let mut stream = TcpStream::connect(address).await?;
        let ask = format!("GET /dashboard/events HTTP/1.1\r\nHost: {address}\r\n\r\n");
        stream.write_all(ask.as_bytes()).await?;
        let mut lines = BufReader::new(stream).lines();
        let status = lines.next_line().await?.unwrap_or_default();
        if status != "HTTP/1.1 200 OK" {
            return Err(std::io::Error::other(status));
        }
        Ok(Self {
            lines,
            head: Value::Null,
            pods: Vec::new(),
            targets: Vec::new(),
            losses: Vec::new(),
            stages: Vec::new(),
        })
    }

    /// Hears one change; an error, when the page's connection has ended.
    async fn hear(&mut self) -> std::io::Result<()> {
        let change: Value = loop {
            let line = self.lines.next_line().await?;
            let line = line.ok_or(std::io::ErrorKind::UnexpectedEof)?;
            if let Some(data) = line.strip_prefix("data: ") {
                break data.parse().unwrap();
            }
        };
        if change["reset"] == json!(true) {
            (self.pods, self.targets) = (Vec::new(), Vec::new());
        }
        if !change["head"].is_null() {
            self.head = change["head"].clone();
        }
        let rows = |key: &str| change[key].as_array().cloned().unwrap_or_default();
        for (known, new, key) in [
            (&mut self.pods, rows("pods"), "uid"),
            (&mut self.targets, rows("targets"), "node"),
        ] {
            known.retain(|it| !new.iter().any(|new| new[key] == it[key]));
            known.extend(new);
        }
        self.pods
            .retain(|it| !rows("podsGone").contains(&it["uid"]));
        self.targets
            .retain(|it| !rows("targetsGone").contains(&it["node"]));
        if change["losses"].is_array() {
            self.losses = rows("losses");
        }
        if let Some(web) = self.pods.iter().find(|it| it["name"] == "web") {
            let stage = web["stage"].as_str().unwrap().to_owned();
            if self.stages.last() != Some(&stage) {
                self.stages.push(stage);
            }
        }
        Ok(())
    }

    async fn until(&mut self, holds: impl Fn(&Self) -> bool) -> std::io::Result<()> {
        let heard = async {
            while !holds(self) {
                self.hear().await?;
            }
            Ok(())
        };
        timeout(LIMIT, heard).await?
    }

    fn web(&self) -> &Value {
        self.pods
            .iter()
            .find(|it| it["name"] == "web")
            .unwrap_or(&NOTHING)
    }
}

/// Kills what is still there when a test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the command until it has said where the page is.
async fn opened(user: &User) -> (Running, SocketAddr) {
    let mut command = user.command(&["dashboard"]);
    let mut child = Running(command.stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = Lines::new(child.0.stderr.take().unwrap()).lines();
    let line = tokio::task::spawn_blocking(move || {
        let first = lines.next();
        // What it says later mustn't stop it.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        first
    });
    let line = timeout(LIMIT, line)
        .await
        .unwrap()
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(
        line.contains(" shows what proxy-scheduler-1 knows"),
        "{line}"
    );
    let port = line.strip_prefix("http://127.0.0.1:").unwrap();
    let port = port.split('/').next().unwrap().parse().unwrap();
    (child, SocketAddr::from(([127, 0, 0, 1], port)))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_comes_from_who_leads_and_shows_a_pod_that_is_placed() {
    let relay = Relay::start().await;
    let kubelet = Kubelet {
        lines: Vec::new(),
        forward: relay.address,
    };
    let home = build::nodes("home", 1, |node| node.cpu("4").memory("16Gi").pods(110));
    let spec = Spec::new()
        .source(|plane| plane.kwok(home).kubelet(kubelet))
        .part_flag(PART, "--dashboard")
        .standby(PART)
        .target(TARGET, small_nodes(TARGET));
    let shop = Shop::connected(started(spec).await, "dashboard").await;
    let source = &shop.fleet.source;
    let user = User::new(&source.plane, &shop.target(TARGET).plane);
    let pods: Api<Pod> = Api::namespaced(source.plane.admin(), HOME);

    // Who leads is no pod yet.
    let said = ["proxy-scheduler-1 leads, and there is no such pod"];
    user.fails(&["dashboard"], 4, &said).await;
    for replica in 1..=2 {
        let name = format!("{PART}-{replica}");
        let pod = build::pod(&name).node_name("home-0").build();
        pods.create(&PostParams::default(), &pod).await.unwrap();
        shop.seen(wait_for(&pods, &name, is_running, LIMIT).await);
    }
    // Nobody listens there.
    let nobody = Port::reserve().unwrap();
    relay.leads_to(nobody.address());
    let said = [
        "port 8080 of pod proxy-scheduler-1 can't be reached by a port-forward",
        "port-forward --namespace pilotage proxy-scheduler-1 8080",
    ];
    user.fails(&["dashboard"], 4, &said).await;
    // Another part's port has no page.
    relay.leads_to(source.processes["controllers"].admin_address());
    let said = [
        "the dashboard of proxy-scheduler-1 is off",
        "--image IMAGE --dashboard\" with its other flags",
        "proxyScheduler.dashboard=true",
    ];
    user.fails(&["dashboard"], 4, &said).await;
    let said = [
        "no proxy scheduler has ever led in namespace default",
        "--home",
    ];
    user.fails(&["dashboard", "--home", "default"], 4, &said)
        .await;
    let taken = relay.address.port().to_string();
    let leader = &source.processes[PART];
    relay.leads_to(leader.admin_address());
    let cant = format!("port {taken} of this machine can't be had");
    let said = [&*cant, "--port"];
    user.fails(&["dashboard", "--port", &taken], 4, &said).await;
    stranger_is_told_which_rights(&shop, &user).await;

    let (_running, address) = opened(&user).await;
    let mut listener = Listener::open(address).await.unwrap();
    let node = shop.virtual_node(TARGET);
    let connected = |it: &Listener| it.targets.iter().any(|it| it["state"] == "connected");
    listener.until(connected).await.unwrap();
    assert_eq!(listener.head["leads"], true);
    shop.create(&elected("web", "100m")).await;
    let runs = |it: &Listener| it.web()["stage"] == "running";
    listener.until(runs).await.unwrap();
    // It may be too quick for some of them, and goes back to none.
    let mut way = ["waiting", "asked", "reserved", "granted", "running"].iter();
    let in_order = listener
        .stages
        .iter()
        .all(|stage| way.any(|it| it == stage));
    assert!(in_order, "{:?}", listener.stages);
    assert_eq!(listener.stages.last().unwrap(), "running");
    assert_eq!(
        (&listener.web()["at"], &listener.web()["ns"]),
        (&json!(node), &json!(shop.name))
    );
    assert_eq!(listener.head["counts"], json!([0, 0, 0, 0, 0, 1, 0]));
    let shown = listener
        .targets
        .iter()
        .find(|it| it["node"] == json!(node))
        .unwrap();
    assert_eq!(shown["counts"], json!([0, 0, 0, 0, 0, 1, 0]));
    assert_eq!(shown["cpu"][1], 8000);
    // Nobody takes so much, and the page says who says so.
    shop.create(&elected("huge", "400")).await;
    let waits = |it: &Listener| {
        let huge = it.pods.iter().find(|it| it["name"] == "huge");
        let why = huge.and_then(|it| it["why"].as_str()).unwrap_or_default();
        huge.is_some_and(|it| it["stage"] == "waiting") && why.contains("Insufficient cpu")
    };
    listener.until(waits).await.unwrap();
    shop.delete("huge").await;
    listener.until(|it| it.pods.len() == 1).await.unwrap();

    // The other replica takes over, and a new connection finds it.
    let standby = &source.standbys[PART];
    let (_, follower) = standby.admin_get("/dashboard").await.unwrap();
    assert!(follower.contains("<title>Pilotage</title>"), "{follower}");
    relay.leads_to(standby.admin_address());
    let exit = leader.stop(Duration::from_secs(30)).await;
    assert!(exit.is_some_and(Exit::success), "{exit:?}");
    // This kubelet doesn't tell that a connection has ended. A page that hears nothing makes another one.
    drop(listener);
    let mut listener = until("the page of the other one", async || {
        Listener::open(address).await
    })
    .await;
    listener
        .until(|it| it.head["leads"] == true && runs(it))
        .await
        .unwrap();
    assert_eq!(listener.web()["at"], json!(node));
    assert!(listener.losses.is_empty(), "{:?}", listener.losses);

    // The target loses the pod, which nobody has deleted in the source.
    let (_, delegate) = shop.delegate(&shop.running("web").await).await;
    let name = delegate.metadata.name.unwrap();
    let there = shop.pods_in(TARGET);
    there.delete(&name, &DeleteParams::default()).await.unwrap();
    let lost = |it: &Listener| !it.losses.is_empty() && it.pods.is_empty();
    listener.until(lost).await.unwrap();
    assert_eq!(listener.losses.len(), 1);
    assert_eq!(listener.losses[0]["pod"], format!("{}/web", shop.name));
    let why = listener.losses[0]["why"].as_str().unwrap();
    assert_eq!(
        why,
        format!("{node} doesn't run the pod any more, and it is deleted")
    );
    // A Target that is deleted goes with its virtual node.
    let targets: Api<Target> = Api::namespaced(source.plane.admin(), &shop.name);
    targets
        .delete(TARGET, &DeleteParams::default())
        .await
        .unwrap();
    listener.until(|it| it.targets.is_empty()).await.unwrap();
}

/// The API server says who may, before anything is forwarded.
async fn stranger_is_told_which_rights(shop: &Shop, user: &User) {
    let plane = &shop.fleet.source.plane;
    let file = plane.directory().join("stranger.kubeconfig");
    let access = plane.user_access("stranger", None).unwrap();
    access.write(&file).unwrap();
    let stranger = User {
        plugin: user.plugin.clone(),
        source: file,
        target: user.target.clone(),
    };
    let said = [
        "you may not",
        "get leases of namespace pilotage",
        "get/create pods/portforward of namespace pilotage",
    ];
    stranger.fails(&["dashboard"], 4, &said).await;
}
