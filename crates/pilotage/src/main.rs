//! The one binary. It parses, runs, and says in words why it failed; everything else is in the library.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::process::ExitCode;

use mimalloc::MiMalloc;
use pilotage::{Cli, explain, plain, run};

/// Watch events are many small objects that one thread reads and another drops.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::from_line(std::env::args_os()).unwrap_or_else(|error| error.exit());
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads())
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("pilotage: can't start threads: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(run(cli));
    // Whatever still runs has been told to end and had its time.
    runtime.shutdown_background();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pilotage: {}", plain(&explain(&error)));
            ExitCode::from(error.exit_code())
        }
    }
}

/// Half of the processors: what runs here waits for API servers, and idle threads wake each other for nothing.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |all| all.get().div_ceil(2))
}
