//! Where things lie on disk: the workspace, and one directory a run under `target/testkit/`, which keeps the logs.
//! It knows nothing of what is written there.
//!
//! A run directory is held by a locked file as long as its owner lives, so that a later run can tell what a killed
//! one left behind: the data is removed then, the logs of the newest runs stay. Before one goes for good,
//! [`crate::usage`] takes out of it what is needed longer.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::usage;

/// Run directories that are kept for their logs.
const KEPT_RUNS: usize = 60;
/// Held with a lock by the process that owns the directory.
const OWNER_FILE: &str = "owner.lock";
/// Part of a run directory that is worthless once its owner is gone.
const DATA: &str = "data";

/// Root of the workspace: the nearest directory with a `Cargo.lock`, from `CARGO_MANIFEST_DIR` upwards.
pub fn workspace_root() -> PathBuf {
    let start = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    start
        .ancestors()
        .find(|directory| directory.join("Cargo.lock").is_file())
        .map_or_else(|| start.clone(), Path::to_path_buf)
}

/// Where run directories are made.
pub fn runs() -> PathBuf {
    workspace_root().join("target/testkit")
}

/// A directory of its own for one control plane or process.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    // Locked until dropped, or until this process ends in any way.
    _owner: File,
}

impl RunDir {
    /// Makes `target/testkit/<name>-<process>-<number>/` and takes away what dead runs left.
    pub fn create(name: &str) -> io::Result<Self> {
        let parent = runs();
        fs::create_dir_all(&parent)?;
        prune(&parent);
        let mut number = 0_u32;
        let path = loop {
            let path = parent.join(format!("{name}-{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => break path,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        };
        let owner = File::create(path.join(OWNER_FILE))?;
        owner.lock()?;
        Ok(Self {
            path,
            _owner: owner,
        })
    }

    /// The directory, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The sub-directory for data that nobody needs once the run is over.
    pub fn data(&self) -> PathBuf {
        self.path.join(DATA)
    }

    /// Removes [`Self::data`]. Failing to do so harms nobody: a later run tries again.
    pub fn remove_data(&self) {
        let _ = fs::remove_dir_all(self.data());
    }

    /// The same but for one sub-directory.
    pub(crate) fn remove_data_but(&self, kept: &str) {
        for entry in fs::read_dir(self.data()).into_iter().flatten().flatten() {
            if entry.file_name() != kept {
                let _ = fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path()));
            }
        }
    }
}

/// Removes the data of dead runs, and whole directories beyond the newest [`KEPT_RUNS`].
fn prune(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    let mut dead: Vec<(SystemTime, PathBuf, File)> = entries
        .flatten()
        .filter_map(|entry| {
            let path = entry.path();
            // A directory that is being made has no locked file yet; it has no data either.
            let owner = File::open(path.join(OWNER_FILE)).ok()?;
            owner.try_lock().ok()?;
            // Locked until it is removed: one that is being made may have its file already, and lock it only now.
            Some((entry.metadata().ok()?.modified().ok()?, path, owner))
        })
        .collect();
    dead.sort_by(|(a, a_path, _), (b, b_path, _)| (b, b_path).cmp(&(a, a_path)));
    for (rank, (_, path, _owner)) in dead.into_iter().enumerate() {
        let _ = if rank < KEPT_RUNS {
            fs::remove_dir_all(path.join(DATA))
        } else {
            usage::keep(parent, &path).and_then(|()| fs::remove_dir_all(path))
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_a_dead_run_goes_and_that_of_a_living_one_stays() {
        let parent = runs().join(format!("prune-test-{}", std::process::id()));
        let living = parent.join("living");
        let dead = parent.join("dead");
        for run in [&living, &dead] {
            fs::create_dir_all(run.join(DATA)).unwrap();
            fs::write(run.join("etcd.log"), "x").unwrap();
            File::create(run.join(OWNER_FILE)).unwrap();
        }
        let owner = File::open(living.join(OWNER_FILE)).unwrap();
        owner.lock().unwrap();
        prune(&parent);
        assert!(living.join(DATA).is_dir());
        assert!(!dead.join(DATA).exists());
        assert!(dead.join("etcd.log").is_file());
        fs::remove_dir_all(&parent).unwrap();
    }
}
