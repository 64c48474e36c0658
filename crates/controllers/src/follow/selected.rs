//! Which Services select a pod, and which Ingresses send requests to these: an index by namespace. No I/O.
//!
//! It must not know where a pod runs: only pods that are sent somewhere are put in.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use pilotage_model::followed::{Kind, Need, Selector, selects};

/// Services that a pod brings along, and Ingresses: those of the first names. Replicas share theirs, and each is a need.
pub(super) const MOST: usize = 64;
/// Of those that come after these, so many are remembered, so that their authors are told.
const LEFT_OUT: usize = 16;

/// Labels of a pod.
pub(super) type Labels = BTreeMap<String, String>;

/// Pods, Services by the selectors of their authors, and Ingresses by the Services behind them.
#[derive(Debug, Default)]
pub(super) struct Selected {
    namespaces: HashMap<String, Namespace>,
}

#[derive(Debug, Default)]
struct Namespace {
    /// By UID.
    pods: HashMap<String, Labels>,
    services: BTreeMap<String, Selects>,
    ingresses: BTreeMap<String, BTreeSet<String>>,
}

/// What selects one pod.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Selecting {
    /// It has to be where the pod is.
    pub(super) needed: Vec<Need>,
    /// It had to, but too many names come before its own.
    pub(super) left_out: Vec<Need>,
}

/// Which pods a Service selects, as its author wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selects {
    /// Those with these labels.
    Labelled(Selector),
    /// That isn't known: maybe all.
    Any,
}

impl Selects {
    fn has(&self, labels: &Labels) -> bool {
        match self {
            Self::Labelled(selector) => selects(selector, labels),
            Self::Any => true,
        }
    }
}

/// These Services and Ingresses.
fn named(services: BTreeSet<&String>, ingresses: Vec<&String>) -> Vec<Need> {
    let need = |kind| {
        move |name: &String| Need {
            kind,
            name: name.clone(),
        }
    };
    let services = services.into_iter().map(need(Kind::Service));
    let ingresses = ingresses.into_iter().map(need(Kind::Ingress));
    services.chain(ingresses).collect()
}

impl Namespace {
    fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.services.is_empty() && self.ingresses.is_empty()
    }

    /// UIDs of pods with such labels.
    fn pods(&self, wanted: impl Fn(&Labels) -> bool) -> Vec<String> {
        let pods = self.pods.iter().filter(|(_, labels)| wanted(labels));
        pods.map(|(uid, _)| uid.clone()).collect()
    }
}

impl Selected {
    /// A pod, new or changed; without labels, it is gone.
    pub(super) fn pod(&mut self, namespace: &str, uid: &str, labels: Option<Labels>) {
        self.change(namespace, |it| match labels {
            Some(labels) => {
                it.pods.insert(uid.to_owned(), labels);
            }
            None => {
                it.pods.remove(uid);
            }
        });
    }

    /// A Service, new or changed; without a selector, it is gone or never follows. Says for which pods something may have
    /// changed.
    pub(super) fn service(
        &mut self,
        namespace: &str,
        name: &str,
        now: Option<Selects>,
    ) -> Vec<String> {
        self.change(namespace, |it| {
            let before = it.services.remove(name);
            // What isn't known any more stays as it was.
            let now = match (before.clone(), now) {
                (Some(before), Some(Selects::Any)) => Some(before),
                (_, now) => now,
            };
            let mut pods = Vec::new();
            if before != now {
                let both = [before.as_ref(), now.as_ref()];
                pods = it.pods(|labels| both.into_iter().flatten().any(|one| one.has(labels)));
            }
            it.services.extend(now.map(|now| (name.to_owned(), now)));
            pods
        })
    }

    /// Which pods a Service is known to select.
    pub(super) fn known(&self, namespace: &str, name: &str) -> Option<&Selects> {
        self.namespaces.get(namespace)?.services.get(name)
    }

    /// An Ingress, new or changed; without Services, it is gone or never follows. Says for which pods something may have
    /// changed.
    pub(super) fn ingress(
        &mut self,
        namespace: &str,
        name: &str,
        services: BTreeSet<String>,
    ) -> Vec<String> {
        self.change(namespace, |it| {
            let before = it.ingresses.remove(name).unwrap_or_default();
            let changed = before.symmetric_difference(&services);
            let selectors: Vec<_> = changed.filter_map(|name| it.services.get(name)).collect();
            let pods = it.pods(|labels| selectors.iter().any(|one| one.has(labels)));
            if !services.is_empty() {
                it.ingresses.insert(name.to_owned(), services);
            }
            pods
        })
    }

    /// What has to be where the pod is.
    pub(super) fn of(&self, namespace: &str, uid: &str) -> Selecting {
        let Some(it) = self.namespaces.get(namespace) else {
            return Selecting::default();
        };
        let Some(labels) = it.pods.get(uid) else {
            return Selecting::default();
        };
        let services = it.services.iter();
        let services = services.filter(|(_, selector)| selector.has(labels));
        let mut services = services.map(|(name, _)| name);
        let needed: BTreeSet<&String> = services.by_ref().take(MOST).collect();
        let left_out: BTreeSet<&String> = services.take(LEFT_OUT).collect();
        let (mut in_front, mut passed_over) = (Vec::new(), Vec::new());
        for (name, behind) in &it.ingresses {
            let leads_to = |to: &BTreeSet<&String>| behind.iter().any(|it| to.contains(it));
            let follows = leads_to(&needed);
            if follows && in_front.len() < MOST {
                in_front.push(name);
            } else if passed_over.len() < LEFT_OUT && (follows || leads_to(&left_out)) {
                passed_over.push(name);
            }
        }
        Selecting {
            needed: named(needed, in_front),
            left_out: named(left_out, passed_over),
        }
    }

    fn change<T>(&mut self, namespace: &str, change: impl FnOnce(&mut Namespace) -> T) -> T {
        let it = self.namespaces.entry(namespace.to_owned()).or_default();
        let changed = change(it);
        if it.is_empty() {
            self.namespaces.remove(namespace);
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn of(selected: &Selected, uid: &str) -> Vec<String> {
        let needs = selected.of("shop", uid).needed;
        needs.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn services_and_their_ingresses_are_needed_where_pods_are_selected() {
        let mut it = Selected::default();
        let web = labels(&[("app", "web"), ("tier", "front")]);
        it.pod("shop", "p", Some(web.clone()));
        it.pod("shop", "q", Some(labels(&[("app", "db")])));
        it.pod("other", "r", Some(web));
        let app = |app: &str| Some(Selects::Labelled(labels(&[("app", app)])));
        assert_eq!(it.service("shop", "web", app("web")), ["p"]);
        assert_eq!(
            it.service("shop", "web", app("web")),
            [""; 0],
            "nothing is new"
        );
        assert_eq!(it.ingress("shop", "front", names(&["web", "db"])), ["p"]);
        assert_eq!(of(&it, "p"), ["Service/web", "Ingress/front"]);
        assert_eq!(of(&it, "q"), [""; 0]);
        assert_eq!(it.of("other", "r"), Selecting::default());

        let mut both = it.service("shop", "web", app("db"));
        both.sort();
        assert_eq!(both, ["p", "q"], "of the old selector and of the new one");
        assert_eq!(of(&it, "p"), [""; 0]);
        assert_eq!(of(&it, "q"), ["Service/web", "Ingress/front"]);
        assert_eq!(it.ingress("shop", "front", names(&["db"])), ["q"]);
        assert_eq!(of(&it, "q"), ["Service/web"]);
        it.pod("shop", "q", Some(labels(&[("app", "cache")])));
        assert_eq!(of(&it, "q"), [""; 0]);
    }

    #[test]
    fn nothing_is_left_of_what_is_gone() {
        let mut it = Selected::default();
        it.service(
            "shop",
            "web",
            Some(Selects::Labelled(labels(&[("app", "web")]))),
        );
        it.ingress("shop", "front", names(&["web"]));
        it.pod("shop", "p", Some(labels(&[("app", "web")])));
        assert_eq!(of(&it, "p"), ["Service/web", "Ingress/front"]);
        assert_eq!(it.ingress("shop", "front", names(&[])), ["p"]);
        assert_eq!(it.service("shop", "web", None), ["p"]);
        it.pod("shop", "p", None);
        assert!(it.namespaces.is_empty());
    }

    #[test]
    fn who_may_be_selected_is_not_known_of_a_service_that_was_never_read() {
        let mut it = Selected::default();
        it.pod("shop", "p", Some(labels(&[("app", "web")])));
        it.pod("shop", "q", Some(labels(&[("app", "db")])));
        it.ingress("shop", "front", names(&["web"]));
        let mut all = it.service("shop", "web", Some(Selects::Any));
        all.sort();
        assert_eq!(all, ["p", "q"]);
        assert_eq!(of(&it, "q"), ["Service/web", "Ingress/front"]);
        let web = Selects::Labelled(labels(&[("app", "web")]));
        it.service("shop", "web", Some(web));
        assert_eq!(of(&it, "q"), [""; 0]);
        assert_eq!(it.service("shop", "web", Some(Selects::Any)), [""; 0]);
        assert_eq!(of(&it, "p"), ["Service/web", "Ingress/front"], "as it was");
        assert_eq!(of(&it, "q"), [""; 0]);
    }

    #[test]
    fn a_pod_brings_no_more_than_so_many_services_and_ingresses() {
        let mut it = Selected::default();
        it.pod("shop", "p", Some(labels(&[("app", "web")])));
        for n in 0..MOST + 3 {
            let web = Selects::Labelled(labels(&[("app", "web")]));
            it.service("shop", &format!("s{n}"), Some(web));
            it.ingress("shop", &format!("i{n}"), names(&["s0"]));
        }
        assert_eq!(of(&it, "p").len(), 2 * MOST);
    }

    #[test]
    fn what_is_too_many_is_said_and_no_more_than_some_of_it() {
        let mut it = Selected::default();
        it.pod("shop", "p", Some(labels(&[("app", "web")])));
        let web = || Some(Selects::Labelled(labels(&[("app", "web")])));
        let left_out = |it: &Selected| -> Vec<String> {
            let left_out = it.of("shop", "p").left_out;
            left_out.iter().map(ToString::to_string).collect()
        };
        for n in 0..MOST {
            it.service("shop", &format!("s{n:02}"), web());
            it.ingress("shop", &format!("i{n:02}"), names(&["s00"]));
        }
        assert_eq!(left_out(&it), [""; 0]);
        it.service("shop", "s64", web());
        it.ingress("shop", "a", names(&["s64"]));
        it.ingress("shop", "z", names(&["s00"]));
        it.ingress("shop", "nobodys", names(&["other"]));
        assert_eq!(
            left_out(&it),
            ["Service/s64", "Ingress/a", "Ingress/z"],
            "nor does what is only in front of it"
        );
        for n in 0..1000 {
            it.service("shop", &format!("t{n}"), web());
            it.ingress("shop", &format!("j{n}"), names(&["s00"]));
        }
        assert_eq!(left_out(&it).len(), 2 * LEFT_OUT);
        it.service("shop", "s00", None);
        assert!(!left_out(&it).contains(&"Service/s64".to_owned()));
    }
}
