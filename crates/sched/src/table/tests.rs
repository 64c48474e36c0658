use super::{Column, NodeTable, Reads};
use crate::names::NodeName;
use crate::test_objects::{node, pod, uid};

fn id(table: &NodeTable, name: &str) -> super::NodeId {
    table.id(&NodeName::from(name)).unwrap()
}

#[test]
fn columns_follow_rows() {
    let mut table = NodeTable::default();
    let object = node("n").allocatable("cpu", "4").allocatable("pods", "2");
    table.set_node(object.object());
    let n = id(&table, "n");
    let pod = pod("huge").request("cpu", "9223372036854775807").info();
    table.add_pod(n, pod.clone());
    let numbers = table.numbers();
    assert_eq!(numbers.allocatable(Column::Cpu, n), 4000);
    assert_eq!(numbers.requested(Column::Cpu, n), i64::MAX);
    assert_eq!(numbers.non_zero_requested(Column::Memory, n), 200 << 20);
    assert_eq!((numbers.free_pods(n), numbers.is_closed(n)), (1, false));
    table.set_unread(n, Some(uid("x")));
    table.remove_pod(n, &pod.uid);
    let numbers = table.numbers();
    assert_eq!(
        numbers.requested(Column::Cpu, n),
        0,
        "nothing is left behind"
    );
    assert_eq!((numbers.free_pods(n), numbers.is_closed(n)), (2, true));
}

#[test]
fn a_row_is_used_again_and_everybody_is_told() {
    let mut table = NodeTable::default();
    table.set_node(node("a").object());
    table.set_node(node("b").object());
    let (a, start) = (id(&table, "a"), table.position());
    let gone = table.remove_node(&NodeName::from("a")).unwrap();
    assert_eq!((gone.name().as_str(), table.len()), ("a", 1));
    assert!(table.get(a).is_none());
    table.set_node(node("c").object());
    assert_eq!(id(&table, "c"), a);
    let told: Vec<_> = table.changes_since(start).unwrap().collect();
    assert_eq!(told, [(a, Reads::ANYTHING), (a, Reads::ANYTHING)]);
    let names: Vec<_> = table.iter().map(|node| node.name().to_string()).collect();
    assert_eq!(names, ["b", "c"]);

    let next = NodeTable::in_place_of(&table);
    assert!(next.changes_since(table.position()).is_none());
}

#[test]
fn equal_parts_of_nodes_have_equal_numbers() {
    let mut table = NodeTable::default();
    for name in ["a", "b"] {
        let node = node(name).label("kubernetes.io/hostname", name);
        let node = node.label("disk", "ssd").taint("t", "", "NoSchedule");
        table.set_node(node.image("web:1", 7).object());
    }
    table.set_node(node("c").label("disk", "ssd").unschedulable().object());
    let parts = |name: &str| {
        let id = id(&table, name);
        (
            table.label_set(id),
            table.taint_set(id),
            table.image_set(id),
        )
    };
    assert_eq!(parts("a"), parts("b"));
    let (a, c) = (parts("a"), parts("c"));
    assert!(a.0 == c.0 && a.1 != c.1 && a.2 != c.2, "{a:?} {c:?}");
}
