//! A run of fewer pods than were asked for fails, whatever is said of those.

use std::process::{Command, Output};

use crate::oracle::program;

/// Runs the program on two seeds, of which so many pods have to be judged.
fn ended(arguments: &[&str], least: u64) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sched-diff"))
        .args(["run", "--seeds", "2", "--least-pods", &least.to_string()])
        .arg("--oracle")
        .arg(program())
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn a_run_of_too_few_pods_ends_with_a_failure() {
    let modes: [&[&str]; 2] = [&[], &["--histories"]];
    for arguments in modes {
        let output = ended(arguments, 1);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let output = ended(arguments, 1_000_000);
        let told = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(told.contains("are missing to 1000000"), "{told}");
    }
}
