//! Our queue and its hints by the real scheduler's word: after each event of drawn histories, whoever is schedulable
//! has been scheduled. `make diff-test` plays many more.

use pilotage_sched_diff::Mode;

use crate::oracle::played;

#[test]
fn whoever_waits_after_an_event_has_no_node_by_the_real_schedulers_word() {
    let summary = played(Mode::Histories, 10);
    assert!(summary.pods > 500, "{} questions", summary.pods);
    assert!(summary.placed > 50, "{} placed", summary.placed);
}
