//! The counters that a kubelet has, made of the rates that a target tells: pure, the time is an argument.
//!
//! A target's metrics API tells how many cores a container used lately; a kubelet tells how many core-seconds it has
//! used since it started, and who asks takes the difference of two answers. So each rate counts for the time between
//! the reading before it and itself, by our own clock, and the difference is that rate again. What was used in between,
//! and isn't in the rate's window, is thereby guessed to be the same. A counter begins at a container's first reading
//! with what was used in that one's window, and begins anew, with another start time, after a gap: it counts from what
//! was seen, not from what the container really used before.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

use super::reading::{Ours, Reading, Used};

/// Readings that are further apart say nothing about the time between them, and one that is older isn't told.
const LONGEST: SignedDuration = SignedDuration::from_mins(2);
/// What a counter begins with at least, in 10⁻⁹ s: to metrics-server one at 0 is one that couldn't be read.
const LEAST: u128 = 1000;

/// What one thing has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meter {
    /// When the counter was at 0.
    pub(crate) since: Timestamp,
    /// When its last reading came.
    pub(crate) seen: Timestamp,
    /// Core-seconds, in 10⁻⁹.
    pub(crate) total: u128,
    /// Cores, in 10⁻⁹.
    pub(crate) rate: u64,
    /// Bytes.
    pub(crate) memory: u64,
}

impl Meter {
    fn begun(used: Used, window: Duration, now: Timestamp) -> Self {
        let span = SignedDuration::try_from(window).unwrap_or_default();
        Self {
            since: now.checked_sub(span).unwrap_or(now),
            seen: now,
            total: product(used.cpu, window).max(LEAST),
            rate: used.cpu,
            memory: used.memory,
        }
    }

    /// This meter after one more reading; a new one if there was none, or it is too long ago.
    fn read(meter: Option<Self>, used: Used, window: Duration, now: Timestamp) -> Self {
        let known = meter.and_then(|meter| Some((meter, meter.age(now)?)));
        let Some((meter, age)) = known else {
            return Self::begun(used, window, now);
        };
        Self {
            seen: now,
            total: meter.total.saturating_add(product(used.cpu, age)),
            rate: used.cpu,
            memory: used.memory,
            ..meter
        }
    }

    /// How old its last reading is, if it isn't too old; `None` as well if the clock was set back.
    fn age(&self, now: Timestamp) -> Option<Duration> {
        let age = now.duration_since(self.seen);
        let age = Some(age).filter(|age| *age <= LONGEST)?;
        Duration::try_from(age).ok()
    }
}

/// Core-seconds, in 10⁻⁹.
fn product(rate: u64, span: Duration) -> u128 {
    let product = u128::from(rate).saturating_mul(span.as_nanos());
    product.checked_div(1_000_000_000).unwrap_or_default()
}

/// What is known of one pod.
#[derive(Clone, Debug)]
pub(crate) struct PodUsage {
    pub(crate) pod: Arc<Pod>,
    /// The target's word for the time of the last reading.
    at: String,
    pub(crate) meter: Meter,
    pub(crate) containers: BTreeMap<String, Meter>,
}

/// What is known of the pods of one target.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books {
    pods: HashMap<String, PodUsage>,
    /// All of them together.
    node: Option<Meter>,
}

impl Books {
    /// Takes in what was read; forgets what isn't ours any more, and what nobody has told of for long.
    pub(crate) fn take(&mut self, readings: Vec<Reading>, ours: &Ours, now: Timestamp) {
        let uids: HashSet<&String> = ours
            .pods()
            .filter_map(|it| it.metadata.uid.as_ref())
            .collect();
        self.pods
            .retain(|uid, known| uids.contains(uid) && known.meter.age(now).is_some());
        let mut longest = None;
        for reading in readings {
            let window = reading.window;
            if self.read(reading, now) {
                longest = longest.max(Some(window));
            }
        }
        if let Some(window) = longest {
            let mut all = Used::default();
            for known in self.pods.values() {
                all.cpu = all.cpu.saturating_add(known.meter.rate);
                all.memory = all.memory.saturating_add(known.meter.memory);
            }
            self.node = Some(Meter::read(self.node, all, window, now));
        }
    }

    /// Whether that is news.
    fn read(&mut self, reading: Reading, now: Timestamp) -> bool {
        let Reading {
            pod,
            at,
            window,
            containers,
        } = reading;
        let Some(uid) = pod.metadata.uid.clone() else {
            return false;
        };
        if let Some(known) = self.pods.get_mut(&uid)
            && known.at == at
        {
            known.pod = pod;
            return false;
        }
        let known = self.pods.remove(&uid);
        let mut all = Used::default();
        for used in containers.values() {
            all.cpu = all.cpu.saturating_add(used.cpu);
            all.memory = all.memory.saturating_add(used.memory);
        }
        let meter = Meter::read(known.as_ref().map(|known| known.meter), all, window, now);
        let known = known.map(|known| known.containers).unwrap_or_default();
        let containers = containers.into_iter().map(|(name, used)| {
            let meter = Meter::read(known.get(&name).copied(), used, window, now);
            (name, meter)
        });
        let containers = containers.collect();
        let known = PodUsage {
            pod,
            at,
            meter,
            containers,
        };
        self.pods.insert(uid, known);
        true
    }

    /// What may be told of our pods now, in the order of their names, and of all of them together.
    pub(crate) fn told(&self, ours: &Ours, now: Timestamp) -> (Vec<PodUsage>, Option<Meter>) {
        let uids = ours.pods().filter_map(|pod| pod.metadata.uid.as_ref());
        let known = uids.filter_map(|uid| self.pods.get(uid));
        let mut pods: Vec<_> = known
            .filter(|known| known.meter.age(now).is_some())
            .cloned()
            .collect();
        let name = |it: &PodUsage| {
            (
                it.pod.metadata.namespace.clone(),
                it.pod.metadata.name.clone(),
            )
        };
        pods.sort_by_cached_key(name);
        let node = self.node.filter(|node| node.age(now).is_some());
        (pods, node)
    }
}

#[cfg(test)]
mod tests {
    use super::super::reading::tests::{item, ours, proxy, read};
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    const CORE: u128 = 1_000_000_000;

    #[test]
    fn the_difference_of_two_answers_is_the_rate_that_was_told() {
        let (mut books, ours) = (Books::default(), ours(&[proxy("web", "3")]));
        let take = |books: &mut Books, time: &str, cpu: &str, now: i64| {
            let read = read(&[item("web", time, cpu, "64Mi")], &ours);
            books.take(read, &ours, at(now));
            let (pods, node) = books.told(&ours, at(now));
            assert_eq!(pods[0].meter, pods[0].containers["app"]);
            assert_eq!(node, Some(pods[0].meter));
            pods[0].meter
        };
        // What the first window of 20 s had.
        let first = take(&mut books, "t1", "500m", 0);
        assert_eq!((first.since, first.total), (at(-20), 10 * CORE));
        let second = take(&mut books, "t2", "2", 30);
        assert_eq!((second.since, second.seen), (at(-20), at(30)));
        assert_eq!(second.total - first.total, 60 * CORE);
        // The same reading again is no later one.
        assert_eq!(take(&mut books, "t2", "2", 45), second);
        let third = take(&mut books, "t3", "0", 60);
        assert_eq!((third.total, third.rate), (second.total, 0));
    }

    #[test]
    fn after_a_gap_or_a_clock_set_back_a_counter_begins_anew() {
        for later in [121, -5] {
            let (mut books, ours) = (Books::default(), ours(&[proxy("web", "3")]));
            books.take(read(&[item("web", "t1", "1", "1Mi")], &ours), &ours, at(0));
            books.take(
                read(&[item("web", "t2", "1", "1Mi")], &ours),
                &ours,
                at(later),
            );
            let (pods, _) = books.told(&ours, at(later));
            assert_eq!(pods[0].meter.since, at(later - 20), "{later}");
            assert_eq!(pods[0].meter.total, 20 * CORE, "{later}");
        }
    }

    #[test]
    fn what_nobody_tells_of_any_more_is_forgotten() {
        let both = ours(&[proxy("web", "3"), proxy("db", "3")]);
        let mut books = Books::default();
        let items = [item("web", "t", "1", "1Mi"), item("db", "t", "2", "1Mi")];
        books.take(read(&items, &both), &both, at(0));
        let names = |books: &Books, ours: &Ours, now| {
            let (pods, _) = books.told(ours, at(now));
            let names = pods.iter().map(|it| it.pod.metadata.name.clone().unwrap());
            names.collect::<Vec<_>>()
        };
        assert_eq!(names(&books, &both, 60), ["db", "web"]);
        assert!(names(&books, &both, 121).is_empty());
        // A pod that has gone is told of no more, and its memory is given back.
        let one = ours(&[proxy("web", "3")]);
        assert_eq!(names(&books, &one, 1), ["web"]);
        books.take(Vec::new(), &one, at(2));
        assert_eq!(books.pods.len(), 1);
        books.take(Vec::new(), &one, at(200));
        assert!(books.pods.is_empty());
        // The node's counter never falls because a pod went.
        let (mut books, first) = (Books::default(), read(&items, &both));
        books.take(first, &both, at(0));
        let before = books.node.unwrap().total;
        books.take(read(&[item("web", "t2", "1", "1Mi")], &one), &one, at(10));
        assert_eq!(books.node.unwrap().total, before + 10 * CORE);
    }

    #[test]
    fn no_number_is_too_absurd_for_a_counter() {
        let (mut books, ours) = (Books::default(), ours(&[proxy("web", "3")]));
        let mut last = 0;
        for round in 0..100 {
            let read = read(&[item("web", &round.to_string(), "9e99", "9e99")], &ours);
            books.take(read, &ours, at(round * 100));
            let (pods, _) = books.told(&ours, at(round * 100));
            assert!(pods[0].meter.total > last);
            last = pods[0].meter.total;
        }
        assert!(last <= 100_000 * CORE * 100 * 100);
        // A container without any use counts all the same.
        let idle = Used::default();
        assert_eq!(
            Meter::begun(idle, Duration::from_secs(15), at(0)).total,
            LEAST
        );
    }
}
