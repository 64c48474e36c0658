//! Resident memory of one process: sampled every second, and its peak as the kernel counts it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use super::Error;
use crate::bench::proc::kib;

const PERIOD: Duration = Duration::from_secs(1);

/// A process whose memory is looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Process {
    pub(super) pid: i32,
}

/// What it took, in MiB.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    /// The largest of the samples.
    pub(super) sampled: f64,
    /// What it ever had between two of them.
    pub(super) peak: f64,
}

impl Process {
    /// Looks every second for so long, and once at least.
    pub(super) async fn watch(self, time: Duration) -> Result<Taken, Error> {
        let (path, end) = (self.file("clear_refs"), Instant::now() + time);
        // The peak begins anew.
        fs::write(&path, "5").map_err(|source| Error::Proc { path, source })?;
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sampled = 0.0_f64;
        loop {
            ticks.tick().await;
            sampled = sampled.max(self.mib("VmRSS")?);
            if Instant::now() >= end {
                break;
            }
        }
        let peak = self.mib("VmHWM")?;
        Ok(Taken { sampled, peak })
    }

    fn mib(self, key: &str) -> Result<f64, Error> {
        let path = self.file("status");
        let text = fs::read_to_string(&path).map_err(|source| Error::Proc { path, source })?;
        // One that has ended has no memory, and no line that says so.
        let kib = kib(&text, key).ok_or(Error::Gone)?;
        Ok(kib as f64 / 1_024.0)
    }

    fn file(self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.pid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_process_takes_something() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let taken = Process { pid }.watch(Duration::from_millis(1)).await;
        let taken = taken.unwrap();
        assert!(taken.sampled > 0.0 && taken.peak > 0.0, "{taken:?}");
    }
}
