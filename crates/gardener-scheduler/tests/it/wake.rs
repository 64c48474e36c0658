//! What wakes a waiting Shoot. The back-off is longer than the test, so whoever isn't woken fails it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::stage::{NAMESPACE, Stage, minimal_distance, seed_of};

#[tokio::test(flavor = "multi_thread")]
async fn a_seed_that_becomes_ready_is_used_at_once() {
    let stage = Stage::new("ready").await;
    let unready =
        json!({"status": {"conditions": [{"type": "GardenletReady", "status": "Unknown"}]}});
    stage.put([stage.base.seed("seed-1", &unready)]).await;
    let running = stage.scheduler(|_| {}).await;
    let names: Vec<_> = (0..30).map(|number| format!("shoot-{number}")).collect();
    stage
        .put(
            names
                .iter()
                .map(|name| stage.base.shoot(name, &Value::Null)),
        )
        .await;
    let why = "Failed to schedule Shoot: none of the 1 seeds is valid for scheduling (not deleting, visible and ready)";
    for name in &names {
        stage.told(name, why).await;
    }
    assert_eq!(
        running.metric("pilotage_shoots_attempts_total{result=\"unschedulable\"}"),
        30,
        "once each"
    );
    let ready = json!({"status": {"conditions": [{"type": "GardenletReady", "status": "True"}]}});
    let count = async |count: usize| {
        stage.all_bound(count).await;
        Instant::now()
    };
    let write = async {
        stage.patch("Seed", "", "seed-1", &ready).await;
        Instant::now()
    };
    let (written, first, last) = tokio::join!(write, count(1), count(30));
    let woken = first.saturating_duration_since(written);
    assert!(woken <= Duration::from_secs(1), "woken after {woken:?}");
    let bound = last.saturating_duration_since(written);
    assert!(bound <= Duration::from_secs(5), "bound after {bound:?}");
    assert_eq!(
        running.metric("pilotage_shoots_woken_total{by=\"seeds\"}"),
        30
    );
    running.stop().await;
    stage.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_could_help_wakes_and_nothing_else() {
    let stage = Stage::new("wakes").await;
    stage.put([stage.base.seed("seed-1", &Value::Null)]).await;

    // A project whose namespace is another one now; moved before the scheduler starts, which has seen that, then.
    let in_namespace = |namespace: &str| json!({"spec": {"namespace": namespace}});
    stage
        .patch("Project", "", "project-1", &in_namespace("elsewhere"))
        .await;
    let running = stage.scheduler(minimal_distance).await;
    let attempts = || running.metric("pilotage_shoots_attempts_total{result=\"unschedulable\"}");
    stage
        .put([stage.base.shoot("by-project", &Value::Null)])
        .await;
    stage
        .told(
            "by-project",
            "projects.core.gardener.cloud \"<unknown>\" not found",
        )
        .await;
    stage
        .patch("Project", "", "project-1", &in_namespace(NAMESPACE))
        .await;
    stage.bound("by-project").await;

    // A profile that comes.
    stage
        .put([stage
            .base
            .shoot("by-profile", &json!({"spec": {"cloudProfileName": "late"}}))])
        .await;
    stage
        .told(
            "by-profile",
            "CloudProfile.core.gardener.cloud \"late\" not found",
        )
        .await;
    let mut profile = stage.base.profile.clone();
    profile["metadata"]["name"] = json!("late");
    stage.put([profile]).await;
    stage.bound("by-profile").await;

    // A namespaced profile that starts to say what it is made of.
    let reference = json!({"spec": {"cloudProfileName": null,
        "cloudProfile": {"kind": "NamespacedCloudProfile", "name": "own"}}});
    let own = json!({
        "apiVersion": "core.gardener.cloud/v1beta1", "kind": "NamespacedCloudProfile",
        "metadata": {"name": "own", "namespace": NAMESPACE},
        "status": {"cloudProfileSpec": {"seedSelector": {"matchLabels": {"nobody": "has"}}}},
    });
    stage.put([own]).await;
    stage.put([stage.base.shoot("by-own", &reference)]).await;
    stage
        .told(
            "by-own",
            "required by seed selector of 'CloudProfile' (selector: 'nobody=has')",
        )
        .await;
    let any = json!({"status": {"cloudProfileSpec": {"seedSelector": {"matchLabels": null}}}});
    stage
        .patch("NamespacedCloudProfile", NAMESPACE, "own", &any)
        .await;
    stage.bound("by-own").await;

    // A table of distances that is mended (C6).
    let mut config = stage.base.config.clone();
    config["data"] = json!({"europe": "{"});
    stage.put([config]).await;
    let note = stage.garden_event("MalformedRegionConfig").await;
    assert!(note.contains("europe: "), "{note}");
    stage
        .put([stage.base.shoot("by-config", &Value::Null)])
        .await;
    let told = stage
        .told(
            "by-config",
            "failed to determine seed candidates. Wrong format in region ConfigMap garden/distances, Region \
             \"europe\": ",
        )
        .await;
    assert_eq!(told.data["status"]["lastOperation"]["state"], "Pending");
    stage
        .patch(
            "ConfigMap",
            "garden",
            "distances",
            &json!({"data": {"europe": "europe: 1"}}),
        )
        .await;
    stage.bound("by-config").await;

    // The Shoot itself, but not what is written into its status or metadata (P2).
    stage
        .put([stage.base.shoot(
            "by-spec",
            &json!({"spec": {"seedSelector": {"matchLabels": {"a": "b"}}}}),
        )])
        .await;
    stage
        .told(
            "by-spec",
            "required by seed selector of 'Shoot' (selector: 'a=b')",
        )
        .await;
    let before = attempts();
    stage
        .patch(
            "Shoot",
            NAMESPACE,
            "by-spec",
            &json!({"status": {"constraints": []}, "metadata": {"labels": {"x": "y"}}}),
        )
        .await;
    // Neither a Seed that doesn't help, nor a heartbeat of one.
    stage
        .put([stage
            .base
            .seed("seed-2", &json!({"metadata": {"labels": {"a": "c"}}}))])
        .await;
    let beat = json!({"status": {"conditions": [{"type": "GardenletReady", "status": "True",
        "lastUpdateTime": "2026-01-01T00:00:00Z"}]}});
    stage.patch("Seed", "", "seed-1", &beat).await;
    // What was written before this was seen before it.
    stage
        .patch(
            "Shoot",
            NAMESPACE,
            "by-spec",
            &json!({"spec": {"seedSelector": {"matchLabels": {"a": "d"}}}}),
        )
        .await;
    stage.told("by-spec", "(selector: 'a=d')").await;
    stage
        .patch(
            "Seed",
            "",
            "seed-2",
            &json!({"metadata": {"labels": {"a": "d"}}}),
        )
        .await;
    let bound = stage.bound("by-spec").await;
    // By now all earlier changes of Seeds have been seen.
    assert_eq!(attempts(), before + 1, "the change of its spec alone");
    assert_eq!(seed_of(&bound), Some("seed-2"));
    running.stop().await;
    stage.plane.stop().await;
}
