//! A process whose wall clock is wrong. Only programs that ask libc for the time can be told a wrong one, which
//! Pilotage does and Kubernetes doesn't.

use std::ffi::OsString;
use std::io::{Error, Result};
use std::path::Path;
use std::process::Command;

/// What is loaded before libc.
const SOURCE: &str = include_str!("clock/offset.c");
/// Seconds that the clock is ahead.
const OFFSET: &str = "PILOTAGE_TESTKIT_CLOCK_OFFSET";

/// The environment of a process whose wall clock is ahead by so many seconds, or behind; what it needs is built in
/// `directory`, by the C compiler.
pub(crate) fn environment(directory: &Path, seconds: i64) -> Result<[(OsString, OsString); 2]> {
    let (source, library) = (
        directory.join("clock_offset.c"),
        directory.join("clock_offset.so"),
    );
    std::fs::write(&source, SOURCE)?;
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(&compiler);
    command.args(["-shared", "-fPIC", "-O1", "-o"]);
    let output = command.arg(&library).arg(&source).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let compiler = compiler.display();
        return Err(Error::other(format!(
            "{compiler} can't build a clock: {said}"
        )));
    }
    Ok([
        ("LD_PRELOAD".into(), library.into()),
        (OFFSET.into(), seconds.to_string().into()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dirs::RunDir;

    #[test]
    fn a_clock_is_wrong_by_what_was_asked_for() {
        let run = RunDir::create("clock").unwrap();
        let seconds = |environment: Vec<(OsString, OsString)>| {
            let mut date = Command::new("date");
            let output = date.arg("+%s").envs(environment).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            text.trim().parse::<i64>().unwrap()
        };
        let day = 24 * 3600;
        let behind = environment(run.path(), -day).unwrap();
        let (now, then) = (seconds(Vec::new()), seconds(behind.into()));
        let apart = now - then;
        assert!((day - 60..=day + 60).contains(&apart), "{apart}");
    }
}
