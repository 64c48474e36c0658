use std::time::Duration;

use super::*;

const HEAD: &str =
    "apiVersion: config.multicluster.admiralty.io/v1alpha1\nkind: ProxySchedulerConfiguration\n";

fn parse(rest: &str) -> Result<Configuration, String> {
    let text = format!("{HEAD}{rest}");
    Configuration::parse(&text, &Settings::default()).map_err(|error| error.to_string())
}

fn pod(namespace: &str, labels: &[(&str, &str)]) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.namespace = Some(namespace.into());
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pod.metadata.labels = Some(labels.iter().map(own).collect());
    pod
}

#[test]
fn an_empty_file_changes_nothing() {
    let asking = Settings {
        wave: 7,
        ..Settings::default()
    };
    let nothing = Configuration::without_file(asking.clone());
    assert_eq!(Configuration::parse(HEAD, &asking), Ok(nothing.clone()));
    let id = nothing.policy_of(&pod("shop", &[]));
    assert_eq!(nothing.policy(id), nothing.common());
    assert_eq!(nothing.policy(id).ranking_of(&Want::default()), None);
}

#[test]
fn the_first_entry_that_selects_a_pod_decides_and_inherits_the_rest() {
    let configuration = parse(
        "
source: {region: eu-west-1, provider: aws}
placement: {strategy: SameRegion}
regionTables: [latencies, more]
asking: {wave: 2, silence: 1s}
pods:
- namespaces: [batch]
  selector: {matchLabels: {tier: cheap}, matchExpressions: [{key: urgent, operator: DoesNotExist}]}
  placement:
    rules:
    - Cost: {weight: 3, label: example.com/cost}
    - MinimalDistance: {}
- selector: {matchLabels: {tier: cheap}}
  asking: {wave: 1, settle: 2s, askAll: true, patience: 9s, giveUp: 1m}
",
    )
    .unwrap();
    assert_eq!(
        configuration.home,
        Home::new(Some("eu-west-1"), Some("aws"))
    );
    let tables = ["latencies", "more"].map(str::to_owned);
    assert_eq!(configuration.region_tables.as_deref(), Some(&tables[..]));
    let policy = |namespace, labels: &[(&str, &str)]| {
        configuration.policy(configuration.policy_of(&pod(namespace, labels)))
    };
    let same_region = Some(Ranking::Strategy(Strategy::SameRegion));
    let common = policy("batch", &[]);
    assert_eq!(common, configuration.common());
    assert_eq!(common.ranking, same_region);
    assert_eq!(
        (common.asking.wave, common.asking.silence),
        (2, Duration::from_secs(1))
    );

    let cheap = policy("batch", &[("tier", "cheap")]);
    assert!(matches!(&cheap.ranking, Some(Ranking::Weighted(rules)) if rules.len() == 2));
    assert_eq!(cheap.asking, common.asking);

    let urgent = policy("batch", &[("tier", "cheap"), ("urgent", "")]);
    assert_eq!(urgent, policy("shop", &[("tier", "cheap")]));
    assert_eq!(urgent.ranking, same_region);
    let want = Settings {
        ask_all: true,
        wave: 1,
        silence: Duration::from_secs(1),
        settle: Duration::from_secs(2),
        patience: Duration::from_secs(9),
        give_up: Duration::from_mins(1),
        ..Settings::default()
    };
    assert_eq!(urgent.asking, want);
}

#[test]
fn a_mistake_is_told_with_its_place() {
    for (text, message) in [
        ("placment: {}", "unknown field `placment`"),
        ("placement: {}", "placement: give it a strategy or rules"),
        (
            "placement: {strategy: Nearest}",
            "placement.strategy: unknown variant `Nearest`",
        ),
        (
            "placement: {strategy: SameRegion, rules: [LeastUsed: {}]}",
            "placement: strategy and rules exclude each other",
        ),
        (
            "placement: {rules: []}",
            "placement: rules must have at least one rule",
        ),
        (
            "placement: {rules: [LeastUsed: {}, LeastUsed: {}]}",
            "placement: rule LeastUsed is there twice",
        ),
        (
            "placement: {rules: [LeastUsed: {}, Spread: {over: Region, weight: -1}]}",
            "placement.rules[1]: weight must be 0 to 1000000, and is -1",
        ),
        (
            "placement: {rules: [LeastUsed: {wieght: 1}]}",
            "placement.rules[0]: unknown field `wieght`",
        ),
        (
            "placement: {rules: [Nearest: {}]}",
            "placement.rules[0]: unknown variant `Nearest`",
        ),
        (
            "placement: {strategy: SameRegion, tables: []}",
            "placement: unknown field `tables`",
        ),
        ("source: {zone: a}", "source: unknown field `zone`"),
        ("source: {region: 1}", "source: invalid type"),
        ("regionTables: table", "regionTables: invalid type"),
        (
            "regionTables: ['']",
            "regionTables[0]: the name of a ConfigMap can't be empty",
        ),
        (
            "regionTables: [a, b, a]",
            "regionTables[2]: \"a\" is there twice",
        ),
        ("asking: {waves: 1}", "asking: unknown field `waves`"),
        ("asking: {wave: 0}", "asking.wave: one target"),
        ("asking: {wave: -1}", "asking.wave: invalid value"),
        (
            "asking: {silence: 15}",
            "asking.silence: 15 is no duration; write it with units",
        ),
        (
            "asking: {settle: -1s}",
            "asking.settle: \"-1s\" is negative",
        ),
        (
            "asking: {giveUp: soon}",
            "asking.giveUp: \"soon\" is no duration",
        ),
        ("asking: {askAll: maybe}", "asking.askAll: invalid type"),
        ("pods: {}", "invalid type: map, expected a sequence"),
        ("pods: [{asking: {wave: 1}}]", "pods[0]: say which pods"),
        (
            "pods: [{namespaces: [a]}, {namespaces: b}]",
            "pods[1].namespaces: invalid type",
        ),
        (
            "pods: [{selector: {matchlabels: {}}}]",
            "pods[0].selector: unknown field `matchlabels`",
        ),
        (
            "pods: [{selector: {matchExpressions: [{key: a, operator: in}]}}]",
            "pods[0].selector: \"in\" is no operator",
        ),
        (
            "pods: [{namespaces: [a], placement: {rules: [Cost: {}]}}]",
            "pods[0].placement.rules[0]: Cost needs",
        ),
        (
            "pods: [{namespaces: [a], asking: {wave: x}}]",
            "pods[0].asking.wave: invalid type",
        ),
        ("source: {", "it is no YAML"),
        ("source: {}\nsource: {}", "it is no YAML"),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.contains(message), "{text}:\n{error}");
    }
}

#[test]
fn what_is_too_long_is_told_with_its_place() {
    let name = |length: usize| "n".repeat(length);
    let list = |count: usize| {
        let names: Vec<_> = (0..count).map(|n| format!("n{n},")).collect();
        names.concat()
    };
    for (text, message) in [
        (
            format!("source: {{region: {}}}", name(90_000)),
            "source.region: \"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn\"… has 90000 bytes, and may have 63",
        ),
        (
            format!("source: {{provider: {}}}", name(64)),
            "source.provider: ",
        ),
        (
            format!("regionTables: [{}]", name(254)),
            "regionTables[0]: ",
        ),
        (
            format!("regionTables: [{}]", list(65)),
            "regionTables: it has more than 64 entries",
        ),
        (
            format!("pods: [{{namespaces: [a, {}]}}]", name(64)),
            "pods[0].namespaces[1]: ",
        ),
        (
            format!("pods: [{}]", "{namespaces: [a]},".repeat(257)),
            "pods: it has more than 256 entries",
        ),
        (
            format!(
                "pods: [{{selector: {{matchLabels: {{{}}}}}}}]",
                list(257).replace(',', ": a,")
            ),
            "pods[0].selector: a label selector may have 256 requirements",
        ),
        (
            format!("placement: {{rules: [{}]}}", "LeastUsed: {},".repeat(65)),
            "placement: there may be 64 rules",
        ),
        (
            format!("placement: {{rules: [Cost: {{label: {}}}]}}", name(400)),
            "placement.rules[0]: Cost needs",
        ),
    ] {
        let error = parse(&text).expect_err(message);
        assert!(error.contains(message), "{message}: {error}");
        assert!(error.len() < 300, "{error}");
    }
}

#[test]
fn the_file_of_something_else_is_refused() {
    for (text, message) in [
        (
            "",
            "apiVersion: expected config.multicluster.admiralty.io/v1alpha1, found nothing",
        ),
        ("a", "apiVersion: expected"),
        ("kind: ProxySchedulerConfiguration", "apiVersion: expected"),
        (
            "apiVersion: config.multicluster.admiralty.io/v1\nkind: ProxySchedulerConfiguration",
            "found \"config.multicluster.admiralty.io/v1\"",
        ),
        (
            "apiVersion: config.multicluster.admiralty.io/v1alpha1\nkind: Scheduler",
            "kind: expected ProxySchedulerConfiguration, found \"Scheduler\"",
        ),
    ] {
        let error = Configuration::parse(text, &Settings::default()).expect_err(text);
        assert!(error.to_string().contains(message), "{text}: {error}");
    }
}

#[test]
fn a_mistake_is_told_in_few_words() {
    let long = "x".repeat(100_000);
    for text in [
        format!("{long}: 1"),
        format!("source: {long}"),
        format!("asking: {{silence: {long}}}"),
        format!("asking: {{wave: {long}}}"),
        format!("asking: {{{long}: 1}}"),
        format!("placement: {{strategy: {long}}}"),
        format!("a: &{long}"),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.len() < 1024, "{} bytes", error.len());
    }
    let other = Configuration::parse(&format!("apiVersion: {long}"), &Settings::default());
    assert!(other.unwrap_err().to_string().len() < 1024);
}

mod fuzz {
    use super::*;

    pilotage_absurd::properties! {
        #[test]
        fn never_panics(rest in "(source|placement|asking|pods|regionTables): \
            ?[\\[{]{0,2}(strategy|rules|wave|silence|selector)?:? ?\\PC{0,12}[\\]}]{0,2}") {
            let _ = parse(&rest);
        }
    }
}
