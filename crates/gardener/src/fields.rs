//! Owns how a field of an object is read, and how a wrong one is told: its path, what was expected, what was found.
//! Knows no kind.
//!
//! As in the API, a field that is null is absent.

use std::collections::BTreeMap;
use std::fmt;

use pilotage_placement::limits;
use serde_json::Value;

/// A field can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: expected {expected}, found {found}")]
pub struct FieldError {
    /// Where it is, as `spec.provider.zones[1]`.
    pub path: String,
    /// What should stand there.
    pub expected: String,
    /// What stands there.
    pub found: String,
}

/// How much is told of what is wrong, in bytes.
const TOLD: usize = 512;

/// As much of a text as is told of it.
pub(crate) fn told(text: &str) -> &str {
    &text[..text.floor_char_boundary(TOLD)]
}

/// A field of an object, or the place of one that is absent.
#[derive(Clone, Debug)]
pub struct Field<'a> {
    value: Option<&'a Value>,
    path: String,
}

impl<'a> Field<'a> {
    /// A whole object.
    pub fn root(value: &'a Value) -> Self {
        Self::new(Some(value), String::new())
    }

    fn new(value: Option<&'a Value>, path: String) -> Self {
        Self {
            value: value.filter(|value| !value.is_null()),
            path,
        }
    }

    /// Where it is.
    pub fn path(&self) -> &str {
        if self.path.is_empty() {
            "the document"
        } else {
            &self.path
        }
    }

    /// Whether it is there.
    pub const fn is_present(&self) -> bool {
        self.value.is_some()
    }

    /// Something else than `expected` stands here.
    pub fn error(&self, expected: &str) -> FieldError {
        FieldError {
            path: self.path().to_owned(),
            expected: expected.to_owned(),
            found: Found(self.value).to_string(),
        }
    }

    fn child(&self, name: &str, value: Option<&'a Value>) -> Self {
        let path = if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        };
        Self::new(value, path)
    }

    /// A field of this mapping, also if the mapping is absent.
    pub fn get(&self, name: &str) -> Result<Self, FieldError> {
        let value = match self.value {
            None => None,
            Some(Value::Object(map)) => map.get(name),
            Some(_) => return Err(self.error("a mapping")),
        };
        Ok(self.child(name, value))
    }

    /// A field deep inside, each mapping on the way being optional.
    pub fn at(&self, names: &[&str]) -> Result<Self, FieldError> {
        let mut field = self.clone();
        for name in names {
            field = field.get(name)?;
        }
        Ok(field)
    }

    /// A text, if there is one.
    pub fn string(&self) -> Result<Option<&'a str>, FieldError> {
        match self.value {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.error("a string")),
        }
    }

    /// A name or a key that must be there, not empty and no longer than those are.
    pub fn name(&self) -> Result<&'a str, FieldError> {
        self.name_within(limits::KEY)
    }

    /// A name that is there and not empty; an empty one counts as absent.
    pub fn optional_name(&self) -> Result<Option<&'a str>, FieldError> {
        let text = self.non_empty()?;
        text.map(|text| self.short(text, limits::KEY)).transpose()
    }

    /// A name that must be there, no longer than a label's value: a region, a provider.
    pub fn label(&self) -> Result<&'a str, FieldError> {
        self.name_within(limits::NAME)
    }

    fn name_within(&self, limit: usize) -> Result<&'a str, FieldError> {
        let text = self.string()?.filter(|text| !text.is_empty());
        let text = text.ok_or_else(|| self.error("a string that isn't empty"))?;
        self.short(text, limit)
    }

    fn short<'t>(&self, text: &'t str, limit: usize) -> Result<&'t str, FieldError> {
        if text.len() > limit {
            return Err(self.error(&format!("a name of {limit} bytes at most")));
        }
        Ok(text)
    }

    /// A text that is there and not empty; an empty one counts as absent, as in the API.
    pub fn non_empty(&self) -> Result<Option<&'a str>, FieldError> {
        Ok(self.string()?.filter(|text| !text.is_empty()))
    }

    /// Yes or no, if it is said.
    pub fn boolean(&self) -> Result<Option<bool>, FieldError> {
        match self.value {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(_) => Err(self.error("true or false")),
        }
    }

    /// A whole number, if there is one.
    pub fn integer(&self) -> Result<Option<i64>, FieldError> {
        match self.value {
            None => Ok(None),
            Some(value) => match value.as_i64() {
                Some(number) => Ok(Some(number)),
                None => Err(self.error("a whole number")),
            },
        }
    }

    /// A number, if there is one.
    pub fn number(&self) -> Result<Option<f64>, FieldError> {
        match self.value {
            None => Ok(None),
            Some(value) => match value.as_f64() {
                Some(number) => Ok(Some(number)),
                None => Err(self.error("a number")),
            },
        }
    }

    /// A text, or a number as the text that it would be.
    pub fn quantity(&self) -> Result<Option<String>, FieldError> {
        match self.value {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(_) => Err(self.error("a quantity such as 250")),
        }
    }

    /// The elements of a list; none if it is absent.
    pub fn list(&self) -> Result<Vec<Self>, FieldError> {
        match self.value {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => Ok(items
                .iter()
                .enumerate()
                .map(|(number, item)| Self::new(Some(item), format!("{}[{number}]", self.path)))
                .collect()),
            Some(_) => Err(self.error("a list")),
        }
    }

    /// The texts in a list.
    pub fn strings(&self) -> Result<Vec<String>, FieldError> {
        let text = |item: Self| {
            let text = item.string()?.ok_or_else(|| item.error("a string"))?;
            Ok(text.to_owned())
        };
        self.list()?.into_iter().map(text).collect()
    }

    /// The names in a list, each no longer than a label's value, and not more of them than anything has: zones,
    /// providers.
    pub fn labels(&self) -> Result<Vec<String>, FieldError> {
        let list = self.list()?;
        if list.len() > limits::LISTED {
            return Err(FieldError {
                path: self.path().to_owned(),
                expected: format!("{} names at most", limits::LISTED),
                found: format!("{} of them", list.len()),
            });
        }
        let name = |item: Self| {
            let text = item.string()?.ok_or_else(|| item.error("a string"))?;
            Ok(item.short(text, limits::NAME)?.to_owned())
        };
        list.into_iter().map(name).collect()
    }

    /// The fields of a mapping by name; none if it is absent.
    pub fn entries(&self) -> Result<Vec<(&'a str, Self)>, FieldError> {
        match self.value {
            None => Ok(Vec::new()),
            Some(Value::Object(map)) => Ok(map
                .iter()
                .map(|(name, value)| {
                    let path = format!("{}[{:?}]", self.path, told(name));
                    (name.as_str(), Self::new(Some(value), path))
                })
                .collect()),
            Some(_) => Err(self.error("a mapping")),
        }
    }

    /// A mapping of texts to texts, as labels are.
    pub fn string_map(&self) -> Result<BTreeMap<String, String>, FieldError> {
        let pair = |(name, field): (&str, Self)| {
            let text = field.string()?.unwrap_or_default();
            Ok((name.to_owned(), text.to_owned()))
        };
        self.entries()?.into_iter().map(pair).collect()
    }

    /// Fails if this mapping has a field that isn't one of these.
    pub fn only(&self, names: &[&str]) -> Result<(), FieldError> {
        let Some(Value::Object(map)) = self.value else {
            return match self.value {
                None => Ok(()),
                Some(_) => Err(self.error("a mapping")),
            };
        };
        match map.keys().find(|key| !names.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => Err(FieldError {
                path: self.path().to_owned(),
                expected: format!("no other fields than {}", names.join(", ")),
                found: format!("the field {:?}", told(key)),
            }),
        }
    }
}

/// What stands somewhere, in few words.
struct Found<'a>(Option<&'a Value>);

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None | Some(Value::Null) => f.write_str("nothing"),
            Some(Value::Bool(value)) => value.fmt(f),
            Some(Value::Number(number)) => write!(f, "the number {number}"),
            Some(Value::String(text)) if text.chars().count() <= 40 => write!(f, "{text:?}"),
            Some(Value::String(_)) => f.write_str("a long text"),
            Some(Value::Array(_)) => f.write_str("a list"),
            Some(Value::Object(_)) => f.write_str("a mapping"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wrong_fields_are_told_by_path() {
        let value = json!({"a": {"b": [1, "x", {"c": true}]}, "n": null, "t": "", "f": 1.5});
        let root = Field::root(&value);
        let list = root.at(&["a", "b"]).unwrap();
        let tell = |error: FieldError| error.to_string();
        assert_eq!(
            tell(list.strings().unwrap_err()),
            "a.b[0]: expected a string, found the number 1"
        );
        let third = list.list().unwrap().remove(2);
        assert_eq!(
            tell(third.at(&["c", "d"]).unwrap_err()),
            "a.b[2].c: expected a mapping, found true"
        );
        assert_eq!(
            tell(root.get("t").unwrap().name().unwrap_err()),
            "t: expected a string that isn't empty, found \"\""
        );
        assert_eq!(
            tell(root.get("f").unwrap().integer().unwrap_err()),
            "f: expected a whole number, found the number 1.5"
        );
        assert_eq!(
            tell(root.only(&["a", "n", "t"]).unwrap_err()),
            "the document: expected no other fields than a, n, t, found the field \"f\""
        );
        assert_eq!(
            tell(root.get("a").unwrap().string_map().unwrap_err()),
            "a[\"b\"]: expected a string, found a list"
        );
        let scalar = json!(3);
        assert_eq!(
            tell(Field::root(&scalar).get("a").unwrap_err()),
            "the document: expected a mapping, found the number 3"
        );
    }

    #[test]
    fn names_and_lists_of_them_are_short() {
        let value = json!({"a": "n".repeat(63), "b": "n".repeat(90_000), "c": ["z", "z".repeat(64)],
            "d": vec!["z"; 257]});
        let root = Field::root(&value);
        let field = |name: &str| root.get(name).unwrap();
        assert!(field("a").label().is_ok() && field("none").labels().unwrap().is_empty());
        for (error, told) in [
            (
                field("b").label().unwrap_err(),
                "b: expected a name of 63 bytes at most, found a long text",
            ),
            (
                field("c").labels().unwrap_err(),
                "c[1]: expected a name of 63 bytes at most, found a long text",
            ),
            (
                field("d").labels().unwrap_err(),
                "d: expected 256 names at most, found 257 of them",
            ),
        ] {
            assert_eq!(error.to_string(), told);
        }
    }

    #[test]
    fn null_is_absent_on_any_way() {
        let value = json!({"n": null});
        let root = Field::root(&value);
        assert_eq!(root.get("n").unwrap().string(), Ok(None));
        assert_eq!(root.at(&["n", "x", "y"]).unwrap().boolean(), Ok(None));
        assert!(root.at(&["q"]).unwrap().list().unwrap().is_empty());
        assert!(root.get("n").unwrap().only(&[]).is_ok());
    }
}
