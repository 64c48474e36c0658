//! What is kept of a Secret that Targets name: what stands at the keys that they name, as far as a kubeconfig may be
//! long, some names of other keys, and what it asks for. Its author may write over a megabyte, or tens of thousands of
//! keys. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilotage_api::bounds::cut;
use pilotage_api::keys;
use pilotage_api::limits::DURATION;

use crate::kubeconfig::LONGEST;

/// Names of keys that are told to who names one that isn't there.
const KEYS_TOLD: usize = 10;
/// So much of a kubeconfig is kept, in bytes: of one that is too long enough to be seen as that.
const KUBECONFIG: usize = LONGEST + 1;
/// The same of a duration, wherever its letters end.
const LIFE: usize = DURATION + 4;

/// Drops all that nobody reads who names one of these keys.
pub(super) fn trim(secret: &mut Secret, named: &BTreeSet<String>) {
    let whole = std::mem::take(secret);
    let meta = whole.metadata;
    let life = meta
        .annotations
        .and_then(|mut all| all.remove(keys::TOKEN_LIFE))
        .map(|life| (keys::TOKEN_LIFE.to_owned(), cut(&life, LIFE).to_owned()));
    *secret = Secret {
        data: whole.data.map(|data| read(data, named)),
        metadata: ObjectMeta {
            annotations: life.map(|life| [life].into()),
            deletion_grace_period_seconds: meta.deletion_grace_period_seconds,
            deletion_timestamp: meta.deletion_timestamp,
            name: meta.name,
            namespace: meta.namespace,
            resource_version: meta.resource_version,
            uid: meta.uid,
            ..ObjectMeta::default()
        },
        ..Secret::default()
    };
}

fn read(
    data: BTreeMap<String, ByteString>,
    named: &BTreeSet<String>,
) -> BTreeMap<String, ByteString> {
    let (mut kept, mut others) = (BTreeMap::new(), 0_usize);
    for (key, ByteString(mut bytes)) in data {
        if named.contains(&key) {
            bytes.truncate(KUBECONFIG);
            bytes.shrink_to_fit();
        } else if others < KEYS_TOLD {
            others = others.saturating_add(1);
            bytes = Vec::new();
        } else {
            continue;
        }
        kept.insert(key, ByteString(bytes));
    }
    kept
}

/// What stands at a key.
pub(crate) fn kubeconfig<'a>(secret: &'a Secret, key: &str) -> Option<&'a [u8]> {
    let bytes = secret.data.as_ref()?.get(key)?;
    Some(&bytes.0)
}

/// The first names of keys, for who has named none of them.
pub(crate) fn names(secret: &Secret) -> Vec<String> {
    let data = secret.data.iter().flatten();
    data.map(|(key, _)| key.clone()).take(KEYS_TOLD).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    use super::*;
    use crate::kubeconfig::{KubeconfigFault, parse};

    fn named(keys: &[&str]) -> BTreeSet<String> {
        keys.iter().map(ToString::to_string).collect()
    }

    fn secret(data: impl IntoIterator<Item = (String, Vec<u8>)>) -> Secret {
        let long = "x".repeat(100_000);
        Secret {
            data: Some(
                data.into_iter()
                    .map(|(key, it)| (key, ByteString(it)))
                    .collect(),
            ),
            metadata: ObjectMeta {
                annotations: Some(
                    [("a-note", &*long), (keys::TOKEN_LIFE, "720h")]
                        .map(|(key, text)| (key.to_owned(), text.to_owned()))
                        .into(),
                ),
                labels: Some([("a".to_owned(), long.clone())].into()),
                finalizers: Some(vec![long.clone(); 3]),
                name: Some("far".into()),
                namespace: Some("shop".into()),
                owner_references: Some(vec![OwnerReference::default(); 100]),
                resource_version: Some("7".into()),
                uid: Some("u".into()),
                ..ObjectMeta::default()
            },
            ..Secret::default()
        }
    }

    #[test]
    fn of_a_large_secret_what_targets_name_is_kept_and_few_words() {
        let empty = (0..60_000).map(|number| (format!("k{number:05}"), vec![]));
        let large = vec![b'a'; 1 << 20];
        let mut it =
            secret(empty.chain([("config".to_owned(), large), ("k00007".into(), vec![1])]));
        trim(&mut it, &named(&["config", "k00007", "elsewhere"]));

        let data = it.data.as_ref().unwrap();
        assert_eq!(data.len(), 2 + KEYS_TOLD);
        let bytes: usize = data.values().map(|it| it.0.capacity()).sum();
        assert_eq!(bytes, LONGEST + 1 + 1);
        let config = kubeconfig(&it, "config").unwrap();
        assert_eq!(parse(config, None).unwrap_err(), KubeconfigFault::TooLarge);
        assert_eq!(kubeconfig(&it, "k00007"), Some(&[1][..]));
        assert_eq!(kubeconfig(&it, "elsewhere"), None);

        let meta = ObjectMeta {
            annotations: Some([(keys::TOKEN_LIFE.to_owned(), "720h".to_owned())].into()),
            name: Some("far".into()),
            namespace: Some("shop".into()),
            resource_version: Some("7".into()),
            uid: Some("u".into()),
            ..ObjectMeta::default()
        };
        assert_eq!(it.metadata, meta);
    }

    #[test]
    fn the_names_that_are_told_are_the_first_ones() {
        let data = || ('a'..='z').map(|key| (key.to_string(), vec![]));
        let all: Vec<String> = data().map(|(key, _)| key).collect();
        for keys in [&["config"][..], &["a", "c", "z"], &["q"]] {
            let mut it = secret(data());
            trim(&mut it, &named(keys));
            assert_eq!(names(&it), all[..KEYS_TOLD], "{keys:?}");
        }
        let mut none = Secret::default();
        trim(&mut none, &named(&["config"]));
        assert_eq!((names(&none), none.data), (vec![], None));
    }

    #[test]
    fn a_word_that_is_too_long_stays_too_long() {
        let mut it = secret([]);
        let life = format!("720h{}", "0".repeat(90_000));
        let annotations = it.metadata.annotations.as_mut().unwrap();
        annotations.insert(keys::TOKEN_LIFE.to_owned(), life);
        trim(&mut it, &named(&[]));
        let kept = &it.metadata.annotations.unwrap()[keys::TOKEN_LIFE];
        assert_eq!(kept.len(), LIFE);
        assert!(kept.parse::<pilotage_api::token::TokenLife>().is_err());
    }
}
