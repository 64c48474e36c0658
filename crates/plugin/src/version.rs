//! `version`: which versions run where, as each part that leads has written on its Lease.

use std::path::PathBuf;

use clap::Args;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use pilotage_api::keys;
use pilotage_runtime::call::{CALL_LIMIT, within};
use serde::Serialize;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::table::{columns, one_line};
use crate::targets::allowed;
use crate::{Output, Side, preflight, written};

/// Parts that elect a leader, by the names of their Leases.
const PARTS: [&str; 3] = ["controllers", "proxy-scheduler", "candidate-scheduler"];

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
    kubernetes: String,
    parts: Vec<Part>,
}

/// One part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Part {
    #[serde(rename = "part")]
    name: String,
    /// `None`: it hasn't said so.
    version: Option<String>,
    /// Whether somebody leads.
    leads: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Versions {
    client: &'static str,
    clusters: Vec<Of>,
}

/// Tells which versions there are; returns what is to be printed.
pub(crate) async fn version(args: VersionArgs) -> Result<String, Error> {
    let mut clusters = Vec::new();
    if !args.client {
        let file = args.kubeconfig.as_deref();
        let first = Cluster::open(Side::Cluster, file, args.context.as_deref()).await?;
        clusters.push(of(&first, &args.home).await?);
        let file = args.target_kubeconfig.as_deref().or(file);
        for context in &args.target {
            let cluster = Cluster::open(Side::Cluster, file, Some(context)).await?;
            clusters.push(of(&cluster, &args.home).await?);
        }
    }
    let all = Versions {
        client: env!("CARGO_PKG_VERSION"),
        clusters,
    };
    written(args.output, &all, || all.table())
}

async fn of(cluster: &Cluster, home: &str) -> Result<Of, Error> {
    preflight::identity(cluster).await?;
    let server = within(CALL_LIMIT, cluster.client.apiserver_version()).await;
    let kubernetes = server.map_err(cluster.failed("ask for the version"))?;
    let leases: Api<Lease> = cluster.api(home);
    let found = allowed(within(CALL_LIMIT, leases.list(&ListParams::default())).await);
    let found = found.map_err(cluster.failed("list Leases"))?;
    let found = found.ok_or_else(|| Error::Rights {
        side: cluster.side,
        missing: vec![format!("list leases of namespace {home}")],
    })?;
    Ok(Of {
        context: cluster.context.clone(),
        kubernetes: kubernetes.git_version,
        parts: parts(&found.items),
    })
}

fn parts(leases: &[Lease]) -> Vec<Part> {
    let part = |name: &&str| {
        let lease = leases
            .iter()
            .find(|it| it.name_any() == format!("pilotage-{name}"))?;
        let holder = lease
            .spec
            .as_ref()
            .and_then(|it| it.holder_identity.as_deref());
        Some(Part {
            name: (*name).to_owned(),
            version: lease.annotations().get(keys::RUNNING_VERSION).cloned(),
            leads: holder.is_some_and(|it| !it.is_empty()),
        })
    };
    PARTS.iter().filter_map(part).collect()
}

impl Versions {
    fn table(&self) -> String {
        let mut rows = vec![["(here)", "this program", self.client, ""].map(str::to_owned)];
        let mut notes = Vec::new();
        for of in &self.clusters {
            let Of {
                context,
                kubernetes,
                parts,
            } = of;
            let row = |part: &str, version: &str, note: &str| {
                [context.as_str(), part, &one_line(version), note].map(str::to_owned)
            };
            rows.push(row("Kubernetes", kubernetes, ""));
            for Part {
                name: part,
                version,
                leads,
            } in parts
            {
                let note = match (version.as_deref(), leads) {
                    (_, false) => "doesn't run now",
                    (Some(version), true) if version != self.client => {
                        "another version than this program"
                    }
                    (None, true) => "older than this program",
                    _ => "",
                };
                rows.push(row(part, version.as_deref().unwrap_or("?"), note));
            }
            if parts.is_empty() {
                notes.push(format!(
                    "{context}: no part of Pilotage has a Lease in this namespace; give another one by --home, or see whether it runs"
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_part_tells_its_version_on_its_lease() {
        let lease = |name: &str, holder: &str, version: Option<&str>| -> Lease {
            let annotations = version.map(|version| json!({ keys::RUNNING_VERSION: version }));
            let metadata = json!({ "name": name, "annotations": annotations });
            serde_json::from_value(
                json!({ "metadata": metadata, "spec": { "holderIdentity": holder } }),
            )
            .unwrap()
        };
        let leases = [
            lease("pilotage-candidate-scheduler", "", Some("1.0.0")),
            lease("pilotage-controllers", "a", Some("2.0.0")),
            lease("pilotage-proxy-scheduler", "b", None),
            lease("somebody", "c", None),
        ];
        let all = Versions {
            client: "1.0.0",
            clusters: vec![Of {
                context: "london".to_owned(),
                kubernetes: "v1.36.3".to_owned(),
                parts: parts(&leases),
            }],
        };
        let want = "\
CLUSTER   WHAT                  VERSION   NOTE
(here)    this program          1.0.0
london    Kubernetes            v1.36.3
london    controllers           2.0.0     another version than this program
london    proxy-scheduler       ?         older than this program
london    candidate-scheduler   1.0.0     doesn't run now
";
        assert_eq!(all.table(), want);
    }
}
