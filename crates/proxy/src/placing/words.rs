//! What is kept of a Target's own labels and annotations: what a candidate is made of, or rules read, and no more.
//!
//! An author may write hundreds of kilobytes of them, and change them at any time. It knows no node.

use std::collections::BTreeSet;

use pilotage_api::{keys, limits};
use pilotage_placement::{Cost, Labels, Ranking};

/// How many access restrictions of a target are heard.
const RESTRICTIONS: usize = 256;

/// What a Target's own labels and annotations say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: Labels,
}

/// Nobody says anything.
pub(super) static NO_WORDS: Words = Words {
    labels: Labels::new(),
    annotations: Labels::new(),
};

/// Which labels and annotations of Targets are read: well-known ones, and those in which rules of the configuration
/// find costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readable {
    labels: BTreeSet<String>,
    annotations: BTreeSet<String>,
}

impl Readable {
    /// What these read.
    pub fn by<'a>(rankings: impl IntoIterator<Item = &'a Ranking>) -> Self {
        let mut readable = Self::default();
        for cost in rankings.into_iter().flat_map(Ranking::costs) {
            match cost {
                Cost::Label(key) => readable.labels.insert(key.clone()),
                Cost::Annotation(key) => readable.annotations.insert(key.clone()),
            };
        }
        readable
    }

    /// Keys of labels in which rules find costs.
    pub const fn labels(&self) -> &BTreeSet<String> {
        &self.labels
    }

    /// Keys of such annotations.
    pub const fn annotations(&self) -> &BTreeSet<String> {
        &self.annotations
    }

    /// What of a Target's labels and annotations is read.
    pub fn words(&self, labels: &Labels, annotations: &Labels) -> Words {
        let own = [keys::REGION, keys::ZONES, keys::CLOUD_PROVIDER];
        let places = keys::REGION_LABELS.into_iter().chain(keys::ZONE_LABELS);
        let known = own.into_iter().chain(places);
        let restrictions = labels
            .range(keys::ACCESS_PREFIX.to_owned()..)
            .take_while(|(key, _)| key.starts_with(keys::ACCESS_PREFIX))
            .take(RESTRICTIONS)
            .map(|(key, _)| &**key);
        let rated = self.labels.iter().map(|key| &**key);
        Words {
            labels: heard(labels, known.chain(restrictions).chain(rated)),
            annotations: heard(
                annotations,
                own.into_iter()
                    .chain(self.annotations.iter().map(|key| &**key)),
            ),
        }
    }
}

/// What is said under these keys. A text that is too long for any of them says nothing, which isn't the same as
/// silence.
fn heard<'a>(said: &Labels, keys: impl Iterator<Item = &'a str>) -> Labels {
    let short = |text: &str| {
        let text = text.trim();
        if text.len() <= limits::LIST { text } else { "" }.to_owned()
    };
    keys.filter_map(|key| Some((key.to_owned(), short(said.get(key)?))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(rules: &str) -> Ranking {
        Ranking::new(None, Some(serde_saphyr::from_str(rules).unwrap())).unwrap()
    }

    #[test]
    fn of_a_targets_words_only_what_is_read_is_kept_and_that_is_bounded() {
        let long = "x".repeat(250_000);
        let rankings = [
            cost("[Cost: {label: example.com/rate}]"),
            cost("[Cost: {annotation: example.com/cost}, LeastUsed: {}]"),
        ];
        let readable = Readable::by(&rankings);
        let mut labels: Labels = (0..5_000)
            .flat_map(|number| {
                [
                    format!("l{number}"),
                    format!("{}r{number:04}", keys::ACCESS_PREFIX),
                ]
            })
            .map(|key| (key, "true".to_owned()))
            .collect();
        let said = [
            ("example.com/rate", "3"),
            ("example.com/cost", "a label"),
            (keys::REGION_LABELS[0], "eu"),
        ];
        labels.extend(said.map(|(key, text)| (key.to_owned(), text.to_owned())));
        let said = [
            ("example.com/cost", "5"),
            ("example.com/rate", "an annotation"),
            ("a-note", &long),
            (keys::REGION, &long),
            (keys::ZONES, " a, b "),
        ];
        let annotations = said.map(|(key, text)| (key.to_owned(), text.to_owned()));
        let words = readable.words(&labels, &annotations.into());
        let want = [
            ("example.com/cost", "5"),
            (keys::REGION, ""),
            (keys::ZONES, "a, b"),
        ];
        let kept = words.annotations.iter();
        let kept: BTreeSet<_> = kept.map(|(key, text)| (&**key, &**text)).collect();
        assert_eq!(kept, want.into());
        let label = |key: &str| words.labels.get(key).map(|text| &**text);
        assert_eq!(label("example.com/rate"), Some("3"));
        assert_eq!(label(keys::REGION_LABELS[0]), Some("eu"));
        assert_eq!(
            label("access.multicluster.admiralty.io/r0255"),
            Some("true")
        );
        assert_eq!(words.labels.len(), RESTRICTIONS + 2);
        assert_eq!(
            Readable::default()
                .words(&labels, &Labels::new())
                .labels
                .len(),
            RESTRICTIONS + 1
        );
    }
}
