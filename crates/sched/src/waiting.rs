//! Owns the pods that Permit plugins hold: who still has to allow them, and until when. No timers: the
//! caller asks for the next deadline and says when it has come.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use crate::moment::Moment;
use crate::names::{NodeName, PodUid};
use crate::pod_info::PodInfo;
use crate::status::{PluginName, Reason, Status};

/// The longest that a pod may be held at Permit, whatever a plugin asks for.
pub const MAX_PERMIT_WAIT: Duration = Duration::from_mins(15);

/// A pod held at Permit.
#[derive(Clone, Debug)]
pub struct WaitingPod {
    /// The pod.
    pub pod: Arc<PodInfo>,
    /// The node that is held for it.
    pub node: NodeName,
    waits: BTreeMap<PluginName, Wait>,
    rejected: Option<Status>,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    timeout: Duration,
    deadline: Moment,
}

impl WaitingPod {
    /// The plugins that haven't allowed it yet.
    pub fn waiting_for(&self) -> impl Iterator<Item = PluginName> {
        self.waits.keys().copied()
    }

    /// Where it stands.
    pub fn state(&self) -> PermitState {
        match (&self.rejected, self.deadline()) {
            (Some(status), _) => PermitState::Rejected(status.clone()),
            (None, Some(deadline)) => PermitState::Waiting { deadline },
            (None, None) => PermitState::Allowed,
        }
    }

    fn is_resolved(&self) -> bool {
        self.rejected.is_some() || self.waits.is_empty()
    }

    /// The wait that ends first.
    fn shortest(&self) -> Option<(PluginName, Wait)> {
        let waits = self.waits.iter().map(|(plugin, wait)| (*plugin, *wait));
        waits.min_by_key(|(_, wait)| wait.deadline)
    }

    /// When it gives up; `None` once it is resolved.
    fn deadline(&self) -> Option<Moment> {
        let shortest = self.shortest().filter(|_| self.rejected.is_none());
        shortest.map(|(_, wait)| wait.deadline)
    }
}

/// Where a pod stands at Permit.
#[derive(Clone, Debug)]
pub enum PermitState {
    /// At least one plugin still holds it.
    Waiting {
        /// When the first of them gives up.
        deadline: Moment,
    },
    /// All have allowed it: bind.
    Allowed,
    /// One has rejected it, or its time ran out.
    Rejected(Status),
}

/// All pods held at Permit. An entry stays until its binding starts or fails, so that an answer that comes before
/// anybody waits for it isn't lost.
#[derive(Clone, Debug, Default)]
pub struct WaitingPods {
    pods: BTreeMap<PodUid, WaitingPod>,
    // When each unresolved pod gives up. Thousands may wait, and the next deadline is asked for at every turn.
    deadlines: BTreeSet<(Moment, PodUid)>,
    resolved: Vec<PodUid>,
}

impl WaitingPods {
    /// The pods held, by UID.
    pub fn iter(&self) -> impl Iterator<Item = &WaitingPod> {
        self.pods.values().filter(|pod| !pod.is_resolved())
    }

    /// One pod, resolved or not.
    pub fn get(&self, uid: &PodUid) -> Option<&WaitingPod> {
        self.pods.get(uid)
    }

    pub(crate) fn hold(
        &mut self,
        pod: Arc<PodInfo>,
        node: NodeName,
        waits: &[(PluginName, Duration)],
        now: Moment,
    ) {
        let waits = waits
            .iter()
            .map(|&(plugin, timeout)| {
                let timeout = timeout.min(MAX_PERMIT_WAIT);
                (
                    plugin,
                    Wait {
                        timeout,
                        deadline: now.after(timeout),
                    },
                )
            })
            .collect();
        let rejected = None;
        let held = WaitingPod {
            pod,
            node,
            waits,
            rejected,
        };
        let uid = held.pod.uid.clone();
        self.take(&uid);
        if let Some(deadline) = held.deadline() {
            self.deadlines.insert((deadline, uid.clone()));
        }
        self.pods.insert(uid, held);
    }

    /// Changes an unresolved pod, and keeps the books if that resolves it or moves its deadline.
    fn change<T>(&mut self, uid: &PodUid, with: impl FnOnce(&mut WaitingPod) -> T) -> Option<T> {
        let pod = self.pods.get_mut(uid).filter(|pod| !pod.is_resolved())?;
        let before = pod.deadline();
        let result = with(pod);
        let after = pod.deadline();
        if before != after {
            if let Some(deadline) = before {
                self.deadlines.remove(&(deadline, uid.clone()));
            }
            match after {
                Some(deadline) => {
                    self.deadlines.insert((deadline, uid.clone()));
                }
                None => self.resolved.push(uid.clone()),
            }
        }
        Some(result)
    }

    /// Lets the pod pass `plugin`. `false` if it isn't held by it.
    pub(crate) fn allow(&mut self, uid: &PodUid, plugin: PluginName) -> bool {
        let passed = self.change(uid, |pod| pod.waits.remove(plugin).is_some());
        passed.unwrap_or(false)
    }

    /// Rejects the pod in `plugin`'s name. `false` if it isn't held at all.
    pub(crate) fn reject(&mut self, uid: &PodUid, plugin: PluginName, reason: Reason) -> bool {
        let status = Status::unschedulable(reason).by(plugin);
        self.change(uid, |pod| pod.rejected = Some(status))
            .is_some()
    }

    /// Has the pod give its place up to another one: it isn't marked unschedulable. `false` if it isn't held at all.
    pub(crate) fn preempt(&mut self, uid: &PodUid) -> bool {
        let status = Status::error("waiting on permit for pod: preempted");
        self.change(uid, |pod| pod.rejected = Some(status))
            .is_some()
    }

    /// Rejects the pod whoever holds it. `false` if it isn't held.
    pub(crate) fn reject_all(&mut self, uid: &PodUid, reason: &'static str) -> bool {
        let plugin = self.pods.get(uid).and_then(|pod| pod.waiting_for().next());
        plugin.is_some_and(|plugin| self.reject(uid, plugin, Reason::fixed(reason)))
    }

    /// Rejects the pods whose time has run out.
    pub(crate) fn expire(&mut self, now: Moment) {
        while let Some((deadline, uid)) = self.deadlines.first().cloned()
            && deadline <= now
        {
            let shortest = self.pods.get(&uid).and_then(WaitingPod::shortest);
            let Some((plugin, wait)) = shortest else {
                self.deadlines.pop_first();
                continue;
            };
            let waited = go_duration(wait.timeout);
            let text = format!("rejected due to timeout after waiting {waited} at plugin {plugin}");
            self.reject(&uid, plugin, text.into());
        }
    }

    /// When the next pod's time runs out.
    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Takes out the pods that nobody wants.
    pub(crate) fn retain(&mut self, wanted: impl Fn(&PodUid) -> bool) {
        let unwanted = self.pods.keys().filter(|uid| !wanted(uid));
        for uid in unwanted.cloned().collect::<Vec<_>>() {
            self.take(&uid);
        }
    }

    /// Takes the pod out, however it stands.
    pub(crate) fn take(&mut self, uid: &PodUid) -> Option<WaitingPod> {
        let pod = self.pods.remove(uid)?;
        if let Some(deadline) = pod.deadline() {
            self.deadlines.remove(&(deadline, uid.clone()));
        }
        Some(pod)
    }

    /// The pods resolved since the last call.
    pub(crate) fn take_resolved(&mut self) -> Vec<PodUid> {
        std::mem::take(&mut self.resolved)
    }
}

/// A duration as users know it from kube-scheduler's texts: `30s`, `1m30s`, `15m0s`, `500ms`.
fn go_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let nanos = duration.subsec_nanos();
    let mut text = String::new();
    if seconds == 0 {
        return match nanos {
            0 => "0s".into(),
            1..1_000 => format!("{nanos}ns"),
            1_000..1_000_000 => with_fraction(nanos / 1_000, nanos % 1_000, 3, "µs"),
            _ => with_fraction(nanos / 1_000_000, nanos % 1_000_000, 6, "ms"),
        };
    }
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    if hours > 0 {
        let _ = write!(text, "{hours}h");
    }
    if hours > 0 || minutes > 0 {
        let _ = write!(text, "{minutes}m");
    }
    text + &with_fraction((seconds % 60) as u32, nanos, 9, "s")
}

fn with_fraction(whole: u32, fraction: u32, digits: usize, unit: &str) -> String {
    let padded = format!("{fraction:0digits$}");
    match padded.trim_end_matches('0') {
        "" => format!("{whole}{unit}"),
        fraction => format!("{whole}.{fraction}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{MAX_PERMIT_WAIT, PermitState, WaitingPods, go_duration};
    use crate::moment::Moment;
    use crate::names::{NodeName, PodUid};
    use crate::test_objects::pod;

    fn at(seconds: u64) -> Moment {
        Moment::after_epoch(Duration::from_secs(seconds))
    }

    fn held(waits: &[(&'static str, Duration)]) -> (WaitingPods, PodUid) {
        let mut waiting = WaitingPods::default();
        let pod = pod("a").info();
        let uid = pod.uid.clone();
        waiting.hold(pod, NodeName::from("n"), waits, at(0));
        (waiting, uid)
    }

    #[test]
    fn all_must_allow() {
        let minute = Duration::from_mins(1);
        let (mut waiting, uid) = held(&[("A", minute), ("B", minute)]);
        assert!(waiting.allow(&uid, "A"));
        assert!(!waiting.allow(&uid, "A"), "allowed once already");
        assert!(waiting.take_resolved().is_empty());
        assert!(waiting.allow(&uid, "B"));
        assert_eq!(waiting.take_resolved(), std::slice::from_ref(&uid));
        assert!(matches!(
            waiting.get(&uid).unwrap().state(),
            PermitState::Allowed
        ));
        assert!(
            !waiting.reject(&uid, "A", "late".into()),
            "an answer is final"
        );
        assert_eq!(waiting.next_deadline(), None);
    }

    #[test]
    fn one_rejects() {
        let (mut waiting, uid) = held(&[("A", Duration::from_mins(1))]);
        assert!(waiting.reject(&uid, "B", "no".into()));
        let PermitState::Rejected(status) = waiting.get(&uid).unwrap().state() else {
            panic!("not rejected")
        };
        assert_eq!(
            (status.plugin(), status.to_string().as_str()),
            (Some("B"), "no")
        );
        assert_eq!(waiting.next_deadline(), None);
    }

    #[test]
    fn time_runs_out_and_is_bounded() {
        let (mut waiting, uid) = held(&[("A", Duration::from_hours(5)), ("B", Duration::MAX)]);
        assert_eq!(
            waiting.next_deadline(),
            Some(Moment::after_epoch(MAX_PERMIT_WAIT))
        );
        waiting.expire(at(15 * 60 - 1));
        assert!(waiting.take_resolved().is_empty());
        waiting.expire(at(15 * 60));
        assert_eq!(waiting.take_resolved(), std::slice::from_ref(&uid));
        let PermitState::Rejected(status) = waiting.get(&uid).unwrap().state() else {
            panic!("not rejected")
        };
        let text = "rejected due to timeout after waiting 15m0s at plugin A";
        assert_eq!(status.to_string(), text);
    }

    #[test]
    fn a_pod_taken_out_has_no_deadline() {
        let minute = Duration::from_mins(1);
        let (mut waiting, uid) = held(&[("A", minute)]);
        assert!(waiting.take(&uid).is_some());
        assert_eq!(waiting.next_deadline(), None);
        waiting.expire(at(60));
        assert!(waiting.take_resolved().is_empty());
    }

    #[test]
    fn durations_as_go_writes_them() {
        for (millis, text) in [
            (0, "0s"),
            (30_000, "30s"),
            (90_000, "1m30s"),
            (3_600_000, "1h0m0s"),
            (1500, "1.5s"),
            (2, "2ms"),
        ] {
            assert_eq!(go_duration(Duration::from_millis(millis)), text);
        }
        assert_eq!(go_duration(Duration::from_micros(1500)), "1.5ms");
    }
}
