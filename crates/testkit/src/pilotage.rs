//! The `pilotage` binary as a process under test, and its generated roles. It knows no flags of it but those that the
//! caller names.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cli;
use crate::clock;
use crate::dirs::{self, RunDir};
use crate::plane::{self, ControlPlane};
use crate::ports::Port;
use crate::process::{self, Process};
use crate::ready::{self, Probe};
use crate::supervisor::{Exit, Signal, Spec};
use crate::wait::LIMIT;

/// Environment variable that names the binary.
pub const BINARY_VARIABLE: &str = "PILOTAGE_BIN";
/// Stands in arguments and files for the number of the admin port.
pub const ADMIN_PORT: &str = "{admin-port}";
/// Stands in arguments for the directory of the files.
pub const DIRECTORY: &str = "{directory}";

/// The binary can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It was not built.
    #[error(
        "no pilotage binary at {0}: build the workspace first, or name one in {BINARY_VARIABLE}"
    )]
    NoBinary(PathBuf),
    /// No port or directory.
    #[error("can't prepare a directory and a port for pilotage")]
    Prepare(#[source] std::io::Error),
    /// It did not start, or ended.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// Its admin port did not answer.
    #[error("the admin port {address} did not answer")]
    Admin {
        /// The address.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// It was run to its end and failed.
    #[error(transparent)]
    Command(#[from] cli::Error),
    /// Its roles were refused.
    #[error(transparent)]
    Plane(#[from] plane::Error),
}

/// Where the binary is: [`BINARY_VARIABLE`], else next to the running test (`target/<profile>/pilotage`).
pub fn binary() -> Result<PathBuf, Error> {
    if let Some(path) = std::env::var_os(BINARY_VARIABLE) {
        let path = PathBuf::from(path);
        return if path.is_file() {
            Ok(path)
        } else {
            Err(Error::NoBinary(path))
        };
    }
    let beside = std::env::current_exe().ok().and_then(|test| {
        // Tests are in `deps/`, binaries one above.
        test.ancestors()
            .skip(1)
            .take(2)
            .map(|d| d.join("pilotage"))
            .find(|path| path.is_file())
    });
    let built = dirs::workspace_root().join("target/debug/pilotage");
    beside
        .or_else(|| built.is_file().then(|| built.clone()))
        .ok_or(Error::NoBinary(built))
}

/// What to start.
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `start` is awaited"]
pub struct Builder {
    name: String,
    binary: Option<PathBuf>,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    files: Vec<(String, String)>,
    ready_path: Option<&'static str>,
    clock: Option<i64>,
}

impl Builder {
    /// Another binary than [`binary`]'s.
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// Adds arguments, in which [`ADMIN_PORT`] stands for the number of a free port.
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Writes a file into [`DIRECTORY`] before it starts.
    pub fn file(mut self, name: &str, text: &str) -> Self {
        self.files.push((name.to_owned(), text.to_owned()));
        self
    }

    /// Adds a variable to the environment.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Its wall clock is ahead by so many seconds, or behind; no other clock is.
    pub fn clock(mut self, seconds: i64) -> Self {
        self.clock = Some(seconds);
        self
    }

    /// It is ready when it answers 200 to this path of the admin port (default `/readyz`); `None` doesn't wait.
    pub fn ready_path(mut self, path: Option<&'static str>) -> Self {
        self.ready_path = path;
        self
    }

    /// Starts it and waits until it is ready.
    pub async fn start(self) -> Result<PilotageProcess, Error> {
        let binary = match self.binary {
            Some(path) => path,
            None => binary()?,
        };
        let run = RunDir::create(&self.name).map_err(Error::Prepare)?;
        let admin = Port::reserve().map_err(Error::Prepare)?;
        let port = admin.number().to_string();
        for (name, text) in &self.files {
            let text = text.replace(ADMIN_PORT, &port);
            std::fs::write(run.file(name), text).map_err(Error::Prepare)?;
        }
        let directory = run.path().display().to_string();
        let args = self.args.into_iter().map(|arg| match arg.to_str() {
            Some(text) => {
                let text = text.replace(ADMIN_PORT, &port);
                OsString::from(text.replace(DIRECTORY, &directory))
            }
            None => arg,
        });
        let mut spec = Spec::new(binary, run.file("pilotage.log"))
            .args(args)
            // Whoever forgets to say which cluster is meant must not get the developer's own.
            .env("KUBECONFIG", run.file("none.kubeconfig"))
            .env("HOME", run.path());
        spec.env.extend(self.env);
        if let Some(seconds) = self.clock {
            let environment = clock::environment(run.path(), seconds);
            spec.env.extend(environment.map_err(Error::Prepare)?);
        }
        let probe = match self.ready_path {
            Some(path) => Probe::Http {
                address: admin.address(),
                path,
            },
            None => Probe::None,
        };
        let process = Process::start(self.name, spec, probe).await?;
        let process = PilotageProcess {
            process,
            admin,
            run,
        };
        if self.ready_path.is_some() {
            process.process.ready(LIMIT).await?;
        }
        Ok(process)
    }
}

/// A running `pilotage`. Dropping it kills it.
#[derive(Debug)]
pub struct PilotageProcess {
    process: Process,
    admin: Port,
    run: RunDir,
}

impl PilotageProcess {
    /// `name` is that of the log's directory.
    pub fn builder(name: &str) -> Builder {
        Builder {
            name: name.to_owned(),
            binary: None,
            args: Vec::new(),
            env: Vec::new(),
            files: Vec::new(),
            ready_path: Some("/readyz"),
            clock: None,
        }
    }

    /// Where its admin port listens, if it was told [`ADMIN_PORT`].
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.address()
    }

    /// Asks its admin port: status and body.
    pub async fn admin_get(&self, path: &str) -> Result<(u16, String), Error> {
        let address = self.admin.address();
        ready::http_get(address, path)
            .await
            .map_err(|source| Error::Admin { address, source })
    }

    /// Its log file.
    pub fn log(&self) -> &Path {
        self.process.log()
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        self.run.path()
    }

    /// The end of its log.
    pub fn tail(&self) -> String {
        self.process.tail()
    }

    /// The process, for everything else.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Sends a signal.
    pub async fn signal(&self, signal: Signal) -> Result<(), Error> {
        Ok(self.process.signal(signal).await?)
    }

    /// SIGKILL, and waits until it is gone.
    pub async fn kill(&self) -> Option<Exit> {
        self.process.kill().await
    }

    /// SIGTERM, then SIGKILL after `grace`; how it ended.
    pub async fn stop(&self, grace: Duration) -> Option<Exit> {
        self.process.stop(grace).await
    }

    /// Starts it again with the same arguments and waits until it is ready.
    pub async fn restart(&self) -> Result<(), Error> {
        Ok(self.process.restart(LIMIT).await?)
    }
}

/// Runs `pilotage` to its end; returns its standard output.
pub async fn run(
    binary: &Path,
    directory: &Path,
    args: impl IntoIterator<Item = impl Into<OsString>>,
) -> Result<String, Error> {
    Ok(cli::Command::new(binary, directory)
        .args(args)
        .run()
        .await?)
}

/// Runs `pilotage` with `args` (such as `rbac …`) and applies what it prints to a control plane, as administrator.
pub async fn apply_output(
    plane: &ControlPlane,
    binary: &Path,
    args: impl IntoIterator<Item = impl Into<OsString>>,
) -> Result<(), Error> {
    let yaml = run(binary, plane.directory(), args).await?;
    plane.apply_yaml(&yaml).await?;
    Ok(())
}
