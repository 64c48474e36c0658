//! Pods that Admiralty made: without our finalizer, and without a record of what it granted.

use super::*;
use crate::{testing::stored_chaperon, wire};

const OF_TARGET: &str = "multicluster.admiralty.io/shop-a";

fn migrated() -> Scene {
    let mut scene = Scene::new();
    scene.proxy.finalizers = vec![OF_TARGET.to_owned()];
    scene.proxy.recorded = false;
    scene
}

fn placed() -> Scene {
    let mut scene = migrated();
    scene.proxy.node_name = Some("a".into());
    scene
}

fn confirms(plan: &Plan) -> Vec<&str> {
    let confirmed = plan.actions.iter().filter_map(|action| match action {
        Action::ConfirmGone {
            uid, plain: true, ..
        } => Some(uid.as_str()),
        _ => None,
    });
    confirmed.collect()
}

fn cleared(plan: &Plan) -> Vec<(&str, bool)> {
    let cleared = plan.actions.iter().filter_map(|action| match action {
        Action::DeleteUnlessRecorded { uid, plain, .. } => Some((uid.as_str(), *plain)),
        _ => None,
    });
    cleared.collect()
}

#[test]
fn nobody_is_asked_before_all_targets_have_told_what_admiralty_granted() {
    for reach in [Reach::Unknown, Reach::Unseen, Reach::Lost] {
        let mut scene = migrated();
        scene.targets.set_reach("e", reach, NOW);
        let plan = scene.step();
        assert_eq!(plan.actions, [], "{reach:?}");
        assert_eq!(plan.gate, Gate::Closed(Note::Unlisted("e".into())));
        // A cycle's choice waits for nothing.
        scene.choice = Some("a".into());
        assert!(matches!(scene.step().choice, ChoiceFate::Failed(_)));
        scene.choice = None;
        scene.targets.set_reach("e", Reach::Reachable, NOW);
        assert_eq!(asked(&scene.step()), ["a", "b", "c"]);
    }
    // What Pilotage's webhook made has a record of each grant; the finalizer comes with it, or came before it once.
    for finalizers in [vec![], vec![keys_of_ours()]] {
        let mut ours = Scene::new().lost("e");
        ours.proxy.recorded = finalizers.is_empty();
        ours.proxy.finalizers = finalizers;
        assert_eq!(asked(&ours.step()), ["a", "b", "c"]);
    }
    let mut elsewhere = migrated();
    let tenant = crate::door::Serves::Namespace("tenant".into());
    elsewhere.targets.set_serves("e", tenant);
    elsewhere.targets.set_reach("e", Reach::Lost, NOW);
    assert_eq!(asked(&elsewhere.step()), ["a", "b", "c"], "of others' pods");
}

#[test]
fn a_target_that_is_given_up_is_not_waited_for() {
    let mut forgotten = migrated();
    let terms = crate::targets::Terms {
        forgotten: true,
        ..Default::default()
    };
    forgotten.targets.set_terms("e", terms);
    forgotten.targets.set_reach("e", Reach::Lost, NOW);
    assert_eq!(asked(&forgotten.step()), ["a", "b", "c"]);
    let mut impatient = migrated();
    let after = Duration::from_mins(1);
    impatient.proxy.lost_policy = Some(LostPolicy::ReplaceAfter(after));
    impatient.targets.set_reach("e", Reach::Lost, NOW);
    let plan = impatient.step();
    assert!(plan.actions.is_empty() && plan.wake_at.is_some_and(|at| at <= NOW + after));
    assert_eq!(asked(&impatient.later(after).step()), ["a", "b", "c"]);
}

#[test]
fn what_is_bound_is_recorded_at_once_and_what_is_granted_when_all_have_told() {
    let granted = || chaperon("a", "ua").plainly_granted().of_plain_source();
    let mut bound = migrated().with(granted().bound()).lost("e");
    assert!(is_record(&bound.step(), "a/ua/-"));
    let mut open = migrated().with(granted()).lost("e");
    let plan = open.step();
    assert_eq!(plan.actions, []);
    assert_eq!(plan.gate, Gate::Closed(Note::Unlisted("e".into())));
    open.targets.set_reach("e", Reach::Reachable, NOW);
    assert!(is_record(&open.step(), "a/ua/-"));
}

#[test]
fn several_grants_of_admiralty_end_with_their_pods_before_anybody_is_asked() {
    let granted = |node, uid| chaperon(node, uid).plainly_granted().of_plain_source();
    let mut scene = migrated().with(granted("a", "ua")).with(granted("b", "ub"));
    let plan = scene.step();
    assert_eq!(cleared(&plan), [("ua", true), ("ub", true)]);
    scene.finish(&plan, &Outcome::Done);

    // One has gone, by whatever hand: its pod may run on, so that the other one isn't kept either.
    scene.chaperons.remove(0);
    let plan = scene.later(Duration::from_mins(1)).step();
    assert_eq!(confirms(&plan), ["ua"]);
    assert!(matches!(plan.gate, Gate::Closed(Note::Asked(_))));
    scene.finish(&plan, &Outcome::StillThere);
    scene.chaperons.clear();
    let plan = scene.later(Duration::from_mins(1)).step();
    assert_eq!(confirms(&plan), ["ua", "ub"]);
    scene.finish(&plan, &Outcome::Gone);
    assert_eq!(asked(&scene.step()), ["a", "b", "c"]);
}

#[test]
fn a_target_that_tells_of_many_grants_hides_no_other_targets() {
    let granted = |node, uid: &str| chaperon(node, uid).plainly_granted().of_plain_source();
    let mut scene = migrated();
    for number in 0..40 {
        scene = scene.with(granted("a", &format!("ua{number}")));
    }
    let mut scene = scene.with(granted("b", "ub"));
    let plan = scene.step();
    scene.finish(&plan, &Outcome::Done);
    scene.chaperons.clear();
    let plan = scene.later(Duration::from_mins(1)).step();
    let confirms = confirms(&plan);
    assert!(
        confirms.contains(&"ub") && confirms.len() <= 9,
        "{confirms:?}"
    );
}

#[test]
fn a_pod_that_admiralty_left_to_its_own_scheduler_is_where_its_chaperon_is() {
    let mut scene = migrated().with(chaperon("a", "ua").of_plain_source());
    scene.proxy.no_reservation = true;
    assert!(is_record(&scene.step(), "a/ua/-"));
    let mut recorded = scene.recorded("a/ua/-");
    recorded.proxy.finalizers.push(keys_of_ours());
    assert_eq!(recorded.step().actions, [], "nothing to grant");
    recorded.later(recorded.settings.give_up);
    assert!(is_delete(&recorded.step(), "ua"));

    // Another one is asked there by us, and has to be granted.
    let mut ours = migrated().with(chaperon("a", "ua"));
    ours.proxy.no_reservation = true;
    let plan = ours.step();
    assert_eq!((plan.gate, plan.actions), (Gate::Open, vec![]));
}

fn keys_of_ours() -> String {
    pilotage_api::keys::DELEGATE_GONE.to_owned()
}

#[test]
fn what_admiralty_only_asked_for_is_asked_anew() {
    let reserved = chaperon("a", "ua").reserved(1).of_plain_source();
    let mut scene = migrated().with(reserved).chose("a");
    let plan = scene.step();
    assert!(matches!(plan.choice, ChoiceFate::Failed(_)));
    assert!(matches!(
        plan.actions.as_slice(),
        [Action::DeleteChaperon { uid, resource_version: Some(_), .. }] if uid == "ua"
    ));
    scene.choice = None;
    let plan = scene.step();
    assert_eq!(plan.answers.get("a"), Some(&Answer::Waiting));
    assert_ne!(plan.gate, Gate::Open, "it isn't offered");
}

#[test]
fn what_admiralty_granted_gets_no_number() {
    let mut reserved = chaperon("a", "ua").reserved(1).of_plain_source().build();
    reserved.marks.is_allowed = true;
    let mut scene = migrated().recorded("a/ua/-");
    scene.chaperons.push(reserved);
    let plan = scene.step();
    assert_eq!(plan.actions, [], "it is bound as it is");
    scene.later(scene.settings.give_up);
    assert!(matches!(
        scene.step().actions.as_slice(),
        [Action::DeleteChaperon { uid, plain: true, resource_version: Some(_), .. }] if uid == "ua"
    ));
}

#[test]
fn a_placed_pod_gets_a_record_of_its_one_chaperon_and_until_then_our_finalizer() {
    let granted = |node, uid| {
        chaperon(node, uid)
            .plainly_granted()
            .of_plain_source()
            .bound()
    };
    let keeps = |plan: &Plan| matches!(plan.actions.as_slice(), [Action::Keep { .. }]);
    let mut one = placed().with(granted("a", "ua")).with(chaperon("b", "ub"));
    assert!(is_record(&one.step(), "a/ua/-"));
    let mut evicted = placed().with(granted("a", "ua").missing());
    assert!(is_record(&evicted.step(), "a/ua/-"));
    let mut ended = placed().with(granted("a", "ua"));
    ended.proxy.terminal = true;
    assert!(is_record(&ended.step(), "a/ua/-"));

    assert!(keeps(&placed().step()), "none is seen");
    assert!(
        keeps(&placed().with(granted("b", "ub")).step()),
        "elsewhere"
    );
    let mut lost = placed().with(granted("a", "ua")).lost("a");
    assert!(keeps(&lost.step()), "nobody knows how many there are");
    let mut two = placed().with(granted("a", "ua")).with(granted("a", "ux"));
    assert!(keeps(&two.step()));
    two.proxy.finalizers.push(keys_of_ours());
    two.memory = Memory::default();
    assert_eq!(two.step().actions, []);

    let mut recorded = placed().with(granted("a", "ua")).recorded("a/ua/-");
    assert_eq!(recorded.step().actions, []);
    let mut ending = placed().with(granted("a", "ua"));
    ending.proxy.ending = true;
    assert_eq!(ending.step().actions, []);
}

#[test]
fn an_adopted_chaperon_is_proved_gone_whatever_its_name() {
    let mut object = stored_chaperon(&proxy(), "ua", "7");
    let labels = object["metadata"]["labels"].as_object_mut().unwrap();
    labels.remove(pilotage_api::keys::PARENT_CLUSTER_UID);
    object["metadata"]["name"] = "web-x7k2p".into();
    let object: pilotage_api::PodChaperon = serde_json::from_value(object).unwrap();
    let view = ChaperonView::of("a", std::sync::Arc::new(object)).unwrap();
    assert!(view.is_of_plain_source());
    assert!(wire::is_among(
        std::slice::from_ref(&view.object.metadata),
        "ua"
    ));

    let mut scene = migrated().recorded("a/ua/-");
    let plan = scene.step();
    assert_eq!(confirms(&plan), ["ua"]);
    scene.finish(&plan, &Outcome::Gone);
    assert_eq!(asked(&scene.step()), ["b", "c", "d"], "left once");
}
