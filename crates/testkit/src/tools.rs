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
}

/// A directory of tools.
#[derive(Debug, Clone)]
pub struct Tools {
    directory: PathBuf,
}

impl Tools {
    /// The directory that [`TOOLS_DIR_VARIABLE`] names, else `target/tools` of the workspace.
    pub fn find() -> Result<Self, Error> {
        let directory = std::env::var_os(TOOLS_DIR_VARIABLE).map_or_else(
            || dirs::workspace_root().join("target/tools"),
            PathBuf::from,
        );
        if directory.is_dir() {
            Ok(Self { directory })
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
        }
    }

    /// Path of one tool, such as `kube-apiserver`.
    pub fn path(&self, tool: &str) -> Result<PathBuf, Error> {
        let path = self.directory.join(tool);
        if path.is_file() {
            Ok(path)
        } else {
            Err(Error::Missing {
                tool: tool.to_owned(),
                directory: self.directory.clone(),
            })
        }
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
    fn a_missing_tool_says_what_to_do() {
        let error = Tools::at("/nonexistent").path("etcd").unwrap_err();
        assert_eq!(
            error.to_string(),
            "etcd is missing in /nonexistent: run `make tools`"
        );
    }
}
