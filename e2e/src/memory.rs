//! Resident memory of one process: sampled every second, or while something is done, and its peak as the kernel counts
//! it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::bench::proc::kib;

const PERIOD: Duration = Duration::from_secs(1);

/// Why a process can't be looked at.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel's figures can't be read.
    #[error("can't read {path}")]
    Proc {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The process isn't there any more.
    #[error("the process whose memory is measured has ended")]
    Gone,
}

/// A process whose memory is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Process {
    /// Its number.
    pub pid: i32,
}

/// What it took, in MiB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    /// The largest of the samples.
    pub(crate) sampled: f64,
    /// What it ever had between two of them.
    pub(crate) peak: f64,
}

/// What it took while something was done, in MiB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// When that began.
    pub before: f64,
    /// The most that it had from then on.
    pub peak: f64,
}

impl Change {
    /// How much more.
    pub fn growth(self) -> f64 {
        (self.peak - self.before).max(0.0)
    }
}

impl Process {
    /// Looks every second until the end, and once at least.
    pub(crate) async fn watch(self, end: &CancellationToken) -> Result<Taken, Error> {
        self.forget_peak()?;
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sampled = 0.0_f64;
        loop {
            ticks.tick().await;
            sampled = sampled.max(self.mib("VmRSS")?);
            if end.is_cancelled() {
                break;
            }
        }
        let peak = self.mib("VmHWM")?;
        Ok(Taken { sampled, peak })
    }

    /// What it takes while `work` is done, and what comes of that.
    pub async fn during<T>(self, work: impl Future<Output = T>) -> Result<(Change, T), Error> {
        self.forget_peak()?;
        let before = self.mib("VmRSS")?;
        let done = work.await;
        let peak = self.mib("VmHWM")?;
        Ok((Change { before, peak }, done))
    }

    /// The peak begins anew.
    fn forget_peak(self) -> Result<(), Error> {
        let path = self.file("clear_refs");
        fs::write(&path, "5").map_err(|source| Error::Proc { path, source })
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
        let end = CancellationToken::new();
        end.cancel();
        let taken = Process { pid }.watch(&end).await;
        let taken = taken.unwrap();
        assert!(taken.sampled > 0.0 && taken.peak > 0.0, "{taken:?}");
    }

    #[tokio::test]
    async fn what_is_taken_meanwhile_shows() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let fill = async { std::hint::black_box(vec![1_u8; 64 << 20]).len() };
        let (change, size) = Process { pid }.during(fill).await.unwrap();
        assert_eq!(size, 64 << 20);
        assert!(change.growth() > 32.0, "{change:?}");
    }
}
