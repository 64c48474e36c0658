//! Each command line of each rendering is understood by the real command.

use clap::Parser;
use pilotage::Cli;

use super::{cases, name, of_kind};

#[test]
fn the_real_command_takes_every_flag() {
    let mut parts = std::collections::BTreeSet::new();
    for case in cases() {
        let objects = case.objects();
        let jobs = of_kind(&objects, "Job");
        for workload in of_kind(&objects, "Deployment").chain(jobs) {
            let container = &workload["spec"]["template"]["spec"]["containers"][0];
            let args = container["args"].as_array().unwrap();
            // As the kubelet does it.
            let args = args
                .iter()
                .map(|arg| arg.as_str().unwrap().replace("$(POD_IP)", "10.0.0.7"));
            let args: Vec<_> = args.collect();
            parts.insert(args[0].clone());
            let parsed = Cli::try_parse_from([vec!["pilotage".to_owned()], args.clone()].concat());
            if let Err(error) = parsed {
                panic!("{} of {}: {args:?}\n{error}", name(workload), case.name);
            }
        }
    }
    let all = [
        "candidate-scheduler",
        "cleanup",
        "controllers",
        "gardener-scheduler",
        "proxy-scheduler",
        "webhook",
    ];
    assert!(parts.iter().eq(all), "{parts:?}");
}
