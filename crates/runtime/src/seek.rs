//! Finds one value in an object, and reads no further: an API server writes what identifies an object first. Must not
//! know what is looked for.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor,
};

/// The value under these keys, one within the other. Whether what comes after it is well-formed, nobody looks.
pub fn seek<'de, T: Deserialize<'de>, D: Deserializer<'de>>(object: D, path: &[&str]) -> Option<T> {
    let mut found = None;
    let sought = Sought {
        path,
        found: &mut found,
    };
    // That it was found ends it with an error, too.
    let _ = sought.deserialize(object);
    found
}

struct Sought<'p, T> {
    path: &'p [&'p str],
    found: &'p mut Option<T>,
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Sought<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.path.is_empty() {
            *self.found = Some(T::deserialize(deserializer)?);
            return Err(D::Error::custom("found"));
        }
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Sought<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((key, path)) = self.path.split_first() else {
            return Ok(());
        };
        while let Some(is_key) = map.next_key_seed(Is(key))? {
            if is_key {
                let found = &mut *self.found;
                map.next_value_seed(Sought { path, found })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// Whether a key is this one.
struct Is<'p>(&'p str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<bool, E> {
        Ok(key == self.0)
    }
}
