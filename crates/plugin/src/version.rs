//! `version`: which versions run where, as each part that leads has written on its Lease. A cluster that can't be asked
//! is told of, and keeps no other one from being told.

use std::path::PathBuf;

use clap::Args;
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use pilotage_api::keys;
use pilotage_runtime::call::{CALL_LIMIT, within};
use pilotage_runtime::pages;
use serde::Serialize;

use crate::cluster::Cluster;
use crate::error::{Error, with_causes};
use crate::table::{age, columns, one_line};
use crate::targets::allowed;
use crate::{Output, Side, Told, preflight, written};

/// Parts that elect a leader, by the names of their Leases.
const PARTS: [&str; 3] = ["controllers", "proxy-scheduler", "candidate-scheduler"];
/// How long a Lease lasts whose holder doesn't say so, in seconds.
const USUAL_LEASE: i32 = 15;

/// Flags of `version`.
#[derive(Clone, Debug, Args)]
#[allow(clippy::doc_markdown, reason = "these are help texts")]
pub struct VersionArgs {
    /// Only this program's, without asking any cluster.
    #[arg(long, conflicts_with_all = ["context", "target"])]
    client: bool,

    /// Context of a cluster, for instance a source. Without it, the current one.
    #[arg(long, visible_alias = "source", value_name = "CONTEXT")]
    context: Option<String>,

    /// Contexts of other clusters, for instance its targets, separated by commas.
    #[arg(long, value_name = "CONTEXTS", value_delimiter = ',')]
    target: Vec<String>,

    /// Kubeconfig file. Without it, that of kubectl: KUBECONFIG, else ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Kubeconfig file of the other clusters, if it is another one.
    #[arg(long, value_name = "FILE")]
    target_kubeconfig: Option<PathBuf>,

    /// Namespace where Pilotage runs, in each of them.
    #[arg(long, value_name = "NAMESPACE", default_value = "pilotage")]
    home: String,

    /// How the answer is written.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

/// What runs in one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Of {
    context: String,
    /// `None`: nobody could be asked.
    kubernetes: Option<String>,
    parts: Vec<Part>,
    /// Why nothing more is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// One part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    #[serde(rename = "part")]
    name: String,
    /// `None`: it hasn't said so.
    version: Option<String>,
    /// Whether somebody leads.
    leads: bool,
    /// When somebody who leads no more, and didn't say so, was heard of last.
    #[serde(skip_serializing_if = "Option::is_none")]
    silent_since: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Versions {
    client: &'static str,
    clusters: Vec<Of>,
}

/// Tells which versions there are.
pub(crate) async fn version(args: VersionArgs) -> Result<Told, Error> {
    let mut clusters = Vec::new();
    if !args.client {
        let file = args.kubeconfig.as_deref();
        clusters.push(Cluster::open(Side::Cluster, file, args.context.as_deref()).await?);
        let file = args.target_kubeconfig.as_deref().or(file);
        for context in &args.target {
            clusters.push(Cluster::open(Side::Cluster, file, Some(context)).await?);
        }
    }
    let now = Timestamp::now();
    let answers = join_all(clusters.iter().map(|it| of(it, &args.home, now))).await;
    let asked = answers.len();
    let (mut all, mut silent) = (Vec::new(), 0_usize);
    for (cluster, answer) in clusters.iter().zip(answers) {
        all.push(match answer {
            Ok(it) => it,
            // Of one alone there is nothing else to tell.
            Err(error) if asked == 1 => return Err(error),
            Err(error) => {
                silent = silent.saturating_add(1);
                Of {
                    context: cluster.context.clone(),
                    kubernetes: None,
                    parts: Vec::new(),
                    error: Some(with_causes(&error)),
                }
            }
        });
    }
    let all = Versions {
        client: env!("CARGO_PKG_VERSION"),
        clusters: all,
    };
    Ok(Told {
        text: written(args.output, &all, || all.table(now))?,
        left: (silent > 0).then_some(Error::Silent { silent, asked }),
    })
}

async fn of(cluster: &Cluster, home: &str, now: Timestamp) -> Result<Of, Error> {
    preflight::identity(cluster).await?;
    let server = within(CALL_LIMIT, cluster.client.apiserver_version()).await;
    let kubernetes = server.map_err(cluster.unread("ask for the version"))?;
    let leases: Api<Lease> = cluster.api(home);
    let found = allowed(pages::all(CALL_LIMIT, &leases, ListParams::default()).await);
    let found = found.map_err(cluster.unread("list Leases"))?;
    let found = found.ok_or_else(|| Error::Rights {
        side: cluster.side,
        missing: vec![format!("list leases of namespace {home}")],
    })?;
    Ok(Of {
        context: cluster.context.clone(),
        kubernetes: Some(kubernetes.git_version),
        parts: parts(&found, now),
        error: None,
    })
}

fn parts(leases: &[Lease], now: Timestamp) -> Vec<Part> {
    let part = |name: &&str| {
        let lease = leases
            .iter()
            .find(|it| it.name_any() == format!("pilotage-{name}"))?;
        let holder = lease
            .spec
            .as_ref()
            .and_then(|it| it.holder_identity.as_deref());
        let held = holder.is_some_and(|it| !it.is_empty());
        let silent_since = silent_since(lease, now).filter(|_| held);
        Some(Part {
            name: (*name).to_owned(),
            version: lease.annotations().get(keys::RUNNING_VERSION).cloned(),
            leads: held && silent_since.is_none(),
            silent_since,
        })
    };
    PARTS.iter().filter_map(part).collect()
}

/// When a Lease was renewed last, if it has run out since: whoever held it crashed or is cut off. It rests on two
/// machines' clocks, and only a person reads it.
fn silent_since(lease: &Lease, now: Timestamp) -> Option<Timestamp> {
    let spec = lease.spec.as_ref()?;
    let renewed = spec.renew_time.as_ref()?.0;
    let lasts = spec.lease_duration_seconds.filter(|it| *it > 0);
    let lasts = SignedDuration::from_secs(lasts.unwrap_or(USUAL_LEASE).into());
    let has_run_out = renewed.checked_add(lasts).is_ok_and(|until| until < now);
    has_run_out.then_some(renewed)
}

impl Versions {
    fn table(&self, now: Timestamp) -> String {
        let mut rows = vec![["(here)", "this program", self.client, ""].map(str::to_owned)];
        let mut notes = Vec::new();
        for of in &self.clusters {
            let Of {
                context,
                kubernetes,
                parts,
                error,
            } = of;
            let row = |part: &str, version: Option<&str>, note: &str| {
                [
                    context.as_str(),
                    part,
                    &one_line(version.unwrap_or("?")),
                    note,
                ]
                .map(str::to_owned)
            };
            if let Some(error) = error {
                notes.push(format!("{context}: {error}"));
                continue;
            }
            rows.push(row("Kubernetes", kubernetes.as_deref(), ""));
            for part in parts {
                let version = part.version.as_deref();
                rows.push(row(&part.name, version, &part.note(self.client, now)));
            }
            if parts.is_empty() {
                notes.push(format!(
                    "{context}: no part of Pilotage has a Lease in this namespace; give another one by --home, or \
                     see whether it runs"
                ));
            }
        }
        let mut text = columns(&["CLUSTER", "WHAT", "VERSION", "NOTE"], &rows);
        for note in notes {
            text = format!("{text}{}\n", one_line(&note));
        }
        text
    }
}

impl Part {
    /// What there is to say of it besides.
    fn note(&self, client: &str, now: Timestamp) -> String {
        if let Some(since) = self.silent_since {
            let at = since.strftime("%Y-%m-%dT%H:%M:%SZ");
            return format!("not heard of since {at} ({} ago)", age(since, now));
        }
        let note = match (self.version.as_deref(), self.leads) {
            (_, false) => "doesn't run now",
            (Some(version), true) if version != client => "another version than this program",
            (None, true) => "older than this program",
            _ => "",
        };
        note.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    /// A Lease that was renewed at this second, and says that it lasts this long.
    fn lease(name: &str, holder: &str, version: Option<&str>, renewed: i64, lasts: i64) -> Lease {
        let annotations = version.map(|version| json!({ keys::RUNNING_VERSION: version }));
        let metadata = json!({ "name": name, "annotations": annotations });
        let spec = json!({
            "holderIdentity": holder,
            "renewTime": at(renewed).to_string(),
            "leaseDurationSeconds": lasts,
        });
        serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
    }

    #[test]
    fn each_part_tells_its_version_on_its_lease() {
        let leases = [
            lease("pilotage-candidate-scheduler", "", Some("1.0.0"), 0, 15),
            lease("pilotage-controllers", "a", Some("2.0.0"), 995, 15),
            lease("pilotage-proxy-scheduler", "b", None, 995, 15),
            lease("somebody", "c", None, 995, 15),
        ];
        let all = Versions {
            client: "1.0.0",
            clusters: vec![
                Of {
                    context: "london".to_owned(),
                    kubernetes: Some("v1.36.3".to_owned()),
                    parts: parts(&leases, at(1000)),
                    error: None,
                },
                Of {
                    context: "paris".to_owned(),
                    kubernetes: None,
                    parts: Vec::new(),
                    error: Some("it doesn't\nanswer".to_owned()),
                },
            ],
        };
        let want = "\
CLUSTER   WHAT                  VERSION   NOTE
(here)    this program          1.0.0
london    Kubernetes            v1.36.3
london    controllers           2.0.0     another version than this program
london    proxy-scheduler       ?         older than this program
london    candidate-scheduler   1.0.0     doesn't run now
paris: it doesn't answer
";
        assert_eq!(all.table(at(1000)), want);
    }

    #[test]
    fn who_does_not_renew_its_lease_is_not_heard_of() {
        let all = |renewed, lasts| {
            let held = lease("pilotage-controllers", "a", Some("1.0.0"), renewed, lasts);
            parts(&[held], at(1000)).remove(0)
        };
        for (renewed, lasts) in [(985, 15), (2000, 15), (900, 100), (985, 0)] {
            let part = all(renewed, lasts);
            assert!(part.leads && part.silent_since.is_none(), "{renewed}");
        }
        let crashed = all(280, 15);
        assert_eq!(
            (crashed.leads, crashed.silent_since),
            (false, Some(at(280)))
        );
        let note = crashed.note("1.0.0", at(1000));
        assert_eq!(note, "not heard of since 1970-01-01T00:04:40Z (12m ago)");
        // Who has given it back said so.
        let given = lease("pilotage-controllers", "", Some("1.0.0"), 280, 1);
        let given = parts(&[given], at(1000)).remove(0);
        assert_eq!((given.leads, given.silent_since), (false, None));
    }
}
