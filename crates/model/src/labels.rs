//! How label keys of a source pod are spelled in a target, and the selectors that must follow.
//!
//! Admiralty's rule: a key without our domain becomes our prefix and the part after its last `/`, unless `key=value`
//! matches the pod's `no-prefix-label-regexp`. Two keys that would meet are kept apart: the first of *a key of ours, a
//! key without a domain, the smallest in byte order* takes the name, each other one with another value gets `-` and the
//! first six hexadecimal digits of the SHA-256 of its own key. Keys that meet with the same value share one name: no
//! selector can tell them apart. Must not know where in a pod labels or selectors stand.

use std::collections::BTreeMap;

use pilotage_api::{bounds, keys, names};

use crate::label_pattern::LabelPattern;

/// Longest name part of a label key.
const NAME_LIMIT: usize = 63;
/// Hexadecimal digits that keep two keys apart.
const HASH_DIGITS: usize = 6;

/// Labels of a source that mean something to Pilotage; a user's pod must not pass them on.
const DROPPED: [&str; 4] = [
    keys::HAS_FINALIZER,
    keys::PARENT_UID,
    keys::PARENT_CLUSTER_NAME,
    keys::PARENT_CLUSTER_UID,
];

/// The spelling of one pod's label keys in the target.
#[derive(Clone, Debug)]
pub struct LabelKeys<'a> {
    kept: Option<&'a LabelPattern>,
    /// Own labels of the pod: source key → target key.
    own: BTreeMap<&'a str, String>,
}

impl<'a> LabelKeys<'a> {
    /// Decides the spelling for a pod with these labels; `kept` is its `no-prefix-label-regexp`.
    pub fn new(labels: &BTreeMap<&'a str, &'a str>, kept: Option<&'a LabelPattern>) -> Self {
        let mut claims: BTreeMap<String, Vec<(&'a str, &'a str)>> = BTreeMap::new();
        for (&key, &value) in labels {
            if !DROPPED.contains(&key) {
                claims
                    .entry(plain(kept, key, value))
                    .or_default()
                    .push((key, value));
            }
        }
        let mut own = BTreeMap::new();
        for (target, mut sources) in claims {
            sources.sort_by_key(|(key, _)| (*key != target, key.contains('/'), *key));
            let winner = sources[0].1;
            for (key, value) in sources {
                let spelled = if value == winner {
                    target.clone()
                } else {
                    with_hash(&target, key)
                };
                own.insert(key, spelled);
            }
        }
        Self { kept, own }
    }

    /// The key under which a label of the pod itself stands in the target; `None` if it has no such label there.
    pub fn own(&self, key: &str) -> Option<&str> {
        self.own.get(key).map(String::as_str)
    }

    /// The key that a selector for `key` with one of `values` must ask for.
    ///
    /// A selector mostly means the pod's own siblings, which carry the same keys, so the pod's own spelling comes
    /// first.
    pub fn selected(&self, key: &str, values: &[&str]) -> String {
        if let Some(own) = self.own(key) {
            return own.to_owned();
        }
        let kept = match values {
            [] => self.keeps(key, ""),
            values => values.iter().all(|value| self.keeps(key, value)),
        };
        if kept { key.to_owned() } else { prefixed(key) }
    }

    fn keeps(&self, key: &str, value: &str) -> bool {
        keeps(self.kept, key, value)
    }
}

fn keeps(kept: Option<&LabelPattern>, key: &str, value: &str) -> bool {
    keys::is_ours(key) || kept.is_some_and(|kept| kept.matches(key, value) == Some(true))
}

fn plain(kept: Option<&LabelPattern>, key: &str, value: &str) -> String {
    if keeps(kept, key, value) {
        key.to_owned()
    } else {
        prefixed(key)
    }
}

fn prefixed(key: &str) -> String {
    if keys::is_ours(key) {
        return key.to_owned();
    }
    let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
    format!("{}{name}", keys::PREFIX)
}

fn with_hash(target: &str, source: &str) -> String {
    let (domain, name) = target
        .rsplit_once('/')
        .map_or(("", target), |(d, n)| (d, n));
    let digest = names::hash(source);
    let digest = digest.get(..HASH_DIGITS).unwrap_or(&digest);
    // Label names are ASCII, but a malformed one must not panic either: cut at a character.
    let name = bounds::cut(name, NAME_LIMIT - HASH_DIGITS - 1);
    if domain.is_empty() {
        format!("{name}-{digest}")
    } else {
        format!("{domain}/{name}-{digest}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(labels: &[(&str, &str)], kept: Option<&str>) -> Vec<(String, String)> {
        let kept = kept.map(|kept| LabelPattern::parse(kept).unwrap());
        let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
        let keys = LabelKeys::new(&labels, kept.as_ref());
        labels
            .keys()
            .filter_map(|key| Some(((*key).to_owned(), keys.own(key)?.to_owned())))
            .collect()
    }

    #[test]
    fn keys_are_spelled_as_admiralty_does() {
        for (labels, kept, want) in [
            (
                vec![("app", "web")],
                None,
                vec![("app", "multicluster.admiralty.io/app")],
            ),
            (
                vec![("app.kubernetes.io/name", "web")],
                None,
                vec![("app.kubernetes.io/name", "multicluster.admiralty.io/name")],
            ),
            (
                vec![("team", "a"), ("tier", "b")],
                Some("^team=a$"),
                vec![("team", "team"), ("tier", "multicluster.admiralty.io/tier")],
            ),
            (
                vec![("multicluster.admiralty.io/custom", "x")],
                None,
                vec![(
                    "multicluster.admiralty.io/custom",
                    "multicluster.admiralty.io/custom",
                )],
            ),
            (
                vec![(keys::PARENT_UID, "forged"), (keys::HAS_FINALIZER, "true")],
                None,
                vec![],
            ),
        ] {
            let want: Vec<(String, String)> = want
                .into_iter()
                .map(|(a, b)| (a.to_owned(), b.to_owned()))
                .collect();
            assert_eq!(spelled(&labels, kept), want, "{labels:?}");
        }
    }

    #[test]
    fn keys_that_meet_are_kept_apart_and_the_one_without_domain_has_the_name() {
        let got = spelled(&[("a.io/app", "x"), ("app", "y"), ("b.io/app", "y")], None);
        assert_eq!(
            got[1],
            ("app".into(), "multicluster.admiralty.io/app".into())
        );
        assert_eq!(
            got[2],
            ("b.io/app".into(), "multicluster.admiralty.io/app".into()),
            "the same value needs no second name"
        );
        let hash = &names::hash("a.io/app")[..6];
        assert_eq!(
            got[0],
            (
                "a.io/app".into(),
                format!("multicluster.admiralty.io/app-{hash}")
            )
        );
    }

    #[test]
    fn a_key_of_ours_goes_before_all_others() {
        let got = spelled(
            &[("app", "x"), ("multicluster.admiralty.io/app", "y")],
            None,
        );
        assert_eq!(got[1].1, "multicluster.admiralty.io/app");
        assert!(
            got[0].1.starts_with("multicluster.admiralty.io/app-"),
            "{}",
            got[0].1
        );
    }

    #[test]
    fn a_long_name_keeps_room_for_the_hash() {
        let long = "n".repeat(63);
        let (a, b) = (format!("a.io/{long}"), format!("b.io/{long}"));
        let got = spelled(&[(&a, "1"), (&b, "2")], None);
        for (_, key) in &got {
            assert!(key.rsplit_once('/').unwrap().1.len() <= 63, "{key}");
        }
        assert_ne!(got[0].1, got[1].1);
    }

    #[test]
    fn selectors_follow_the_own_spelling_and_else_the_rule() {
        let kept = LabelPattern::parse("^(team=|zone=(a|b)$)").unwrap();
        let labels = BTreeMap::from([("a.io/app", "x"), ("app", "y")]);
        let keys = LabelKeys::new(&labels, Some(&kept));
        assert_eq!(
            keys.selected("a.io/app", &["x"]),
            keys.own("a.io/app").unwrap()
        );
        assert_eq!(
            keys.selected("other.io/kind", &["x"]),
            "multicluster.admiralty.io/kind"
        );
        assert_eq!(keys.selected("team", &[]), "team");
        assert_eq!(keys.selected("zone", &["a", "b"]), "zone");
        assert_eq!(
            keys.selected("zone", &["a", "c"]),
            "multicluster.admiralty.io/zone"
        );
    }
}
