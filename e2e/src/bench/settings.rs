//! What a figure rests on: the machine, versions, flags, shapes. Printed before the figures and kept beside them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::Command;

use pilotage_testkit::pilotage::binary;
use pilotage_testkit::{ControlPlane, Part};
use serde::Serialize;

use super::error::Error;
use super::load::REQUESTS;
use super::subject::{NODE_CPU, NODE_MEMORY, NODE_PODS, NODES};

/// What figures rest on.
#[derive(Debug, Clone, Serialize)]
pub struct Settings {
    /// CPUs that this process may use.
    pub cores: usize,
    /// The kernel's name for them.
    pub cpu: String,
    /// First line of each program's `--version`.
    pub versions: BTreeMap<String, String>,
    /// Flags of each part of a control plane that matter for its speed.
    pub flags: BTreeMap<String, Vec<String>>,
    /// Nodes of each cluster that runs pods.
    pub nodes: String,
    /// What each pod asks for.
    pub pods: String,
    /// File system of etcd's data, and whether writes are forced to disk.
    pub storage: String,
}

const PARTS: [(Part, &str); 5] = [
    (Part::Etcd, "etcd"),
    (Part::ApiServer, "kube-apiserver"),
    (Part::ControllerManager, "kube-controller-manager"),
    (Part::Scheduler, "kube-scheduler"),
    (Part::Kwok, "kwok"),
];

impl Settings {
    /// Those of this machine; flags come with [`Self::add`].
    pub(super) fn of_machine() -> Result<Self, Error> {
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpus
            .lines()
            .find_map(|line| line.strip_prefix("model name"));
        let request: Vec<_> = REQUESTS
            .iter()
            .map(|(resource, amount)| format!("{amount} {resource}"))
            .collect();
        let mut settings = Self {
            cores: cores(),
            cpu: model
                .and_then(|line| line.split_once(':'))
                .map_or_else(|| "unknown".to_owned(), |(_, name)| name.trim().to_owned()),
            versions: BTreeMap::new(),
            flags: BTreeMap::new(),
            nodes: format!(
                "{NODES} kwok nodes of {NODE_CPU} CPUs, {NODE_MEMORY}, {NODE_PODS} pods in each cluster that runs pods"
            ),
            pods: format!("one container, {}", request.join(", ")),
            storage: String::new(),
        };
        let pilotage = binary()?;
        let profile = pilotage.parent().and_then(Path::file_name);
        let version = version(&pilotage);
        let profile = profile.and_then(OsStr::to_str).unwrap_or("?");
        settings.versions.insert(
            "pilotage".to_owned(),
            format!("{version}, {profile} build {:08x}", fingerprint(&pilotage)),
        );
        Ok(settings)
    }

    /// What a control plane runs with.
    pub(super) fn add(&mut self, plane: &ControlPlane) {
        let directory = plane.directory().display().to_string();
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let system = file_system(&mounts, &directory).unwrap_or("unknown");
        self.storage = format!("etcd's data on {system}, --unsafe-no-fsync");
        for (part, name) in PARTS {
            let Ok(process) = plane.process(part) else {
                continue;
            };
            let spec = process.spec();
            let args = spec.args.iter().filter_map(|arg| arg.to_str());
            self.flags
                .entry(name.to_owned())
                .or_insert_with(|| telling(args, &directory));
            self.versions
                .entry(name.to_owned())
                .or_insert_with(|| version(&spec.program));
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut lines = vec![
            format!("machine   {} cores, {}", self.cores, self.cpu),
            format!("nodes     {}", self.nodes),
            format!("pods      {}", self.pods),
            format!("storage   {}", self.storage),
        ];
        for (program, version) in &self.versions {
            let flags = self.flags.get(program).map(|flags| flags.join(" "));
            lines.push(format!("{program}: {version}"));
            lines.extend(
                flags
                    .filter(|flags| !flags.is_empty())
                    .map(|f| format!("    {f}")),
            );
        }
        lines.join("\n")
    }
}

/// CPUs that this process may use.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn version(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}

/// Tells one build from another of the same version.
fn fingerprint(program: &Path) -> u32 {
    let mut hasher = DefaultHasher::new();
    fs::read(program).unwrap_or_default().hash(&mut hasher);
    hasher.finish() as u32
}

/// Flags without addresses and files of this run.
fn telling<'a>(args: impl Iterator<Item = &'a str>, directory: &str) -> Vec<String> {
    let local = |arg: &&str| {
        !arg.contains(directory) && !arg.contains("127.0.0.1:") && !arg.contains("-port=")
    };
    args.filter(local).map(str::to_owned).collect()
}

/// Type of the file system that a path is on: that of the longest mount point above it.
fn file_system<'a>(mounts: &'a str, path: &str) -> Option<&'a str> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (point, kind) = (fields.next()?, fields.next()?);
        let above = Path::new(path).starts_with(point);
        above.then_some((point.len(), kind))
    });
    mounts
        .max_by_key(|(length, _)| *length)
        .map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_decides() {
        let mounts = "/dev/vda / ext4 rw 0 0\ntmpfs /run tmpfs rw 0 0\ntmpfs /runs xfs rw 0 0\n";
        assert_eq!(file_system(mounts, "/run/a"), Some("tmpfs"));
        assert_eq!(file_system(mounts, "/home"), Some("ext4"));
        assert_eq!(file_system("", "/home"), None);
    }

    #[test]
    fn flags_of_the_run_are_left_out() {
        let flags = [
            "--unsafe-no-fsync",
            "--data-dir=/x/run/data",
            "--secure-port=7",
            "--etcd-servers=http://127.0.0.1:1",
        ];
        assert_eq!(telling(flags.into_iter(), "/x/run"), ["--unsafe-no-fsync"]);
    }
}
