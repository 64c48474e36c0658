//! A terminal for a program under the supervisor: what is typed there, what is shown, and its size. It knows nothing of
//! the program.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// A pseudo terminal. A program gets it by [`Spec::terminal`](crate::supervisor::Spec::terminal). It is nobody's
/// controlling terminal, so that no signal comes from it: who changes its size sends
/// [`Signal::Resized`](crate::Signal::Resized).
#[derive(Debug)]
pub struct Terminal {
    /// Where one types and looks. Reading waits for nothing.
    controller: File,
    path: PathBuf,
    shown: Vec<u8>,
    /// Without anybody on this side, looking would be an error.
    _user: OwnedFd,
}

impl Terminal {
    /// A new one of this size.
    pub fn open(rows: u16, columns: u16) -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let controller = openpt(flags)?;
        unlockpt(&controller)?;
        let name = ptsname(&controller, Vec::<u8>::new())?;
        let user = ioctl_tiocgptpeer(&controller, flags)?;
        rustix::io::ioctl_fionbio(&controller, true)?;
        let terminal = Self {
            controller: File::from(controller),
            path: PathBuf::from(OsString::from_vec(name.into_bytes())),
            shown: Vec::new(),
            _user: user,
        };
        terminal.resize(rows, columns)?;
        Ok(terminal)
    }

    /// The device of its program.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it another size.
    pub fn resize(&self, rows: u16, columns: u16) -> io::Result<()> {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        Ok(tcsetwinsize(&self.controller, size)?)
    }

    /// Types.
    pub fn type_in(&mut self, keys: &str) -> io::Result<()> {
        self.controller.write_all(keys.as_bytes())
    }

    /// All that it has shown until now, with what was typed if that is shown, too.
    pub fn shown(&mut self) -> io::Result<String> {
        match self.controller.read_to_end(&mut self.shown) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(String::from_utf8_lossy(&self.shown).into_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::{Spec, Supervised};

    #[tokio::test]
    async fn a_program_sits_at_it() {
        let run = crate::dirs::RunDir::create("terminal-test").unwrap();
        let mut terminal = Terminal::open(7, 42).unwrap();
        terminal.resize(8, 43).unwrap();
        terminal.type_in("word\n").unwrap();
        let script = "test -t 0 && test -t 1 && read -r word && echo \"[$word]\" && stty size";
        let spec = Spec::new("/bin/sh", run.path().join("log")).args(["-c", script]);
        let running = Supervised::start(&spec.terminal(&terminal)).unwrap();
        let exit = running.wait().await;
        let shown = terminal.shown().unwrap();
        assert!(exit.success(), "{exit}: {shown}");
        assert_eq!(shown, "word\r\n[word]\r\n8 43\r\n");
    }
}
