//! `helm upgrade --reuse-values` gives a chart the values of the one before, without what is new: each template bears
//! it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pilotage_testkit::apply;
use serde_json::{Map, Value, json};

use super::{RELEASE, cases, chart, files, helm, name, of_kind};
use crate::workspace::root;

/// The default values of an earlier chart, from before some that there are now.
const BEFORE: &str = "before-otlp.yaml";

/// The chart with other defaults, which is what Helm makes of it for `--reuse-values`.
fn chart_with(name: &str, values: &str) -> PathBuf {
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chart-{name}"));
    if copy.exists() {
        fs::remove_dir_all(&copy).unwrap();
    }
    for (file, text) in files(Path::new(&chart())) {
        let path = copy.join(&file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = if file == "values.yaml" { values } else { &text };
        fs::write(path, text).unwrap();
    }
    copy
}

fn rendered(name: &str, values: &str, more: &[&str]) -> String {
    let chart = chart_with(name, values).display().to_string();
    let args = ["template", RELEASE, &chart, "--namespace", "pilotage"];
    helm(&[&args[..], more].concat()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn default() -> String {
    let default = cases().into_iter().find(|case| case.name == "default");
    default.unwrap().text()
}

fn values() -> Map<String, Value> {
    let text = fs::read_to_string(Path::new(&chart()).join("values.yaml")).unwrap();
    serde_saphyr::from_str(&text).unwrap()
}

#[test]
fn values_of_an_earlier_chart_render_as_the_defaults_of_today() {
    let older = root().join("e2e/tests/it/chart/older").join(BEFORE);
    let older = fs::read_to_string(older).unwrap();
    let known: Map<String, Value> = serde_saphyr::from_str(&older).unwrap();
    assert!(!known.contains_key("otlp"), "it has to lack something");
    assert_eq!(rendered("older", &older, &[]), default());
    // What is new can be set at the same time.
    let endpoint = "otlp.endpoint=http://collector:4318";
    let set = rendered("older", &older, &["--set", endpoint]);
    assert!(set.contains("--otlp-endpoint=http://collector:4318"));
    assert!(set.contains("--trace-ratio=1\n"), "{set}");
}

#[test]
fn no_template_needs_a_value_that_an_earlier_chart_may_lack() {
    assert_eq!(rendered("bare", "{}", &[]), default());

    // Groups of values without any of their members. Of the image a repository has to be said.
    let mut emptied = values();
    for (key, value) in &mut emptied {
        if value.is_object() && key != "image" {
            *value = json!({});
        }
    }
    let text = rendered("emptied", &Value::Object(emptied).to_string(), &[]);
    let replicas_and_args = |text: &str| -> BTreeMap<String, (Value, Value)> {
        let objects = apply::documents(text).unwrap();
        let deployments = of_kind(&objects, "Deployment");
        let said = deployments.map(|it| {
            let args = it["spec"]["template"]["spec"]["containers"][0]["args"].clone();
            (name(it).to_owned(), (it["spec"]["replicas"].clone(), args))
        });
        said.collect()
    };
    let all = replicas_and_args(&default());
    assert_eq!(all.len(), 4);
    assert_eq!(replicas_and_args(&text), all);
}

#[test]
fn what_a_user_takes_away_by_null_stays_away() {
    let set = [
        "--set",
        "webhook.resources.limits=null,controllerManager.resources=null,dashboard.labels.grafana_dashboard=null",
        "--set",
        "dashboard.enabled=true",
    ];
    let values = fs::read_to_string(Path::new(&chart()).join("values.yaml")).unwrap();
    let text = rendered("taken-away", &values, &set);
    let objects = apply::documents(&text).unwrap();
    let resources = |part: &str| {
        let deployment = of_kind(&objects, "Deployment").find(|it| name(it).ends_with(part));
        let spec = &deployment.unwrap()["spec"]["template"]["spec"];
        spec["containers"][0]["resources"].clone()
    };
    let webhook = resources("webhook");
    assert!(webhook["requests"].is_object() && webhook["limits"].is_null());
    assert_eq!(resources("controllers"), Value::Null);
    assert!(!text.contains("grafana_dashboard"));
}
