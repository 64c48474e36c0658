//! Reads an object of unknown shape into a value of bounded size: a few bytes of JSON become a hundred times as many in
//! memory. Must not know what the object is.

use std::fmt;

use pilotage_runtime::seek::seek;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};

/// What the error says if there are too many values. It is told apart by this, since its errors carry nothing else.
const TOO_MANY: &str = "too many values";

/// Why an object isn't read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// It has more values than it may have.
    TooMany,
    /// It is no JSON, or nested too deep.
    Json(serde_json::Error),
}

/// Reads a value with at most `limit` values in it, itself included. `serde_json` bounds the depth.
pub(crate) fn read(text: &str, limit: usize) -> Result<Value, ReadError> {
    let mut left = limit;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Values { left: &mut left }.deserialize(&mut deserializer);
    let value = value.and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| {
        if error.is_data() && error.to_string().starts_with(TOO_MANY) {
            ReadError::TooMany
        } else {
            ReadError::Json(error)
        }
    })
}

/// How many values may still come.
struct Values<'a> {
    left: &'a mut usize,
}

impl Values<'_> {
    fn take<E: Error>(&mut self) -> Result<(), E> {
        *self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| E::custom(TOO_MANY))?;
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Values<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(mut self, deserializer: D) -> Result<Value, D::Error> {
        self.take()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Values<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element_seed(Values { left: self.left })? {
            all.push(item);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            let value = fields.next_value_seed(Values { left: self.left })?;
            all.insert(key, value);
        }
        Ok(all.into())
    }
}

/// Whether an object has something under this path, without keeping any of it.
pub(crate) fn has(text: &str, path: &[&str]) -> bool {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let found = Path(path).deserialize(&mut deserializer);
    found.unwrap_or_default()
}

struct Path<'a>(&'a [&'a str]);

impl<'de> DeserializeSeed<'de> for Path<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        match self.0 {
            [] => IgnoredAny::deserialize(deserializer).map(|_| true),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Path<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<bool, A::Error> {
        let mut found = false;
        while let Some(key) = fields.next_key::<String>()? {
            match self.0 {
                [first, rest @ ..] if key == *first => {
                    found = fields.next_value_seed(Path(rest))?;
                }
                _ => _ = fields.next_value::<IgnoredAny>()?,
            }
        }
        Ok(found)
    }
}

/// The text under this path; nothing after it is read.
pub(crate) fn text_at(json: &[u8], path: &[&str]) -> Option<String> {
    seek(&mut serde_json::Deserializer::from_slice(json), path)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_are_counted_at_every_level() {
        for (text, values) in [
            ("1", 1),
            ("[]", 1),
            ("{\"a\": {}}", 2),
            ("[1, [2, {\"a\": null}], \"x\"]", 7),
        ] {
            assert!(read(text, values).is_ok(), "{text}");
            assert!(
                matches!(read(text, values - 1), Err(ReadError::TooMany)),
                "{text}"
            );
        }
        let deep = "[".repeat(10_000);
        assert!(matches!(read(&deep, 1 << 20), Err(ReadError::Json(_))));
        assert!(matches!(read("{} {}", 9), Err(ReadError::Json(_))));
    }

    #[test]
    fn a_path_is_found_without_the_rest() {
        let text = "{\"x\": [1], \"a\": {\"b\": {\"c/d\": \"\"}, \"e\": 1}, \"y\": 2}";
        for (path, found) in [
            (&["a", "b", "c/d"][..], true),
            (&["a", "b", "c"], false),
            (&["x", "b"], false),
            (&["y"], true),
        ] {
            assert_eq!(has(text, path), found, "{path:?}");
        }
        assert!(!has("{", &["a"]));
    }

    #[test]
    fn a_text_is_found_without_what_follows() {
        let path = &["request", "namespace"];
        for (json, found) in [
            (
                r#"{"x":{"namespace":"no"},"request":{"object":[{}],"namespace":"shop""#,
                Some("shop"),
            ),
            (r#"{"request":{"namespace":5}}"#, None),
            (r#"{"request":[],"namespace":"no"}"#, None),
            (r#"{"request":{}}"#, None),
            ("", None),
        ] {
            let text = text_at(json.as_bytes(), path);
            assert_eq!(text.as_deref(), found, "{json}");
        }
        let deep = format!(r#"{{"request":{{"x":{}"#, "[".repeat(1 << 20));
        assert_eq!(text_at(deep.as_bytes(), path), None);
    }

    mod fuzz {
        use super::*;

        pilotage_absurd::properties! {
            #[test]
            fn what_is_read_is_what_serde_json_reads(
                text in "(\\{|\\}|\\[|\\]|,|:|\"[a-z\\\\u0]{0,4}\"|-?[0-9]{1,22}(\\.[0-9])?|null|true| ){0,24}",
            ) {
                match (read(&text, 1000), serde_json::from_str::<Value>(&text)) {
                    (Ok(read), Ok(value)) => prop_assert_eq!(read, value),
                    (read, value) => prop_assert!(read.is_err() && value.is_err(), "{:?} {:?}", read, value),
                }
            }
        }
    }
}
