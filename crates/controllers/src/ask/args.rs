//! Flags of the ask edge: whom to ask at once, and how long to wait for what.

use std::time::Duration;

use clap::Args;
use pilotage_api::annotations;
use pilotage_proxy::Settings;
use pilotage_runtime::args::parse_duration;

/// How targets are asked.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Asking targets")]
pub struct AskArgs {
    /// Name of this cluster, which targets show beside the pods that they run for it.
    #[arg(long, value_name = "NAME", value_parser = cluster_name)]
    pub cluster_name: Option<String>,

    /// Ask every suitable target at once that isn't too busy to answer soon, instead of the best ones first.
    #[arg(long)]
    pub ask_all: bool,

    /// How many targets are asked at once, unless the best one's free room surely fits.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    pub wave: u16,

    /// After this long without a reservation the next targets are asked; doubles each time.
    #[arg(long, value_name = "DURATION", default_value = "250ms", value_parser = parse_duration)]
    pub silence: Duration,

    /// After the first reservation, how long the other targets that were asked may still answer.
    #[arg(long, value_name = "DURATION", default_value = "50ms", value_parser = parse_duration)]
    pub settle: Duration,

    /// A target that was granted a pod and hasn't bound it by then is given up.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_duration)]
    pub give_up: Duration,

    /// How many events a second may tell of stages on the ways of pods (Asked, Reserved, Refused, Granted, Lost), of
    /// all pods together. Five times as many may come at once; what is more isn't written. With 0, and with
    /// --kube-api-qps, none is.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(..=1000))]
    pub stage_events_per_second: u16,
}

/// It becomes the value of a label.
fn cluster_name(text: &str) -> Result<String, String> {
    if annotations::is_qualified_name(text) && !text.contains('/') {
        return Ok(text.to_owned());
    }
    Err(
        "write at most 63 letters, digits, '-', '_' and '.', with a letter or digit at either end"
            .to_owned(),
    )
}

impl AskArgs {
    /// The state machine's settings.
    pub fn settings(&self) -> Settings {
        Settings {
            ask_all: self.ask_all,
            wave: usize::from(self.wave),
            silence: self.silence,
            settle: self.settle,
            give_up: self.give_up,
            ..Settings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        ask: AskArgs,
    }

    #[test]
    fn the_flags_defaults_are_the_state_machines() {
        let command = Command::try_parse_from(["pilotage"]).unwrap();
        assert_eq!(command.ask.settings(), Settings::default());
    }

    #[test]
    fn events_of_stages_are_few_and_may_be_none() {
        let parse = |flags: &[&str]| {
            let command = ["pilotage"].iter().chain(flags).copied();
            Command::try_parse_from(command)
                .ok()
                .map(|it| it.ask.stage_events_per_second)
        };
        assert_eq!(parse(&[]), Some(5));
        assert_eq!(parse(&["--stage-events-per-second=0"]), Some(0));
        assert_eq!(parse(&["--stage-events-per-second=1001"]), None);
    }

    #[test]
    fn the_clusters_name_fits_a_label() {
        for (name, good) in [
            ("paris", true),
            (&*"p".repeat(63), true),
            (&*"p".repeat(64), false),
            ("a/b", false),
            ("", false),
            ("paris!", false),
        ] {
            let command = Command::try_parse_from(["pilotage", "--cluster-name", name]);
            assert_eq!(command.is_ok(), good, "{name}");
        }
    }
}
