//! How bindings end: conflicts, refusals, lost replies; and who may bind what.

use kube::Client;
use kube::api::{DynamicObject, PostParams};
use pilotage_testkit::fault::{Calls, Verb};
use pilotage_testkit::gardener::Counts;
use pilotage_testkit::wait_for;
use serde_json::{Value, json};

use crate::stage::{LIMIT, NAMESPACE, NEVER, SOON, Stage, Way, description, seed_of};

#[tokio::test(flavor = "multi_thread")]
async fn conflicts_are_silent_and_lost_replies_harmless() {
    let stage = Stage::new("doubt").await;
    stage
        .put([stage
            .base
            .seed("seed-1", &json!({"status": {"allocatable": {"shoots": 3}}}))])
        .await;
    let running = stage.scheduler(|options| options.backoff = NEVER).await;
    let bindings = || Calls::of(Verb::Update, "shoots/binding");

    // Somebody labels the Shoot while its binding is under way.
    let mut held = stage.garden.proxy.hold(bindings());
    stage
        .put([stage.base.shoot("conflict", &Value::Null)])
        .await;
    assert!(held.caught().await);
    stage
        .patch(
            "Shoot",
            NAMESPACE,
            "conflict",
            &json!({"metadata": {"labels": {"a": "b"}}}),
        )
        .await;
    assert_eq!(held.release().await, Some(409));
    let bound = stage.bound("conflict").await;
    assert_eq!(description(&bound), None);
    assert_eq!(bound.metadata.labels.unwrap()["a"], "b");
    assert_eq!(
        running.metric("pilotage_shoots_attempts_total{result=\"error\"}"),
        0
    );

    // The reply is lost: the binding stands, and counts once.
    let lost = stage.garden.proxy.lose_reply(bindings());
    stage.put([stage.base.shoot("lost", &Value::Null)]).await;
    assert_eq!(lost.caught().await, Some(200));
    stage.bound("lost").await;
    stage.put([stage.base.shoot("third", &Value::Null)]).await;
    stage.bound("third").await;
    stage.put([stage.base.shoot("fourth", &Value::Null)]).await;
    stage.told("fourth", "0/1 seed cluster candidate(s)").await;
    let Counts { landed, .. } = stage.garden.counts();
    assert_eq!(landed, 3);
    running.stop().await;
    stage.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_admission_refuses_is_told_and_tried_again() {
    let stage = Stage::new("refused").await;
    stage.put([stage.base.seed("seed-1", &Value::Null)]).await;
    let running = stage.scheduler(|options| options.backoff = SOON).await;
    stage
        .garden
        .deny(Some("the pods network is required: 100% sure"));
    stage.put([stage.base.shoot("a", &Value::Null)]).await;
    let text = "Failed to schedule Shoot: shoots.core.gardener.cloud \"a\" is forbidden: the pods network is \
        required: 100% sure";
    let told = stage.told("a", text).await;
    let operation = &told.data["status"]["lastOperation"];
    assert_eq!(
        (&operation["type"], &operation["state"]),
        (&json!("Create"), &json!("Pending"))
    );
    let event = stage.event("a", "SchedulingFailed").await;
    assert_eq!(event.note.as_deref(), Some(text), "percent signs and all");
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    stage.garden.deny(None);
    let has_none = |shoot: &DynamicObject| shoot.data["status"]["lastOperation"].is_null();
    let bound = stage.bound("a").await;
    assert_eq!(seed_of(&bound), Some("seed-1"));
    // I3
    wait_for(&stage.shoots(), "a", has_none, LIMIT)
        .await
        .unwrap();

    // I1: Shoots of another scheduler are none of our business.
    stage
        .put([stage.base.shoot(
            "foreign",
            &json!({"spec": {"schedulerName": "foo-scheduler"}}),
        )])
        .await;
    let other = stage
        .scheduler(|options| options.scheduler = "bar-scheduler".to_owned())
        .await;
    stage
        .put([stage.base.shoot(
            "ours",
            &json!({"spec": {"schedulerName": "default-scheduler"}}),
        )])
        .await;
    stage
        .put([stage.base.shoot(
            "other",
            &json!({"spec": {"schedulerName": "bar-scheduler"}}),
        )])
        .await;
    stage.bound("ours").await;
    stage.bound("other").await;
    let foreign = stage.shoots().get("foreign").await.unwrap();
    assert_eq!(
        (seed_of(&foreign), foreign.data["status"].is_null()),
        (None, true)
    );
    assert_eq!(
        other.metric("pilotage_shoots_attempts_total{result=\"bound\"}"),
        1
    );
    other.stop().await;

    // Shoots that host themselves, and those that are going, are left alone; workerless and zonal ones aren't.
    let hosts = json!({"spec": {"provider": {"workers": [{"name": "w", "controlPlane": {}}]}}});
    stage.put([stage.base.shoot("hosts-itself", &hosts)]).await;
    let workerless = json!({"spec": {"provider": {"workers": null}, "networking": null}});
    stage
        .put([stage.base.shoot("workerless", &workerless)])
        .await;
    stage.bound("workerless").await;
    // What admission made of an exposure class is all that counts of it.
    let taint = json!({"metadata": {"labels": {"exposure": "internet"}}, "spec": {"taints": [{"key": "exposure"}]}});
    stage.put([stage.base.seed("seed-2", &taint)]).await;
    let exposed = json!({"spec": {
        "exposureClassName": "internet", "tolerations": [{"key": "exposure"}],
        "seedSelector": {"matchLabels": {"exposure": "internet"}},
    }});
    stage.put([stage.base.shoot("exposed", &exposed)]).await;
    assert_eq!(seed_of(&stage.bound("exposed").await), Some("seed-2"));
    // Tests go wherever their provider is.
    let test = json!({"spec": {"purpose": "testing", "region": "nowhere"}});
    stage.put([stage.base.shoot("test", &test)]).await;
    assert_eq!(seed_of(&stage.bound("test").await), Some("seed-1"));
    let hosts = stage.shoots().get("hosts-itself").await.unwrap();
    assert_eq!(
        (seed_of(&hosts), hosts.data["status"].is_null()),
        (None, true)
    );
    running.stop().await;
    stage.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_serves_no_bindings_is_told_of() {
    let stage = Stage::new("unserved").await;
    stage.put([stage.base.seed("seed-1", &Value::Null)]).await;
    let running = stage.scheduler_by(Way::WithoutBindings, |_| {}).await;
    stage.put([stage.base.shoot("a", &Value::Null)]).await;
    let text = "Failed to schedule Shoot: the API server has no subresource shoots/binding: ";
    stage.told("a", text).await;
    let note = stage.event("a", "SchedulingFailed").await.note.unwrap();
    assert!(note.starts_with(text), "{note}");
    assert_eq!(
        running.metric("pilotage_shoots_attempts_total{result=\"error\"}"),
        1
    );
    running.stop().await;
    stage.plane.stop().await;
}

/// The stand-in for the real subresource refuses what that refuses.
#[tokio::test(flavor = "multi_thread")]
async fn the_subresource_takes_bindings_and_nothing_else() {
    let stage = Stage::new("subresource").await;
    stage.put([stage.base.shoot("a", &Value::Null)]).await;
    let clients = async |name: &str, may: bool| -> Client {
        stage.plane.service_account("garden", name).await.unwrap();
        if may {
            let roles = format!(
                "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: {name}}}\nrules: \
                 [{{apiGroups: [core.gardener.cloud], resources: [shoots/binding], verbs: \
                 [update]}}]\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: \
                 {{name: {name}}}\nroleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: \
                 {name}}}\nsubjects: [{{kind: ServiceAccount, name: {name}, namespace: garden}}]\n"
            );
            stage.plane.apply_yaml(&roles).await.unwrap();
        }
        let access = stage
            .plane
            .service_account_access("garden", name)
            .await
            .unwrap();
        stage
            .garden
            .proxy
            .access(&access)
            .unwrap()
            .client()
            .unwrap()
    };
    let (binder, stranger) = (
        clients("binder", true).await,
        clients("stranger", false).await,
    );
    let bind = async |client: &Client, body: Value| {
        let resource = kube::api::ApiResource::from_gvk_with_plural(
            &kube::api::GroupVersionKind::gvk("core.gardener.cloud", "v1beta1", "Shoot"),
            "shoots",
        );
        let api: kube::Api<DynamicObject> =
            kube::Api::namespaced_with(client.clone(), NAMESPACE, &resource);
        let params = PostParams::default();
        match api
            .replace_subresource("binding", "a", &params, &body)
            .await
        {
            Ok(shoot) => Ok(shoot),
            Err(kube::Error::Api(status)) => Err((status.code, status.message.clone())),
            Err(other) => panic!("{other}"),
        }
    };
    let read = async || serde_json::to_value(stage.shoots().get("a").await.unwrap()).unwrap();
    let with = |body: &Value, patch: Value| {
        let mut body = body.clone();
        crate::stage::merge(&mut body, &patch);
        body
    };
    let old = read().await;
    stage
        .patch(
            "Shoot",
            NAMESPACE,
            "a",
            &json!({"status": {"lastOperation": {"type": "Create",
        "state": "Pending", "description": "x"}}}),
        )
        .await;
    let now = read().await;
    let seed = json!({"spec": {"seedName": "s"}});
    for (client, body, code, text) in [
        (&stranger, with(&now, seed.clone()), 403, "cannot update"),
        (
            &binder,
            with(&old, seed.clone()),
            409,
            "the object has been modified",
        ),
        (
            &binder,
            with(
                &with(&now, seed.clone()),
                json!({"metadata": {"resourceVersion": null}}),
            ),
            422,
            "must be specified",
        ),
        (&binder, now.clone(), 422, "seedName"),
        (
            &binder,
            with(
                &with(&now, seed.clone()),
                json!({"spec": {"region": "other"}}),
            ),
            422,
            "only .spec.seedName",
        ),
    ] {
        let (got, message) = bind(client, body).await.unwrap_err();
        assert_eq!(got, code, "{message}");
        assert!(message.contains(text), "{message}");
    }
    // The status that comes along is ignored, Create/Pending is cleared, the generation counts.
    let bound = bind(
        &binder,
        with(
            &with(&now, seed.clone()),
            json!({"status": {"seedName": "lie"}}),
        ),
    )
    .await
    .unwrap();
    assert_eq!(seed_of(&bound), Some("s"));
    assert_eq!(bound.data["status"], json!({}));
    assert_eq!(bound.metadata.generation, Some(2));
    let now = read().await;
    let (code, message) = bind(&binder, now.clone()).await.unwrap_err();
    assert_eq!(
        (code, message.contains("already assigned")),
        (403, true),
        "{message}"
    );
    let (code, message) = bind(&binder, with(&now, json!({"spec": {"seedName": "t"}})))
        .await
        .unwrap_err();
    assert_eq!(
        (code, message.contains("cannot change seed")),
        (403, true),
        "{message}"
    );
    assert_eq!(
        stage.garden.counts(),
        Counts {
            landed: 1,
            conflicts: 1,
            refused: 6
        }
    );
    stage.plane.stop().await;
}
