//! Which pods were lost: bound, or granted, and deleted when their target didn't run them any more, couldn't be
//! reached, or was removed. Who deletes them works in another process; what is seen of it here tells. Pure.

use pilotage_proxy::{ProxyView, Reach};

/// What a target lacks of a pod that has its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// It can't be reached.
    Reach,
    /// There is no such Target any more.
    Target,
    /// It doesn't run the pod.
    Delegate,
}

/// What is kept of one pod for this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fate {
    /// Its target has it, or it has none.
    #[default]
    Well,
    /// If it is deleted now, it is lost.
    Lacks(Lack),
    /// That it was lost has been told.
    Told,
}

impl Fate {
    /// The pod is like this now, or was, if it is gone. The words of its loss, once.
    ///
    /// `left`: it is known that its target doesn't run it any more.
    pub(super) fn see(
        &mut self,
        view: &ProxyView,
        reach: impl FnOnce(&str) -> Reach,
        left: bool,
        gone: bool,
    ) -> Option<String> {
        if *self == Self::Told {
            return None;
        }
        let record = view.record.record().map(|record| record.node.as_str());
        let node = view.node_name.as_deref().or(record);
        let Some(node) = node.filter(|_| !view.terminal) else {
            *self = Self::Well;
            return None;
        };
        let reach = reach(node);
        // Without its place, others may take it: that is told when they may.
        let left = left && view.node_name.is_some();
        if !view.ending {
            *self = match reach {
                Reach::NoSuchTarget => Self::Lacks(Lack::Target),
                Reach::Lost => Self::Lacks(Lack::Reach),
                Reach::Reachable if left => Self::Lacks(Lack::Delegate),
                Reach::Reachable | Reach::Unknown | Reach::Unseen => Self::Well,
            };
        } else if reach == Reach::NoSuchTarget && *self == Self::Well {
            // What its target does of a pod that is being deleted is what somebody wanted; that a Target goes isn't.
            *self = Self::Lacks(Lack::Target);
        }
        let Self::Lacks(lack) = *self else {
            return None;
        };
        (view.ending || gone).then(|| {
            *self = Self::Told;
            match lack {
                Lack::Reach => {
                    format!("{node} can't be reached, and the pod is deleted: it may run on there")
                }
                Lack::Target => format!("{node} is no target any more, and the pod is deleted"),
                Lack::Delegate => {
                    format!("{node} doesn't run the pod any more, and it is deleted")
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use pilotage_api::keys;
    use serde_json::json;

    use super::*;

    fn view(node: Option<&str>, phase: &str, ending: bool) -> ProxyView {
        let mut pod = json!({
            "metadata": {
                "namespace": "shop", "name": "p", "uid": "u", "resourceVersion": "1",
                "annotations": { keys::GRANTED_TO: "paris/chaperon/1" },
            },
            "spec": { "containers": [], "nodeName": node },
            "status": { "phase": phase },
        });
        if ending {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        ProxyView::of(&serde_json::from_value(pod).unwrap()).unwrap()
    }

    /// What is told after pods that run are seen so: reach, whether the target doesn't run it, and then the end.
    fn told(reach: Reach, left: bool, end: &ProxyView, gone: bool) -> Option<String> {
        let mut fate = Fate::default();
        let running = view(Some("paris"), "Running", false);
        assert_eq!(fate.see(&running, |_| reach, left, false), None);
        let told = fate.see(end, |_| reach, left, gone);
        // It is told once.
        if told.is_some() {
            assert_eq!(fate.see(end, |_| reach, left, true), None);
        }
        told
    }

    #[test]
    fn a_running_pod_is_lost_with_its_target_or_its_delegate() {
        let ending = view(Some("paris"), "Running", true);
        let running = view(Some("paris"), "Running", false);
        for (end, gone) in [(&ending, false), (&ending, true), (&running, true)] {
            for (reach, left, words) in [
                (Reach::Lost, false, "paris can't be reached"),
                (Reach::NoSuchTarget, false, "paris is no target"),
                (Reach::Reachable, true, "paris doesn't run the pod any more"),
            ] {
                let told = told(reach, left, end, gone).unwrap();
                assert!(told.starts_with(words), "{told}");
            }
            // Somebody deletes it.
            assert_eq!(told(Reach::Reachable, false, end, gone), None);
            assert_eq!(told(Reach::Unseen, true, end, gone), None);
        }
    }

    #[test]
    fn what_was_deleted_before_or_has_ended_is_not_lost() {
        let (running, ending) = (
            view(Some("paris"), "Running", false),
            view(Some("paris"), "Running", true),
        );
        let mut fate = Fate::default();
        for (view, reach, left) in [
            (&running, Reach::Lost, false),
            // It answers again.
            (&running, Reach::Reachable, false),
            (&ending, Reach::Reachable, false),
            // Its delegate ends as it should, or may.
            (&ending, Reach::Reachable, true),
            (&ending, Reach::Lost, true),
        ] {
            assert_eq!(fate.see(view, |_| reach, left, false), None);
        }
        let mut fate = Fate::default();
        assert_eq!(fate.see(&running, |_| Reach::Lost, false, false), None);
        let ended = view(Some("paris"), "Succeeded", true);
        assert_eq!(fate.see(&ended, |_| Reach::Lost, false, true), None);
    }

    #[test]
    fn a_pod_that_was_only_granted_is_lost_with_its_target_alone() {
        let (granted, ending) = (view(None, "Pending", false), view(None, "Pending", true));
        let told = |reach, left| {
            let mut fate = Fate::default();
            let before = fate.see(&granted, |_| reach, left, false);
            assert_eq!(before, None);
            fate.see(&ending, |_| reach, left, false)
        };
        assert!(told(Reach::Lost, false).is_some());
        assert_eq!(told(Reach::Reachable, true), None);
    }
}
