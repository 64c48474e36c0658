//! `what-if`: the targets' own answers about a pod that isn't there, from a question that leaves nothing behind.
//!
//! The question is a pod of its own ([`keys::WHAT_IF`]): all targets try to reserve a node for it, nobody is given it,
//! and it is deleted when the answers are in. It has the pod's labels, which affinity and spreading look at. Its
//! namespace owns it, so that no controller whose selector matches these labels takes it for one of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{DeleteParams, DynamicObject, PostParams, Preconditions};
use kube::{Api, ResourceExt};
use pilotage_api::keys;
use pilotage_runtime::args::parse_duration;
use pilotage_runtime::call::{CALL_LIMIT, CallError, Failure, find, within};
use serde::Serialize;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::error::Error;
use crate::explain::{OfTarget, Place, Story};
use crate::interrupt::Interrupts;
use crate::plan::Need;
use crate::program::program;
use crate::status::{FromArgs, place};
use crate::table::{columns, plain};
use crate::targets::{Targets, targets};
use crate::wait::{self, Shows};
use crate::{preflight, progress, written};

/// Flags of `what-if`.
#[derive(Clone, Debug, Args)]
pub struct WhatIfArgs {
    /// File with a pod, or with a Deployment, Job or whatever else has a template of pods; "-" is standard input.
    #[arg(short, long, value_name = "FILE")]
    filename: PathBuf,

    /// How long the answers may take; also how long the question may take to go.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    timeout: Duration,

    #[command(flatten)]
    from: FromArgs,
}

/// What the targets say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Answers {
    /// How many could take the pod.
    could: usize,
    targets: Vec<OfTarget>,
    /// Reasons that are no target's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    others: Vec<String>,
}

/// Asks all targets about a pod; returns what is to be printed.
pub(crate) async fn what_if(args: WhatIfArgs) -> Result<String, Error> {
    let file = args.filename.display().to_string();
    let template = template(&file, &read(&args.filename)?)?;
    let source = args.from.open().await?;
    let of_file = template["metadata"]["namespace"].as_str();
    let namespace = args.from.namespace.as_deref().or(of_file);
    let namespace = namespace.unwrap_or(&source.namespace).to_owned();
    preflight::rights(&source, &needs(&namespace)).await?;
    let Targets { all, notes } = targets(&source, Some(&namespace)).await?;
    for note in &notes {
        progress(&format!("warning: {note}"));
    }
    if all.is_empty() && notes.is_empty() {
        return Err(Error::Missing {
            what: format!("Target for pods of namespace {namespace}"),
            instead: format!("\"{} connect\" makes one", program()),
        });
    }
    let places: Vec<Place> = all.iter().map(place).collect();

    let question = question(&template, &owner(&source, &namespace).await?);
    let mut question: DynamicObject =
        serde_json::from_value(question).map_err(|error| Error::Render(error.to_string()))?;
    let pods: Api<DynamicObject> = source.untyped::<Pod>(Some(&namespace));
    // A webhook that doesn't see it would let it run here.
    let rehearsal = create(&pods, &question, true).await;
    let rehearsal = rehearsal.map_err(refused(&source))?;
    is_proxy(&namespace, &rehearsal)?;
    // Who gets no answer has to know what to look for.
    question.metadata.name = rehearsal.metadata.name;
    question.metadata.generate_name = None;
    // Before there is anything that could be left behind.
    let mut interrupts = Interrupts::listen()?;
    let asked = ask(&source, &pods, &question).await?;
    progress(&format!(
        "source: asks by pod {namespace}/{}",
        asked.name_any()
    ));
    let answered = async {
        is_proxy(&namespace, &asked)?;
        answers(&source, &namespace, &asked, args.timeout).await
    };
    let answered = tokio::select! {
        answered = answered => answered,
        () = interrupts.next() => Err(Error::Interrupted {
            what: "interrupted before all targets had answered".to_owned(),
            instead: "the question is taken back".to_owned(),
        }),
    };
    // Whatever came of it, nothing stays; if something does, that is what has to be told.
    take_back(&source, &namespace, &asked, args.timeout, &mut interrupts).await?;
    let pod = answered?;
    let story = Story::of(&pod, &[], &places, notes.is_empty());
    let answers = Answers::of(story);
    written(args.from.output, &answers, || answers.table())
}

fn read(file: &Path) -> Result<String, Error> {
    let read = if file.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    read.map_err(|error| Error::NotNow {
        what: format!("can't read {}: {error}", file.display()),
        instead: "name a file with one object, or \"-\"".to_owned(),
    })
}

/// The pod, or the template of pods, that a file holds; with the namespace of the object around it.
fn template(file: &str, text: &str) -> Result<Value, Error> {
    let bad = |what: String| Error::NotNow {
        what: format!("{file} {what}"),
        instead: "give one object: a pod, or what has a template of pods".to_owned(),
    };
    let object: Value = serde_saphyr::from_str(text)
        .map_err(|error| bad(format!("can't be read: {}", plain(&error.to_string()))))?;
    let kind = object["kind"].as_str().unwrap_or_default();
    let pod = match kind {
        "Pod" => object.clone(),
        "CronJob" => object["spec"]["jobTemplate"]["spec"]["template"].clone(),
        _ => object["spec"]["template"].clone(),
    };
    if !pod["spec"]["containers"].is_array() {
        return Err(bad(format!("has no pod: its kind is {kind:?}")));
    }
    let mut pod = json!({ "metadata": pod["metadata"], "spec": pod["spec"] });
    pod["metadata"]["namespace"] = object["metadata"]["namespace"].clone();
    Ok(pod)
}

/// The pod that asks.
fn question(template: &Value, owner: &Value) -> Value {
    let metadata = &template["metadata"];
    let mut annotations = metadata["annotations"].clone();
    if !annotations.is_object() {
        annotations = json!({});
    }
    annotations[keys::ELECT] = "".into();
    annotations[keys::WHAT_IF] = "".into();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "what-if-",
            "labels": metadata["labels"],
            "annotations": annotations,
            "ownerReferences": [owner],
        },
        "spec": template["spec"],
    })
}

/// The namespace, as the controller of the pods that are questions.
async fn owner(source: &Cluster, namespace: &str) -> Result<Value, Error> {
    let namespaces: Api<Namespace> = Api::all(source.client.clone());
    let found = within(CALL_LIMIT, namespaces.get_metadata(namespace)).await;
    let found = found.map_err(source.unread(format!("read namespace {namespace}")))?;
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "name": namespace,
        "uid": found.metadata.uid,
        "controller": true,
        "blockOwnerDeletion": false,
    }))
}

fn needs(namespace: &str) -> Vec<Need> {
    let need = |resource, verb, namespace: Option<&str>| Need {
        group: "",
        resource,
        verb,
        namespace: namespace.map(str::to_owned),
    };
    let pods = ["get", "create", "list", "watch", "delete"];
    let pods = pods.map(|verb| need("pods", verb, Some(namespace)));
    let mut needs = vec![need("namespaces", "get", Some(namespace))];
    needs.extend(pods);
    needs
}

async fn create(
    pods: &Api<DynamicObject>,
    question: &DynamicObject,
    dry_run: bool,
) -> Result<DynamicObject, CallError> {
    let params = PostParams {
        dry_run,
        ..PostParams::default()
    };
    within(CALL_LIMIT, pods.create(&params, question)).await
}

/// The pod that asks. An API server that doesn't answer may have made it all the same.
async fn ask(
    source: &Cluster,
    pods: &Api<DynamicObject>,
    question: &DynamicObject,
) -> Result<DynamicObject, Error> {
    let error = match create(pods, question, false).await {
        Ok(asked) => return Ok(asked),
        Err(error) => error,
    };
    if error.is_open() {
        let name = question.name_any();
        let found = find(CALL_LIMIT, pods.get(&name), "pods", &name).await;
        let found = found.map_err(source.failed(format!("look for pod {name}, which asks")))?;
        let is_ours = |pod: &DynamicObject| pod.annotations().contains_key(keys::WHAT_IF);
        if let Some(asked) = found.filter(is_ours) {
            return Ok(asked);
        }
    }
    Err(refused(source)(error))
}

fn refused(source: &Cluster) -> impl FnOnce(CallError) -> Error {
    let side = source.side;
    move |source| Error::Refused {
        what: "the pod that asks".to_owned(),
        side,
        source,
    }
}

/// Only as a proxy pod it waits for targets.
fn is_proxy(namespace: &str, pod: &DynamicObject) -> Result<(), Error> {
    if pod.annotations().contains_key(keys::SOURCE_POD_MANIFEST) {
        return Ok(());
    }
    Err(Error::NotNow {
        what: format!("Pilotage's webhook doesn't see pods of namespace {namespace}"),
        instead: format!(
            "label it {}={}, and see whether \"pilotage webhook\" runs",
            keys::NAMESPACE_LABEL,
            keys::NAMESPACE_LABEL_VALUE
        ),
    })
}

/// The pod, when its scheduler has told all answers.
async fn answers(
    source: &Cluster,
    namespace: &str,
    asked: &DynamicObject,
    limit: Duration,
) -> Result<Pod, Error> {
    let pods: Api<Pod> = source.api(namespace);
    let name = asked.name_any();
    let waited = wait::until(pods.clone(), &name, limit, is_answered).await;
    waited.map_err(|last| Error::Waited {
        what: "not all targets have answered".to_owned(),
        seconds: limit.as_secs(),
        last,
        instead: "see whether \"pilotage proxy-scheduler\" runs, or give it more time by --timeout"
            .to_owned(),
    })?;
    let pod = within(CALL_LIMIT, pods.get(&name)).await;
    pod.map_err(source.unread(format!("read pod {name}")))
}

/// A scheduling cycle runs only when all have answered, or were waited for with patience.
fn is_answered(pod: Option<&Pod>) -> Shows {
    let Some(pod) = pod else {
        return Shows::Yet("somebody has deleted the pod that asks".to_owned());
    };
    let conditions = pod
        .status
        .iter()
        .flat_map(|it| it.conditions.iter().flatten());
    let mut scheduled = conditions.filter(|it| it.type_ == "PodScheduled");
    match scheduled.next().and_then(|it| it.message.as_deref()) {
        Some(message) if message.starts_with("0/") => Shows::Done,
        Some(message) => Shows::Yet(plain(message)),
        None => Shows::Yet("no scheduler has said anything of it".to_owned()),
    }
}

/// Deletes the question, and waits until it has gone, or for the next interrupt. What was asked by it goes from the
/// targets after it: a pod that was given to nobody has no finalizer that would wait for them.
async fn take_back(
    source: &Cluster,
    namespace: &str,
    asked: &DynamicObject,
    limit: Duration,
    interrupts: &mut Interrupts,
) -> Result<(), Error> {
    let pods: Api<Pod> = source.api(namespace);
    let name = asked.name_any();
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions {
            uid: asked.uid(),
            ..Preconditions::default()
        }),
        ..DeleteParams::default()
    };
    match within(CALL_LIMIT, pods.delete(&name, &params)).await {
        Ok(_) => {}
        // Somebody else was faster.
        Err(error) if matches!(error.kind(), Failure::NotFound | Failure::Conflict) => {}
        Err(error) => {
            let what = format!("delete pod {namespace}/{name}, which asked");
            return Err(source.failed(what)(error));
        }
    }
    let is_gone = |pod: Option<&Pod>| match pod {
        Some(pod) if pod.uid() == asked.uid() => Shows::Yet("it still has a finalizer".to_owned()),
        _ => Shows::Done,
    };
    let gone = tokio::select! {
        gone = wait::quietly(pods, &name, limit, is_gone) => gone,
        () = interrupts.next() => Err("interrupted".to_owned()),
    };
    gone.map_err(|last| Error::Waited {
        what: format!("pod {namespace}/{name}, which asked, is deleted and hasn't gone"),
        seconds: limit.as_secs(),
        last,
        instead: "see whose finalizer it has".to_owned(),
    })
}

impl Answers {
    fn of(story: Story) -> Self {
        let (targets, others) = story.into_answers();
        let could = |it: &&OfTarget| it.answer.starts_with("could take the pod");
        Self {
            could: targets.iter().filter(could).count(),
            targets,
            others,
        }
    }

    /// For people.
    fn table(&self) -> String {
        let Self {
            could,
            targets,
            others,
        } = self;
        let rows: Vec<_> = targets
            .iter()
            .map(|it| [it.target.clone(), it.answer.clone()])
            .collect();
        let mut text = format!(
            "{could} of {} target(s) could take the pod\n\n{}",
            targets.len(),
            columns(&["TARGET", "ANSWER"], &rows)
        );
        for other in others {
            text = format!("{text}beside these: {other}\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "spec: {containers: [{name: a, image: b}]}";

    #[test]
    fn a_pod_is_found_where_each_kind_has_it() {
        for (text, namespace) in [
            (
                format!("kind: Pod\nmetadata: {{namespace: shop}}\n{POD}"),
                Some("shop"),
            ),
            (
                format!(
                    "kind: Deployment\nmetadata: {{namespace: x}}\nspec: {{template: {{{POD}}}}}"
                ),
                Some("x"),
            ),
            (
                format!("kind: CronJob\nspec: {{jobTemplate: {{spec: {{template: {{{POD}}}}}}}}}"),
                None,
            ),
        ] {
            let pod = template("f", &text).unwrap();
            assert_eq!(pod["metadata"]["namespace"].as_str(), namespace, "{text}");
            assert_eq!(pod["spec"]["containers"][0]["name"], "a", "{text}");
        }
        for text in [
            "kind: ConfigMap\ndata: {}",
            "",
            "a: [",
            "kind: Pod\nspec: {}",
        ] {
            let error = template("f.yaml", text).unwrap_err().to_string();
            assert!(error.starts_with("f.yaml "), "{error}");
        }
    }

    #[test]
    fn the_question_has_all_that_targets_look_at_and_another_name_and_owner() {
        let text = "kind: Pod\nmetadata: {name: web, labels: {app: web}, annotations: {a: b}}\n"
            .to_owned()
            + POD;
        let owner = json!({ "kind": "Namespace" });
        let pod = question(&template("f", &text).unwrap(), &owner);
        let meta = &pod["metadata"];
        assert!(meta.get("name").is_none() && meta["generateName"] == "what-if-");
        assert_eq!(meta["labels"], json!({ "app": "web" }));
        let annotations = json!({ "a": "b", keys::ELECT: "", keys::WHAT_IF: "" });
        assert_eq!(meta["annotations"], annotations);
        assert_eq!(meta["ownerReferences"], json!([owner]));
    }

    #[test]
    fn answers_are_counted_and_told_target_by_target() {
        let message = "0/3 nodes are available: 1 n-paris could take the pod, 1 n-rome refused [2 Insufficient cpu], 1 \
            node(s) had untolerated taint(s).";
        let condition = json!({ "type": "PodScheduled", "status": "False", "message": message });
        let pod = json!({
            "metadata": { "annotations": { keys::ELECT: "", keys::SOURCE_POD_MANIFEST: "x" } },
            "status": { "conditions": [condition] },
        });
        let place = |target: &str| Place {
            target: target.to_owned(),
            node: format!("n-{target}"),
            lost: None,
        };
        let places = ["paris", "rome", "oslo"].map(place);
        let pod = serde_json::from_value(pod).unwrap();
        let answers = Answers::of(Story::of(&pod, &[], &places, true));
        let want = "\
1 of 3 target(s) could take the pod

TARGET   ANSWER
paris    could take the pod
rome     refused [2 Insufficient cpu]
oslo     has said nothing
beside these: node(s) had untolerated taint(s)
";
        assert_eq!(answers.table(), want);
    }

    #[test]
    fn answers_are_in_when_a_cycle_has_told_them() {
        let pod = |message: &str| -> Pod {
            let condition =
                json!({ "type": "PodScheduled", "status": "False", "message": message });
            serde_json::from_value(json!({ "status": { "conditions": [condition] } })).unwrap()
        };
        assert_eq!(
            is_answered(Some(&pod(
                "0/2 nodes are available: 2 n-a could take the pod."
            ))),
            Shows::Done
        );
        let waits = is_answered(Some(&pod("waits for answers")));
        assert_eq!(waits, Shows::Yet("waits for answers".to_owned()));
        assert!(matches!(is_answered(Some(&Pod::default())), Shows::Yet(_)));
    }
}
