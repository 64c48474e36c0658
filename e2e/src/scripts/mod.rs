//! `make e2e`: the scripts of `e2e/scenarios`, one after the other, on local clusters or on given ones.
//!
//! What a script does is its own affair: here it gets kubeconfigs, a namespace and some time, and its end is told, also
//! that it had nothing to show there. On local clusters that is a failure: whatever scripts need is there.

mod error;
mod places;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pilotage_testkit::{cli, workspace_root};
use tokio::time::timeout;

pub use self::error::Error;
use self::places::{Local, Place};

/// How long one script may take.
const LIMIT: Duration = Duration::from_mins(5);
/// What the scripts share; it is none.
const LIBRARY: &str = "lib.sh";
/// With this a script tells, in a line, why it can't show anything.
const SKIPPED: &str = "SKIPPED: ";

/// What to run, and where.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Only scripts of these names; all, if there is none.
    pub only: Vec<String>,
    /// A directory with the kubeconfigs `source` and those of targets, and the namespace for which these are connected;
    /// else clusters are started here.
    pub given: Option<(PathBuf, String)>,
}

/// Runs the scripts; an error, if one of them failed.
pub async fn run(options: Options) -> Result<(), Error> {
    let scripts = scripts(&options.only)?;
    let Some((kubeconfigs, namespace)) = options.given else {
        let local = Local::start().await?;
        let ran = all(&scripts, Skips::Fail, async |name| local.place(name).await).await;
        if ran.is_err() {
            println!("\nlogs:");
            for log in local.logs() {
                println!("  {}", log.display());
            }
        }
        local.stop().await;
        return ran;
    };
    let place = Place::given(kubeconfigs, namespace)?;
    all(&scripts, Skips::Pass, async |_| Ok(place.clone())).await
}

/// Names and files of the scripts, in order.
fn scripts(only: &[String]) -> Result<Vec<(String, PathBuf)>, Error> {
    let directory = workspace_root().join("e2e/scenarios");
    let unreadable = |source| Error::Unreadable {
        path: directory.clone(),
        source,
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let is_script = path.extension().is_some_and(|it| it == "sh");
        if let Some(name) = path.file_stem().and_then(|it| it.to_str())
            && is_script
            && path.file_name().is_some_and(|it| it != LIBRARY)
        {
            found.push((name.to_owned(), path.clone()));
        }
    }
    found.sort();
    if let Some(unknown) = only
        .iter()
        .find(|name| !found.iter().any(|(it, _)| it == *name))
    {
        return Err(Error::Unknown {
            name: unknown.clone(),
            known: found.into_iter().map(|(name, _)| name).collect(),
        });
    }
    found.retain(|(name, _)| only.is_empty() || only.contains(name));
    Ok(found)
}

/// What a script is that had nothing to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Skips {
    /// Told, and well.
    Pass,
    /// A failure.
    Fail,
}

/// How a script has ended, with what is told of it.
#[derive(Debug, PartialEq, Eq)]
enum End<'a> {
    Passed,
    Skipped(&'a str),
    Failed(&'a str),
}

impl Skips {
    /// How a script has ended that said this.
    fn judge(self, outcome: &Result<String, String>) -> End<'_> {
        match outcome {
            Ok(said) => match (skipped(said), self) {
                (None, _) => End::Passed,
                (Some(why), Self::Pass) => End::Skipped(why),
                (Some(_), Self::Fail) => End::Failed(said),
            },
            Err(said) => End::Failed(said),
        }
    }
}

async fn all(
    scripts: &[(String, PathBuf)],
    skips: Skips,
    place: impl AsyncFn(&str) -> Result<Place, Error>,
) -> Result<(), Error> {
    let mut failed = Vec::new();
    for (name, path) in scripts {
        let began = Instant::now();
        let outcome = one(path, &place(name).await?).await?;
        let seconds = began.elapsed().as_secs_f64();
        match skips.judge(&outcome) {
            End::Passed => println!("ok      {name} ({seconds:.1} s)"),
            End::Skipped(why) => println!("skipped {name}: {why}"),
            End::Failed(said) => {
                println!("FAILED  {name} ({seconds:.1} s)\n{said}");
                failed.push(name.clone());
            }
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Error::Failed(failed))
    }
}

/// Why a script showed nothing, by what it said.
fn skipped(said: &str) -> Option<&str> {
    said.lines().find_map(|line| line.strip_prefix(SKIPPED))
}

/// Runs one script; what it said, also if it failed.
async fn one(path: &Path, place: &Place) -> Result<Result<String, String>, Error> {
    let scratch = workspace_root().join("target/testkit");
    let script = cli::Command::new("/bin/bash", &scratch)
        .args([path])
        .env("KUBECONFIGS", &place.kubeconfigs)
        .env("TARGETS", place.targets.join(" "))
        .env("NAMESPACE", &place.namespace)
        .env("PATH", &place.path)
        .env("HOME", &scratch);
    match timeout(LIMIT, script.run()).await {
        Ok(Ok(said)) => Ok(Ok(said)),
        Ok(Err(cli::Error::Failed { stdout, stderr, .. })) => Ok(Err(stdout + &stderr)),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Ok(Err(format!("it didn't end within {} s", LIMIT.as_secs()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_shows_nothing_says_why() {
        assert_eq!(skipped("-- a pod\n-- it says SKIPPED: no\n"), None);
        let said = "-- a pod\nSKIPPED: there is one target\n";
        assert_eq!(skipped(said), Some("there is one target"));
    }

    #[test]
    fn where_nothing_is_missing_a_script_that_is_skipped_has_failed() {
        let shown = Ok("-- a pod\n".to_owned());
        let left = "-- a pod\nSKIPPED: source has no metrics-server\n";
        let nothing = Ok(left.to_owned());
        let wrong = Err("FAILED: no pod\n".to_owned());
        let why = "source has no metrics-server";
        for (skips, ends) in [
            (Skips::Pass, End::Skipped(why)),
            (Skips::Fail, End::Failed(left)),
        ] {
            assert_eq!(skips.judge(&shown), End::Passed);
            assert_eq!(skips.judge(&nothing), ends);
            assert_eq!(skips.judge(&wrong), End::Failed("FAILED: no pod\n"));
        }
    }
}
