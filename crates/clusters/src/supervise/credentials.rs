//! Where the client of a target comes from: the Secret that its Target names, as it stands. What is in it is parsed
//! elsewhere.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::Config;

use crate::connection::LostReason;
use crate::secrets::content::{kubeconfig, names};
use crate::secrets::{Look, Seen};
use crate::spec::SecretRef;

/// What a client is made from.
#[derive(Clone)]
pub(super) enum Credentials {
    Local,
    Secret {
        secret: SecretRef,
        /// All who name it have the same one.
        held: Arc<Secret>,
    },
}

impl PartialEq for Credentials {
    /// Other versions of a Secret may hold the same.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Local, Self::Local) => true,
            (
                Self::Secret { secret, held },
                Self::Secret {
                    secret: another,
                    held: other,
                },
            ) => {
                secret == another
                    && (Arc::ptr_eq(held, other)
                        || kubeconfig(held, &secret.key) == kubeconfig(other, &secret.key))
            }
            _ => false,
        }
    }
}

/// How to make clients from credentials that parsed.
pub(super) enum Source {
    Local,
    Remote(Box<Config>),
}

/// The credentials as they stand in a Secret; `None` until it is known whether there are any.
pub(super) fn read(secret: &SecretRef, seen: &Seen) -> Option<Result<Credentials, LostReason>> {
    let held = match seen.at(&secret.key) {
        Look::There(held) => held,
        Look::Missing => return Some(Err(LostReason::SecretMissing(secret.clone()))),
        Look::Unreadable(message) => {
            return Some(Err(LostReason::SecretUnreadable {
                secret: secret.clone(),
                message: message.to_owned(),
            }));
        }
        Look::Unknown => return None,
    };
    Some(match kubeconfig(held, &secret.key) {
        Some(_) => Ok(Credentials::Secret {
            secret: secret.clone(),
            held: held.clone(),
        }),
        None => Err(LostReason::KeyMissing {
            secret: secret.clone(),
            known: names(held),
        }),
    })
}
