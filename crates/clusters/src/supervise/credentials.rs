//! Where the client of a target comes from: the Secret that its Target names, as it stands. What is in it is parsed
//! elsewhere.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::{Client, Config};
use tokio_util::sync::CancellationToken;

use crate::connection::LostReason;
use crate::spec::SecretRef;
use crate::watch::{Watch, WatchConfig, WatchHealth};

/// Names of a Secret's keys that are told.
const KEYS_TOLD: usize = 10;

/// What a client is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Credentials {
    Local,
    Secret { secret: SecretRef, bytes: Vec<u8> },
}

/// How to make clients from credentials that parsed.
pub(super) enum Source {
    Local,
    Remote(Box<Config>),
}

/// The credentials as they stand; `None` until it is known whether there are any.
pub(super) fn read(
    secret: Option<&SecretRef>,
    watch: Option<&Watch<Secret>>,
) -> Option<Result<Credentials, LostReason>> {
    let (Some(secret), Some(watch)) = (secret, watch) else {
        return Some(Ok(Credentials::Local));
    };
    if !watch.is_synced() {
        return match &*watch.health().borrow() {
            WatchHealth::Failing { error, .. } => Some(Err(LostReason::SecretUnreadable {
                secret: secret.clone(),
                message: error.clone(),
            })),
            WatchHealth::Starting | WatchHealth::Live => None,
        };
    }
    let Some(object) = watch.get(Some(&secret.namespace), &secret.name) else {
        return Some(Err(LostReason::SecretMissing(secret.clone())));
    };
    let data = object.data.as_ref();
    Some(match data.and_then(|data| data.get(&secret.key)) {
        Some(bytes) => Ok(Credentials::Secret {
            secret: secret.clone(),
            bytes: bytes.0.clone(),
        }),
        None => Err(LostReason::KeyMissing {
            secret: secret.clone(),
            known: data
                .map(|data| data.keys().take(KEYS_TOLD).cloned().collect())
                .unwrap_or_default(),
        }),
    })
}

/// The secret itself, if there is one.
pub(super) fn whole(
    secret: Option<&SecretRef>,
    watch: Option<&Watch<Secret>>,
) -> Option<Arc<Secret>> {
    let secret = secret?;
    watch?.get(Some(&secret.namespace), &secret.name)
}

/// Watches the one secret and nothing else of its namespace.
pub(super) fn watch_secret(
    client: &Client,
    secret: &SecretRef,
    stop: &CancellationToken,
) -> Watch<Secret> {
    let config = WatchConfig::all().fields(format!("metadata.name={}", secret.name));
    Watch::of_namespace(client.clone(), &secret.namespace, config, stop)
}
