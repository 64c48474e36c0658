//! Clocks of two machines may be minutes apart, so nothing is decided by comparing them: whatever shipped code reads
//! the time of day is listed here, with what for. All else goes by monotonic clocks, each process by its own. (Pure
//! crates read no clock at all: what the time is comes as an argument.)

use std::collections::BTreeSet;

use crate::workspace::rust_files;

/// Times that are written down for people, or for whoever else reads the object. Nobody here reads them again.
const WRITTEN: &[&str] = &[
    "crates/clusters/src/connection.rs",
    "crates/controllers/src/ask/act.rs",
    "crates/controllers/src/chaperon/mod.rs",
    "crates/controllers/src/source/mod.rs",
    "crates/controllers/src/target/mod.rs",
    "crates/dashboard/src/hub.rs",
    "crates/gardener-scheduler/src/act.rs",
    "crates/runtime/src/lease/edge.rs",
    "crates/sched-driver/src/evictions.rs",
    "crates/sched-driver/src/publish/status.rs",
    "crates/vnode/src/heartbeat.rs",
    "crates/vnode/src/keeper.rs",
    "crates/vnode/src/kubelet/passing.rs",
];

/// Times that are compared with others.
const COMPARED: &[(&str, &str)] = &[
    (
        "crates/controllers/src/ask/edge/turn.rs",
        "a metric: how old a pod was when it was seen first",
    ),
    (
        "crates/controllers/src/target/renew/mod.rs",
        "how much of a token's life is left when it is seen first: half of it is half an hour at least",
    ),
    (
        "crates/runtime/src/otlp/mod.rs",
        "traces: how long before it was seen a pod was created",
    ),
    (
        "crates/plugin/src/status.rs",
        "shown to people: ages, and how long tokens are good",
    ),
    ("crates/plugin/src/status/watch.rs", "shown to people: ages"),
    (
        "crates/plugin/src/version.rs",
        "shown to people: how old a Lease is",
    ),
    (
        "crates/sched-driver/src/publish/events.rs",
        "events of this process that are one series",
    ),
    (
        "crates/vnode/src/kubelet/certificate/mod.rs",
        "this process's certificate: when the next is due",
    ),
    (
        "crates/vnode/src/kubelet/usage/mod.rs",
        "when this process saw a figure",
    ),
    (
        "webhook/src/certs/keeper.rs",
        "the webhook's certificates, which begin an hour earlier",
    ),
];

/// Those that aren't shipped.
const DEVELOPMENT: &[&str] = &[
    "crates/testkit/",
    "crates/sim/",
    "crates/sched-diff/",
    "e2e/",
];

#[test]
fn whoever_reads_the_time_of_day_is_known() {
    let words = ["Timestamp::now", "SystemTime::now", "Zoned::now"];
    let mut found = BTreeSet::new();
    for (file, text) in rust_files() {
        let ships = file.contains("/src/") && !DEVELOPMENT.iter().any(|it| file.starts_with(it));
        let is_test = file.ends_with("tests.rs") || file.contains("/tests/");
        let code = text.split("\n#[cfg(test)]\nmod tests {").next();
        let reads = |code: &str| words.iter().any(|word| code.contains(word));
        if ships && !is_test && code.is_some_and(reads) {
            found.insert(file);
        }
    }
    let compared = COMPARED.iter().map(|(file, _)| *file);
    let known: BTreeSet<String> = WRITTEN
        .iter()
        .copied()
        .chain(compared)
        .map(str::to_owned)
        .collect();
    let unknown: Vec<_> = found.difference(&known).collect();
    assert!(
        unknown.is_empty(),
        "{unknown:#?} read the time of day: no decision may compare it with another machine's. If none does, say here \
         what for"
    );
    let gone: Vec<_> = known.difference(&found).collect();
    assert!(gone.is_empty(), "these read it no more: {gone:#?}");
}
