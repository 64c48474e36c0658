//! What the program is called by whoever started it: hints and help name commands that he can type.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::LazyLock;

const OWN: &str = "pilotage";
/// The file of the plugin of kubectl, and what its users type.
const PLUGIN: (&str, &str) = ("kubectl-pilotage", "kubectl pilotage");

/// What a program is called that was started by this first word of its command line.
pub fn called(first: Option<&OsStr>) -> &'static str {
    let stem = first.map(Path::new).and_then(Path::file_stem);
    if stem.is_some_and(|stem| stem == PLUGIN.0) {
        PLUGIN.1
    } else {
        OWN
    }
}

/// What this process is called.
pub(crate) fn program() -> &'static str {
    static CALLED: LazyLock<&'static str> =
        LazyLock::new(|| called(std::env::args_os().next().as_deref()));
    *CALLED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_is_called_by_kubectl() {
        for (first, want) in [
            ("kubectl-pilotage", "kubectl pilotage"),
            ("/usr/local/bin/kubectl-pilotage", "kubectl pilotage"),
            ("target/debug/pilotage", "pilotage"),
            ("", "pilotage"),
        ] {
            assert_eq!(called(Some(OsStr::new(first))), want, "{first}");
        }
        assert_eq!(called(None), "pilotage");
    }
}
