//! Some hundred pods through both schedulers, and what the oracle doesn't take.

use std::path::PathBuf;

use pilotage_sched_diff::configuration::Configuration;
use pilotage_sched_diff::{Mode, Oracle, Plan, Summary, run};
use pilotage_testkit::tools::Tools;
use serde_json::{Value, json};

/// The oracle's program.
pub(crate) fn program() -> PathBuf {
    let tools = Tools::find().unwrap_or_else(|error| panic!("{error}"));
    let oracle = tools.path("kube-scheduler-oracle");
    oracle.unwrap_or_else(|error| panic!("{error}"))
}

/// Plays so many seeds, without a difference.
pub(crate) fn played(mode: Mode, seeds: u64) -> Summary {
    let plan = Plan {
        mode,
        oracle: program(),
        first: 0,
        seeds,
        workers: 2,
    };
    let summary = run(&plan, &|_| ()).unwrap();
    assert_eq!(summary.unplayed, []);
    let found = summary.found.values();
    let told: Vec<String> = found
        .flat_map(|found| {
            let (seed, example) = (found.seed, &found.example);
            let differences = example.differences.iter().take(3);
            differences.map(move |difference| {
                let (pod, step) = (&example.pod, example.step);
                format!("seed {seed}, step {step}, pod {pod}: {difference}")
            })
        })
        .collect();
    assert!(
        told.is_empty(),
        "`sched-diff seed N` (or `--histories seed N`) shows more: {told:#?}"
    );
    summary
}

#[test]
fn both_schedulers_say_the_same_of_some_hundred_pods() {
    let summary = played(Mode::Verdicts, 24);
    assert!(summary.pods > 300, "{}", summary.pods);
}

#[test]
fn what_the_oracle_would_pass_over_in_a_configuration_is_refused() {
    let mut oracle = Oracle::start(&program()).unwrap();
    let mut opened = |change: &dyn Fn(&mut Value)| {
        let mut configuration = Configuration::default().to_api();
        change(&mut configuration);
        let body = json!({"objects": [], "configuration": configuration});
        let opened = oracle.ask("open", &body, "opened");
        opened.map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(opened(&|_| ()), Ok(()));
    for (field, value) in [
        (
            "extenders",
            json!([{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "f"}]),
        ),
        ("percentageOfNodesToScore", json!(50)),
        ("parallelism", json!(4)),
        ("podMaxBackoffSeconds", json!(60)),
    ] {
        let refused = opened(&|configuration| configuration[field] = value.clone());
        let text = format!("{field} is not supported");
        assert!(refused.is_err_and(|error| error.contains(&text)), "{field}");
    }
    let share = |share: u8| {
        move |configuration: &mut Value| {
            configuration["profiles"][0]["percentageOfNodesToScore"] = share.into();
        }
    };
    assert_eq!(opened(&share(100)), Ok(()));
    assert!(opened(&share(50)).is_err());
    // A typing error isn't passed over, either.
    assert!(opened(&|configuration| configuration["extender"] = json!([])).is_err());
}
