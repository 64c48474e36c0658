use proptest::prelude::*;
use serde_json::json;

use super::*;

const EVERYTHING: &str = r#"
nodeSelector: {region: eu, "tier": "1"}
tolerations:
- {key: gpu, operator: Exists, effect: NoSchedule}
- {key: spot, operator: Equal, value: "true", effect: NoExecute, tolerationSeconds: 60}
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
      - matchExpressions: [{key: zone, operator: In, values: [a, b]}]
        matchFields: [{key: metadata.name, operator: NotIn, values: [x]}]
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 5
      preference: {matchExpressions: [{key: cores, operator: Gt, values: ["8"]}]}
  podAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 1
      podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {app: db}}, namespaces: [shop]}
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: kubernetes.io/hostname
      namespaceSelector: {}
      labelSelector: {matchExpressions: [{key: app, operator: DoesNotExist}]}
      matchLabelKeys: [pod-template-hash]
      mismatchLabelKeys: [tenant]
topologySpreadConstraints:
- maxSkew: 1
  topologyKey: region
  whenUnsatisfiable: DoNotSchedule
  labelSelector: {matchLabels: {app: web}}
  minDomains: 2
  nodeAffinityPolicy: Honor
  nodeTaintsPolicy: Ignore
  matchLabelKeys: [pod-template-hash]
"#;

fn pod(annotations: &Value, spec: &Value) -> Value {
    json!({ "metadata": { "annotations": annotations }, "spec": spec })
}

fn fragment(text: &str) -> Result<ProxyConstraints, ConstraintError> {
    ProxyConstraints::of(&pod(&json!({ keys::PROXY_CONSTRAINTS: text }), &json!({})))
}

#[test]
fn every_field_of_a_fragment_arrives() {
    let read: Value = serde_saphyr::from_str(EVERYTHING).unwrap();
    let constraints = fragment(EVERYTHING).unwrap();
    assert_eq!(json!(constraints.node_selector), read["nodeSelector"]);
    assert_eq!(json!(constraints.tolerations), read["tolerations"]);
    assert_eq!(constraints.affinity, Some(read["affinity"].clone()));
    assert_eq!(
        constraints.topology_spread_constraints,
        Some(read["topologySpreadConstraints"].clone())
    );
}

#[test]
fn mistakes_are_named_with_their_position() {
    for (text, want) in [
        ("nodeSelektor: {a: b}", ["line 1, column 1", "nodeSelektor"]),
        (
            "nodeSelector:\n  a: b\ntolerations:\n- key: x\n  efect: NoSchedule",
            ["line 5, column 3", "efect"],
        ),
        (
            "tolerations:\n- key: x\n  effect: NoShedule",
            ["line 3, column 11", "NoShedule"],
        ),
        ("tolerations: {}", ["line 1, column 14", "sequence"]),
        (
            "tolerations:\n- tolerationSeconds: soon",
            ["line 2, column 22", "not a whole number"],
        ),
        ("nodeSelector:\n  gpu: true", ["line 2, column 8", "true"]),
        ("nodeSelector:\n  cores: 8", ["line 2, column 10", "8"]),
        ("nodeSelector: {a: b", ["line 1", ""]),
        ("nodeSelector:\n\ta: b", ["line 2", ""]),
        (
            "nodeSelector: {a: b}\nnodeSelector: {}",
            ["line 2, column 1", "nodeSelector"],
        ),
        (
            "affinity:\n  nodeAffinity:\n    required: {}",
            ["line 3, column 5", "required"],
        ),
        ("containers: []", ["line 1, column 1", "containers"]),
        ("just words", ["line 1, column 1", ""]),
    ] {
        let error = fragment(text).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("annotation {}", keys::PROXY_CONSTRAINTS)),
            "{error}"
        );
        for want in want {
            assert!(error.contains(want), "{text:?}: {error:?} lacks {want:?}");
        }
        assert!(
            !error.contains('\n'),
            "one line for a status message: {error:?}"
        );
    }
}

#[test]
fn an_empty_fragment_asks_nothing_and_still_wins() {
    let own = json!({ "nodeSelector": { "a": "b" } });
    for text in ["", "\n", "# later", "{}", "nodeSelector:", "null"] {
        let annotations = json!({ keys::PROXY_CONSTRAINTS: text, keys::USE_OWN_CONSTRAINTS: "" });
        let constraints = ProxyConstraints::of(&pod(&annotations, &own));
        assert_eq!(constraints, Ok(ProxyConstraints::default()), "{text:?}");
    }
}

#[test]
fn the_pods_own_constraints_are_taken_as_they_are() {
    let spec = json!({
        "nodeSelector": { "a": "b" },
        "tolerations": [{ "key": "x", "newField": 1 }],
        "affinity": { "nodeAffinity": {} },
        "topologySpreadConstraints": [{ "maxSkew": 1 }],
    });
    let own = pod(&json!({ keys::USE_OWN_CONSTRAINTS: "" }), &spec);
    let constraints = ProxyConstraints::of(&own).unwrap();
    assert_eq!(json!(constraints.node_selector), spec["nodeSelector"]);
    assert_eq!(json!(constraints.tolerations), spec["tolerations"]);
    assert_eq!(constraints.affinity, Some(spec["affinity"].clone()));
    assert_eq!(
        constraints.topology_spread_constraints,
        Some(spec["topologySpreadConstraints"].clone())
    );
    assert_eq!(
        ProxyConstraints::of(&pod(&json!({}), &spec)),
        Ok(ProxyConstraints::default())
    );
}

#[test]
fn real_nodes_cannot_be_selected() {
    let text = format!("nodeSelector: {{{}: azure}}", keys::PROVIDER);
    let error = fragment(&text).unwrap_err().to_string();
    assert!(
        error.contains(keys::PROXY_CONSTRAINTS) && error.contains("azure"),
        "{error}"
    );
    assert!(fragment(&format!("nodeSelector: {{{}: admiralty}}", keys::PROVIDER)).is_ok());
}

#[test]
fn words_that_only_old_yaml_takes_for_booleans_are_words() {
    let constraints = fragment("nodeSelector: {zone: y, power: on}").unwrap();
    assert_eq!(
        json!(constraints.node_selector),
        json!({ "zone": "y", "power": "on" })
    );
}

#[test]
fn more_than_each_node_can_be_compared_with_is_refused() {
    let toleration = |number: usize| json!({ "key": format!("k{number}"), "operator": "Exists" });
    let tolerations = |count: usize| -> Value { (0..count).map(toleration).collect() };
    let selector = |count: usize| -> Value {
        let entries = (0..count).map(|number| (format!("k{number}"), json!("v")));
        Value::Object(entries.collect())
    };
    let among = |values: usize| {
        let expression = json!({ "key": "k", "operator": "In", "values": vec!["v"; values] });
        let term = json!([{ "matchExpressions": [expression] }]);
        json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": term } } })
    };
    let anti = |labels: usize| {
        let term = json!([{ "topologyKey": "zone", "labelSelector": { "matchLabels": selector(labels) } }]);
        json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": term } })
    };
    for (field, value, good) in [
        ("tolerations", tolerations(256), true),
        ("tolerations", tolerations(257), false),
        ("nodeSelector", selector(256), true),
        ("nodeSelector", selector(257), false),
        ("affinity", among(4000), true),
        ("affinity", among(4097), false),
        ("affinity", anti(255), true),
        ("affinity", anti(256), false),
        (
            "affinity",
            (0..60).fold(json!("x"), |inner, _| json!([inner])),
            false,
        ),
    ] {
        let spec = json!({ field: value });
        let own = ProxyConstraints::of(&pod(&json!({ keys::USE_OWN_CONSTRAINTS: "" }), &spec));
        assert_eq!(own.is_ok(), good, "{field}");
        if let Err(error) = own {
            assert_eq!(error, ConstraintError::TooMany { origin: "spec" });
        }
        // They are nobody's business unless they choose the cluster.
        assert!(ProxyConstraints::of(&pod(&json!({}), &spec)).is_ok());
    }
    let text = json!({ "tolerations": tolerations(300) }).to_string();
    let error = fragment(&text).unwrap_err();
    assert!(
        error.to_string().starts_with(keys::PROXY_CONSTRAINTS),
        "{error}"
    );
    let error = fragment(&"#".repeat(64 * 1024 + 1))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("has 65537 bytes, and may have 65536"),
        "{error}"
    );
}

#[test]
fn a_fragment_that_grows_when_it_is_read_is_refused() {
    let doubled = (1..30).map(|level| {
        let before = level - 1;
        format!("- &l{level} {{key: x, values: [*l{before}, *l{before}]}}\n")
    });
    let doubled: String = doubled.collect();
    for text in [
        format!("tolerations:\n- &l0 {{key: x}}\n{doubled}"),
        "tolerations: ".to_owned() + &"[".repeat(2000),
        "nodeSelector: ".to_owned() + &"{a: ".repeat(200),
        format!("nodeSelector: {{{}: b}}", "k".repeat(60_000)),
        format!("tolerations: [{}]", "{},".repeat(20_000)),
        format!("tolerations:\n- &t {{key: x}}\n{}", "- *t\n".repeat(1000)),
    ] {
        let error = fragment(&text).unwrap_err().to_string();
        assert!(error.len() < 1024 && !error.contains('\n'), "{error}");
    }
}

mod fuzz {
    use super::*;

    pilotage_absurd::properties! {
        #[test]
        fn never_panics(
            any in "\\PC{0,60}",
            near in "(nodeSelector|tolerations|affinity|- key|values|operator|[:{}\\[\\],&*<> ]|\n {0,4}|[a-z]){0,60}",
            bytes in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            for text in [&any, &near, &String::from_utf8_lossy(&bytes).into_owned()] {
                match fragment(text) {
                    Ok(constraints) => prop_assert!(constraints.are_few()),
                    Err(error) => prop_assert!(error.to_string().len() < 1024, "{}", error),
                }
            }
        }
    }
}
