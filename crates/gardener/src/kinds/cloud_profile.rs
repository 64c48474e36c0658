//! `CloudProfile` and `NamespacedCloudProfile`: which Seeds Shoots of a kind of cloud may use.

use pilotage_placement::{Providers, Selector, SelectorError};
use serde_json::Value;

use super::selector;
use crate::fields::{Field, FieldError};

/// Either of the two kinds of profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProfileKind {
    /// For all namespaces.
    CloudProfile,
    /// For its own namespace.
    NamespacedCloudProfile,
}

impl ProfileKind {
    /// The kind's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CloudProfile => "CloudProfile",
            Self::NamespacedCloudProfile => "NamespacedCloudProfile",
        }
    }

    /// The kind of this name; the empty one is `CloudProfile`.
    pub(super) fn parse(field: &Field<'_>) -> Result<Self, FieldError> {
        match field.string()?.unwrap_or_default() {
            "" | "CloudProfile" => Ok(Self::CloudProfile),
            "NamespacedCloudProfile" => Ok(Self::NamespacedCloudProfile),
            _ => Err(field.error("CloudProfile or NamespacedCloudProfile")),
        }
    }
}

/// Which profile a Shoot names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProfileRef {
    /// Its kind.
    pub kind: ProfileKind,
    /// Its name.
    pub name: String,
}

impl ProfileRef {
    /// Where it is looked for, named by a Shoot in this namespace.
    pub fn id(&self, namespace: &str) -> ProfileId {
        ProfileId {
            kind: self.kind,
            namespace: match self.kind {
                ProfileKind::CloudProfile => String::new(),
                ProfileKind::NamespacedCloudProfile => namespace.to_owned(),
            },
            name: self.name.clone(),
        }
    }
}

/// Where a profile is looked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProfileId {
    /// Its kind.
    pub kind: ProfileKind,
    /// Its namespace; empty for the cluster-wide kind.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A profile of either kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudProfile {
    /// Its kind.
    pub kind: ProfileKind,
    /// Its namespace, if it has one.
    pub namespace: Option<String>,
    /// Its name, which region `ConfigMap`s refer to; a namespaced one doesn't inherit its parent's.
    pub name: String,
    /// Which Seeds may be used, by label.
    pub selector: Option<Result<Selector, SelectorError>>,
    /// Which Seeds may be used, by provider.
    pub providers: Providers,
}

impl CloudProfile {
    /// Reads one.
    pub fn read(value: &Value) -> Result<Self, FieldError> {
        let root = Field::root(value);
        let kind = ProfileKind::parse(&root.get("kind")?)?;
        let spec = match kind {
            ProfileKind::CloudProfile => root.get("spec")?,
            ProfileKind::NamespacedCloudProfile => root.at(&["status", "cloudProfileSpec"])?,
        };
        let seeds = spec.get("seedSelector")?;
        let types = seeds.get("providerTypes")?.labels()?;
        let providers = if types.is_empty() {
            Providers::Own
        } else if types.iter().any(|name| name == "*") {
            Providers::Any
        } else {
            Providers::Listed(types.into_iter().collect())
        };
        let namespace = root.at(&["metadata", "namespace"])?;
        Ok(Self {
            kind,
            namespace: namespace.optional_name()?.map(ToOwned::to_owned),
            name: root.at(&["metadata", "name"])?.name()?.to_owned(),
            selector: selector::read(&seeds)?,
            providers,
        })
    }

    /// Whether it is the one that is looked for. One that doesn't say its namespace may be in any.
    pub fn is(&self, id: &ProfileId) -> bool {
        self.kind == id.kind
            && self.name == id.name
            && (self.kind == ProfileKind::CloudProfile
                || self
                    .namespace
                    .as_ref()
                    .is_none_or(|own| *own == id.namespace))
    }
}
