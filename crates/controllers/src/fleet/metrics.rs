//! What is shown of targets: how each of them fares, and what they said that wasn't theirs to say.

use std::fmt;

use pilotage_clusters::{Connection, Registry};
use pilotage_proxy::TurnedAway;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{MetricType, counter::Counter, family::Family, gauge::ConstGauge},
    registry::Registry as MetricsRegistry,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WhyLabel {
    why: &'static str,
}

/// What the edges count of the targets' words. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct FleetMetrics {
    turned_away: Family<WhyLabel, Counter>,
}

impl FleetMetrics {
    /// Registers it, and the states of these targets.
    pub fn register(registry: &mut MetricsRegistry, targets: Registry) -> Self {
        let registry = registry.sub_registry_with_prefix("pilotage");
        let metrics = Self::counting(registry);
        registry.register_collector(Box::new(States(targets)));
        metrics
    }

    /// Registers the counter alone.
    fn counting(registry: &mut MetricsRegistry) -> Self {
        let metrics = Self::default();
        // All are there from the beginning, so that the first one is a rise.
        for why in TurnedAway::ALL {
            metrics.of(why);
        }
        registry.register(
            "chaperons_turned_away",
            "Words of targets about PodChaperons that aren't theirs to say, by what is wrong",
            metrics.turned_away.clone(),
        );
        metrics
    }

    fn of(&self, why: TurnedAway) -> Counter {
        let why = why.word();
        self.turned_away.get_or_create(&WhyLabel { why }).clone()
    }

    pub(super) fn turn_away(&self, why: TurnedAway) {
        self.of(why).inc();
    }
}

/// Reads how the targets fare at each scrape: whose Target is gone, or never was among the oldest of its namespace, has
/// no series.
#[derive(Debug)]
struct States(Registry);

/// What a target may be.
const STATES: [&str; 3] = ["connecting", "connected", "lost"];

fn state(connection: &Connection) -> &'static str {
    match connection {
        Connection::Connecting => STATES[0],
        Connection::Connected { .. } => STATES[1],
        Connection::Lost { .. } => STATES[2],
    }
}

/// What is shown of a target, if anything is.
fn shown(had_turn: bool, connection: &Connection) -> Option<&'static str> {
    had_turn.then(|| state(connection))
}

impl Collector for States {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let targets = self.0.targets();
        let states = targets.iter().filter_map(|target| {
            let state = shown(target.had_turn(), &target.state().borrow())?;
            Some((target.node(), state))
        });
        show(encoder, states)
    }
}

fn show<'a>(
    mut encoder: DescriptorEncoder<'_>,
    targets: impl Iterator<Item = (&'a str, &'a str)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(
        "target_state",
        "Whether a target is in this state",
        None,
        MetricType::Gauge,
    )?;
    for (target, is) in targets {
        for state in STATES {
            let gauge = ConstGauge::new(i64::from(state == is));
            gauge.encode(family.encode_family(&[("target", target), ("state", state)])?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pilotage_clusters::{LostReason, Since};

    use super::*;

    #[derive(Debug)]
    struct Shown(Vec<(&'static str, &'static str)>);

    impl Collector for Shown {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
            show(encoder, self.0.iter().copied())
        }
    }

    #[test]
    fn who_never_had_a_turn_is_not_shown() {
        let since = Since::now();
        let reason = LostReason::TooManyTargets {
            namespace: "shop".into(),
            most: 100,
        };
        let lost = Connection::Lost { since, reason };
        assert_eq!(shown(false, &lost), None);
        // It was among the oldest once: its pods are waited for.
        assert_eq!(shown(true, &lost), Some("lost"));
    }

    #[test]
    fn each_target_is_in_one_state() {
        let since = Since::now();
        let reason = LostReason::Unreachable("no route".into());
        let states = [
            ("new", state(&Connection::Connecting)),
            ("well", state(&Connection::Connected { since })),
            ("dead", state(&Connection::Lost { since, reason })),
        ];
        let mut registry = MetricsRegistry::default();
        registry.register_collector(Box::new(Shown(states.to_vec())));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let true_ones: Vec<_> = text.lines().filter(|line| line.ends_with(" 1")).collect();
        assert_eq!(
            true_ones,
            [
                "target_state{target=\"new\",state=\"connecting\"} 1",
                "target_state{target=\"well\",state=\"connected\"} 1",
                "target_state{target=\"dead\",state=\"lost\"} 1",
            ]
        );
        assert_eq!(text.matches("target_state{").count(), 9, "{text}");
    }

    #[test]
    fn what_is_turned_away_is_counted_by_what_is_wrong() {
        let mut registry = MetricsRegistry::with_prefix("pilotage");
        let metrics = FleetMetrics::counting(&mut registry);
        for why in [TurnedAway::Namespace, TurnedAway::Name, TurnedAway::Name] {
            metrics.turn_away(why);
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for why in TurnedAway::ALL {
            let count = match why {
                TurnedAway::Namespace => 1,
                TurnedAway::Name => 2,
                _ => 0,
            };
            let word = why.word();
            let line = format!("pilotage_chaperons_turned_away_total{{why=\"{word}\"}} {count}\n");
            assert!(text.contains(&line), "{line}{text}");
        }
    }
}
