//! Owns why a profile, or a set of them, can't be.

use thiserror::Error;

use super::{MAX_PLUGINS, Point};
use crate::status::PluginName;

/// Why a profile can't be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProfileError {
    /// A plugin stands twice at one point.
    #[error("profile {profile:?}: plugin {plugin:?} is enabled twice at {point}")]
    Duplicate {
        /// The profile.
        profile: String,
        /// The plugin.
        plugin: PluginName,
        /// The point.
        point: Point,
    },
    /// Not exactly one plugin orders the queue.
    #[error("profile {profile:?}: exactly one QueueSort plugin is needed, found {found}")]
    QueueSort {
        /// The profile.
        profile: String,
        /// How many there are.
        found: usize,
    },
    /// Nothing binds.
    #[error("profile {profile:?}: at least one Bind plugin is needed")]
    NoBind {
        /// The profile.
        profile: String,
    },
    /// A Score plugin that could as well be left out.
    #[error("profile {profile:?}: score weight of plugin {plugin:?} is 0")]
    ZeroWeight {
        /// The profile.
        profile: String,
        /// The plugin.
        plugin: PluginName,
    },
    /// A filter that guards an invariant can't be switched off.
    #[error("profile {profile:?}: plugin {plugin:?} can't be disabled")]
    Mandatory {
        /// The profile.
        profile: String,
        /// The plugin.
        plugin: String,
    },
    /// More plugins at a point than a profile can hold.
    #[error("profile {profile:?}: more than {MAX_PLUGINS} plugins at {point}")]
    TooMany {
        /// The profile.
        profile: String,
        /// The point.
        point: Point,
    },
    /// `percentageOfNodesToScore` above 100.
    #[error("profile {profile:?}: {percentage} % of the nodes can't be scored")]
    Percentage {
        /// The profile.
        profile: String,
        /// What was asked for.
        percentage: u8,
    },
    /// Two profiles have one name.
    #[error("profile {0:?} is defined twice")]
    DuplicateName(String),
    /// Profiles disagree on the queue's order, which they share.
    #[error("profiles {0:?} and {1:?} have different QueueSort plugins")]
    DifferentQueueSort(String, String),
    /// There is no profile.
    #[error("at least one profile is needed")]
    NoProfile,
}
