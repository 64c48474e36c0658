//! What becomes of pods.

use pilotage_api::keys;
use pilotage_model::manifest;
use pilotage_webhook::mutate::{Mutation, mutate};
use serde_json::{Value, json};

use crate::support::{
    Pods, annotation, elect, is_proxy, own_account, pod, refused, shared_plane, with_annotation,
};

const WEBHOOK: &str =
    "admission webhook \"elect.pods.multicluster.admiralty.io\" denied the request: ";
const POLICY: &str = "ValidatingAdmissionPolicy 'pilotage-proxy-pods'";

#[tokio::test]
async fn pods_that_are_not_elected_are_admitted_untouched() {
    let plane = shared_plane().await;
    let (elected, plain) = (Pods::elected(&plane).await, Pods::plain(&plane).await);
    for (case, pods, pod) in [
        ("no annotations at all", &elected, pod("a")),
        (
            "other annotations",
            &elected,
            with_annotation(pod("b"), "example.com/a", "b"),
        ),
        ("elected in an ordinary namespace", &plain, elect(pod("c"))),
        ("no annotations in an ordinary namespace", &plain, pod("d")),
    ] {
        let admitted = pods
            .create(&pod)
            .await
            .unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(
            admitted["spec"]["schedulerName"], "default-scheduler",
            "{case}"
        );
        assert_eq!(
            admitted["metadata"]["annotations"], pod["metadata"]["annotations"],
            "{case}"
        );
        assert_eq!(admitted["metadata"].get("finalizers"), None, "{case}");
        assert_eq!(admitted["spec"].get("nodeSelector"), None, "{case}");
    }
}

#[tokio::test]
async fn an_elected_pod_becomes_a_proxy_and_its_manifest_is_the_pod_as_admitted() {
    let plane = shared_plane().await;
    let pods = Pods::elected(&plane).await;
    let mut sent = elect(pod("web"));
    sent["metadata"]["labels"] = json!({ "app": "web" });
    sent["spec"]["nodeSelector"] = json!({ "disk": "ssd" });
    sent["spec"]["schedulingGates"] = json!([{ "name": "example.com/wait" }]);
    for (way, proxy) in [
        ("dry run", pods.dry_run(&sent).await.unwrap()),
        ("create", pods.create(&sent).await.unwrap()),
        ("read", pods.get("web").await.unwrap()),
    ] {
        assert!(is_proxy(&proxy), "{way}: {proxy:#}");
        assert_eq!(
            proxy["spec"]["nodeSelector"],
            json!({ keys::PROVIDER: keys::PROVIDER_VALUE })
        );
        assert_eq!(proxy["spec"]["terminationGracePeriodSeconds"], 0);
        // It may leave as long as it was given to nobody.
        assert_eq!(proxy["metadata"].get("finalizers"), None);
        assert_eq!(proxy["metadata"]["annotations"][keys::RECORDED], "true");
        assert_eq!(
            proxy["metadata"]["labels"],
            json!({ "app": "web", keys::HAS_FINALIZER: "true" })
        );
        assert_eq!(
            proxy["spec"]["schedulingGates"], sent["spec"]["schedulingGates"],
            "gates hold here"
        );
        let tolerations = proxy["spec"]["tolerations"].as_array().unwrap();
        assert!(
            tolerations
                .iter()
                .all(|toleration| toleration.get("tolerationSeconds").is_none()),
            "nothing evicts a proxy: {tolerations:?}"
        );

        let source = manifest::from_proxy(&proxy).unwrap().into_value();
        assert_eq!(source["spec"]["nodeSelector"], sent["spec"]["nodeSelector"]);
        assert_eq!(
            source["spec"]["schedulerName"], "default-scheduler",
            "defaults are in it"
        );
        assert_eq!(source["spec"]["terminationGracePeriodSeconds"], 30);
        assert_eq!(source["spec"]["containers"], proxy["spec"]["containers"]);
        assert_eq!(
            source["spec"]["volumes"], proxy["spec"]["volumes"],
            "with what admission injected"
        );
        assert_eq!(source["metadata"]["labels"], json!({ "app": "web" }));
        assert_eq!(source["metadata"].get("managedFields"), None);
    }
}

#[tokio::test]
async fn the_stored_proxy_is_what_the_mutation_asks_for() {
    // If the API server defaulted anything between our answer and the store, another call would change the pod again.
    let plane = shared_plane().await;
    let pods = Pods::elected(&plane).await;
    let fragment = "affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, \
                    podAffinityTerm: {topologyKey: region}}]}}\n\
                    tolerations: [{operator: Exists}]\n\
                    topologySpreadConstraints: [{maxSkew: 1, topologyKey: region, whenUnsatisfiable: ScheduleAnyway}]";
    for (name, key, value) in [
        ("bare", keys::ELECT, ""),
        ("fragment", keys::PROXY_CONSTRAINTS, fragment),
        ("own", keys::USE_OWN_CONSTRAINTS, ""),
    ] {
        let mut sent = with_annotation(elect(pod(name)), key, value);
        sent["spec"]["hostNetwork"] = true.into();
        sent["spec"]["containers"][0]["ports"] = json!([{ "containerPort": 80 }]);
        sent["spec"]["tolerations"] = json!([{ "operator": "Exists" }]);
        pods.create(&sent).await.unwrap();
        let mut stored = pods.get(name).await.unwrap();
        for field in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
            // Given after admission.
            stored["metadata"].as_object_mut().unwrap().remove(field);
        }
        assert_eq!(
            mutate(&stored),
            Ok(Mutation::Proxy(json_patch::Patch::default())),
            "{name}"
        );
    }
}

#[tokio::test]
async fn server_side_apply_and_generated_names_work_alike() {
    let plane = shared_plane().await;
    let pods = Pods::elected(&plane).await;
    assert!(is_proxy(&pods.apply(&elect(pod("applied"))).await.unwrap()));
    let again = pods.apply(&elect(pod("applied"))).await.unwrap();
    assert!(
        is_proxy(&again),
        "an apply of the same leaves our fields alone"
    );
    let mut generated = elect(pod(""));
    generated["metadata"] = json!({ "generateName": "web-", "annotations": { keys::ELECT: "" } });
    let proxy = pods.create(&generated).await.unwrap();
    assert!(
        is_proxy(&proxy)
            && proxy["metadata"]["name"]
                .as_str()
                .unwrap()
                .starts_with("web-")
    );
}

#[tokio::test]
async fn a_bad_annotation_is_refused_with_its_name_and_the_position_of_the_mistake() {
    let plane = shared_plane().await;
    let pods = Pods::elected(&plane).await;
    for (text, parts) in [
        (
            "nodeSelector:\n  a: b\ntolerationz: []",
            &["line 3, column 1", "tolerationz"][..],
        ),
        (
            "tolerations:\n- key: gpu\n  effect: NoShedule",
            &["line 3, column 11", "NoShedule"],
        ),
        ("nodeSelector: [", &["line 1"]),
        ("nodeSelector:\n  a: true", &["line 2", "quoted"]),
        (
            "nodeSelector: {virtual-kubelet.io/provider: azure}",
            &["azure"],
        ),
    ] {
        let answer = pods
            .create(&with_annotation(
                elect(pod("a")),
                keys::PROXY_CONSTRAINTS,
                text,
            ))
            .await;
        refused(
            text,
            answer.clone(),
            &["(Invalid)", WEBHOOK, keys::PROXY_CONSTRAINTS],
        );
        refused(text, answer, parts);
    }
    for (pattern, parts) in [
        ("^team=(", &["line 1, column 7", "unclosed group"][..]),
        ("a\n[z-a]", &["line 2, column 2", "range"]),
    ] {
        let bad = with_annotation(elect(pod("a")), keys::NO_PREFIX_LABEL_REGEXP, pattern);
        let answer = pods.create(&bad).await;
        refused(
            pattern,
            answer.clone(),
            &["(Invalid)", WEBHOOK, keys::NO_PREFIX_LABEL_REGEXP],
        );
        refused(pattern, answer, parts);
    }
    // What only the API server can judge is refused by it, with the field.
    let text = "nodeSelector: {'not a key': x}";
    let answer = pods
        .create(&with_annotation(
            elect(pod("a")),
            keys::PROXY_CONSTRAINTS,
            text,
        ))
        .await;
    refused(text, answer, &["spec.nodeSelector"]);
}

#[tokio::test]
async fn kubectl_shows_the_reason() {
    let plane = shared_plane().await;
    let pods = Pods::elected(&plane).await;
    let bad =
        with_annotation(elect(pod("a")), keys::PROXY_CONSTRAINTS, "affinities: {}").to_string();
    let error = plane
        .kubectl_with_input(&["apply", "-n", pods.namespace.name(), "-f", "-"], &bad)
        .await
        .unwrap_err()
        .to_string();
    for part in [
        "The request is invalid",
        WEBHOOK,
        keys::PROXY_CONSTRAINTS,
        "line 1, column 1",
        "`affinities`",
    ] {
        assert!(error.contains(part), "{error} lacks {part:?}");
    }
    let good = elect(pod("a")).to_string();
    plane
        .kubectl_with_input(&["apply", "-n", pods.namespace.name(), "-f", "-"], &good)
        .await
        .unwrap();
    assert!(is_proxy(&pods.get("a").await.unwrap()));
    // kubectl's own three-way merge leaves our fields alone, too.
    plane
        .kubectl_with_input(&["apply", "-n", pods.namespace.name(), "-f", "-"], &good)
        .await
        .unwrap();
    assert!(is_proxy(&pods.get("a").await.unwrap()));
}

/// A proxy pod as somebody would copy it.
fn copy(proxy: &Value, name: &str) -> Value {
    let mut copy = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "annotations": proxy["metadata"]["annotations"],
            "labels": proxy["metadata"]["labels"],
            "finalizers": proxy["metadata"]["finalizers"],
        },
        "spec": proxy["spec"],
    });
    copy["metadata"]["annotations"][keys::ELECT] = "".into();
    copy
}

#[tokio::test]
async fn a_forged_manifest_is_refused_however_it_comes() {
    let plane = shared_plane().await;
    let (pods, plain) = (Pods::elected(&plane).await, Pods::plain(&plane).await);
    let proxy = pods.create(&elect(pod("honest"))).await.unwrap();
    let copied = copy(&proxy, "copied");
    let forged = "spec: {containers: [{name: evil, image: evil}], hostPID: true}\nmetadata: {}";

    let with_fields = |managed: Value| {
        let mut pod = copied.clone();
        pod["metadata"]["managedFields"] = managed;
        pod
    };
    let somebody_elses = json!([{
        "manager": "pilotage-webhook", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": { "f:spec": { "f:hostname": {} } },
    }]);
    for (case, pod) in [
        ("a copied proxy", copied.clone()),
        (
            "a manifest on an ordinary pod",
            with_annotation(elect(pod("x")), keys::SOURCE_POD_MANIFEST, forged),
        ),
        (
            "a proxy with another manifest",
            with_annotation(copied.clone(), keys::SOURCE_POD_MANIFEST, forged),
        ),
        ("with its managed fields reset", with_fields(json!([{}]))),
        (
            "with an empty list of managed fields",
            with_fields(json!([])),
        ),
        (
            "with managed fields of somebody else",
            with_fields(somebody_elses),
        ),
        (
            "with managed fields that are damaged",
            with_fields(json!([{
                "manager": "a", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "fieldsV1": { "?": 1 },
            }])),
        ),
    ] {
        refused(
            case,
            pods.create(&pod).await,
            &[
                "(Forbidden)",
                keys::SOURCE_POD_MANIFEST,
                "written by Pilotage alone",
            ],
        );
    }
    refused(
        "by apply",
        pods.apply(&copied).await,
        &[WEBHOOK, "written by Pilotage alone"],
    );

    let mut not_elected = copied.clone();
    not_elected["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(keys::ELECT);
    for (case, pods, pod) in [
        ("not elected", &pods, &not_elected),
        ("in an ordinary namespace", &plain, &copied),
        ("not elected in an ordinary namespace", &plain, &not_elected),
    ] {
        refused(
            case,
            pods.create(pod).await,
            &[
                POLICY,
                "written by Pilotage alone",
                "multicluster-scheduler=enabled",
            ],
        );
    }

    let mut half = copied.clone();
    half["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(keys::SOURCE_POD_MANIFEST);
    refused(
        "a copy without its manifest",
        pods.create(&half).await,
        &["schedulerName", "leave"],
    );
    let recorded = |pod: Value| with_annotation(pod, keys::GRANTED_TO, "admiralty-c1/uid/1");
    refused(
        "a record",
        pods.create(&recorded(elect(pod("x")))).await,
        &[WEBHOOK, keys::GRANTED_TO],
    );
    refused(
        "a record elsewhere",
        plain.create(&recorded(pod("x"))).await,
        &[POLICY, keys::GRANTED_TO],
    );
    refused(
        "the webhook's word without its work",
        plain
            .create(&with_annotation(pod("x"), keys::RECORDED, keys::TRUE))
            .await,
        &[POLICY, keys::RECORDED],
    );
}

#[tokio::test]
async fn node_names_are_refused_on_elected_pods_only() {
    let plane = shared_plane().await;
    let (pods, plain) = (Pods::elected(&plane).await, Pods::plain(&plane).await);
    let on_node = |mut pod: Value| {
        pod["spec"]["nodeName"] = "node-7".into();
        pod
    };
    refused(
        "elected",
        pods.create(&on_node(elect(pod("a")))).await,
        &[WEBHOOK, "spec.nodeName is \"node-7\""],
    );
    pods.create(&on_node(pod("b"))).await.unwrap();
    plain.create(&on_node(elect(pod("c")))).await.unwrap();
}

#[tokio::test]
async fn an_update_may_not_change_the_manifest_and_may_change_the_rest() {
    let plane = shared_plane().await;
    let pods = Pods::elected(&plane).await;
    pods.create(&elect(pod("proxy"))).await.unwrap();
    pods.create(&pod("ordinary")).await.unwrap();
    let annotate =
        |key: &str, value: Value| json!({ "metadata": { "annotations": { key: value } } });
    for (case, name, patch) in [
        (
            "rewrite",
            "proxy",
            annotate(keys::SOURCE_POD_MANIFEST, json!("spec: {}")),
        ),
        (
            "remove",
            "proxy",
            annotate(keys::SOURCE_POD_MANIFEST, Value::Null),
        ),
        (
            "rewrite by status",
            "proxy/status",
            annotate(keys::SOURCE_POD_MANIFEST, json!("spec: {}")),
        ),
        (
            "add",
            "ordinary",
            annotate(keys::SOURCE_POD_MANIFEST, json!("spec: {}")),
        ),
        (
            "add by status",
            "ordinary/status",
            annotate(keys::SOURCE_POD_MANIFEST, json!("spec: {}")),
        ),
    ] {
        refused(
            case,
            pods.patch(name, &patch).await,
            &[POLICY, "can't be changed, added or removed"],
        );
    }
    for (case, name, patch) in [
        (
            "a label",
            "proxy",
            json!({ "metadata": { "labels": { "a": "b" } } }),
        ),
        (
            "a status",
            "proxy/status",
            json!({ "status": { "message": "hello" } }),
        ),
        ("an annotation", "ordinary", annotate("a", json!("b"))),
        (
            "a finalizer",
            "proxy",
            json!({ "metadata": { "finalizers": null } }),
        ),
    ] {
        pods.patch(name, &patch)
            .await
            .unwrap_or_else(|error| panic!("{case}: {error}"));
    }
    refused(
        "a pod that is to count as never granted by Admiralty",
        pods.patch("proxy", &annotate(keys::RECORDED, json!("maybe")))
            .await,
        &[POLICY, keys::RECORDED],
    );
    let pilotage = own_account(&plane).await;
    let record = |value: Value| annotate(keys::GRANTED_TO, value);
    let alone = [POLICY, keys::GRANTED_TO, "written by Pilotage alone"];
    let first = json!("admiralty-c1/uid/1");
    refused(
        "a record of one's own",
        pods.patch("proxy", &record(first.clone())).await,
        &alone,
    );
    pods.patch_as(&pilotage, "proxy", &record(first))
        .await
        .unwrap();
    let large = "x".repeat(200_000);
    for (case, value) in [
        ("the record's removal", Value::Null),
        ("another record", json!("admiralty-c2/uid/2")),
        ("a large one", json!(format!("{large}/uid/1"))),
    ] {
        for name in ["proxy", "proxy/status"] {
            refused(case, pods.patch(name, &record(value.clone())).await, &alone);
        }
    }
    // A binding is no update by a user: it must get through, and sets the node of an elected pod.
    pods.bind("pods/proxy/binding", &binding("proxy"))
        .await
        .unwrap();
    let bound = pods.get("proxy").await.unwrap();
    assert_eq!(bound["spec"]["nodeName"], "admiralty-c1");
    pods.patch("proxy/status", &json!({ "status": { "phase": "Running" } }))
        .await
        .unwrap();
    assert!(annotation(&bound, keys::SOURCE_POD_MANIFEST).is_some());
}

fn binding(pod: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": { "name": pod },
        "target": { "apiVersion": "v1", "kind": "Node", "name": "admiralty-c1" },
    })
}

#[tokio::test]
async fn a_binding_brings_no_manifest_and_no_record() {
    // The API server copies a Binding's annotations onto the pod.
    let plane = shared_plane().await;
    let (elected, plain) = (Pods::elected(&plane).await, Pods::plain(&plane).await);
    for pods in [&elected, &plain] {
        pods.create(&pod("web")).await.unwrap();
        for path in ["pods/web/binding", "bindings"] {
            for key in [keys::SOURCE_POD_MANIFEST, keys::GRANTED_TO, keys::RECORDED] {
                let mut forged = with_annotation(binding("web"), key, "x");
                // Election makes no proxy of what is no pod.
                forged["metadata"]["annotations"][keys::ELECT] = "".into();
                refused(
                    &format!("{key} by {path}"),
                    pods.bind(path, &forged).await,
                    &[POLICY, key, "written by Pilotage"],
                );
            }
        }
        let stored = pods.get("web").await.unwrap();
        assert_eq!(stored["spec"].get("nodeName"), None, "nothing was bound");
        let honest = with_annotation(binding("web"), "example.com/a", "b");
        pods.bind("pods/web/binding", &honest).await.unwrap();
        let bound = pods.get("web").await.unwrap();
        assert_eq!(
            annotation(&bound, "example.com/a"),
            Some("b"),
            "it does copy"
        );
    }
}

#[tokio::test]
async fn a_pod_for_our_scheduler_without_manifest_is_refused_in_every_namespace() {
    let plane = shared_plane().await;
    let (elected, plain) = (Pods::elected(&plane).await, Pods::plain(&plane).await);
    let named = |mut pod: Value| {
        pod["spec"]["schedulerName"] = keys::PROXY_SCHEDULER.into();
        pod
    };
    for (case, pods, pod, by) in [
        ("not elected", &elected, named(pod("a")), POLICY),
        ("elected", &elected, named(elect(pod("b"))), WEBHOOK),
        ("in an ordinary namespace", &plain, named(pod("c")), POLICY),
        ("elected there", &plain, named(elect(pod("d"))), POLICY),
    ] {
        let parts = [by, keys::PROXY_SCHEDULER, "which Pilotage sets itself"];
        refused(case, pods.create(&pod).await, &parts);
    }
    // Other schedulers are nobody's business here.
    let mut candidate = pod("e");
    candidate["spec"]["schedulerName"] = keys::CANDIDATE_SCHEDULER.into();
    plain.create(&candidate).await.unwrap();
}
