use proptest::prelude::any;
use serde_json::{Value, json};

use super::*;

const HEAD: &str =
    "apiVersion: scheduler.config.gardener.cloud/v1alpha1\nkind: SchedulerConfiguration\n";

fn parse(rest: &str) -> Result<SchedulerConfiguration, ConfigError> {
    SchedulerConfiguration::parse(&format!("{HEAD}{rest}"))
}

fn defaults() -> SchedulerConfiguration {
    parse("").unwrap()
}

#[test]
fn everything_has_a_default() {
    let server = |port| Server {
        bind_address: String::new(),
        port,
    };
    let expected = SchedulerConfiguration {
        client_connection: ClientConnection {
            kubeconfig: String::new(),
            accept_content_types: String::new(),
            content_type: String::new(),
            qps: 50.0,
            burst: 100,
        },
        leader_election: LeaderElection {
            leader_elect: true,
            lease_duration: 15_000_000_000,
            renew_deadline: 10_000_000_000,
            retry_period: 2_000_000_000,
            resource_lock: "leases".to_owned(),
            resource_namespace: "garden".to_owned(),
            resource_name: "gardener-scheduler-leader-election".to_owned(),
        },
        log_level: "info".to_owned(),
        log_format: "json".to_owned(),
        health_probes: server(10251),
        metrics: server(19251),
        debugging: Debugging::default(),
        backup_bucket_concurrent_syncs: 2,
        shoot_concurrent_syncs: 5,
        candidate_determination_strategy: "SameRegion".to_owned(),
        feature_gates: Vec::new(),
    };
    assert_eq!(defaults(), expected);
    assert_eq!(defaults().strategy(), Some(Strategy::SameRegion));
    // Null, empty and 0 are the same as nothing.
    let nothing = "
leaderElection: null
logLevel: ''
clientConnection: {qps: 0, burst: 0}
schedulers: {shoot: {concurrentSyncs: 0, candidateDeterminationStrategy: ''}}
server: {metrics: {port: 0}}
";
    assert_eq!(parse(nothing), Ok(expected));
}

#[test]
fn what_is_given_stays() {
    let config = parse(
        "
clientConnection: {kubeconfig: /k, acceptContentTypes: a, contentType: b, qps: 12.5, burst: 7}
leaderElection:
  leaderElect: true
  leaseDuration: 1m30s
  renewDeadline: 40s
  retryPeriod: 500ms
  resourceLock: endpoints
  resourceNamespace: kube-system
  resourceName: mine
logLevel: debug
logFormat: text
server:
  healthProbes: {bindAddress: 127.0.0.1, port: 1}
  metrics: {bindAddress: '::1', port: 65535}
debugging: {enableProfiling: true, enableContentionProfiling: true}
schedulers:
  backupBucket: {concurrentSyncs: 3}
  shoot: {concurrentSyncs: 9, candidateDeterminationStrategy: MinimalDistance}
featureGates: {AllAlpha: false}
",
    )
    .unwrap();
    assert_eq!(config.client_connection.kubeconfig, "/k");
    assert_eq!(config.client_connection.accept_content_types, "a");
    assert_eq!(config.client_connection.content_type, "b");
    assert_eq!(config.client_connection.burst, 7);
    assert!((config.client_connection.qps - 12.5).abs() < f64::EPSILON);
    let election = &config.leader_election;
    assert_eq!(
        (
            election.lease_duration,
            election.renew_deadline,
            election.retry_period
        ),
        (90_000_000_000, 40_000_000_000, 500_000_000)
    );
    assert_eq!(
        (
            &*election.resource_lock,
            &*election.resource_namespace,
            &*election.resource_name
        ),
        ("endpoints", "kube-system", "mine")
    );
    assert_eq!((&*config.log_level, &*config.log_format), ("debug", "text"));
    assert_eq!((config.health_probes.port, config.metrics.port), (1, 65535));
    assert_eq!(config.metrics.bind_address, "::1");
    assert!(config.debugging.profiling && config.debugging.contention_profiling);
    assert_eq!(
        (
            config.backup_bucket_concurrent_syncs,
            config.shoot_concurrent_syncs
        ),
        (3, 9)
    );
    assert_eq!(config.strategy(), Some(Strategy::MinimalDistance));
    assert_eq!(config.feature_gates, [("AllAlpha".to_owned(), false)]);
}

#[test]
fn what_is_refused() {
    for (text, expected) in [
        (
            "clientConnection: {burst: -1}",
            "clientConnection.burst: Invalid value: -1",
        ),
        (
            "schedulers: {shoot: {concurrentSyncs: -1}}",
            "schedulers.shoot.concurrentSyncs: Invalid value: -1",
        ),
        (
            "schedulers: {backupBucket: {concurrentSyncs: -2}}",
            "schedulers.backupBucket.concurrentSyncs: Invalid value: -2",
        ),
        (
            "schedulers: {shoot: {candidateDeterminationStrategy: Nearest}}",
            "schedulers.shoot.strategy: Unsupported value: \"Nearest\": supported values: SameRegion, MinimalDistance",
        ),
        ("logLevel: warn", "logLevel: Unsupported value"),
        ("logFormat: xml", "logFormat: Unsupported value"),
        (
            "leaderElection: {leaseDuration: 5s}",
            "leaderElection.leaseDuration: Invalid value: 5s: must not be less than renewDeadline",
        ),
        (
            "leaderElection: {renewDeadline: 1s}",
            "leaderElection.renewDeadline: Invalid value: 1s: must not be less than retryPeriod",
        ),
        (
            "leaderElection: {retryPeriod: -1s}",
            "leaderElection.retryPeriod: Invalid value: -1s: must be greater than zero",
        ),
        (
            "leaderElection: {retryPeriod: 2}",
            "leaderElection.retryPeriod: expected a string, found the number 2",
        ),
        (
            "leaderElection: {retryPeriod: soon}",
            "leaderElection.retryPeriod: expected a duration such as 15s or 1m30s, found \"soon\"",
        ),
        (
            "server: {metrics: {port: 70000}}",
            "server.metrics.port: expected a port",
        ),
        (
            "featureGates: {Teleport: true}",
            "found the feature \"Teleport\"",
        ),
        (
            "featureGates: {AllBeta: 1}",
            "featureGates[\"AllBeta\"]: expected true or false",
        ),
        (
            "schedulers: {shoots: {}}",
            "schedulers: expected no other fields than",
        ),
        ("strategy: SameRegion", "found the field \"strategy\""),
        ("a: {", "no YAML"),
    ] {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let error = SchedulerConfiguration::parse("kind: SchedulerConfiguration").unwrap_err();
    let message = "apiVersion: expected scheduler.config.gardener.cloud/v1alpha1, found nothing";
    assert_eq!(error.to_string(), message);
}

#[test]
fn all_problems_are_told_at_once() {
    let mut config = defaults();
    config.leader_election.resource_namespace = String::new();
    config.client_connection.burst = -1;
    let problems = config.validate();
    assert_eq!(problems.len(), 2, "{problems:?}");
    let required = Problem::Required {
        path: "leaderElection.resourceNamespace",
    };
    assert!(problems.contains(&required));
    // Nobody looks at the lock of an election that doesn't take place.
    config.leader_election.leader_elect = false;
    assert_eq!(config.validate().len(), 1);
}

#[test]
fn mistakes_are_told_in_few_words() {
    let long = "x".repeat(100_000);
    let of = |rest: &str| format!("apiVersion: {API_VERSION}\nkind: {KIND}\n{rest}");
    for text in [
        format!("kind: {long}"),
        of(&format!("{long}: 1")),
        of(&format!("featureGates: {{{long}: true}}")),
        of(&format!("logLevel: {long}")),
        of(&format!("leaderElection: {{leaseDuration: {long}}}")),
        of(&format!("logLevel: *{long}")),
    ] {
        let error = SchedulerConfiguration::parse(&text)
            .unwrap_err()
            .to_string();
        assert!(error.len() < 1024, "{} bytes", error.len());
    }
}

mod fuzz {
    use super::*;

    pilotage_absurd::properties! {
        #[test]
        fn never_panics(
            key in "(clientConnection|leaderElection|server|schedulers|featureGates|logLevel|debugging)",
            inner in "(qps|burst|leaseDuration|metrics|shoot|AllAlpha|x)",
            number in any::<f64>(), text in "\\PC{0,12}", kind in 0..5,
        ) {
            let leaf = match kind {
                0 => json!(number),
                1 => json!(text),
                2 => json!([text]),
                3 => json!({text: number}),
                _ => Value::Null,
            };
            let mut object = json!({"apiVersion": API_VERSION, "kind": KIND});
            object[&key] = json!({ inner: leaf.clone() });
            let _ = SchedulerConfiguration::parse(&object.to_string());
            object[&key] = leaf;
            let _ = SchedulerConfiguration::parse(&object.to_string());
        }
    }
}
