//! Region `ConfigMap`s: tables of distances between the regions of some profiles.

use std::sync::Arc;

use pilotage_placement::RegionTable;
use serde_json::Value;

use super::GARDEN;
use crate::fields::{Field, FieldError};

/// Label of region `ConfigMap`s, and its value.
pub const REGION_CONFIG_LABEL: (&str, &str) =
    ("scheduling.gardener.cloud/purpose", "region-config");
/// Annotation with the names of the profiles, separated by commas.
const PROFILES: &str = "scheduling.gardener.cloud/cloudprofiles";

/// A region `ConfigMap`, parsed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionConfig {
    /// Its name.
    pub name: String,
    /// Names of the profiles that it is for.
    pub profiles: Vec<String>,
    /// Its distances.
    pub table: Arc<RegionTable>,
    /// It has the label and is in the garden's namespace: otherwise it is some other `ConfigMap`.
    pub labelled: bool,
}

impl RegionConfig {
    /// Reads one. Rows that can't be read fail only the Shoots that need them.
    pub fn read(value: &Value) -> Result<Self, FieldError> {
        let root = Field::root(value);
        let metadata = root.get("metadata")?;
        let name = metadata.get("name")?.name()?;
        let namespace = metadata
            .get("namespace")?
            .optional_name()?
            .unwrap_or(GARDEN);
        let labels = metadata.get("labels")?.string_map()?;
        let annotations = metadata.get("annotations")?.string_map()?;
        let data = root.get("data")?.string_map()?;
        let rows = data.iter().map(|(region, row)| (&**region, &**row));
        Ok(Self {
            name: name.to_owned(),
            profiles: annotations
                .get(PROFILES)
                .map(|names| {
                    names
                        .split(',')
                        .map(|name| name.trim().to_owned())
                        .collect()
                })
                .unwrap_or_default(),
            table: Arc::new(RegionTable::new(&format!("{namespace}/{name}"), rows)),
            labelled: namespace == GARDEN
                && labels
                    .get(REGION_CONFIG_LABEL.0)
                    .is_some_and(|purpose| purpose == REGION_CONFIG_LABEL.1),
        })
    }

    /// Whether it is for a profile of this name.
    pub fn is_for(&self, profile: &str) -> bool {
        let mut profiles = self.profiles.iter();
        self.labelled && !profile.is_empty() && profiles.any(|name| name == profile)
    }
}

/// The table for a profile. Of several the one with the lowest name counts; they are never merged.
pub fn choose<'a>(
    configs: impl IntoIterator<Item = &'a RegionConfig>,
    profile: &str,
) -> Option<&'a RegionConfig> {
    let matching = configs.into_iter().filter(|config| config.is_for(profile));
    matching.min_by(|a, b| a.name.cmp(&b.name))
}
