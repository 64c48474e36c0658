//! Which Targets of a namespace are connected at the same time: the oldest ones, so that whoever makes more takes
//! nothing from those that are there. Must not know what a connection is.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;

use crate::key::TargetObject;

/// So many Targets of one namespace are connected at once: each one costs connections, watches and probes.
pub(crate) const SEATS: usize = 100;

/// When a Target was made, by the API server's clock, and its name: no two of a namespace are equal.
type Age = (Timestamp, String);

/// The Targets of all namespaces by age. `ClusterTarget`s are the operator's, and have a seat each.
#[derive(Debug, Default)]
pub(crate) struct Seats {
    by_namespace: HashMap<String, BTreeSet<Age>>,
    /// Whether all are known that there are, so that it can be said who is among the oldest.
    known: bool,
}

impl Seats {
    /// A Target has come.
    pub(crate) fn join(&mut self, object: &TargetObject) {
        if let Some((namespace, age)) = place(object) {
            let ages = self.by_namespace.entry(namespace.to_owned()).or_default();
            ages.insert(age);
        }
    }

    /// A Target is gone.
    pub(crate) fn leave(&mut self, object: &TargetObject) {
        if let Some((namespace, age)) = place(object)
            && let Some(ages) = self.by_namespace.get_mut(namespace)
        {
            ages.remove(&age);
            if ages.is_empty() {
                self.by_namespace.remove(namespace);
            }
        }
    }

    /// All that there are have come; whether that is news.
    pub(crate) fn complete(&mut self) -> bool {
        !std::mem::replace(&mut self.known, true)
    }

    /// What a Target is told that comes now, before anybody looks at the others: it has no seat, or nobody knows.
    pub(crate) fn at_first(&self, object: &TargetObject) -> Option<bool> {
        match object.key.namespace {
            None => Some(true),
            Some(_) => self.known.then_some(false),
        }
    }

    /// Names of those to whom a coming or going in their namespace makes a difference, and whether they have a seat;
    /// none before all are known.
    pub(crate) fn edge(&self, namespace: &str) -> impl Iterator<Item = (&str, bool)> {
        self.ranked(namespace).take(SEATS.saturating_add(1))
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &str, bool)> {
        self.by_namespace.keys().flat_map(move |namespace| {
            let ranked = self.ranked(namespace);
            ranked.map(move |(name, seated)| (namespace.as_str(), name, seated))
        })
    }

    fn ranked(&self, namespace: &str) -> impl Iterator<Item = (&str, bool)> {
        let ages = self.by_namespace.get(namespace).filter(|_| self.known);
        let ages = ages.into_iter().flatten().enumerate();
        ages.map(|(rank, (_, name))| (name.as_str(), rank < SEATS))
    }
}

fn place(object: &TargetObject) -> Option<(&str, Age)> {
    let namespace = object.key.namespace.as_deref()?;
    Some((namespace, (object.created, object.key.name.clone())))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use pilotage_api::{ClusterTarget, ClusterTargetSpec, Target, TargetSpec};

    use super::*;

    fn target(namespace: &str, name: &str, created: usize) -> TargetObject {
        let mut target = Target::new(name, TargetSpec::default());
        let meta = &mut target.metadata;
        meta.namespace = Some(namespace.to_owned());
        meta.uid = Some(format!("{namespace}/{name}"));
        let created = Timestamp::from_second(created as i64).unwrap();
        meta.creation_timestamp = Some(Time(created));
        TargetObject::from_target(&target).unwrap()
    }

    /// Those of a namespace without a seat.
    fn standing(seats: &Seats, namespace: &str) -> Vec<String> {
        let all = seats.all();
        let here = all.filter(|(of, _, seated)| *of == namespace && !seated);
        here.map(|(_, name, _)| name.to_owned()).collect()
    }

    #[test]
    fn the_oldest_have_seats_in_whatever_order_they_come() {
        let mut seats = Seats::default();
        // The youngest first; two of each second.
        for number in (0..SEATS + 3).rev() {
            seats.join(&target("evil", &format!("t{number:03}"), number / 2));
        }
        seats.join(&target("honest", "one", 999));
        assert_eq!(seats.edge("evil").count(), 0, "nobody knows yet");
        assert!(seats.complete() && !seats.complete());
        assert_eq!(standing(&seats, "evil"), ["t100", "t101", "t102"]);
        assert_eq!(standing(&seats, "honest"), [""; 0]);

        // One that goes makes room for the next one, whose turn it is by its age.
        seats.leave(&target("evil", "t050", 25));
        assert_eq!(standing(&seats, "evil"), ["t101", "t102"]);
        // One that comes has none of the others'.
        seats.join(&target("evil", "a", 999));
        assert_eq!(standing(&seats, "evil"), ["t101", "t102", "a"]);
        assert_eq!(seats.at_first(&target("evil", "a", 999)), Some(false));
    }

    #[test]
    fn the_edge_tells_all_that_changed() {
        let mut seats = Seats::default();
        seats.complete();
        let mut told: BTreeMap<String, bool> = BTreeMap::new();
        let mut tell = |seats: &Seats| {
            let edge = seats.edge("evil");
            told.extend(edge.map(|(name, seated)| (name.to_owned(), seated)));
            let all = seats.all();
            for (_, name, seated) in all {
                // Who has never been told has no seat.
                assert_eq!(
                    told.get(name).copied().unwrap_or_default(),
                    seated,
                    "{name}"
                );
            }
        };
        let one = |number: usize| target("evil", &format!("t{number:03}"), number * 7919 % 211);
        for number in 0..SEATS + 50 {
            seats.join(&one(number));
            tell(&seats);
        }
        for number in 0..SEATS + 50 {
            seats.leave(&one(number));
            tell(&seats);
        }
        assert!(seats.by_namespace.is_empty());
    }

    #[test]
    fn cluster_targets_have_a_seat_each() {
        let mut target = ClusterTarget::new("one", ClusterTargetSpec::default());
        target.metadata.uid = Some("u".into());
        let object = TargetObject::from_cluster_target(&target).unwrap();
        let mut seats = Seats::default();
        assert_eq!(seats.at_first(&object), Some(true));
        seats.join(&object);
        seats.complete();
        assert_eq!(seats.all().count(), 0);
        assert_eq!(seats.at_first(&object), Some(true));
    }
}
