//! What of Pilotage a cluster still holds, as text and as a verdict: pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fmt::Write as _;

use pilotage_api::keys;

use super::node_of;

/// So many objects are named.
const NAMED: usize = 10;

/// An object by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// None for what belongs to no namespace.
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Whether a target answers, as its condition says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    Stands,
    /// For this reason.
    Fails(String),
    Unknown,
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stands => f.write_str("connected"),
            Self::Fails(reason) => write!(f, "not connected: {reason}"),
            Self::Unknown => f.write_str("nobody has taken it up"),
        }
    }
}

/// Proxy pods behind one virtual node.
#[derive(Debug, Default)]
struct Proxies {
    living: Vec<Place>,
    ended: usize,
}

/// What a source has here.
#[derive(Debug, Default)]
struct Guests {
    running: usize,
    chaperons: usize,
    copies: BTreeMap<String, usize>,
}

/// All that was found.
#[derive(Debug, Default)]
pub(super) struct Left {
    targets: BTreeMap<Place, Connection>,
    /// By virtual node; those without one wait.
    proxies: BTreeMap<Option<String>, Proxies>,
    /// Services whose selector was rewritten.
    rerouted: Vec<Place>,
    /// By source.
    guests: BTreeMap<String, Guests>,
    /// By kind.
    finalizers: BTreeMap<String, usize>,
}

impl Left {
    pub(super) fn target(&mut self, place: Place, connection: Connection) {
        self.targets.insert(place, connection);
    }

    pub(super) fn proxy(&mut self, place: Place, node: Option<String>, has_ended: bool) {
        let proxies = self.proxies.entry(node).or_default();
        if has_ended {
            proxies.ended = proxies.ended.saturating_add(1);
        } else {
            proxies.living.push(place);
        }
    }

    pub(super) fn rerouted(&mut self, service: Place) {
        self.rerouted.push(service);
    }

    fn guest(&mut self, source: &str) -> &mut Guests {
        self.guests.entry(source.to_owned()).or_default()
    }

    pub(super) fn delegate(&mut self, source: &str) {
        let running = &mut self.guest(source).running;
        *running = running.saturating_add(1);
    }

    pub(super) fn chaperon(&mut self, source: &str) {
        let chaperons = &mut self.guest(source).chaperons;
        *chaperons = chaperons.saturating_add(1);
    }

    pub(super) fn copy(&mut self, source: &str, kind: &str) {
        let copies = self.guest(source).copies.entry(kind.to_owned());
        let copies = copies.or_default();
        *copies = copies.saturating_add(1);
    }

    pub(super) fn finalizers(&mut self, kind: &str, objects: usize) {
        if objects > 0 {
            self.finalizers.insert(kind.to_owned(), objects);
        }
    }

    /// One line for each target, each source, and all finalizers.
    pub(super) fn report(&self) -> String {
        let mut text = String::new();
        // A String takes whatever is written to it.
        let mut line = |what: fmt::Arguments<'_>| {
            let _ = writeln!(text, "{what}");
        };
        let mut others: BTreeMap<_, _> = self.proxies.iter().collect();
        for (target, connection) in &self.targets {
            let kind = if target.namespace.is_some() {
                "Target"
            } else {
                "ClusterTarget"
            };
            let proxies = others.remove(&Some(node_of(target)));
            let pods = proxies.map_or_else(|| "no pods".to_owned(), Proxies::told);
            line(format_args!("{kind} {target} ({connection}): {pods}"));
        }
        for (node, proxies) in others {
            let pods = proxies.told();
            match node {
                Some(node) => line(format_args!("node {node}, which no Target has: {pods}")),
                None => line(format_args!("given to no target: {pods}")),
            }
        }
        if !self.rerouted.is_empty() {
            let all = named(&self.rerouted);
            line(format_args!("Services that select delegates: {all}"));
        }
        for (source, guests) in &self.guests {
            line(format_args!("source {source}: {}", guests.told()));
        }
        if !self.finalizers.is_empty() {
            let all = counts(&self.finalizers);
            line(format_args!("objects with finalizers: {all}"));
        }
        text
    }

    /// What still runs for this cluster elsewhere, or here for others, and what is to be done first; `None` if nothing
    /// does.
    pub(super) fn running(&self) -> Option<String> {
        let behind = self.proxies.iter().filter(|(node, _)| node.is_some());
        let elsewhere = behind.fold(0_usize, |sum, (_, it)| sum.saturating_add(it.living.len()));
        let mut guests = self.guests.values();
        let here = guests.try_fold(0_usize, |sum, it| sum.checked_add(it.running));
        let here = here.unwrap_or(usize::MAX);
        if elsewhere > 0 {
            Some(format!(
                "{} elsewhere for this cluster: delete their proxies, or the Targets, and wait until they are gone",
                run(elsewhere)
            ))
        } else if here > 0 {
            Some(format!(
                "{} here for other clusters: have them deleted there, and wait until they are gone",
                run(here)
            ))
        } else {
            None
        }
    }

    /// What is to be done first; `None` if nothing is left. `reach` is how kubectl gets to this cluster.
    pub(super) fn verdict(&self, reach: &str) -> Option<String> {
        let nothing = self.targets.is_empty()
            && self.proxies.is_empty()
            && self.rerouted.is_empty()
            && self.guests.is_empty()
            && self.finalizers.is_empty();
        if nothing {
            return None;
        }
        self.running().or_else(|| {
            Some(format!(
                "no pod runs elsewhere or for others, but what is told above is left: Pilotage takes finalizers off \
                 while it runs, and the rest goes with Targets and Services that are deleted{}",
                self.copies(reach)
            ))
        })
    }

    /// Nobody deletes copies whose kind follows no more, or whose source is gone.
    fn copies(&self, reach: &str) -> String {
        let mut kinds: BTreeSet<&str> = BTreeSet::new();
        for guests in self.guests.values() {
            kinds.extend(guests.copies.keys().map(String::as_str));
        }
        if kinds.is_empty() {
            return String::new();
        }
        let kinds = kinds.into_iter().collect::<Vec<_>>().join(",");
        format!(
            "; copies do only as long as their kind follows, and else by: kubectl {reach} delete {kinds} \
             --all-namespaces --selector {}",
            keys::PARENT_UID
        )
    }
}

fn run(pods: usize) -> String {
    let verb = if pods == 1 { "pod runs" } else { "pods run" };
    format!("{pods} {verb}")
}

/// The first names, in order.
fn named(places: &[Place]) -> String {
    let mut names: Vec<_> = places.iter().map(ToString::to_string).collect();
    names.sort();
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let mut text = names.join(", ");
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}

fn counts(all: &BTreeMap<String, usize>) -> String {
    let all: Vec<_> = all
        .iter()
        .map(|(kind, count)| format!("{kind} {count}"))
        .collect();
    all.join(", ")
}

impl Proxies {
    fn told(&self) -> String {
        let Self { living, ended } = self;
        let mut text = match living.len() {
            0 => "0 pods".to_owned(),
            1 => format!("1 pod ({})", named(living)),
            count => format!("{count} pods ({})", named(living)),
        };
        if *ended > 0 {
            let _ = write!(text, ", {ended} ended");
        }
        text
    }
}

impl Guests {
    fn told(&self) -> String {
        let Self {
            running,
            chaperons,
            copies,
        } = self;
        let mut text = format!("{} here, PodChaperons {chaperons}", run(*running));
        if !copies.is_empty() {
            let _ = write!(text, ", copies: {}", counts(copies));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(namespace: &str, name: &str) -> Place {
        Place {
            namespace: Some(namespace.to_owned()).filter(|it| !it.is_empty()),
            name: name.to_owned(),
        }
    }

    #[test]
    fn nothing_is_said_of_nothing() {
        let left = Left::default();
        assert_eq!(
            (left.report(), left.verdict("--context paris")),
            (String::new(), None)
        );
    }

    #[test]
    fn a_source_is_told_what_runs_where() {
        let mut left = Left::default();
        left.target(place("shop", "paris"), Connection::Stands);
        left.target(place("", "rome"), Connection::Fails("Refused".to_owned()));
        left.target(place("shop", "oslo"), Connection::Unknown);
        left.proxy(
            place("shop", "web-1"),
            Some("admiralty-shop-paris".to_owned()),
            false,
        );
        left.proxy(
            place("shop", "web-0"),
            Some("admiralty-shop-paris".to_owned()),
            false,
        );
        left.proxy(
            place("shop", "job-x"),
            Some("admiralty-shop-paris".to_owned()),
            true,
        );
        left.proxy(
            place("bank", "old"),
            Some("admiralty-bank-gone".to_owned()),
            false,
        );
        left.proxy(place("shop", "new"), None, false);
        for number in 0..12 {
            let name = format!("p{number:02}");
            left.proxy(place("a", &name), Some("admiralty-rome".to_owned()), false);
        }
        left.rerouted(place("shop", "web"));
        left.finalizers("pods", 17);
        left.finalizers("secrets", 0);
        left.finalizers("targets", 2);
        let report = left.report();
        let lines: Vec<_> = report.lines().collect();
        assert_eq!(
            lines,
            [
                "ClusterTarget rome (not connected: Refused): 12 pods (a/p00, a/p01, a/p02, a/p03, a/p04, a/p05, \
                 a/p06, a/p07, a/p08, a/p09 and 2 more)",
                "Target shop/oslo (nobody has taken it up): no pods",
                "Target shop/paris (connected): 2 pods (shop/web-0, shop/web-1), 1 ended",
                "given to no target: 1 pod (shop/new)",
                "node admiralty-bank-gone, which no Target has: 1 pod (bank/old)",
                "Services that select delegates: shop/web",
                "objects with finalizers: pods 17, targets 2",
            ]
        );
        let verdict = left.verdict("--context paris").unwrap();
        assert!(verdict.starts_with("15 pods run elsewhere"), "{verdict}");
    }

    #[test]
    fn a_target_is_told_for_whom_things_are_there() {
        let mut left = Left::default();
        left.chaperon("london");
        left.chaperon("london");
        left.delegate("london");
        left.copy("london", "secrets");
        left.copy("london", "configmaps");
        left.copy("london", "secrets");
        left.copy("bern", "services");
        let report = left.report();
        let lines: Vec<_> = report.lines().collect();
        assert_eq!(
            lines,
            [
                "source bern: 0 pods run here, PodChaperons 0, copies: services 1",
                "source london: 1 pod runs here, PodChaperons 2, copies: configmaps 1, secrets 2",
            ]
        );
        let verdict = left.verdict("--context paris").unwrap();
        assert!(verdict.starts_with("1 pod runs here"), "{verdict}");
    }

    #[test]
    fn what_does_not_run_is_left_all_the_same() {
        let mut only_waits = Left::default();
        only_waits.proxy(place("shop", "new"), None, false);
        let mut only_targets = Left::default();
        only_targets.target(place("shop", "paris"), Connection::Stands);
        let mut only_finalizers = Left::default();
        only_finalizers.finalizers("configmaps", 1);
        let mut only_rerouted = Left::default();
        only_rerouted.rerouted(place("shop", "web"));
        for left in [only_waits, only_targets, only_finalizers, only_rerouted] {
            let verdict = left.verdict("--context paris").unwrap();
            assert!(verdict.starts_with("no pod runs elsewhere"), "{verdict}");
            assert!(!verdict.contains("copies"), "{verdict}");
            assert_eq!(left.running(), None);
        }
        let mut only_copies = Left::default();
        only_copies.copy("london", "secrets");
        only_copies.copy("bern", "configmaps");
        only_copies.copy("bern", "secrets");
        let verdict = only_copies.verdict("--context paris").unwrap();
        assert!(
            verdict.ends_with(
                "; copies do only as long as their kind follows, and else by: kubectl --context paris delete \
                 configmaps,secrets --all-namespaces --selector multicluster.admiralty.io/parent-uid"
            ),
            "{verdict}"
        );
    }
}
