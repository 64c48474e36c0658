//! Streams of pods that are many, long, cut off, or hostile: memory stays flat, each ends by itself and says why,
//! nothing of one is left over, and the next one works.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;

use futures::io::{AsyncRead, AsyncReadExt as _};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use pilotage_e2e::fleet::{LeaseTimes, Spec};
use pilotage_e2e::streams::bench::{BASE, Options, judge, measure, report};
use pilotage_e2e::streams::{POD, Stage, TARGET};
use pilotage_testkit::FaultProxy;
use pilotage_testkit::fault::Mode;
use pilotage_testkit::process::Process;
use pilotage_testkit::ready::Probe;
use pilotage_testkit::streams::{Piece, chunk, upgraded};
use pilotage_testkit::supervisor;
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, interval, timeout};

use super::LIMIT;
use super::kubelet::until;

/// What `make bench-streams` shows, on a small scale.
const SMALL: Options = Options {
    streams: 40,
    bytes: 64 << 20,
};
/// What the pod's log holds.
const LINES: &str = "one\ntwo\nthree\n";
/// How the last line of logs begins that were ended before their time.
const ENDED: &str = "pilotage: these logs end here: ";
/// Parameters of the log that says something all the while, whatever others are told.
const STEADY: &str = "follow=true&tailLines=7";
const SECOND: Duration = Duration::from_secs(1);
/// One of two replicas gives up in the end, and no busy machine makes it do so before.
const LEASE: LeaseTimes = LeaseTimes {
    duration: Duration::from_secs(20),
    renew_deadline: Duration::from_secs(12),
    retry_period: Duration::from_secs(2),
};

/// Reads until this has come.
async fn read_until(stream: &mut (impl AsyncRead + Unpin), end: &str) -> String {
    let mut read = Vec::new();
    let reading = async {
        let mut byte = [0];
        while !read.ends_with(end.as_bytes()) {
            stream.read_exact(&mut byte).await.unwrap();
            read.push(byte[0]);
        }
    };
    let done = timeout(LIMIT, reading).await;
    let read = String::from_utf8_lossy(&read).into_owned();
    assert!(done.is_ok(), "{end:?} doesn't come: {read:?}");
    read
}

/// What is left, whether it ends well or breaks off.
async fn rest(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut read = Vec::new();
    let ended = timeout(LIMIT * 2, stream.read_to_end(&mut read)).await;
    let read = String::from_utf8_lossy(&read).into_owned();
    assert!(ended.is_ok(), "it doesn't end: {read:?}");
    read
}

/// Nothing of a stream is left: no connection to the target, and no place among those that may be open.
async fn nothing_is_left(stage: &Stage) {
    stage.playing(0).await.unwrap();
    let process = &stage.fleet.source.processes["controllers"];
    until("to forget all streams", async || {
        let (_, metrics) = process
            .admin_get("/metrics")
            .await
            .map_err(|error| error.to_string())?;
        let open = metrics
            .lines()
            .filter(|line| line.starts_with("pilotage_kubelet_streams_open{"));
        let open: Vec<_> = open.filter(|line| !line.ends_with(" 0")).collect();
        if open.is_empty() {
            Ok(())
        } else {
            Err(format!("{open:?}"))
        }
    })
    .await;
}

async fn stage() -> Stage {
    let spec = Spec::new().faults().standby("controllers").lease(LEASE);
    let spec = spec.part_flag("controllers", "--target-probe-period=1s");
    let stage = Stage::start(spec).await.unwrap();
    let logs = stage.fleet.logs();
    // Where to look if a step fails.
    println!("logs: {logs:#?}");
    stage
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_stay_small_whatever_a_target_or_a_reader_does_and_leave_nothing() {
    let stage = stage().await;
    flat(&stage).await;
    hostile(&stage).await;
    unread(&stage).await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_whose_line_breaks_or_whose_pod_goes_end_by_themselves_and_say_why() {
    let stage = stage().await;
    cut(&stage).await;
    deleted(&stage).await;
    stage.stop().await;
}

/// Memory, under many streams and under a long one.
async fn flat(stage: &Stage) {
    let phases = measure(stage, SMALL).await.unwrap();
    println!("{}", report(&phases));
    for phase in &phases {
        judge(phase).unwrap();
    }
    nothing_is_left(stage).await;
}

/// What a target says by a log, and what its reader gets in the end.
fn lies() -> Vec<(&'static str, Vec<Piece>, &'static str)> {
    let without_end = |text: &str| Piece::Times(u64::MAX, text.repeat(1000).into());
    let strange = "what answers there doesn't behave as an API server";
    let broken = "these logs end here: the target broke them off";
    vec![
        (
            "headers without end",
            vec![Piece::text("HTTP/1.1 200 OK\r\n"), without_end("a: b\r\n")],
            strange,
        ),
        (
            "another protocol",
            vec![Piece::text("SSH-2.0-OpenSSH\r\n")],
            strange,
        ),
        (
            "an upgrade of logs",
            vec![Piece::switching("h2c"), Piece::Silence],
            strange,
        ),
        ("a connection that is closed", Vec::new(), "connection"),
        (
            "a chunk longer than any number",
            vec![
                Piece::body(),
                Piece::text("1\r\n\n\r\nfffffffffffffffffff\r\n"),
                without_end("x"),
            ],
            broken,
        ),
        (
            "a chunk that breaks off",
            vec![Piece::body(), Piece::text("ffffffff\r\none\n")],
            broken,
        ),
        (
            "an extension of a chunk without end",
            vec![Piece::body(), Piece::text("1;"), without_end("x")],
            broken,
        ),
        (
            "trailers without end",
            vec![
                Piece::body(),
                Piece::text("1\r\n\n\r\n0\r\n"),
                without_end("a: b\r\n"),
            ],
            broken,
        ),
    ]
}

/// Targets whose streams are junk. Another stream goes on all the while.
async fn hostile(stage: &Stage) {
    let steady = vec![Piece::body(), Piece::Every(SECOND / 10, chunk(b"steady\n"))];
    let answer = |pieces: Vec<Piece>| {
        let steady = steady.clone();
        stage.server.play(move |asked| {
            let is_steady = asked.query.contains("tailLines=7");
            Some(if is_steady { &steady } else { &pieces }.clone())
        });
    };
    answer(Vec::new());
    let mut other = stage.logs(STEADY).await.unwrap();
    for (lie, pieces, told) in lies() {
        answer(pieces);
        let got = match stage.logs("follow=true").await {
            Ok(mut logs) => rest(&mut logs).await,
            Err(error) => error.to_string(),
        };
        assert!(got.contains(told), "{lie}: {got:?}");
        stage.playing(1).await.unwrap();
        read_until(&mut other, "steady\n").await;
    }

    let attach = stage.path("attach?stdout=true");
    let refused = |protocol: &str| vec![Piece::switching(protocol), Piece::Silence];
    for (lie, pieces) in [
        ("no upgrade", vec![Piece::body(), Piece::end()]),
        ("an upgrade to another protocol", refused("h2c")),
        ("another protocol", vec![Piece::text("SSH-2.0-OpenSSH\r\n")]),
    ] {
        answer(pieces);
        let asked = timeout(LIMIT, upgraded(&stage.client(), &attach))
            .await
            .unwrap();
        assert!(asked.is_err(), "{lie}");
        stage.playing(1).await.unwrap();
    }
    let refusal = "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n";
    answer(vec![Piece::switching("SPDY/3.1"), Piece::text(refusal)]);
    let mut shell = upgraded(&stage.client(), &attach).await.unwrap();
    let mut said = Vec::new();
    let ended = timeout(LIMIT, shell.read_to_end(&mut said)).await;
    // Whatever it says is its client's to judge.
    ended.unwrap().unwrap();
    assert_eq!(
        said,
        refusal.as_bytes(),
        "an upgrade that is refused once it is granted"
    );
    read_until(&mut other, "steady\n").await;
    drop(other);
    nothing_is_left(stage).await;
}

/// Callers who ask for much and don't read: nobody keeps it for them.
async fn unread(stage: &Stage) {
    let lines = chunk(&b"something\n".repeat(1000));
    let endless = Piece::Times(u64::MAX, lines);
    stage.server.play(move |asked| {
        let head = match &*asked.action {
            "log" => Piece::body(),
            _ => Piece::switching(&asked.protocol),
        };
        Some(vec![head, endless.clone()])
    });
    let before = stage.server.sent();
    let hold = async {
        let mut log = stage.logs("follow=true").await.unwrap();
        let (client, path) = (stage.client(), stage.path("attach?stdout=true"));
        let mut shell = upgraded(&client, &path).await.unwrap();
        // Full is who takes no more for a second.
        let (mut sent, mut ticks) = (before, interval(SECOND));
        until("to be full", async || {
            ticks.tick().await;
            let now = stage.server.sent();
            let was = std::mem::replace(&mut sent, now);
            if now == was && now > before {
                Ok(())
            } else {
                Err(format!("{} bytes", now - before))
            }
        })
        .await;
        // Nothing was lost, nor is anybody else waited for.
        read_until(&mut log, "something\nsomething\n").await;
        shell.read_exact(&mut vec![0; 9999]).await.unwrap();
    };
    let (memory, ()) = stage.process().await.unwrap().during(hold).await.unwrap();
    let sent = stage.server.sent() - before;
    println!("unread: {sent} bytes, {memory:?}");
    assert!(memory.growth() < BASE, "{memory:?}");
    nothing_is_left(stage).await;
}

/// A command that goes on until its stream ends.
async fn shell(stage: &Stage, name: &str) -> Process {
    let source = &stage.fleet.source.plane;
    let log = source.directory().join(format!("{name}.log"));
    let namespace = stage.pod().metadata.namespace.clone().unwrap();
    let spec = supervisor::Spec::new(source.tools().path("kubectl").unwrap(), log)
        .args([&format!("--namespace={namespace}"), "exec", POD, "--"])
        .args(["sh", "-c", "echo begun; exec sleep 200"])
        .env("KUBECONFIG", source.admin_kubeconfig())
        .env("HOME", source.directory().join("data"));
    let shell = Process::start(name, spec, Probe::None).await.unwrap();
    until("kubectl exec", async || {
        let tail = shell.tail();
        if tail.contains("begun") {
            Ok(())
        } else {
            Err(tail)
        }
    })
    .await;
    shell
}

async fn followed(stage: &Stage) -> impl AsyncRead + Unpin + use<> {
    let mut logs = stage.logs("follow=true").await.unwrap();
    read_until(&mut logs, LINES).await;
    logs
}

/// Streams whose line breaks: to the target, or between a replica and its own API server, so that another one leads.
async fn cut(stage: &Stage) {
    let target = stage.fleet.target(TARGET).unwrap();
    let door = target.door.as_ref().unwrap();
    let lost = async |is_lost: bool| {
        let name = TARGET.to_owned();
        until("the target's state", async || {
            let targets = stage
                .targets()
                .get(&name)
                .await
                .map_err(|error| error.to_string())?;
            let conditions = targets.status.unwrap_or_default().conditions;
            let connected = conditions.iter().find(|it| it.type_ == "Connected");
            let now = connected.map(|it| it.status.clone());
            let want = if is_lost { "False" } else { "True" };
            if now.as_deref() == Some(want) {
                Ok(())
            } else {
                Err(format!("{now:?}"))
            }
        })
        .await;
    };

    // A reset ends them at once.
    let (mut logs, command) = (followed(stage).await, shell(stage, "shell-reset").await);
    door.set(Mode::Cut).await.unwrap();
    let end = rest(&mut logs).await;
    assert_eq!(end, format!("{ENDED}the target broke them off\n"));
    assert!(timeout(LIMIT, command.wait()).await.is_ok());
    door.set(Mode::Pass).await.unwrap();
    lost(false).await;
    assert_eq!(stage.works().await.unwrap(), LINES);

    // A short black hole ends nobody who says nothing meanwhile.
    let mut logs = followed(stage).await;
    door.set(Mode::BlackHole).await.unwrap();
    lost(true).await;
    door.set(Mode::Pass).await.unwrap();
    lost(false).await;
    let log = target.plane.directory().join("kwok-container.log");
    let mut file = OpenOptions::new().append(true).open(&log).unwrap();
    let line = b"2026-01-01T00:01:00.000000000Z stdout F four\n";
    file.write_all(line).unwrap();
    assert_eq!(read_until(&mut logs, "four\n").await, "four\n");

    // A long one ends both.
    let command = shell(stage, "shell-hole").await;
    let begin = Instant::now();
    door.set(Mode::BlackHole).await.unwrap();
    let end = rest(&mut logs).await;
    let want = format!("{ENDED}the target is lost, and has said nothing for 30 s\n");
    assert_eq!(end, want);
    assert!(timeout(LIMIT, command.wait()).await.is_ok());
    println!("a black hole ended streams after {:?}", begin.elapsed());
    told(stage, "the target is lost, and has said nothing for 30 s").await;
    nothing_is_left(stage).await;
    door.set(Mode::Pass).await.unwrap();
    lost(false).await;
    assert_eq!(stage.works().await.unwrap(), format!("{LINES}four\n"));

    // Who leads no more says so, and the next one answers.
    let (mut logs, command) = (followed(stage).await, shell(stage, "shell-leader").await);
    read_until(&mut logs, "four\n").await;
    let leases: Api<Lease> = Api::namespaced(stage.client(), "pilotage");
    let held = leases.get("pilotage-controllers").await.unwrap();
    let holder = held.spec.and_then(|spec| spec.holder_identity).unwrap();
    let (leader, _) = holder.rsplit_once('_').unwrap();
    let line: &FaultProxy = &stage.fleet.source.lines[leader];
    line.set(Mode::BlackHole).await.unwrap();
    let end = rest(&mut logs).await;
    assert_eq!(
        end,
        format!("{ENDED}the kubelet of virtual nodes ends; ask again\n")
    );
    assert!(timeout(LIMIT, command.wait()).await.is_ok());
    assert_eq!(stage.works().await.unwrap(), format!("{LINES}four\n"));
}

/// An event on the pod says why its shell was ended.
async fn told(stage: &Stage, why: &str) {
    let meta = &stage.pod().metadata;
    let events: Api<Event> = Api::namespaced(stage.client(), meta.namespace.as_ref().unwrap());
    let ended = ListParams::default().fields("reason=StreamEnded");
    until("an event of the end", async || {
        let found = events
            .list(&ended)
            .await
            .map_err(|error| error.to_string())?;
        let is_told = |event: &Event| {
            let regarding = event.regarding.as_ref().and_then(|it| it.uid.as_ref());
            let note = event.note.as_deref().unwrap_or_default();
            regarding == meta.uid.as_ref() && note.ends_with(why)
        };
        let is_there = found.items.iter().any(is_told);
        is_there.then_some(()).ok_or(format!("{:?}", found.items))
    })
    .await;
}

/// A stream ends with its pod, also if nobody reads what it says.
async fn deleted(stage: &Stage) {
    stage.play(vec![
        Piece::body(),
        Piece::Times(u64::MAX, chunk(&b"something\n".repeat(1000))),
    ]);
    let _unread = stage.logs("follow=true").await.unwrap();
    stage.playing(1).await.unwrap();
    let deleted = stage.pods().delete(POD, &DeleteParams::default()).await;
    deleted.unwrap();
    stage.playing(0).await.unwrap();
}
