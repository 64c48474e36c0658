//! What `make` runs beside the tests: the demo, the benchmarks on real control planes, and the check of roles. One
//! binary, since each would hold all of this crate.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, value_parser};
use pilotage_e2e::bench::{alone, follow, runs::RUNS, shape::Shape};
use pilotage_e2e::{bench, demo, explain, garden, hostile, roles, scripts, streams};

/// Shows and measures Pilotage on local control planes.
#[derive(Debug, Parser)]
#[command(name = "e2e")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Shows the main job on three local clusters.
    Demo {
        /// Leave clusters and pods running until Ctrl-C, and print the kubeconfigs.
        #[arg(long)]
        keep: bool,
    },
    /// Runs the scripts of e2e/scenarios: what a user types, feature by feature.
    Scenarios(Scenarios),
    /// Shows that each right of each role was used by the tests, and none was missing.
    Roles,
    /// Measures what delegated pods cost and how long they take.
    BenchMulti(Multi),
    /// Measures `pilotage scheduler` beside the real kube-scheduler, each alone in a local cluster.
    BenchSched(Sched),
    /// Measures what placing a Gardener Shoot costs.
    BenchGardener {
        /// Shoots of each measurement.
        #[arg(long, value_name = "N", default_value_t = 1000, value_parser = value_parser!(u16).range(10..=10_000))]
        shoots: u16,
    },
    /// Measures what it costs that objects follow many pods, and fails if something is written that needn't be.
    BenchFollow {
        /// Pods, each with a ConfigMap of its own.
        #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = value_parser!(u16).range(2..=10_000))]
        pods: u16,

        /// Targets.
        #[arg(long, value_name = "N", default_value_t = 4, value_parser = value_parser!(u8).range(1..=20))]
        targets: u8,
    },
    /// Measures what all attacks of a hostile target cost the source and the pods of others, and fails if that is too
    /// much.
    BenchHostile {
        /// For how long it attacks; longer, until each attack was played once.
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = value_parser!(u64).range(1..=1440))]
        minutes: u64,
    },
    /// Measures by how much the kubelet server's process grows under many streams at once, and under much through one,
    /// and fails if that isn't flat.
    BenchStreams {
        /// Streams at once.
        #[arg(long, value_name = "N", default_value_t = 200, value_parser = value_parser!(u16).range(1..=256))]
        streams: u16,

        /// MiB of logs through one stream.
        #[arg(long, value_name = "N", default_value_t = 1024, value_parser = value_parser!(u64).range(1..=65_536))]
        mib: u64,
    },
}

#[derive(Debug, Args)]
struct Scenarios {
    /// Only these, separated by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,

    /// A directory with the kubeconfigs `source` and those of targets. Without it, three clusters are started here.
    #[arg(long, value_name = "DIR", requires = "namespace")]
    kubeconfigs: Option<PathBuf>,

    /// The namespace that is connected to the targets there.
    #[arg(long, value_name = "NAMESPACE", requires = "kubeconfigs")]
    namespace: Option<String>,
}

#[derive(Debug, Args)]
struct Multi {
    /// Only these runs, separated by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,

    /// Pods of each measurement.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = value_parser!(u16).range(5..=1000))]
    pods: u16,

    /// Pods a second where they aren't created as fast as possible.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = value_parser!(u32).range(1..=1000))]
    rate: u32,

    /// Writes all figures there as well.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Fails if an aim is missed: only on a quiet machine that means something.
    #[arg(long)]
    strict: bool,

    /// Shows the runs and ends.
    #[arg(long)]
    list: bool,
}

#[derive(Debug, Args)]
struct Sched {
    /// What the pods are like: several shapes, separated by commas, are measured one after the other.
    #[arg(
        long = "shape",
        value_name = "SHAPE",
        value_enum,
        value_delimiter = ',',
        default_value = "plain"
    )]
    shapes: Vec<Shape>,

    /// Pods of each load, as far as the nodes take them.
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = value_parser!(u16).range(5..=9_999))]
    pods: u16,

    /// Nodes of the cluster.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = value_parser!(u16).range(1..=5_000))]
    nodes: u16,

    /// Bursts of each scheduler; the best one counts.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u8).range(1..=20))]
    rounds: u8,

    /// Fails if an aim is missed: only on a quiet machine that means something.
    #[arg(long)]
    strict: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Cli::parse().command).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nfailed: {}", explain(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> Result<(), Box<dyn Error>> {
    match command {
        Command::Demo { keep } => match demo::run(keep).await {
            // To stop what was to be kept is what one does in the end.
            Err(demo::Error::Interrupted) if keep => {}
            ended => ended?,
        },
        Command::Scenarios(args) => {
            let given = args.kubeconfigs.zip(args.namespace);
            let only = args.only;
            scripts::run(scripts::Options { only, given }).await?;
        }
        Command::Roles => show_roles(&roles::run()?),
        Command::BenchMulti(args) => multi(args).await?,
        Command::BenchSched(args) => {
            alone::run(&alone::Options {
                shapes: args.shapes,
                pods: usize::from(args.pods),
                nodes: usize::from(args.nodes),
                rounds: usize::from(args.rounds),
                strict: args.strict,
            })
            .await?;
        }
        Command::BenchGardener { shoots } => garden::bench::run(usize::from(shoots)).await?,
        Command::BenchFollow { pods, targets } => {
            let (pods, targets) = (usize::from(pods), usize::from(targets));
            follow::run(follow::Options { pods, targets }).await?;
        }
        Command::BenchHostile { minutes } => hostile::bench::run(minutes).await?,
        Command::BenchStreams { streams, mib } => {
            let options = streams::bench::Options {
                streams: usize::from(streams),
                bytes: mib << 20,
            };
            Box::pin(streams::bench::run(options)).await?;
        }
    }
    Ok(())
}

async fn multi(args: Multi) -> Result<(), bench::Error> {
    if args.list {
        for run in RUNS {
            println!("{:14} {}", run.name, run.what);
        }
        return Ok(());
    }
    bench::run(&bench::Options {
        only: args.only,
        pods: usize::from(args.pods),
        rate: args.rate,
        json: args.json,
        strict: args.strict,
    })
    .await
}

fn show_roles(summary: &roles::Summary) {
    let roles::Summary {
        rights,
        uses,
        spared,
        doubtful,
    } = summary;
    println!("roles: each of {rights} rights was used, by {uses} sorts of requests");
    for exception in spared {
        println!("roles: an exception that wasn't needed this time: {exception}");
    }
    for refusal in doubtful {
        println!("roles: refused in a target, wanted or for want of a binding: {refusal}");
    }
}
