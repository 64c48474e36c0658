//! Bodies of the source's writes, which carry their preconditions, and what live reads say. Sent by the edges.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilotage_api::{
    PodChaperon, keys,
    parent::{ClusterUid, ParentLink},
    record::Record,
};
use pilotage_model::changes;
use pilotage_sched::BindingRequest;
use serde_json::{Value, json};

use crate::{
    class::Marks,
    plan::GrantForm,
    view::{ProxyView, RecordState},
};

/// Merge patch of a proxy pod: the record, over this version only. It brings our finalizer: an API server gives none to
/// a pod that is ending by then, and who has no record leaves at once.
pub fn record(proxy: &ProxyView, resource_version: &str, record: &Record) -> Value {
    let mut patch = json!({ "metadata": {
        "uid": proxy.uid,
        "resourceVersion": resource_version,
        "annotations": { keys::GRANTED_TO: record.to_string() },
    } });
    if let Some(finalizers) = proxy.with_finalizer() {
        patch["metadata"]["finalizers"] = json!(finalizers);
    }
    patch
}

/// The binding of a proxy pod to the virtual node that its record names, over this version only.
pub fn binding(proxy: &ProxyView, resource_version: &str, node: &str) -> BindingRequest {
    BindingRequest {
        namespace: proxy.namespace.clone(),
        name: proxy.name.clone(),
        uid: proxy.uid.clone(),
        resource_version: Some(resource_version.to_owned()),
        node: node.to_owned(),
    }
}

/// Merge patch of a proxy pod, or of any object: its finalizers, over this version only.
pub fn finalizers(uid: &str, resource_version: &str, remaining: &[String]) -> Value {
    json!({ "metadata": {
        "uid": uid,
        "resourceVersion": resource_version,
        "finalizers": remaining,
    } })
}

/// Merge patch of a chaperon: the source gives it up, as of this version.
pub fn give_up(uid: &str, resource_version: &str) -> Value {
    json!({ "metadata": {
        "uid": uid,
        "resourceVersion": resource_version,
        "annotations": { keys::GIVE_UP: keys::TRUE },
    } })
}

/// JSON patch of a chaperon: the grant that a status update in between doesn't disturb. Its tests say what must still
/// hold; our finalizer is refused if the chaperon is ending by then.
pub fn grant_by_test(uid: &str, form: GrantForm) -> Value {
    let path = |key: &str| {
        let key = key.replace('~', "~0").replace('/', "~1");
        format!("/metadata/annotations/{key}")
    };
    let test = |path: String, value: Value| json!({ "op": "test", "path": path, "value": value });
    let add = |path: String, value: Value| json!({ "op": "add", "path": path, "value": value });
    let mut operations = vec![test("/metadata/uid".to_owned(), json!(uid))];
    let allowed = match form {
        GrantForm::Attempt(attempt) => {
            operations.push(test(path(keys::ATTEMPT), json!(attempt.to_string())));
            operations.push(test(path(keys::IS_RESERVED), json!(keys::TRUE)));
            attempt
        }
        GrantForm::Unreserved | GrantForm::Plain => {
            operations.push(test(path(keys::ATTEMPT), json!("0")));
            1
        }
    };
    operations.push(add(path(keys::ALLOWED_ATTEMPT), json!(allowed.to_string())));
    operations.push(add(path(keys::IS_ALLOWED), json!(keys::TRUE)));
    let finalizers = json!([keys::DELEGATE_GONE]);
    operations.push(add("/metadata/finalizers".to_owned(), finalizers));
    Value::Array(operations)
}

/// Merge patch of a chaperon: the grant over one version, to targets that number nothing, and beside others'
/// finalizers.
///
/// `finalizers`: those that a live read has just shown; a target that numbers nothing gets none of ours.
pub fn grant_by_version(
    uid: &str,
    resource_version: &str,
    form: GrantForm,
    mut finalizers: Vec<String>,
) -> Value {
    let mut metadata = json!({
        "uid": uid,
        "resourceVersion": resource_version,
        "annotations": { keys::IS_ALLOWED: keys::TRUE },
    });
    let allowed = match form {
        GrantForm::Attempt(attempt) => Some(attempt),
        GrantForm::Unreserved => Some(1),
        GrantForm::Plain => None,
    };
    if let Some(allowed) = allowed {
        metadata["annotations"][keys::ALLOWED_ATTEMPT] = json!(allowed.to_string());
        // The version above makes a list that is old by then a conflict.
        if finalizers.iter().all(|known| known != keys::DELEGATE_GONE) {
            finalizers.push(keys::DELEGATE_GONE.to_owned());
        }
        metadata["finalizers"] = json!(finalizers);
    }
    json!({ "metadata": metadata })
}

/// What a grant was answered with: does it say that it was granted, with the finalizer that goes with it?
pub fn is_granted(chaperon: &PodChaperon, form: GrantForm) -> bool {
    let marks = Marks::of(chaperon);
    let allowed = match form {
        GrantForm::Attempt(attempt) => attempt,
        GrantForm::Unreserved => 1,
        GrantForm::Plain => return marks.is_allowed,
    };
    let mut finalizers = chaperon.metadata.finalizers.iter().flatten();
    let held = finalizers.any(|finalizer| finalizer == keys::DELEGATE_GONE);
    marks.is_allowed && marks.allowed == allowed && held
}

/// What giving a chaperon up was answered with: does it say so?
pub fn is_given_up(chaperon: &PodChaperon) -> bool {
    Marks::of(chaperon).gives_up
}

/// What a chaperon lacks of its proxy.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Nothing.
    Nothing,
    /// This merge patch, over the version that was read.
    Patch(Value),
    /// Something, but nobody there would give it to the delegate.
    Refused(&'static str),
}

/// A live read of a chaperon and one of its proxy pod, metadata and spec, both as they came: what has the pod that the
/// chaperon doesn't?
pub fn change(chaperon: &PodChaperon, proxy: &ObjectMeta, spec: &Value) -> Change {
    let Some(changed) = changes::of_spec(proxy, spec, &chaperon.spec.0) else {
        return Change::Nothing;
    };
    if Marks::of(chaperon).is_plainly_granted() {
        return Change::Refused(
            "Admiralty, which runs there, takes no changes of running pods: ephemeral containers and other amounts of \
             CPU and memory stay in this cluster",
        );
    }
    let ObjectMeta {
        uid,
        resource_version,
        generation,
        ..
    } = &chaperon.metadata;
    let mut metadata = json!({ "uid": uid, "resourceVersion": resource_version });
    if changes::has_amounts(&changed) {
        // The patch names the version that it changes, so that it makes the next generation and no later one.
        let next = generation.unwrap_or_default().saturating_add(1);
        metadata["annotations"] = json!({ keys::AMOUNTS_GENERATION: next.to_string() });
    }
    Change::Patch(json!({ "metadata": metadata, "spec": changed }))
}

/// What such a patch was answered with: does the spec have it?
pub fn is_changed(chaperon: &PodChaperon, patch: &Value) -> bool {
    let wanted = patch["spec"].as_object();
    let mut wanted = wanted.into_iter().flatten();
    wanted.all(|(field, value)| chaperon.spec.0.get(field) == Some(value))
}

/// What a deletion was answered with: does it say that the chaperon is ending?
pub fn is_ending(chaperon: &PodChaperon) -> bool {
    chaperon.metadata.deletion_timestamp.is_some()
}

/// A live read of a proxy pod: may its record name this chaperon, behind whichever virtual node?
pub fn is_recorded(live: Option<&ProxyView>, proxy_uid: &str, chaperon_uid: &str) -> bool {
    live.filter(|live| live.uid == proxy_uid)
        .is_some_and(|live| match &live.record {
            RecordState::Is(record) => record.spares(chaperon_uid),
            // Nobody can say what stood there.
            RecordState::Damaged(_) => true,
            RecordState::Absent => false,
        })
}

/// A live read of the pod that a chaperon names: is it the parent still?
pub fn is_parent(live: Option<&ObjectMeta>, parent_uid: &str) -> bool {
    live.is_some_and(|live| live.uid.as_deref() == Some(parent_uid))
}

/// A live read of a chaperon that has the name already: is it the proxy's own?
pub fn is_own(chaperon: &ObjectMeta, proxy_uid: &str, cluster: &ClusterUid) -> bool {
    ParentLink::of(chaperon).is_some_and(|link| link.uid == proxy_uid && link.belongs_to(cluster))
}

/// A live LIST of a pod's chaperons: is one of them the one with this UID?
pub fn is_among(chaperons: &[ObjectMeta], chaperon_uid: &str) -> bool {
    let mut uids = chaperons.iter().map(|it| it.uid.as_deref());
    uids.any(|uid| uid == Some(chaperon_uid))
}

/// A live LIST of a proxy pod's delegates, after one of its chaperons was found to be gone: may one be of that
/// chaperon?
pub fn is_delegate_left(pods: &[ObjectMeta], chaperon_uid: &str) -> bool {
    pods.iter().any(|pod| {
        let owners = pod.owner_references.iter().flatten();
        let mut controllers = owners.filter(|owner| owner.controller == Some(true));
        controllers
            .next()
            .is_none_or(|owner| owner.uid == chaperon_uid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_tests_what_it_grants_and_brings_the_finalizer() {
        let patch = grant_by_test("u", GrantForm::Attempt(3));
        let key = "/metadata/annotations/multicluster.admiralty.io~1";
        assert_eq!(
            patch,
            json!([
                { "op": "test", "path": "/metadata/uid", "value": "u" },
                { "op": "test", "path": format!("{key}attempt"), "value": "3" },
                { "op": "test", "path": format!("{key}is-reserved"), "value": "true" },
                { "op": "add", "path": format!("{key}allowed-attempt"), "value": "3" },
                { "op": "add", "path": format!("{key}is-allowed"), "value": "true" },
                { "op": "add", "path": "/metadata/finalizers", "value": [keys::DELEGATE_GONE] },
            ])
        );
        let unreserved = grant_by_test("u", GrantForm::Unreserved);
        assert_eq!(unreserved[1]["value"], "0");
        assert_eq!(unreserved[2]["value"], "1");
    }

    #[test]
    fn a_grant_by_version_keeps_others_finalizers_and_gives_a_plain_target_none() {
        let finalizers = |form| {
            let patch = grant_by_version("u", "7", form, vec!["theirs".to_owned()]);
            assert_eq!(patch["metadata"]["resourceVersion"], "7");
            patch["metadata"]["finalizers"].clone()
        };
        let both = json!(["theirs", keys::DELEGATE_GONE]);
        assert_eq!(finalizers(GrantForm::Attempt(2)), both);
        assert_eq!(finalizers(GrantForm::Plain), Value::Null);
    }

    #[test]
    fn who_says_that_it_was_done_has_to_show_it() {
        let shown = |changes: Value| -> PodChaperon {
            let mut chaperon = crate::testing::stored_chaperon(&crate::testing::proxy(), "u", "7");
            let meta = chaperon["metadata"].as_object_mut().unwrap();
            meta.extend(changes.as_object().unwrap().clone());
            serde_json::from_value(chaperon).unwrap()
        };
        let granted = |allowed: &str, finalizers: Value| {
            let marks = json!({ keys::IS_ALLOWED: "true", keys::ALLOWED_ATTEMPT: allowed });
            shown(json!({ "annotations": marks, "finalizers": finalizers }))
        };
        let ours = || json!(["theirs", keys::DELEGATE_GONE]);
        let (second, first) = (GrantForm::Attempt(2), GrantForm::Unreserved);
        let as_it_was = shown(json!({}));
        for form in [second, first, GrantForm::Plain] {
            assert!(!is_granted(&as_it_was, form), "{form:?}");
        }
        assert!(is_granted(&granted("2", ours()), second));
        assert!(!is_granted(&granted("1", ours()), second));
        assert!(!is_granted(&granted("2", json!(["theirs"])), second));
        assert!(is_granted(&granted("1", ours()), first));
        assert!(!is_granted(&granted("1", Value::Null), first));
        assert!(is_granted(&granted("0", Value::Null), GrantForm::Plain));

        let given_up = json!({ "annotations": { keys::GIVE_UP: "true" } });
        assert!(is_given_up(&shown(given_up)) && !is_given_up(&as_it_was));
        let ending = json!({ "deletionTimestamp": "2026-01-01T00:00:00Z" });
        assert!(is_ending(&shown(ending)) && !is_ending(&as_it_was));
    }

    #[test]
    fn a_change_is_patched_into_what_was_read_and_a_plain_target_gets_none() {
        let stored = |annotations: Value, spec: &Value| -> PodChaperon {
            let mut chaperon = crate::testing::stored_chaperon(&crate::testing::proxy(), "u", "7");
            chaperon["metadata"]["annotations"] = annotations;
            chaperon["spec"] = spec.clone();
            serde_json::from_value(chaperon).unwrap()
        };
        let container = |cpu: &str| {
            let resources = json!({ "requests": { "cpu": cpu } });
            json!([{ "name": "app", "fieldOfTomorrow": 1, "resources": resources }])
        };
        let before = json!({ "nodeSelector": {}, "containers": container("1") });
        let ours =
            json!({ keys::IS_ALLOWED: "true", keys::ATTEMPT: "1", keys::ALLOWED_ATTEMPT: "1" });
        let chaperon = stored(ours.clone(), &before);
        let meta = ObjectMeta::default();
        let changed = |chaperon, cpu| {
            let resources = json!({ "requests": { "cpu": cpu } });
            let spec = json!({ "containers": [{ "name": "app", "resources": resources }] });
            change(chaperon, &meta, &spec)
        };
        assert_eq!(changed(&chaperon, "1"), Change::Nothing);
        // Without a schema the first version has generation 1; here it has none.
        let annotations = json!({ keys::AMOUNTS_GENERATION: "1" });
        let patch = json!({
            "metadata": { "uid": "u", "resourceVersion": "7", "annotations": annotations },
            "spec": { "containers": container("2") },
        });
        assert_eq!(changed(&chaperon, "2"), Change::Patch(patch.clone()));
        assert!(!is_changed(&chaperon, &patch));
        let debug = json!({ "ephemeralContainers": [{ "name": "debug" }] });
        let Change::Patch(debug) = change(&chaperon, &meta, &debug) else {
            panic!("a debug container is a change");
        };
        assert_eq!(debug["metadata"]["annotations"], Value::Null, "no amounts");
        let after = json!({ "nodeSelector": {}, "containers": container("2") });
        assert!(is_changed(&stored(ours, &after), &patch));

        let plain = stored(json!({ keys::IS_ALLOWED: "true" }), &before);
        assert_eq!(changed(&plain, "1"), Change::Nothing);
        assert!(matches!(changed(&plain, "2"), Change::Refused(_)));
    }

    #[test]
    fn a_record_brings_our_finalizer_to_a_pod_that_has_none() {
        let mut proxy = crate::testing::proxy();
        let of = |proxy: &ProxyView| record(proxy, "1", &"a/u/-".parse().unwrap());
        assert_eq!(of(&proxy)["metadata"]["finalizers"], Value::Null);
        proxy.finalizers.clear();
        let ours = json!([keys::DELEGATE_GONE]);
        assert_eq!(of(&proxy)["metadata"]["finalizers"], ours);
        proxy.finalizers = vec!["multicluster.admiralty.io/shop-a".to_owned()];
        let patch = of(&proxy);
        let both = json!(["multicluster.admiralty.io/shop-a", keys::DELEGATE_GONE]);
        assert_eq!(patch["metadata"]["finalizers"], both);
        assert_eq!(patch["metadata"]["resourceVersion"], "1");
        assert_eq!(patch["metadata"]["annotations"][keys::GRANTED_TO], "a/u/-");
    }

    #[test]
    fn a_chaperon_is_found_among_its_pods_by_its_uid() {
        let meta = |uid: &str| ObjectMeta {
            uid: Some(uid.to_owned()),
            ..ObjectMeta::default()
        };
        let listed = [meta("u1"), ObjectMeta::default(), meta("u2")];
        assert!(is_among(&listed, "u2") && !is_among(&listed, "u") && !is_among(&[], "u"));
    }

    #[test]
    fn the_pod_of_a_successor_proves_that_the_delegate_before_is_gone() {
        let pod = |owner: Option<&str>| -> ObjectMeta {
            let owners = owner.map(|uid| {
                json!([{ "apiVersion": "g/v1", "kind": "PodChaperon", "name": "n", "uid": uid, "controller": true }])
            });
            serde_json::from_value(json!({ "ownerReferences": owners })).unwrap()
        };
        assert!(!is_delegate_left(&[], "u"));
        assert!(is_delegate_left(&[pod(Some("u"))], "u"));
        assert!(is_delegate_left(&[pod(None)], "u"), "who knows");
        assert!(!is_delegate_left(&[pod(Some("successor"))], "u"));
    }

    #[test]
    fn a_chaperon_is_recorded_whichever_virtual_node_it_is_seen_behind() {
        let mut live = crate::testing::proxy();
        live.record = RecordState::Is("a/u/1".parse().unwrap());
        assert!(is_recorded(Some(&live), &live.uid, "u"));
        assert!(!is_recorded(Some(&live), &live.uid, "v"));
    }

    #[test]
    fn a_damaged_record_may_name_any_chaperon() {
        let mut live = crate::testing::proxy();
        assert!(!is_recorded(Some(&live), &live.uid, "u"));
        live.record = RecordState::Damaged("x".parse::<Record>().unwrap_err());
        assert!(is_recorded(Some(&live), &live.uid, "u"));
        assert!(!is_recorded(Some(&live), "another", "u"));
        assert!(!is_recorded(None, &live.uid, "u"));
    }
}
