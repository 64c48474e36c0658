//! Nothing outlives the run.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pilotage_testkit::ports::Port;
use pilotage_testkit::supervisor::{Exit, Pids, Spec, Supervised};
use pilotage_testkit::tools::Tools;
use pilotage_testkit::{ControlPlane, Part, PilotageProcess, RunDir, Signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

const LIMIT: Duration = Duration::from_secs(20);
/// Tells the helper what to start.
const HELP: &str = "TESTKIT_OWNER";

/// A child with a child of its own.
async fn sleeper(run: &RunDir) -> Supervised {
    let log = run.file(&pilotage_testkit::unique());
    let script = "sleep 1000 & echo started; wait";
    let spec = Spec::new("/bin/sh", &log).args(["-c", script]);
    ready(Supervised::start(&spec).unwrap(), &log, "started").await
}

/// Not a test: the process that the tests below kill. It prints the ids of its children and waits.
#[tokio::test]
#[ignore = "it is started by the other tests, which kill it"]
async fn owner() {
    let Ok(what) = std::env::var(HELP) else {
        return;
    };
    let mut out = std::io::stderr();
    let mut say = |pids: Pids| writeln!(out, "pids {} {}", pids.supervisor, pids.child).unwrap();
    if what == "plane" {
        let plane = ControlPlane::builder("killed")
            .controller_manager()
            .kwok([])
            .start()
            .await
            .unwrap();
        for part in [
            Part::Etcd,
            Part::ApiServer,
            Part::ControllerManager,
            Part::Kwok,
        ] {
            say(plane.process(part).unwrap().pids().await.unwrap());
        }
        writeln!(std::io::stderr(), "done").unwrap();
        std::future::pending::<()>().await;
    }
    let run = RunDir::create("killed").unwrap();
    // Two, so that one could hold the other's pipe open.
    let children = [sleeper(&run).await, sleeper(&run).await];
    for child in &children {
        say(child.pids());
    }
    writeln!(std::io::stderr(), "done").unwrap();
    std::future::pending::<()>().await;
}

/// Starts [`owner`] and reads what it prints.
fn start_owner(what: &str) -> (Child, Vec<Pids>) {
    // The path would be gone if the test is built again meanwhile.
    let mut owner = Command::new("/proc/self/exe")
        .args(["--exact", "processes::owner", "--ignored", "--nocapture"])
        .env(HELP, what)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pids = Vec::new();
    let mut said = Vec::new();
    for line in BufReader::new(owner.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["pids", supervisor, child] => pids.push(Pids {
                supervisor: supervisor.parse().unwrap(),
                child: child.parse().unwrap(),
            }),
            ["done"] => return (owner, pids),
            _ => said.push(line),
        }
    }
    panic!("the owner failed: {said:#?}");
}

/// A handle that becomes readable when the process ends, reaped or not.
pub(crate) fn handle(pid: i32) -> OwnedFd {
    pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap()
}

pub(crate) async fn all_end(handles: Vec<OwnedFd>, what: &str) {
    let limit = Timespec {
        tv_sec: LIMIT.as_secs().try_into().unwrap(),
        tv_nsec: 0,
    };
    let waiting = tokio::task::spawn_blocking(move || {
        handles
            .iter()
            .filter(|handle| poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&limit)) != Ok(1))
            .count()
    });
    assert_eq!(waiting.await.unwrap(), 0, "{what}: processes live");
}

fn kill(pid: i32) {
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL)
        .unwrap();
}

/// Processes of a group, from `/proc`: the third word after the command's name in parentheses.
fn group(leader: i32) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let words = stat.rsplit_once(')').map_or("", |(_, words)| words);
        words.split_whitespace().nth(2) == Some(&leader.to_string())
    })
    .collect()
}

/// Waits until a process that was just started has set its traps.
async fn ready(child: Supervised, log: &Path, word: &str) -> Supervised {
    let said = async {
        while !std::fs::read_to_string(log)
            .unwrap_or_default()
            .contains(word)
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, said).await.unwrap();
    child
}

#[tokio::test]
async fn children_of_a_killed_owner_end() {
    let (mut owner, pids) = start_owner("sleepers");
    assert_eq!(pids.len(), 2);
    // Two guards, the supervisor, the child and its own child: all are to end.
    let all: Vec<i32> = pids
        .iter()
        .flat_map(|pids| group(pids.supervisor))
        .collect();
    assert_eq!(all.len(), 10, "{all:?}");
    let handles = all.into_iter().map(handle).collect();
    owner.kill().unwrap();
    owner.wait().unwrap();
    all_end(handles, "owner killed").await;
}

#[tokio::test]
async fn parts_of_a_plane_of_a_killed_owner_end() {
    let (mut owner, pids) = tokio::task::spawn_blocking(|| start_owner("plane"))
        .await
        .unwrap();
    assert_eq!(pids.len(), 4);
    let handles = pids
        .iter()
        .flat_map(|pids| [pids.supervisor, pids.child])
        .map(handle)
        .collect();
    owner.kill().unwrap();
    owner.wait().unwrap();
    all_end(handles, "owner killed").await;
}

#[tokio::test]
async fn a_killed_supervisor_or_guard_leaves_nothing() {
    // The supervisor dies while its owner lives: the owner ends the group.
    let run = RunDir::create("supervisor").unwrap();
    let child = sleeper(&run).await;
    let all = group(child.pids().supervisor);
    let handles = all.iter().copied().map(handle).collect();
    kill(child.pids().supervisor);
    assert_eq!(child.wait().await, Exit::Killed);
    all_end(handles, "supervisor killed").await;

    // A guard and the supervisor die, then the owner: the other guard ends the group.
    let (mut owner, pids) = start_owner("sleepers");
    let Pids { supervisor, child } = pids[0];
    let guard = group(supervisor)
        .into_iter()
        .find(|pid| *pid != supervisor && *pid != child)
        .unwrap();
    let handles = group(supervisor).into_iter().map(handle).collect();
    // Frozen, the owner can't notice that the supervisor is gone.
    let owner_pid = Pid::from_child(&owner);
    rustix::process::kill_process(owner_pid, rustix::process::Signal::STOP).unwrap();
    kill(guard);
    kill(supervisor);
    owner.kill().unwrap();
    owner.wait().unwrap();
    all_end(handles, "guard, supervisor and owner killed").await;
}

#[tokio::test]
async fn exits_signals_and_drop() {
    let run = RunDir::create("exits").unwrap();
    let shell = |script: &str| {
        Supervised::start(&Spec::new("/bin/sh", run.file("log")).args(["-c", script])).unwrap()
    };
    assert_eq!(shell("exit 3").wait().await, Exit::Code(3));
    assert!(shell("echo words; echo more >&2").wait().await.success());
    assert_eq!(
        std::fs::read_to_string(run.file("log")).unwrap(),
        "words\nmore\n"
    );
    assert_eq!(shell("kill -TERM $$").wait().await, Exit::Signal(15));

    let polite = shell("trap 'exit 0' TERM; echo polite; while :; do sleep 0.01; done");
    let polite = ready(polite, &run.file("log"), "polite").await;
    assert_eq!(polite.stop(LIMIT).await, Exit::Code(0));
    let stubborn = shell("trap '' TERM; echo stubborn; while :; do sleep 1; done");
    let stubborn = ready(stubborn, &run.file("log"), "stubborn").await;
    assert_eq!(
        stubborn.stop(Duration::from_millis(100)).await,
        Exit::Killed
    );
    let frozen = shell("sleep 1000");
    frozen.signal(Signal::Stop).unwrap();
    let handles = group(frozen.pids().supervisor)
        .into_iter()
        .map(handle)
        .collect();
    drop(frozen);
    all_end(handles, "dropped").await;
    let missing = Supervised::start(&Spec::new("/nonexistent", run.file("log"))).unwrap_err();
    assert_eq!(missing.to_string(), "/nonexistent is not there");
}

/// Any program can stand in for the binary: a shell that is never ready says so when it ends.
#[tokio::test]
async fn a_binary_that_ends_before_it_is_ready_shows_its_log() {
    let start = PilotageProcess::builder("broken")
        .binary("/bin/sh")
        .args([
            "-c",
            "echo port {admin-port}; echo no such flag >&2; exit 2",
        ])
        .start();
    let error = start.await.unwrap_err().to_string();
    assert!(error.contains("broken ended by exit code 2"), "{error}");
    assert!(error.contains("no such flag"), "{error}");
    assert!(!error.contains("{admin-port}"), "{error}");
}

/// etcd stands in for the binary: it answers `/readyz` on a port that it is told.
#[tokio::test]
async fn a_binary_becomes_ready_dies_and_comes_back() {
    let peer = Port::reserve().unwrap();
    let process = PilotageProcess::builder("stand-in")
        .binary(Tools::find().unwrap().path("etcd").unwrap())
        .env("ETCD_NAME", "from-environment")
        .args([
            "--listen-client-urls=http://127.0.0.1:{admin-port}",
            "--advertise-client-urls=http://127.0.0.1:{admin-port}",
            "--data-dir",
        ])
        .args([RunDir::create("stand-in-data").unwrap().file("etcd")])
        .args([
            format!("--listen-peer-urls=http://{}", peer.address()),
            format!("--initial-advertise-peer-urls=http://{}", peer.address()),
            format!(
                "--initial-cluster=from-environment=http://{}",
                peer.address()
            ),
        ])
        .start()
        .await
        .unwrap();
    let port = process.admin_address();
    assert_eq!(process.admin_get("/readyz").await.unwrap().0, 200);
    assert_eq!(process.admin_get("/nothing").await.unwrap().0, 404);
    assert_eq!(process.kill().await, Some(Exit::Killed));
    assert!(process.admin_get("/readyz").await.is_err());
    process.restart().await.unwrap();
    assert_eq!(process.admin_address(), port);
    assert_eq!(process.admin_get("/readyz").await.unwrap().0, 200);
    assert_eq!(process.stop(LIMIT).await, Some(Exit::Signal(15)));
}
