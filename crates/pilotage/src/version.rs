//! Which Kubernetes the process's own API server is, told once: one that Pilotage isn't tried with may lack something.
//!
//! Nothing else depends on the version: what an API server can do is found out where it is needed.

use std::ops::RangeInclusive;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::version::Info;
use kube::Client;
use pilotage_runtime::backoff::{Backoff, dice};
use pilotage_runtime::call::{CALL_LIMIT, within};

/// Minor versions of Kubernetes 1 that the tests run on: the pinned ones in `e2e/tools`, and what lies between them.
const TRIED: RangeInclusive<u32> = 34..=36;
/// How soon an API server that doesn't answer is asked again.
const RETRY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));

/// Asks until there is an answer, and tells it.
pub(crate) async fn tell(client: Client) {
    let mut failures: u32 = 0;
    let info = loop {
        match within(CALL_LIMIT, client.apiserver_version()).await {
            Ok(info) => break info,
            Err(error) => {
                let error = error.message();
                tracing::debug!(error, "the API server doesn't say its version");
            }
        }
        tokio::time::sleep(RETRY.delay(failures, dice())).await;
        failures = failures.saturating_add(1);
    };
    let version = &info.git_version;
    match doubt(&info) {
        None => tracing::info!(version, "the API server's Kubernetes"),
        Some(doubt) => tracing::warn!(version, "the API server's Kubernetes {doubt}"),
    }
}

/// What may be wrong with a version. One that emulates an older one lacks what that lacks.
fn doubt(info: &Info) -> Option<String> {
    let major = in_force(info.emulation_major.as_deref(), &info.major);
    let minor = in_force(info.emulation_minor.as_deref(), &info.minor);
    let (first, last) = (TRIED.start(), TRIED.end());
    let than = match number(minor).filter(|_| major == "1") {
        Some(minor) if TRIED.contains(&minor) => return None,
        Some(minor) if minor < *first => "is older than",
        Some(_) => "is newer than",
        None => "is none of",
    };
    Some(format!(
        "{than} those that Pilotage is tried with, 1.{first} to 1.{last}: see docs/versions.md"
    ))
}

fn in_force<'a>(emulated: Option<&'a str>, own: &'a str) -> &'a str {
    emulated.filter(|text| !text.is_empty()).unwrap_or(own)
}

/// Some say `34+`.
fn number(minor: &str) -> Option<u32> {
    let digits = minor.trim_end_matches(|c: char| !c.is_ascii_digit());
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(major: &str, minor: &str) -> Info {
        Info {
            major: major.to_owned(),
            minor: minor.to_owned(),
            ..Info::default()
        }
    }

    #[test]
    fn versions_that_nobody_tried_are_told_of() {
        for minor in ["34", "35", "36", "34+"] {
            assert_eq!(doubt(&info("1", minor)), None, "{minor}");
        }
        for (major, minor, words) in [
            ("1", "33", "is older than"),
            ("1", "33+", "is older than"),
            ("1", "37", "is newer than"),
            ("2", "35", "is none of"),
            ("1", "", "is none of"),
        ] {
            let doubt = doubt(&info(major, minor)).unwrap();
            assert!(doubt.starts_with(words), "{major}.{minor}: {doubt}");
        }
    }

    #[test]
    fn an_emulated_version_counts() {
        let emulating = Info {
            emulation_major: Some("1".to_owned()),
            emulation_minor: Some("33".to_owned()),
            ..info("1", "36")
        };
        let doubt = doubt(&emulating).unwrap();
        assert_eq!(
            doubt,
            "is older than those that Pilotage is tried with, 1.34 to 1.36: see docs/versions.md"
        );
    }

    #[test]
    fn what_is_tried_is_what_is_pinned() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../e2e/tools");
        let mut pinned: Vec<u32> = std::fs::read_dir(root)
            .unwrap()
            .map(|entry| entry.unwrap().path().join("go.mod"))
            .filter_map(|path| std::fs::read_to_string(path).ok())
            .filter_map(|text| {
                let mut lines = text.lines().map(str::trim);
                lines.find_map(|line| {
                    let version = line.strip_prefix("k8s.io/kubernetes v1.")?;
                    version.split('.').next()?.parse().ok()
                })
            })
            .collect();
        pinned.sort_unstable();
        assert_eq!(pinned.first(), Some(TRIED.start()));
        assert_eq!(pinned.last(), Some(TRIED.end()));
    }
}
