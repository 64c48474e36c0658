//! The wish that a command ends early: of the keyboard, of a terminal that closes, or of another program.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::Error;

/// SIGINT, SIGTERM and SIGHUP. From when it is made they don't end the process by themselves, and none is missed.
#[derive(Debug)]
pub(crate) struct Interrupts {
    keyboard: Signal,
    program: Signal,
    terminal: Signal,
}

impl Interrupts {
    pub(crate) fn listen() -> Result<Self, Error> {
        let listen = |kind| {
            signal(kind).map_err(|error| Error::NotNow {
                what: format!("signals can't be listened to: {error}"),
                instead: "give the same command again".to_owned(),
            })
        };
        Ok(Self {
            keyboard: listen(SignalKind::interrupt())?,
            program: listen(SignalKind::terminate())?,
            terminal: listen(SignalKind::hangup())?,
        })
    }

    /// Completes with the next of them, also if it came before.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.keyboard.recv() => {}
            _ = self.program.recv() => {}
            _ = self.terminal.recv() => {}
        }
    }
}
