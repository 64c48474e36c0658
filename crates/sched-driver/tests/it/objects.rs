//! A plugin that reads Services: they are watched because it wants them, and one that comes brings its pod back.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use kube::api::{DeleteParams, PostParams};
use pilotage_sched::{
    Actions, Context, CycleState, EnqueueExtensions, EventKind, EventResource, Kind, Plugin,
    PluginName, PodInfo, PreFilter, PreFiltered, Status, Verdict,
};
use pilotage_testkit::wait_for;

use crate::fixture::{LIMIT, Running, create, node_of, plane, pod};

/// A pod needs a service of its own name.
struct Served;

impl Plugin for Served {
    fn name(&self) -> PluginName {
        "Served"
    }

    fn wants(&self) -> &'static [Kind] {
        &[Kind::Service]
    }
}

impl EnqueueExtensions for Served {
    fn events(&self) -> Vec<EventKind> {
        let services = EventResource::Object(Kind::Service);
        vec![EventKind::new(services, Actions::ALL)]
    }
}

impl PreFilter for Served {
    fn pre_filter(
        &self,
        cx: &Context<'_>,
        _: &mut CycleState,
        pod: &PodInfo,
    ) -> Verdict<PreFiltered> {
        match cx.objects().services().get(&pod.key) {
            Some(_) => Ok(PreFiltered::AllNodes),
            None => Err(Status::unschedulable("nobody serves it")),
        }
    }
}

fn service(name: &str) -> Service {
    let port = ServicePort {
        port: 80,
        ..ServicePort::default()
    };
    let mut service = Service::default();
    service.metadata.name = Some(name.to_owned());
    service.spec = Some(ServiceSpec {
        ports: Some(vec![port]),
        selector: Some(BTreeMap::from([("app".to_owned(), name.to_owned())])),
        ..ServiceSpec::default()
    });
    service
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_plugin_wants_is_watched_and_brings_pods_back() {
    let plane = plane().await;
    let namespace = plane.namespace("served").await.unwrap();
    let services = namespace.api::<Service>();
    let params = PostParams::default();
    services.create(&params, &service("early")).await.unwrap();
    // Rights to read services come with the plugins that do.
    let client = plane.admin();
    let running = Running::start(
        &plane,
        namespace.name(),
        |profile| profile.pre_filter(Arc::new(Served)),
        |options| options.client = client,
    )
    .await;
    let (told, pods) = (&running.told, namespace.api());
    // The first list of services is complete before the first attempt.
    create(&namespace, pod(&namespace, "early", "hundred")).await;
    wait_for(&pods, "early", |pod| node_of(pod).is_some(), LIMIT)
        .await
        .unwrap();
    assert_eq!(told.count("failed early"), 0);

    create(&namespace, pod(&namespace, "late", "hundred")).await;
    let line = told.wait("failed late", 1).await;
    assert!(line.contains("nobody serves it"), "{line}");
    services.create(&params, &service("late")).await.unwrap();
    wait_for(&pods, "late", |pod| node_of(pod).is_some(), LIMIT)
        .await
        .unwrap();

    let now = DeleteParams::default();
    services.delete("late", &now).await.unwrap();
    create(&namespace, pod(&namespace, "later", "hundred")).await;
    told.wait("failed later", 1).await;
    running.stop().await;
}
