//! The traces by which the first design was broken.

use pilotage_sim::TRACES;

#[test]
fn every_trace_ends_well() {
    let broken: Vec<String> = TRACES
        .iter()
        .filter_map(|(name, play)| Some(format!("{name}: {}", play().err()?)))
        .collect();
    assert!(broken.is_empty(), "{}", broken.join("\n\n"));
}
