//! The one binary: subcommands and wiring.
