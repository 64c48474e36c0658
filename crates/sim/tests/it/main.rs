//! The protocol under faults: traces that are written down, schedules that once broke a rule, and some thousand drawn ones.

mod regressions;
mod seeds;
mod traces;
