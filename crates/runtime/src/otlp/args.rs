//! Flags of tracing: where spans go and of how many pods. What they mean is checked where they are parsed.

use std::str::FromStr;

use clap::Args;
use http::Uri;
use http::uri::{Authority, Scheme};

/// Path of traces below the address of a collector.
const PATH: &str = "/v1/traces";
/// The port of a URL that names none.
const HTTP_PORT: u16 = 80;
/// The random bits of a trace id, which decide, as in OpenTelemetry's own samplers: the last 56.
const RANDOM: u64 = (1 << 56) - 1;

/// Traces of pods. Without an endpoint there are none.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Traces")]
pub struct TraceArgs {
    /// Send a trace of each pod's way to this OpenTelemetry collector, such as
    /// `http://otel-collector.monitoring:4318`.
    ///
    /// OTLP as JSON over HTTP, to /v1/traces below this URL; https:// isn't supported: let an agent in the cluster
    /// forward. Without it nothing is traced. docs/operations.md says what spans there are.
    #[arg(
        long,
        value_name = "URL",
        env = "OTEL_EXPORTER_OTLP_ENDPOINT",
        hide_env_values = true
    )]
    otlp_endpoint: Option<Named>,

    /// Trace this share of all pods, from 0 to 1.
    ///
    /// Which pods these are follows from their UIDs, so that parts with the same ratio choose the same. A target
    /// exports its spans of a pod only if the source traces the pod, too.
    #[arg(
        long,
        value_name = "RATIO",
        default_value = "1",
        requires = "otlp_endpoint"
    )]
    pub trace_ratio: Ratio,
}

impl TraceArgs {
    /// Where spans go; nothing is traced without.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.otlp_endpoint.as_ref()?.0.as_ref()
    }
}

/// What a flag or variable names: an empty text names no collector, as OpenTelemetry wants of its variables.
#[derive(Clone, Debug)]
struct Named(Option<Endpoint>);

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let endpoint = (!text.is_empty()).then(|| text.parse()).transpose()?;
        Ok(Self(endpoint))
    }
}

/// Where a collector is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    authority: Authority,
    host: String,
    port: u16,
    path: String,
}

impl Endpoint {
    /// What to connect to.
    pub(super) fn address(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    /// What the request calls the server.
    pub(super) fn authority(&self) -> &str {
        self.authority.as_str()
    }

    /// Path of the request.
    pub(super) fn path(&self) -> &str {
        &self.path
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Uri = text
            .parse()
            .map_err(|error| format!("is no URL such as http://collector:4318: {error}"))?;
        let parts = uri.into_parts();
        match parts.scheme {
            Some(scheme) if scheme == Scheme::HTTP => {}
            Some(scheme) if scheme == Scheme::HTTPS => {
                return Err(
                    "https isn't supported: name a collector in this cluster by http".into(),
                );
            }
            _ => return Err("is no URL such as http://collector:4318".into()),
        }
        let authority = parts.authority.ok_or("names no host")?;
        if authority.as_str().contains('@') {
            return Err("has a name or password, which isn't supported".into());
        }
        let path = parts.path_and_query;
        if path.as_ref().is_some_and(|path| path.query().is_some()) {
            return Err("has a query, which isn't supported".into());
        }
        let base = path.as_ref().map_or("", |path| path.path());
        let names_port = authority.as_str().len() > authority.host().len();
        let port = match authority.port_u16() {
            None if names_port => return Err("has a port that can't be".into()),
            port => port.unwrap_or(HTTP_PORT),
        };
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err("names no host".into());
        }
        Ok(Self {
            path: format!("{}{PATH}", base.trim_end_matches('/')),
            host,
            port,
            authority,
        })
    }
}

/// Which traces are exported: those whose random bits are not below this bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ratio {
    bound: u64,
}

impl Ratio {
    pub(super) fn takes(self, trace: [u8; 16]) -> bool {
        let random = u128::from_be_bytes(trace) & u128::from(RANDOM);
        random >= u128::from(self.bound)
    }
}

impl FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "is no number from 0 to 1".to_owned();
        let ratio: f64 = text.parse().map_err(|_| wrong())?;
        if !(0.0..=1.0).contains(&ratio) {
            return Err(wrong());
        }
        // As a float it is the number of all values.
        Ok(Self {
            bound: ((1.0 - ratio) * RANDOM as f64) as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        trace: TraceArgs,
    }

    fn parse(args: &[&str]) -> Result<TraceArgs, String> {
        let line = std::iter::once(&"pilotage").chain(args);
        let parsed = Command::try_parse_from(line).map(|command| command.trace);
        parsed.map_err(|error| error.to_string())
    }

    #[test]
    fn it_is_off_by_default() {
        let args = parse(&[]).unwrap();
        assert_eq!(args.endpoint(), None);
        assert_eq!(args.trace_ratio, Ratio::default());
        assert_eq!(parse(&["--otlp-endpoint="]).unwrap().endpoint(), None);
    }

    #[test]
    fn an_endpoint_is_a_plain_url() {
        for (url, address, path) in [
            ("http://collector:4318", ("collector", 4318), "/v1/traces"),
            ("http://collector", ("collector", 80), "/v1/traces"),
            ("http://[::1]:4318/", ("::1", 4318), "/v1/traces"),
            ("http://a.b/otlp/", ("a.b", 80), "/otlp/v1/traces"),
        ] {
            let endpoint: Endpoint = url.parse().unwrap();
            assert_eq!(endpoint.address(), address, "{url}");
            assert_eq!(endpoint.path(), path, "{url}");
        }
        for (url, why) in [
            ("collector:4318", "is no URL"),
            ("https://collector:4318", "https isn't supported"),
            ("grpc://collector:4317", "is no URL"),
            ("http://", "is no URL"),
            ("http://u:secret@collector", "password"),
            ("http://collector?key=1", "query"),
            ("http://collector:99999", "port"),
        ] {
            let error = parse(&["--otlp-endpoint", url]).unwrap_err();
            assert!(error.contains(why), "{url}: {error}");
            assert!(error.contains("--otlp-endpoint"), "{url}: {error}");
        }
    }

    #[test]
    fn a_ratio_is_from_nothing_to_all() {
        let endpoint = "--otlp-endpoint=http://collector:4318";
        for bad in ["1.01", "-0.1", "NaN", "inf", "half", "", "1e999"] {
            let error = parse(&[endpoint, &format!("--trace-ratio={bad}")]).unwrap_err();
            assert!(error.contains("from 0 to 1"), "{bad}: {error}");
        }
        let error = parse(&["--trace-ratio=0.5"]).unwrap_err();
        assert!(error.contains("--otlp-endpoint"), "{error}");
        let ratio = |text: &str| text.parse::<Ratio>().unwrap();
        let (least, most) = ([0; 16], [0xff; 16]);
        for (text, takes_least, takes_most) in [
            ("0", false, false),
            ("1e-9", false, true),
            ("0.5", false, true),
            ("1", true, true),
        ] {
            assert_eq!(ratio(text).takes(least), takes_least, "{text}");
            assert_eq!(ratio(text).takes(most), takes_most, "{text}");
        }
    }

    #[test]
    fn a_higher_ratio_takes_what_a_lower_one_takes() {
        let (low, high): (Ratio, Ratio) = ("0.1".parse().unwrap(), "0.3".parse().unwrap());
        let traces = (0..10_000_u128).map(|number| {
            // Weyl's sequence spreads evenly.
            let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            random.to_be_bytes()
        });
        let (mut few, mut more) = (0, 0);
        for trace in traces {
            few += u32::from(low.takes(trace));
            more += u32::from(high.takes(trace));
            assert!(high.takes(trace) || !low.takes(trace));
        }
        assert!((900..1100).contains(&few), "{few}");
        assert!((2800..3200).contains(&more), "{more}");
    }
}
