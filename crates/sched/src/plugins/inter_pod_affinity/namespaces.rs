//! Owns which namespaces a term of a pod means: what a selector of namespaces selects is worked out once, and again
//! when the labels of a namespace change. Knows nothing of pods.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use crate::counts::Namespaces;
use crate::labels::Selector;
use crate::objects::{Labelled, Store};
use crate::pod_affinity::PodAffinityTerm;

/// How many selections are kept in mind; pods of one application share theirs.
const MAX_SELECTIONS: usize = 4096;

type Names = Arc<BTreeSet<Arc<str>>>;

/// What was selected, and of which labels.
#[derive(Debug)]
struct Known {
    labels_version: u64,
    names: Names,
}

/// The selections that were worked out, by selector and by the names beside it.
#[derive(Debug, Default)]
struct Selections {
    by_selector: HashMap<Selector, HashMap<BTreeSet<String>, Known>>,
    len: usize,
}

impl Selections {
    fn get(&mut self, term: &PodAffinityTerm) -> Option<&mut Known> {
        let by_names = self.by_selector.get_mut(&term.namespace_selector)?;
        by_names.get_mut(&term.namespaces)
    }

    fn insert(&mut self, term: &PodAffinityTerm, known: Known) {
        if self.len >= MAX_SELECTIONS {
            *self = Self::default();
        }
        let selector = term.namespace_selector.clone();
        let by_names = self.by_selector.entry(selector).or_default();
        if by_names.insert(term.namespaces.clone(), known).is_none() {
            self.len = self.len.saturating_add(1);
        }
    }
}

/// Namespaces by what selects them.
#[derive(Debug, Default)]
pub(super) struct SelectedNamespaces {
    // Plugins are asked while they can't change.
    selections: Mutex<Selections>,
}

impl SelectedNamespaces {
    /// The namespaces that a term means: those that it names, and those there are whose labels it selects.
    pub(super) fn by(&self, term: &PodAffinityTerm, all: &Store<Labelled>) -> Namespaces {
        let named = || term.namespaces.iter().map(|name| Arc::from(&**name));
        match &term.namespace_selector {
            Selector::Nothing => Namespaces::These(Arc::new(named().collect())),
            Selector::All(requirements) if requirements.is_empty() => Namespaces::All,
            Selector::All(_) => {
                let labels_version = all.labels_version();
                let mut selections = self
                    .selections
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                let select = || -> BTreeSet<_> { named().chain(selected(term, all)).collect() };
                let names = if let Some(known) = selections.get(term) {
                    if known.labels_version != labels_version {
                        let names = select();
                        // Who has the same names as before has the same counts.
                        if *known.names != names {
                            known.names = Arc::new(names);
                        }
                        known.labels_version = labels_version;
                    }
                    known.names.clone()
                } else {
                    let names = Arc::new(select());
                    let known = Known {
                        labels_version,
                        names: names.clone(),
                    };
                    selections.insert(term, known);
                    names
                };
                Namespaces::These(names)
            }
        }
    }
}

fn selected<'a>(
    term: &'a PodAffinityTerm,
    all: &'a Store<Labelled>,
) -> impl Iterator<Item = Arc<str>> + 'a {
    let by_label = move |labelled: &Labelled| term.namespace_selector.matches(&labelled.labels);
    let selected = all.entries().filter(move |(_, it)| by_label(it));
    selected.map(|(key, _)| key.name.clone())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{MAX_SELECTIONS, SelectedNamespaces};
    use crate::counts::Namespaces;
    use crate::labels::{Requirement, Selector, Test};
    use crate::names::ObjectKey;
    use crate::objects::{Kind, Objects};
    use crate::pod_affinity::PodAffinityTerm;
    use crate::test_objects::namespace;

    fn term(names: &[&str], key: &str, values: &[&str]) -> PodAffinityTerm {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        PodAffinityTerm {
            namespaces: names.iter().map(|name| (*name).to_owned()).collect(),
            namespace_selector: Selector::All(vec![Requirement {
                key: key.into(),
                test: Test::In(values),
            }]),
            selector: Selector::Nothing,
            topology_key: "zone".into(),
        }
    }

    fn names(namespaces: &Namespaces) -> Vec<String> {
        match namespaces {
            Namespaces::All => vec!["all".to_owned()],
            Namespaces::These(names) => names.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn names_and_selectors_are_joined_and_follow_the_labels() {
        let mut objects = Objects::default();
        let selected = SelectedNamespaces::default();
        let both = term(&["unknown"], "team", &["x", "y"]);
        let by = |objects: &Objects| selected.by(&both, objects.namespaces());
        assert_eq!(names(&by(&objects)), ["unknown"]);
        objects.apply(namespace("a", &[("team", "x")])).unwrap();
        objects.apply(namespace("b", &[("team", "y")])).unwrap();
        objects.apply(namespace("c", &[])).unwrap();
        let before = by(&objects);
        assert_eq!(names(&before), ["a", "b", "unknown"]);
        objects.apply(namespace("b", &[("team", "z")])).unwrap();
        objects.apply(namespace("c", &[("team", "y")])).unwrap();
        assert_eq!(names(&by(&objects)), ["a", "c", "unknown"]);
        let key = ObjectKey {
            namespace: "".into(),
            name: "a".into(),
        };
        objects.remove(Kind::Namespace, &key).unwrap();
        assert_eq!(names(&by(&objects)), ["c", "unknown"]);
        // Of another cluster.
        assert_eq!(names(&by(&Objects::default())), ["unknown"]);
    }

    #[test]
    fn equal_selections_are_one() {
        let mut objects = Objects::default();
        let selected = SelectedNamespaces::default();
        objects.apply(namespace("a", &[("team", "x")])).unwrap();
        let by = |objects: &Objects| match selected
            .by(&term(&[], "team", &["x"]), objects.namespaces())
        {
            Namespaces::These(names) => names,
            Namespaces::All => panic!("not all"),
        };
        let first = by(&objects);
        objects.apply(namespace("other", &[])).unwrap();
        assert!(Arc::ptr_eq(&first, &by(&objects)));
    }

    #[test]
    fn no_selector_selects_nothing_and_an_empty_one_everything() {
        let (objects, selected) = (Objects::default(), SelectedNamespaces::default());
        let by = |selector: Selector| {
            let term = PodAffinityTerm {
                namespace_selector: selector,
                ..term(&["a"], "", &[])
            };
            names(&selected.by(&term, objects.namespaces()))
        };
        assert_eq!(by(Selector::Nothing), ["a"]);
        assert_eq!(by(Selector::All(vec![])), ["all"]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (objects, selected) = (Objects::default(), SelectedNamespaces::default());
        for number in 0..MAX_SELECTIONS * 2 + 7 {
            let term = term(&[&number.to_string()], "team", &["x"]);
            selected.by(&term, objects.namespaces());
            assert!(selected.selections.lock().unwrap().len <= MAX_SELECTIONS);
        }
    }
}
