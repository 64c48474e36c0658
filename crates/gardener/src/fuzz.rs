//! Whatever stands in the configuration file and in files of objects, it is read or told in few words.

use pilotage_absurd::{json, text};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::config::{API_VERSION, KIND, SchedulerConfiguration, parse_duration};
use crate::documents;

/// What is told of a mistake has at most so many bytes: a few problems, each with what stands there.
const TOLD: usize = 8 * 1024;

fn file() -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": KIND,
        "clientConnection": { "kubeconfig": "/k", "acceptContentTypes": "a", "contentType": "b", "qps": 50.0,
        "burst": 100 },
        "leaderElection": { "leaderElect": true, "leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "2s",
            "resourceLock": "leases", "resourceNamespace": "garden", "resourceName": "x" },
        "logLevel": "info",
        "logFormat": "json",
        "server": { "healthProbes": { "bindAddress": "::", "port": 10251 }, "metrics": { "bindAddress": "::",
        "port": 19251 } },
        "debugging": { "enableProfiling": false, "enableContentionProfiling": false },
        "schedulers": { "backupBucket": { "concurrentSyncs": 2 },
            "shoot": { "concurrentSyncs": 5, "candidateDeterminationStrategy": "SameRegion" } },
        "featureGates": { "AllAlpha": false },
    })
}

fn files() -> BoxedStrategy<Vec<u8>> {
    let bytes = |value: Value| value.to_string().into_bytes();
    prop_oneof![
        2 => json::extreme(Just(file())).prop_map(bytes),
        2 => json::junk_in(Just(file())).prop_map(bytes),
        1 => text::damaged(Just(file()).prop_map(|file| file.to_string())),
        1 => text::bytes(),
        1 => json::claimed().prop_map(String::into_bytes),
    ]
    .boxed()
}

pilotage_absurd::properties! {
    #[test]
    fn a_configuration_is_valid_or_its_faults_are_short(file in files()) {
        match SchedulerConfiguration::parse(&String::from_utf8_lossy(&file)) {
            Ok(config) => {
                prop_assert!(config.validate().is_empty() && config.strategy().is_some());
                for server in [&config.health_probes, &config.metrics] {
                    prop_assert!((0..=65_535).contains(&server.port));
                }
            }
            Err(error) => prop_assert!(error.to_string().len() <= TOLD, "{}", error),
        }
    }

    #[test]
    fn a_duration_is_one_of_64_bits(text in prop_oneof![3 => text::duration(), 1 => text::text()]) {
        if let Ok(nanos) = parse_duration(&text) {
            prop_assert!(nanos > i64::MIN);
            prop_assert!(nanos >= 0 || text.starts_with('-'));
        }
    }

    #[test]
    fn objects_are_read_or_told_in_few_words(file in files(), times in 1..4_usize) {
        let text = String::from_utf8_lossy(&file).into_owned();
        match documents::documents(&vec![text; times].join("\n---\n")) {
            Ok(objects) => prop_assert!(objects.len() <= times * (file.len() + 1)),
            Err(error) => prop_assert!(error.to_string().len() <= TOLD, "{}", error),
        }
    }
}
