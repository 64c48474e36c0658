//! A binding that the source refuses for a reason that lasts: its author hears of it once, and it is tried again.

use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::watcher;
use pilotage_testkit::{build, list_until, wait_admission};
use serde_json::json;

use super::{LIMIT, Shop, elected, shared_fleet};

/// What the policy says.
const MESSAGE: &str = "nothing is bound today";
/// How often the audit log is read again.
const PERIOD: Duration = Duration::from_millis(500);

/// Refuses bindings in a namespace, and pods named `probe`, which show that it is in force.
async fn refuse_bindings(shop: &Shop) -> Api<ValidatingAdmissionPolicyBinding> {
    let name = format!("{}-unbound", shop.name);
    let policy = json!({
        "metadata": { "name": name },
        "spec": {
            "matchConstraints": {
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": shop.name } },
                "resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                    "resources": ["pods", "pods/binding"],
                }],
            },
            "validations": [{
                "expression": "object.kind == 'Pod' && object.metadata.name != 'probe'",
                "message": MESSAGE,
            }],
        },
    });
    let binding = json!({
        "metadata": { "name": name },
        "spec": { "policyName": name, "validationActions": ["Deny"] },
    });
    let admin = shop.fleet.source.plane.admin();
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(admin.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(admin);
    let params = PostParams::default();
    let policy = serde_json::from_value(policy).unwrap();
    policies.create(&params, &policy).await.unwrap();
    let binding = serde_json::from_value(binding).unwrap();
    bindings.create(&params, &binding).await.unwrap();
    let probe = build::pod("probe").build();
    let refused = |answer: &kube::Result<_>| {
        let answer: &kube::Result<_> = answer;
        matches!(answer, Err(error) if error.to_string().contains(MESSAGE))
    };
    wait_admission(&shop.pods(), &probe, refused, LIMIT)
        .await
        .unwrap();
    bindings
}

/// Refused bindings of the pods of the shop.
async fn refusals(shop: &Shop) -> usize {
    let log = shop.fleet.source.plane.audit().unwrap();
    let entries = log.entries_in(&shop.name).await.unwrap().into_iter();
    let bindings = entries.filter(|entry| entry.subresource == "binding");
    bindings.filter(|entry| !entry.accepted()).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binding_that_is_refused_again_and_again_is_told_once_and_made_in_the_end() {
    let shop = Shop::unconnected(shared_fleet().await, "unbound").await;
    shop.fleet.elect(&shop.name).await.unwrap();
    let bindings = refuse_bindings(&shop).await;
    let east = shop.target("east");
    shop.fleet.add_target(east, &shop.name).await.unwrap();
    shop.create(&elected("web", "10m")).await;

    let tried = async {
        let mut ticks = tokio::time::interval(PERIOD);
        while refusals(&shop).await < 3 {
            ticks.tick().await;
        }
    };
    tokio::time::timeout(LIMIT * 4, tried).await.unwrap();
    let events: Api<Event> = shop.of("source");
    let tells = |event: &Event| event.note.as_deref().unwrap_or_default().contains(MESSAGE);
    let all = watcher::Config::default();
    shop.seen(list_until(&events, all, |all| all.values().any(tells), LIMIT).await);
    let events = events.list(&ListParams::default()).await.unwrap();
    let told = events.items.iter().filter(|event| tells(event));
    let times = told.map(|event| event.series.as_ref().map_or(1, |series| series.count));
    assert_eq!(times.collect::<Vec<_>>(), [1], "{events:#?}");

    let name = format!("{}-unbound", shop.name);
    bindings
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    shop.running("web").await;
    shop.delete("web").await;
}
