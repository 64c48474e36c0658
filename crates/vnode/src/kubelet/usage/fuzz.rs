//! Whatever a target says that pods use, nothing panics, counters don't fall, and nothing is told but of our own pods.

use std::sync::Arc;

use jiff::Timestamp;
use pilotage_absurd::{json, text};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::books::Books;
use super::reading::tests::{item, ours, proxy};
use super::reading::{List, readings};
use super::{Report, metrics, summary};

fn list() -> BoxedStrategy<Value> {
    let amounts = prop_oneof![3 => text::quantity(), 1 => text::text()];
    let times = prop_oneof![3 => Just("t".to_owned()), 1 => text::time(), 1 => text::text()];
    let items = prop::collection::vec((amounts.clone(), amounts, times), 0..5);
    let list = items.prop_map(|items| {
        let items = items
            .iter()
            .map(|(cpu, memory, at)| item("web", at, cpu, memory));
        json!({ "items": items.collect::<Vec<_>>() })
    });
    let list = list.boxed();
    prop_oneof![3 => list.clone(), 1 => json::extreme(list.clone()), 1 => json::junk_in(list)]
        .boxed()
}

pilotage_absurd::properties! {
    #[test]
    fn whatever_a_target_tells_counters_rise_and_texts_are_short(
        lists in prop::collection::vec((list(), -200_i64..200), 1..6),
    ) {
        let ours = ours(&[proxy("web", "3"), proxy("old", "-")]);
        let (mut books, mut now) = (Books::default(), 1_800_000_000);
        let mut last = None;
        for (list, later) in lists {
            let Ok(list) = serde_json::from_value::<List>(list) else { continue };
            now += later;
            if later < 0 {
                // A clock that was set back may begin a counter at the moment where another one began.
                last = None;
            }
            let at = Timestamp::from_second(now).unwrap();
            books.take(readings(list, &ours), &ours, at);
            let (pods, node) = books.told(&ours, at);
            prop_assert!(pods.len() <= 2);
            if let Some(pod) = pods.first() {
                let meter = pod.meter;
                if let Some((uid, since, total)) = last.replace((pod.pod.metadata.uid.clone(), meter.since,
                    meter.total)) {
                    let same = uid == pod.pod.metadata.uid && since == meter.since;
                    prop_assert!(!same || total <= meter.total);
                }
                prop_assert!(Arc::strong_count(&pod.pod) > 1);
            }
            let reports = [Report { pods, node, failed: false }];
            let told = metrics(&reports, true, false);
            prop_assert!(told.len() < 8192, "{}", told);
            for line in told.lines().filter(|line| !line.starts_with('#')) {
                let value = line.rsplit_once("} ").or_else(|| line.split_once(' ')).unwrap().1;
                prop_assert!(value.split(' ').all(|number| number.parse::<f64>().is_ok_and(f64::is_finite)), "{line}");
            }
            prop_assert!(serde_json::from_str::<Value>(&summary(&reports, Some("n"))).is_ok());
        }
    }
}
