//! How far a pod has come on its way from creation to its place, and how long that took. For metrics alone: nothing is
//! decided by it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use pilotage_proxy::ProxyView;

/// The API server writes whole seconds.
const A_SECOND: Duration = Duration::from_secs(1);

/// What a pod reaches once, in this order if nothing goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// A target is asked.
    Asked,
    /// A target holds a node for it.
    Reserved,
    /// A target is granted it.
    Granted,
    /// It is bound to its virtual node.
    Bound,
}

impl Stage {
    /// Each of them.
    pub(super) const ALL: [Self; 4] = [Self::Asked, Self::Reserved, Self::Granted, Self::Bound];

    /// In one word.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Reserved => "reserved",
            Self::Granted => "granted",
            Self::Bound => "bound",
        }
    }

    /// Those up to it.
    fn and_before(self) -> [bool; 4] {
        Self::ALL.map(|stage| stage as usize <= self as usize)
    }
}

/// The way of one pod.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    seen: bool,
    /// When it was first looked at, without gates, and how old it was then.
    begun: Option<(Duration, Duration)>,
    reached: [bool; 4],
    /// How long it took to reach those that this process has seen it reach.
    after: [Option<Duration>; 4],
}

impl Progress {
    /// The pod is there, in this version; `wall` is read when a pod is seen first.
    pub(super) fn see(
        &mut self,
        pod: &Pod,
        view: &ProxyView,
        now: Duration,
        wall: impl FnOnce() -> Timestamp,
    ) {
        if self.begun.is_some() {
            return;
        }
        let first = !std::mem::replace(&mut self.seen, true);
        if first {
            // What it has reached already, it has reached with another process.
            let reached = match (&view.node_name, view.record.record()) {
                (Some(_), _) => Some(Stage::Bound),
                (None, Some(_)) => Some(Stage::Reserved),
                (None, None) => None,
            };
            self.reached = reached.map_or(self.reached, Stage::and_before);
        }
        if view.gated {
            return;
        }
        let created = pod.metadata.creation_timestamp.as_ref();
        let age = created
            .filter(|_| first)
            .map(|created| age(created.0, wall()));
        self.begun = Some((now, age.unwrap_or_default()));
    }

    /// It has reached this: how long after its creation, or after its last gate went, unless it had before.
    pub(super) fn reach(&mut self, stage: Stage, now: Duration) -> Option<Duration> {
        let reached = &mut self.reached[stage as usize];
        if std::mem::replace(reached, true) {
            return None;
        }
        let (seen, age) = self.begun?;
        let after = now.saturating_sub(seen).saturating_add(age);
        self.after[stage as usize] = Some(after);
        Some(after)
    }

    /// How long it took to reach this, if that is known.
    pub(super) fn after(&self, stage: Stage) -> Option<Duration> {
        self.after[stage as usize]
    }

    #[cfg(test)]
    pub(super) fn seen_at(now: Duration) -> Self {
        Self {
            seen: true,
            begun: Some((now, Duration::ZERO)),
            ..Self::default()
        }
    }
}

/// How old a pod is that is seen now. Within the second that its creation says it counts as new: watches bring pods in
/// milliseconds.
fn age(created: Timestamp, now: Timestamp) -> Duration {
    let age = Duration::try_from(now.duration_since(created)).unwrap_or_default();
    age.saturating_sub(A_SECOND)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(gated: bool, record: Option<&str>, node: Option<&str>) -> Pod {
        let gates = if gated {
            json!([{ "name": "g" }])
        } else {
            json!([])
        };
        let mut pod = json!({
            "metadata": {
                "namespace": "shop", "name": "p", "uid": "u", "resourceVersion": "1",
                "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": {},
            },
            "spec": { "containers": [], "schedulingGates": gates, "nodeName": node },
        });
        if let Some(record) = record {
            pod["metadata"]["annotations"][pilotage_api::keys::GRANTED_TO] = record.into();
        }
        serde_json::from_value(pod).unwrap()
    }

    /// The pod is seen so many milliseconds after its creation.
    fn see(progress: &mut Progress, pod: &Pod, after: u64) {
        let wall = || {
            let created: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
            created + Duration::from_millis(after)
        };
        let view = ProxyView::of(pod).unwrap();
        progress.see(pod, &view, Duration::from_millis(after), wall);
    }

    fn reach(progress: &mut Progress, stage: Stage, at: u64) -> Option<u128> {
        let took = progress.reach(stage, Duration::from_millis(at));
        took.map(|took| took.as_millis())
    }

    #[test]
    fn each_stage_counts_once_from_the_creation() {
        // Seen within its second, it is new; seen three seconds later, it is at least two old.
        for (seen, want) in [(700, 100), (3000, 2100)] {
            let mut progress = Progress::default();
            see(&mut progress, &pod(false, None, None), seen);
            see(&mut progress, &pod(false, None, None), seen + 50);
            assert_eq!(reach(&mut progress, Stage::Asked, seen + 100), Some(want));
            assert_eq!(reach(&mut progress, Stage::Asked, seen + 200), None);
            assert_eq!(
                reach(&mut progress, Stage::Reserved, seen + 300),
                Some(want + 200)
            );
        }
    }

    #[test]
    fn the_time_behind_gates_is_the_authors() {
        let mut progress = Progress::default();
        see(&mut progress, &pod(true, None, None), 100);
        see(&mut progress, &pod(false, None, None), 60_000);
        assert_eq!(reach(&mut progress, Stage::Asked, 60_020), Some(20));
    }

    #[test]
    fn what_was_reached_with_another_process_is_not_counted_again() {
        let recorded = pod(false, Some("paris/u/1"), None);
        let mut progress = Progress::default();
        see(&mut progress, &recorded, 5000);
        assert_eq!(reach(&mut progress, Stage::Asked, 5010), None);
        assert_eq!(reach(&mut progress, Stage::Reserved, 5010), None);
        assert_eq!(reach(&mut progress, Stage::Granted, 5010), Some(4010));
        let placed = pod(false, Some("paris/u/1"), Some("paris"));
        let mut progress = Progress::default();
        see(&mut progress, &placed, 5000);
        for stage in Stage::ALL {
            assert_eq!(reach(&mut progress, stage, 5010), None, "{stage:?}");
        }
    }
}
