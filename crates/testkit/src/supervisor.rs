//! Child processes that cannot outlive us. It knows nothing of what they do.
//!
//! A child is started by a supervisor, a small shell that leads a process group of its own and holds the reading end
//! of a pipe. Only this process has the writing end (it is close-on-exec from its first moment, so no other child
//! inherits it). When this process ends, in whatever way, the reader sees the end of the pipe and kills its whole
//! group with SIGKILL. Two guards read, and the supervisor itself is watched from here, so that killing any single
//! one of these processes leaves nothing behind.
//!
//! The parent-death signal of Linux would fire when the *thread* that started the child ends, and test harnesses run
//! each test in a thread.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open};
use tokio::sync::watch;

use crate::terminal::Terminal;

/// `$1`: standard input of the child, `$2`: its standard output, then the command. Descriptor 3 is the pipe; standard
/// error is the log. `kill 0` is the group of the shell, so no number can have become somebody else's.
const SCRIPT: &str = r#"
exec 3<&0 </dev/null
in=$1 out=$2
shift 2
guard() {
	while read -r _ <&3; do :; done
	kill -KILL 0
}
guard >/dev/null &
guard >/dev/null &
"$@" <"$in" >>"$out" 3<&- &
child=$!
echo "$child"
exec >/dev/null
wait "$child"
"#;

/// How long the kernel may take to clear away a killed process.
const DYING: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};

/// A child could not be started or signalled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program is not a file.
    #[error("{0} is not there")]
    NoProgram(PathBuf),
    /// A file for its output could not be opened.
    #[error("can't write {path}")]
    Log {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The shell did not start.
    #[error("can't start {program}")]
    Spawn {
        /// What should have run.
        program: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The kernel refused a signal.
    #[error("can't send {signal:?} to process {pid}")]
    Signal {
        /// The signal.
        signal: Signal,
        /// The process.
        pid: i32,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// What to start.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Environment on top of ours.
    pub env: Vec<(OsString, OsString)>,
    /// Where standard error goes (appended).
    pub log: PathBuf,
    /// Where standard output goes (appended); the log unless set.
    pub stdout: Option<PathBuf>,
    /// Standard input; nothing unless set.
    pub stdin: Option<PathBuf>,
}

impl Spec {
    /// A program that writes all it has to say into `log`.
    pub fn new(program: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            log: log.into(),
            stdout: None,
            stdin: None,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
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

    /// Reads from this terminal and writes to it.
    #[must_use]
    pub fn terminal(mut self, terminal: &Terminal) -> Self {
        self.stdin = Some(terminal.path().to_owned());
        self.stdout = Some(terminal.path().to_owned());
        self
    }
}

/// Signals that tests send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: please end.
    Terminate,
    /// SIGKILL: end now.
    Kill,
    /// SIGSTOP: freeze.
    Stop,
    /// SIGCONT: go on.
    Continue,
    /// SIGINT, as from a terminal.
    Interrupt,
    /// SIGWINCH: its terminal has another size.
    Resized,
}

impl Signal {
    fn number(self) -> rustix::process::Signal {
        match self {
            Self::Terminate => rustix::process::Signal::TERM,
            Self::Kill => rustix::process::Signal::KILL,
            Self::Stop => rustix::process::Signal::STOP,
            Self::Continue => rustix::process::Signal::CONT,
            Self::Interrupt => rustix::process::Signal::INT,
            Self::Resized => rustix::process::Signal::WINCH,
        }
    }
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// By SIGKILL, together with its supervisor.
    Killed,
}

impl Exit {
    /// Code 0.
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(number) => write!(f, "signal {number}"),
            Self::Killed => f.write_str("SIGKILL"),
        }
    }
}

/// Process ids of a supervised child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pids {
    /// The supervisor, which is also the number of the group.
    pub supervisor: i32,
    /// The child.
    pub child: i32,
}

/// A running child. Dropping it kills the child and everything that it started in its group.
#[derive(Debug)]
pub struct Supervised {
    shared: Arc<Shared>,
    // The writing end of the pipe. Closing it is what kills.
    _owner: ChildStdin,
}

#[derive(Debug)]
struct Shared {
    supervisor: Pid,
    child: Pid,
    /// Readable when the child has ended; its supervisor can be gone before it (`None`: the child ended at once).
    handle: Option<OwnedFd>,
    /// While this is `None` the supervisor was not reaped, so the numbers of its group are still ours.
    exit: Mutex<Option<Exit>>,
    /// Told when `exit` is set.
    ended: watch::Sender<Option<Exit>>,
}

impl Supervised {
    /// Starts a child. Blocks for the few milliseconds until the child has a process id.
    pub fn start(spec: &Spec) -> Result<Self, Error> {
        if !spec.program.is_file() {
            return Err(Error::NoProgram(spec.program.clone()));
        }
        let log = append(&spec.log)?;
        let stdout = spec.stdout.as_ref().unwrap_or(&spec.log);
        append(stdout)?;
        let spawn_error = |source| Error::Spawn {
            program: spec.program.clone(),
            source,
        };
        let mut supervisor = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "supervisor"])
            .arg(
                spec.stdin
                    .clone()
                    .unwrap_or_else(|| PathBuf::from("/dev/null")),
            )
            .arg(stdout)
            .arg(&spec.program)
            .args(&spec.args)
            .envs(spec.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0)
            .spawn()
            .map_err(spawn_error)?;
        let (Some(owner), Some(report)) = (supervisor.stdin.take(), supervisor.stdout.take())
        else {
            return Err(spawn_error(io::ErrorKind::BrokenPipe.into()));
        };
        let mut line = String::new();
        BufReader::new(report)
            .read_line(&mut line)
            .map_err(spawn_error)?;
        let child = line.trim().parse().ok().and_then(Pid::from_raw);
        let Some(child) = child else {
            return Err(spawn_error(io::Error::other(
                "the supervisor named no process",
            )));
        };
        let shared = Arc::new(Shared {
            supervisor: Pid::from_child(&supervisor),
            child,
            handle: pidfd_open(child, PidfdFlags::empty()).ok(),
            exit: Mutex::new(None),
            ended: watch::Sender::new(None),
        });
        let reaped = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("testkit-reaper".to_owned())
            .spawn(move || reaped.reap(supervisor))
            .map_err(spawn_error)?;
        Ok(Self {
            shared,
            _owner: owner,
        })
    }

    /// Sends a signal to the child itself. No error if it has ended.
    pub fn signal(&self, signal: Signal) -> Result<(), Error> {
        let exit = self
            .shared
            .exit
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if exit.is_some() {
            return Ok(());
        }
        match rustix::process::kill_process(self.shared.child, signal.number()) {
            // The supervisor has reaped it and is about to end.
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(errno) => Err(Error::Signal {
                signal,
                pid: self.shared.child.as_raw_nonzero().get(),
                source: errno.into(),
            }),
        }
    }

    /// Process ids.
    pub fn pids(&self) -> Pids {
        Pids {
            supervisor: self.shared.supervisor.as_raw_nonzero().get(),
            child: self.shared.child.as_raw_nonzero().get(),
        }
    }

    /// How it ended, if it has.
    pub fn exit(&self) -> Option<Exit> {
        *self
            .shared
            .exit
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for its end.
    pub async fn wait(&self) -> Exit {
        self.ended().await
    }

    /// [`Self::wait`] without a borrow.
    pub fn ended(&self) -> impl Future<Output = Exit> + Send + 'static {
        let mut ended = self.shared.ended.subscribe();
        async move {
            let exit = ended.wait_for(Option::is_some).await;
            // The sender can go only after it has told.
            exit.ok().and_then(|exit| *exit).unwrap_or(Exit::Killed)
        }
    }

    /// Asks it to end, and kills it when it has not after `grace`.
    pub async fn stop(self, grace: Duration) -> Exit {
        let _ = self.signal(Signal::Terminate);
        let _ = self.signal(Signal::Continue);
        if let Ok(exit) = tokio::time::timeout(grace, self.wait()).await {
            return exit;
        }
        self.kill().await
    }

    /// Kills the child and its group, and waits until they are gone.
    pub async fn kill(self) -> Exit {
        self.shared.kill_group();
        self.wait().await
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        self.shared.kill_group();
    }
}

impl Shared {
    fn kill_group(&self) {
        let exit = self.exit.lock().unwrap_or_else(PoisonError::into_inner);
        if exit.is_none() {
            let _ =
                rustix::process::kill_process_group(self.supervisor, rustix::process::Signal::KILL);
        }
    }

    /// Waits for the supervisor's end, ends what is left of its group, and only then lets its number go.
    fn reap(&self, mut supervisor: Child) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) =
            rustix::process::waitid(WaitId::Pid(self.supervisor), options)
        {}
        self.kill_group();
        if let Some(handle) = &self.handle {
            // Who starts it again needs its port. A process that can't die even now keeps nobody for ever.
            let _ = poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&DYING));
        }
        let mut slot = self.exit.lock().unwrap_or_else(PoisonError::into_inner);
        let status = supervisor.wait();
        let exit = match status.map(|status| (status.code(), status.signal())) {
            // A shell says 128 + number for a child that a signal ended.
            Ok((Some(code), _)) if code > 128 => Exit::Signal(code - 128),
            Ok((Some(code), _)) => Exit::Code(code),
            _ => Exit::Killed,
        };
        *slot = Some(exit);
        drop(slot);
        self.ended.send_replace(Some(exit));
    }
}

fn append(path: &PathBuf) -> Result<File, Error> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(|source| Error::Log {
            path: path.clone(),
            source,
        })
}
