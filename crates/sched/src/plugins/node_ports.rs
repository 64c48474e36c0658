//! Keeps pods off nodes where a host port that they want is in use. As in kube-scheduler 1.36.3 (`plugins/nodeports`).
//!
//! A port that two pods on a node share (somebody else bound them) is free when both have gone; upstream forgets it
//! with the first.

use crate::context::Context;
use crate::event::{Actions, Event, EventKind, EventObject, EventResource, Hint};
use crate::plugin::{EnqueueExtensions, Filter, HintReads, Plugin, PreFilter, PreFiltered};
use crate::pod_info::PodInfo;
use crate::state::CycleState;
use crate::status::{PluginName, Status, Verdict};
use crate::table::{NodeView, Reads};

/// Host ports.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodePorts;

impl Plugin for NodePorts {
    fn name(&self) -> PluginName {
        "NodePorts"
    }
}

impl EnqueueExtensions for NodePorts {
    fn events(&self) -> Vec<EventKind> {
        vec![
            // A pod's ports never change.
            EventKind::new(EventResource::AssignedPod, Actions::DELETE),
            EventKind::new(EventResource::Node, Actions::ADD),
        ]
    }

    fn hint(&self, pod: &PodInfo, event: &Event) -> Hint {
        match &event.object {
            EventObject::Pod {
                old: Some(gone),
                new: None,
            } => Hint::queue_if(pod.needs.host_ports.clash_with(&gone.needs.host_ports)),
            _ => Hint::Queue,
        }
    }

    fn hint_reads(&self) -> HintReads {
        HintReads::Needs
    }
}

impl PreFilter for NodePorts {
    fn pre_filter(
        &self,
        _cx: &Context<'_>,
        _state: &mut CycleState,
        pod: &PodInfo,
    ) -> Verdict<PreFiltered> {
        Ok(if pod.needs.host_ports.is_empty() {
            PreFiltered::Skip
        } else {
            PreFiltered::AllNodes
        })
    }
}

impl Filter for NodePorts {
    fn filter(&self, _state: &CycleState, pod: &PodInfo, node: NodeView<'_>) -> Verdict {
        if node.used_ports().clash_with(&pod.needs.host_ports) {
            return Err(Status::unschedulable(
                "node(s) didn't have free ports for the requested pod ports",
            ));
        }
        Ok(())
    }

    fn reads(&self) -> Reads {
        Reads::PODS
    }
}

#[cfg(test)]
mod tests {
    use super::NodePorts;
    use crate::event::{Actions, Event, EventResource, Hint};
    use crate::host_ports::UsedPorts;
    use crate::plugin::{EnqueueExtensions, Filter, PreFilter, PreFiltered};
    use crate::state::CycleState;
    use crate::status::Code;
    use crate::test_objects::{PodBuilder, node, pod, uid, with_context};

    fn at(name: &str, ports: &[(&str, &str, i32)]) -> PodBuilder {
        ports.iter().fold(pod(name), |pod, (ip, protocol, port)| {
            pod.host_port(ip, protocol, *port)
        })
    }

    #[test]
    fn ports_in_use_keep_pods_away() {
        let mut berth = node("berth").with(vec![
            at("a", &[("", "TCP", 80), ("10.0.0.1", "UDP", 53)]),
            pod("b"),
        ]);
        let told = |ports, node: &crate::table::NodeInfo| {
            let status = NodePorts.filter(&CycleState::new(), &at("p", ports).info(), node.view());
            status
                .err()
                .map(|status| (status.code(), status.to_string()))
        };
        let taken = "node(s) didn't have free ports for the requested pod ports";
        let taken = || Some((Code::Unschedulable, taken.to_owned()));
        for (ports, expected) in [
            (&[("", "TCP", 81)][..], None),
            (&[("", "UDP", 80)], None),
            (&[("127.0.0.1", "", 80)], taken()),
            (&[("", "TCP", 81), ("", "TCP", 80)], taken()),
            (&[("10.0.0.2", "UDP", 53)], None),
            (&[("10.0.0.1", "UDP", 53)], taken()),
            (&[("0.0.0.0", "UDP", 53)], taken()),
        ] {
            assert_eq!(told(ports, &berth), expected, "{ports:?}");
        }
        berth.remove_pod(&uid("a"));
        assert_eq!(told(&[("", "TCP", 80)], &berth), None, "it is gone");
    }

    #[test]
    fn thousands_of_ports_are_looked_up_and_not_compared_with_each_other() {
        let many = |name: &str, ip: &str| {
            let ports = (1..=1_800).map(|port| (ip, "TCP", port));
            at(name, &ports.collect::<Vec<_>>()).info()
        };
        let guest = |number: u8| many(&format!("guest-{number}"), &format!("10.0.0.{number}"));
        let guests: Vec<_> = (0..50).map(guest).collect();
        let waiting = many("waiting", "10.0.1.1");
        let gone = Some(guests[0].clone());
        let gone = Event::pod(EventResource::AssignedPod, Actions::DELETE, gone, None);
        let mut berth = node("berth").info();
        pilotage_absurd::bounded(|| {
            for guest in &guests {
                berth.add_pod(guest.clone());
            }
            let there = NodePorts.filter(&CycleState::new(), &waiting, berth.view());
            assert!(there.is_ok(), "no port is on another's address");
            assert_eq!(NodePorts.hint(&waiting, &gone), Hint::Skip);
            for guest in &guests {
                assert!(berth.remove_pod(&guest.uid).is_some());
            }
        });
        assert_eq!(berth.used_ports(), &UsedPorts::default());
    }

    #[test]
    fn pods_without_host_ports_are_no_concern() {
        let asked = |pod: PodBuilder| {
            let pod = pod.info();
            with_context(|cx| NodePorts.pre_filter(cx, &mut CycleState::new(), &pod)).unwrap()
        };
        assert_eq!(asked(at("p", &[("", "", 0)])), PreFiltered::Skip);
        assert_eq!(asked(at("p", &[("", "", 80)])), PreFiltered::AllNodes);
    }

    #[test]
    fn what_helps() {
        let waiting = at("p", &[("", "TCP", 80)]).info();
        let gone = |ports| {
            let gone = Some(at("x", ports).info());
            Event::pod(EventResource::AssignedPod, Actions::DELETE, gone, None)
        };
        let comes = Event::node(Actions::ADD, None, Some(node("n").object()));
        for (event, hint) in [
            (gone(&[("10.0.0.1", "TCP", 80)][..]), Hint::Queue),
            (gone(&[("10.0.0.1", "UDP", 80)]), Hint::Skip),
            (gone(&[]), Hint::Skip),
            (comes, Hint::Queue),
        ] {
            assert_eq!(NodePorts.hint(&waiting, &event), hint, "{event}");
        }
    }
}
