//! The cluster's client authorities, as its API server tells them to its own extensions: read now and then.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use pilotage_runtime::backoff::{Backoff, dice};
use pilotage_runtime::call::{self, CALL_LIMIT, CallError};
use pilotage_runtime::tls::{ClientAuthorities, TlsError};
use thiserror::Error;

/// Where they stand.
pub(super) const NAMESPACE: &str = "kube-system";
/// The `ConfigMap`.
pub(super) const NAME: &str = "extension-apiserver-authentication";
/// Its key.
const KEY: &str = "client-ca-file";
/// How often it is read.
const PERIOD: Duration = Duration::from_mins(3);
/// Pause after a failure.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1)).spread(0.3);

/// Why they aren't known.
#[derive(Debug, Error)]
enum Failed {
    #[error("failed to read ConfigMap {NAMESPACE}/{NAME}: {0}")]
    Read(#[from] CallError),
    #[error(
        "ConfigMap {NAMESPACE}/{NAME} has no key {KEY}: its API server takes no client certificates"
    )]
    NoKey,
    #[error("{KEY} of ConfigMap {NAMESPACE}/{NAME} can't be used: {0}")]
    Bundle(#[from] TlsError),
}

/// Keeps `authorities` current for ever. What was known stays until something else is.
pub(super) async fn follow(client: Client, authorities: ClientAuthorities) {
    let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    let (mut failures, mut known) = (0_u32, None);
    loop {
        let pause = match read(&maps, &authorities, &mut known).await {
            Ok(()) => {
                failures = 0;
                PERIOD
            }
            Err(error) => {
                failures = failures.saturating_add(1);
                let known = authorities.is_loaded();
                tracing::warn!(%error, known, "who may sign certificates of kubelet callers isn't known anew");
                BACKOFF.delay(failures, dice())
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn read(
    maps: &Api<ConfigMap>,
    authorities: &ClientAuthorities,
    known: &mut Option<String>,
) -> Result<(), Failed> {
    let map = call::within(CALL_LIMIT, maps.get(NAME)).await?;
    let bundle = map.data.and_then(|mut data| data.remove(KEY));
    let bundle = bundle.ok_or(Failed::NoKey)?;
    if known.as_ref() != Some(&bundle) {
        authorities.replace(bundle.as_bytes())?;
        *known = Some(bundle);
    }
    Ok(())
}
