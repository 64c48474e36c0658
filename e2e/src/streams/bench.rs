//! `make bench-streams`: many streams at once, and much through one, and by how much the kubelet server's process grows
//! meanwhile.

use std::time::Duration;

use tokio::time::Instant;

use super::{Error, Stage, at_once, one_log};
use crate::bench::table::table;
use crate::fleet::Spec;
use crate::memory::Change;

/// How much to pass.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Streams at once.
    pub streams: usize,
    /// Bytes through one stream.
    pub bytes: u64,
}

/// MiB by which the process may grow, whatever passes: what an allocator and a runtime take when they first work hard.
pub const BASE: f64 = 16.0;
/// MiB by which it may grow for each stream that is open.
const STREAM: f64 = 0.25;

/// One measurement.
#[derive(Debug, Clone, Copy)]
pub struct Phase {
    name: &'static str,
    streams: usize,
    bytes: u64,
    time: Duration,
    memory: Change,
}

/// Measures, prints, and fails if memory isn't flat.
pub async fn run(options: Options) -> Result<(), Error> {
    let measuring = async {
        let stage = Stage::start(Spec::new()).await?;
        let measured = stage.fleet.hold(measure(&stage, options)).await;
        stage.stop().await;
        let phases = measured?;
        println!("{}", report(&phases));
        phases.iter().try_for_each(judge)
    };
    tokio::select! {
        measured = measuring => measured,
        interrupted = tokio::signal::ctrl_c() => Err(interrupted.map_or_else(Error::Signal, |()| Error::Interrupted)),
    }
}

/// Both measurements on a stage.
pub async fn measure(stage: &Stage, options: Options) -> Result<[Phase; 2], Error> {
    let Options { streams, bytes } = options;
    stage.works().await?;
    let process = stage.process().await?;
    let begin = Instant::now();
    let (memory, read) = process.during(at_once(stage, streams)).await?;
    let many = Phase {
        name: "streams at once",
        streams,
        bytes: read?,
        time: begin.elapsed(),
        memory,
    };
    let begin = Instant::now();
    let (memory, read) = process.during(one_log(stage, bytes)).await?;
    let much = Phase {
        name: "one log",
        streams: 1,
        bytes: read?,
        time: begin.elapsed(),
        memory,
    };
    Ok([many, much])
}

/// Whether memory was flat.
pub fn judge(phase: &Phase) -> Result<(), Error> {
    let (growth, aim) = (phase.memory.growth(), BASE + STREAM * phase.streams as f64);
    if growth > aim {
        let what = phase.name;
        return Err(Error::NotFlat { what, growth, aim });
    }
    Ok(())
}

/// A table, and what it comes to.
pub fn report(phases: &[Phase]) -> String {
    let rows = phases.iter().map(|phase| {
        let mib = phase.bytes as f64 / f64::from(1 << 20);
        let Change { before, peak } = phase.memory;
        let growth = phase.memory.growth();
        vec![
            phase.name.to_owned(),
            phase.streams.to_string(),
            format!("{mib:.1}"),
            format!("{:.0}", mib / phase.time.as_secs_f64()),
            format!("{before:.1}"),
            format!("{peak:.1}"),
            format!("{growth:.1}"),
            if phase.streams > 1 {
                format!("{:.0} KiB a stream", growth * 1024.0 / phase.streams as f64)
            } else {
                format!("{:.2} % of what passed", growth * 100.0 / mib)
            },
        ]
    });
    let titles = [
        "WHAT", "STREAMS", "MIB", "MIB/S", "RSS", "PEAK", "GROWTH", "RATIO",
    ];
    format!(
        "\n{}\n\nRSS, PEAK and GROWTH are MiB of the kubelet server's process. It may grow by {BASE} MiB, and by \
         {STREAM} MiB a stream, whatever passes.",
        table(&titles, &rows.collect::<Vec<_>>()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(streams: usize, peak: f64) -> Phase {
        Phase {
            name: "one log",
            streams,
            bytes: 64 << 20,
            time: Duration::from_secs(2),
            memory: Change { before: 30.0, peak },
        }
    }

    #[test]
    fn memory_may_grow_with_streams_and_not_with_what_passes() {
        for (streams, peak) in [(1, 46.0), (40, 56.0), (1, 20.0)] {
            assert!(judge(&phase(streams, peak)).is_ok());
        }
        let error = judge(&phase(1, 47.0)).unwrap_err().to_string();
        assert!(error.contains("grow by 17.0 MiB"), "{error}");
    }

    #[test]
    fn a_report_shows_ratios() {
        let text = report(&[phase(1, 38.0), phase(64, 38.0)]);
        for line in [
            "WHAT     STREAMS   MIB  MIB/S   RSS  PEAK  GROWTH                   RATIO",
            "one log        1  64.0     32  30.0  38.0     8.0  12.50 % of what passed",
            "one log       64  64.0     32  30.0  38.0     8.0        128 KiB a stream",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
