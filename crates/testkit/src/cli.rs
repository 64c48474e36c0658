//! Running a command to its end under the supervisor and taking what it wrote. It knows nothing of what it runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::supervisor::{self, Exit, Spec, Supervised};

/// A command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be started.
    #[error("can't run {command}")]
    Start {
        /// The command line.
        command: String,
        /// Why not.
        #[source]
        source: supervisor::Error,
    },
    /// Its files could not be used.
    #[error("can't exchange files with {command}")]
    Files {
        /// The command line.
        command: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// It said no.
    #[error("{command} ended with {exit}: {stderr}")]
    Failed {
        /// The command line.
        command: String,
        /// How it ended.
        exit: Exit,
        /// What it wrote to standard error.
        stderr: String,
        /// What it wrote to standard output.
        stdout: String,
    },
}

/// A command that runs to its end.
#[derive(Debug, Clone)]
pub struct Command {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    input: Option<String>,
    directory: PathBuf,
}

impl Command {
    /// `directory` takes its input and output while it runs.
    pub fn new(program: impl Into<PathBuf>, directory: &Path) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            input: None,
            directory: directory.to_owned(),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds a variable to the environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Sets standard input.
    #[must_use]
    pub fn input(mut self, input: &str) -> Self {
        self.input = Some(input.to_owned());
        self
    }

    /// Runs it; returns its standard output when it ends with code 0.
    pub async fn run(self) -> Result<String, Error> {
        let command = self.line();
        let files = |source| Error::Files {
            command: command.clone(),
            source,
        };
        let scratch = self.directory.join(format!("command-{}", crate::unique()));
        std::fs::create_dir_all(&scratch).map_err(files)?;
        let result = self.run_in(&scratch, &command).await;
        let _ = std::fs::remove_dir_all(&scratch);
        result
    }

    async fn run_in(&self, scratch: &Path, command: &str) -> Result<String, Error> {
        let files = |source| Error::Files {
            command: command.to_owned(),
            source,
        };
        let (out, err, input) = (scratch.join("out"), scratch.join("err"), scratch.join("in"));
        let mut spec = Spec::new(&self.program, &err);
        spec.args.clone_from(&self.args);
        spec.env.clone_from(&self.env);
        spec.stdout = Some(out.clone());
        if let Some(text) = &self.input {
            std::fs::write(&input, text).map_err(files)?;
            spec.stdin = Some(input);
        }
        let running = Supervised::start(&spec).map_err(|source| Error::Start {
            command: command.to_owned(),
            source,
        })?;
        let exit = running.wait().await;
        let stdout = std::fs::read(&out).map_err(files)?;
        let stdout = String::from_utf8_lossy(&stdout).into_owned();
        if exit.success() {
            return Ok(stdout);
        }
        let stderr = std::fs::read(&err).map_err(files)?;
        let stderr = String::from_utf8_lossy(&stderr).trim().to_owned();
        Err(Error::Failed {
            command: command.to_owned(),
            exit,
            stderr,
            stdout,
        })
    }

    fn line(&self) -> String {
        let program = self.program.file_name().unwrap_or(self.program.as_os_str());
        let words = std::iter::once(program).chain(self.args.iter().map(OsString::as_os_str));
        words
            .map(|word| word.to_string_lossy().into_owned())
            .collect::<Vec<_>>()
            .join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn output_input_and_failure() {
        let run = crate::dirs::RunDir::create("cli-test").unwrap();
        let shell = |script: &str| Command::new("/bin/sh", run.path()).args(["-c", script]);
        let output = shell("cat; echo $WORD")
            .env("WORD", "b")
            .input("a\n")
            .run()
            .await
            .unwrap();
        assert_eq!(output, "a\nb\n");
        let error = shell("echo no >&2; exit 3").run().await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "sh -c echo no >&2; exit 3 ended with exit code 3: no"
        );
    }
}
