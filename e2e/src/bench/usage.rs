//! What processes have used of the machine, sampled from `/proc`. What the kernel's text means is in `proc`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::error::Error;
use super::proc::{self, Machine, Stat};

/// A process that is measured, with everything that it starts unless it starts the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// What kind it is: `pilotage`, `kube-apiserver`…
    pub group: &'static str,
    /// `<cluster> <part>`.
    pub name: String,
    /// Its process.
    pub pid: i32,
    /// What it starts doesn't count as its own: it is this process, the ancestor of all that are measured.
    pub is_ancestor: bool,
}

/// CPU up to a moment.
#[derive(Debug, Clone)]
pub struct Sample {
    /// The moment.
    pub at: Instant,
    /// By program, in their order.
    cpu: Vec<Duration>,
    machine: Machine,
}

/// CPU between two samples.
#[derive(Debug, Clone)]
pub struct Used {
    /// From one to the other.
    pub time: Duration,
    /// By program, in their order.
    pub cpu: Vec<Duration>,
    /// By everybody on this machine.
    pub machine: Duration,
    /// Kept from this machine by its hypervisor.
    pub stolen: Duration,
}

impl Sample {
    /// Takes one.
    pub(super) fn take(programs: &[Program]) -> Result<Self, Error> {
        let all = processes()?;
        let path = PathBuf::from("/proc/stat");
        let machine = proc::machine(&read(&path)?).ok_or(Error::Unreadable(path))?;
        let cpu = programs.iter().map(|program| {
            let cpu = if program.is_ancestor {
                all.get(&program.pid).map(|stat| stat.own)
            } else {
                proc::tree(&all, program.pid)
            };
            cpu.ok_or_else(|| Error::Ended(program.name.clone()))
        });
        Ok(Self {
            at: Instant::now(),
            cpu: cpu.collect::<Result<_, _>>()?,
            machine,
        })
    }

    /// From this one to a later one.
    pub(super) fn until(&self, later: &Self) -> Used {
        let between = |before: &Duration, after: &Duration| after.saturating_sub(*before);
        let cpu = self.cpu.iter().zip(&later.cpu);
        Used {
            time: later.at.saturating_duration_since(self.at),
            cpu: cpu.map(|(before, after)| between(before, after)).collect(),
            machine: between(&self.machine.busy, &later.machine.busy),
            stolen: between(&self.machine.stolen, &later.machine.stolen),
        }
    }
}

fn processes() -> Result<BTreeMap<i32, Stat>, Error> {
    let root = Path::new("/proc");
    let entries = fs::read_dir(root).map_err(|source| Error::Proc {
        path: root.to_owned(),
        source,
    })?;
    let stats = entries.flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        // One that has ended since is nobody's child any more.
        let text = fs::read_to_string(entry.path().join("stat")).ok()?;
        Some((pid, proc::stat(&text)?))
    });
    Ok(stats.collect())
}

/// Makes the peaks of memory begin anew.
pub(super) fn reset_peaks(programs: &[Program]) -> Result<(), Error> {
    for program in programs {
        let path = PathBuf::from(format!("/proc/{}/clear_refs", program.pid));
        fs::write(&path, "5").map_err(|source| Error::Proc { path, source })?;
    }
    Ok(())
}

/// Peak of each program's own memory since [`reset_peaks`], in KiB, in their order.
pub(super) fn peaks(programs: &[Program]) -> Result<Vec<u64>, Error> {
    let peak = |program: &Program| {
        let path = PathBuf::from(format!("/proc/{}/status", program.pid));
        proc::kib(&read(&path)?, "VmHWM").ok_or(Error::Unreadable(path))
    };
    programs.iter().map(peak).collect()
}

/// What a program's own memory is now, in KiB.
pub(super) fn resident(program: &Program) -> Result<u64, Error> {
    let path = PathBuf::from(format!("/proc/{}/status", program.pid));
    proc::kib(&read(&path)?, "VmRSS").ok_or(Error::Unreadable(path))
}

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| Error::Proc {
        path: path.to_owned(),
        source,
    })
}
