//! Which Services select a pod, and which Ingresses send requests to these: an index by namespace. No I/O.
//!
//! A change looks at those whom it may concern, by their labels, and at no others. It must not know where a pod runs:
//! only pods that are sent somewhere are put in.

mod labelled;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use pilotage_model::followed::{Kind, Need, Selector, selects};

use labelled::Labelled;

/// Services that a pod brings along, and Ingresses: those of the first names. Replicas share theirs, and each is a
/// need.
pub(super) const MOST: usize = 64;
/// Of those that come after these, so many are remembered, so that their authors are told.
pub(super) const LEFT_OUT: usize = 16;

/// Labels of a pod.
pub(super) type Labels = BTreeMap<String, String>;
/// UID of a pod, which is kept once.
pub(super) type Uid = Arc<str>;

/// Pods, Services by the selectors of their authors, and Ingresses by the Services behind them.
#[derive(Debug, Default)]
pub(super) struct Selected {
    namespaces: HashMap<String, Namespace>,
}

#[derive(Debug, Default)]
struct Namespace {
    pods: HashMap<Uid, Labels>,
    pods_by_label: Labelled,
    services: HashMap<Arc<str>, Known>,
    /// Each by one label of its selector.
    services_by_label: Labelled,
    /// Services that may select any pod.
    of_any: BTreeSet<Arc<str>>,
    /// By name: the Services behind it.
    ingresses: HashMap<String, BTreeSet<String>>,
    /// By a Service's name: Ingresses in front of it, whether it is there or not.
    in_front: HashMap<String, BTreeSet<String>>,
}

/// A Service.
#[derive(Debug)]
struct Known {
    selects: Selects,
    /// The label that it is found by.
    by: Option<(String, String)>,
}

/// What selects one pod.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Selecting {
    /// It has to be where the pod is.
    pub(super) needed: Vec<Need>,
    /// It had to, but too many names come before its own.
    pub(super) left_out: Vec<Need>,
    /// How many Services and Ingresses were looked at to find them.
    pub(super) looked: usize,
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
        #[cfg(test)]
        tests::LOOKS.with(|looks| looks.set(looks.get() + 1));
        match self {
            Self::Labelled(selector) => selects(selector, labels),
            Self::Any => true,
        }
    }
}

/// These Services and Ingresses.
fn named<'a>(
    services: impl IntoIterator<Item = &'a str>,
    ingresses: impl IntoIterator<Item = &'a str>,
) -> Vec<Need> {
    let need = |kind| {
        move |name: &str| Need {
            kind,
            name: name.to_owned(),
        }
    };
    let services = services.into_iter().map(need(Kind::Service));
    let ingresses = ingresses.into_iter().map(need(Kind::Ingress));
    services.chain(ingresses).collect()
}

impl Namespace {
    fn is_empty(&self) -> bool {
        // Whatever is found by a label is one of these.
        self.pods.is_empty() && self.services.is_empty() && self.ingresses.is_empty()
    }

    /// Pods that a Service selects, and how many were looked at to find them.
    fn pods(&self, selects: &Selects) -> (Vec<Uid>, usize) {
        let Selects::Labelled(selector) = selects else {
            return (self.pods.keys().cloned().collect(), self.pods.len());
        };
        let mut looked = 0_usize;
        let rarest = self.pods_by_label.rarest(selector).into_iter();
        let some = rarest.flat_map(|(key, value)| self.pods_by_label.with(key, value));
        let some = some.inspect(|_| looked = looked.saturating_add(1));
        let selected = some.filter(|uid| self.pods.get(*uid).is_some_and(|pod| selects.has(pod)));
        (selected.cloned().collect(), looked)
    }

    /// Services that select a pod with such labels, in the order of their names, and how many were looked at.
    fn services(&self, labels: &Labels) -> (BTreeSet<&str>, usize) {
        let mut looked = 0_usize;
        let labelled = labels.iter();
        let some = labelled.flat_map(|(key, value)| self.services_by_label.with(key, value));
        let some = some.chain(&self.of_any).map(|name| &**name);
        let some = some.inspect(|_| looked = looked.saturating_add(1));
        let selects = |name: &&str| {
            let known = self.services.get(*name);
            known.is_some_and(|known| known.selects.has(labels))
        };
        (some.filter(selects).collect(), looked)
    }

    /// Ingresses in front of these Services, in the order of their names: those that may follow a pod, and be told of
    /// if they don't.
    fn ingresses(&self, services: &BTreeSet<&str>) -> BTreeSet<&str> {
        let in_front = services.iter().filter_map(|name| self.in_front.get(*name));
        let some = in_front.flat_map(|names| names.iter().take(MOST.saturating_add(LEFT_OUT)));
        some.map(String::as_str).collect()
    }

    fn set_pod(&mut self, uid: &Uid, now: Option<Labels>) {
        if let Some(before) = self.pods.remove(uid) {
            if now.as_ref() == Some(&before) {
                self.pods.insert(uid.clone(), before);
                return;
            }
            for (key, value) in &before {
                self.pods_by_label.remove(key, value, uid);
            }
        }
        let Some(now) = now else { return };
        for (key, value) in &now {
            self.pods_by_label.insert(key, value, uid);
        }
        self.pods.insert(uid.clone(), now);
    }

    fn set_service(&mut self, name: &str, now: Option<Selects>) {
        if let Some(Known { by, .. }) = self.services.remove(name) {
            self.of_any.remove(name);
            if let Some((key, value)) = by {
                self.services_by_label.remove(&key, &value, name);
            }
        }
        let Some(selects) = now else { return };
        let name: Arc<str> = name.into();
        let mut by = None;
        match &selects {
            // Labels that all have are of no use: it is found by one that few others are found by.
            Selects::Labelled(selector) => {
                if let Some((key, value)) = self.services_by_label.rarest(selector) {
                    self.services_by_label.insert(key, value, &name);
                    by = Some((key.to_owned(), value.to_owned()));
                }
            }
            Selects::Any => {
                self.of_any.insert(name.clone());
            }
        }
        self.services.insert(name, Known { selects, by });
    }

    fn set_ingress(&mut self, name: &str, services: BTreeSet<String>) {
        for service in self.ingresses.remove(name).into_iter().flatten() {
            if let Some(in_front) = self.in_front.get_mut(&service) {
                in_front.remove(name);
                if in_front.is_empty() {
                    self.in_front.remove(&service);
                }
            }
        }
        for service in &services {
            let in_front = self.in_front.entry(service.clone()).or_default();
            in_front.insert(name.to_owned());
        }
        if !services.is_empty() {
            self.ingresses.insert(name.to_owned(), services);
        }
    }
}

impl Selected {
    /// A pod, new or changed; without labels, it is gone.
    pub(super) fn pod(&mut self, namespace: &str, uid: &Uid, labels: Option<Labels>) {
        self.change(namespace, |it| it.set_pod(uid, labels));
    }

    /// A Service, new or changed; without a selector, it is gone or never follows. Says for which pods something may
    /// have changed.
    pub(super) fn service(
        &mut self,
        namespace: &str,
        name: &str,
        now: Option<Selects>,
    ) -> BTreeSet<Uid> {
        self.change(namespace, |it| {
            let before = it.services.get(name).map(|known| known.selects.clone());
            // What isn't known any more stays as it was.
            let now = match (&before, now) {
                (Some(before), Some(Selects::Any)) => Some(before.clone()),
                (_, now) => now,
            };
            if before == now {
                return BTreeSet::new();
            }
            let both = [before.as_ref(), now.as_ref()].into_iter().flatten();
            let pods = both.flat_map(|one| it.pods(one).0).collect();
            it.set_service(name, now);
            pods
        })
    }

    /// Which pods a Service is known to select.
    pub(super) fn known(&self, namespace: &str, name: &str) -> Option<&Selects> {
        let known = self.namespaces.get(namespace)?.services.get(name)?;
        Some(&known.selects)
    }

    /// An Ingress, new or changed; without Services, it is gone or never follows. Says for which Services' pods
    /// something may have changed.
    pub(super) fn ingress(
        &mut self,
        namespace: &str,
        name: &str,
        services: BTreeSet<String>,
    ) -> BTreeSet<String> {
        self.change(namespace, |it| {
            let none = BTreeSet::new();
            let before = it.ingresses.get(name).unwrap_or(&none);
            let changed = before.symmetric_difference(&services);
            let changed = changed.filter(|name| it.services.contains_key(name.as_str()));
            let changed = changed.cloned().collect();
            it.set_ingress(name, services);
            changed
        })
    }

    /// Pods that a Service selects, and how many were looked at to find them.
    pub(super) fn pods_of(&self, namespace: &str, service: &str) -> (Vec<Uid>, usize) {
        let it = self.namespaces.get(namespace);
        let known = it.and_then(|it| Some((it, it.services.get(service)?)));
        known.map_or_else(Default::default, |(it, known)| it.pods(&known.selects))
    }

    /// How many pods of a namespace were sent somewhere.
    pub(super) fn pods_in(&self, namespace: &str) -> usize {
        let it = self.namespaces.get(namespace);
        it.map_or(0, |it| it.pods.len())
    }

    /// What has to be where the pod is.
    pub(super) fn of(&self, namespace: &str, uid: &str) -> Selecting {
        let Some(it) = self.namespaces.get(namespace) else {
            return Selecting::default();
        };
        let Some(labels) = it.pods.get(uid) else {
            return Selecting::default();
        };
        let (services, looked) = it.services(labels);
        let mut services = services.into_iter();
        let needed: BTreeSet<&str> = services.by_ref().take(MOST).collect();
        let left_out: BTreeSet<&str> = services.take(LEFT_OUT).collect();
        let follow = it.ingresses(&needed);
        let mut passed_over: BTreeSet<&str> = follow.iter().copied().skip(MOST).collect();
        let others = it.ingresses(&left_out);
        passed_over.extend(others.difference(&follow));
        Selecting {
            looked: looked.saturating_add(follow.len()),
            left_out: named(left_out, passed_over.into_iter().take(LEFT_OUT)),
            needed: named(needed, follow.into_iter().take(MOST)),
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.namespaces.is_empty()
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
mod tests;
