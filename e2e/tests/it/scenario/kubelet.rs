//! Logs, commands and ports of pods are asked for in the source, by kubectl, and come from the target.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use pilotage_api::{Right, Source, keys};
use pilotage_e2e::fleet::{Fleet, SOURCE_ACCOUNT, Spec};
use pilotage_testkit::access::Credential;
use pilotage_testkit::plane::kwok::{BEFORE, Kubelet};
use pilotage_testkit::ports::Port;
use pilotage_testkit::process::Process;
use pilotage_testkit::ready::Probe;
use pilotage_testkit::supervisor::{self, Exit};
use pilotage_testkit::{Access, ControlPlane, Part, Signal, Terminal, build, wait_for};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{interval, timeout};

use super::{LIMIT, Shop, node_of, small_nodes, started};

const TARGET: &str = "east";
/// Between two tries of what nothing can be watched for.
const PERIOD: Duration = Duration::from_millis(200);

/// Tries until it works.
pub(super) async fn until<T, E: std::fmt::Display>(
    what: &str,
    mut work: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let mut last = None;
    let trying = async {
        let mut ticks = interval(PERIOD);
        loop {
            ticks.tick().await;
            match work().await {
                Ok(done) => return done,
                Err(error) => last = Some(error.to_string()),
            }
        }
    };
    let done = timeout(LIMIT, trying).await;
    done.unwrap_or_else(|_| panic!("{what} didn't work: {last:?}"))
}

/// A server that says what it hears, in brackets. It stands for what a container serves.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut word = [0; 4];
                if stream.read_exact(&mut word).await.is_ok() {
                    let answer = [b"[", &word[..], b"]"].concat();
                    let _ = stream.write_all(&answer).await;
                }
            });
        }
    });
    address
}

async fn fleet(forward: SocketAddr) -> Arc<Fleet> {
    let kubelet = Kubelet {
        lines: ["one", "two", "three"].map(str::to_owned).to_vec(),
        forward,
    };
    let target = ControlPlane::builder(TARGET)
        .controller_manager()
        .kwok(small_nodes(TARGET))
        .kubelet(kubelet);
    let rights = [Right::Logs, Right::Exec, Right::Attach, Right::PortForward];
    let spec = Spec::new().kubelet().rights(&rights).target_plane(target);
    started(spec.part_flag("controllers", "--target-probe-period=1s")).await
}

/// Where the virtual nodes say that their kubelet is.
pub(super) async fn kubelet_url(shop: &Shop) -> String {
    let nodes: Api<Node> = Api::all(shop.fleet.source.plane.admin());
    let told = |node: &Node| port(node).is_some();
    let name = shop.virtual_node(TARGET);
    let node = wait_for(&nodes, &name, told, LIMIT).await.unwrap();
    let addresses = node.status.as_ref().unwrap().addresses.as_ref().unwrap();
    assert_eq!(addresses.len(), 1);
    assert_eq!(addresses[0].type_, "InternalIP");
    format!("https://{}:{}", addresses[0].address, port(&node).unwrap())
}

fn port(node: &Node) -> Option<i32> {
    let endpoints = node.status.as_ref()?.daemon_endpoints.as_ref()?;
    Some(endpoints.kubelet_endpoint.as_ref()?.port)
}

/// Asks the kubelet itself, as somebody.
pub(super) async fn ask(access: &Access, url: &str, path: &str) -> Result<String, kube::Error> {
    let client: Client = access.via(url).client().unwrap();
    client
        .request_text(Request::get(path).body(Vec::new()).unwrap())
        .await
}

pub(super) fn code(answer: Result<String, kube::Error>) -> u16 {
    match answer {
        Err(kube::Error::Api(status)) => status.code,
        other => panic!("an answer with a status was expected: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_reaches_delegates_through_the_source_and_nobody_else_does() {
    let fleet = fleet(echo().await).await;
    let shop = Shop::connected(fleet, "kubelet").await;
    let source = &shop.fleet.source.plane;
    shop.create(&build::pod("web").elect().request("cpu", "100m").build())
        .await;
    let proxy = shop.running("web").await;
    assert_eq!(node_of(&proxy), Some(&*shop.virtual_node(TARGET)));
    let url = kubelet_url(&shop).await;

    // The API server takes the certificate as soon as there is one.
    let namespace = format!("--namespace={}", shop.name);
    let kubectl = async |args: &[&str]| {
        let args: Vec<_> = [&*namespace].iter().chain(args).copied().collect();
        let answered = timeout(LIMIT, source.kubectl(&args)).await;
        answered.unwrap_or_else(|_| panic!("{args:?} doesn't come to an end"))
    };
    let logs = until("kubectl logs", async || kubectl(&["logs", "web"]).await).await;
    assert_eq!(logs, "one\ntwo\nthree\n");
    for (asked, want) in [
        (&["--tail=1"][..], "three\n"),
        (
            &["--timestamps", "--tail=1"],
            "2026-01-01T00:00:02.000000000Z three\n",
        ),
        (&["--since-time=2026-01-01T00:00:01Z"], "two\nthree\n"),
        (&["--since=1s"], ""),
        (&["--limit-bytes=4"], "one\n"),
        (&["--previous"], &format!("{BEFORE}\n")),
    ] {
        let logs = kubectl(&[&["logs", "web"], asked].concat()).await;
        assert_eq!(logs.unwrap(), want, "{asked:?}");
    }
    assert_eq!(
        kubectl(&["exec", "web", "--", "echo", "hi"]).await.unwrap(),
        "hi\n"
    );
    // That a command failed is told on a stream of its own.
    let failing = ["exec", "web", "--", "sh", "-c", "echo why >&2; exit 3"];
    let error = kubectl(&failing).await.unwrap_err().to_string();
    assert!(error.contains("why") && error.contains("exit"), "{error}");
    let input = [
        "exec",
        "-i",
        "web",
        &namespace,
        "--",
        "sh",
        "-c",
        "read word; echo [$word]",
    ];
    let read = timeout(LIMIT, source.kubectl_with_input(&input, "hello\n")).await;
    assert_eq!(read.unwrap().unwrap(), "[hello]\n");
    copy(&shop, &kubectl).await;
    containers(&shop, &kubectl).await;
    forward(&shop, "port-forward", &[]).await;
    terminal(&shop, "exec-terminal", &[]).await;
    // Older clients ask for SPDY.
    let spdy = going(
        &shop,
        "exec-spdy",
        &["exec", "web", "--", "echo", "hi"],
        &[("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false")],
    )
    .await;
    let exit = timeout(LIMIT, spdy.wait()).await.unwrap();
    assert!(exit.is_some_and(Exit::success), "{exit:?}: {}", spdy.tail());
    assert!(spdy.tail().contains("hi"), "{}", spdy.tail());
    let spdy = [("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false")];
    terminal(&shop, "exec-terminal-spdy", &spdy).await;
    let spdy = [("KUBECTL_PORT_FORWARD_WEBSOCKETS", "false")];
    forward(&shop, "port-forward-spdy", &spdy).await;
    refusals(&shop, &url).await;
    attach(&shop, "attach", "four", &[]).await;
    let spdy = [("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "false")];
    attach(&shop, "attach-spdy", "five", &spdy).await;
    rights(&shop, &kubectl).await;

    // Of a target that is lost that is said, and nothing is waited for.
    shop.target(TARGET)
        .plane
        .signal(Part::ApiServer, Signal::Stop)
        .await
        .unwrap();
    let nodes: Api<Node> = Api::all(source.admin());
    let lost = |node: &Node| {
        let conditions = node.status.as_ref().and_then(|it| it.conditions.as_ref());
        conditions.is_some_and(|all| {
            all.iter()
                .any(|it| it.type_ == "Ready" && it.status == "False")
        })
    };
    wait_for(&nodes, &shop.virtual_node(TARGET), lost, LIMIT)
        .await
        .unwrap();
    for args in [&["logs", "web"][..], &["exec", "web", "--", "echo", "hi"]] {
        let error = kubectl(args).await.unwrap_err().to_string();
        assert!(error.contains("it is lost"), "{error}");
    }
    shop.target(TARGET)
        .plane
        .signal(Part::ApiServer, Signal::Continue)
        .await
        .unwrap();
    until("kubectl logs again", async || {
        kubectl(&["logs", "web"]).await
    })
    .await;
    endings(&shop, &kubectl).await;
}

/// A target that takes a right back says no to what it was for, and to nothing else.
async fn rights(
    shop: &Shop,
    kubectl: &impl AsyncFn(&[&str]) -> Result<String, pilotage_testkit::plane::Error>,
) {
    let sources: Api<Source> = Api::namespaced(shop.target(TARGET).plane.admin(), &shop.name);
    let fewer = Patch::Merge(json!({ "spec": { "rights": [Right::Logs] } }));
    let params = PatchParams::default();
    sources
        .patch(SOURCE_ACCOUNT, &params, &fewer)
        .await
        .unwrap();
    let refused = until("a refused exec", async || {
        match kubectl(&["exec", "web", "--", "echo", "hi"]).await {
            Ok(said) => Err(said),
            Err(error) => Ok(error.to_string()),
        }
    })
    .await;
    let words = ["it answers 403", "forbidden", "pods/exec"];
    assert!(words.iter().all(|word| refused.contains(word)), "{refused}");
    assert!(kubectl(&["logs", "web"]).await.is_ok());
}

/// A stream ends with the process that it passes through, and with its pod.
async fn endings(
    shop: &Shop,
    kubectl: &impl AsyncFn(&[&str]) -> Result<String, pilotage_testkit::plane::Error>,
) {
    let follow = async |name: &str| {
        let following = going(shop, name, &["logs", "web", "--follow"], &[]).await;
        until("kubectl logs --follow", async || {
            let tail = following.tail();
            let read = tail.contains("three");
            read.then_some(()).ok_or(tail)
        })
        .await;
        following
    };
    let following = follow("follow-process").await;
    let controllers = &shop.fleet.source.processes["controllers"];
    let exit = controllers.stop(LIMIT).await;
    assert!(exit.is_some_and(Exit::success), "{exit:?}");
    assert!(timeout(LIMIT, following.wait()).await.is_ok());

    // The next one listens elsewhere, and its virtual nodes say so.
    controllers.restart().await.unwrap();
    until("kubectl logs anew", async || {
        kubectl(&["logs", "web"]).await
    })
    .await;
    let following = follow("follow-pod").await;
    shop.delete("web").await;
    assert!(timeout(LIMIT, following.wait()).await.is_ok());
}

/// How kubectl is run beside the test.
fn beside(shop: &Shop, name: &str, args: &[&str], env: &[(&str, &str)]) -> supervisor::Spec {
    let source = &shop.fleet.source.plane;
    let log = source.directory().join(format!("{name}.log"));
    let mut spec = supervisor::Spec::new(source.tools().path("kubectl").unwrap(), log)
        .arg(format!("--namespace={}", shop.name))
        .args(args)
        .env("KUBECONFIG", source.admin_kubeconfig())
        .env("HOME", source.directory().join("data"));
    for (variable, value) in env {
        spec = spec.env(variable, value);
    }
    spec
}

/// A process of kubectl that goes on until it is stopped.
async fn going(shop: &Shop, name: &str, args: &[&str], env: &[(&str, &str)]) -> Process {
    let spec = beside(shop, name, args, env);
    Process::start(name, spec, Probe::None).await.unwrap()
}

/// Who sits at a terminal has one in the pod, of the same size, also when that changes, and ends what runs there by a
/// key.
async fn terminal(shop: &Shop, name: &str, env: &[(&str, &str)]) {
    // kwok drops what is shown last if the command ends, so it is asked while it runs.
    let script = "test -t 0 && test -t 1 && while read -r line; do stty size; done";
    let args = ["exec", "-it", "web", "--", "sh", "-c", script];
    let mut terminal = Terminal::open(33, 101).unwrap();
    let spec = beside(shop, name, &args, env).terminal(&terminal);
    let sitting = Process::start(name, spec, Probe::None).await.unwrap();
    for (rows, columns) in [(33, 101), (44, 120)] {
        terminal.resize(rows, columns).unwrap();
        until("kubectl exec -it", async || {
            sitting.signal(Signal::Resized).await.unwrap();
            terminal.type_in("\n")?;
            let shown = terminal.shown()?;
            let told = shown.contains(&format!("{rows} {columns}\r\n"));
            told.then_some(())
                .ok_or_else(|| std::io::Error::other(format!("{shown}{}", sitting.tail())))
        })
        .await;
    }
    // Ctrl-D.
    terminal.type_in("\u{4}").unwrap();
    let exit = timeout(LIMIT, sitting.wait()).await.unwrap();
    assert!(
        exit.is_some_and(Exit::success),
        "{exit:?}: {}{}",
        terminal.shown().unwrap(),
        sitting.tail()
    );
}

/// Who attaches reads what is written from then on.
async fn attach(shop: &Shop, name: &str, word: &str, env: &[(&str, &str)]) {
    let log = shop
        .target(TARGET)
        .plane
        .directory()
        .join("kwok-container.log");
    let attached = going(shop, name, &["attach", "web"], env).await;
    until("kubectl attach", async || {
        let mut file = std::fs::OpenOptions::new().append(true).open(&log)?;
        writeln!(file, "2026-01-01T00:01:00.000000000Z stdout F {word}")?;
        let tail = attached.tail();
        let read = tail.contains(word);
        read.then_some(()).ok_or(std::io::Error::other(tail))
    })
    .await;
    attached.stop(Duration::from_secs(2)).await;
}

async fn copy(
    shop: &Shop,
    kubectl: &impl AsyncFn(&[&str]) -> Result<String, pilotage_testkit::plane::Error>,
) {
    let source = &shop.fleet.source.plane;
    let directory = source.directory();
    let (from, to) = (directory.join("copied-from"), directory.join("copied-to"));
    let text = "x".repeat(300_000);
    std::fs::write(&from, &text).unwrap();
    // Its container has the files of this machine.
    let there = format!("web:{}", from.display());
    kubectl(&["cp", &there, &to.display().to_string()])
        .await
        .unwrap();
    assert_eq!(std::fs::read_to_string(to).unwrap(), text);
    // kwok never tells a command that its input has ended, so cp's own command would wait for it for ever.
    let into = directory.join("copied-into");
    let takes = format!("head -c {} > {}", text.len(), into.display());
    let namespace = format!("--namespace={}", shop.name);
    let exec = ["exec", "-i", "web", &namespace, "--", "sh", "-c", &takes];
    let put = timeout(LIMIT, source.kubectl_with_input(&exec, &text)).await;
    put.unwrap().unwrap();
    assert_eq!(std::fs::read_to_string(into).unwrap(), text);
}

/// Each container has logs: one that ran first, too, and one of `kubectl debug`.
async fn containers(
    shop: &Shop,
    kubectl: &impl AsyncFn(&[&str]) -> Result<String, pilotage_testkit::plane::Error>,
) {
    let pod = json!({
        "metadata": { "name": "three", "annotations": { keys::ELECT: "" } },
        "spec": {
            "initContainers": [{ "name": "init", "image": "i" }],
            "containers": [{ "name": "main", "image": "i" }],
        },
    });
    shop.create(&serde_json::from_value(pod).unwrap()).await;
    shop.running("three").await;
    kubectl(&["debug", "three", "--image=i", "--container=debug"])
        .await
        .unwrap();
    for container in ["init", "main", "debug"] {
        let logs = until(container, async || {
            kubectl(&["logs", "three", "--container", container]).await
        })
        .await;
        assert_eq!(logs, "one\ntwo\nthree\n", "{container}");
    }
    shop.delete("three").await;
}

async fn forward(shop: &Shop, name: &str, env: &[(&str, &str)]) {
    let port = Port::reserve().unwrap();
    let ports = format!("{}:8080", port.number());
    let forwarding = going(shop, name, &["port-forward", "pod/web", &ports], env).await;
    let answer = until("port-forward", async || {
        let mut stream = TcpStream::connect(port.address()).await?;
        stream.write_all(b"ping").await?;
        let mut answer = [0; 6];
        stream.read_exact(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    })
    .await;
    assert_eq!(&answer, b"[ping]", "{}", forwarding.tail());
    forwarding.stop(Duration::from_secs(2)).await;
}

async fn refusals(shop: &Shop, url: &str) {
    let source = &shop.fleet.source.plane;
    let admin = source.admin_access();
    let logs = format!("/containerLogs/{}/web/{}", shop.name, container(shop).await);
    assert_eq!(ask(admin, url, &logs).await.unwrap(), "one\ntwo\nthree\n");
    assert_eq!(ask(admin, url, "/healthz").await.unwrap(), "ok");

    // Nobody, somebody whom the API server doesn't know, and a tenant, of his own pods and of others'.
    let nobody = admin.with(Credential::Anonymous);
    assert_eq!(code(ask(&nobody, url, &logs).await), 401);
    let unknown = admin.with(Credential::Token("a.b.c".to_owned()));
    assert_eq!(code(ask(&unknown, url, &logs).await), 401);
    let other = source.namespace("other").await.unwrap();
    let tenant = source.tenant(other.name(), "tenant").await.unwrap();
    for path in [
        &*logs,
        "/containerLogs/kube-system/none/app",
        "/healthz",
        "/stats/summary",
        "/metrics/resource",
        "/metrics/resource/none",
    ] {
        assert_eq!(code(ask(&tenant, url, path).await), 403, "{path}");
    }

    // Pods that aren't ours, and what isn't offered.
    for (path, want) in [
        (format!("/containerLogs/{}/none/app", shop.name), 404),
        (logs.replace("/web/", "/web/x/"), 404),
        ("/stats/container".to_owned(), 404),
        ("/metrics/cadvisor".to_owned(), 404),
        ("/metrics/resource/none".to_owned(), 404),
        ("/containerLogs/../x/y".to_owned(), 400),
        (logs.replace("containerLogs", "exec"), 400),
    ] {
        assert_eq!(code(ask(admin, url, &path).await), want, "{path}");
    }
    // A pod that the webhook never saw has nobody behind it.
    let stray = build::pod("stray").node_name(&shop.virtual_node(TARGET));
    shop.create(&stray.build()).await;
    let path = format!(
        "/containerLogs/{}/stray/{}",
        shop.name,
        container(shop).await
    );
    let Err(kube::Error::Api(status)) = ask(admin, url, &path).await else {
        panic!("a stray pod has logs");
    };
    assert!(
        status.code == 400 && status.message.contains("nothing runs behind"),
        "{status:?}"
    );
}

async fn container(shop: &Shop) -> String {
    let pod = shop.pods().get("web").await.unwrap();
    pod.spec.unwrap().containers[0].name.clone()
}
