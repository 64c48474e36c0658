//! The chaperons of a target and their pods: what is kept of each, and requests about chaperons whose answers aren't
//! taken in whole. Must not know what is done with them.
//!
//! A source writes the chaperons, and their pods are as heavy.

use std::time::Duration;

use kube::{
    Client, Resource,
    api::{ListParams, Patch, PatchParams, Request},
    core::request,
};
use pilotage_api::{PodChaperon, keys};
use pilotage_candidate::chaperon::{
    RawPod,
    kept::{self, OUTLINE},
};
use pilotage_clusters::{Watch, WatchConfig};
use pilotage_runtime::{
    call::{CALL_LIMIT, CallError, within},
    thin::{FIELD, Thin, thin},
    weight,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};
use tokio_util::sync::CancellationToken;

use super::Key;

/// A request, if it can be written.
pub(super) type Built = Result<http::Request<Vec<u8>>, request::Error>;

// ---- what is kept -----------------------------------------------------------------------------------------------

/// All chaperons, without heavy specs.
pub(super) fn watch_chaperons(client: &Client, stop: &CancellationToken) -> Watch<PodChaperon> {
    let config = WatchConfig::all().trim(lean);
    let config = config.slim(kept::slim).heavy(outline);
    Watch::of_client(client.clone(), config, stop)
}

/// All pods with the label of theirs, as far as they are copied.
pub(super) fn watch_pods(client: &Client, stop: &CancellationToken) -> Watch<RawPod> {
    let config = WatchConfig::all().labels(keys::PARENT_UID);
    let config = config.trim(RawPod::trim);
    let config = config.slim(kept::slim_pod).heavy(outline_pod);
    Watch::of_client(client.clone(), config, stop)
}

fn lean(chaperon: &mut PodChaperon) {
    kept::lean(chaperon, weight::of);
}

/// A chaperon that is too heavy to be read whole.
pub(crate) fn outline(text: &str) -> serde_json::Result<PodChaperon> {
    let Thin { text, left_out } = thin(text, &OUTLINE, FIELD)?;
    let mut chaperon = serde_json::from_str(&text)?;
    kept::outlined(&mut chaperon, &left_out);
    Ok(chaperon)
}

fn outline_pod(text: &str) -> serde_json::Result<RawPod> {
    let mut pod = outline_of(text)?;
    kept::slim_pod(&mut pod);
    Ok(pod)
}

/// A pod of theirs that is too heavy to be read whole, as any type.
pub(crate) fn outline_of<K: DeserializeOwned>(text: &str) -> serde_json::Result<K> {
    let thin = thin(text, &OUTLINE, FIELD)?;
    serde_json::from_str(&thin.text)
}

// ---- requests ---------------------------------------------------------------------------------------------------

/// A list of one object, or of none.
#[derive(Deserialize)]
struct One<'a> {
    #[serde(borrow, default)]
    items: Vec<&'a RawValue>,
}

/// The chaperon of that name as it is now, with its spec if it can be read at all; `None` if there is none.
///
/// By a list, which this controller may ask for anyway.
pub(super) async fn whole(
    client: &Client,
    key: &Key,
    watch: &Watch<PodChaperon>,
) -> Result<Option<PodChaperon>, CallError> {
    let params = ListParams::default().fields(&format!("metadata.name={}", key.name));
    let request = chaperons(key).list(&params);
    let answer = within(CALL_LIMIT, send(client, request)).await?;
    let list: One<'_> = serde_json::from_str(&answer).map_err(kube::Error::SerdeError)?;
    let Some(text) = list.items.first() else {
        return Ok(None);
    };
    Ok(watch.read(text.get()).ok())
}

/// PATCH a chaperon, or its status; the reply is for [`Watch::fold_reply`].
pub(crate) async fn patch(
    client: &Client,
    key: &Key,
    patch: &Value,
    status: bool,
    limit: Duration,
) -> Result<String, CallError> {
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    let request = if status {
        chaperons(key).patch_subresource("status", &key.name, &params, &patch)
    } else {
        chaperons(key).patch(&key.name, &params, &patch)
    };
    within(limit, send(client, request)).await
}

/// Sends a request; with the answer's text.
pub(super) async fn send(client: &Client, request: Built) -> Result<String, kube::Error> {
    let request = request.map_err(kube::Error::BuildRequest)?;
    client.request_text(request).await
}

fn chaperons(key: &Key) -> Request {
    Request::new(PodChaperon::url_path(&(), Some(&key.namespace)))
}

/// Requests about the pods of a namespace.
pub(super) fn pods(key: &Key) -> Request {
    Request::new(RawPod::url_path(&(), Some(&key.namespace)))
}

#[cfg(test)]
mod tests {
    use pilotage_candidate::chaperon::kept::LeftOut;
    use pilotage_runtime::guarded::Guarded;
    use serde::Serialize;
    use serde_json::json;

    use super::*;

    /// Megabytes as maps in a megabyte of text.
    fn heavy() -> Value {
        json!(vec![json!({ "a": 0 }); 100_000])
    }

    /// What is kept of it, if what is heavier than 8 MiB is read in outline.
    fn kept_of<K: DeserializeOwned + Serialize>(
        object: &Value,
        outline: fn(&str) -> serde_json::Result<K>,
    ) -> (K, usize) {
        let text = object.to_string();
        assert!(text.len() < 2 << 20, "more than an API server takes");
        let read = Guarded::read_within(&text, 8 << 20, outline).0.unwrap();
        let weight = weight::of(&read);
        (read, weight)
    }

    fn chaperon(spec: &Value) -> Value {
        json!({
            "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "PodChaperon",
            "metadata": {
                "namespace": "shop", "name": "web", "uid": "c", "resourceVersion": "1",
                "labels": { keys::PARENT_UID: "u" }, "annotations": { keys::ATTEMPT: "1", "a": "b" },
                "finalizers": [keys::DELEGATE_GONE],
            },
            "spec": spec,
        })
    }

    #[test]
    fn a_chaperon_that_would_take_over_8_mib_is_read_in_outline() {
        let (kept, weight) = kept_of(&chaperon(&json!({ "x": heavy() })), outline);
        assert_eq!(LeftOut::of(&kept.metadata), LeftOut::All);
        assert_eq!(kept.metadata.uid.as_deref(), Some("c"));
        assert_eq!(kept.metadata.finalizers.unwrap(), [keys::DELEGATE_GONE]);
        assert!(weight < 8 << 10, "{weight}");

        let light = chaperon(&json!({ "schedulerName": "s", "x": [] }));
        let (kept, _) = kept_of(&light, outline);
        assert_eq!(LeftOut::of(&kept.metadata), LeftOut::Nothing);
        assert_eq!(Value::Object(kept.spec.0), light["spec"]);
    }

    #[test]
    fn a_pod_that_would_take_over_8_mib_is_read_in_outline() {
        let mut pod = chaperon(&json!({ "nodeName": "n", "x": heavy() }));
        pod["kind"] = "Pod".into();
        pod["status"] = json!({ "phase": "Running" });
        let (kept, weight) = kept_of(&pod, outline_pod);
        assert_eq!(LeftOut::of(&kept.metadata), LeftOut::Words);
        assert_eq!(kept.node(), Some("n"));
        assert_eq!(kept.status["phase"], "Running");
        assert!(weight < 8 << 10, "{weight}");
    }
}
