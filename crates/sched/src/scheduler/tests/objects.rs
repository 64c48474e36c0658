//! Objects beside pods and nodes: a plugin reads them, and what happens to them brings pods back.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Service, ServiceSpec};

use super::{add, add_node, assumed, at, failed, scheduler, stock};
use crate::context::Context;
use crate::event::{Actions, Event, EventKind, EventObject, EventResource, Hint};
use crate::names::ObjectKey;
use crate::objects::{Kind, PairSelector, Stored as _};
use crate::plugin::{EnqueueExtensions, Plugin, PreFilter, PreFiltered};
use crate::plugins::stock_profile;
use crate::pod_info::PodInfo;
use crate::queue::Place;
use crate::state::CycleState;
use crate::status::{PluginName, Status, Verdict};
use crate::test_objects::{NeverBinds, pod, pods_with, uid};

/// A pod needs a service of its own name.
struct Served;

fn app_of(service: &PairSelector) -> Option<&str> {
    service.pairs.get("app").map(String::as_str)
}

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
        vec![EventKind::new(
            EventResource::Object(Kind::Service),
            Actions::ADD,
        )]
    }

    fn hint(&self, pod: &PodInfo, event: &Event) -> Hint {
        let EventObject::Other { new: Some(new), .. } = &event.object else {
            return Hint::Queue;
        };
        let service = new.downcast_ref::<PairSelector>().unwrap();
        Hint::queue_if(app_of(service) == Some(&*pod.key.name))
    }
}

impl PreFilter for Served {
    fn pre_filter(
        &self,
        cx: &Context<'_>,
        _state: &mut CycleState,
        pod: &PodInfo,
    ) -> Verdict<PreFiltered> {
        match cx.objects().services().get(&pod.key) {
            Some(_) => Ok(PreFiltered::AllNodes),
            None => Err(Status::unschedulable("nobody serves it")),
        }
    }
}

fn service(name: &str) -> Arc<Service> {
    let mut service = Service::default();
    service.metadata.name = Some(name.to_owned());
    let some = pod("any").info();
    service.metadata.namespace = Some(some.key.namespace.to_string());
    service.spec = Some(ServiceSpec {
        selector: Some([("app".to_owned(), name.to_owned())].into()),
        ..ServiceSpec::default()
    });
    Arc::new(service)
}

#[test]
fn a_plugin_reads_what_it_wants_and_waits_for_it() {
    let profile = stock_profile("test", Arc::new(NeverBinds))
        .evicting_nobody()
        .disable("PodTopologySpread")
        .pre_filter(Arc::new(Served));
    let mut scheduler = scheduler(profile);
    let wanted = scheduler.wanted_kinds();
    assert!(wanted.contains(&Kind::Service) && !wanted.contains(&Kind::StorageClass));
    add_node(&mut scheduler, "n", "4");
    add(&mut scheduler, pod("p"));
    let told = failed(&mut scheduler, 0).message().to_owned();
    assert!(told.contains("nobody serves it"), "{told}");
    let applied = |scheduler: &mut super::Scheduler, name: &str, now: u64| {
        scheduler.apply(service(name).object(), at(now)).unwrap()
    };
    assert_eq!(applied(&mut scheduler, "other", 1), 0);
    assert_eq!(scheduler.place(&uid("p")), Some(Place::Unschedulable));
    assert_eq!(applied(&mut scheduler, "p", 60), 1);
    assert_eq!(applied(&mut scheduler, "p", 60), 0, "told once");
    let placed = assumed(&mut scheduler);
    let _ = scheduler.binding_failed(placed, Status::error("on purpose"), at(60));

    let key = ObjectKey {
        name: "p".into(),
        ..pod("p").info().key.clone()
    };
    scheduler.remove(Kind::Service, &key, at(61));
    scheduler.flush(at(120));
    let told = failed(&mut scheduler, 120).message().to_owned();
    assert!(told.contains("nobody serves it"), "{told}");
    assert_eq!(scheduler.remove(Kind::Service, &key, at(61)), 0);
}

#[test]
fn what_no_plugin_reads_of_a_namespace_brings_nobody_back() {
    let mut scheduler = stock();
    let namespace = |team: &str, note: &str| {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some("other".to_owned());
        namespace.metadata.labels = Some([("team".to_owned(), team.to_owned())].into());
        namespace.metadata.annotations = Some([("note".to_owned(), note.to_owned())].into());
        Arc::new(namespace).object()
    };
    scheduler.apply(namespace("a", "1"), at(0)).unwrap();
    add(
        &mut scheduler,
        pod("p").near(pods_with("zone", &[("app", "web")])),
    );
    failed(&mut scheduler, 0);
    for note in ["2", "2"] {
        let moved = scheduler.apply(namespace("a", note), at(60)).unwrap();
        assert_eq!(moved, 0);
        assert_eq!(scheduler.place(&uid("p")), Some(Place::Unschedulable));
    }
    let moved = scheduler.apply(namespace("b", "2"), at(60)).unwrap();
    assert_eq!(moved, 1);
    assert_eq!(scheduler.place(&uid("p")), Some(Place::Active));
}
