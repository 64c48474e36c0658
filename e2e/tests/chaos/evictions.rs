//! I7: who was evicted in the targets, and which grants were leave to it. Each target's data store orders both; its
//! audit log would lose what an API server that is killed had not written yet. It knows no clients.

use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use pilotage_api::preempts::Preempts;
use pilotage_api::{PodChaperon, keys};
use pilotage_testkit::Change;
use pilotage_testkit::history::Version;

use crate::crowd;

/// Whoever evicts may learn so late that its grant is over.
const LATE: Duration = Duration::from_secs(10);

/// All of one namespace.
#[derive(Debug, Default)]
pub(crate) struct Evictions {
    grants: Vec<Grant>,
    evicted: Vec<Evicted>,
}

/// A grant that landed on an offer to make room.
#[derive(Debug)]
struct Grant {
    target: usize,
    /// Its name is the pod's, too; the next one for the same proxy has the same.
    chaperon: String,
    uid: String,
    attempt: u64,
    /// How many were to be evicted for it.
    pods: u32,
    revision: u64,
    from: SystemTime,
    /// When the pod was bound, or another attempt was the newest, or the chaperon gone; `None`: not yet.
    until: Option<SystemTime>,
}

/// One of the crowd that has gone, or begun to.
#[derive(Debug)]
struct Evicted {
    target: usize,
    pod: String,
    revision: u64,
    at: SystemTime,
    /// The pod that it made room for, as an event tells if its writer lived long enough.
    preemptor: Option<String>,
}

/// From when until when somebody was struck, or the moment in which a scheduler ended.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    /// In this target; `None`: everywhere, since writes were held back in all of them.
    pub(crate) target: Option<usize>,
    pub(crate) time: RangeInclusive<SystemTime>,
}

impl Grant {
    fn was_interrupted(&self, faults: &[Fault]) -> bool {
        faults.iter().any(|Fault { target, time }| {
            let ended = self.until.is_some_and(|until| until < *time.start());
            target.is_none_or(|target| target == self.target) && self.from <= *time.end() && !ended
        })
    }

    /// How many evictions it explains. A scheduler that died before the pod was bound may have evicted, and the next
    /// one doesn't know.
    fn explains(&self, deaths: &[Fault]) -> u32 {
        if self.was_interrupted(deaths) {
            2 * self.pods
        } else {
            self.pods
        }
    }
}

impl Evictions {
    /// Takes a chaperon's version in; `true` if it is granted and has room to be made.
    pub(crate) fn chaperon(
        &mut self,
        target: usize,
        chaperon: &PodChaperon,
        version: &Version,
    ) -> bool {
        let name = chaperon.name_any();
        let text = |key| chaperon.annotations().get(key).map(String::as_str);
        let number = |key| text(key).and_then(|text| text.parse::<u64>().ok());
        let attempt = number(keys::ATTEMPT).unwrap_or(0);
        let stands = version.change != Change::Deleted && text(keys::IS_RESERVED).is_some();
        self.close(target, &name, version.at, |grant| {
            !stands || grant.attempt < attempt
        });
        let preempts = text(keys::PREEMPTS).and_then(|text| text.parse::<Preempts>().ok());
        let granted = stands && attempt > 0 && number(keys::ALLOWED_ATTEMPT) == Some(attempt);
        let Some(preempts) = preempts.filter(|_| granted) else {
            return false;
        };
        let uid = chaperon.uid().unwrap_or_default();
        let mut known = self.grants.iter();
        let known = known.any(|grant| (&grant.uid, grant.attempt) == (&uid, attempt));
        if !known {
            self.grants.push(Grant {
                target,
                chaperon: name,
                uid,
                attempt,
                pods: preempts.pods,
                revision: version.revision,
                from: version.at,
                until: None,
            });
        }
        true
    }

    /// A delegate has its node.
    pub(crate) fn bound(&mut self, target: usize, pod: &str, at: SystemTime) {
        self.close(target, pod, at, |_| true);
    }

    fn close(&mut self, target: usize, name: &str, at: SystemTime, ends: impl Fn(&Grant) -> bool) {
        for grant in &mut self.grants {
            let its = grant.target == target && grant.chaperon == name;
            if its && grant.until.is_none() && ends(grant) {
                grant.until = Some(at);
            }
        }
    }

    /// Takes a version of one of the crowd in; `true` if it shows for the first time that it goes.
    pub(crate) fn crowd(&mut self, target: usize, pod: &Pod, version: &Version) -> bool {
        let name = pod.name_any();
        let goes = version.change == Change::Deleted || pod.metadata.deletion_timestamp.is_some();
        let mut known = self.evicted.iter();
        if !goes || known.any(|it| it.target == target && it.pod == name) {
            return false;
        }
        self.evicted.push(Evicted {
            target,
            pod: name,
            revision: version.revision,
            at: version.at,
            preemptor: None,
        });
        true
    }

    /// Takes an event in; if it tells of an eviction, the name of the pod that it was for.
    pub(crate) fn event(&mut self, target: usize, version: &Version) -> Option<String> {
        let text = |pointer: &str| version.object.pointer(pointer).and_then(|it| it.as_str());
        if text("/reason") != Some("Preempted") {
            return None;
        }
        let victim = text("/involvedObject/name").or_else(|| text("/regarding/name"))?;
        let preemptor = text("/related/name")?.to_owned();
        let mut evicted = self.evicted.iter_mut();
        let evicted = evicted.find(|it| it.target == target && it.pod == victim)?;
        evicted.preemptor = Some(preemptor.clone());
        Some(preemptor)
    }

    /// How many were evicted.
    pub(crate) fn count(&self) -> usize {
        self.evicted.len()
    }

    /// How many grants on offers to make room stood while somebody was struck.
    pub(crate) fn interrupted(&self, faults: &[Fault]) -> usize {
        let grants = self.grants.iter();
        grants.filter(|grant| grant.was_interrupted(faults)).count()
    }

    /// Everybody whose eviction no grant explains: evicted before it landed, or one more than it was leave to. One that
    /// stood when its target's candidate scheduler died explains as many again. Of whom no event tells, a grant has to
    /// stand just then.
    pub(crate) fn unexplained(&self, deaths: &[Fault]) -> Vec<String> {
        let mut wrong = Vec::new();
        for evicted in &self.evicted {
            let Evicted {
                target,
                pod,
                revision,
                at,
                preemptor,
            } = evicted;
            // Of those that were evicted up to this one, and of the grants that had landed.
            let until = |it: &&Evicted| it.target == *target && it.revision <= *revision;
            let before = |it: &&Grant| it.target == *target && it.revision < *revision;
            let all = self.evicted.iter().filter(until).count();
            let leave = explained(self.grants.iter().filter(before), deaths);
            if all > leave {
                wrong.push(format!(
                    "{pod} in target {target} is the {all}. evicted, with leave to {leave}"
                ));
            } else if preemptor.is_none() {
                let stands = |it: &Grant| it.until.is_none_or(|until| *at <= until + LATE);
                if !self.grants.iter().filter(before).any(stands) {
                    wrong.push(format!(
                        "{pod} in target {target} is evicted, and no grant stands"
                    ));
                }
            }
            let Some(preemptor) = preemptor else {
                continue;
            };
            let of_it = |it: &&Evicted| it.preemptor.as_ref() == Some(preemptor);
            let all = self.evicted.iter().filter(until).filter(of_it).count();
            let own = |it: &&Grant| it.chaperon == *preemptor;
            let leave = explained(self.grants.iter().filter(before).filter(own), deaths);
            if all > leave {
                wrong.push(format!(
                    "{pod} in target {target} is the {all}. evicted for {preemptor}, with leave to {leave}"
                ));
            }
        }
        wrong
    }
}

/// How many evictions all of these explain.
fn explained<'a>(grants: impl Iterator<Item = &'a Grant>, deaths: &[Fault]) -> usize {
    grants.map(|grant| grant.explains(deaths) as usize).sum()
}

/// Whether a pod of a target is one of the crowd, and no delegate.
pub(crate) fn is_crowd(pod: &Pod) -> bool {
    pod.labels().contains_key(crowd::LABEL)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fault(target: Option<usize>, from: u64, until: u64) -> [Fault; 1] {
        let time = at(from)..=at(until);
        [Fault { target, time }]
    }

    const PREEMPTS: &str = "budgets=0,highest=1,sum=1,pods=1,oldest=-,grace=0";

    fn at(second: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(second)
    }

    /// At the second of its revision.
    fn version(revision: u64, change: Change, object: &Value) -> Version {
        Version {
            at: at(revision),
            revision,
            change,
            key: String::new(),
            object: object.clone(),
        }
    }

    impl Evictions {
        fn write(&mut self, revision: u64, name: &str, attempt: u64, allowed: u64) -> bool {
            let chaperon = json!({ "metadata": { "name": name, "uid": format!("{name}-uid"), "annotations": {
                keys::ATTEMPT: attempt.to_string(),
                keys::ALLOWED_ATTEMPT: allowed.to_string(),
                keys::IS_RESERVED: keys::TRUE,
                keys::PREEMPTS: PREEMPTS,
            } }, "spec": {} });
            let version = version(revision, Change::Modified, &chaperon);
            self.chaperon(0, &version.read().unwrap(), &version)
        }

        fn evict(&mut self, revision: u64, name: &str, preemptor: Option<&str>) {
            let pod = json!({ "metadata": { "name": name }, "spec": { "containers": [] } });
            let gone = version(revision, Change::Deleted, &pod);
            assert!(self.crowd(0, &gone.read().unwrap(), &gone));
            assert!(!self.crowd(0, &gone.read().unwrap(), &gone), "once");
            if let Some(preemptor) = preemptor {
                let event = json!({ "reason": "Preempted", "involvedObject": { "name": name },
                    "related": { "name": preemptor } });
                let told = self.event(0, &version(revision, Change::Added, &event));
                assert_eq!(told.as_deref(), Some(preemptor));
            }
        }
    }

    #[test]
    fn a_grant_explains_one_eviction_after_it_and_an_interrupted_one_two() {
        let mut all = Evictions::default();
        assert!(!all.write(1, "a", 1, 0), "an offer");
        assert!(all.write(2, "a", 1, 1));
        all.evict(3, "v", Some("a"));
        assert_eq!(all.unexplained(&[]), [""; 0]);
        all.evict(5, "w", None);
        assert_eq!(
            all.unexplained(&[]),
            ["w in target 0 is the 2. evicted, with leave to 1"]
        );
        assert_eq!(all.unexplained(&fault(Some(0), 4, 4)), [""; 0]);
        let elsewhere = fault(Some(1), 4, 4);
        assert_eq!(all.unexplained(&elsewhere).len(), 1);
        assert_eq!(all.interrupted(&elsewhere), 0);
        all.bound(0, "a", at(6));
        let after = fault(Some(0), 7, 9);
        assert_eq!(all.unexplained(&after).len(), 1, "bound before");
    }

    #[test]
    fn nobody_goes_before_the_grant_nor_for_somebody_elses() {
        let mut early = Evictions::default();
        early.write(1, "a", 1, 0);
        early.evict(2, "v", None);
        early.write(3, "a", 1, 1);
        assert_eq!(early.unexplained(&[]).len(), 1);
        let mut others = Evictions::default();
        others.write(1, "a", 1, 1);
        others.evict(2, "v", Some("b"));
        assert_eq!(
            others.unexplained(&[]),
            ["v in target 0 is the 1. evicted for b, with leave to 0"]
        );
    }

    #[test]
    fn leave_that_was_not_used_ends_with_its_grant() {
        let mut all = Evictions::default();
        all.write(1, "a", 1, 1);
        all.bound(0, "a", at(2));
        all.evict(5, "v", None);
        assert_eq!(all.unexplained(&[]), [""; 0], "it was on its way");
        let mut all = Evictions::default();
        all.write(1, "a", 1, 1);
        all.bound(0, "a", at(2));
        all.evict(60, "v", None);
        let wrong = ["v in target 0 is evicted, and no grant stands"];
        assert_eq!(all.unexplained(&[]), wrong);
        all.write(61, "b", 1, 1);
        assert_eq!(all.unexplained(&[]), wrong, "that one came later");
    }

    #[test]
    fn a_next_attempt_needs_a_grant_of_its_own() {
        let mut all = Evictions::default();
        all.write(1, "a", 1, 1);
        assert!(!all.write(3, "a", 2, 1), "the grant of the one before");
        assert_eq!(all.interrupted(&fault(Some(0), 2, 2)), 1);
        assert_eq!(all.interrupted(&fault(None, 2, 2)), 1);
        assert_eq!(all.interrupted(&fault(None, 4, 4)), 0);
        all.evict(5, "v", Some("a"));
        all.evict(6, "w", Some("a"));
        assert_eq!(all.unexplained(&[]).len(), 2);
        let mut all = Evictions::default();
        all.write(1, "a", 1, 1);
        all.write(2, "a", 2, 2);
        all.evict(3, "v", Some("a"));
        all.evict(4, "w", Some("a"));
        assert_eq!(all.unexplained(&[]), [""; 0]);
    }
}
