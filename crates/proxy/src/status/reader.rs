//! Reads what a target wrote, value by value: each comes out bounded and of a type that the API server takes, or not at
//! all.
//!
//! Must not know what a status is; its siblings do.

use std::{collections::BTreeMap, ops::RangeInclusive};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Time};
use pilotage_api::annotations::is_qualified_name;
use pilotage_sched::quantity;
use serde_json::{Map, Value};

/// Longest of the texts that people read: as long as a kubelet lets a container's last words be.
pub(super) const MESSAGE: usize = 4096;
/// Longest of the texts that programs read: reasons, names, images and IDs.
pub(super) const WORD: usize = 1024;
/// All texts of one status together: with its spec, annotations and other conditions the pod stays well below what etcd
/// takes.
const TEXTS: usize = 256 * 1024;
/// Most entries of a list or map within one container's status.
const MOST: usize = 256;
/// What an entry takes of the room for texts besides its own.
const ENTRY: usize = 64;
/// Longest quantity or time that is looked at.
const SHORT: usize = 48;
/// Most kinds of what was withheld that are told.
const MOST_TOLD: usize = 8;

/// What is left of the room for texts, and which fields weren't taken as they were.
#[derive(Debug)]
pub(super) struct Reader {
    room: usize,
    withheld: Vec<&'static str>,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self {
            room: TEXTS,
            withheld: Vec::new(),
        }
    }

    /// Fields of which something was left out, changed or cut.
    pub(super) fn withheld(self) -> Vec<&'static str> {
        self.withheld
    }

    /// Something of this field isn't taken.
    pub(super) fn withhold(&mut self, field: &'static str) {
        if self.withheld.len() < MOST_TOLD && !self.withheld.contains(&field) {
            self.withheld.push(field);
        }
    }

    // ---- texts --------------------------------------------------------------------------------------------------

    /// A text, cut where it gets too long.
    pub(super) fn text(
        &mut self,
        object: &Map<String, Value>,
        field: &'static str,
        limit: usize,
    ) -> Option<String> {
        let text = self.str(object, field)?;
        let end = text.floor_char_boundary(limit.min(self.room));
        let kept = text.get(..end).unwrap_or_default();
        if kept.len() < text.len() {
            self.withhold(field);
        }
        self.room = self.room.saturating_sub(kept.len());
        (!kept.is_empty()).then(|| kept.to_owned())
    }

    /// A text that would mean something else if it were cut.
    pub(super) fn word(
        &mut self,
        object: &Map<String, Value>,
        field: &'static str,
    ) -> Option<String> {
        let text = self.str(object, field).filter(|text| !text.is_empty())?;
        if text.len() > WORD.min(self.room) {
            self.withhold(field);
            return None;
        }
        self.room = self.room.saturating_sub(text.len());
        Some(text.to_owned())
    }

    /// One of these words.
    pub(super) fn one_of(
        &mut self,
        object: &Map<String, Value>,
        field: &'static str,
        words: &[&str],
    ) -> Option<String> {
        let text = self.str(object, field).filter(|text| !text.is_empty())?;
        let known = words.contains(&text);
        if !known {
            self.withhold(field);
        }
        known.then(|| text.to_owned())
    }

    fn str<'a>(&mut self, object: &'a Map<String, Value>, field: &'static str) -> Option<&'a str> {
        let value = said(object, field)?;
        let text = value.as_str();
        if text.is_none() {
            self.withhold(field);
        }
        text
    }

    // ---- numbers, times -----------------------------------------------------------------------------------------

    /// A boolean.
    pub(super) fn flag(
        &mut self,
        object: &Map<String, Value>,
        field: &'static str,
    ) -> Option<bool> {
        let value = said(object, field)?;
        let flag = value.as_bool();
        if flag.is_none() {
            self.withhold(field);
        }
        flag
    }

    /// An integer; the nearest that is within these bounds.
    pub(super) fn number(
        &mut self,
        object: &Map<String, Value>,
        field: &'static str,
        bounds: &RangeInclusive<i32>,
    ) -> Option<i32> {
        let value = said(object, field)?;
        let whole = value.as_i64();
        let whole = whole.or_else(|| value.as_u64().map(|_| i64::MAX));
        let (low, high) = (i64::from(*bounds.start()), i64::from(*bounds.end()));
        let near = whole.map(|whole| whole.clamp(low, high));
        if near.is_none() || near != whole {
            self.withhold(field);
        }
        near.and_then(|near| i32::try_from(near).ok())
    }

    /// A time that the API server can write again, in whole seconds as it does.
    pub(super) fn time(
        &mut self,
        object: &Map<String, Value>,
        field: &'static str,
    ) -> Option<Time> {
        let text = self.str(object, field)?;
        let time = Some(text)
            .filter(|text| text.len() <= SHORT)
            .and_then(|text| text.parse::<Timestamp>().ok())
            .map(Timestamp::as_second)
            .filter(|second| *second >= 0)
            .and_then(|second| Timestamp::from_second(second).ok());
        if time.is_none() {
            self.withhold(field);
        }
        time.map(Time)
    }

    // ---- what holds others --------------------------------------------------------------------------------------

    /// An object.
    pub(super) fn object<'a>(
        &mut self,
        object: &'a Map<String, Value>,
        field: &'static str,
    ) -> Option<&'a Map<String, Value>> {
        let value = said(object, field)?;
        let inner = value.as_object();
        if inner.is_none() {
            self.withhold(field);
        }
        inner
    }

    /// The objects of a list.
    pub(super) fn objects<'a>(
        &mut self,
        object: &'a Map<String, Value>,
        field: &'static str,
    ) -> impl Iterator<Item = &'a Map<String, Value>> + use<'a> {
        let value = said(object, field);
        let list = value.and_then(Value::as_array);
        let all = list.is_some_and(|list| list.iter().all(Value::is_object));
        if value.is_some() && !all {
            self.withhold(field);
        }
        list.into_iter().flatten().filter_map(Value::as_object)
    }

    /// The objects of a list within another one's: a bounded number, each of which takes of the room.
    pub(super) fn entries<'a>(
        &mut self,
        object: &'a Map<String, Value>,
        field: &'static str,
    ) -> Vec<&'a Map<String, Value>> {
        let mut kept = Vec::new();
        for entry in self.objects(object, field) {
            if kept.len() == MOST || !self.take_entry() {
                self.withhold(field);
                break;
            }
            kept.push(entry);
        }
        kept
    }

    /// The integers of a list that are within these bounds.
    pub(super) fn numbers(
        &mut self,
        object: &Map<String, Value>,
        field: &'static str,
        bounds: &RangeInclusive<i64>,
    ) -> Vec<i64> {
        let list = said(object, field).and_then(Value::as_array);
        let mut kept = Vec::new();
        for value in list.into_iter().flatten() {
            let number = value.as_i64().filter(|number| bounds.contains(number));
            match number.filter(|_| kept.len() < MOST && self.take_entry()) {
                Some(number) => kept.push(number),
                None => self.withhold(field),
            }
        }
        kept
    }

    fn take_entry(&mut self) -> bool {
        let left = self.room.checked_sub(ENTRY);
        self.room = left.unwrap_or(self.room);
        left.is_some()
    }

    /// Resources and how much of each; `None` if there are none.
    pub(super) fn quantities(
        &mut self,
        object: &Map<String, Value>,
        field: &'static str,
    ) -> Option<BTreeMap<String, Quantity>> {
        let all = self.object(object, field)?;
        let mut kept = BTreeMap::new();
        for (name, value) in all {
            let text = value
                .as_str()
                .filter(|text| is_qualified_name(name) && is_quantity(text))
                .filter(|_| kept.len() < MOST && name.len() <= self.room);
            match text.filter(|_| self.take_entry()) {
                Some(text) => {
                    self.room = self.room.saturating_sub(name.len());
                    kept.insert(name.clone(), Quantity(text.to_owned()));
                }
                None => self.withhold(field),
            }
        }
        (!kept.is_empty()).then_some(kept)
    }
}

/// A field that isn't null.
fn said<'a>(object: &'a Map<String, Value>, field: &str) -> Option<&'a Value> {
    object.get(field).filter(|value| !value.is_null())
}

/// Whether the API server reads it as a quantity, and at once: large exponents cost it much.
fn is_quantity(text: &str) -> bool {
    const EXPONENT: usize = 3;
    let exponent = text.split_once(['e', 'E']).map_or("", |(_, rest)| rest);
    text.len() <= SHORT && exponent.len() <= EXPONENT && quantity::Quantity::parse(text).is_ok()
}
