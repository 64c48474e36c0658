//! Every shape of message, in the last operation and in events.

use futures::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::stage::{NAMESPACE, Stage, description, merge};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    #[serde(default)]
    seeds: Vec<Value>,
    #[serde(default)]
    profile: Value,
    #[serde(default)]
    shoot: Value,
    /// The whole message.
    message: Option<String>,
    /// A part of it, where the rest isn't ours.
    part: Option<String>,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_shape_is_seen() {
    let stage = Stage::new("messages").await;
    let running = stage.scheduler(|_| {}).await;
    let nobody = "Failed to schedule Shoot: none of the 0 seeds is valid for scheduling (not deleting, visible and \
        ready)";
    stage
        .put([stage.base.shoot("no-seeds", &Value::Null)])
        .await;
    assert_eq!(
        description(&stage.told("no-seeds", "of the 0 seeds").await),
        Some(nobody)
    );
    running.stop().await;
    // One that starts has seen all Seeds before it looks at a Shoot.
    stage
        .put([stage.base.seed(
            "hidden",
            &json!({"spec": {"settings": {"scheduling": {"visible": false}}}}),
        )])
        .await;
    let running = stage.scheduler(|_| {}).await;
    stage
        .put([stage.base.shoot("unusable", &Value::Null)])
        .await;
    stage
        .told(
            "unusable",
            "none of the 1 seeds is valid for scheduling (not deleting, visible and ready)",
        )
        .await;

    let cases: Vec<Case> = serde_saphyr::from_str(include_str!("../messages.yaml")).unwrap();
    let usable: usize = cases.iter().map(|case| case.seeds.len()).sum();
    let (mut before, mut shoots) = (Vec::new(), Vec::new());
    for case in &cases {
        let class = json!({"metadata": {"labels": {"class": case.id}}});
        for (number, patch) in case.seeds.iter().enumerate() {
            let mut seed = stage.base.seed(&format!("{}-{number}", case.id), patch);
            merge(&mut seed, &class);
            before.push(seed);
        }
        let mut profile = stage.base.profile.clone();
        merge(&mut profile, &case.profile);
        profile["metadata"]["name"] = json!(case.id);
        before.push(profile);
        let mut shoot = stage.base.shoot(
            &case.id,
            &json!({"spec": {"cloudProfileName": case.id,
            "seedSelector": {"matchLabels": {"class": case.id}}}}),
        );
        merge(&mut shoot, &case.shoot);
        shoots.push(shoot);
    }
    stage.put(before).await;
    stage.seeds_seen("first").await;
    let usable = usable + 1;
    // A status comes after its object; until then the Shoot is somebody else's.
    let mut late = Vec::new();
    for shoot in &mut shoots {
        if shoot.get("status").is_some() {
            late.push(shoot["metadata"]["name"].as_str().unwrap().to_owned());
            shoot["spec"]["schedulerName"] = json!("nobody");
        }
    }
    stage.put(shoots).await;
    for name in late {
        let ours = json!({"spec": {"schedulerName": null}});
        stage.patch("Shoot", NAMESPACE, &name, &ours).await;
    }
    let told = cases.iter().map(|case| async {
        let wanted = case.message.as_ref().or(case.part.as_ref()).unwrap();
        let wanted = format!(
            "{}{wanted}",
            if case.message.is_some() {
                "Failed to schedule Shoot: "
            } else {
                ""
            }
        );
        let wanted = wanted.replace("{usable}", &usable.to_string());
        let shoot = stage.told(&case.id, &wanted).await;
        let operation = &shoot.data["status"]["lastOperation"];
        assert_eq!(
            (&operation["type"], &operation["state"]),
            (&json!("Create"), &json!("Pending")),
            "{}",
            case.id
        );
        let at = operation["lastUpdateTime"].as_str().unwrap();
        assert!(
            at.ends_with('Z') && at.len() == "2026-01-01T00:00:00Z".len(),
            "{at}"
        );
        let said = description(&shoot).unwrap();
        assert!(said.starts_with("Failed to schedule Shoot: "), "{said}");
        if case.message.is_some() {
            assert_eq!(said, wanted);
        }
        let head = said.split(": {").next().unwrap();
        let event = stage
            .event_that(&case.id, "SchedulingFailed", |note| note.starts_with(head))
            .await;
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        assert_eq!(event.action.as_deref(), Some("Reconcile"));
        let note = event.note.unwrap();
        assert!(note.len() <= 1024, "{note}");
    });
    join_all(told).await;

    // Forty tainted Seeds: the status has all of it, the event as much as it can hold.
    let tainted = (0..40).map(|number| {
        let patch = json!({"metadata": {"labels": {"class": "forty"}},
            "spec": {"taints": [{"key": "seed.gardener.cloud/protected"}]}});
        stage
            .base
            .seed(&format!("a-seed-with-a-long-name-{number:02}"), &patch)
    });
    stage.put(tainted).await;
    stage.seeds_seen("second").await;
    stage
        .put([stage.base.shoot(
            "forty",
            &json!({"spec": {"seedSelector": {"matchLabels": {"class": "forty"}}}}),
        )])
        .await;
    let told = stage.told("forty", "0/40 seed cluster candidate(s)").await;
    assert!(description(&told).unwrap().len() > 2_000);
    let note = stage.event("forty", "SchedulingFailed").await.note.unwrap();
    assert!(note.len() <= 1024 && note.contains("Taints 40"), "{note}");
    running.stop().await;
    stage.plane.stop().await;
}
