//! Who sent the requests of an audit log. Pure.

use std::collections::BTreeMap;

use pilotage_testkit::audit::Entry;
use serde::Serialize;

/// Requests of one sort by one actor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Who.
    pub actor: String,
    /// It is Pilotage.
    pub ours: bool,
    /// `patch pods/status`.
    pub sort: String,
    /// In the source, for each pod.
    pub source: f64,
    /// In all targets together, for each pod.
    pub targets: f64,
    /// Of all of them, those that were answered 4xx or 5xx, for each pod.
    pub failed: f64,
}

/// The user in short, and whether it is Pilotage: its parts run under service accounts in `home`, and in targets as the
/// account that the target has for the source.
pub fn actor(entry: &Entry, home: &str, source_account: &str) -> (String, bool) {
    let user = entry.user.as_str();
    let account = user
        .strip_prefix("system:serviceaccount:")
        .and_then(|rest| rest.split_once(':'));
    match account {
        // `pilotage/<version> (<component>)` tells the parts of the source apart, which share an account in targets.
        Some((namespace, name)) if namespace == home || name == source_account => {
            let component = entry.user_agent.split_once('(');
            let component = component.and_then(|(_, rest)| rest.split_once(')'));
            (component.map_or(name, |(name, _)| name).to_owned(), true)
        }
        Some(("kube-system", _)) => ("kube-controller-manager".to_owned(), false),
        _ => (
            user.strip_prefix("system:").unwrap_or(user).to_owned(),
            false,
        ),
    }
}

/// Counts requests; `entries` come with whether they were sent to the source.
pub fn rows<'a>(
    entries: impl IntoIterator<Item = (bool, &'a Entry)>,
    pods: usize,
    home: &str,
    source_account: &str,
) -> Vec<Row> {
    let mut counts: BTreeMap<(bool, String, String), [u32; 3]> = BTreeMap::new();
    for (in_source, entry) in entries {
        let (actor, ours) = actor(entry, home, source_account);
        let sort = format!("{} {}", entry.verb, entry.full_resource());
        let count = counts.entry((!ours, actor, sort)).or_default();
        count[usize::from(!in_source)] += 1;
        count[2] += u32::from(entry.code >= 400);
    }
    let per_pod = |count: u32| f64::from(count) / pods.max(1) as f64;
    counts
        .into_iter()
        .map(|((foreign, actor, sort), [source, targets, failed])| Row {
            actor,
            ours: !foreign,
            sort,
            source: per_pod(source),
            targets: per_pod(targets),
            failed: per_pod(failed),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(user: &str, agent: &str, code: u16) -> Entry {
        Entry {
            id: String::new(),
            verb: "patch".to_owned(),
            user: user.to_owned(),
            user_agent: agent.to_owned(),
            group: String::new(),
            resource: "pods".to_owned(),
            subresource: "status".to_owned(),
            namespace: "bench".to_owned(),
            name: String::new(),
            uri: String::new(),
            code,
            received: String::new(),
        }
    }

    #[test]
    fn requests_are_counted_by_who_sent_them() {
        let ours = entry(
            "system:serviceaccount:pilotage:controllers",
            "pilotage/0.1.0 (chaperon)",
            200,
        );
        let remote = entry("system:serviceaccount:bench:source", "", 409);
        let kubelet = entry("kwok", "kwok/0.8", 200);
        let manager = entry("system:serviceaccount:kube-system:gc", "", 200);
        let all = [
            (false, &ours),
            (true, &ours),
            (false, &remote),
            (false, &kubelet),
            (true, &manager),
        ];
        let rows = rows(all, 2, "pilotage", "source");
        let found: Vec<_> = rows
            .iter()
            .map(|row| {
                (
                    row.actor.as_str(),
                    row.ours,
                    row.source,
                    row.targets,
                    row.failed,
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("chaperon", true, 0.5, 0.5, 0.0),
                ("source", true, 0.0, 0.5, 0.5),
                ("kube-controller-manager", false, 0.5, 0.0, 0.0),
                ("kwok", false, 0.0, 0.5, 0.0),
            ]
        );
        assert_eq!(rows[0].sort, "patch pods/status");
    }
}
