//! Project: whose name is a part of the domains of its Shoots.

use serde_json::Value;

use crate::fields::{Field, FieldError};

/// A Project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// Its name.
    pub name: String,
    /// Namespace of its Shoots.
    pub namespace: Option<String>,
}

impl Project {
    /// Reads one.
    pub fn read(value: &Value) -> Result<Self, FieldError> {
        let root = Field::root(value);
        let namespace = root.at(&["spec", "namespace"])?;
        Ok(Self {
            name: root.at(&["metadata", "name"])?.name()?.to_owned(),
            namespace: namespace.optional_name()?.map(ToOwned::to_owned),
        })
    }
}
