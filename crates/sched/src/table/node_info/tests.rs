use std::sync::Arc;

use k8s_openapi::api::core::v1::ContainerPort;
use proptest::prelude::*;

use super::NodeInfo;
use crate::pod_info::PodInfo;
use crate::test_objects::{node, pod};

/// What a pod asks for: CPU, memory, cranes; small, extreme, and what no API server would let pass.
fn requests() -> impl Strategy<Value = [String; 3]> {
    let amount = prop_oneof![
        any::<i64>().prop_map(|amount| amount.to_string()),
        (0_u8..4).prop_map(|amount| amount.to_string()),
        Just("9223372036854775807".to_owned()),
        Just("9223372036854775806".to_owned()),
        Just("8Ei".to_owned()),
        Just("1n".to_owned()),
    ];
    proptest::array::uniform3(amount)
}

fn made(prefix: &str, number: usize, [cpu, memory, cranes]: &[String; 3]) -> Arc<PodInfo> {
    let port = i32::try_from(number % 3).unwrap_or_default();
    pod(&format!("{prefix}{number}"))
        .request("cpu", cpu)
        .request("memory", memory)
        .request("port.io/crane", cranes)
        .edit(|pod| {
            let spec = pod.spec.get_or_insert_default();
            spec.containers[0].ports = Some(vec![ContainerPort {
                host_port: Some(port),
                ..ContainerPort::default()
            }]);
        })
        .info()
}

/// All that a node says of its pods, without their order.
fn contents(info: &NodeInfo) -> String {
    let mut pods: Vec<_> = info.pods().iter().map(|pod| pod.uid.to_string()).collect();
    pods.sort();
    let (requested, non_zero) = (info.requested(), info.non_zero_requested());
    let ports = info.used_ports();
    format!("{pods:?} {ports:?} {requested:?} {non_zero:?}")
}

proptest! {
    #[test]
    fn pods_that_came_and_went_leave_nothing_behind(
        stay in proptest::collection::vec(requests(), 0..4),
        (come, go) in proptest::collection::vec(requests(), 0..6)
            .prop_flat_map(|come| (Just(come.clone()), Just((0..come.len()).collect::<Vec<_>>()).prop_shuffle())),
    ) {
        let mut info = node("n").info();
        for (number, requests) in stay.iter().enumerate() {
            info.add_pod(made("stays", number, requests));
        }
        let before = contents(&info);
        let guests: Vec<_> = (come.iter().enumerate())
            .map(|(number, requests)| made("goes", number, requests))
            .collect();
        for guest in &guests {
            info.add_pod(guest.clone());
        }
        for number in go {
            prop_assert!(info.remove_pod(&guests[number].uid).is_some());
        }
        prop_assert_eq!(contents(&info), before);
    }
}
