//! Owns where a request may be placed: a Gardener Seed, a virtual node, in neutral words. Everything is parsed already.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cidr::Cidr;
use crate::region::Region;
use crate::shared_labels::SharedLabels;

/// A possible place. The default is usable, everywhere and unlimited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name. Ties go to the lowest.
    pub name: Arc<str>,
    /// Its labels.
    pub labels: SharedLabels,
    /// Its annotations; only the rules read them.
    pub annotations: SharedLabels,
    /// It is being deleted.
    pub deleting: bool,
    /// It may be chosen at all.
    pub visible: bool,
    /// Whether it works.
    pub readiness: Readiness,
    /// Its provider.
    pub provider: Arc<str>,
    /// Its region.
    pub region: Region,
    /// Its zones, as its author listed them.
    pub zones: Vec<String>,
    /// How strictly its zones are compared with those of a request.
    pub zone_mode: ZoneMode,
    /// Access restrictions that it supports.
    pub access_restrictions: Restrictions,
    /// Domains below which it can give names.
    pub domains: Vec<String>,
    /// An operator has stopped all work there.
    pub stopped: bool,
    /// Its networks.
    pub networks: CandidateNetworks,
    /// What a request has to tolerate.
    pub taints: Vec<Taint>,
    /// How many requests are placed here, those included that are on their way.
    pub used: u64,
    /// Resources that run out here.
    pub resources: Vec<Resource>,
}

impl Default for Candidate {
    fn default() -> Self {
        Self {
            name: Arc::from(""),
            labels: SharedLabels::new(),
            annotations: SharedLabels::new(),
            deleting: false,
            visible: true,
            readiness: Readiness::Ready,
            provider: Arc::from(""),
            region: Region::new(""),
            zones: Vec::new(),
            zone_mode: ZoneMode::default(),
            access_restrictions: Restrictions::default(),
            domains: Vec::new(),
            stopped: false,
            networks: CandidateNetworks::default(),
            taints: Vec::new(),
            used: 0,
            resources: Vec::new(),
        }
    }
}

/// Whether a candidate works.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Readiness {
    /// It does.
    #[default]
    Ready,
    /// It doesn't, and why in a short phrase.
    NotReady(Arc<str>),
}

/// How strictly a candidate's zones are compared with those of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZoneMode {
    /// Not at all.
    #[default]
    Ignore,
    /// Requests with common zones go there first.
    Prefer,
    /// Only requests with a common zone go there.
    Enforce,
}

/// Access restrictions that a candidate supports, as its author listed them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restrictions {
    names: BTreeSet<String>,
    listed: usize,
}

impl Restrictions {
    /// Whether one is supported.
    pub fn supports(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// How many were listed, one that was listed twice counting twice.
    pub const fn listed(&self) -> usize {
        self.listed
    }
}

impl FromIterator<String> for Restrictions {
    fn from_iter<I: IntoIterator<Item = String>>(names: I) -> Self {
        let mut listed = 0_usize;
        let count = |_: &String| listed = listed.saturating_add(1);
        let names = names.into_iter().inspect(count).collect();
        Self { names, listed }
    }
}

/// Networks of a candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CandidateNetworks {
    /// Of its nodes.
    pub nodes: Option<Cidr>,
    /// Of its pods.
    pub pods: Option<Cidr>,
    /// Of its services.
    pub services: Option<Cidr>,
    /// Pods of a request that doesn't say.
    pub default_pods: Option<Cidr>,
    /// Services of a request that doesn't say.
    pub default_services: Option<Cidr>,
}

/// Something that a request has to tolerate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value; a toleration must have the same, if there is one.
    pub value: Option<String>,
}

/// A resource that runs out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Its name, the same as in a request's demand.
    pub name: Arc<str>,
    /// How much there is for requests; none is without end.
    pub allocatable: Option<i64>,
    /// How much of it is taken.
    pub used: i64,
}
