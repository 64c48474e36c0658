//! Finds the real parts (`kube-apiserver`, `etcd`, …) on disk. It knows nothing of how they are built or started.

use std::path::{Path, PathBuf};

use crate::dirs;

/// Environment variable that points at a directory of ready-made tools.
pub const TOOLS_DIR_VARIABLE: &str = "PILOTAGE_TOOLS_DIR";

/// A tool cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No directory of tools was found.
    #[error(
        "no tools found at {searched}: run `make tools`, or set {TOOLS_DIR_VARIABLE} to a directory that has them"
    )]
    NoDirectory {
        /// Where we looked.
        searched: String,
    },
    /// The directory is there, the tool is not.
    #[error("{tool} is missing in {directory}: run `make tools`")]
    Missing {
        /// File name of the tool.
        tool: String,
        /// The directory that was searched.
        directory: PathBuf,
    },
    /// There is no Kubernetes of this version.
    #[error("no Kubernetes {version} at {directory}: run `make tools-skew`")]
    NoKubernetes {
        /// Its minor version.
        version: String,
        /// The directory that was searched.
        directory: PathBuf,
    },
}

/// A directory of tools.
#[derive(Debug, Clone)]
pub struct Tools {
    directory: PathBuf,
    /// The parts of another Kubernetes, which come before those of the same name.
    kubernetes: Option<PathBuf>,
}

impl Tools {
    /// The directory that [`TOOLS_DIR_VARIABLE`] names, else `target/tools` of the workspace.
    pub fn find() -> Result<Self, Error> {
        let directory = std::env::var_os(TOOLS_DIR_VARIABLE).map_or_else(
            || dirs::workspace_root().join("target/tools"),
            PathBuf::from,
        );
        if directory.is_dir() {
            Ok(Self::at(directory))
        } else {
            Err(Error::NoDirectory {
                searched: directory.display().to_string(),
            })
        }
    }

    /// Tools of a given directory.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            kubernetes: None,
        }
    }

    /// The same with the API server and controller manager of another Kubernetes, by its minor version (`1.34`).
    pub fn with_kubernetes(self, version: &str) -> Result<Self, Error> {
        let directory = self.directory.join(version);
        if directory.is_dir() {
            let kubernetes = Some(directory);
            Ok(Self { kubernetes, ..self })
        } else {
            Err(Error::NoKubernetes {
                version: version.to_owned(),
                directory,
            })
        }
    }

    /// Path of one tool, such as `kube-apiserver`.
    pub fn path(&self, tool: &str) -> Result<PathBuf, Error> {
        let other = self.kubernetes.as_ref().map(|other| other.join(tool));
        let path = self.directory.join(tool);
        other
            .into_iter()
            .chain([path])
            .find(|path| path.is_file())
            .ok_or_else(|| Error::Missing {
                tool: tool.to_owned(),
                directory: self.directory.clone(),
            })
    }

    /// The directory itself, for a `PATH`.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_another_kubernetes_come_before_those_of_the_same_name() {
        let run = dirs::RunDir::create("tools-test").unwrap();
        let file = |name: &str| {
            let path = run.file(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            path
        };
        file("kube-apiserver");
        let (etcd, older) = (file("etcd"), file("1.34/kube-apiserver"));
        let tools = Tools::at(run.path()).with_kubernetes("1.34").unwrap();
        assert_eq!(tools.path("kube-apiserver").unwrap(), older);
        assert_eq!(tools.path("etcd").unwrap(), etcd);
        let error = tools.with_kubernetes("1.2").unwrap_err().to_string();
        assert!(error.ends_with("/1.2: run `make tools-skew`"), "{error}");
    }

    #[test]
    fn a_missing_tool_says_what_to_do() {
        let error = Tools::at("/nonexistent").path("etcd").unwrap_err();
        assert_eq!(
            error.to_string(),
            "etcd is missing in /nonexistent: run `make tools`"
        );
    }
}
