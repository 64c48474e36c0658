//! Simulated API servers: versioned objects with their histories, and requests with the API server's own preconditions.
//!
//! A request that a real API server would answer otherwise than these is a fault of the simulation. What isn't needed
//! by anybody isn't understood: an unknown field of a patch stops the simulation.

mod chaperons;
mod delegates;
mod patch;
mod proxies;
mod table;

pub(crate) use chaperons::{FOREGROUND, has_label};
pub(crate) use delegates::Delegate;
pub(crate) use table::{Entry, Object, Table};

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::PodChaperon;

/// Namespace of everything.
pub(crate) const NAMESPACE: &str = "shop";

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiError {
    /// 404, the API server's own word.
    NotFound,
    /// 404 of something that stands before it.
    NotFoundElsewhere,
    /// 409 of a POST.
    AlreadyExists,
    /// 409 of a precondition.
    Conflict,
    /// 422.
    Invalid,
    /// 403 of an admission.
    Forbidden,
}

/// How a DELETE ended.
#[derive(Clone, Debug)]
pub(crate) enum Deleted<K> {
    /// It is ending: a finalizer, or its grace, holds it.
    Ending(K),
    /// It is gone.
    Gone,
}

/// One API server; a source's or a target's by what is in it.
#[derive(Debug, Default)]
pub(crate) struct Server {
    /// Goes before its UIDs.
    letter: &'static str,
    version: u64,
    made: u32,
    /// Proxy pods.
    pub(crate) proxies: Table<Pod>,
    /// Chaperons.
    pub(crate) chaperons: Table<PodChaperon>,
    /// Pods of chaperons.
    pub(crate) delegates: Table<Delegate>,
    /// Pods are refused (quota, say).
    pub(crate) refuses_pods: bool,
    /// Chaperons are refused (rights, say).
    pub(crate) refuses_chaperons: bool,
}

impl Server {
    pub(crate) fn new(letter: &'static str) -> Self {
        Self {
            letter,
            ..Self::default()
        }
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn next_uid(&mut self) -> String {
        self.made += 1;
        format!("{}{}", self.letter, self.made)
    }
}
