//! Whom to ask next, how long to wait, and when a cycle may run.

use super::*;
use crate::{
    settings::LONGEST_BUSY,
    wave::CROWDED,
    window::{FEW, Standing, Ticket},
};

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
fn a_target_that_others_leave_soon_is_waited_for_while_they_move_and_not_asked() {
    let silence = Duration::from_millis(250);
    let mut scene = Scene::new();
    scene.ranking.truncate(2);
    (scene.ranking[0].kept_away, scene.ranking[1].class) = (true, CROWDED);
    let waits = |scene: &mut Scene| {
        let plan = scene.step();
        assert_eq!(plan.gate, Gate::Closed(Note::Others));
        assert!(plan.actions.is_empty());
        assert_eq!(plan.wake_at, Some(scene.now + silence));
    };
    waits(&mut scene);
    // Somebody came.
    scene.later(silence.saturating_sub(Duration::from_millis(1)));
    (scene.ranking[0].kept_away, scene.ranking[1].kept_away) = (false, true);
    scene.ranking.swap(0, 1);
    (scene.ranking[0].class, scene.ranking[1].class) = (0, CROWDED);
    waits(&mut scene);
    // Nobody else comes.
    assert_eq!(asked(&scene.later(silence).step()), ["a"]);
    // One that is as good is asked at once.
    let mut equal = Scene::new();
    equal.ranking[0].kept_away = true;
    assert_eq!(asked(&equal.step()), ["b", "c", "d"]);
}

#[test]
fn a_node_that_is_held_too_early_is_kept_for_a_while() {
    let mut scene = Scene::new().with(chaperon("a", "ua").reserved(1));
    scene.ranking.truncate(2);
    scene.ranking[0].kept_away = true;
    let plan = scene.step();
    assert_eq!(
        (plan.gate, plan.actions),
        (Gate::Closed(Note::Others), vec![])
    );
    let after = NOW + Duration::from_millis(250);
    assert_eq!(plan.wake_at, Some(after));
    scene.now = after;
    assert_eq!(asked(&scene.step()), ["b"]);
    scene.ranking[0].kept_away = false;
    assert_eq!(scene.step().gate, Gate::Open);
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

/// Other pods, as many as it may have, are on their way to `node`.
fn fill(scene: &mut Scene, node: &str) {
    for number in 0..FEW {
        let pod = format!("other-{number}");
        scene.windows.enter(node, &pod, scene.now);
    }
}

#[test]
fn who_has_too_many_on_their_way_gives_way_to_equals_only() {
    let mut scene = Scene::new();
    fill(&mut scene, "a");
    fill(&mut scene, "b");
    assert_eq!(asked(&scene.step()), ["c", "d", "e"]);

    let mut scene = Scene::new();
    fill(&mut scene, "b");
    for (ranked, class) in scene.ranking.iter_mut().zip(0..) {
        ranked.class = class;
    }
    assert_eq!(asked(&scene.step()), ["a"], "b is busy, and better than c");

    let mut scene = Scene::new();
    scene.settings.ask_all = true;
    fill(&mut scene, "a");
    scene.ranking[0].class = 0;
    scene.ranking[1].class = 1;
    assert_eq!(asked(&scene.step()), ["b", "c", "d", "e"]);
}

#[test]
fn who_waits_for_a_better_target_waits_for_no_worse_one() {
    let mut scene = Scene::new();
    scene.ranking.truncate(2);
    scene.ranking[1].class = 1;
    fill(&mut scene, "a");
    fill(&mut scene, "b");
    let plan = scene.step();
    assert!(asked(&plan).is_empty());
    assert_eq!(plan.queue, ["a"]);
}

/// One of the others at `node` is answered.
fn answer(scene: &mut Scene, node: &str, number: usize) {
    let other = Ticket::new(0, 0, format!("other-{number}"));
    let standings = [(node, Standing::Answered)].into();
    scene.windows.see(&other, &standings, scene.now);
}

#[test]
fn a_pod_waits_quietly_for_its_turn() {
    let mut scene = Scene::new();
    scene.ranking.truncate(2);
    scene.ranking[1].class = 1;
    fill(&mut scene, "a");
    let plan = scene.step();
    assert!(asked(&plan).is_empty());
    assert_eq!(plan.gate, Gate::Closed(Note::Queued));
    assert_eq!(plan.queue, ["a"]);
    assert_eq!(plan.answers["a"], Answer::Busy);
    // As long as it answers.
    scene.later(Duration::from_millis(1500));
    answer(&mut scene, "a", 0);
    let plan = scene.later(Duration::from_millis(1500)).step();
    assert!(asked(&plan).is_empty() && plan.tell.is_none());
    let plan = scene.later(Duration::from_millis(500)).step();
    assert_eq!(asked(&plan), ["b"], "a owes answers and gives none");
}

#[test]
fn nobody_waits_for_a_busy_target_for_ever() {
    let mut scene = Scene::new();
    scene.ranking.truncate(2);
    scene.ranking[1].class = 1;
    fill(&mut scene, "a");
    for number in 0..FEW {
        answer(&mut scene, "a", number);
    }
    let plan = scene.step();
    assert_eq!(plan.wake_at, Some(NOW + Duration::from_secs(30)));
    scene.later(Duration::from_secs(29));
    assert_eq!(scene.step().gate, Gate::Closed(Note::Queued));
    scene.later(Duration::from_secs(1));
    assert_eq!(asked(&scene.step()), ["b"]);
}

/// Neither a record that is dead, nor a node that can't be chosen, begins the half minute anew.
#[test]
fn a_pod_that_lost_its_place_does_not_wait_for_ever_either() {
    let left = || {
        let mut scene = Scene::new().recorded("a/ua/1");
        scene.memory.confirm_gone("a", "ua");
        scene
    };
    let given_up = || {
        let spent = chaperon("c", "uc").reserved(1).gives_up();
        let mut scene = Scene::new().recorded("c/uc/1").with(spent);
        scene.proxy.lost_policy = Some(LostPolicy::ReplaceAfter(Duration::ZERO));
        scene.step();
        scene.later(LONGEST_BUSY);
        scene
    };
    let unsuitable = || {
        let mut scene = Scene::new().with(chaperon("c", "uc").reserved(1));
        scene.ranking.retain(|ranked| ranked.node != "c");
        scene
    };
    for mut scene in [left(), given_up(), unsuitable()] {
        // b is busy, and better than what else there is.
        scene.ranking.retain(|ranked| ranked.node != "a");
        for ranked in scene.ranking.iter_mut().skip(1) {
            ranked.class = 1;
        }
        fill(&mut scene, "b");
        for number in 0..FEW {
            answer(&mut scene, "b", number);
        }
        assert_eq!(scene.step().queue, ["b"]);
        scene.later(Duration::from_secs(20));
        assert!(asked(&scene.step()).is_empty());
        scene.later(Duration::from_secs(10));
        assert!(asked(&scene.step()).contains(&"d"));
    }
}

#[test]
fn a_pod_whose_turn_does_not_come_says_so_after_half_a_minute() {
    let mut scene = Scene::new();
    scene.ranking.truncate(1);
    fill(&mut scene, "a");
    for number in 0..FEW {
        answer(&mut scene, "a", number);
    }
    assert_eq!(scene.step().gate, Gate::Closed(Note::Queued));
    scene.later(Duration::from_secs(10));
    let gate = scene.step().gate;
    assert_eq!(
        gate,
        Gate::Closed(Note::Queued),
        "a pauses, and there is nobody else"
    );
    let plan = scene.later(Duration::from_secs(20)).step();
    assert_eq!((plan.gate, &plan.answers["a"]), (Gate::Open, &Answer::Busy));
    assert_eq!(plan.queue, ["a"]);
}

#[test]
fn an_idle_target_is_asked_again_when_those_before_stand_still() {
    let mut scene = Scene::new();
    scene.ranking.truncate(1);
    fill(&mut scene, "a");
    let plan = scene.later(Duration::from_secs(2)).step();
    assert_eq!(
        (plan.gate, plan.queue),
        (Gate::Closed(Note::Queued), vec!["a".to_owned()])
    );
    scene.later(Duration::from_secs(8));
    scene.windows.tick(scene.now);
    assert_eq!(asked(&scene.step()), ["a"], "the others stand still");
}

#[test]
fn a_target_that_refuses_the_question_keeps_nobody_from_asking_others() {
    for others_full in [false, true] {
        let mut scene = Scene::new();
        scene.ranking.truncate(2);
        scene.ranking[0].surely_fits = true;
        let plan = scene.step();
        assert_eq!(asked(&plan), ["a"]);
        scene.finish(&plan, &Outcome::Refused("namespace not found".into()));
        if others_full {
            fill(&mut scene, "b");
        }
        let plan = scene.step();
        let (asks, queue): (&[&str], &[&str]) = if others_full {
            (&[], &["b"])
        } else {
            (&["b"], &[])
        };
        assert_eq!(asked(&plan), asks);
        assert_eq!(plan.queue, queue);
        let retry = NOW + Duration::from_millis(250);
        assert_eq!(plan.wake_at, Some(retry));
        scene.now = retry;
        let again: &[&str] = if others_full { &["a"] } else { &[] };
        assert_eq!(asked(&scene.step()), again, "b may answer yet");
    }
}
