//! Gardener's kinds, one file each, as far as seed selection reads them.

mod cloud_profile;
mod project;
mod region_config;
mod seed;
mod selector;
mod shoot;

pub use cloud_profile::{CloudProfile, ProfileId, ProfileKind, ProfileRef};
pub use project::Project;
pub use region_config::{REGION_CONFIG_LABEL, RegionConfig, choose};
pub use seed::seed;
pub use shoot::{Networking, Shoot, Worker};

/// Group of `Shoot`, `Seed`, `CloudProfile` and `Project`.
pub const GROUP: &str = "core.gardener.cloud";
/// Namespace of what belongs to the whole garden.
pub const GARDEN: &str = "garden";
