//! What is left of a JSON object that is too heavy to be read: some of its fields, as they stand, and none that is too
//! heavy by itself. Must not know what they mean.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::weight::measure;

/// The keys under which a field stands, one within the other.
pub type Path = &'static [&'static str];

/// What a field of an object that is too heavy may weigh as a rule: usual ones weigh far less.
pub const FIELD: usize = 64 << 10;

/// What is left of an object.
#[derive(Debug)]
pub struct Thin {
    /// Its JSON.
    pub text: String,
    /// Fields that are there, too, and are too heavy.
    pub left_out: Vec<Path>,
}

/// Leaves of an object these fields, each of which weighs no more than `most`. An error, if it is no object.
pub fn thin(object: &str, fields: &[Path], most: usize) -> serde_json::Result<Thin> {
    let wanted = fields.iter().map(|&path| Wanted { path, rest: path });
    let wanted: Vec<Wanted> = wanted.collect();
    let mut left_out = Vec::new();
    let kept = keep(object, &wanted, most, &mut left_out)?;
    let text = serde_json::to_string(&kept)?;
    Ok(Thin { text, left_out })
}

/// A field that is wanted.
#[derive(Clone, Copy)]
struct Wanted {
    path: Path,
    /// What of its path is still to go.
    rest: Path,
}

type Kept = BTreeMap<String, Box<RawValue>>;

fn keep(
    object: &str,
    wanted: &[Wanted],
    most: usize,
    left_out: &mut Vec<Path>,
) -> serde_json::Result<Kept> {
    let mut reader = serde_json::Deserializer::from_str(object);
    let fields = Fields {
        wanted,
        most,
        left_out,
    };
    let kept = reader.deserialize_map(fields)?;
    reader.end()?;
    Ok(kept)
}

/// The fields of an object, of which some are wanted.
struct Fields<'a> {
    wanted: &'a [Wanted],
    most: usize,
    left_out: &'a mut Vec<Path>,
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = Kept;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Kept, A::Error> {
        let Self {
            wanted,
            most,
            left_out,
        } = self;
        let mut kept = Kept::new();
        while let Some(key) = map.next_key::<String>()? {
            let here = wanted.iter().filter_map(|it| {
                let (first, rest) = it.rest.split_first()?;
                let path = it.path;
                (*first == key).then_some(Wanted { path, rest })
            });
            let here: Vec<Wanted> = here.collect();
            // No API server writes a field twice.
            if here.is_empty() || kept.contains_key(&key) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value: &'de RawValue = map.next_value()?;
            let text = value.get();
            if let Some(whole) = here.iter().find(|it| it.rest.is_empty()) {
                if measure(text.as_bytes()).weight <= most {
                    kept.insert(key, value.to_owned());
                } else {
                    left_out.push(whole.path);
                }
            } else if text.starts_with('{') {
                let inner = keep(text, &here, most, left_out).map_err(A::Error::custom)?;
                let inner = serde_json::value::to_raw_value(&inner).map_err(A::Error::custom)?;
                kept.insert(key, inner);
            }
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const FIELDS: [Path; 4] = [
        &["kind"],
        &["metadata", "name"],
        &["metadata", "annotations", "example.com/a"],
        &["spec", "terms"],
    ];

    #[test]
    fn what_is_wanted_stays_as_it_stands_and_all_else_goes() {
        let object = json!({
            "kind": "Pod",
            "metadata": {
                "name": "a\"{", "uid": "u",
                "annotations": { "example.com/a": "x", "example.com/b": "y" },
            },
            "spec": { "terms": [{ "b": 1 }, "c"], "volumes": [{}] },
            "status": null,
        });
        let left = thin(&object.to_string(), &FIELDS, 2048).unwrap();
        let want = json!({
            "kind": "Pod",
            "metadata": { "name": "a\"{", "annotations": { "example.com/a": "x" } },
            "spec": { "terms": [{ "b": 1 }, "c"] },
        });
        assert_eq!(serde_json::from_str::<Value>(&left.text).unwrap(), want);
        assert_eq!(left.left_out, Vec::<Path>::new());
    }

    #[test]
    fn what_is_too_heavy_by_itself_is_named_and_goes_too() {
        let terms = format!("[{}{{}}]", "{},".repeat(100_000));
        let object = format!(
            r#"{{"metadata":{{"name":"a","labels":{terms}}},"spec":{{"terms":{terms},"x":{terms}}}}}"#
        );
        let left = thin(&object, &FIELDS, 2048).unwrap();
        assert_eq!(left.text, r#"{"metadata":{"name":"a"},"spec":{}}"#);
        assert_eq!(left.left_out, [FIELDS[3]]);
    }

    #[test]
    fn what_is_no_object_has_no_fields() {
        for (object, want) in [
            (r#"{"metadata":null,"spec":[],"kind":7}"#, r#"{"kind":7}"#),
            (
                r#"{"metadata":{"name":1,"name":2}}"#,
                r#"{"metadata":{"name":1}}"#,
            ),
            ("{}", "{}"),
        ] {
            assert_eq!(thin(object, &FIELDS, 2048).unwrap().text, want);
        }
        for broken in ["", "[]", "7", "{", "{} x", r#"{"metadata":{"name":}}"#] {
            assert!(thin(broken, &FIELDS, 2048).is_err(), "{broken}");
        }
    }
}
