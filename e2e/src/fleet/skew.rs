//! Which Kubernetes the clusters of a side have, if not the pinned one: a variable of the environment a side says it,
//! so that all scenarios can run unchanged on clusters of different versions (`make test-skew`).

use std::env;

use pilotage_testkit::plane::Builder;

use super::Side;

impl Side {
    /// The variable that names the Kubernetes of this side's clusters by its minor version, such as `1.34`.
    pub const fn kubernetes_variable(self) -> &'static str {
        match self {
            Self::Source => "PILOTAGE_SOURCE_KUBERNETES",
            Self::Target => "PILOTAGE_TARGETS_KUBERNETES",
        }
    }

    /// The version that it names; none: the pinned one.
    pub fn kubernetes(self) -> Option<String> {
        env::var(self.kubernetes_variable())
            .ok()
            .filter(|version| !version.is_empty())
    }

    /// A cluster of this side, with the Kubernetes that it should have.
    pub(super) fn skewed(self, plane: Builder) -> Builder {
        match self.kubernetes() {
            Some(version) => plane.kubernetes(&version),
            None => plane,
        }
    }
}
