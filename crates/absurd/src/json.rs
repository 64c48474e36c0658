//! JSON: any of bounded size, and documents that are what they should be but for some values.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Number, Value};

use crate::text;

/// How often an entry of a list is repeated, or how many fields come to an object.
const MANY: [usize; 6] = [0, 2, 65, 257, 1025, 3000];

/// How many bytes such repetition makes at most: about what an API server stores as one object.
const ROOM: usize = 1 << 20;

/// Whole numbers where types end.
const WHOLE: [i64; 14] = [
    i64::MIN,
    i64::MIN + 1,
    -315_360_001,
    i32::MIN as i64,
    -1,
    0,
    1,
    65_536,
    i32::MAX as i64,
    i32::MAX as i64 + 1,
    315_360_001,
    (1 << 53) + 1,
    i64::MAX - 1,
    i64::MAX,
];

fn whole() -> impl Strategy<Value = i64> {
    prop_oneof![3 => select(&WHOLE[..]), 1 => any::<i64>()]
}

/// A number at some end.
pub fn number() -> BoxedStrategy<Value> {
    prop_oneof![
        4 => whole().prop_map(Value::from),
        1 => prop_oneof![Just(u64::MAX), any::<u64>()].prop_map(Value::from),
        1 => prop_oneof![Just(1e308), Just(-0.0), Just(5e-324), any::<f64>()].prop_map(Value::from),
    ]
    .boxed()
}

/// Any JSON of some dozen values.
pub fn json() -> BoxedStrategy<Value> {
    json_of(text::text())
}

/// The same, with fields of these names.
pub fn json_of(field: BoxedStrategy<String>) -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        2 => number(),
        3 => text::text().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(field.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
    .boxed()
}

/// A text that claims to be JSON: deep, wide, cut off, or a number of a thousand digits.
pub fn claimed() -> BoxedStrategy<String> {
    let piece = select(&["[", "{\"a\":", "[[],", "\"\\u", "1", "-", "{\"\":0},", "]"][..]);
    prop_oneof![
        2 => json().prop_map(|value| value.to_string()),
        1 => (piece, 0..20_000_usize).prop_map(|(piece, count)| piece.repeat(count)),
        1 => "(\\{|\\}|\\[|\\]|,|:|\"[a-z\\\\u0]{0,4}\"|-?[0-9]{1,22}|null|true| ){0,24}",
    ]
    .boxed()
}

/// All values in a document, itself included, depth first.
fn places(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(places).sum(),
        Value::Object(map) => map.values().map(places).sum::<usize>(),
        _ => 0,
    }
}

/// The value at a place, and how many places were passed if there is none.
fn at(value: &mut Value, place: usize) -> Result<&mut Value, usize> {
    if place == 0 {
        return Ok(value);
    }
    let mut passed = 1;
    let children: Vec<&mut Value> = match value {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(map) => map.values_mut().collect(),
        _ => Vec::new(),
    };
    for child in children {
        match at(child, place - passed) {
            Ok(found) => return Ok(found),
            Err(more) => passed += more,
        }
    }
    Err(passed)
}

/// Changes a value at a place that an index chooses.
fn change(document: &mut Value, index: Index, change: impl FnOnce(&mut Value)) {
    let place = index.index(places(document));
    if let Ok(value) = at(document, place) {
        change(value);
    }
}

/// A document with anything in some places of it.
pub fn junk_in(document: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Value> {
    let junk = prop::collection::vec((any::<Index>(), json()), 1..4);
    (document, junk)
        .prop_map(|(mut document, junk)| {
            for (index, junk) in junk {
                change(&mut document, index, |value| *value = junk);
            }
            document
        })
        .boxed()
}

/// A document of the same form with other values: a text for a text, a number for a number, a list of many entries for
/// one of few, an object with more fields.
pub fn extreme(document: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Value> {
    let value = (any::<Index>(), text::text(), whole(), select(&MANY[..]));
    let values = prop::collection::vec(value, 1..8);
    (document, values)
        .prop_map(|(mut document, values)| {
            for (index, text, number, many) in values {
                change(&mut document, index, |value| {
                    make_extreme(value, text, number, many);
                });
            }
            document
        })
        .boxed()
}

/// How long a value is as text.
fn bytes(value: &Value) -> usize {
    value.to_string().len()
}

/// How many values of so many bytes there is room for.
fn fitting(bytes: usize) -> usize {
    ROOM / bytes.max(1)
}

fn make_extreme(value: &mut Value, text: String, number: i64, many: usize) {
    match value {
        Value::Null => {}
        Value::Bool(flag) => *flag = !*flag,
        Value::Number(own) => *own = Number::from(number),
        Value::String(own) => *own = text,
        Value::Array(items) => {
            // What is large by itself isn't repeated.
            let all: usize = items.iter().map(places).sum();
            let wanted = if all > 40 { many.min(2) } else { many };
            let wanted = wanted.min(fitting(items.iter().map(bytes).max().unwrap_or_default()));
            *items = items.iter().cloned().cycle().take(wanted).collect();
        }
        Value::Object(fields) => {
            let Some(one) = fields.values().next().cloned() else {
                return;
            };
            let many = if places(&one) > 40 { 1 } else { many };
            let many = many.min(fitting(bytes(&one)));
            let more: Map<String, Value> = (0..many)
                .map(|number| {
                    (
                        format!("{}{number}", text.get(..1).unwrap_or("k")),
                        one.clone(),
                    )
                })
                .collect();
            fields.insert(text, one);
            fields.extend(more);
        }
    }
}
