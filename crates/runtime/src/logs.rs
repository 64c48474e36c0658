//! Set-up of structured logs on standard error.

use std::io::IsTerminal;

use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::util::TryInitError;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::{LogArgs, LogFormat};

/// Why logs can't be set up.
#[derive(Debug, Error)]
pub enum LogError {
    /// `--log-level` is neither a level nor a filter.
    #[error("--log-level {text:?} is neither a level nor a filter: {source}")]
    Filter {
        /// What was given.
        text: String,
        /// What is wrong.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// The process has a log subscriber already.
    #[error("logs are set up already: {0}")]
    Twice(#[from] TryInitError),
}

/// Libraries that stay at `info` when a plain level is asked for: below it they log each byte and
/// handshake.
const NOISY: [&str; 6] = [
    "h2",
    "hyper",
    "hyper_util",
    "rustls",
    "tower",
    "kube_client",
];

/// Sends the process's logs to standard error as `args` say. To be called once.
pub fn init(args: &LogArgs) -> Result<(), LogError> {
    let registry = tracing_subscriber::registry().with(filter(&args.log_level)?);
    match args.log_format {
        LogFormat::Json => registry
            .with(
                tracing_subscriber::fmt::layer()
                    .json()
                    .flatten_event(true)
                    .with_current_span(true)
                    .with_span_list(false)
                    .with_writer(std::io::stderr),
            )
            .try_init()?,
        LogFormat::Text => registry
            .with(
                tracing_subscriber::fmt::layer()
                    .with_ansi(std::io::stderr().is_terminal())
                    .with_writer(std::io::stderr),
            )
            .try_init()?,
    }
    Ok(())
}

/// It logs whole answers that it can't read, which may be anybody's and of any length; what they mean, we log.
const QUOTING: &str = "kube_client::client";

fn filter(text: &str) -> Result<EnvFilter, LogError> {
    let mut directives = text.to_owned();
    let level = text.parse::<LevelFilter>().ok();
    // Who names it wants to see it; and a level below is quieter than that already.
    if !text.contains("kube_client") && level.is_none_or(|level| level > LevelFilter::ERROR) {
        directives = format!("{directives},{QUOTING}=error");
    }
    if level.is_some_and(|level| level > LevelFilter::INFO) {
        for library in NOISY {
            directives = format!("{directives},{library}=info");
        }
    }
    EnvFilter::try_new(&directives).map_err(|source| LogError::Filter {
        text: text.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_level_keeps_libraries_quiet_and_a_filter_is_taken_as_it_is() {
        for (text, want, wanted) in [
            ("debug", "hyper=info", true),
            ("info", "hyper=info", false),
            ("debug,hyper=trace", "hyper=trace", true),
            ("info", "kube_client::client=error", true),
            ("info,kube_client=debug", "kube_client::client=error", false),
            ("off", "kube_client::client=error", false),
            (
                "warn,pilotage_sched_driver=debug",
                "pilotage_sched_driver=debug",
                true,
            ),
        ] {
            let filter = filter(text).unwrap().to_string();
            assert_eq!(filter.contains(want), wanted, "{text}: {filter}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let error = filter("pilotage=loud").unwrap_err().to_string();
        assert!(error.contains("pilotage=loud"), "{error}");
    }
}
