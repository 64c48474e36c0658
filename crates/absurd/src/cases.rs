//! How cases are run: how many there are, and from which seed.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// How many cases each property has in every run of the tests: few, since there are many properties.
const CASES: u32 = 32;
const SEED: u64 = 1;

/// How many cases a property has: as many as `PROPTEST_CASES` says (`make fuzz` does), or few. What failed once is kept in
/// `proptest-regressions` and tried first.
pub fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    ProptestConfig {
        cases: if asked { default.cases } else { CASES },
        // The same cases in each run of the tests; `make fuzz` looks for others.
        rng_seed: if asked {
            default.rng_seed
        } else {
            RngSeed::Fixed(SEED)
        },
        ..default
    }
}
