//! Each part starts alone under its own roles, becomes ready, and ends in order when asked to.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use pilotage_e2e::fleet::{Side, lone};
use pilotage_testkit::supervisor::Exit;
use pilotage_testkit::{ControlPlane, audit};

#[tokio::test(flavor = "multi_thread")]
async fn every_part_ends_in_order_and_gives_its_lease_back() {
    tokio::join!(parts_end(Side::Source), parts_end(Side::Target));
}

async fn parts_end(side: Side) {
    let plane = ControlPlane::builder("parts")
        .controller_manager()
        .audit(audit::Policy::All);
    let mut cluster = lone(plane, side).await.unwrap();
    cluster.install().await.unwrap();
    for (command, process) in &cluster.processes {
        let (status, metrics) = process.admin_get("/metrics").await.unwrap();
        assert_eq!(status, 200);
        assert!(
            metrics.contains("pilotage_build_info{"),
            "{command}: {metrics}"
        );
        let exit = process.stop(Duration::from_secs(30)).await;
        assert!(
            exit.is_some_and(Exit::success),
            "{command}: {exit:?}\n{}",
            process.tail()
        );
    }
    let leases: Api<Lease> = Api::namespaced(cluster.plane.admin(), "pilotage");
    for lease in leases.list(&ListParams::default()).await.unwrap() {
        let holder = lease
            .spec
            .as_ref()
            .and_then(|spec| spec.holder_identity.clone());
        assert!(
            holder.is_none_or(|holder| holder.is_empty()),
            "{} is held",
            lease.name_any()
        );
    }
    let refused = cluster.plane.audit().unwrap().entries().await.unwrap();
    let refused: Vec<_> = refused
        .iter()
        .filter(|entry| entry.code == 403 && entry.user.contains(":pilotage:"))
        .map(|entry| format!("{}: {} {}", entry.user, entry.verb, entry.uri))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
    cluster.stop().await;
}
