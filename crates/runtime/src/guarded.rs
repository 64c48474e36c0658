//! Objects as they stand in lists and watch events: one that can't be read, or whose reading panics, stops no other.
//!
//! Does what kube's `DeserializeGuard` does, without a copy of each object in between, and leaves out who manages which
//! field: that is up to half of an object, and nobody here reads it. Only for text that `serde_json` reads.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::caught::{caught, note};
use crate::seek::seek;
use crate::weight::measure;

/// Longest name of any object in bytes, and longer than that of any namespace.
const NAME: usize = 253;

/// An object without `managedFields`, or why it can't be read.
#[derive(Clone, Debug)]
pub struct Guarded<K>(pub Result<K, Unreadable>);

/// An object that isn't what its type expects.
#[derive(Clone, Debug, Error)]
#[error("{error}")]
pub struct Unreadable {
    /// What was expected, and where.
    pub error: String,
    /// Who it is: name, namespace, UID and version, and nothing else; empty, if they can't be read either. What is
    /// longer than any name is cut.
    pub metadata: Box<ObjectMeta>,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self::read(raw.get()))
    }
}

impl<K: DeserializeOwned> Guarded<K> {
    /// Reads an object's JSON.
    pub fn read(text: &str) -> Self {
        Self::read_by(&without_managed_fields(text), whole)
    }

    /// The same, if it weighs no more than `most` without its managed fields. A heavier one is for `heavy` to read.
    pub fn read_within(
        text: &str,
        most: usize,
        heavy: impl FnOnce(&str) -> serde_json::Result<K>,
    ) -> Self {
        let text = without_managed_fields(text);
        if measure(text.as_bytes()).weight > most {
            Self::read_by(&text, heavy)
        } else {
            Self::read_by(&text, whole)
        }
    }

    fn read_by(text: &str, read: impl FnOnce(&str) -> serde_json::Result<K>) -> Self {
        let read = match caught(|| read(text)) {
            Ok(read) => read.map_err(|error| error.to_string()),
            Err(panic) => Err(note(&panic)),
        };
        Self(read.map_err(|error| Unreadable::unread(&error, text)))
    }
}

fn whole<K: DeserializeOwned>(text: &str) -> serde_json::Result<K> {
    serde_json::from_str(text)
}

impl Unreadable {
    /// An object that nobody has tried to read, and why; `text` is its JSON.
    pub fn unread(why: &str, text: &str) -> Self {
        Self {
            error: why.to_owned(),
            metadata: Box::new(metadata(text)),
        }
    }
}

/// Who an object is. Whoever wrote it says how much else its metadata have: that isn't even read.
fn metadata(text: &str) -> ObjectMeta {
    #[derive(Deserialize)]
    struct Object {
        metadata: Identity,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Identity {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
    }
    let identity = serde_json::from_str(text)
        .map(|Object { metadata }| metadata)
        .unwrap_or_default();
    ObjectMeta {
        name: cut(identity.name),
        namespace: cut(identity.namespace),
        uid: cut(identity.uid),
        resource_version: cut(identity.resource_version),
        ..ObjectMeta::default()
    }
}

/// Nobody has checked what can't be read, and its names are kept and logged.
fn cut(text: Option<String>) -> Option<String> {
    // A copy, since one that is cut in place keeps its memory.
    text.map(|text| match text.len() {
        0..=NAME => text,
        _ => text[..text.floor_char_boundary(NAME)].to_owned(),
    })
}

/// The same text with `null` in the place of the managed fields.
fn without_managed_fields(text: &str) -> Cow<'_, str> {
    // Not even as a word: our own kinds have none.
    if !text.contains("\"managedFields\"") {
        return Cow::Borrowed(text);
    }
    let object = &mut serde_json::Deserializer::from_str(text);
    let Some(fields) = seek::<&RawValue, _>(object, &["metadata", "managedFields"]) else {
        return Cow::Borrowed(text);
    };
    // It is a part of the text itself.
    let at = |part: &str| part.as_ptr() as usize;
    let start = at(fields.get()).saturating_sub(at(text));
    let end = start.saturating_add(fields.get().len());
    Cow::Owned([&text[..start], "null", &text[end..]].concat())
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        match &self.0 {
            Ok(object) => object.meta(),
            Err(unreadable) => &unreadable.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut self.0 {
            Ok(object) => object.meta_mut(),
            Err(unreadable) => &mut unreadable.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::core::WatchEvent;

    use super::*;

    const POD: &str = r#"{
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "a", "annotations": { "managedFields": "mine" },
            "managedFields": [{ "manager": "x", "fieldsV1": { "f:\"metadata\"": {} } }], "uid": "u" },
        "spec": { "containers": [{ "name": "c" }], "managedFields": "no field of a pod" }
    }"#;

    #[test]
    fn an_object_of_a_watch_event_is_read_without_managed_fields() {
        let event = format!(r#"{{"type":"ADDED","object":{POD}}}"#);
        let WatchEvent::Added(Guarded(Ok(pod))) =
            serde_json::from_str::<WatchEvent<Guarded<Pod>>>(&event).unwrap()
        else {
            panic!("an object was added");
        };
        let mut whole: Pod = serde_json::from_str(POD).unwrap();
        assert!(whole.metadata.managed_fields.take().is_some());
        assert_eq!(pod, whole);
    }

    #[test]
    fn managed_fields_are_found_wherever_they_stand() {
        let kept = [
            r#"{"metadata":null,"x":"managedFields"}"#,
            r#"{"metadata":7,"managedFields":[1]}"#,
            r#"{"spec":{"metadata":{"managedFields":[1]}},"metadata":{}}"#,
            r#"["managedFields"]"#,
            "",
        ];
        for text in kept {
            assert_eq!(without_managed_fields(text), text);
        }
        let left_out = [
            (
                r#"{"metadata":{"managedFields":[{"a":"]}"}],"name":"n"},"spec":{}}"#,
                r#"{"metadata":{"managedFields":null,"name":"n"},"spec":{}}"#,
            ),
            (
                r#"{"spec":{"metadata":1},"\u006detadata":{"name":"\"managedFields\":1","managedFields":{}}}"#,
                r#"{"spec":{"metadata":1},"\u006detadata":{"name":"\"managedFields\":1","managedFields":null}}"#,
            ),
        ];
        for (text, rest) in left_out {
            assert_eq!(without_managed_fields(text), rest);
        }
    }

    #[test]
    fn what_cannot_be_read_tells_its_name() {
        let broken = r#"[{ "metadata": { "name": "b" }, "spec": 5 }, { "metadata": 7 }, {}]"#;
        let read: Vec<Guarded<Pod>> = serde_json::from_str(broken).unwrap();
        let names: Vec<_> = read.iter().map(|pod| pod.meta().name.as_deref()).collect();
        assert_eq!(names, [Some("b"), None, None]);
        let error = &read[0].0.as_ref().unwrap_err().error;
        assert!(error.contains("PodSpec"), "{error}");
    }

    #[test]
    fn of_what_cannot_be_read_a_long_name_is_cut() {
        let long = "é".repeat(1 << 20);
        let object = format!(
            r#"{{"metadata":{{"name":"{long}","namespace":"{long}","uid":"u"}},"spec":5}}"#
        );
        let read: Guarded<Pod> = serde_json::from_str(&object).unwrap();
        let meta = read.meta();
        for name in [&meta.name, &meta.namespace] {
            let name = name.as_deref().unwrap();
            assert_eq!((name.len(), name.trim_matches('é')), (252, ""));
        }
        assert_eq!(meta.uid.as_deref(), Some("u"));
    }

    #[test]
    fn of_what_cannot_be_read_nothing_is_kept_but_who_it_is() {
        let many = format!("[{}{{}}]", "{},".repeat(100_000));
        let object = format!(
            r#"{{"metadata":{{"name":"a","namespace":"n","uid":"u","resourceVersion":"7","ownerReferences":{many},
                "labels":{{"a":"b"}},"managedFields":{many}}}}}"#
        );
        let unread = Unreadable::unread("too heavy", &object);
        let identity = ObjectMeta {
            name: Some("a".to_owned()),
            namespace: Some("n".to_owned()),
            uid: Some("u".to_owned()),
            resource_version: Some("7".to_owned()),
            ..ObjectMeta::default()
        };
        assert_eq!(*unread.metadata, identity);
    }

    #[test]
    fn a_heavy_object_is_read_in_another_way_and_managed_fields_make_none_heavy() {
        let many = format!("[{}{{}}]", "{},".repeat(1000));
        let object = |metadata: &str, spec: &str| {
            format!(r#"{{"metadata":{{"name":"a"{metadata}}},"spec":{{"containers":[]{spec}}}}}"#)
        };
        let outlined = |text: &str| {
            Guarded::<Pod>::read_within(text, 100_000, |text| {
                assert!(text.contains("volumes"));
                Ok(Pod::default())
            })
        };
        let read = outlined(&object(&format!(r#","managedFields":{many}"#), ""));
        assert_eq!(read.0.unwrap().metadata.name.as_deref(), Some("a"));
        let heavy = object("", &format!(r#","volumes":{many}"#));
        assert_eq!(outlined(&heavy).0.unwrap(), Pod::default());
        let refused =
            Guarded::<Pod>::read_within(&heavy, 100_000, |_| serde_json::from_str("too heavy"));
        assert_eq!(refused.meta().name.as_deref(), Some("a"));
    }

    #[test]
    fn an_object_whose_reading_panics_stops_no_other() {
        #[derive(Debug)]
        struct Picky(ObjectMeta);

        impl<'de> Deserialize<'de> for Picky {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(Deserialize)]
                struct Object {
                    metadata: ObjectMeta,
                }
                let Object { metadata } = Object::deserialize(deserializer)?;
                assert_ne!(metadata.name.as_deref(), Some("bad"), "on purpose");
                Ok(Self(metadata))
            }
        }

        let list = r#"[{ "metadata": { "name": "bad" } }, { "metadata": { "name": "good" } }]"#;
        let read: Vec<Guarded<Picky>> = serde_json::from_str(list).unwrap();
        let Unreadable { error, metadata } = read[0].0.as_ref().unwrap_err();
        assert!(error.contains("on purpose"), "{error}");
        assert_eq!(metadata.name.as_deref(), Some("bad"));
        let Picky(good) = read[1].0.as_ref().unwrap();
        assert_eq!(good.name.as_deref(), Some("good"));
    }
}
