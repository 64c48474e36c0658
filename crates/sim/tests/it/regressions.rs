//! Schedules that once broke a rule keep every rule.

use pilotage_sim::{REGRESSIONS, Schedule, replay};

#[test]
fn what_once_broke_a_rule_keeps_every_rule() {
    for (name, text) in REGRESSIONS {
        let schedule: Result<Schedule, String> = text.parse();
        let world = schedule.map(|schedule| replay(&schedule, true));
        let broken = world.map(|world| (world.violation().cloned(), world.trace().join("\n")));
        assert!(matches!(broken, Ok((None, _))), "{name}: {broken:#?}");
    }
}
