//! Whom to ask next, how long to wait, and when a cycle may run.

use super::*;

#[test]
fn the_first_wave_is_three_or_the_one_that_surely_fits() {
    assert_eq!(asked(&Scene::new().step()), ["a", "b", "c"]);
    let mut sure = Scene::new();
    sure.ranking[0].surely_fits = true;
    assert_eq!(asked(&sure.step()), ["a"]);
    let mut all = Scene::new();
    all.settings.ask_all = true;
    assert_eq!(asked(&all.step()), ["a", "b", "c", "d", "e"]);
}

#[test]
fn a_lost_target_is_not_asked_and_delays_nobody() {
    let mut scene = Scene::new().lost("a");
    assert_eq!(asked(&scene.step()), ["b", "c", "d"]);
}

#[test]
fn silence_widens_the_wave_and_doubles() {
    let mut scene = Scene::new();
    let plan = scene.step();
    assert_eq!(plan.wake_at, Some(NOW + Duration::from_millis(250)));
    scene.finish(&plan, &Outcome::Done);
    for node in ["a", "b", "c"] {
        scene = scene.with(chaperon(node, node));
    }
    assert!(asked(&scene.step()).is_empty());
    scene.later(Duration::from_millis(250));
    assert_eq!(asked(&scene.step()), ["d", "e"]);
}

#[test]
fn a_target_that_answers_others_is_busy_and_not_silent() {
    let mut scene = Scene::new();
    scene.ranking[0].surely_fits = true;
    let plan = scene.step();
    scene.finish(&plan, &Outcome::Done);
    let mut scene = scene.with(chaperon("a", "a"));
    scene.later(Duration::from_millis(200));
    scene.targets.answered("a", scene.now);
    scene.later(Duration::from_millis(200));
    let plan = scene.step();
    assert!(asked(&plan).is_empty());
    assert_eq!(plan.wake_at, Some(NOW + Duration::from_millis(450)));
    scene.later(Duration::from_millis(50));
    assert_eq!(asked(&scene.step()), ["b", "c", "d"]);
}

#[test]
fn refusals_of_the_whole_wave_widen_it_at_once() {
    let mut scene = Scene::new();
    scene.step();
    let mut scene = scene
        .with(chaperon("a", "a").refused(1))
        .with(chaperon("b", "b").refused(1))
        .with(chaperon("c", "c").refused(1));
    assert_eq!(asked(&scene.step()), ["d", "e"]);
}

#[test]
fn when_everybody_refused_the_cycle_runs_to_say_so() {
    let mut scene = Scene::new();
    for node in ["a", "b", "c", "d", "e"] {
        scene = scene.with(chaperon(node, node).refused(1));
    }
    let plan = scene.step();
    assert_eq!(plan.gate, Gate::Open);
    assert!(plan.actions.is_empty());
    assert_eq!(
        plan.answers["a"],
        Answer::Refused("Unschedulable: full".into())
    );
}

#[test]
fn nothing_suits_so_the_cycle_runs_to_say_why() {
    let mut scene = Scene::new();
    scene.ranking.clear();
    assert_eq!(scene.step().gate, Gate::Open);
}

#[test]
fn a_silent_target_holds_the_gate_only_for_a_while() {
    let mut scene = Scene::new();
    scene.ranking.truncate(1);
    scene.step();
    let mut scene = scene.with(chaperon("a", "a"));
    assert!(matches!(scene.step().gate, Gate::Closed(Note::Asked(_))));
    scene.later(Duration::from_secs(5));
    let plan = scene.step();
    assert_eq!(
        (plan.gate, &plan.answers["a"]),
        (Gate::Open, &Answer::Silent)
    );
}

#[test]
fn the_first_reservation_gives_the_rest_of_the_wave_a_moment() {
    let mut scene = Scene::new()
        .with(chaperon("a", "a").reserved(1))
        .with(chaperon("b", "b"));
    let plan = scene.step();
    assert!(matches!(plan.gate, Gate::Closed(_)));
    assert_eq!(plan.wake_at, Some(NOW + Duration::from_millis(50)));
    scene.later(Duration::from_millis(50));
    assert_eq!(scene.step().gate, Gate::Open);
    let mut alone = Scene::new().with(chaperon("a", "a").reserved(1));
    assert_eq!(
        alone.step().gate,
        Gate::Open,
        "everybody who was asked has answered"
    );
}

#[test]
fn a_better_target_is_waited_for_and_a_worse_one_is_not() {
    for (waiting, class, open) in [("a", 0, false), ("c", 1, false), ("c", 2, true)] {
        let mut scene = Scene::new()
            .with(chaperon("b", "b").reserved(1))
            .with(chaperon(waiting, waiting));
        for ranked in &mut scene.ranking {
            ranked.class = if ranked.node == waiting { class } else { 1 };
        }
        assert_eq!(scene.step().gate == Gate::Open, open, "{waiting} {class}");
    }
}

#[test]
fn a_refused_or_failed_question_is_an_answer_and_is_asked_again_later() {
    for (outcome, reason) in [
        (
            Outcome::Refused("namespace not found".into()),
            "namespace not found",
        ),
        (
            Outcome::Unknown("timed out".into()),
            "the target couldn't be asked: timed out",
        ),
    ] {
        let mut scene = Scene::new();
        scene.ranking.truncate(1);
        let plan = scene.step();
        scene.finish(&plan, &outcome);
        let plan = scene.step();
        assert_eq!(plan.gate, Gate::Open);
        assert_eq!(plan.answers["a"], Answer::Refused(reason.into()));
        assert_eq!(plan.wake_at, Some(NOW + Duration::from_millis(250)));
        scene.later(Duration::from_millis(250));
        assert_eq!(asked(&scene.step()), ["a"]);
    }
}

#[test]
fn a_question_that_hangs_becomes_silence() {
    let mut scene = Scene::new();
    scene.ranking.truncate(1);
    scene.step();
    let patience = scene.settings.patience;
    assert!(matches!(
        scene.later(patience / 2).step().gate,
        Gate::Closed(_)
    ));
    let plan = scene.later(patience / 2).step();
    assert_eq!(
        (plan.gate, &plan.answers["a"]),
        (Gate::Open, &Answer::Silent)
    );
}
