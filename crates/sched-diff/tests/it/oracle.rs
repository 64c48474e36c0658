//! Some hundred pods through both schedulers.

use pilotage_sched_diff::{Plan, run};
use pilotage_testkit::tools::Tools;

#[test]
fn both_schedulers_say_the_same_of_some_hundred_pods() {
    let tools = Tools::find().unwrap_or_else(|error| panic!("{error}"));
    let oracle = tools.path("kube-scheduler-oracle");
    let plan = Plan {
        oracle: oracle.unwrap_or_else(|error| panic!("{error}")),
        first: 0,
        seeds: 24,
        workers: 2,
    };
    let summary = run(&plan, &|_| ()).unwrap();
    assert_eq!(summary.unplayed, []);
    let found = summary.found.values();
    let told: Vec<String> = found
        .flat_map(|found| {
            let differences = found.example.differences.iter().take(3);
            let seed = found.seed;
            differences.map(move |difference| format!("seed {seed}: {difference}"))
        })
        .collect();
    assert!(told.is_empty(), "`sched-diff seed N` shows more: {told:#?}");
    assert!(summary.pods > 300, "{}", summary.pods);
}
