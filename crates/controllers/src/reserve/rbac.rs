//! What the candidate scheduler may do in its cluster, the target, beside what every scheduler with the stock plugins
//! may (`pilotage_sched_driver::rbac`).

use pilotage_api::GROUP;
use pilotage_runtime::rbac::Rule;

/// Its rules.
pub const RULES: &[Rule] = &[Rule::cluster(
    &[GROUP],
    &["podchaperons"],
    &["list", "watch", "patch"],
)];
