//! Whatever API server, users and other webhooks make of a pod, what is mutated is a proxy, and stays one.

use proptest::prelude::*;

use super::*;

/// What API server, users and other webhooks may have put into a pod; some of it nonsense.
fn any_pod() -> impl Strategy<Value = Value> {
    let text = || "[a-z]{1,4}";
    let map = move || prop::option::of(prop::collection::btree_map(text(), text(), 0..3));
    let odd_text = any::<String>();
    let finalizer = prop_oneof![
        "[a-z]{1,3}\\.io/[a-z]",
        "[a-z]{1,3}".prop_map(|name| format!("{}{name}", keys::PREFIX)),
        Just(keys::DELEGATE_GONE.to_owned()),
    ];
    let toleration = prop_oneof![
        Just(json!({ "operator": "Exists" })),
        Just(json!({ "operator": "Exists", "tolerationSeconds": 1 })),
        Just(json!({ "key": keys::NOT_READY_TAINT, "operator": "Exists", "tolerationSeconds": 1 })),
        Just(json!({ "key": keys::NETWORK_UNAVAILABLE_TAINT, "operator": "Exists" })),
        text().prop_map(|key| json!({ "key": key, "operator": "Exists" })),
    ];
    let spec = (
        map(),
        prop::option::of(prop::collection::vec(toleration, 0..4)),
        prop::option::of(Just(json!({ "nodeAffinity": {} }))),
        prop::option::of(0..60_i64),
        prop::option::of(text()),
        odd_text,
    );
    let metadata = (
        map(),
        map(),
        prop::option::of(prop::collection::vec(finalizer, 0..4)),
        0..4_u8,
        any::<bool>(),
    );
    (metadata, spec).prop_map(
        |((labels, annotations, finalizers, constraints, has_label), spec)| {
            let (selector, tolerations, affinity, grace, scheduler, odd) = spec;
            let mut pod = json!({
                "metadata": { "managedFields": pod()["metadata"]["managedFields"] },
                "spec": { "containers": [{ "name": "a", "image": "b", "args": [odd] }] },
            });
            let mut put = |at: &str, field: &str, value: Value| {
                if !value.is_null() {
                    pod[at][field] = value;
                }
            };
            put("metadata", "labels", json!(labels));
            put("metadata", "annotations", json!(annotations));
            put("metadata", "finalizers", json!(finalizers));
            put("spec", "nodeSelector", json!(selector));
            put("spec", "tolerations", json!(tolerations));
            put("spec", "affinity", json!(affinity));
            put("spec", "terminationGracePeriodSeconds", json!(grace));
            put("spec", "schedulerName", json!(scheduler));
            annotate(&mut pod, keys::ELECT, "");
            if constraints & 1 != 0 {
                annotate(&mut pod, keys::USE_OWN_CONSTRAINTS, "");
            }
            if constraints & 2 != 0 {
                annotate(&mut pod, keys::PROXY_CONSTRAINTS, "nodeSelector: {x: y}");
            }
            if has_label {
                pod["metadata"]["labels"][keys::HAS_FINALIZER] = "mine".into();
            }
            pod
        },
    )
}

pilotage_absurd::properties! {
    #[test]
    fn applied_to_its_own_result_it_does_nothing(pod in any_pod()) {
        let proxy = apply(&pod);
        prop_assert_eq!(mutate(&proxy), Ok(Mutation::Proxy(Patch::default())));
        prop_assert_eq!(source_of(&proxy), owned::without_system_fields(&pod));
    }

    #[test]
    fn whatever_another_webhook_makes_of_it_the_result_is_a_proxy_that_only_fits_virtual_nodes(
        pod in any_pod(),
        other in any_pod(),
    ) {
        let proxy = apply(&pod);
        // The other webhook replaces whole parts, owned fields among them, and leaves the annotations in place.
        let meddled = changed_proxy(&proxy, |proxy| {
            proxy["spec"] = other["spec"].clone();
            for field in ["labels", "finalizers"] {
                proxy["metadata"][field] = other["metadata"][field].clone();
            }
        });
        let again = apply(&meddled);
        let source = source_of(&again);
        prop_assert_eq!(&again["spec"]["schedulerName"], keys::PROXY_SCHEDULER);
        prop_assert_eq!(&again["spec"]["nodeSelector"][keys::PROVIDER], keys::PROVIDER_VALUE);
        for field in owned::SPEC_FIELDS {
            prop_assert_eq!(again["spec"].get(field), proxy["spec"].get(field), "{}", field);
            prop_assert_eq!(source["spec"].get(field), pod["spec"].get(field), "{}", field);
        }
        prop_assert_eq!(&source["spec"]["containers"], &other["spec"]["containers"]);
        prop_assert_eq!(mutate(&again), Ok(Mutation::Proxy(Patch::default())));
    }
}
