//! Checks of the workspace itself, and scenarios on real control planes.

mod arrows;
mod features;
mod files;
mod makefile;
mod purity;
mod scenario;
mod workspace;
