//! What the kernel tells in `/proc` about CPU and memory: parsing and adding up. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

/// Ticks a second of `/proc/*/stat`: part of the kernel's interface on every architecture that Kubernetes runs on.
const TICKS: u64 = 100;

/// One process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Who started it, or whoever adopted it.
    pub parent: i32,
    /// CPU of the process alone.
    pub own: Duration,
    /// CPU of the process and of the children that it has waited for.
    pub cpu: Duration,
}

/// All CPUs together, since the machine's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Doing something.
    pub busy: Duration,
    /// Taken by the hypervisor for others.
    pub stolen: Duration,
}

/// `/proc/<pid>/stat`.
pub fn stat(text: &str) -> Option<Stat> {
    // The name stands in brackets and may contain anything.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    // User and system, own and waited-for children's.
    let own = number(11)? + number(12)?;
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        own: ticks(own),
        cpu: ticks(own + number(13)? + number(14)?),
    })
}

/// The line `cpu` of `/proc/stat`.
pub fn machine(text: &str) -> Option<Machine> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = line
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    let at = |index: usize| fields.get(index).copied();
    // user nice system idle iowait irq softirq steal; guest time is part of user time.
    Some(Machine {
        busy: ticks(at(0)? + at(1)? + at(2)? + at(5)? + at(6)?),
        stolen: ticks(at(7)?),
    })
}

/// A line of `/proc/<pid>/status` whose value is in KiB, such as `VmHWM`.
pub fn kib(text: &str, key: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// CPU of a process and everything that descends from it; `None` if it isn't there.
pub fn tree(all: &BTreeMap<i32, Stat>, root: i32) -> Option<Duration> {
    let own = all.get(&root)?.cpu;
    let children = all.iter().filter(|(_, stat)| stat.parent == root);
    Some(children.fold(own, |sum, (pid, _)| {
        sum + tree(all, *pid).unwrap_or_default()
    }))
}

fn ticks(count: u64) -> Duration {
    Duration::from_millis(count * 1_000 / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_an_odd_name_is_read() {
        let text = "42 (a) b (c) S 7 42 42 0 -1 4194560 1 2 3 4 150 50 20 5 20 0 9 0 1 2 3";
        let want = Stat {
            parent: 7,
            own: Duration::from_secs(2),
            cpu: Duration::from_millis(2_250),
        };
        assert_eq!(stat(text), Some(want));
        assert_eq!(stat("42 (a) S 7"), None);
    }

    #[test]
    fn descendants_count_with_their_root() {
        let process = |parent, seconds| Stat {
            parent,
            own: Duration::ZERO,
            cpu: Duration::from_secs(seconds),
        };
        let all = BTreeMap::from([
            (1, process(0, 100)),
            (2, process(1, 1)),
            (3, process(2, 2)),
            (4, process(3, 4)),
            (5, process(1, 50)),
        ]);
        assert_eq!(tree(&all, 2), Some(Duration::from_secs(7)));
        assert_eq!(tree(&all, 9), None);
    }

    #[test]
    fn waiting_is_not_busy() {
        let text = "cpu  10 20 30 4000 500 60 70 80 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        let want = Machine {
            busy: Duration::from_millis(1_900),
            stolen: Duration::from_millis(800),
        };
        assert_eq!(machine(text), Some(want));
    }

    #[test]
    fn memory_is_found_by_its_key() {
        let text = "Name:\tetcd\nVmPeak:\t  900 kB\nVmHWM:\t   38912 kB\n";
        assert_eq!(kib(text, "VmHWM"), Some(38_912));
        assert_eq!(kib(text, "VmRSS"), None);
    }
}
