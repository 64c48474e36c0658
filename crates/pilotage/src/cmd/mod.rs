//! The commands, one file each, and the files that they read. A part's file holds its flags and its wiring.

pub(crate) mod admission;
pub(crate) mod all;
pub(crate) mod candidate_scheduler;
pub(crate) mod cleanup;
pub(crate) mod completion;
pub(crate) mod controllers;
pub(crate) mod crds;
pub(crate) mod files;
pub(crate) mod finalizers;
pub(crate) mod gardener_scheduler;
pub(crate) mod proxy_scheduler;
pub(crate) mod rbac;
pub(crate) mod scheduler;
pub(crate) mod select_seed;
pub(crate) mod uninstall;
pub(crate) mod webhook;

use std::io::Write;

use serde::Serialize;

use crate::error::Error;

/// One object as a YAML document.
fn yaml(what: &str, object: &impl Serialize) -> Result<String, Error> {
    // Through a `Value`, whose keys are sorted: the same object is the same text for ever.
    let value = serde_json::to_value(object).map_err(|source| Error::Render {
        what: what.to_owned(),
        source: source.into(),
    })?;
    serde_saphyr::to_string(&value).map_err(|source| Error::Render {
        what: what.to_owned(),
        source: source.into(),
    })
}

/// Writes to standard output. Whoever closes the pipe early has seen enough.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::Print(error)),
        _ => Ok(()),
    }
}
