//! The states *placed*, *ending* and *no such pod*, row by row.

mod lost;
mod migrated;

use pilotage_api::keys;
use serde_json::json;

use super::*;
use crate::{
    ChaperonNews, Reply, Serves, TurnedAway,
    requests::{Outcome, Requests},
    settings::Settings,
    testing::{ChaperonBuilder, chaperon, proxy, reachable, stored_chaperon},
    view::Reach,
};

const NOW: Monotonic = Duration::from_secs(1000);

struct Scene {
    proxy: Option<ProxyView>,
    chaperons: Vec<ChaperonView>,
    targets: Targets,
    memory: Memory,
    was: Option<(&'static str, &'static str)>,
    now: Monotonic,
}

impl Scene {
    fn new() -> Self {
        Self {
            proxy: Some(proxy()),
            chaperons: Vec::new(),
            targets: reachable(&["a", "b"]),
            memory: Memory::default(),
            was: None,
            now: NOW,
        }
    }

    fn placed(record: &str) -> Self {
        let mut scene = Self::new().recorded(record);
        if let Some(proxy) = &mut scene.proxy {
            proxy.node_name = Some("a".into());
        }
        scene
    }

    fn ending(record: Option<&str>) -> Self {
        let mut scene = Self::new();
        if let Some(record) = record {
            scene = scene.recorded(record);
        }
        if let Some(proxy) = &mut scene.proxy {
            proxy.ending = true;
        }
        scene
    }

    fn recorded(mut self, record: &str) -> Self {
        if let Some(proxy) = &mut self.proxy {
            proxy.record = RecordState::Is(record.parse().unwrap());
        }
        self
    }

    fn with(mut self, chaperon: ChaperonBuilder) -> Self {
        self.chaperons.push(chaperon.build());
        self
    }

    fn step(&mut self) -> Plan {
        let pod = Arc::new(Pod::default());
        let cluster = ClusterUid("s1".into());
        (self.memory).see(
            self.proxy.as_ref(),
            &self.chaperons,
            &self.targets,
            self.now,
        );
        let plan = decide(&Observed {
            proxy: self.proxy.as_ref().map(|proxy| (proxy, &pod)),
            chaperons: &self.chaperons,
            targets: &self.targets,
            cluster: &cluster,
            memory: &self.memory,
            was: self.was,
            now: self.now,
        });
        self.memory.decided(&plan, self.now);
        for action in &plan.actions {
            let judged_on = plan.judged_on.as_deref();
            self.memory.begin(action, judged_on, self.now);
        }
        plan
    }

    fn finish(&mut self, plan: &Plan, outcome: &Outcome) {
        for action in &plan.actions {
            self.memory
                .finish(action, outcome, &Settings::default(), self.now);
        }
    }
}

fn deletes(plan: &Plan) -> Vec<&str> {
    plan.actions
        .iter()
        .filter_map(|action| match action {
            Action::DeleteChaperon { uid, .. } => Some(uid.as_str()),
            _ => None,
        })
        .collect()
}

#[test]
fn of_a_delegate_that_says_too_much_nothing_is_copied_and_nothing_ends() {
    let mut scene = Scene::placed("a/ua/1").with(chaperon("a", "ua").granted(1).bound());
    crate::slim::slim(Arc::make_mut(&mut scene.chaperons[0].object));
    for _ in 0..3 {
        let plan = scene.step();
        assert_eq!(plan.actions, [], "it is there, and that is all");
        let told = plan.tell.unwrap();
        assert!(told.contains("more than 1024 KiB of memory"), "{told}");
        scene.now += Duration::from_mins(1);
    }
}

#[test]
fn what_isnt_known_of_a_heavy_pod_is_compared_with_nothing_and_nothing_ends() {
    let mut scene = Scene::placed("a/ua/1").with(chaperon("a", "ua").granted(1).bound());
    if let Some(proxy) = &mut scene.proxy {
        proxy.left_out = LeftOut::Words;
    }
    let plan = scene.step();
    assert_eq!(plan.actions, []);
    let told = plan.tell.unwrap();
    assert!(told.contains("too much memory"), "{told}");
    // That its delegate is gone is seen as of any other.
    let missing = chaperon("a", "ua").granted(1).bound().missing();
    scene.chaperons = vec![missing.build()];
    assert_eq!(deletes(&scene.step()), ["ua"]);
}

#[test]
fn finalizers_that_arent_known_are_not_written_over() {
    for (left_out, goes) in [(LeftOut::Rules, true), (LeftOut::Finalizers, false)] {
        let mut scene = Scene::ending(None);
        if let Some(proxy) = &mut scene.proxy {
            proxy.left_out = left_out;
        }
        let plan = scene.step();
        let removes = |action: &Action| matches!(action, Action::RemoveFinalizer { .. });
        assert_eq!(plan.actions.iter().any(removes), goes, "{left_out:?}");
        assert_eq!(plan.tell.is_none(), goes, "{:?}", plan.tell);
    }
}

#[test]
fn a_leftover_of_a_placed_pod_is_released_unless_the_scheduler_does_it_first() {
    let mut scene = Scene::placed("a/ua/1")
        .with(chaperon("a", "ua").granted(1).bound())
        .with(chaperon("b", "ub").reserved(1));
    let plan = scene.step();
    assert!(deletes(&plan).is_empty());
    assert_eq!(plan.wake_at, Some(NOW + LEFTOVER_AFTER));
    scene.now += LEFTOVER_AFTER;
    assert_eq!(deletes(&scene.step()), ["ub"]);
}

#[test]
fn a_delegate_that_is_seen_behind_another_virtual_node_too_is_no_leftover() {
    let mut scene = Scene::placed("a/u/1").with(chaperon("a", "u").granted(1).bound());
    let mut behind_b = scene.chaperons[0].clone();
    behind_b.node = "b".into();
    scene.chaperons.push(behind_b);
    assert_eq!(scene.step().wake_at, None);
    scene.now += LEFTOVER_AFTER;
    assert!(deletes(&scene.step()).is_empty());
}

#[test]
fn a_placed_pod_goes_when_its_delegate_is_proved_gone() {
    let mut scene = Scene::placed("a/ua/1").with(chaperon("a", "ua").granted(1).bound().missing());
    assert_eq!(deletes(&scene.step()), ["ua"]);
    // Made again there, it finds no node: another target may have one.
    let mut scene = Scene::placed("a/ua/1").with(chaperon("a", "ua").marks(2, 1, false));
    let plan = scene.step();
    assert!(matches!(
        plan.actions.as_slice(),
        [Action::DeleteChaperon { uid, resource_version: Some(_), .. }] if uid == "ua"
    ));

    let mut scene = Scene::placed("a/ua/1");
    let plan = scene.step();
    assert!(matches!(plan.actions.as_slice(), [Action::ConfirmGone { uid, .. }] if uid == "ua"));
    scene.finish(&plan, &Outcome::Gone);
    assert_eq!(scene.step().actions, [Action::DeleteProxy]);
}

#[test]
fn a_lost_target_changes_nothing_for_a_placed_pod() {
    let mut scene = Scene::placed("a/ua/1");
    scene.targets.set_reach("a", Reach::Lost, NOW);
    assert_eq!(scene.step().actions, []);
}

fn bound_and(phase: &str) -> ChaperonView {
    let mut bound = chaperon("a", "ua").granted(1).bound().build();
    bound.object = Arc::new(
        serde_json::from_value(json!({
            "apiVersion": "multicluster.admiralty.io/v1alpha1",
            "kind": "PodChaperon",
            "metadata": {},
            "spec": {},
            "status": { "phase": phase },
        }))
        .unwrap(),
    );
    bound
}

#[test]
fn a_running_delegates_status_is_copied_at_once_and_bursts_are_merged() {
    let mut scene = Scene::placed("a/ua/1");
    scene.chaperons.push(bound_and("Running"));
    let plan = scene.step();
    assert!(
        matches!(plan.actions.as_slice(), [Action::CopyStatus { .. }]),
        "the first at once"
    );
    scene.finish(&plan, &Outcome::Done);
    let plan = scene.step();
    assert_eq!(
        (plan.actions.len(), plan.wake_at),
        (0, Some(NOW + COPY_EVERY))
    );
}

#[test]
fn a_pending_delegates_status_waits_for_what_comes_next() {
    let mut scene = Scene::placed("a/ua/1");
    scene.chaperons.push(bound_and("Pending"));
    let plan = scene.step();
    assert_eq!(
        (plan.actions.len(), plan.wake_at),
        (0, Some(NOW + COPY_EVERY))
    );
    scene.now += COPY_EVERY;
    assert!(matches!(
        scene.step().actions.as_slice(),
        [Action::CopyStatus { .. }]
    ));
}

#[test]
fn annotations_are_copied_when_no_status_is_on_its_way() {
    let mut scene = Scene::placed("a/ua/1");
    let mut bound = bound_and("Running");
    let object = Arc::make_mut(&mut bound.object);
    object.metadata.annotations = Some([("cni".into(), "1".into())].into());
    scene.chaperons.push(bound);
    let plan = scene.step();
    assert!(
        matches!(plan.actions.as_slice(), [Action::CopyStatus { .. }]),
        "each makes the other one's version old"
    );
    assert_eq!(scene.step().actions, []);
    scene.finish(&plan, &Outcome::Done);
    assert!(matches!(
        scene.step().actions.as_slice(),
        [Action::CopyAnnotations { .. }]
    ));
}

#[test]
fn annotations_that_change_all_the_time_are_copied_at_a_pace() {
    let mut scene = Scene::placed("a/ua/1");
    let words = |scene: &mut Scene, word: &str| {
        let mut bound = chaperon("a", "ua").granted(1).build();
        let object = Arc::make_mut(&mut bound.object);
        object.metadata.annotations = Some([("cni".into(), word.into())].into());
        scene.chaperons = vec![bound];
        let plan = scene.step();
        scene.finish(&plan, &Outcome::Conflict);
        scene.memory.requests = Requests::default();
        (plan.actions.len(), plan.wake_at)
    };
    assert_eq!(words(&mut scene, "1"), (1, None), "the first at once");
    scene.now += Duration::from_millis(1);
    let next = NOW + COPY_EVERY;
    for word in ["2", "3", "2"] {
        assert_eq!(words(&mut scene, word), (0, Some(next)));
    }
    scene.now = next;
    assert_eq!(words(&mut scene, "3"), (1, None));
}

#[test]
fn an_ending_pod_takes_its_chaperons_along_and_waits_for_the_recorded_one() {
    let mut scene = Scene::ending(Some("a/ua/1"))
        .with(chaperon("a", "ua").granted(1).bound())
        .with(chaperon("b", "ub").reserved(1));
    let plan = scene.step();
    assert_eq!(deletes(&plan), ["ua", "ub"]);
    assert_eq!(plan.actions.len(), 2, "the finalizer stays");

    scene.memory.confirm_gone("a", "ua");
    scene.chaperons.clear();
    assert!(matches!(
        scene.step().actions.as_slice(),
        [Action::RemoveFinalizer { remaining, .. }] if remaining.is_empty()
    ));
}

#[test]
fn only_the_recorded_target_holds_an_ending_pod() {
    let mut nobody = Scene::ending(None);
    nobody.targets.set_reach("b", Reach::Lost, NOW);
    assert!(matches!(
        nobody.step().actions.as_slice(),
        [Action::RemoveFinalizer { .. }]
    ));

    let mut absent = Scene::ending(Some("a/ua/1"));
    assert!(
        matches!(
            absent.step().actions.as_slice(),
            [Action::ConfirmGone { .. }]
        ),
        "absence is no evidence"
    );

    let mut lost = Scene::ending(Some("a/ua/1"));
    lost.targets.set_reach("a", Reach::Lost, NOW);
    let plan = lost.step();
    assert!(plan.actions.is_empty() && plan.tell.is_some());

    let mut unknown = Scene::ending(Some("gone/ua/1"));
    assert!(
        unknown.step().actions.is_empty(),
        "not knowing it proves nothing"
    );

    let mut removed = Scene::ending(Some("gone/ua/1"));
    removed.targets.see(None, removed.proxy.as_ref());
    removed.targets.set_reach("gone", Reach::NoSuchTarget, NOW);
    assert!(matches!(
        removed.step().actions.as_slice(),
        [Action::RemoveFinalizer { .. }]
    ));
}

#[test]
fn a_grace_period_that_no_kubelet_would_end_is_ended_first() {
    let mut scene = Scene::ending(None);
    if let Some(proxy) = &mut scene.proxy {
        proxy.deletion_grace_seconds = 30;
    }
    assert_eq!(scene.step().actions, [Action::EndGrace]);
}

#[test]
fn an_orphan_is_judged_on_a_live_read_and_other_sources_are_left_alone() {
    for (cluster, want) in [("s1", 1), ("s2", 0)] {
        let mut orphan = chaperon("a", "ua").granted(1).build();
        orphan.object = Arc::new(
            serde_json::from_value(json!({
                "apiVersion": "multicluster.admiralty.io/v1alpha1",
                "kind": "PodChaperon",
                "metadata": {
                    "labels": { keys::PARENT_UID: "p", keys::PARENT_CLUSTER_UID: cluster },
                    "annotations": { keys::PARENT_NAME: "web", keys::PARENT_NAMESPACE: "shop" },
                },
                "spec": {},
            }))
            .unwrap(),
        );
        let mut scene = Scene::new();
        scene.proxy = None;
        scene.chaperons.push(orphan);
        let plan = scene.step();
        assert_eq!(plan.actions.len(), want);
        assert!(
            plan.actions
                .iter()
                .all(|a| matches!(a, Action::DeleteIfOrphan { .. }))
        );
    }
}

#[test]
fn who_does_not_lead_keeps_nothing_of_parents_that_are_gone() {
    let mut book = Book::new(ClusterUid("source".into()));
    book.set_serves("a", Serves::Everybody);
    let chaperon = |version: &str| {
        let object = stored_chaperon(&proxy(), "ua", version);
        Arc::new(serde_json::from_value(object).unwrap())
    };
    // Its pod was told, or wasn't, and its end twice: as it comes from two watches.
    let heard = book.chaperon("a", ChaperonNews::Applied(chaperon("1")));
    assert_eq!(heard.parents, ["p"]);
    assert_eq!(book.uids().count(), 1);
    for version in ["2", "3"] {
        let heard = book.chaperon("a", ChaperonNews::Deleted(chaperon(version)));
        assert_eq!(heard.turned_away, None);
        assert_eq!(book.uids().count(), 0);
    }
}

#[test]
fn what_a_copy_brought_back_is_known_unless_the_pod_has_gone() {
    let mut book = Book::new(ClusterUid("home".into()));
    let pod = |version: &str| -> Arc<Pod> {
        let object = json!({
            "metadata": { "name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": version },
            "spec": { "containers": [] },
        });
        Arc::new(serde_json::from_value(object).unwrap())
    };
    let answered = |book: &mut Book, version: &str| {
        let copy = Action::CopyStatus { patch: json!({}) };
        let reply = Reply {
            proxy: Some(pod(version)),
            ..Outcome::Done.into()
        };
        let admitted = book.answered("u1", &copy, reply, &Settings::default(), NOW);
        assert_eq!(admitted, Ok(()));
        book.pod("u1")
            .map(|(view, _)| view.resource_version.clone())
    };
    book.proxy_applied(pod("1"));
    assert_eq!(answered(&mut book, "2").as_deref(), Some("2"));
    book.proxy_gone("u1");
    assert_eq!(answered(&mut book, "3"), None);
}

#[test]
fn orphans_of_one_target_are_seen_to_one_after_the_other() {
    let mut book = Book::new(ClusterUid("source".into()));
    book.proxies_listed();
    let parents: Vec<String> = (0..500).map(|number| format!("p{number}")).collect();
    for node in ["evil", "good"] {
        book.set_serves(node, Serves::Everybody);
        book.set_reach(node, Reach::Reachable, NOW);
    }
    let mut forge = |node: &str, parent: &String| {
        let mut of = proxy();
        (of.uid, of.name) = (parent.clone(), format!("web-{parent}"));
        let object = stored_chaperon(&of, &format!("{node}-{parent}"), "1");
        let forged = Arc::new(serde_json::from_value(object).unwrap());
        let heard = book.chaperon(node, ChaperonNews::Applied(forged));
        assert_eq!(
            (heard.parents, heard.turned_away),
            (vec![parent.clone()], None)
        );
    };
    for parent in &parents {
        forge("evil", parent);
    }
    forge("good", &parents[0]);
    let mut seen_to = |now| {
        let plans = parents.iter().map(|parent| book.plan(parent, now).unwrap());
        let actions: Vec<_> = plans
            .inspect(|plan| {
                let later = plan.wake_at.is_some_and(|at| at > now);
                assert!(later || !plan.actions.is_empty(), "it waits for something");
            })
            .flat_map(|plan| plan.actions)
            .collect();
        let of = |node| actions.iter().filter(|it| it.node() == Some(node)).count();
        (of("evil"), of("good"))
    };
    assert_eq!(seen_to(NOW), (101, 1));
    // What was sent is under way in truth; here nothing was, and each of them asks for a turn anew.
    let (evil, _) = seen_to(NOW + Duration::from_secs(1));
    assert!(evil <= 50, "{evil}");
}

#[test]
fn few_chaperons_of_one_pod_are_known_in_one_target() {
    let mut book = Book::new(ClusterUid("source".into()));
    let pod = |name: &str, uid: &str| -> Arc<Pod> {
        let object = json!({
            "metadata": { "name": name, "namespace": "shop", "uid": uid, "resourceVersion": "1" },
            "spec": { "containers": [] },
        });
        Arc::new(serde_json::from_value(object).unwrap())
    };
    book.proxy_applied(pod("web", "p"));
    for node in ["evil", "good"] {
        book.set_serves(node, Serves::Everybody);
    }
    // As plain sources name them.
    let mut tell = |node: &str, name: &str, gone: bool| {
        let mut object = stored_chaperon(&proxy(), name, "1");
        let labels = object["metadata"]["labels"].as_object_mut().unwrap();
        labels.remove(keys::PARENT_CLUSTER_UID);
        object["metadata"]["name"] = json!(name);
        let object = Arc::new(serde_json::from_value(object).unwrap());
        let heard = book.chaperon(
            node,
            if gone {
                ChaperonNews::Deleted(object)
            } else {
                ChaperonNews::Applied(object)
            },
        );
        (heard.turned_away, book.world().of("p").len())
    };
    for number in 1..=8 {
        let name = format!("web-{number}");
        assert_eq!(tell("evil", &name, false), (None, number));
    }
    assert_eq!(tell("evil", "web-9", false), (Some(TurnedAway::Crowd), 8));
    assert_eq!(tell("evil", "web-8", false), (None, 8), "it is known");
    assert_eq!(tell("good", "web-1", false), (None, 9));
    // The pod's own is let in.
    let own = proxy().chaperon_name();
    assert_eq!(tell("evil", &own, false), (None, 10));
    assert_eq!(tell("evil", &own, true), (None, 9));
    assert_eq!(tell("evil", "web-1", true), (None, 8));
    assert_eq!(tell("evil", "web-9", false), (None, 9));
}

#[test]
fn who_only_stands_by_keeps_few_proofs_and_the_one_that_a_record_needs() {
    let mut book = Book::new(ClusterUid("source".into()));
    book.set_serves("a", Serves::Everybody);
    let pod = json!({
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "p", "resourceVersion": "1",
            "annotations": { keys::GRANTED_TO: "a/u0/1" },
        },
        "spec": { "containers": [] },
    });
    book.proxy_applied(Arc::new(serde_json::from_value(pod).unwrap()));
    for number in 0..100 {
        let last = stored_chaperon(&proxy(), &format!("u{number}"), "1");
        let last = Arc::new(serde_json::from_value(last).unwrap());
        let heard = book.chaperon("a", ChaperonNews::Deleted(last));
        assert_eq!(heard.turned_away, None);
    }
    let memory = book.memory("p").unwrap();
    let known = |number: &u32| memory.is_gone("a", &format!("u{number}"));
    assert!((0..100).filter(known).count() <= 33 && known(&0));
}

#[test]
fn a_target_that_comes_and_goes_concerns_only_whom_it_serves_who_names_it_and_its_orphans() {
    let mut book = Book::new(ClusterUid("source".into()));
    for (node, namespace) in [("tenant", "tenant"), ("a", "shop")] {
        book.set_serves(node, Serves::Namespace(namespace.into()));
    }
    for (uid, record) in [("1", "a/u/1"), ("2", "nowhere/u/1")] {
        let pod = json!({
            "metadata": {
                "name": uid, "namespace": "shop", "uid": uid, "resourceVersion": "1",
                "annotations": { keys::GRANTED_TO: record },
            },
            "spec": { "containers": [] },
        });
        book.proxy_applied(Arc::new(serde_json::from_value(pod).unwrap()));
    }
    let orphan = stored_chaperon(&proxy(), "u", "1");
    let orphan = ChaperonNews::Applied(Arc::new(serde_json::from_value(orphan).unwrap()));
    assert_eq!(book.chaperon("a", orphan).turned_away, None);
    let concerned = |node| -> Vec<String> {
        let mut uids = book.concerned(node);
        uids.sort();
        uids
    };
    assert_eq!(concerned("tenant"), [""; 0]);
    assert_eq!(concerned("a"), ["1", "2", "p"], "and its orphan's parent");
    assert_eq!(concerned("nowhere"), ["2"]);
}
