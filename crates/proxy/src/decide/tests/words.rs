//! What the pod's author is told, when, and how that keeps out of the way of what is done.

use super::*;
use crate::plan::Words;

#[test]
fn a_condition_is_written_when_nothing_else_is_and_never_beside_it() {
    let words = Words {
        reason: "Waiting",
        message: "waiting for an answer of a".to_owned(),
    };
    let said = words.clone();
    let says = move |plan: &Plan| {
        let says = |action: &Action| matches!(action, Action::Say { words, .. } if *words == said);
        plan.actions.iter().any(says)
    };
    let mut scene = Scene::new().with(chaperon("a", "ua").reserved(1));
    scene.memory.say(Some(words.clone()));
    scene.choice = Some("a".into());
    let plan = scene.step();
    assert!(is_record(&plan, "a/ua/1") && !says(&plan), "{plan:?}");
    assert!(!says(&scene.step()), "the record is under way");

    let mut scene = Scene::new();
    scene.memory.say(Some(words.clone()));
    let plan = scene.step();
    assert!(says(&plan), "{plan:?}");
    // A choice that comes meanwhile waits for the write, whose version it will need.
    let mut scene = scene.with(chaperon("a", "ua").reserved(1));
    scene.choice = Some("a".into());
    assert!(scene.step().actions.is_empty());
    scene.finish(&plan, &Outcome::Conflict);
    scene.proxy.resource_version = "8".into();
    assert!(is_record(&scene.step(), "a/ua/1"));

    scene.proxy.node_name = Some("a".into());
    assert!(!says(&scene.step()), "it has its place");

    // A condition that can't be written holds up nothing.
    let mut scene = Scene::new().with(chaperon("a", "ua").reserved(1));
    scene.memory.say(Some(words));
    let plan = scene.step();
    scene.finish(&plan, &Outcome::Unknown("pods/status is forbidden".into()));
    assert!(!says(&scene.step()), "it backs off");
    scene.choice = Some("a".into());
    assert!(is_record(&scene.step(), "a/ua/1"));
}

#[test]
fn a_wait_for_a_target_that_answers_others_is_told_later() {
    let mut scene = Scene::new()
        .with(chaperon("a", "ua").granted(1))
        .recorded("a/ua/1");
    assert_eq!(scene.step().tell, None);
    scene.later(Duration::from_secs(4));
    scene.targets.answered("a", scene.now);
    for (seconds, told) in [(4, None), (1, Some(Note::Granted("a".into())))] {
        scene.later(Duration::from_secs(seconds));
        assert_eq!(scene.step().tell, told);
    }
}

#[test]
fn the_author_hears_of_a_binding_that_is_refused() {
    let mut scene = Scene::new()
        .recorded("a/ua/1")
        .with(chaperon("a", "ua").granted(1).bound());
    let plan = scene.step();
    assert!(matches!(plan.actions[..], [Action::BindProxy { .. }]));
    let refused = Outcome::Refused("a policy says no".to_owned());
    scene.finish(&plan, &refused);
    let note = Note::WriteRefused("a policy says no".to_owned());
    assert_eq!(scene.step().tell, Some(note));
    // The binding backs off; that is when the condition can say why.
    scene.memory.say(Some(Words {
        reason: "Waiting",
        message: "a policy says no".to_owned(),
    }));
    let said = scene.step();
    assert!(matches!(said.actions[..], [Action::Say { .. }]), "{said:?}");
    scene.finish(&said, &Outcome::Done);
    let plan = scene.later(Duration::from_mins(1)).step();
    assert!(plan.tell.is_none(), "once");
    scene.finish(&plan, &Outcome::Done);
    assert_eq!(scene.memory.write_refusal(), None);
}

#[test]
fn the_author_hears_of_a_binding_that_nobody_answers_when_it_lasts() {
    let mut scene = Scene::new()
        .recorded("a/ua/1")
        .with(chaperon("a", "ua").granted(1).bound());
    let silent = Outcome::Unknown("its webhook is down".to_owned());
    let note = Note::WriteRefused("its webhook is down".to_owned());
    let mut told = Vec::new();
    for _ in 0..4 {
        let plan = scene.later(Duration::from_mins(1)).step();
        assert!(matches!(plan.actions[..], [Action::BindProxy { .. }]));
        scene.finish(&plan, &silent);
        told.push(scene.step().tell == Some(note.clone()));
    }
    assert_eq!(
        told,
        [false, true, false, false],
        "once, and not of the first"
    );
    let plan = scene.later(Duration::from_mins(1)).step();
    scene.finish(&plan, &Outcome::Done);
    assert_eq!(scene.memory.write_refusal(), None);
}
