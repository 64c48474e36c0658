//! Each command line of each rendering is understood by the real command.

use std::collections::BTreeSet;

use clap::Parser;
use pilotage::Cli;
use serde_json::Value;

use super::{cases, name, of_kind};

/// The parts that update proxy pods.
const WRITERS: [&str; 2] = ["controllers", "proxy-scheduler"];

#[test]
fn records_are_written_by_the_parts_that_do_and_by_no_other_account() {
    let mut webhooks = 0;
    for case in cases() {
        let objects = case.objects();
        let part =
            |object: &Value| object["metadata"]["labels"]["app.kubernetes.io/component"].clone();
        let accounts = of_kind(&objects, "ServiceAccount");
        let writers =
            accounts.filter(|it| WRITERS.contains(&part(it).as_str().unwrap_or_default()));
        let writers: BTreeSet<_> = writers
            .map(|it| format!("system:serviceaccount:{}:{}", case.namespace(), name(it)))
            .collect();
        let webhook = of_kind(&objects, "Deployment").find(|it| part(it) == "webhook");
        let Some(webhook) = webhook else { continue };
        let args = webhook["spec"]["template"]["spec"]["containers"][0]["args"].as_array();
        let args = args.unwrap().iter().filter_map(Value::as_str);
        let given: BTreeSet<_> = args
            .filter_map(|arg| arg.strip_prefix("--record-writer=").map(str::to_owned))
            .collect();
        assert_eq!(given.len(), WRITERS.len(), "{}", case.name);
        assert!(given.is_superset(&writers), "{}: {given:?}", case.name);
        webhooks += 1;
    }
    assert!(webhooks > 1);
}

#[test]
fn the_real_command_takes_every_flag() {
    let mut parts = BTreeSet::new();
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
