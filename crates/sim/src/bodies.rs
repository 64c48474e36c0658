//! Bodies of what is created, made by the real makers and kept, since schedules make the same ones again and again.

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::{
    PodChaperon, keys,
    parent::{ClusterUid, ParentLink},
};
use pilotage_candidate::chaperon::RawPod;
use pilotage_model::{chaperon as maker, manifest::SourcePod};
use pilotage_proxy::ProxyView;
use serde_json::{Value, json};

use crate::server::NAMESPACE;

thread_local! {
    static SOURCES: RefCell<HashMap<String, Value>> = RefCell::default();
    static CHAPERONS: RefCell<HashMap<(String, bool), Arc<PodChaperon>>> = RefCell::default();
}

/// The chaperon that a proxy scheduler POSTs.
pub(crate) fn chaperon(
    pod: &Pod,
    proxy: &ProxyView,
    cluster: &ClusterUid,
) -> Result<Arc<PodChaperon>, String> {
    let key = (
        format!("{}/{}", proxy.name, proxy.uid),
        proxy.no_reservation,
    );
    if let Some(known) = CHAPERONS.with_borrow(|all| all.get(&key).cloned()) {
        return Ok(known);
    }
    let annotations = pod.metadata.annotations.as_ref();
    let text = annotations
        .and_then(|all| all.get(keys::SOURCE_POD_MANIFEST))
        .ok_or("no manifest")?;
    let source = SOURCES.with_borrow_mut(|all| {
        if let Some(known) = all.get(text) {
            return Ok(known.clone());
        }
        let parsed = SourcePod::parse(text).map_err(|error| error.to_string())?;
        all.insert(text.clone(), parsed.value().clone());
        Ok::<_, String>(parsed.value().clone())
    })?;
    let link = ParentLink {
        cluster_uid: Some(cluster.clone()),
        cluster_name: None,
        uid: proxy.uid.clone(),
        namespace: proxy.namespace.clone(),
        name: proxy.name.clone(),
    };
    let body = maker::chaperon(&source, &link).map_err(|error| error.to_string())?;
    let body = serde_json::from_value(body).map_err(|error| error.to_string())?;
    let body = Arc::new(body);
    CHAPERONS.with_borrow_mut(|all| all.insert(key, Arc::clone(&body)));
    Ok(body)
}

/// The pod that a chaperon controller POSTs.
pub(crate) fn candidate(chaperon: &PodChaperon) -> Result<RawPod, String> {
    let value = serde_json::to_value(chaperon).map_err(|error| error.to_string())?;
    let body = maker::candidate_pod(&value).map_err(|error| error.to_string())?;
    serde_json::from_value(body).map_err(|error| error.to_string())
}

/// The proxy pod that the webhook makes of a user's.
pub(crate) fn proxy(name: &str, no_reservation: bool, replace_after: Option<u32>) -> Pod {
    let mut annotations = serde_json::Map::new();
    let scheduler = if no_reservation {
        "theirs"
    } else {
        keys::CANDIDATE_SCHEDULER
    };
    let own = if no_reservation {
        format!("    {}: \"\"\n", keys::NO_RESERVATION)
    } else {
        "    note: here\n".to_owned()
    };
    let manifest = format!(
        "metadata:\n  name: {name}\n  namespace: {NAMESPACE}\n  annotations:\n{own}spec:\n  schedulerName: \
         {scheduler}\n  containers:\n  - name: main\n    image: i\n"
    );
    annotations.insert(keys::SOURCE_POD_MANIFEST.to_owned(), manifest.into());
    annotations.insert(keys::RECORDED.to_owned(), keys::TRUE.into());
    if no_reservation {
        annotations.insert(keys::NO_RESERVATION.to_owned(), "".into());
    }
    if let Some(seconds) = replace_after {
        annotations.insert(keys::REPLACE_AFTER.to_owned(), format!("{seconds}s").into());
    }
    let pod = json!({
        "metadata": {
            "namespace": NAMESPACE,
            "name": name,
            "annotations": annotations,
        },
        "spec": { "schedulerName": keys::PROXY_SCHEDULER, "containers": [] },
        "status": { "phase": "Pending" },
    });
    serde_json::from_value(pod).unwrap_or_default()
}
