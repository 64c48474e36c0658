//! What is kept of a `Target` or a `ClusterTarget`: what somebody reads. Its author may write a megabyte of labels,
//! annotations and finalizers, any number of times. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilotage_api::bounds::cut;
use pilotage_api::{keys, limits};

/// Annotations that mean something on a Target.
const ANNOTATIONS: [&str; 7] = [
    keys::REGION,
    keys::ZONES,
    keys::CLOUD_PROVIDER,
    keys::ACCESS_RESTRICTIONS,
    keys::REPLACE_AFTER,
    keys::FORGET,
    keys::KEEP_LABELS,
];
/// Labels that do.
const LABELS: [&str; 3] = [keys::REGION, keys::ZONES, keys::CLOUD_PROVIDER];
/// Labels with access restrictions.
const RESTRICTIONS: usize = 256;
/// So much of an annotation, in bytes: of one that is longer than any may be enough to be seen as that, wherever its
/// letters end.
const TEXT: usize = limits::LIST + 4;
/// So many finalizers.
const FINALIZERS: usize = 100;

/// Labels and annotations of Targets that are read beside those that always mean something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Keys of labels.
    pub labels: BTreeSet<String>,
    /// Keys of annotations.
    pub annotations: BTreeSet<String>,
}

impl Kept {
    /// Drops what nobody reads.
    pub(crate) fn trim(&self, meta: &mut ObjectMeta) {
        let whole = std::mem::take(meta);
        *meta = ObjectMeta {
            annotations: whole.annotations.map(|all| self.annotations(all)),
            creation_timestamp: whole.creation_timestamp,
            deletion_grace_period_seconds: whole.deletion_grace_period_seconds,
            deletion_timestamp: whole.deletion_timestamp,
            finalizers: whole.finalizers.map(finalizers),
            generation: whole.generation,
            labels: whole.labels.map(|all| self.labels(all)),
            name: whole.name,
            namespace: whole.namespace,
            resource_version: whole.resource_version,
            uid: whole.uid,
            ..ObjectMeta::default()
        };
    }

    fn annotations(&self, mut all: BTreeMap<String, String>) -> BTreeMap<String, String> {
        all.retain(|key, _| ANNOTATIONS.contains(&&**key) || self.annotations.contains(key));
        for text in all.values_mut().filter(|text| text.len() > TEXT) {
            *text = cut(text, TEXT).to_owned();
        }
        all
    }

    fn labels(&self, mut all: BTreeMap<String, String>) -> BTreeMap<String, String> {
        let places = || keys::REGION_LABELS.into_iter().chain(keys::ZONE_LABELS);
        let mut restrictions = 0_usize;
        all.retain(|key, _| {
            let is_restriction = key.starts_with(keys::ACCESS_PREFIX);
            restrictions = restrictions.saturating_add(usize::from(is_restriction));
            let is_known = LABELS.into_iter().chain(places()).any(|it| it == key);
            let is_heard = is_restriction && restrictions <= RESTRICTIONS;
            is_known || is_heard || self.labels.contains(key)
        });
        all
    }
}

/// The first ones, in their places, and ours wherever it is.
fn finalizers(mut all: Vec<String>) -> Vec<String> {
    if all.len() <= FINALIZERS {
        return all;
    }
    let mut others = all.iter().skip(FINALIZERS);
    let ours = others.any(|it| it == keys::VIRTUAL_NODE_GONE);
    all.truncate(FINALIZERS);
    if ours {
        all.push(keys::VIRTUAL_NODE_GONE.to_owned());
    }
    all.shrink_to_fit();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map<'a>(all: impl IntoIterator<Item = (&'a str, &'a str)>) -> BTreeMap<String, String> {
        let owned = |(key, text): (&str, &str)| (key.to_owned(), text.to_owned());
        all.into_iter().map(owned).collect()
    }

    #[test]
    fn of_a_target_what_is_read_is_kept_and_that_is_bounded() {
        let (long, wide) = ("x".repeat(200_000), "é".repeat(100_000));
        let many = |prefix: &str| -> Vec<String> {
            (0..5_000)
                .map(|number| format!("{prefix}{number:04}"))
                .collect()
        };
        let (labels, restrictions) = (many("l"), many(keys::ACCESS_PREFIX));
        let said = labels.iter().chain(&restrictions);
        let said = said.map(|key| (&**key, "true"));
        let mut meta = ObjectMeta {
            annotations: Some(map([
                ("a-note", &*long),
                ("example.com/cost", "5"),
                (keys::REGION, &*wide),
                (keys::FORGET, "true"),
                (keys::PROXY_CONSTRAINTS, &*long),
            ])),
            finalizers: Some(many("f")),
            generation: Some(3),
            labels: Some(map(said.chain([
                ("example.com/rate", "3"),
                (keys::REGION_LABELS[0], "eu"),
                (keys::CLOUD_PROVIDER, "aws"),
            ]))),
            name: Some("far".into()),
            uid: Some("u".into()),
            ..ObjectMeta::default()
        };
        let kept = Kept {
            labels: ["example.com/rate".to_owned(), restrictions[4_999].clone()].into(),
            annotations: ["example.com/cost".to_owned()].into(),
        };
        kept.trim(&mut meta);

        let annotations = meta.annotations.unwrap();
        let keys: Vec<&str> = annotations.keys().map(|key| &**key).collect();
        assert_eq!(keys, ["example.com/cost", keys::FORGET, keys::REGION]);
        let length = annotations[keys::REGION].len();
        assert!(length > limits::LIST && length <= TEXT, "{length}");

        let labels = meta.labels.unwrap();
        assert_eq!(labels.len(), RESTRICTIONS + 1 + 3);
        for key in [
            &*restrictions[255],
            &*restrictions[4_999],
            "example.com/rate",
        ] {
            assert!(labels.contains_key(key), "{key}");
        }
        assert!(!labels.contains_key(&restrictions[256]));
        assert_eq!(meta.finalizers.unwrap(), many("f")[..FINALIZERS]);
        let rest = (meta.generation, meta.name.as_deref(), meta.uid.as_deref());
        assert_eq!(rest, (Some(3), Some("far"), Some("u")));
    }

    #[test]
    fn our_finalizer_is_seen_wherever_it_is() {
        let all = |ours: usize| {
            let mut all: Vec<String> = (0..1_000).map(|number| format!("f{number}")).collect();
            all.insert(ours, keys::VIRTUAL_NODE_GONE.to_owned());
            all
        };
        let place = |all: &[String]| all.iter().position(|it| it == keys::VIRTUAL_NODE_GONE);
        assert_eq!(place(&finalizers(all(7))), Some(7));
        for ours in [FINALIZERS, 1_000] {
            let kept = finalizers(all(ours));
            assert_eq!((place(&kept), kept.len()), (Some(FINALIZERS), 101));
        }
        let few = vec!["a".to_owned()];
        assert_eq!(finalizers(few.clone()), few);
    }
}
