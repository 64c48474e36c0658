//! Many Shoots at once: all are bound, and no Seed gets more than it has room for.

use std::collections::BTreeMap;

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use serde_json::{Value, json};

use crate::stage::{LIMIT, NAMESPACE, SOON, Stage, seed_of};

fn by_seed(shoots: &[DynamicObject]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for seed in shoots.iter().filter_map(seed_of) {
        *counts.entry(seed).or_default() += 1;
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_shoots_fill_twenty_seeds_and_overfill_none() {
    let stage = Stage::new("capacity").await;
    let seed = |number: usize| {
        let room = json!({"status": {"allocatable": {"shoots": 10}}});
        stage.base.seed(&format!("seed-{number:02}"), &room)
    };
    stage.put((0..20).map(seed)).await;
    // What our types don't know has to stay.
    let shoot = |number: usize| {
        let more = json!({
            "metadata": {"annotations": {"shoot.gardener.cloud/x": "y"}, "finalizers": ["gardener.cloud/x"]},
            "spec": {"kubernetes": {"version": "1.36.0"}, "exotic": {"list": [1, 2.5, null, {"deep": true}]}},
        });
        stage.base.shoot(&format!("shoot-{number:03}"), &more)
    };
    // Half of them are there before the scheduler is.
    stage.put((0..100).map(shoot)).await;
    let running = stage.scheduler(|options| options.workers = 8).await;
    stage.put((100..200).map(shoot)).await;
    let bound = stage.all_bound(200).await;
    assert_eq!(by_seed(&bound).len(), 20);
    assert!(
        by_seed(&bound).values().all(|count| *count == 10),
        "{:?}",
        by_seed(&bound)
    );
    for shoot in &bound {
        let name = shoot.metadata.name.as_deref().unwrap();
        let mut want = stage.base.shoot(name, &Value::Null)["spec"].clone();
        want["kubernetes"] = json!({"version": "1.36.0"});
        want["exotic"] = json!({"list": [1, 2.5, null, {"deep": true}]});
        want["seedName"] = shoot.data["spec"]["seedName"].clone();
        assert_eq!(shoot.data["spec"], want, "nothing else has changed");
        assert_eq!(
            shoot.metadata.finalizers.as_deref().unwrap_or_default(),
            ["gardener.cloud/x"]
        );
        assert_eq!(
            shoot.metadata.annotations.as_ref().unwrap()["shoot.gardener.cloud/x"],
            "y"
        );
    }
    // One request a Shoot, and no second thoughts.
    let counts = stage.garden.counts();
    assert_eq!(
        (counts.landed, counts.conflicts, counts.refused),
        (200, 0, 0)
    );
    assert_eq!(
        running.metric("pilotage_shoots_attempts_total{result=\"bound\"}"),
        200
    );

    // Whoever is too many waits, and gets the first place that is free, without any back-off.
    stage.put([stage.base.shoot("late", &Value::Null)]).await;
    stage
        .told(
            "late",
            "0/20 seed cluster candidate(s) are eligible for scheduling: {seed-00 => seed does not have available \
             capacity for shoots, seed-01 => ",
        )
        .await;
    let leaves = bound
        .iter()
        .find(|shoot| seed_of(shoot) == Some("seed-07"))
        .unwrap();
    let leaves = leaves.metadata.name.as_deref().unwrap();
    stage
        .patch(
            "Shoot",
            NAMESPACE,
            leaves,
            &json!({"metadata": {"finalizers": null}}),
        )
        .await;
    stage
        .shoots()
        .delete(leaves, &DeleteParams::default())
        .await
        .unwrap();
    let late = stage.bound("late").await;
    assert_eq!(seed_of(&late), Some("seed-07"));
    // Each was told once, and nothing else was written.
    running.stop().await;
    let want = [("create events 201", 202), ("patch shoots/status 200", 1)];
    assert_eq!(
        stage.writes().await,
        want.map(|(line, count)| (line.to_owned(), count)).into()
    );
    let events: Api<Event> = Api::namespaced(stage.plane.admin(), NAMESPACE);
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let told: Vec<_> = events
        .iter()
        .filter(|event| event.reason.as_deref() == Some("SchedulingSuccessful"))
        .collect();
    assert_eq!(told.len(), 201);
    let event = told[0];
    assert!(
        event
            .note
            .as_deref()
            .unwrap()
            .starts_with("Scheduled to seed \"seed-")
    );
    assert_eq!(
        event.reporting_controller.as_deref(),
        Some("shoot-scheduler")
    );
    assert_eq!(
        (event.action.as_deref(), event.type_.as_deref()),
        (Some("Reconcile"), Some("Normal"))
    );
    stage.plane.stop().await;
}

/// As the original's test of its own overfilling: one Seed for three, twenty Shoots.
#[tokio::test(flavor = "multi_thread")]
async fn a_seed_for_three_takes_three_of_twenty() {
    let stage = Stage::new("three").await;
    let room = json!({"status": {"allocatable": {"shoots": "3"}}});
    stage.put([stage.base.seed("small", &room)]).await;
    let running = stage
        .scheduler(|options| {
            options.workers = 8;
            options.backoff = SOON;
        })
        .await;
    stage
        .put((0..20).map(|number| stage.base.shoot(&format!("shoot-{number}"), &Value::Null)))
        .await;
    let all_judged = |all: &pilotage_testkit::wait::Seen<DynamicObject>| {
        all.values()
            .all(|shoot| seed_of(shoot).is_some() || crate::stage::description(shoot).is_some())
    };
    let config = kube::runtime::watcher::Config::default();
    pilotage_testkit::list_until(
        &stage.shoots(),
        config,
        |all| all.len() == 20 && all_judged(all),
        LIMIT,
    )
    .await
    .unwrap();
    // More attempts change nothing.
    stage.put([stage.base.shoot("last", &Value::Null)]).await;
    stage.told("last", "does not have available capacity").await;
    let shoots = stage
        .shoots()
        .list(&ListParams::default())
        .await
        .unwrap()
        .items;
    assert_eq!(by_seed(&shoots), [("small", 3)].into());
    assert_eq!(stage.garden.counts().landed, 3);
    // Room for two more is found at once, although the seventeen have backed off long ago.
    stage
        .patch(
            "Seed",
            "",
            "small",
            &json!({"status": {"allocatable": {"shoots": "5"}}}),
        )
        .await;
    let bound = stage.all_bound(5).await;
    assert_eq!(by_seed(&bound), [("small", 5)].into());
    running.stop().await;
    stage.plane.stop().await;
}
