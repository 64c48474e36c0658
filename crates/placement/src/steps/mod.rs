//! The steps of the pipeline, one file each, in their order. A new one is a file and its line in the list below;
//! each file holds the step's reasons and its `prepare`.

pub(crate) mod access;
pub(crate) mod capacity;
pub(crate) mod domain;
pub(crate) mod emergency_stop;
pub(crate) mod networks;
pub(crate) mod own_selector;
pub(crate) mod profile_selector;
pub(crate) mod provider;
pub(crate) mod strategy;
pub(crate) mod taints;
pub(crate) mod usable;
pub(crate) mod zonal;
pub(crate) mod zones;

use std::fmt;

use crate::pipeline::{Context, Pass};
use crate::selection::InputError;
use crate::selector::{Selector, SelectorError};

macro_rules! steps {
    ($($(#[$doc:meta])* $step:ident => $module:ident,)*) => {
        /// A step of the pipeline. They are ordered as they run.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Step {
            $($(#[$doc])* $step,)*
        }

        impl Step {
            /// All of them, in the order in which they run.
            pub const ALL: &'static [Self] = &[$(Self::$step,)*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$step => stringify!($step),)*
                }
            }

            /// What it does for a request. Fails if it can't be told what, once it gets a candidate.
            pub(crate) fn prepare(
                self,
                context: Context<'_>,
            ) -> Result<Pass<'_>, InputError> {
                match self {
                    $(Self::$step => $module::prepare(context),)*
                }
            }
        }

        /// Why a candidate was rejected, by the step that did so.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$doc])* $step($module::Reason),)*
        }

        impl Reason {
            /// The step that rejected.
            pub const fn step(&self) -> Step {
                match self {
                    $(Self::$step(_) => Step::$step,)*
                }
            }
        }

        impl fmt::Display for Reason {
            /// One short phrase.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$step(reason) => reason.fmt(f),)*
                }
            }
        }

        $(impl From<$module::Reason> for Reason {
            fn from(reason: $module::Reason) -> Self {
                Self::$step(reason)
            }
        })*
    };
}

steps! {
    /// Not being deleted, visible, and ready.
    Usable => usable,
    /// Selected by the request's cloud profile.
    ProfileSelector => profile_selector,
    /// Selected by the request itself.
    OwnSelector => own_selector,
    /// Of a provider that the request may be placed at.
    Provider => provider,
    /// With enough zones for a request that must survive the loss of one.
    Zonal => zonal,
    /// In the zones that the request asks for.
    Zones => zones,
    /// Supports the request's access restrictions.
    AccessRestrictions => access,
    /// Can give the request's domain.
    Domain => domain,
    /// Not stopped by an operator.
    EmergencyStop => emergency_stop,
    /// Without networks in common.
    Networks => networks,
    /// Its taints are tolerated.
    Taints => taints,
    /// Has room.
    Capacity => capacity,
    /// Admitted by the strategy.
    Strategy => strategy,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A step that rejects, for one reason, each candidate whose labels its selector doesn't match; without one, nobody.
fn selected<'a, R: Into<Reason> + Copy + 'a>(
    step: Step,
    selector: Option<&'a Result<Selector, SelectorError>>,
    reason: R,
) -> Result<Pass<'a>, InputError> {
    let selector = match selector {
        None => return Ok(Pass::All),
        Some(Ok(selector)) => selector,
        Some(Err(error)) => {
            let error = error.clone();
            return Err(InputError::Selector { step, error });
        }
    };
    Ok(Pass::each(move |candidate| {
        if selector.matches(&candidate.labels) {
            Ok(())
        } else {
            Err(reason)
        }
    }))
}
