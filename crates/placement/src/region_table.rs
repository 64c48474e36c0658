//! Owns tables of distances between regions: Gardener's region config maps, each row parsed once.
//! Knows nothing of API objects; it gets their name and data.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};

use crate::limits;

/// How much is told of what is wrong with a row, in bytes.
const TOLD: usize = 256;

/// Distances by the region of the request. A row that can't be read fails only those who need it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionTable {
    name: String,
    rows: BTreeMap<String, Result<Row, RowError>>,
}

/// Distances from one region to others. The unit is the author's; the row of the request's region is used, nothing
/// follows from the reverse one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row(BTreeMap<String, i64>);

/// A row isn't a mapping of regions to whole numbers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RowError(String);

impl RegionTable {
    /// Reads a table: `data` has the rows as YAML, by region. A row that is the empty string counts as absent, and so
    /// does each one whose region has a longer name than regions have.
    pub fn new<'a>(name: &str, data: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut left = limits::TABLE;
        let mut rows = BTreeMap::new();
        for (region, text) in data {
            if text.is_empty() || region.len() > limits::NAME {
                continue;
            }
            let rest = left.checked_sub(text.len());
            left = rest.unwrap_or_default();
            let row = if rest.is_none() || rows.len() >= limits::ROWS {
                let (rows, bytes) = (limits::ROWS, limits::TABLE);
                Err(RowError(format!(
                    "a table has {rows} rows and {bytes} bytes at most, and this is beyond that"
                )))
            } else {
                Row::parse(text)
            };
            rows.insert(region.to_owned(), row);
        }
        Self {
            name: name.to_owned(),
            rows,
        }
    }

    /// What its author calls it: namespace and name of its ConfigMap.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The row of a region, if there is one.
    pub fn row(&self, region: &str) -> Option<Result<&Row, &RowError>> {
        self.rows.get(region).map(Result::as_ref)
    }

    /// The same without the rows that can't be read, so that distances from there go by name.
    #[must_use]
    pub fn readable(mut self) -> Self {
        self.rows.retain(|_, row| row.is_ok());
        self
    }

    /// Rows that can't be read, by region.
    pub fn malformed(&self) -> impl Iterator<Item = (&str, &RowError)> {
        self.rows
            .iter()
            .filter_map(|(region, row)| Some((region.as_str(), row.as_ref().err()?)))
    }
}

impl Row {
    /// Reads a mapping of regions to whole numbers: negative, hexadecimal and `10.0` count, null is 0, the last of
    /// two equal keys counts. A row of blanks, comments or null is empty.
    pub fn parse(text: &str) -> Result<Self, RowError> {
        if text.len() > limits::TABLE {
            let (length, limit) = (text.len(), limits::TABLE);
            return Err(RowError(format!(
                "it has {length} bytes, and may have {limit}"
            )));
        }
        let options = serde_saphyr::options! {
            duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
            with_snippet: false,
            // A mapping of texts to numbers, and hardly an anchor.
            budget: serde_saphyr::budget! {
                max_depth: 8,
                max_nodes: 4 * limits::ROWS,
                max_anchors: 16,
                max_aliases: limits::ROWS,
                max_merge_keys: 16,
            },
        };
        let row: Option<RowFields> =
            serde_saphyr::from_str_with_options(text, options).map_err(|error| {
                let text = error.to_string();
                let end = text.floor_char_boundary(TOLD);
                RowError(text[..end].trim_end().to_owned())
            })?;
        Ok(Self(row.unwrap_or_default().0))
    }

    /// Distance to `region` from `own`, the row's region: what the row says; 0 to itself if it says nothing.
    pub fn distance(&self, own: &str, region: &str) -> Option<i64> {
        let implied = (own == region).then_some(0);
        self.0.get(region).copied().or(implied)
    }
}

#[derive(Default)]
struct RowFields(BTreeMap<String, i64>);

impl<'de> Deserialize<'de> for RowFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Rows;
        impl<'de> Visitor<'de> for Rows {
            type Value = RowFields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping of regions to whole numbers")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RowFields, A::Error> {
                let mut row = BTreeMap::new();
                while let Some((region, Whole(distance))) = map.next_entry::<String, _>()? {
                    let (longest, entries) = (limits::NAME, limits::ROWS);
                    if region.len() > longest {
                        let wrong = "the name of a region may have";
                        return Err(de::Error::custom(format!("{wrong} {longest} bytes")));
                    }
                    row.insert(region, distance);
                    if row.len() > entries {
                        return Err(de::Error::custom(format!(
                            "a row may have {entries} regions"
                        )));
                    }
                }
                Ok(RowFields(row))
            }
        }
        deserializer.deserialize_map(Rows)
    }
}

/// A whole number in any of its spellings.
struct Whole(i64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl<'de> Visitor<'de> for Number {
            type Value = Whole;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Whole, E> {
                Ok(Whole(value))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Whole, E> {
                let unexpected = de::Unexpected::Unsigned(value);
                let value = i64::try_from(value);
                value
                    .map(Whole)
                    .map_err(|_| E::invalid_value(unexpected, &self))
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Whole, E> {
                // Beyond 2^53 a float doesn't say which whole number it is.
                if value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0 {
                    return Ok(Whole(value as i64));
                }
                Err(E::invalid_value(de::Unexpected::Float(value), &self))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Whole, E> {
                Ok(Whole(0))
            }

            fn visit_none<E: de::Error>(self) -> Result<Whole, E> {
                Ok(Whole(0))
            }

            fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Whole, D::Error> {
                inner.deserialize_any(self)
            }
        }
        deserializer.deserialize_any(Number)
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn whole_numbers_in_all_spellings() {
        for (text, distance) in [
            ("a: 10", Some(10)),
            ("a: -3", Some(-3)),
            ("a: 0x1F", Some(31)),
            ("a: 10.0", Some(10)),
            ("a: 3000000000", Some(3_000_000_000)),
            ("a: 3e9", Some(3_000_000_000)),
            ("a: null", Some(0)),
            ("a:", Some(0)),
            ("a: 1\na: 2", Some(2)),
            ("{a: 5, 7: 1}", Some(5)),
            ("b: 5", None),
            ("", None),
            (" \n", None),
            ("# nothing", None),
            ("null", None),
            ("{}", None),
        ] {
            let row = Row::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
            assert_eq!(row.distance("own", "a"), distance, "{text:?}");
        }
        assert_eq!(Row::parse("7: 1").unwrap().distance("own", "7"), Some(1));
    }

    #[test]
    fn its_own_region_is_near_unless_it_says_otherwise() {
        let row = Row::parse("a: 20").unwrap();
        assert_eq!(row.distance("own", "own"), Some(0));
        assert_eq!(row.distance("a", "a"), Some(20));
    }

    #[test]
    fn what_is_no_row() {
        for text in [
            "{",
            "a: 10.5",
            "a: \"10\"",
            "a: true",
            "a: [1]",
            "a: {b: 1}",
            "a: x",
            "- a",
            "text",
            "a: 99999999999999999999",
            "a: 1e300",
            "a: .inf",
            "a: .nan",
        ] {
            let error = Row::parse(text).expect_err(text);
            assert!(!error.to_string().is_empty(), "{text:?}");
        }
    }

    #[test]
    fn one_bad_row_spoils_no_other() {
        let table = RegionTable::new("garden/t", [("a", "{"), ("b", "c: 1"), ("d", "")]);
        assert!(table.row("a").unwrap().is_err());
        assert!(table.row("b").unwrap().is_ok());
        assert!(table.row("d").is_none());
        assert_eq!(
            table
                .malformed()
                .map(|(region, _)| region)
                .collect::<Vec<_>>(),
            ["a"]
        );
        let table = table.readable();
        assert!(table.row("a").is_none() && table.row("b").is_some());
    }

    #[test]
    fn what_is_too_much_is_told_in_few_words() {
        let many = |count: usize| {
            let entries = (0..count).map(|number| format!("r{number}: {number}\n"));
            entries.collect::<String>()
        };
        assert!(Row::parse(&many(limits::ROWS)).is_ok());
        for (text, message) in [
            (many(limits::ROWS + 1), "a row may have 1024 regions"),
            (format!("{}: 1", "r".repeat(64)), "63 bytes"),
            (format!("? {}\n: 1", "r".repeat(90_000)), "63 bytes"),
            ("r: 1\n".repeat(60_000), "it has 300000 bytes"),
            (format!("r: {}", "x".repeat(90_000)), "invalid type"),
            (format!("r: {}", "[".repeat(1000)), ""),
            (many(100).replace(": ", ": &a "), ""),
        ] {
            let error = Row::parse(&text).unwrap_err().to_string();
            assert!(error.contains(message), "{message}: {error}");
            assert!(error.len() <= TOLD, "{error}");
        }
        let rows: Vec<_> = (0..2 * limits::ROWS)
            .map(|row| format!("r{row:04}"))
            .collect();
        let table = RegionTable::new("t", rows.iter().map(|row| (&**row, "a: 1")));
        assert_eq!(table.malformed().count(), limits::ROWS);
        let long = "r".repeat(64);
        assert!(
            RegionTable::new("t", [(&*long, "a: 1")])
                .row(&long)
                .is_none()
        );
    }

    mod fuzz {
        use super::*;

        pilotage_absurd::properties! {
            #[test]
            fn never_panics(text in "\\PC{0,40}", yaml in "[a-c:{} \n\\[\\]0-9.\"'&*!|>-]{0,40}") {
                let _ = Row::parse(&text);
                let _ = Row::parse(&yaml);
            }
        }
    }
}
