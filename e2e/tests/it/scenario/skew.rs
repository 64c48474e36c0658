//! Clusters of different versions have the Kubernetes that they should have, or `make test-skew` would show nothing.

use std::fs;

use pilotage_e2e::fleet::Side;

use super::shared_fleet;
use crate::workspace::root;

/// The pinned version, such as `v1.36.3`, of what a directory of tools builds.
fn pinned(directory: &str) -> String {
    let path = root().join("e2e/tools").join(directory).join("go.mod");
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().map(str::trim);
    let mut versions = lines.filter_map(|line| {
        let line = line.strip_prefix("require ").unwrap_or(line);
        let rest = line.strip_prefix("k8s.io/kubernetes ")?;
        rest.split_whitespace().next()
    });
    versions.next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_have_the_kubernetes_that_was_asked_for() {
    let fleet = shared_fleet().await;
    let targets = fleet.targets.iter().map(|target| (target, Side::Target));
    for (cluster, side) in targets.chain([(&fleet.source, Side::Source)]) {
        let directory = side.kubernetes().map_or_else(
            || "kubernetes".to_owned(),
            |version| format!("kubernetes-{version}"),
        );
        let admin = cluster.plane.admin();
        let found = admin.apiserver_version().await.unwrap().git_version;
        assert_eq!(found, pinned(&directory), "{}", cluster.name());
    }
}
