//! `make roles`: are the roles that `pilotage rbac` prints as narrow as the code? Every right has to have been used by
//! the tests of the last run, and none may have been missing. It must not know what any right is for, but for the few
//! lines of `exceptions`.

mod check;
mod exceptions;
mod grants;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use pilotage_api::Right;
use pilotage_testkit::{apply, pilotage, usage};

use crate::{fleet, garden};
use check::{Checked, Finding};
use grants::{Grant, Part};

/// The parts of Pilotage, and the namespaces where tests run them.
const PARTS: [Part; 6] = [
    Part::new("webhook", fleet::HOME),
    Part::new("controllers", fleet::HOME),
    Part::new("proxy-scheduler", fleet::HOME),
    Part::new("candidate-scheduler", fleet::HOME),
    Part::new("gardener-scheduler", garden::ACCOUNT.0),
    Part::new("scheduler", fleet::HOME),
];

/// Stands for the namespaces that are named in `--target-namespaces`: those of tests have names of their own.
const NAMED: &str = "named-for-targets";

/// Why nothing can be said of the roles.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No binary.
    #[error(transparent)]
    Pilotage(#[from] pilotage::Error),
    /// It didn't run.
    #[error("can't run {}", .program.display())]
    Run {
        /// The binary.
        program: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// It printed no roles.
    #[error("`pilotage rbac` failed: {0}")]
    Failed(String),
    /// It printed something else than YAML.
    #[error(transparent)]
    Yaml(#[from] apply::Error),
    /// It printed roles that aren't understood here.
    #[error(transparent)]
    Grants(#[from] grants::Error),
    /// The logs can't be read.
    #[error("can't read the logs of the tests")]
    Logs(#[source] std::io::Error),
    /// Nothing can be derived from nothing.
    #[error(
        "no tests ran since the logs were removed, or not all: {0} sent no request. Run `make test`"
    )]
    NoLogs(String),
    /// The answer.
    #[error("{}", .0.iter().map(|finding| format!("- {finding}")).collect::<Vec<_>>().join("\n"))]
    Found(Vec<Finding>),
}

/// What was looked at, if all is well.
#[derive(Debug)]
pub struct Summary {
    /// Rights of all parts, and of the roles that they give.
    pub rights: usize,
    /// Different requests.
    pub uses: usize,
    /// Exceptions of chance that weren't needed this time: one that never is should go.
    pub spared: Vec<String>,
    /// Refusals in targets to accounts that never had a role with the right: wanted by a test, or a binding is missing.
    pub doubtful: Vec<String>,
}

/// Holds the roles against the logs.
pub fn run() -> Result<Summary, Error> {
    let mut granted: BTreeSet<Grant> = BTreeSet::new();
    for part in PARTS {
        granted.extend(grants::of(part, &printed(part, None)?)?);
        // The same, but for what is given in those namespaces alone.
        let narrow = grants::of(part, &printed(part, Some(NAMED))?)?;
        granted.extend(narrow.into_iter().filter(Grant::is_for_named));
    }
    let uses = usage::read().map_err(Error::Logs)?;
    let silent: Vec<_> = PARTS
        .into_iter()
        .filter(|part| !uses.keys().any(|used| used.agent == part.name))
        .map(|part| part.name)
        .collect();
    if !silent.is_empty() {
        return Err(Error::NoLogs(silent.join(", ")));
    }
    let Checked {
        found,
        spared,
        doubtful,
    } = check::check(&granted, &uses, &exceptions::EXCEPTIONS);
    if found.is_empty() {
        Ok(Summary {
            rights: granted.len(),
            uses: uses.len(),
            spared,
            doubtful,
        })
    } else {
        Err(Error::Found(found))
    }
}

/// What `pilotage rbac` prints for a part whose Targets have Secrets in this namespace only, or in any.
fn printed(part: Part, namespace: Option<&str>) -> Result<Vec<serde_json::Value>, Error> {
    let program = pilotage::binary()?;
    let output = Command::new(&program)
        .arg("rbac")
        .arg(format!("--component={}", part.name))
        .arg(format!("--service-account={}/{}", part.home, part.name))
        .args(namespace.map(|name| format!("--target-namespaces={name}")))
        .arg(format!(
            "--rights={}",
            Right::ALL.map(Right::flag).join(",")
        ))
        .args([
            "--follow=configmaps,secrets,services,ingresses",
            "--kubelet",
        ])
        .output()
        .map_err(|source| Error::Run { program, source })?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::Failed(error));
    }
    Ok(apply::documents(&String::from_utf8_lossy(&output.stdout))?)
}
