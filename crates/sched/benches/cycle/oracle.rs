//! Theirs: asks the oracle to measure the same load.

use std::process::Command;

use serde_json::Value;

use crate::measure::Cost;
use crate::shape::Shape;

/// The oracle's cost of a pod, mean and median of the process's CPU time.
pub(crate) fn ask(
    oracle: &str,
    shape: Shape,
    nodes: usize,
    percentage: u8,
) -> Result<Cost, String> {
    // It is slow where it looks at many nodes.
    let pods = (2_000_000 / nodes)
        .clamp(50, 2_000)
        .min(shape.most(nodes) * 9 / 10);
    let mut command = Command::new(oracle);
    command.args(["-bench", &nodes.to_string(), "-shape", shape.of_oracle()]);
    command.args(["-pods", &pods.to_string(), "-pct", &percentage.to_string()]);
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let answers = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut costs = answers.filter_map(|it| {
        Some(Cost {
            mean: it["bench"]["cpu_us_per_pod"].as_f64()?,
            median: it["bench"]["median_cpu_us"].as_f64()?,
        })
    });
    let error = String::from_utf8_lossy(&output.stderr);
    let last = costs.next_back();
    last.ok_or_else(|| format!("the oracle said {text:?} {error:?}"))
}
