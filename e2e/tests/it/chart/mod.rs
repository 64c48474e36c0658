//! The Helm chart: how its values files are rendered here, and that what it takes from the code is of today.
//!
//! What is asked of the renderings is in the modules: `earlier`, `flags`, `golden`, `install`, `metrics` with `promql`,
//! `older`, `roles`, `schemas`.

mod earlier;
mod flags;
mod golden;
mod install;
mod metrics;
mod older;
mod promql;
mod roles;
mod schemas;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pilotage_testkit::tools::Tools;
use pilotage_testkit::{apply, pilotage};
use serde_json::{Value, json};

use crate::workspace::root;

/// Name of the release, everywhere.
pub(crate) const RELEASE: &str = "pilotage";

/// A values file, by its name without ending.
#[derive(Debug)]
struct Case {
    name: String,
    path: PathBuf,
}

impl Case {
    /// Where it is installed. Gardener's scheduler holds the Lease of the original, which is in the garden's namespace.
    fn namespace(&self) -> &'static str {
        match self.name.as_str() {
            "gardener" => "garden",
            _ => "pilotage",
        }
    }

    fn values(&self) -> Value {
        let text = fs::read_to_string(&self.path).unwrap();
        serde_saphyr::from_str(&text).unwrap()
    }

    /// What Helm makes of it.
    fn text(&self) -> String {
        helm(&[
            "template",
            RELEASE,
            &chart(),
            "--namespace",
            self.namespace(),
            "--values",
            &self.path.display().to_string(),
        ])
        .unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    fn objects(&self) -> Vec<Value> {
        apply::documents(&self.text()).unwrap()
    }
}

fn cases() -> Vec<Case> {
    let directory = root().join("e2e/tests/it/chart/values");
    let files = fs::read_dir(directory).unwrap();
    let mut cases: Vec<_> = files
        .map(|file| {
            let path = file.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            Case { name, path }
        })
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(cases.len() >= 10, "{cases:#?}");
    cases
}

pub(crate) fn chart() -> String {
    root().join("charts/pilotage").display().to_string()
}

/// Output of a Helm command, or what it says instead.
pub(crate) fn helm(args: &[&str]) -> Result<String, String> {
    let helm = Tools::find().unwrap().path("helm").unwrap();
    let output = Command::new(helm)
        .args(args)
        // Nobody's own cluster.
        .env("KUBECONFIG", "/nonexistent")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() {
        Ok(text(output.stdout))
    } else {
        Err(text(output.stdout) + &text(output.stderr))
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

fn of_kind<'a>(objects: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |object| object["kind"] == kind)
}

#[test]
fn helm_has_nothing_to_say_of_any_values_file() {
    for case in cases() {
        let values = case.path.display().to_string();
        let linted = helm(&["lint", "--strict", &chart(), "--values", &values]);
        assert!(linted.is_ok(), "{}: {}", case.name, linted.unwrap_err());
    }
}

#[test]
fn values_that_do_not_exist_or_cannot_be_are_refused() {
    for (set, says) in [
        ("webhok.enabled=false", "webhok"),
        ("follow={pods}", "follow"),
        ("rights={everything}", "rights"),
        ("webhook.replicas=many", "replicas"),
        ("targetNamespaces={Bank}", "targetNamespaces"),
        ("image.repository=", "image"),
        ("otlp.endpoint=https://collector:4318", "endpoint"),
        ("otlp.ratio=1.5", "ratio"),
        (
            "controllerManager.image.repository=quay.io/admiralty/multicluster-scheduler-agent",
            "set image.repository",
        ),
        ("scheduler.image.tag=0.17.0", "set image.repository"),
        ("postDeleteJob.image.tag=0.17.0", "set image.repository"),
        (
            "scheduler.config.kind=ProxySchedulerConfiguration",
            "config",
        ),
        ("candidateScheduler.schedulerName=mine", "schedulerName"),
    ] {
        let error = helm(&["template", RELEASE, &chart(), "--set", set]).unwrap_err();
        assert!(error.contains(says), "{set}: {error}");
    }
}

/// All files below a directory, with their texts.
fn files(directory: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(at) = directories.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let name = path.strip_prefix(directory).unwrap().display().to_string();
                files.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

#[test]
fn definitions_and_roles_are_those_of_the_code() {
    let fresh = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chart-files");
    let status = Command::new(root().join("charts/generate.sh"))
        .arg(pilotage::binary().unwrap())
        .arg(&fresh)
        .status()
        .unwrap();
    assert!(status.success());
    for part in ["crds", "roles"] {
        let committed = files(&root().join("charts/pilotage/files").join(part));
        let generated = files(&fresh.join(part));
        let names = |files: &[(String, String)]| -> Vec<String> {
            files.iter().map(|(name, _)| name.clone()).collect()
        };
        assert_eq!(names(&committed), names(&generated), "run `make chart`");
        let old = committed.iter().zip(&generated).find(|(a, b)| a != b);
        let old = old.map(|((name, _), _)| name);
        assert_eq!(old, None, "charts/pilotage/files/{part}: run `make chart`");
    }
    let read = |path: &str| fs::read_to_string(root().join("charts/pilotage").join(path)).unwrap();
    assert!(
        read("values.yaml") == read("files/values.yaml"),
        "charts/pilotage/files/values.yaml: run `make chart`"
    );
}

#[test]
fn what_install_applies_is_what_helm_renders() {
    let rendered = Command::new(root().join("charts/render.sh"))
        .arg(Tools::find().unwrap().path("helm").unwrap())
        .env("KUBECONFIG", "/nonexistent")
        .output()
        .unwrap();
    assert!(rendered.status.success());
    let committed = std::fs::read(root().join("charts/install.yaml")).unwrap();
    assert!(
        committed == rendered.stdout,
        "charts/install.yaml: run `make chart`"
    );
}

/// What there is, by kind, namespace and name; rules in no order, each once.
fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let with_rules = objects.into_iter().map(|mut object| {
        if let Some(rules) = object["rules"].as_array() {
            let rules: BTreeSet<String> = rules.iter().map(Value::to_string).collect();
            object["rules"] = json!(rules);
        }
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let key = format!("{} {namespace}/{}", object["kind"], name(&object));
        (key, object)
    });
    with_rules.collect()
}

#[test]
fn what_install_turns_on_is_what_helm_turns_on() {
    let values = "follow={configmaps,services},rights={logs,follow-secrets},controllerManager.kubelet.enabled=true,\
        proxyScheduler.dashboard=true";
    let rendered = Command::new(root().join("charts/render.sh"))
        .arg(Tools::find().unwrap().path("helm").unwrap())
        .args(["--set", values])
        .env("KUBECONFIG", "/nonexistent")
        .output()
        .unwrap();
    assert!(rendered.status.success(), "{rendered:?}");
    let rendered = String::from_utf8(rendered.stdout).unwrap();
    let printed = Command::new(pilotage::binary().unwrap())
        .args(["install", "--image=install-image:latest", "--dry-run"])
        .args(["--namespace=install-namespace", "--kubelet", "--dashboard"])
        .args([
            "--follow=configmaps,services",
            "--rights=logs,follow-secrets",
        ])
        .output()
        .unwrap();
    assert!(printed.status.success(), "{printed:?}");
    let printed = String::from_utf8(printed.stdout).unwrap();
    let mut installed = by_name(apply::documents(&printed).unwrap());
    // Helm makes the one, and the program has the others itself.
    let is_charts = |object: &Value| {
        object["kind"] != "Namespace" && object["kind"] != "CustomResourceDefinition"
    };
    installed.retain(|_, object| is_charts(object));
    let rendered = by_name(apply::documents(&rendered).unwrap());
    let names = |of: &BTreeMap<String, Value>| of.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&installed), names(&rendered));
    for (key, object) in &rendered {
        assert_eq!(&installed[key], object, "{key}");
    }
}

#[test]
fn definitions_stay_when_the_release_goes() {
    let default = cases().into_iter().find(|case| case.name == "default");
    let objects = default.unwrap().objects();
    let kept: Vec<_> = of_kind(&objects, "CustomResourceDefinition")
        .map(|crd| &crd["metadata"]["annotations"]["helm.sh/resource-policy"])
        .collect();
    assert_eq!(kept, ["keep"; 6]);
}

/// What every container is held to, whatever the values say.
#[test]
fn no_container_may_more_than_it_needs() {
    for case in cases() {
        let objects = case.objects();
        let jobs = of_kind(&objects, "Job");
        for workload in of_kind(&objects, "Deployment").chain(jobs) {
            let spec = &workload["spec"]["template"]["spec"];
            let container = &spec["containers"][0];
            let context = &container["securityContext"];
            let says = format!("{} of {}: {spec:#}", name(workload), case.name);
            assert_eq!(spec["securityContext"]["runAsNonRoot"], true, "{says}");
            let seccomp = &spec["securityContext"]["seccompProfile"]["type"];
            assert_eq!(seccomp, "RuntimeDefault", "{says}");
            assert_eq!(context["readOnlyRootFilesystem"], true, "{says}");
            assert_eq!(context["allowPrivilegeEscalation"], false, "{says}");
            assert_eq!(context["capabilities"]["drop"][0], "ALL", "{says}");
            assert!(container["resources"]["requests"].is_object(), "{says}");
            assert_eq!(spec["serviceAccountName"], name(workload), "{says}");
            if workload["kind"] == "Job" {
                continue;
            }
            assert_eq!(
                container["livenessProbe"]["httpGet"]["path"], "/livez",
                "{says}"
            );
            assert_eq!(
                container["readinessProbe"]["httpGet"]["path"], "/readyz",
                "{says}"
            );
        }
    }
}

#[test]
fn a_webhook_that_goes_answers_until_nobody_asks_it() {
    let shutdown = fs::read_to_string(root().join("crates/runtime/src/shutdown.rs")).unwrap();
    let limit = shutdown
        .split("DRAIN_LIMIT: Duration = Duration::from_secs(")
        .nth(1);
    let drains = limit.unwrap().split(')').next().unwrap();
    let drains: u64 = drains.parse().unwrap();
    let mut webhooks = 0;
    for case in cases() {
        let objects = case.objects();
        for deployment in of_kind(&objects, "Deployment") {
            let says = format!("{} of {}", name(deployment), case.name);
            let spec = &deployment["spec"]["template"]["spec"];
            // Its --shutdown-delay is within the time that it drains.
            let grace = spec["terminationGracePeriodSeconds"].as_u64().unwrap();
            assert!(grace > drains, "{says}");
            let part = &deployment["metadata"]["labels"]["app.kubernetes.io/component"];
            if part != "webhook" {
                continue;
            }
            let args = &spec["containers"][0]["args"];
            let changes = args.to_string().contains("--shutdown-delay");
            assert!(!changes, "{says}: {args}");
            let rolling = &deployment["spec"]["strategy"]["rollingUpdate"];
            assert_eq!(rolling["maxUnavailable"], 0, "{says}");
            webhooks += 1;
        }
    }
    assert!(webhooks > 5);
}
