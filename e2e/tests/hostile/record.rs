//! The record: nobody but Pilotage sets it, moves it, or takes it off.

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use pilotage_api::keys;
use pilotage_testkit::create;
use serde_json::{Value, json};

use crate::stage::{Stage, elected, record};

#[tokio::test(flavor = "multi_thread")]
async fn nobody_but_pilotage_writes_a_record() {
    let stage = Stage::new("record").await;
    let tenant: Api<Pod> = Api::namespaced(stage.tenant().await, &stage.own);
    let own = create(&tenant, &elected("own", "64")).await.unwrap();
    let honest = stage.pods(&stage.honest);
    create(&honest, &elected("web", "100m")).await.unwrap();
    // Until it is bound its record may change once more.
    let web = stage.runs(&stage.honest, "web").await;
    let large = format!("{}/u/1", "x".repeat(200_000));
    let values = [json!("elsewhere/u/1"), json!(large), json!(""), Value::Null];
    // Even an administrator's change would let a second delegate start.
    for (pods, name) in [(&tenant, "own"), (&honest, "web")] {
        for value in &values {
            if name == "own" && value.is_null() {
                continue;
            }
            let patch = json!({ "metadata": { "annotations": { keys::GRANTED_TO: value } } });
            let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
            let refused = pods.patch(name, &params, &patch).await.unwrap_err();
            let refused = refused.to_string();
            assert!(
                refused.contains("written by Pilotage alone"),
                "{name}: {refused}"
            );
            let refused = pods.patch_status(name, &params, &patch).await;
            let refused = refused.unwrap_err().to_string();
            // A tenant may write no status at all.
            let why = if name == "own" {
                "cannot patch"
            } else {
                "written by Pilotage alone"
            };
            assert!(refused.contains(why), "{name}: {refused}");
        }
    }
    assert_eq!(record(&tenant.get("own").await.unwrap()), record(&own));
    assert_eq!(record(&honest.get("web").await.unwrap()), record(&web));
}
