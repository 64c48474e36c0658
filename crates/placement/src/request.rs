//! Owns what is to be placed: a Gardener Shoot, a pod, in neutral words. Everything in it is parsed already.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::cidr::Cidr;
use crate::region::Region;
use crate::region_table::RegionTable;
use crate::selector::{Selector, SelectorError};

/// What is to be placed, and what it needs of a place. The default needs nothing.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Which candidates its kind of cloud may use at all (of a Shoot: the selector of its `CloudProfile`). One that
    /// can't be read stays here, since it matters only to selections that come as far as to use it.
    pub profile_selector: Option<Result<Selector, SelectorError>>,
    /// Which candidates its author wants.
    pub own_selector: Option<Result<Selector, SelectorError>>,
    /// Provider that it belongs to; none belongs to each one.
    pub provider: Option<Arc<str>>,
    /// Providers that it may be placed at.
    pub providers: Providers,
    /// Region where it is; none is everywhere.
    pub region: Option<Region>,
    /// Distances between regions that hold for it.
    pub distances: Option<Arc<RegionTable>>,
    /// It must survive the loss of a zone.
    pub zonal: bool,
    /// Zones that it asks for.
    pub zones: ZoneHints,
    /// Names of access restrictions that its place must support, as its author listed them.
    pub access_restrictions: Vec<String>,
    /// Domain that it has been given already.
    pub domain: Option<Domain>,
    /// Its networks; none needs no check.
    pub networks: Option<RequestNetworks>,
    /// Taints that it tolerates.
    pub tolerations: Vec<Toleration>,
    /// How much of which resource it takes.
    pub demand: Vec<(Arc<str>, i64)>,
    /// How many of the same application each candidate has, which the rule `Spread` keeps apart; none counts all
    /// requests, whatever they belong to.
    pub peers: Option<Arc<Peers>>,
    /// It is for tests: any region of its provider will do, whatever the settings say.
    pub testing: bool,
}

/// How many requests of one application candidates have, by the candidate's name; one that isn't there has none. What
/// an application is decides whoever counts: the Shoots of a project, the pods of a Deployment.
pub type Peers = HashMap<Arc<str>, u64>;

/// Providers that a request may be placed at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Providers {
    /// Its own.
    #[default]
    Own,
    /// Each one.
    Any,
    /// These.
    Listed(BTreeSet<String>),
}

/// Zones that a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ZoneHints {
    /// It would like to be near these, or has no wish if there are none.
    Near(BTreeSet<String>),
    /// It demands all of these.
    All(BTreeSet<String>),
}

impl Default for ZoneHints {
    fn default() -> Self {
        Self::Near(BTreeSet::new())
    }
}

/// A domain, and whose it would be if it was one of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// The domain.
    pub domain: String,
    /// Name of the request.
    pub name: String,
    /// Name of its project.
    pub project: String,
}

/// Address families that a request uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Families {
    /// IPv4.
    pub v4: bool,
    /// IPv6.
    pub v6: bool,
}

impl Families {
    /// Whether a range is of one of them.
    pub const fn include(self, range: &Cidr) -> bool {
        (self.v4 && range.is_v4()) || (self.v6 && range.is_v6())
    }
}

/// Networks of a cluster that is to be placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestNetworks {
    /// Of its nodes.
    pub nodes: Option<Cidr>,
    /// Of its pods.
    pub pods: Option<Cidr>,
    /// Of its services.
    pub services: Option<Cidr>,
    /// Families that defaults of a candidate may be of.
    pub families: Families,
    /// It has no nodes, and so no pods.
    pub workerless: bool,
    /// What was observed of it.
    pub observed: Option<ObservedNetworks>,
}

/// Networks that a cluster was observed to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedNetworks {
    /// Of its nodes.
    pub nodes: Vec<Cidr>,
    /// Of its pods.
    pub pods: Vec<Cidr>,
    /// Of its services.
    pub services: Vec<Cidr>,
}

/// A taint that is tolerated: by key, and by value if the taint has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toleration {
    /// The taint's key.
    pub key: String,
    /// The taint's value; none is the same as an empty one.
    pub value: Option<String>,
}
