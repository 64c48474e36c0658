//! Selectors of Services: how their keys are spelled once delegates run elsewhere, the text that notes them, and what
//! their author meant when both are mixed. Must not know Services.

use std::collections::BTreeMap;

use pilotage_api::{bounds, keys};
use thiserror::Error;

use crate::label_pattern::LabelPattern;
use crate::labels::LabelKeys;

/// Labels that a pod must have, all of them.
pub type Selector = BTreeMap<String, String>;

/// Longest key of a label: a domain, a slash, a name.
const KEY_LIMIT: usize = 317;
/// Longest value of a label.
const VALUE_LIMIT: usize = 63;
/// Bytes of a mistake that are shown.
const SHOWN: usize = 80;

/// The most that a selector may take as text: some of it is matched several times, within what a pattern may match.
const TEXT_LIMIT: usize = 2048;

/// A selector can't be rewritten.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelectorError {
    /// The annotation with the original one can't be read.
    #[error(
        "annotation {}: {part:?} is no label as key=value",
        keys::ORIGINAL_SELECTOR
    )]
    Unreadable {
        /// What can't be read of it.
        part: String,
    },
    /// It is longer than what is noted.
    #[error("the selector takes more than {TEXT_LIMIT} bytes")]
    TooLong,
}

/// Whether a selector can be noted.
pub(super) fn check(selector: &Selector) -> Result<(), SelectorError> {
    let fits = text(selector).len() <= TEXT_LIMIT;
    fits.then_some(()).ok_or(SelectorError::TooLong)
}

/// Whether a pod with these labels is selected; an empty selector selects none.
pub fn selects(selector: &Selector, labels: &BTreeMap<String, String>) -> bool {
    let mut all = selector.iter();
    !selector.is_empty() && all.all(|(key, value)| labels.get(key) == Some(value))
}

/// The selector as Admiralty notes it.
pub(super) fn text(selector: &Selector) -> String {
    let all = selector.iter();
    let all: Vec<_> = all.map(|(key, value)| format!("{key}={value}")).collect();
    all.join(",")
}

/// Reads what [`text`] wrote.
pub(super) fn parse(text: &str) -> Result<Selector, SelectorError> {
    if text.len() > TEXT_LIMIT {
        return Err(SelectorError::TooLong);
    }
    let mut selector = Selector::new();
    for part in text.split(',') {
        let mistake = || SelectorError::Unreadable {
            part: bounds::cut(part, SHOWN).to_owned(),
        };
        let (key, value) = part.split_once('=').ok_or_else(mistake)?;
        let (key, value) = (key.trim(), value.trim());
        let fits = is_key(key) && value.len() <= VALUE_LIMIT && value.chars().all(is_of_name);
        if !fits || selector.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(mistake());
        }
    }
    Ok(selector)
}

fn is_key(key: &str) -> bool {
    !key.is_empty() && key.len() <= KEY_LIMIT && key.chars().all(|c| is_of_name(c) || c == '/')
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// The same selector over the labels of delegates; `kept` is the Service's `no-prefix-label-regexp`.
pub(super) fn rewritten(original: &Selector, kept: Option<&LabelPattern>) -> Selector {
    let pairs = spelled(original, kept).into_iter().zip(original.values());
    pairs.map(|(key, value)| (key, value.clone())).collect()
}

/// The new keys, in the order of the old ones.
fn spelled(original: &Selector, kept: Option<&LabelPattern>) -> Vec<String> {
    let all = original.iter();
    let labels: BTreeMap<&str, &str> = all.map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let keys = LabelKeys::new(&labels, kept);
    let all = original.iter();
    all.map(|(key, value)| keys.selected(key, &[value]))
        .collect()
}

/// What the author of a Service wants, whose selector is `live` and was `noted` when it was rewritten last.
///
/// Who applies a manifest again puts the author's keys beside the rewritten ones, who edits the object edits these.
pub(super) fn original(live: &Selector, noted: &Selector, kept: Option<&LabelPattern>) -> Selector {
    let then = rewritten(noted, kept);
    let plain = rewritten(noted, None);
    // However each key is spelled: the pattern may have changed since.
    let spellings = [noted, &then, &plain];
    let has = |one: &Selector, key: &str, value: &str| one.get(key).is_some_and(|it| it == value);
    let known = |(key, value): (&String, &String)| spellings.iter().any(|it| has(it, key, value));
    let (now, unkept) = (spelled(noted, kept), spelled(noted, None));
    let mut each = now.iter().zip(&unkept).zip(noted);
    let complete = each.all(|((now, unkept), (old, value))| {
        let keys = [now, unkept, old];
        keys.into_iter().any(|key| has(live, key, value))
    });
    if complete && live.iter().all(known) {
        return noted.clone();
    }
    if live
        .keys()
        .all(|key| then.contains_key(key) || plain.contains_key(key))
    {
        let spelled = [unkept, now]
            .into_iter()
            .flat_map(|keys| keys.into_iter().zip(noted.keys()));
        let back: BTreeMap<String, &String> = spelled.collect();
        let all = live.iter();
        return all
            .map(|(key, value)| (back.get(key).map_or(key, |it| *it).clone(), value.clone()))
            .collect();
    }
    let rest = live.iter();
    rest.filter(|(key, value)| {
        noted.contains_key(*key) || !(has(&then, key, value) || has(&plain, key, value))
    })
    .map(|(key, value)| (key.clone(), value.clone()))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Selector {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    const APP: &str = "multicluster.admiralty.io/app";
    const TIER: &str = "multicluster.admiralty.io/tier";

    #[test]
    fn a_selector_survives_its_annotation_and_mistakes_are_told() {
        let selector = of(&[("app", "web"), ("example.com/tier", ""), ("a", "1")]);
        assert_eq!(text(&selector), "a=1,app=web,example.com/tier=");
        assert_eq!(parse(&text(&selector)), Ok(selector));
        assert_eq!(
            parse("app = web, a=1"),
            Ok(of(&[("app", "web"), ("a", "1")]))
        );
        let long = format!("a={}", "v".repeat(64));
        for bad in [
            "",
            "app",
            "<none>",
            "=x",
            "app=web,",
            "app==web",
            "a=1,a=2",
            "app in (a)",
            &long,
            "é=1",
        ] {
            let error = parse(bad).unwrap_err().to_string();
            assert!(
                error.contains(keys::ORIGINAL_SELECTOR) && error.len() < 200,
                "{error}"
            );
        }
    }

    #[test]
    fn keys_are_rewritten_like_those_of_delegates() {
        let kept = LabelPattern::parse("^team=").unwrap();
        let selector = of(&[("app", "web"), ("example.com/tier", "front"), ("team", "a")]);
        let got = rewritten(&selector, Some(&kept));
        assert_eq!(got, of(&[(APP, "web"), (TIER, "front"), ("team", "a")]));
        assert_eq!(rewritten(&got, Some(&kept)), got, "once is enough");
        let got = rewritten(&of(&[("team", "a")]), None);
        assert_eq!(got, of(&[("multicluster.admiralty.io/team", "a")]));
    }

    #[test]
    fn what_the_author_wants_is_known_however_it_is_changed() {
        let noted = of(&[("app", "web"), ("tier", "front")]);
        for (live, want, why) in [
            (
                of(&[(APP, "web"), (TIER, "front")]),
                noted.clone(),
                "as it was rewritten",
            ),
            (noted.clone(), noted.clone(), "replaced by the manifest"),
            (
                of(&[
                    (APP, "web"),
                    (TIER, "front"),
                    ("app", "web"),
                    ("tier", "front"),
                ]),
                noted.clone(),
                "the manifest applied again",
            ),
            (
                of(&[(APP, "web"), (TIER, "front"), ("app", "shop")]),
                of(&[("app", "shop")]),
                "another manifest applied",
            ),
            (
                of(&[(APP, "shop"), (TIER, "front")]),
                of(&[("app", "shop"), ("tier", "front")]),
                "edited",
            ),
            (
                of(&[(APP, "web")]),
                of(&[("app", "web")]),
                "a key taken away",
            ),
            (
                of(&[("other", "x")]),
                of(&[("other", "x")]),
                "replaced by another",
            ),
        ] {
            assert_eq!(original(&live, &noted, None), want, "{why}");
        }
        let kept = LabelPattern::parse("^team=").unwrap();
        let noted = of(&[("app", "web"), ("team", "a")]);
        let live = of(&[(APP, "web"), ("app", "shop"), ("team", "a")]);
        let want = of(&[("app", "shop"), ("team", "a")]);
        assert_eq!(original(&live, &noted, Some(&kept)), want);
    }

    #[test]
    fn keys_that_meet_only_without_the_pattern_are_all_known() {
        let kept = LabelPattern::parse("app=x").unwrap();
        let noted = of(&[("a.io/app", "y"), ("app", "x"), ("b.io/app", "y")]);
        let live = rewritten(&noted, Some(&kept));
        assert_eq!(
            live,
            of(&[("app", "x"), (APP, "y")]),
            "two of them share a name"
        );
        assert_eq!(original(&live, &noted, Some(&kept)), noted);
    }

    #[test]
    fn another_pattern_changes_nothing_of_what_the_author_wants() {
        let noted = of(&[("app", "web"), ("tier", "front"), ("example.com/zone", "x")]);
        let patterns = ["^app=", "^(app|tier)=", ".", "^none="].map(LabelPattern::parse);
        let patterns: Vec<_> = patterns.into_iter().map(Result::unwrap).map(Some).collect();
        for before in patterns.iter().chain([&None]) {
            for now in patterns.iter().chain([&None]) {
                let live = rewritten(&noted, before.as_ref());
                assert_eq!(original(&live, &noted, now.as_ref()), noted, "{live:?}");
            }
        }
    }

    #[test]
    fn a_selector_that_cant_be_noted_is_refused_before_it_is_rewritten() {
        let long: Vec<_> = (0..10)
            .map(|n| (format!("{n}{}", "k".repeat(250)), "v".repeat(63)))
            .collect();
        let long: Selector = long.into_iter().collect();
        assert_eq!(check(&long), Err(SelectorError::TooLong));
        assert_eq!(parse(&text(&long)), Err(SelectorError::TooLong));
        assert_eq!(check(&of(&[("app", "web")])), Ok(()));
    }

    #[test]
    fn nothing_selects_nothing() {
        let labels = of(&[("app", "web"), ("x", "y")]);
        assert!(selects(&of(&[("app", "web")]), &labels));
        assert!(!selects(&of(&[("app", "web"), ("z", "")]), &labels));
        assert!(!selects(&Selector::new(), &labels));
    }
}
