//! `make bench-hostile`: all attacks, one after the other, on a source with three healthy targets: what that costs the
//! source's memory and the pods of others.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::TryFutureExt;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;
use kube::api::DeleteParams;
use pilotage_api::{Right, Target, conditions::types, keys};
use pilotage_testkit::{HostileServer, build, wait_for, wait_gone};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::attacks::{self, Attack};
use super::error::Error;
use super::trickle;
use crate::bench::quantiles::Quantiles;
use crate::bench::table::table;
use crate::fleet::{Fleet, Spec, secret, target_object};
use crate::memory::{Process, Taken};

const TARGETS: [&str; 3] = ["east", "north", "west"];
/// Whose pods are measured.
const HONEST: &str = "honest";
/// Who leads Pilotage to a server of its own.
const TENANT: &str = "tenant";
/// MiB that the source's one process may take, whatever it is told.
const AIM: f64 = 150.0;
/// So many times the p99 of calm times may be that of pods under attack …
const TIMES: f64 = 2.0;
/// … or longer than that by so many ms: in a calm time of few pods p99 is hardly more than a guess.
const LONGER: f64 = 1_000.0;
/// The first pods warm everything up.
const WARM: Duration = Duration::from_secs(10);
/// The longest measurement without an attack.
const CALM: Duration = Duration::from_mins(2);
/// How long an attack goes on once its target is lost.
const HOLD: Duration = Duration::from_secs(5);
/// How long a target may take to be lost, or to go.
const LIMIT: Duration = Duration::from_mins(3);

/// What was measured in one time.
struct Phase {
    name: &'static str,
    times: Vec<Duration>,
    taken: Taken,
}

/// How much was told.
#[derive(Debug, Default)]
struct Told {
    attacks: usize,
    lies: u64,
    bytes: u64,
}

/// Attacks for so many minutes, and prints what that cost. An error if the source took too much memory, the pods of
/// others waited longer, or a pod or a target didn't do what it should.
pub async fn run(minutes: u64) -> Result<(), Error> {
    let measuring = async {
        let fleet = start().await?;
        let measured = fleet
            .hold(measure(&fleet, Duration::from_secs(60 * minutes)))
            .await;
        fleet.stop().await;
        measured
    };
    tokio::select! {
        measured = measuring => measured,
        interrupted = tokio::signal::ctrl_c() => Err(interrupted.map_or_else(Error::Signal, |()| Error::Interrupted)),
    }
}

async fn start() -> Result<Fleet, Error> {
    let mut spec = Spec::new()
        .one_process()
        .rights(&[Right::FollowConfigMaps])
        .follow(&["configmaps"]);
    for name in TARGETS {
        let nodes = build::nodes(name, 2, |node| node.cpu("16").memory("64Gi").pods(110));
        spec = spec.target(name, nodes);
    }
    let mut fleet = spec.start().await?;
    fleet.install().await?;
    let tenant = std::iter::once((&fleet.source, TENANT));
    for (cluster, name) in fleet.all().map(|it| (it, HONEST)).chain(tenant) {
        let made = cluster.plane.named_namespace(name, BTreeMap::new());
        made.await?.keep();
    }
    fleet.connect(HONEST).await?;
    Ok(fleet)
}

async fn measure(fleet: &Fleet, time: Duration) -> Result<(), Error> {
    let process = fleet.source.processes.get("all").ok_or(Error::Gone)?;
    let pid = process.process().pids().await.ok_or(Error::Gone)?.child;
    let memory = Process { pid };
    let pods: Api<Pod> = Api::namespaced(fleet.source.plane.admin(), HONEST);
    trickle::run(&pods, "warm", WARM).await?;
    let calm = time.min(CALM);
    eprintln!("{} s without an attack", calm.as_secs());
    let (times, taken) = tokio::try_join!(
        trickle::run(&pods, "calm", calm),
        memory.watch(calm).map_err(Error::from),
    )?;
    let before = Phase {
        name: "calm",
        times,
        taken,
    };
    eprintln!("{} s under attack", time.as_secs());
    let (times, taken, told) = tokio::try_join!(
        trickle::run(&pods, "attacked", time),
        memory.watch(time).map_err(Error::from),
        besiege(fleet, time),
    )?;
    let during = Phase {
        name: "attacked",
        times,
        taken,
    };
    println!("{}", report(&[&before, &during], &told));
    judge(&before, &during)
}

/// What was missed, memory first.
fn judge(calm: &Phase, attacked: &Phase) -> Result<(), Error> {
    let (peak, aim) = (attacked.taken.peak, AIM);
    if peak > aim {
        return Err(Error::TooLarge { peak, aim });
    }
    let p99 = |phase: &Phase| Quantiles::of(phase.times.iter().copied()).map(|all| all.p99_ms);
    let (Some(calm), Some(attacked)) = (p99(calm), p99(attacked)) else {
        return Err(Error::NoPods);
    };
    if attacked > calm * TIMES && attacked > calm + LONGER {
        return Err(Error::TooSlow { calm, attacked });
    }
    Ok(())
}

/// All attacks, again and again.
async fn besiege(fleet: &Fleet, time: Duration) -> Result<Told, Error> {
    let end = Instant::now() + time;
    let server = HostileServer::start("liar").await?;
    let mut told = Told::default();
    for attack in attacks::all().iter().cycle() {
        if Instant::now() >= end {
            break;
        }
        told.attacks += 1;
        let before = server.lies();
        one(fleet, &server, attack, &format!("evil-{}", told.attacks)).await?;
        eprintln!("  {}: {} lies", attack.name, server.lies() - before);
    }
    (told.lies, told.bytes) = (server.lies(), server.sent());
    server.stop().await;
    Ok(told)
}

/// One attack by a Target of its own, which has no back-off yet.
async fn one(
    fleet: &Fleet,
    server: &HostileServer,
    attack: &Attack,
    name: &str,
) -> Result<(), Error> {
    let client = fleet.source.plane.admin();
    let targets: Api<Target> = Api::namespaced(client.clone(), TENANT);
    let secrets: Api<Secret> = Api::namespaced(client, TENANT);
    server.play(attack.script());
    let mut target = target_object(name, TENANT);
    // Nothing runs there that it would have to answer for.
    target["metadata"]["annotations"] = json!({ keys::FORGET: keys::TRUE });
    for object in [secret(name, TENANT, &server.kubeconfig()), target] {
        fleet.source.plane.apply_yaml(&object.to_string()).await?;
    }
    let (status, reason) = match attack.lost {
        Some((reason, _)) => ("False", Some(reason)),
        None => ("True", None),
    };
    let is_told = |target: &Target| {
        let conditions = target.status.iter().flat_map(|status| &status.conditions);
        let mut connected = conditions.filter(|it| it.type_ == types::CONNECTED);
        connected.any(|it| it.status == status && reason.is_none_or(|reason| it.reason == reason))
    };
    wait_for(&targets, name, is_told, LIMIT)
        .await
        .map_err(Error::wait(format!(
            "{} doesn't make its Target {reason:?}",
            attack.name
        )))?;
    sleep(HOLD).await;
    server.tell_truth();
    server.cut_connections();
    let params = DeleteParams::default();
    let deleted = targets.delete(name, &params).await;
    deleted.map_err(Error::request("delete a Target"))?;
    wait_gone(&targets, name, LIMIT)
        .await
        .map_err(Error::wait(format!("{name} doesn't go")))?;
    let deleted = secrets.delete(name, &params).await;
    deleted.map_err(Error::request("delete a Secret"))?;
    Ok(())
}

fn report(phases: &[&Phase], told: &Told) -> String {
    let rows = phases.iter().map(|phase| {
        let Phase { name, times, taken } = phase;
        let mut row = vec![(*name).to_owned(), times.len().to_string()];
        if let Some(bound) = Quantiles::of(times.iter().copied()) {
            let figures = [bound.p50_ms, bound.p99_ms, bound.max_ms];
            row.extend(figures.map(|ms| format!("{ms:.0}")));
        }
        row.extend([taken.sampled, taken.peak].map(|mib| format!("{mib:.1}")));
        row
    });
    let titles = [
        "TIME", "PODS", "P50 MS", "P99 MS", "MAX MS", "RSS MIB", "PEAK MIB",
    ];
    let Told {
        attacks,
        lies,
        bytes,
    } = told;
    format!(
        "\n{}\n\n{attacks} attacks: {lies} requests were lied about, {} MiB were sent. Pods: from creation to binding. \
         RSS: the largest of samples a second apart; at most {AIM} MiB at any time are wanted.",
        table(&titles, &rows.collect::<Vec<_>>()),
        bytes >> 20,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(name: &'static str, ms: u64) -> Phase {
        Phase {
            name,
            times: vec![Duration::from_millis(ms); 3],
            taken: Taken {
                sampled: 40.0,
                peak: 41.5,
            },
        }
    }

    #[test]
    fn others_may_wait_a_little_longer_and_memory_is_bounded() {
        let judged = |calm, attacked: &Phase| {
            let judged = judge(&phase("calm", calm), attacked);
            judged.map_err(|error| error.to_string())
        };
        for (calm, attacked) in [(10, 1_010), (2_000, 4_000), (2_000, 1_000)] {
            assert_eq!(judged(calm, &phase("attacked", attacked)), Ok(()));
        }
        for (calm, attacked) in [(10, 1_011), (2_000, 4_001)] {
            let why = judged(calm, &phase("attacked", attacked)).unwrap_err();
            assert!(why.contains(&format!("{attacked} ms")), "{why}");
        }
        let mut large = phase("attacked", 10);
        large.taken.peak = 150.5;
        assert!(judged(10, &large).unwrap_err().contains("at most 150 MiB"));
        large.taken.peak = 150.0;
        assert_eq!(judged(10, &large), Ok(()));
        large.times.clear();
        assert!(judged(10, &large).is_err());
    }

    #[test]
    fn a_report_shows_both_times() {
        let told = Told {
            attacks: 2,
            lies: 70,
            bytes: 5 << 20,
        };
        let text = report(&[&phase("calm", 10), &phase("attacked", 20)], &told);
        for line in [
            "TIME      PODS  P50 MS  P99 MS  MAX MS  RSS MIB  PEAK MIB",
            "attacked     3      20      20      20     40.0      41.5",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(text.contains("2 attacks: 70 requests were lied about, 5 MiB were sent."));
    }
}
