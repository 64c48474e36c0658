use super::*;

const NOW: Monotonic = Duration::from_secs(100);
const MOMENT: Duration = Duration::from_millis(1);

/// A moment before.
fn before(at: Monotonic) -> Monotonic {
    at.saturating_sub(MOMENT)
}

fn ticket(pod: &str) -> Ticket {
    Ticket::new(0, 0, pod.to_owned())
}

/// Two pods may be asked for at `a`, and are.
fn full() -> Windows {
    let mut windows = Windows::new(2);
    for pod in ["1", "2"] {
        assert!(windows.has_room("a", &ticket(pod)));
        windows.enter("a", pod, NOW);
    }
    assert!(!windows.has_room("a", &ticket("3")));
    windows
}

fn see(windows: &mut Windows, pod: &str, standing: Option<Standing>, now: Monotonic) {
    let standings = standing.map(|standing| ("a", standing));
    windows.see(&ticket(pod), &standings.into_iter().collect(), now);
}

fn wait(windows: &mut Windows, pod: &str) {
    windows.wait(&ticket(pod), &["a".to_owned()]);
}

#[test]
fn who_is_settled_makes_room_for_the_first_in_the_queue() {
    let mut windows = full();
    let urgent = Ticket::new(7, 9, "5".to_owned());
    wait(&mut windows, "4");
    wait(&mut windows, "3");
    windows.wait(&urgent, &["a".to_owned()]);
    assert!(windows.call(NOW).is_empty());
    see(&mut windows, "1", Some(Standing::Answered), NOW);
    assert!(windows.call(NOW).is_empty(), "the node is held");
    see(&mut windows, "1", Some(Standing::Settled), NOW);
    assert_eq!(windows.call(NOW), ["5"], "of a higher priority");
    assert!(windows.call(NOW).is_empty(), "one for each place");
    assert!(windows.has_room("a", &urgent));
    assert!(
        !windows.has_room("a", &ticket("0")),
        "no newcomer takes the place of who was called"
    );
    // It needs no place any more, and passes it on.
    windows.see(&urgent, &BTreeMap::new(), NOW);
    windows.wait(&urgent, &[]);
    assert_eq!(windows.call(NOW), ["3"]);
}

#[test]
fn a_target_that_keeps_up_is_asked_for_more() {
    let mut windows = full();
    for pod in ["1", "2"] {
        see(&mut windows, pod, Some(Standing::Settled), NOW);
    }
    for pod in ["3", "4", "5", "6"] {
        assert!(windows.has_room("a", &ticket(pod)));
        windows.enter("a", pod, NOW);
    }
    assert!(
        !windows.has_room("a", &ticket("7")),
        "twice what left of late"
    );
    let later = NOW + OF_LATE;
    windows.tick(later);
    for pod in ["3", "4"] {
        assert!(!windows.has_room("a", &ticket("7")));
        see(&mut windows, pod, Some(Standing::Settled), later);
    }
    assert!(windows.has_room("a", &ticket("7")));
}

#[test]
fn whoever_leaves_without_an_answer_makes_no_room() {
    let mut windows = full();
    see(&mut windows, "1", None, NOW);
    see(&mut windows, "2", None, NOW);
    assert!(!windows.has_room("a", &ticket("3")));
    wait(&mut windows, "3");
    assert_eq!(windows.wake_at(), Some(NOW + IDLE));
    assert!(windows.call(before(NOW + IDLE)).is_empty());
    assert_eq!(
        windows.call(NOW + IDLE),
        ["3"],
        "it still owes them answers"
    );
    assert_eq!(windows.wake_at(), Some(NOW + STANDS_STILL));
    assert!(windows.call(before(NOW + STANDS_STILL)).is_empty());
    assert_eq!(windows.call(NOW + STANDS_STILL), ["3"]);

    let mut windows = full();
    see(&mut windows, "1", None, NOW);
    see(&mut windows, "2", Some(Standing::Answered), NOW);
    assert!(windows.has_room("a", &ticket("3")), "it answers");

    let mut windows = full();
    see(&mut windows, "1", None, NOW);
    see(&mut windows, "2", None, NOW);
    see(&mut windows, "1", Some(Standing::Settled), NOW);
    assert!(windows.has_room("a", &ticket("3")), "also too late");

    let mut windows = full();
    windows.refused("a", "1", NOW);
    assert!(
        windows.has_room("a", &ticket("3")),
        "that is an answer, too"
    );

    let mut windows = full();
    see(&mut windows, "1", None, NOW);
    windows.gone("a", "1", NOW);
    assert!(windows.has_room("a", &ticket("3")), "nothing is left of it");

    let mut windows = full();
    see(&mut windows, "1", None, NOW);
    windows.enter("a", "1", NOW);
    see(&mut windows, "2", Some(Standing::Settled), NOW);
    assert!(
        windows.has_room("a", &ticket("3")),
        "one pod takes one place"
    );

    let mut windows = Windows::new(2);
    windows.enter("a", "1", NOW);
    see(&mut windows, "1", None, NOW);
    windows.enter("a", "1", NOW);
    assert!(
        windows.has_room("a", &ticket("2")),
        "also when it is asked for again"
    );
}

#[test]
fn a_target_whose_questions_fail_is_nobody_to_wait_for() {
    let mut windows = full();
    wait(&mut windows, "3");
    windows.failed("a", "1", NOW);
    assert!(!windows.is_busy("a", NOW));
    assert!(windows.has_room("a", &ticket("3")));
    windows.enter("a", "3", NOW);
    see(&mut windows, "2", Some(Standing::Answered), NOW);
    assert!(windows.is_busy("a", NOW));
}

#[test]
fn a_hold_that_ran_out_is_no_pace() {
    let mut windows = full();
    for pod in ["1", "2"] {
        see(&mut windows, pod, Some(Standing::Answered), NOW);
    }
    let late = NOW + STANDS_STILL;
    windows.tick(late);
    for pod in ["1", "2"] {
        see(&mut windows, pod, Some(Standing::Settled), late);
    }
    for pod in ["3", "4"] {
        assert!(windows.has_room("a", &ticket(pod)));
        windows.enter("a", pod, late);
    }
    assert!(!windows.has_room("a", &ticket("5")));
}

#[test]
fn those_who_wait_are_told_each_time_that_a_target_turns_idle() {
    let mut windows = Windows::new(1);
    windows.enter("a", "1", NOW);
    wait(&mut windows, "2");
    assert_eq!(windows.call(NOW + IDLE), ["2"]);
    let later = NOW + STANDS_STILL;
    assert_eq!(windows.call(later), ["2"], "1 stands still");
    see(&mut windows, "2", None, later);
    see(&mut windows, "1", None, later);
    windows.enter("a", "2", later);
    wait(&mut windows, "3");
    assert!(windows.call(later).is_empty());
    assert_eq!(windows.wake_at(), Some(later + IDLE));
    assert_eq!(windows.call(later + IDLE), ["3"]);
}

#[test]
fn whoever_stands_still_is_in_nobodys_way() {
    let mut windows = full();
    wait(&mut windows, "3");
    let still = NOW + STANDS_STILL;
    assert!(!windows.call(before(still)).is_empty(), "a is idle");
    assert!(windows.call(before(still)).is_empty(), "told once");
    assert_eq!(windows.wake_at(), Some(still));
    assert_eq!(windows.call(still), ["3"]);
    see(&mut windows, "1", Some(Standing::Asked), still);
    assert!(windows.has_room("a", &ticket("3")), "it still stands still");
    windows.enter("a", "3", still);
    assert!(
        !windows.is_busy("a", still),
        "the old ones have no answer yet"
    );
}

#[test]
fn a_target_is_busy_as_long_as_it_answers_somebody() {
    let mut windows = full();
    wait(&mut windows, "3");
    assert_eq!(windows.wake_at(), Some(NOW + IDLE));
    assert!(windows.is_busy("a", before(NOW + IDLE)));
    let later = before(NOW + IDLE);
    see(&mut windows, "1", Some(Standing::Answered), later);
    assert!(windows.is_busy("a", NOW + IDLE));
    assert!(windows.call(NOW + IDLE).is_empty());
    assert!(!windows.is_busy("a", later + IDLE));
    assert_eq!(windows.call(later + IDLE), ["3"]);
    see(&mut windows, "2", Some(Standing::Answered), later + IDLE);
    assert!(
        windows.is_busy("a", NOW + STANDS_STILL),
        "it owes no answer"
    );
}

#[test]
fn a_pod_that_is_gone_waits_no_more() {
    let mut windows = full();
    wait(&mut windows, "3");
    windows.wait(&ticket("3"), &["b".to_owned()]);
    windows.forget(&ticket("3"), NOW);
    assert!(windows.waiting.is_empty());
    see(&mut windows, "1", Some(Standing::Settled), NOW);
    assert!(windows.call(NOW).is_empty());
    windows.forget(&ticket("2"), NOW);
    windows.tick(NOW + STANDS_STILL);
    assert!(windows.by_node.is_empty());
}
