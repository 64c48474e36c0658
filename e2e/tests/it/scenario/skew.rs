//! Clusters of different versions: they have the Kubernetes that they should have, or `make test-skew` would show
//! nothing; and no pod runs without what an older one doesn't know.

use std::fs;

use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use pilotage_e2e::fleet::Side;
use pilotage_testkit::{build, wait_for};

use super::{LIMIT, Shop, TARGETS, elected, scheduled, shared_fleet};
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

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_runs_with_all_that_it_asks_for_or_is_told_what_targets_leave_out() {
    const NAME: &str = "db-0.example.com";
    let shop = Shop::open("recent").await;
    // Whether targets know it: 1.35 is the first that does.
    let mut probe = build::pod("probe").build();
    probe.spec.as_mut().unwrap().hostname_override = Some(NAME.to_owned());
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let made = shop.pods_in("east").create(&dry_run, &probe).await.unwrap();
    let known = made.spec.unwrap().hostname_override.is_some();

    let mut pod = elected("web", "100m");
    pod.spec.as_mut().unwrap().hostname_override = Some(NAME.to_owned());
    shop.create(&pod).await;
    if known {
        let proxy = shop.running("web").await;
        let (_, delegate) = shop.delegate(&proxy).await;
        let name = delegate.spec.unwrap().hostname_override;
        assert_eq!(name.as_deref(), Some(NAME));
    } else {
        let told = "the API server leaves out spec.hostnameOverride";
        let is_told = |pod: &Pod| {
            scheduled(pod)
                .is_some_and(|(_, _, message)| message.matches(told).count() == TARGETS.len())
        };
        wait_for(&shop.pods(), "web", is_told, LIMIT).await.unwrap();
    }
    shop.delete("web").await;
}
