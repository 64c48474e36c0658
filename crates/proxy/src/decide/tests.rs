//! The states *open* and *recorded*, row by row, and the waves.

mod evictions;
mod lost;
mod migrated;
mod unasked;
mod unreserved;
mod waves;
mod what_if;
mod words;

use std::time::Duration;

use pilotage_api::lost::LostPolicy;

use super::*;
use crate::{
    plan::{Answer, GrantForm},
    requests::Outcome,
    targets::Terms,
    testing::{ChaperonBuilder, chaperon, proxy, reachable},
    view::Reach,
};

const NOW: Monotonic = Duration::from_secs(1000);

/// One pod's situation; `decide` sees it as a process would that has just met it.
struct Scene {
    proxy: ProxyView,
    chaperons: Vec<ChaperonView>,
    targets: Targets,
    ranking: Vec<Ranked>,
    choice: Option<String>,
    memory: Memory,
    windows: Windows,
    settings: Settings,
    now: Monotonic,
}

impl Scene {
    /// Targets a to e, all reachable and ranked in this order, none surely fitting.
    fn new() -> Self {
        let nodes = ["a", "b", "c", "d", "e"];
        Self {
            proxy: proxy(),
            chaperons: Vec::new(),
            targets: reachable(&nodes),
            ranking: nodes
                .iter()
                .map(|n| Ranked {
                    node: (*n).to_owned(),
                    surely_fits: false,
                    class: 0,
                    kept_away: false,
                })
                .collect(),
            choice: None,
            memory: Memory::default(),
            windows: Windows::default(),
            settings: Settings::default(),
            now: NOW,
        }
    }

    fn with(mut self, chaperon: ChaperonBuilder) -> Self {
        let chaperon = chaperon.build();
        self.chaperons.retain(|c| c.uid != chaperon.uid);
        self.chaperons.push(chaperon);
        self
    }

    fn recorded(mut self, record: &str) -> Self {
        self.proxy.record = RecordState::Is(record.parse().unwrap());
        self
    }

    fn chose(mut self, node: &str) -> Self {
        self.choice = Some(node.to_owned());
        self
    }

    fn lost(mut self, node: &str) -> Self {
        self.targets.set_reach(node, Reach::Lost, self.now);
        self
    }

    /// Decides, and takes the plan as begun.
    fn step(&mut self) -> Plan {
        see(
            &mut self.memory,
            &self.proxy,
            &self.chaperons,
            &self.targets,
            &self.ranking,
            self.now,
        );
        let plan = decide(&Observed {
            proxy: &self.proxy,
            chaperons: &self.chaperons,
            targets: &self.targets,
            ranking: &self.ranking,
            choice: self.choice.as_deref(),
            memory: &self.memory,
            may_say: true,
            windows: &self.windows,
            settings: &self.settings,
            now: self.now,
        });
        self.memory.decided(&plan, self.now);
        for action in &plan.actions {
            self.memory.begin(action, self.now);
        }
        plan
    }

    /// All requests end like this.
    fn finish(&mut self, plan: &Plan, outcome: &Outcome) {
        for action in &plan.actions {
            self.memory
                .finish(action, outcome, &self.settings, self.now);
        }
    }

    fn later(&mut self, by: Duration) -> &mut Self {
        self.now += by;
        self
    }
}

fn asked(plan: &Plan) -> Vec<&str> {
    plan.actions
        .iter()
        .filter_map(|action| match action {
            Action::Ask { node } => Some(node.as_str()),
            _ => None,
        })
        .collect()
}

fn is_record(plan: &Plan, want: &str) -> bool {
    matches!(plan.actions.as_slice(), [Action::Record { record, .. }] if record.to_string() == want)
}

fn is_delete(plan: &Plan, want: &str) -> bool {
    matches!(plan.actions.as_slice(), [Action::DeleteChaperon { uid, .. }] if uid == want)
}

/// What is deleted unless the record names it, by UID.
fn cleared(plan: &Plan) -> Vec<&str> {
    let cleared = plan.actions.iter().filter_map(|action| match action {
        Action::DeleteUnlessRecorded { uid, .. } => Some(uid.as_str()),
        _ => None,
    });
    cleared.collect()
}

fn is_give_up(plan: &Plan, want: &str) -> bool {
    matches!(plan.actions.as_slice(), [Action::GiveUp { uid, .. }] if uid == want)
}

#[test]
fn a_choice_is_recorded_then_granted_then_bound() {
    let mut scene = Scene::new()
        .with(chaperon("a", "ua").reserved(1))
        .with(chaperon("b", "ub").reserved(1))
        .chose("a");
    let plan = scene.step();
    assert!(is_record(&plan, "a/ua/1"), "{plan:?}");
    assert!(
        scene.step().actions.is_empty(),
        "one write to the pod at a time"
    );
    scene.finish(&plan, &Outcome::Done);

    let mut scene = scene.recorded("a/ua/1");
    scene.proxy.resource_version = "2".into();
    let plan = scene.step();
    let [
        Action::Grant {
            uid,
            form: GrantForm::Attempt(1),
            ..
        },
    ] = plan.actions.as_slice()
    else {
        panic!("{plan:?}");
    };
    assert_eq!(uid, "ua");
    scene.finish(&plan, &Outcome::Done);

    let mut scene = scene.with(chaperon("a", "ua").granted(1));
    assert!(scene.step().actions.is_empty(), "granted: wait");
    let mut scene = scene.with(chaperon("a", "ua").granted(1).bound());
    let plan = scene.step();
    assert!(matches!(
        plan.actions.as_slice(),
        [Action::BindProxy { node, .. }, Action::DeleteChaperon { uid, .. }] if node == "a" && uid == "ub"
    ));
    scene.proxy.node_name = Some("a".into());
    assert_eq!(scene.step().choice, ChoiceFate::Done);
}

#[test]
fn a_choice_whose_answer_was_taken_back_fails() {
    for builder in [
        chaperon("a", "ua").refused(2),
        chaperon("a", "ua").ending(),
        chaperon("a", "ua"),
    ] {
        let mut scene = Scene::new().with(builder).chose("a");
        let plan = scene.step();
        assert!(matches!(plan.choice, ChoiceFate::Failed(_)), "{plan:?}");
        assert!(plan.actions.is_empty());
    }
    let mut lost = Scene::new()
        .with(chaperon("a", "ua").reserved(1))
        .chose("a")
        .lost("a");
    assert!(matches!(lost.step().choice, ChoiceFate::Failed(_)));
}

#[test]
fn a_recorded_pod_is_seen_through_without_a_cycle() {
    type Case = (&'static str, ChaperonBuilder, fn(&Plan) -> bool);
    let cases: [Case; 9] = [
        (
            "reserved as recorded: grant",
            chaperon("a", "ua").reserved(1),
            |p| matches!(p.actions.as_slice(), [Action::Grant { .. }]),
        ),
        ("reserved anew: R2", chaperon("a", "ua").reserved(3), |p| {
            is_record(p, "a/ua/3")
        }),
        (
            "void but reserved anew: R2",
            chaperon("a", "ua").marks(2, 1, true),
            |p| is_record(p, "a/ua/2"),
        ),
        (
            "void and refused: given up",
            chaperon("a", "ua").marks(2, 1, false),
            |p| is_give_up(p, "ua"),
        ),
        (
            "missing: it goes",
            chaperon("a", "ua").granted(1).missing(),
            |p| is_delete(p, "ua"),
        ),
        (
            "ending: wait",
            chaperon("a", "ua").granted(1).ending(),
            |p| p.actions.is_empty(),
        ),
        ("granted: wait", chaperon("a", "ua").granted(1), |p| {
            p.actions.is_empty()
        }),
        ("an old view of it: wait", chaperon("a", "ua"), |p| {
            p.actions.is_empty()
        }),
        (
            "bound: bind the proxy",
            chaperon("a", "ua").granted(1).bound(),
            |p| matches!(p.actions.as_slice(), [Action::BindProxy { .. }]),
        ),
    ];
    for (name, builder, want) in cases {
        let mut scene = Scene::new().with(builder).recorded("a/ua/1");
        let plan = scene.step();
        assert!(want(&plan), "{name}: {plan:?}");
        assert!(
            matches!(plan.gate, Gate::Closed(_)),
            "{name}: no cycle runs"
        );
    }
}

#[test]
fn a_record_that_rose_is_granted_again_also_after_a_void_grant() {
    for marks in [(3, 0), (3, 1)] {
        let anew = chaperon("a", "ua").marks(marks.0, marks.1, true);
        let plan = Scene::new().with(anew).recorded("a/ua/3").step();
        assert!(
            matches!(
                plan.actions.as_slice(),
                [Action::Grant {
                    form: GrantForm::Attempt(3),
                    ..
                }]
            ),
            "{marks:?}: {plan:?}"
        );
    }
}

#[test]
fn the_record_is_never_lowered() {
    let mut scene = Scene::new()
        .with(chaperon("a", "ua").reserved(1))
        .recorded("a/ua/2");
    assert!(scene.step().actions.is_empty());
}

#[test]
fn a_record_that_no_grant_followed_is_dead_once_its_attempt_is_past() {
    let mut scene = Scene::new()
        .with(chaperon("a", "ua").refused(2))
        .with(chaperon("b", "ub").reserved(1))
        .recorded("a/ua/1")
        .chose("b");
    assert!(is_record(&scene.step(), "b/ub/1"), "R4");
}

#[test]
fn a_landed_grant_is_left_only_when_its_chaperon_is_proved_gone() {
    let mut scene = Scene::new()
        .with(chaperon("a", "ua").marks(2, 1, false))
        .with(chaperon("b", "ub").reserved(1))
        .recorded("a/ua/1")
        .chose("b");
    let plan = scene.step();
    assert!(is_give_up(&plan, "ua"), "{plan:?}");
    assert!(matches!(plan.choice, ChoiceFate::Failed(_)));
    scene.finish(&plan, &Outcome::Done);
    scene.chaperons.retain(|c| c.uid != "ua");
    let mut scene = scene.with(chaperon("a", "ua").marks(2, 1, false).missing());
    let plan = scene.step();
    assert!(is_delete(&plan, "ua"), "{plan:?}");

    scene.chaperons.retain(|c| c.uid != "ua");
    scene.choice = None;
    scene.finish(&plan, &Outcome::Done);
    let plan = scene.step();
    assert!(
        matches!(plan.actions.as_slice(), [Action::ConfirmGone { uid, .. }] if uid == "ua"),
        "absence is no evidence: {plan:?}"
    );
    assert!(matches!(plan.gate, Gate::Closed(_)));
    scene.finish(&plan, &Outcome::Gone);
    assert_eq!(scene.step().gate, Gate::Open);
    scene.choice = Some("b".into());
    assert!(is_record(&scene.step(), "b/ub/1"), "R3");
}

#[test]
fn a_target_that_was_left_is_asked_again_only_behind_the_others() {
    let mut scene = Scene::new().recorded("a/ua/1");
    scene.memory.confirm_gone("a", "ua");
    assert_eq!(asked(&scene.step()), ["b", "c", "d"]);
}

#[test]
fn a_pod_recorded_at_a_lost_target_is_held_and_its_author_told() {
    let mut scene = Scene::new()
        .with(chaperon("b", "ub").reserved(1))
        .recorded("a/ua/1")
        .lost("a");
    let plan = scene.step();
    assert!(plan.actions.is_empty());
    assert_eq!(plan.gate, Gate::Closed(Note::Held("a".into())));
    assert_eq!(plan.wake_at, Some(NOW + Duration::from_secs(5)));
    scene.later(Duration::from_secs(5));
    assert_eq!(scene.step().tell, Some(Note::Held("a".into())));
    assert_eq!(scene.step().tell, None, "told once");
}

#[test]
fn a_granted_chaperon_that_the_record_does_not_name_is_judged_on_a_live_record() {
    let mut scene = Scene::new()
        .with(chaperon("a", "ua").granted(1))
        .with(chaperon("b", "ub").granted(1))
        .recorded("a/ua/1");
    let plan = scene.step();
    assert!(matches!(
        plan.actions.as_slice(),
        [Action::DeleteUnlessRecorded { uid, .. }] if uid == "ub"
    ));
}

#[test]
fn a_delegate_that_is_seen_behind_another_virtual_node_too_is_no_leftover() {
    let twin = |chaperon: ChaperonBuilder| {
        let mut scene = Scene::new().with(chaperon).recorded("a/u/1");
        let mut behind_b = scene.chaperons[0].clone();
        behind_b.node = "b".into();
        scene.chaperons.push(behind_b);
        scene
    };
    assert!(
        twin(chaperon("a", "u").granted(1))
            .step()
            .actions
            .is_empty()
    );
    let mut bound = twin(chaperon("a", "u").granted(1).bound());
    assert!(matches!(
        bound.step().actions.as_slice(),
        [Action::BindProxy { node, .. }] if node == "a"
    ));
    let mut reserved = twin(chaperon("a", "u").reserved(1));
    assert!(matches!(
        reserved.step().actions.as_slice(),
        [Action::Grant { node, .. }] if node == "a"
    ));
    let mut leaving = twin(chaperon("a", "u").granted(1));
    let terms = Terms {
        leaving: true,
        ..Terms::default()
    };
    leaving.targets.set_terms("b", terms);
    assert!(leaving.step().actions.is_empty());

    // Nobody waits any more for what can't be reached, and it can be ended by the other way.
    let mut given_up = twin(chaperon("a", "u").granted(1)).lost("a");
    let terms = Terms {
        forgotten: true,
        ..Terms::default()
    };
    given_up.targets.set_terms("a", terms);
    let ended = |action: Action| match action {
        Action::DeleteChaperon { node, uid, .. } => Some((node, uid)),
        _ => None,
    };
    let ended: Vec<_> = given_up
        .step()
        .actions
        .into_iter()
        .filter_map(ended)
        .collect();
    assert_eq!(ended, [("b".to_owned(), "u".to_owned())]);
}

#[test]
fn a_damaged_record_stops_everything_until_someone_looks() {
    let mut scene = Scene::new().with(chaperon("a", "ua").reserved(1));
    scene.proxy.record = RecordState::Damaged("x".parse::<Record>().unwrap_err());
    let plan = scene.step();
    assert!(plan.actions.is_empty());
    assert!(matches!(plan.tell, Some(Note::DamagedRecord(_))));
}

#[test]
fn a_pod_without_manifest_is_told_why_it_waits() {
    let mut scene = Scene::new();
    scene.proxy.has_manifest = false;
    let plan = scene.step();
    assert_eq!((plan.tell, plan.actions), (Some(Note::NoManifest), vec![]));
}

#[test]
fn a_pod_of_which_it_isnt_known_where_it_may_run_is_told_so_and_goes_nowhere() {
    for (left_out, waits) in [
        (LeftOut::Words, false),
        (LeftOut::Rules, true),
        (LeftOut::Finalizers, true),
    ] {
        let mut scene = Scene::new();
        scene.proxy.left_out = left_out;
        let plan = scene.step();
        assert_eq!(plan.tell == Some(Note::TooHeavy), waits, "{left_out:?}");
        assert_eq!(plan.actions.is_empty(), waits, "{left_out:?}");
        // What was granted before is bound all the same.
        let mut scene = Scene::new()
            .recorded("a/ua/1")
            .with(chaperon("a", "ua").granted(1).bound());
        scene.proxy.left_out = left_out;
        let plan = scene.step();
        let binds = |action: &Action| matches!(action, Action::BindProxy { .. });
        assert!(plan.actions.iter().any(binds), "{left_out:?}");
    }
}

#[test]
fn an_ending_pod_is_neither_recorded_nor_granted() {
    for record in [None, Some("a/ua/1")] {
        let mut scene = Scene::new()
            .with(chaperon("a", "ua").reserved(1))
            .chose("a");
        if let Some(record) = record {
            scene = scene.recorded(record);
        }
        scene.proxy.ending = true;
        let plan = scene.step();
        assert!(plan.actions.is_empty());
        assert!(matches!(plan.choice, ChoiceFate::Failed(_)));
    }
}

#[test]
fn a_gated_pod_is_not_asked_for() {
    let mut scene = Scene::new();
    scene.proxy.gated = true;
    let plan = scene.step();
    assert_eq!(
        (plan.actions, plan.gate),
        (vec![], Gate::Closed(Note::Gated))
    );
}

#[test]
fn a_conflict_waits_for_a_newer_version_of_the_pod() {
    let mut scene = Scene::new()
        .with(chaperon("a", "ua").reserved(1))
        .chose("a");
    let plan = scene.step();
    scene.finish(&plan, &Outcome::Conflict);
    assert!(scene.step().actions.is_empty());
    scene.proxy.resource_version = "2".into();
    assert!(is_record(&scene.step(), "a/ua/1"));

    // A binding, too.
    let binds = |scene: &mut Scene| {
        let plan = scene.step();
        let binds = matches!(plan.actions.as_slice(), [Action::BindProxy { .. }]);
        binds.then_some(plan)
    };
    let mut scene = Scene::new()
        .with(chaperon("a", "ua").granted(1).bound())
        .recorded("a/ua/1");
    let plan = binds(&mut scene).unwrap();
    scene.finish(&plan, &Outcome::Conflict);
    assert!(scene.step().actions.is_empty());
    scene.proxy.resource_version = "2".into();
    assert!(binds(&mut scene).is_some());
}

#[test]
fn a_plain_target_is_granted_by_version_and_left_only_with_a_list_of_its_pods() {
    let mut plain = chaperon("a", "ua").build();
    plain.class = Class::PlainReserved;
    plain.marks.reserved = true;
    let mut scene = Scene::new().chose("a");
    scene.chaperons.push(plain.clone());
    assert!(is_record(&scene.step(), "a/ua/-"));
    let mut scene = Scene::new().recorded("a/ua/-");
    scene.chaperons.push(plain);
    assert!(matches!(
        scene.step().actions.as_slice(),
        [Action::Grant {
            form: GrantForm::Plain,
            ..
        }]
    ));
    let mut absent = Scene::new().recorded("a/ua/-");
    assert!(matches!(
        absent.step().actions.as_slice(),
        [Action::ConfirmGone { plain: true, .. }]
    ));
}

#[test]
fn a_grant_is_given_up_by_asking_the_target_to_end_the_pod_unless_it_is_bound() {
    let mut scene = Scene::new()
        .with(chaperon("a", "ua").granted(1))
        .recorded("a/ua/1");
    assert!(scene.step().actions.is_empty());
    scene.later(scene.settings.give_up);
    // It is busy: it has just answered others.
    scene.targets.answered("a", scene.now);
    assert!(scene.step().actions.is_empty());
    scene.later(scene.settings.give_up);
    let plan = scene.step();
    let [
        Action::GiveUp {
            uid,
            resource_version,
            ..
        },
    ] = plan.actions.as_slice()
    else {
        panic!("{plan:?}");
    };
    assert_eq!((uid.as_str(), resource_version.as_str()), ("ua", "1-1"));
    scene.finish(&plan, &Outcome::Done);
    // Asked once; the target may take its time…
    let mut scene = scene.with(chaperon("a", "ua").granted(1).gives_up());
    scene.later(scene.settings.give_up);
    assert!(scene.step().actions.is_empty());
    // …until it says that the pod is missing…
    let mut missing = Scene::new()
        .with(chaperon("a", "ua").granted(1).gives_up().missing())
        .recorded("a/ua/1");
    assert!(is_delete(&missing.step(), "ua"));
    // …or bound.
    let mut scene = scene.with(chaperon("a", "ua").granted(1).gives_up().bound());
    assert!(matches!(
        scene.step().actions.as_slice(),
        [Action::BindProxy { .. }]
    ));
}

#[test]
fn a_choice_does_not_wait_for_a_lost_target() {
    let mut scene = Scene::new().recorded("a/ua/1").lost("a").chose("a");
    assert!(matches!(scene.step().choice, ChoiceFate::Failed(_)));
}

#[test]
fn a_reservation_on_a_node_that_no_longer_suits_keeps_nobody_from_asking() {
    let mut scene = Scene::new().with(chaperon("a", "ua").reserved(1));
    scene.ranking.remove(0);
    assert_eq!(asked(&scene.step()), ["b", "c", "d"]);
}

#[test]
fn a_plain_target_is_not_left_on_the_word_of_a_delete() {
    let mut scene = Scene::new().recorded("a/ua/-");
    let delete = Action::DeleteChaperon {
        node: "a".into(),
        name: "web-x".into(),
        uid: "ua".into(),
        plain: true,
        resource_version: None,
    };
    let settings = Settings::default();
    scene.memory.finish(&delete, &Outcome::Gone, &settings, NOW);
    assert!(matches!(
        scene.step().actions.as_slice(),
        [Action::ConfirmGone { plain: true, .. }]
    ));
}

#[test]
fn a_target_whose_chaperon_ended_may_be_chosen_again() {
    for no_reservation in [false, true] {
        let mut scene = Scene::new().recorded("a/ua/1").chose("a");
        scene.proxy.no_reservation = no_reservation;
        scene.memory.confirm_gone("a", "ua");
        let old = scene.step();
        assert!(matches!(old.choice, ChoiceFate::Failed(_)), "{old:?}");
        // Somebody chose again, knowing what there is now.
        if no_reservation {
            assert_eq!(asked(&scene.step()), ["a"]);
        } else {
            scene = scene.with(chaperon("a", "ux").reserved(1));
            assert!(is_record(&scene.step(), "a/ux/1"));
        }
    }
}

/// The grant never landed, the target's Pilotage is down, and the record names all that it holds.
#[test]
fn what_was_given_up_holds_no_node_that_could_be_chosen() {
    let mut scene = Scene::new()
        .recorded("a/ua/1")
        .with(chaperon("a", "ua").reserved(1).gives_up())
        .with(chaperon("b", "ub").reserved(1));
    scene.proxy.lost_policy = Some(LostPolicy::ReplaceAfter(Duration::ZERO));
    scene.step();
    scene.later(Duration::from_mins(1));
    let plan = scene.step();
    assert_eq!(plan.answers["a"], Answer::Silent);
    assert_eq!(plan.answers["b"], Answer::Reserved);
    assert!(is_record(&scene.chose("b").step(), "b/ub/1"));
}
