//! `make bench-hostile`: all attacks, one after the other, on a source with three healthy targets: what that costs the
//! source's memory and the pods of others.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{FutureExt, TryFutureExt};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use pilotage_api::Right;
use pilotage_testkit::build;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::error::Error;
use super::siege::{self, HONEST, TENANT, Told};
use super::trickle;
use crate::bench::quantiles::Quantiles;
use crate::bench::table::table;
use crate::fleet::{Fleet, Spec};
use crate::memory::{Process, Taken};

const TARGETS: [&str; 3] = ["east", "north", "west"];
/// MiB that the source's one process may take, whatever it is told.
const AIM: f64 = 150.0;
/// So many times the p99 of calm times may be that of pods under attack …
const TIMES: f64 = 2.0;
/// … and longer than that by so many ms: in a calm time of few pods p99 is hardly more than a guess.
const LONGER: f64 = 200.0;
/// The first pods warm everything up.
const WARM: Duration = Duration::from_secs(10);
/// The longest measurement without an attack.
const CALM: Duration = Duration::from_mins(2);

/// What was measured in one time.
struct Phase {
    name: &'static str,
    times: Vec<Duration>,
    taken: Taken,
}

/// Attacks for so many minutes, or longer if not all attacks were played in these, and prints what that cost. An error
/// if the source took too much memory, the pods of others waited longer, or a pod or a target didn't do what it should.
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
    // The tenant has pods as well.
    fleet.elect(TENANT).await?;
    Ok(fleet)
}

async fn measure(fleet: &Fleet, time: Duration) -> Result<(), Error> {
    let process = fleet.source.processes.get("all").ok_or(Error::Gone)?;
    let pid = process.process().pids().await.ok_or(Error::Gone)?.child;
    let memory = Process { pid };
    let pods: Api<Pod> = Api::namespaced(fleet.source.plane.admin(), HONEST);
    during("warm", &pods, memory, sleep(WARM).map(Ok)).await?;
    let calm = time.min(CALM);
    eprintln!("{} s without an attack", calm.as_secs());
    let (before, ()) = during("calm", &pods, memory, sleep(calm).map(Ok)).await?;
    eprintln!("{} s under attack, or longer", time.as_secs());
    let besieging = Box::pin(siege::run(fleet, time));
    let (attacked, told) = during("attacked", &pods, memory, besieging).await?;
    println!("{}", report(&[&before, &attacked], &told));
    judge(&before, &attacked, &told)
}

/// Measures as long as something else is done; what comes of that.
async fn during<T>(
    name: &'static str,
    pods: &Api<Pod>,
    memory: Process,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<(Phase, T), Error> {
    let end = CancellationToken::new();
    let working = async {
        let done = work.await;
        end.cancel();
        done
    };
    let (times, taken, done) = tokio::try_join!(
        trickle::run(pods, name, &end),
        memory.watch(&end).map_err(Error::from),
        working,
    )?;
    Ok((Phase { name, times, taken }, done))
}

/// What was missed, attacks first, then memory.
fn judge(calm: &Phase, attacked: &Phase, told: &Told) -> Result<(), Error> {
    let (played, known) = (told.attacks, told.known);
    if played < known {
        return Err(Error::NotAll { played, known });
    }
    let (peak, aim) = (attacked.taken.peak, AIM);
    if peak > aim {
        return Err(Error::TooLarge { peak, aim });
    }
    let p99 = |phase: &Phase| Quantiles::of(phase.times.iter().copied()).map(|all| all.p99_ms);
    let (Some(calm), Some(attacked)) = (p99(calm), p99(attacked)) else {
        return Err(Error::NoPods);
    };
    let most = calm * TIMES + LONGER;
    if attacked > most {
        return Err(Error::TooSlow {
            calm,
            attacked,
            most,
        });
    }
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
        known,
        attacks,
        lies,
        bytes,
    } = told;
    format!(
        "\n{}\n\n{attacks} attacks, of {known} kinds: {lies} requests were lied about, {} MiB were sent. Pods: from \
         creation to binding. RSS: the largest of samples a second apart; at most {AIM} MiB at any time are wanted.",
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

    fn told(attacks: usize) -> Told {
        Told {
            known: 2,
            attacks,
            lies: 70,
            bytes: 5 << 20,
        }
    }

    #[test]
    fn others_may_wait_a_little_longer_and_memory_is_bounded() {
        let judged = |calm, attacked: &Phase| {
            let judged = judge(&phase("calm", calm), attacked, &told(2));
            judged.map_err(|error| error.to_string())
        };
        for (calm, attacked) in [(10, 220), (2_000, 4_200), (2_000, 1_000)] {
            assert_eq!(judged(calm, &phase("attacked", attacked)), Ok(()));
        }
        for (calm, attacked) in [(10, 221), (2_000, 4_201)] {
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
    fn whoever_did_not_play_all_attacks_shows_nothing() {
        let (calm, attacked) = (phase("calm", 10), phase("attacked", 10));
        let judged = |attacks| judge(&calm, &attacked, &told(attacks));
        let why = judged(1).unwrap_err().to_string();
        assert_eq!(why, "1 attacks were played, and there are 2");
        assert!(judged(2).is_ok() && judged(3).is_ok());
    }

    #[test]
    fn a_report_shows_both_times() {
        let text = report(&[&phase("calm", 10), &phase("attacked", 20)], &told(3));
        for line in [
            "TIME      PODS  P50 MS  P99 MS  MAX MS  RSS MIB  PEAK MIB",
            "attacked     3      20      20      20     40.0      41.5",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(
            text.contains("3 attacks, of 2 kinds: 70 requests were lied about, 5 MiB were sent.")
        );
    }
}
