//! Seed selection: which candidate is the best place for a request, and why the others aren't.
//!
//! It owns the pipeline ([`select`]): an ordered list of [`Step`]s, a [`Strategy`] or weighted [`Rule`]s, and the
//! report of it ([`Selection`]). Requests and candidates are neutral: a Gardener Shoot and its Seeds, or a pod and
//! the virtual nodes. It knows no object of any API, no client, no clock and no randomness; the same input gives the
//! same answer for ever.
//!
//! Behaviour and formulas follow Gardener's scheduler (gardener/gardener, `docs/concepts/scheduler.md`) and the
//! future step of its proposal GEP-13; `docs/placement.md` has the pipeline, its quirks, and worked examples.

// No sum may overflow, whoever gave the numbers.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod candidate;
mod cidr;
pub mod limits;
mod names;
mod pipeline;
mod points;
mod ranking;
mod region;
mod region_table;
mod request;
mod rules;
mod selection;
mod selector;
mod settings;
mod shared_labels;
mod steps;
mod strategy;

pub use candidate::{
    Candidate, CandidateNetworks, Readiness, Resource, Restrictions, Taint, ZoneMode,
};
pub use cidr::Cidr;
pub use names::Names;
pub use pipeline::{Stage, select, select_watched};
pub use points::Points;
pub use region::{Orientation, Region};
pub use region_table::{RegionTable, Row, RowError};
pub use request::{
    Domain, Families, ObservedNetworks, Peers, Providers, Request, RequestNetworks, Toleration,
    ZoneHints,
};
pub use rules::{Cost, Measure, Over, Rule, Weight};
pub use selection::{Failure, InputError, Loss, Ranked, Rejection, RuleScore, Scores, Selection};
pub use selector::{Expression, Labels, Selector, SelectorError, SelectorFault};
pub use settings::{Ranking, Settings, SettingsError, Strategy};
pub use shared_labels::{Labelled, SharedLabels};
pub use steps::{Reason, Step};
pub use strategy::Distance;

/// What each step's reasons are made of.
pub mod reasons {
    pub use crate::steps::{
        access::Reason as Access,
        capacity::Reason as Capacity,
        domain::Reason as Domain,
        emergency_stop::Reason as EmergencyStop,
        networks::{Network, NetworkError, Range, Reason as Networks},
        own_selector::Reason as OwnSelector,
        profile_selector::Reason as ProfileSelector,
        provider::Reason as Provider,
        strategy::Reason as Strategy,
        taints::Reason as Taints,
        usable::Reason as Usable,
        zonal::Reason as Zonal,
        zones::Reason as Zones,
    };
}
