//! Testkit on the real parts: planes start and stop, do their work, break and come back, and nothing outlives a run.

mod planes;
mod processes;
