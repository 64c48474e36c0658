//! The proxy pods of the source, and what is kept of each. Must not know what is done with them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use pilotage_api::keys;
use pilotage_clusters::{Watch, WatchConfig};
use pilotage_proxy::{
    Reply,
    kept::{self, OUTLINE},
};
use pilotage_runtime::{
    thin::{Thin, thin},
    weight,
};
use tokio_util::sync::CancellationToken;

/// What each field may weigh of a pod that is too heavy to be read whole.
const FIELD: usize = 1 << 20;

/// All proxy pods of the source. Whoever may create pods anywhere can give them the scheduler's name: of each is kept
/// what somebody reads, and of one that the webhook didn't make hardly more than who it is.
pub fn watch_proxies(client: &Client, stop: &CancellationToken) -> Watch<Pod> {
    let selector = format!("spec.schedulerName={}", keys::PROXY_SCHEDULER);
    let config = WatchConfig::all().fields(selector);
    let config = config.trim(trim).slim(slim).heavy(outline);
    Watch::of_client(client.clone(), config, stop)
}

/// Of a proxy that comes back of a write no more is kept than of one that the watch brings.
pub(crate) fn keep_less(proxies: &Watch<Pod>, reply: &mut Reply) {
    if let Some(pod) = reply.proxy.take() {
        let pod = proxies.as_kept(Arc::unwrap_or_clone(pod));
        reply.proxy = Some(Arc::new(pod));
    }
}

fn trim(pod: &mut Pod) {
    kept::lean(pod);
    let annotations = pod.metadata.annotations.as_ref();
    if annotations.is_none_or(|all| !all.contains_key(keys::SOURCE_POD_MANIFEST)) {
        slim(pod);
    }
}

fn slim(pod: &mut Pod) {
    kept::slim(pod, weight::of);
}

fn outline(text: &str) -> serde_json::Result<Pod> {
    let Thin { text, left_out } = thin(text, &OUTLINE, FIELD)?;
    let mut pod = serde_json::from_str(&text)?;
    kept::outlined(&mut pod, &left_out, weight::of);
    Ok(pod)
}

#[cfg(test)]
mod tests {
    use pilotage_proxy::{ProxyView, kept::LeftOut};
    use pilotage_runtime::guarded::Guarded;
    use serde_json::{Value, json};

    use super::*;

    /// A proxy that the webhook made, or a pod that only has its scheduler's name.
    fn pod(has_manifest: bool, volumes: usize) -> Value {
        let volumes: Vec<_> = (0..volumes)
            .map(|number| json!({ "name": format!("v{number}"), "emptyDir": {} }))
            .collect();
        let mut pod = json!({
            "metadata": {
                "namespace": "shop", "name": "web", "uid": "u", "resourceVersion": "1",
                "annotations": { "example.com/note": "x".repeat(100_000) },
            },
            "spec": {
                "schedulerName": keys::PROXY_SCHEDULER, "nodeName": "paris", "volumes": volumes,
                "containers": [{ "name": "app", "image": "i" }],
            },
            "status": { "phase": "Running" },
        });
        if has_manifest {
            pod["metadata"]["annotations"][keys::SOURCE_POD_MANIFEST] = "spec: {}".into();
        }
        pod
    }

    /// What is kept of it, if what is heavier than 8 MiB is read in outline.
    fn kept_of(pod: &Value) -> (Pod, LeftOut, usize) {
        let read = Guarded::read_within(&pod.to_string(), 8 << 20, outline);
        let mut pod: Pod = read.0.unwrap();
        trim(&mut pod);
        let (left_out, weight) = (LeftOut::of(&pod), weight::of(&pod));
        (pod, left_out, weight)
    }

    #[test]
    fn thousands_of_volumes_of_a_proxy_take_no_memory() {
        let (light, nothing, few) = kept_of(&pod(true, 10));
        let (heavy, left_out, many) = kept_of(&pod(true, 3_000));
        assert_eq!((nothing, left_out), (LeftOut::Nothing, LeftOut::Nothing));
        assert_eq!(light, heavy);
        assert!(few == many && many < 128 << 10, "{many}");
    }

    #[test]
    fn of_a_pod_of_over_8_mib_hardly_more_is_kept_than_who_it_is() {
        let (pod, left_out, weight) = kept_of(&pod(true, 60_000));
        assert_eq!(left_out, LeftOut::Words);
        let view = ProxyView::of(&pod).unwrap();
        assert!(view.has_manifest && view.node_name.as_deref() == Some("paris"));
        assert!(weight < 16 << 10, "{weight}");
    }

    #[test]
    fn of_a_pod_that_the_webhook_did_not_make_hardly_more_is_kept_than_who_it_is() {
        for volumes in [0, 1_000, 60_000] {
            let (pod, left_out, weight) = kept_of(&pod(false, volumes));
            assert_eq!(left_out, LeftOut::Words, "{volumes}");
            assert!(!ProxyView::of(&pod).unwrap().has_manifest);
            assert!(weight < 16 << 10, "{volumes}: {weight}");
        }
    }
}
