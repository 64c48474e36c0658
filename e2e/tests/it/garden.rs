//! `pilotage gardener-scheduler` as a process, by its configuration file and under the roles that are printed for it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use pilotage_e2e::garden::{Place, objects};
use pilotage_testkit::supervisor::Exit;
use pilotage_testkit::{ControlPlane, LIMIT, audit, pilotage};
use serde_json::{Value, json};

fn select_seed(directory: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(pilotage::binary().unwrap())
        .arg("select-seed")
        .args(["--kubeconfig", "garden.kubeconfig"])
        .args(args)
        .current_dir(directory)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_file_is_all_that_it_takes() {
    let plane = ControlPlane::builder("garden").audit(audit::Policy::All);
    let place = Place::start(plane).await.unwrap();
    let mut seeds: Vec<_> = (0..10).map(|number| objects::seed(number, 2)).collect();
    seeds[9]["spec"]["taints"] = json!([{"key": "seed.gardener.cloud/protected"}]);
    place.create(seeds).await.unwrap();
    let scheduler = place
        .scheduler(
            "logFormat: text\nleaderElection: {leaseDuration: 90s, renewDeadline: 80s, retryPeriod: \
             2s}\nclientConnection: {acceptContentTypes: application/vnd.kubernetes.protobuf}",
        )
        .await
        .unwrap();
    place.create((0..10).map(objects::shoot)).await.unwrap();
    // Of each region's one Seed, that of the last region is protected.
    let shoots = place.bound(9, LIMIT).await.unwrap();
    for shoot in shoots
        .iter()
        .filter(|shoot| shoot.data["spec"]["seedName"].is_string())
    {
        let region = shoot.data["spec"]["region"].as_str().unwrap();
        let number = objects::REGIONS
            .iter()
            .position(|one| *one == region)
            .unwrap();
        assert_eq!(shoot.data["spec"]["seedName"], format!("aws-{number:04}"));
    }
    let leases: Api<Lease> = Api::namespaced(place.plane.admin(), "garden");
    let lease = leases
        .get("gardener-scheduler-leader-election")
        .await
        .unwrap();
    let spec = lease.spec.unwrap();
    assert_eq!(spec.lease_duration_seconds, Some(90));
    assert!(
        spec.holder_identity
            .is_some_and(|holder| !holder.is_empty())
    );
    for (path, words) in [
        ("/healthz", "ok"),
        ("/metrics", "pilotage_shoots_attempts_total{"),
        ("/readyz", "ok"),
    ] {
        let (status, text) = scheduler.admin_get(path).await.unwrap();
        assert!(status == 200 && text.contains(words), "{path}: {text}");
    }
    let log = std::fs::read_to_string(scheduler.log()).unwrap();
    assert!(
        log.contains("clientConnection.acceptContentTypes has no effect"),
        "{log}"
    );

    // What one would have said before.
    let directory = scheduler.directory().to_owned();
    std::fs::write(
        directory.join("garden.kubeconfig"),
        place.plane.admin_access().kubeconfig_yaml(),
    )
    .unwrap();
    let (code, text, errors) = select_seed(&directory, &["--shoot-name", "garden-dev/shoot-00009"]);
    assert_eq!(code, Some(3), "{errors}");
    let want = "garden-dev/shoot-00009 gets no seed: no matching seed candidate found";
    assert!(text.starts_with(want), "{text}");
    let mut shoot = objects::shoot(20);
    shoot["metadata"]["name"] = "new".into();
    std::fs::write(directory.join("new.json"), shoot.to_string()).unwrap();
    let (code, text, errors) = select_seed(&directory, &["--shoot", "new.json", "-o", "json"]);
    assert_eq!(code, Some(0), "{errors}");
    let outcome: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(outcome["winner"], "aws-0000");
    assert_eq!(outcome["seeds"][0]["used"], 1);
    assert!(
        errors.starts_with("note: the Shoot is taken as it stands"),
        "{errors}"
    );
    // What the garden lacks is told as its scheduler would.
    shoot["spec"]["cloudProfile"]["name"] = "lost".into();
    std::fs::write(directory.join("lost.json"), shoot.to_string()).unwrap();
    let (code, text, errors) = select_seed(&directory, &["--shoot", "lost.json"]);
    assert_eq!(code, Some(3), "{errors}");
    let want = "garden-dev/new gets no seed: CloudProfile.core.gardener.cloud \"lost\" not found";
    assert!(text.starts_with(want), "{text}");
    let (code, _, errors) = select_seed(&directory, &["--shoot-name", "garden-dev/nobody"]);
    assert_eq!(
        (code, errors.trim()),
        (
            Some(1),
            "pilotage: the garden has no Shoot garden-dev/nobody"
        )
    );

    // Its roles were enough.
    let entries = place.plane.audit().unwrap().entries().await.unwrap();
    let refused: Vec<_> = entries
        .iter()
        .filter(|entry| entry.code == 403 && entry.user.contains("gardener-scheduler"))
        .map(|entry| format!("{} {}", entry.verb, entry.uri))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
    let exit = scheduler.stop(Duration::from_secs(30)).await;
    assert!(
        exit.is_some_and(Exit::success),
        "{exit:?}\n{}",
        scheduler.tail()
    );
    let lease = leases
        .get("gardener-scheduler-leader-election")
        .await
        .unwrap();
    assert!(
        lease
            .spec
            .unwrap()
            .holder_identity
            .is_none_or(|holder| holder.is_empty()),
        "given back"
    );
    place.plane.stop().await;
}

#[test]
fn a_bad_configuration_is_refused_by_its_field() {
    let directory = tempdir();
    let run = |more: &str| {
        let path = directory.join("config.yaml");
        let head =
            "apiVersion: scheduler.config.gardener.cloud/v1alpha1\nkind: SchedulerConfiguration\n";
        std::fs::write(&path, format!("{head}{more}\n")).unwrap();
        let output = Command::new(pilotage::binary().unwrap())
            .args(["gardener-scheduler", "--config"])
            .arg(&path)
            .env_remove("KUBECONFIG")
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    for (more, words) in [
        (
            "featureGates: {Teleport: true}",
            "found the feature \"Teleport\"",
        ),
        (
            "schedulers: {shoot: {concurentSyncs: 3}}",
            "found the field \"concurentSyncs\"",
        ),
        (
            "schedulers: {shoot: {candidateDeterminationStrategy: Nearest}}",
            "schedulers.shoot.strategy: Unsupported value",
        ),
        (
            "leaderElection: {resourceLock: endpoints}",
            "leases are the only locks",
        ),
        (
            "server: {metrics: {bindAddress: everywhere}}",
            "server.metrics.bindAddress: expected an IP address",
        ),
    ] {
        let (code, error) = run(more);
        assert_eq!(code, Some(4), "{error}");
        assert!(
            error.contains("config.yaml: ") && error.contains(words),
            "{error}"
        );
    }
}

fn tempdir() -> std::path::PathBuf {
    let directory =
        pilotage_testkit::runs().join(format!("configs-{}", pilotage_testkit::unique()));
    std::fs::create_dir_all(&directory).unwrap();
    directory
}
