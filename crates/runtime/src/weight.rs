//! How much memory a JSON document takes once it is read: an estimate from above, so that what a stranger sends can be
//! weighed before it is parsed, and what is kept of it can be counted.
//!
//! The length of the text says little: `[{"":0},{"":0}]` takes a hundred times its own. Must not know what a document
//! is.

use std::cell::Cell;
use std::io;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

/// An object besides its text: one node of the map that holds its fields.
const OBJECT: usize = 640;
/// A field of an object: its share of such nodes, and two allocations.
const FIELD: usize = 96;
/// An array besides its text.
const ARRAY: usize = 64;
/// A value in an array.
const VALUE: usize = 32;

/// What a text would come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measure {
    /// Bytes of memory.
    pub weight: usize,
    /// How deep arrays and objects are nested in each other.
    pub depth: usize,
}

/// Measures JSON, or what claims to be JSON, without reading it.
pub fn measure(text: &[u8]) -> Measure {
    let mut weight = text.len();
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    let (mut quoted, mut escaped) = (false, false);
    for byte in text {
        if quoted {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => quoted = false,
                _ => {}
            }
            continue;
        }
        let more = match byte {
            b'"' => {
                quoted = true;
                0
            }
            b'{' => OBJECT,
            b'[' => ARRAY,
            b':' => FIELD,
            b',' => VALUE,
            _ => 0,
        };
        match byte {
            b'{' | b'[' => {
                depth = depth.saturating_add(1);
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        weight = weight.saturating_add(more);
    }
    Measure {
        weight,
        depth: deepest,
    }
}

/// Weight of a value, by the JSON that it would make; what makes none is too heavy for anything.
pub fn of(value: &impl Serialize) -> usize {
    let weight = Cell::new(0);
    let mut serializer = Serializer::with_formatter(Scale(&weight), Scale(&weight));
    match value.serialize(&mut serializer) {
        Ok(()) => weight.get(),
        Err(_) => usize::MAX,
    }
}

/// Writer and formatter at once: keeps nothing but the sum.
struct Scale<'a>(&'a Cell<usize>);

impl Scale<'_> {
    fn add(&self, more: usize) {
        self.0.set(self.0.get().saturating_add(more));
    }
}

impl io::Write for Scale<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.add(text.len());
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Formatter for Scale<'_> {
    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.add(OBJECT);
        writer.write_all(b"{")
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.add(FIELD);
        writer.write_all(b":")
    }

    fn begin_array<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.add(ARRAY);
        writer.write_all(b"[")
    }

    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        _: bool,
    ) -> io::Result<()> {
        self.add(VALUE);
        writer.write_all(b",")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn brackets_in_strings_are_text() {
        for (text, depth) in [
            (r#"{"a":[{"b":1}]}"#, 3),
            (r#""[[[[""#, 0),
            (r#"["\"[[", "\\", []]"#, 2),
            ("]]]}", 0),
            ("", 0),
        ] {
            assert_eq!(measure(text.as_bytes()).depth, depth, "{text}");
        }
        let deep = "[".repeat(10_000);
        assert_eq!(measure(deep.as_bytes()).depth, 10_000);
    }

    #[test]
    fn a_text_weighs_what_its_value_does_and_more_than_its_length() {
        for value in [
            json!({}),
            json!({ "a": { "b": [1, "two", null, { "c": {} }] } }),
            json!([{ "": 0 }, { "": 0 }, { "": 0 }]),
            json!("plain text of some length"),
        ] {
            let text = value.to_string();
            let (by_text, by_value) = (measure(text.as_bytes()).weight, of(&value));
            assert!(by_text >= text.len() && by_value >= text.len(), "{text}");
            // Separators are counted a little differently.
            let apart = by_text.abs_diff(by_value);
            assert!(apart <= 64 * 8, "{text}: {by_text} and {by_value}");
        }
        let dense = Value::from(vec![json!({ "": 0 }); 1000]);
        assert!(of(&dense) > 50 * dense.to_string().len());
    }
}
