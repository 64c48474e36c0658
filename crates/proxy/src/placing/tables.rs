//! Tables of distances between regions, from `ConfigMap`s as Gardener has them. Each row is read when its `ConfigMap`
//! changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::ConfigMap;
use pilotage_api::keys;
use pilotage_placement::RegionTable;

use super::place::list;

/// One `ConfigMap`, read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Table {
    /// Whose requests it is for; nothing is everybody's.
    providers: Option<BTreeSet<String>>,
    /// Without the rows that can't be read.
    table: Arc<RegionTable>,
}

/// Tables that count.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Those that are named, in this order; nothing is all of them, by name.
    named: Option<Vec<String>>,
    by_name: BTreeMap<String, Table>,
}

/// What became of a `ConfigMap`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Distances are others than before.
    pub changed: bool,
    /// Rows that can't be read, each with the reason. Distances from there go by name.
    pub malformed: Vec<(String, String)>,
}

impl Tables {
    /// Only these tables count, the first one first; `None`: all there are.
    pub fn new(named: Option<Vec<String>>) -> Self {
        Self {
            named,
            by_name: BTreeMap::new(),
        }
    }

    /// A `ConfigMap` is there in this version. One that isn't a table, or isn't named, counts as none.
    pub fn apply(&mut self, config_map: &ConfigMap) -> Reading {
        let meta = &config_map.metadata;
        let name = meta.name.clone().unwrap_or_default();
        let labels = meta.labels.as_ref();
        let purpose = labels.and_then(|labels| labels.get(keys::REGION_TABLE_LABEL));
        let named = self
            .named
            .as_ref()
            .is_none_or(|names| names.contains(&name));
        if !named || purpose.is_none_or(|purpose| purpose != keys::REGION_TABLE_LABEL_VALUE) {
            return Reading {
                changed: self.remove(&name),
                malformed: Vec::new(),
            };
        }
        let rows = config_map.data.iter().flatten();
        let full_name = format!("{}/{name}", meta.namespace.as_deref().unwrap_or_default());
        let table = RegionTable::new(&full_name, rows.map(|(region, row)| (&**region, &**row)));
        let malformed = table
            .malformed()
            .map(|(region, error)| (region.to_owned(), error.to_string()))
            .collect();
        let annotations = meta.annotations.as_ref();
        let providers = annotations.and_then(|all| all.get(keys::REGION_TABLE_FOR));
        let table = Table {
            providers: providers.map(|text| list(text).map(str::to_owned).collect()),
            table: Arc::new(table.readable()),
        };
        let changed = self.by_name.get(&name) != Some(&table);
        self.by_name.insert(name, table);
        Reading { changed, malformed }
    }

    /// A `ConfigMap` is gone; whether it counted.
    pub fn remove(&mut self, name: &str) -> bool {
        self.by_name.remove(name).is_some()
    }

    /// Tables that are named and aren't there.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        let named = self.named.iter().flatten().map(|name| &**name);
        named.filter(|name| !self.by_name.contains_key(*name))
    }

    /// The first table that is for this provider. They are never merged. Who has no provider gets the first one.
    pub(super) fn of(&self, provider: Option<&str>) -> Option<Arc<RegionTable>> {
        let is_for = |table: &&Table| match (&table.providers, provider) {
            (Some(providers), Some(provider)) => providers.contains(provider),
            (Some(providers), None) => !providers.is_empty(),
            (None, _) => true,
        };
        let found = match &self.named {
            None => self.by_name.values().find(is_for),
            Some(names) => names
                .iter()
                .filter_map(|name| self.by_name.get(name))
                .find(is_for),
        };
        found.map(|table| table.table.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config_map(name: &str, providers: Option<&str>, rows: &[(&str, &str)]) -> ConfigMap {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            pairs.iter().map(own).collect()
        };
        let mut object = ConfigMap {
            data: Some(map(rows)),
            ..ConfigMap::default()
        };
        object.metadata.name = Some(name.into());
        object.metadata.namespace = Some("home".into());
        object.metadata.labels = Some(map(&[(
            keys::REGION_TABLE_LABEL,
            keys::REGION_TABLE_LABEL_VALUE,
        )]));
        object.metadata.annotations =
            providers.map(|names| map(&[(keys::REGION_TABLE_FOR, names)]));
        object
    }

    fn name(tables: &Tables, provider: Option<&str>) -> Option<String> {
        tables.of(provider).map(|table| table.name().to_owned())
    }

    #[test]
    fn the_first_table_that_is_for_a_pod_counts() {
        let order = ["z", "a", "m"].map(str::to_owned).to_vec();
        for (named, of_aws, of_gcp, of_nobody) in [
            (None, "home/a", "home/m", "home/a"),
            (Some(order), "home/z", "home/m", "home/z"),
        ] {
            let mut tables = Tables::new(named);
            assert_eq!(name(&tables, None), None);
            for (table, providers) in [("a", Some("aws")), ("m", None), ("z", Some(" azure , aws"))]
            {
                assert!(tables.apply(&config_map(table, providers, &[])).changed);
            }
            assert_eq!(name(&tables, Some("aws")).as_deref(), Some(of_aws));
            assert_eq!(name(&tables, Some("gcp")).as_deref(), Some(of_gcp));
            assert_eq!(name(&tables, None).as_deref(), Some(of_nobody));
        }
    }

    #[test]
    fn what_is_no_table_or_not_named_counts_as_none() {
        let mut tables = Tables::new(Some(vec!["a".into(), "b".into()]));
        let other = config_map("other", None, &[("eu", "us: 1")]);
        assert_eq!(tables.apply(&other), Reading::default());
        assert_eq!(tables.missing().collect::<Vec<_>>(), ["a", "b"]);
        let mut one = config_map("a", None, &[("eu", "us: 1")]);
        assert!(tables.apply(&one).changed);
        assert!(!tables.apply(&one).changed, "the same again is no news");
        assert_eq!(tables.missing().collect::<Vec<_>>(), ["b"]);
        one.metadata.labels = None;
        assert!(tables.apply(&one).changed, "its label is gone");
        assert_eq!(name(&tables, None), None);
        // An empty list is for nobody, as in Gardener.
        tables.apply(&config_map("b", Some(""), &[]));
        assert_eq!(
            (name(&tables, None), name(&tables, Some("aws"))),
            (None, None)
        );
        assert!(tables.remove("b") && !tables.remove("b"));
    }

    #[test]
    fn a_row_that_cant_be_read_is_told_and_left_out() {
        let mut tables = Tables::new(None);
        let reading = tables.apply(&config_map(
            "a",
            None,
            &[("eu", "us: far"), ("us", "eu: 1")],
        ));
        assert!(reading.changed);
        assert_eq!(reading.malformed.len(), 1);
        assert_eq!(reading.malformed[0].0, "eu");
        assert!(
            reading.malformed[0].1.contains("whole number"),
            "{reading:?}"
        );
        let table = tables.of(None).unwrap();
        assert!(table.row("eu").is_none() && table.row("us").is_some());
    }
}
