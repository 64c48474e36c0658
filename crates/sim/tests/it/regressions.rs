//! Schedules that once broke a rule, as the simulator printed them. They stay as they are: a step that isn't possible any
//! more is passed over.

use pilotage_sim::{Schedule, replay};

fn keeps_every_rule(text: &str) {
    let schedule: Result<Schedule, String> = text.parse();
    let world = schedule.map(|schedule| replay(&schedule, true));
    let broken = world.map(|world| (world.violation().cloned(), world.trace().join("\n")));
    assert!(matches!(broken, Ok((None, _))), "{broken:#?}");
}

/// The only target that fits was recorded, moved on, and was given up: the choice of its next chaperon failed for ever.
#[test]
fn a_target_is_chosen_again_after_its_chaperon_went() {
    keeps_every_rule(
        "
        targets=2 pods=1 lives=1 full=2 plain=0 first=1 unreserved=0 replace=0 said_by=0 jobs=0 surely=false heals=false seed=53
        Create 0 0 0
        Deliver 0 0 1
        Pass 1 0 0
        Deliver 6 0 2
        Deliver 4 0 3
        Take 6 0 0
        Crash 0 0 0
        Pass 0 0 0
        Deliver 4 1 3
        Drive 4 0 0
        Start 0 0 0
        Notice 0 0 3
        Pass 0 0 0
        Crash 6 0 0
        Advance 15000 0 0
        Drive 4 0 0
        Pass 0 0 0
        Deliver 0 1 1
        Advance 60000 0 0
        Drive 4 0 0
        Pass 0 0 0
        Advance 60000 0 0
        ",
    );
}

/// Every target refused the question once: nobody asked again.
#[test]
fn a_pod_without_reservation_is_asked_for_again() {
    keeps_every_rule(
        "
        targets=2 pods=2 lives=1 full=0 plain=0 first=1 unreserved=2 replace=0 said_by=0 jobs=0 surely=false heals=true seed=26452
        Create 1 0 0
        Front 0 0 0
        Front 1 0 0
        Deliver 0 0 1
        Cycle 0 1 0
        Pass 0 0 0
        Cycle 0 7 0
        Pass 0 0 0
        ",
    );
}

/// The feedback controller deleted a chaperon that it had seen before the grant, and took its end for the end of the pod.
#[test]
fn a_plain_target_is_left_on_no_older_view() {
    keeps_every_rule(
        "
        targets=2 pods=1 lives=1 full=0 plain=1 first=2 unreserved=0 replace=0 said_by=1 jobs=0 surely=true heals=false seed=28730
        Create 0 0 0
        Deliver 2 0 3
        Deliver 0 0 3
        Pass 0 0 0
        Plain 0 0 0
        Plain 0 0 0
        Plain 0 0 0
        Deliver 2 1 2
        Deliver 0 1 3
        Cycle 0 1 0
        Pass 0 0 0
        Pass 0 0 0
        Plain 0 0 0
        Delete 0 0 0
        Deliver 2 0 2
        ",
    );
}

/// A plain target was left and asked again, and the scheduler restarted: it waited for the end of the new pod.
#[test]
fn the_pod_of_a_successor_is_no_delegate_that_is_left() {
    keeps_every_rule(
        "
        targets=2 pods=1 lives=1 full=0 plain=2 first=1 unreserved=0 replace=0 said_by=0 jobs=0 surely=true heals=false seed=30161
        Create 0 0 0
        Deliver 0 0 3
        Deliver 2 0 3
        Land 0 0 0
        Plain 1 0 0
        Plain 1 0 0
        Deliver 0 2 2
        Reply 0 0 0
        Plain 1 0 0
        Deliver 0 2 1
        Cycle 0 2 0
        Land 0 0 0
        Reply 0 0 0
        Advance 15000 0 0
        Pass 0 0 0
        Advance 15000 0 0
        Pass 0 0 0
        Deliver 0 2 3
        Collect 1 0 0
        Collect 1 0 0
        Deliver 0 2 1
        Pass 0 0 0
        Land 1 0 0
        Crash 0 0 0
        ",
    );
}

/// The reply to a deletion came after the news of the end: the book kept a chaperon that nobody would ever take out.
#[test]
fn a_late_reply_brings_no_chaperon_back() {
    keeps_every_rule(
        "
        targets=3 pods=1 lives=1 full=0 plain=1 first=0 unreserved=0 replace=1 said_by=0 jobs=0 surely=true heals=true seed=13176
        Create 0 0 0
        Deliver 0 0 1
        Land 0 0 0
        Plain 0 0 0
        Plain 0 0 0
        Plain 0 0 0
        Deliver 0 1 3
        Deliver 2 1 2
        Land 1 0 0
        Cycle 0 2 0
        Pass 2 0 0
        Reply 1 0 0
        Deliver 0 0 3
        Land 1 0 0
        Deliver 2 0 1
        Reply 0 0 0
        Deliver 2 1 3
        Pass 0 0 0
        Advance 10000 0 0
        Advance 60000 0 0
        Advance 15000 0 0
        Delete 0 0 0
        Deliver 0 0 1
        Deliver 2 0 3
        Land 0 0 0
        Collect 0 0 0
        Deliver 2 1 2
        Collect 0 0 0
        ",
    );
}

/// The POST of a pod without reservation landed after its chaperon had gone, and the target's scheduler bound the pod.
#[test]
fn a_late_pod_without_reservation_is_bound_by_nobody() {
    keeps_every_rule(
        "
        targets=2 pods=1 lives=3 full=0 plain=0 first=0 unreserved=1 replace=0 said_by=1 jobs=0 surely=false heals=true seed=287395
        Create 0 0 0
        Deliver 2 0 2
        Deliver 0 0 3
        Cycle 0 0 0
        Land 0 0 0
        Reply 0 0 0
        Deliver 2 1 3
        Delay 0 0 0
        Late 0 0 0
        Deliver 2 0 2
        Deliver 0 0 1
        Pass 0 0 0
        Deliver 0 1 2
        Deliver 6 0 2
        Take 6 0 0
        Delete 0 0 0
        Delay 0 0 0
        Deliver 2 0 1
        Pass 0 0 0
        Deliver 4 0 1
        Deliver 6 0 2
        Take 6 0 0
        Pass 0 0 0
        Land 0 0 0
        Deliver 4 0 2
        Deliver 6 0 2
        Deliver 4 0 2
        Take 6 0 0
        Take 6 0 0
        Reply 0 0 0
        Late 0 0 0
        ",
    );
}

/// The delegate was evicted and made again behind a partition, and found no node there: the proxy waited for ever.
#[test]
fn a_placed_pod_whose_new_delegate_finds_no_node_goes() {
    keeps_every_rule(
        "
        targets=2 pods=1 lives=3 full=0 plain=0 first=1 unreserved=0 replace=0 said_by=0 jobs=0 surely=true heals=true seed=997397
        Create 0 0 0
        Deliver 2 0 3
        Deliver 0 0 3
        Pass 0 0 0
        Deliver 10 0 3
        Deliver 8 0 2
        Deliver 0 2 3
        Take 10 0 0
        Pass 0 0 0
        Deliver 8 1 1
        Drive 8 0 0
        Pass 0 0 0
        Deliver 0 2 1
        Cycle 0 0 0
        Land 0 0 0
        Reply 0 0 0
        Pass 0 0 0
        Deliver 2 2 3
        Deliver 8 0 3
        Part 1 0 0
        Notice 0 1 3
        Drive 8 0 0
        Room 1 0 0
        Pass 0 0 0
        Evict 1 0 0
        Deliver 10 1 3
        Kubelet 1 0 0
        Take 10 0 0
        Deliver 10 1 2
        Advance 1000 0 0
        Pass 0 0 0
        Land 0 0 0
        Cycle 0 3 0
        Reply 0 0 0
        Deliver 10 0 3
        Take 10 0 0
        Pass 0 0 0
        Take 10 0 0
        Take 10 0 0
        Advance 10000 0 0
        Advance 60000 0 0
        ",
    );
}
