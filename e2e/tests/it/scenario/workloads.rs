//! Workloads of the source whose pods run in targets: Jobs and `CronJobs`, `StatefulSets`, and a virtual node that is
//! drained within a budget. Their controllers see proxies alone, and have to find there what they go by.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams, WatchParams};
use kube::runtime::watcher;
use pilotage_api::keys;
use pilotage_testkit::plane::kwok;
use pilotage_testkit::wait::Watched;
use pilotage_testkit::{Change, Recorder, build, list_until, wait_count, wait_for};
use serde_json::{Value, json};

use super::{LIMIT, Shop, TARGETS, is_running, node_of};

/// Label of a Job's pods: which completion a pod is for.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Label of a Job's pods: its name.
const JOB: &str = "batch.kubernetes.io/job-name";
/// Longer than any test.
const LONG: &str = "1h";

impl Shop {
    /// Waits for something in the source.
    async fn until<K>(&self, name: &str, holds: impl Fn(&K) -> bool) -> K
    where
        K: Watched + kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        self.seen(wait_for(&self.of("source"), name, holds, LIMIT).await)
    }

    /// Waits until so many proxies with this label are like that.
    async fn proxies(&self, label: &str, count: usize, like: impl Fn(&Pod) -> bool) -> Vec<Pod> {
        let selected = watcher::Config::default().labels(label);
        self.seen(wait_count(&self.pods(), selected, count, like, LIMIT).await)
    }

    /// How many pods with this label have a node in any target, now. Candidates that nobody bound go a moment later.
    async fn delegates(&self, label: &str) -> usize {
        let selected = ListParams::default().labels(label);
        let mut all = 0;
        for target in TARGETS {
            let found = self.pods_in(target).list(&selected).await.unwrap();
            let bound = found.items.iter().filter(|pod| node_of(pod).is_some());
            all += bound.count();
        }
        all
    }

    /// Waits until no pod with this label is in any target.
    async fn none_is_left(&self, label: &str) {
        for target in TARGETS {
            let selected = watcher::Config::default().labels(label);
            let pods = self.pods_in(target);
            self.seen(wait_count(&pods, selected, 0, |_| true, LIMIT).await);
        }
    }

    /// Says of a proxy's delegate, as its kubelet would, that it has succeeded.
    async fn succeed(&self, proxy: &Pod) {
        let (target, delegate) = self.delegate(proxy).await;
        let state = json!({ "terminated": { "exitCode": 0, "reason": "Completed" } });
        let status = json!({ "status": { "phase": "Succeeded", "containerStatuses": [{
            "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state,
        }] } });
        let (name, params) = (delegate.name_any(), PatchParams::default());
        let pods = self.pods_in(target);
        pods.patch_status(&name, &params, &Patch::Strategic(status))
            .await
            .unwrap();
    }
}

/// Pods of a template, which run so long, or complete at once.
fn template(run_for: Option<&str>, exit_code: &str) -> Value {
    let mut annotations = json!({ keys::ELECT: "", kwok::EXIT_CODE: exit_code });
    if let Some(time) = run_for {
        annotations[kwok::RUN_FOR] = time.into();
    }
    json!({
        "metadata": { "annotations": annotations },
        "spec": {
            "restartPolicy": "Never",
            "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": "50m" } } }],
        },
    })
}

fn job(name: &str, template: Value, spec: &Value) -> Value {
    let mut job = json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name }, "spec": spec });
    job["spec"]["template"] = template;
    job
}

/// The reason of a Job's condition that holds.
fn ended<'a>(job: &'a Job, type_: &str) -> Option<&'a str> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let mut all = conditions.iter();
    let it = all.find(|it| it.type_ == type_ && it.status == "True")?;
    Some(it.reason.as_deref().unwrap_or_default())
}

async fn suspend(shop: &Shop, name: &str, suspended: bool) {
    let patch = Patch::Merge(json!({ "spec": { "suspend": suspended } }));
    let jobs = shop.of::<Job>("source");
    jobs.patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_end_as_their_pods_do_in_targets() {
    let shop = Shop::open("jobs").await;
    let indexed = json!({ "completions": 3, "parallelism": 3, "completionMode": "Indexed" });
    let mut retrying = template(None, "0");
    retrying["spec"]["restartPolicy"] = "OnFailure".into();
    let fails_at_three = json!({ "podFailurePolicy": { "rules": [
        { "action": "FailJob", "onExitCodes": { "operator": "In", "values": [3] } },
    ] } });
    let brief = json!({ "activeDeadlineSeconds": 2, "completions": 2, "parallelism": 2 });
    for job in [
        job("indexed", template(None, "0"), &indexed),
        job("retrying", retrying, &json!({})),
        job("failing", template(None, "3"), &fails_at_three),
        job("brief", template(Some(LONG), "0"), &brief),
    ] {
        shop.apply("source", job).await;
    }

    let done = |job: &Job| ended(job, "Complete").is_some();
    shop.until("retrying", done).await;
    let indexed = shop.until("indexed", done).await;
    let status = indexed.status.unwrap();
    assert_eq!(status.completed_indexes.as_deref(), Some("0-2"));
    let proxies = shop.proxies(&format!("{JOB}=indexed"), 3, |_| true).await;
    for proxy in proxies {
        let index = &proxy.labels()[INDEX];
        let (_, delegate) = shop.delegate(&proxy).await;
        let spec = delegate.spec.as_ref().unwrap();
        assert_eq!(spec.hostname, Some(format!("indexed-{index}")));
        // The variable names a label or an annotation of the pod itself.
        let mut variables = spec.containers[0].env.iter().flatten();
        let variable = variables.find(|it| it.name == "JOB_COMPLETION_INDEX");
        let source = variable.unwrap().value_from.as_ref().unwrap();
        let path = &source.field_ref.as_ref().unwrap().field_path;
        let (map, key) = path.trim_end_matches("']").split_once("['").unwrap();
        let map = match map {
            "metadata.labels" => delegate.labels(),
            "metadata.annotations" => delegate.annotations(),
            other => panic!("{other}"),
        };
        assert_eq!(map.get(key), Some(index), "{path}");
    }

    let failed = |job: &Job| ended(job, "Failed").is_some();
    let failing = shop.until("failing", failed).await;
    assert_eq!(ended(&failing, "Failed"), Some("PodFailurePolicy"));
    assert_eq!(failing.status.unwrap().failed, Some(1));
    let brief = shop.until("brief", failed).await;
    assert_eq!(ended(&brief, "Failed"), Some("DeadlineExceeded"));
    shop.proxies(&format!("{JOB}=brief"), 0, |_| true).await;
    let of_brief = format!("{}job-name=brief", keys::PREFIX);
    assert_eq!(shop.delegates(&of_brief).await, 0);
    shop.none_is_left(&of_brief).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_job_has_no_pod_anywhere_and_goes_on_later() {
    let shop = Shop::open("suspended").await;
    let held = job(
        "held",
        template(Some(LONG), "0"),
        &json!({ "suspend": true }),
    );
    shop.apply("source", held).await;
    let of_held = format!("{JOB}=held");
    shop.until("held", |job: &Job| ended(job, "Suspended").is_some())
        .await;
    assert_eq!(
        shop.pods()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        0
    );
    suspend(&shop, "held", false).await;
    shop.proxies(&of_held, 1, is_running).await;
    suspend(&shop, "held", true).await;
    shop.proxies(&of_held, 0, |_| true).await;
    let there = format!("{}job-name=held", keys::PREFIX);
    assert_eq!(
        shop.delegates(&there).await,
        0,
        "a proxy goes after its delegate"
    );
    shop.none_is_left(&there).await;
    suspend(&shop, "held", false).await;
    let proxies = shop.proxies(&of_held, 1, is_running).await;
    shop.succeed(&proxies[0]).await;
    shop.until("held", |job: &Job| ended(job, "Complete").is_some())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_has_succeeded_early_ends_its_other_pods() {
    let shop = Shop::open("success").await;
    let first_will_do = json!({
        "completions": 3, "parallelism": 3, "completionMode": "Indexed",
        "successPolicy": { "rules": [{ "succeededIndexes": "0" }] },
    });
    shop.apply(
        "source",
        job("early", template(Some(LONG), "0"), &first_will_do),
    )
    .await;
    let of_early = format!("{JOB}=early");
    let proxies = shop.proxies(&of_early, 3, is_running).await;
    let first = proxies.iter().find(|it| it.labels()[INDEX] == "0");
    shop.succeed(first.unwrap()).await;
    let early = |job: &Job| ended(job, "Complete").is_some();
    let early = shop.until("early", early).await;
    assert_eq!(ended(&early, "SuccessCriteriaMet"), Some("SuccessPolicy"));
    assert_eq!(
        early.status.unwrap().completed_indexes.as_deref(),
        Some("0")
    );
    let left = shop.proxies(&of_early, 1, |_| true).await;
    assert_eq!(left[0].uid(), first.unwrap().uid());
    let there = format!("{}job-name=early", keys::PREFIX);
    assert_eq!(shop.delegates(&there).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cron_job_and_a_pod_with_a_deadline_end_in_time() {
    let shop = Shop::open("in-time").await;
    let hourly = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": { "name": "hourly" },
        "spec": {
            "schedule": "0 * * * *",
            "suspend": true,
            "jobTemplate": { "spec": { "template": template(None, "0") } },
        },
    });
    shop.apply("source", hourly).await;
    // Its last turn was two hours ago, so that one is due.
    let before = Timestamp::now() - SignedDuration::from_hours(2);
    let before = before.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let last = json!({ "status": { "lastScheduleTime": before } });
    let crons = shop.of::<CronJob>("source");
    let params = PatchParams::default();
    crons
        .patch_status("hourly", &params, &Patch::Merge(last))
        .await
        .unwrap();
    let due = Patch::Merge(json!({ "spec": { "suspend": false } }));
    crons.patch("hourly", &params, &due).await.unwrap();

    // What a kubelet ends is Failed here, for the same reason.
    let pod = build::pod("lasting").elect().tweak(|pod| {
        let spec = pod.spec.as_mut().unwrap();
        spec.active_deadline_seconds = Some(1);
    });
    shop.create(&pod.build()).await;
    let failed = |pod: &Pod| {
        let status = pod.status.as_ref().unwrap();
        status.phase.as_deref() == Some("Failed")
    };
    let lasting = shop.until("lasting", failed).await;
    let reason = lasting.status.unwrap().reason;
    assert_eq!(reason.as_deref(), Some("DeadlineExceeded"));

    let succeeded = |cron: &CronJob| {
        let status = cron.status.as_ref();
        status.is_some_and(|it| it.last_successful_time.is_some())
    };
    shop.until("hourly", succeeded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stateful_set_rolls_from_the_end_and_its_pods_keep_who_they_are() {
    let shop = Shop::open("stateful").await;
    let mut pods = template(None, "0");
    pods["metadata"]["labels"] = json!({ "app": "db" });
    pods["spec"]["restartPolicy"] = "Always".into();
    let db = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "db" },
        "spec": {
            "replicas": 2, "serviceName": "db",
            "selector": { "matchLabels": { "app": "db" } },
            "template": pods,
        },
    });
    let of_db = WatchParams::default().labels("app=db");
    let recorder = Recorder::start(shop.pods(), of_db).await.unwrap();
    shop.apply("source", db).await;
    let is_rolled = |db: &StatefulSet| {
        let status = db.status.clone().unwrap_or_default();
        status.observed_generation == db.metadata.generation
            && status.update_revision == status.current_revision
            && (status.ready_replicas, status.updated_replicas) == (Some(2), Some(2))
    };
    shop.until("db", |db: &StatefulSet| {
        db.status.as_ref().and_then(|it| it.ready_replicas) == Some(2)
    })
    .await;
    let annotations = json!({ "example.com/version": "second" });
    let second = json!({ "spec": { "template": { "metadata": { "annotations": annotations } } } });
    let sets = shop.of::<StatefulSet>("source");
    sets.patch("db", &PatchParams::default(), &Patch::Merge(second))
        .await
        .unwrap();
    shop.until("db", is_rolled).await;

    let events = recorder.events().unwrap();
    let lives = events.iter().filter_map(|event| match event.change {
        Change::Added => Some(format!("+{}", event.object.name_any())),
        Change::Deleted => Some(format!("-{}", event.object.name_any())),
        Change::Modified => None,
    });
    let wanted = ["+db-0", "+db-1", "-db-1", "+db-1", "-db-0", "+db-0"];
    assert_eq!(lives.collect::<Vec<_>>(), wanted);
    for (number, name) in ["db-0", "db-1"].into_iter().enumerate() {
        let proxy = shop.pods().get(name).await.unwrap();
        let (_, delegate) = shop.delegate(&proxy).await;
        let spec = delegate.spec.as_ref().unwrap();
        let called = (spec.hostname.as_deref(), spec.subdomain.as_deref());
        assert_eq!(called, (Some(name), Some("db")));
        let label = |key: &str| delegate.labels()[&format!("{}{key}", keys::PREFIX)].clone();
        assert_eq!(label("pod-name"), name);
        assert_eq!(label("pod-index"), number.to_string());
    }
}

/// Waits until a budget has been counted as it is now.
async fn counted(shop: &Shop, budget: Value) {
    shop.apply("source", budget).await;
    shop.until("web", |budget: &PodDisruptionBudget| {
        let status = budget.status.as_ref();
        status.is_some_and(|it| {
            it.observed_generation == budget.metadata.generation && it.current_healthy == Some(2)
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_virtual_node_is_drained_within_a_budget_and_has_no_delegate_left() {
    let shop = Shop::open("evacuate").await;
    let source = &shop.fleet.source.plane;
    let node = shop.virtual_node("east");
    let others = [shop.virtual_node("north"), shop.virtual_node("west")];
    // Who is cordoned gets no pods.
    source
        .kubectl(&["cordon", &others[0], &others[1]])
        .await
        .unwrap();
    let web = build::deployment("web").replicas(2);
    let web = web.pod(|pod| pod.elect().request("cpu", "50m"));
    shop.apply("source", web.value()).await;
    let proxies = shop.proxies("app=web", 2, is_running).await;
    assert!(proxies.iter().all(|pod| node_of(pod) == Some(&node)));
    source
        .kubectl(&["uncordon", &others[0], &others[1]])
        .await
        .unwrap();

    let budget = |amount: u32| {
        let selector = json!({ "matchLabels": { "app": "web" } });
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web" },
            "spec": { "maxUnavailable": amount, "selector": selector },
        })
    };
    counted(&shop, budget(0)).await;
    let drain = ["drain", &node, "--timeout=10s"];
    let refused = source.kubectl(&drain).await.unwrap_err().to_string();
    assert!(refused.contains("disruption budget"), "{refused}");
    shop.proxies("app=web", 2, is_running).await;
    assert_eq!(
        shop.pods_in("east")
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        2
    );

    counted(&shop, budget(1)).await;
    let drain = ["drain", &node, "--timeout=300s"];
    source.kubectl(&drain).await.unwrap();
    let left = shop.pods_in("east").list(&ListParams::default()).await;
    assert_eq!(
        left.unwrap().items.len(),
        0,
        "it has waited for the delegates"
    );
    shop.until("web", |web: &Deployment| {
        web.status.as_ref().and_then(|it| it.available_replicas) == Some(2)
    })
    .await;
    let all = watcher::Config::default().labels("app=web");
    let pods = list_until(&shop.pods(), all, |pods| pods.len() == 2, LIMIT).await;
    assert!(pods.unwrap().iter().all(|pod| node_of(pod) != Some(&node)));
}
