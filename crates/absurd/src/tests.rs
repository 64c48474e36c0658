//! What the property tests of all crates draw from: it is of bounded size, and enough of it gets past the types.

use k8s_openapi::api::core::v1::{Node, Pod};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::json;

use super::{json, objects, text};

fn drawn<T: std::fmt::Debug>(strategy: BoxedStrategy<T>) -> impl Iterator<Item = T> {
    let mut runner = TestRunner::deterministic();
    (0..256).map(move |_| strategy.new_tree(&mut runner).unwrap().current())
}

#[test]
fn texts_and_documents_are_of_bounded_size() {
    assert!(drawn(text::text()).all(|text| text.len() <= 262_145));
    let long = drawn(text::long()).map(|text| text.len());
    assert!(long.max() > Some(100_000));
    let long = "x".repeat(262_145);
    let all = [
        json::json(),
        json::extreme(Just(json!({ "text": long, "texts": [long] }))),
        json::extreme(objects::extreme_pod()),
        json::junk_in(json::extreme(Just(objects::node()))),
    ];
    for strategy in all {
        let mut some = drawn(strategy).take(64);
        assert!(some.all(|value| value.to_string().len() <= 8 << 20));
    }
}

#[test]
fn a_part_of_what_is_extreme_is_read_by_the_types() {
    let pods = drawn(objects::extreme_pod())
        .filter(|pod| serde_json::from_value::<Pod>(pod.clone()).is_ok());
    assert!(pods.count() > 64);
    let nodes = json::extreme(Just(objects::node()));
    let nodes = drawn(nodes).filter(|node| serde_json::from_value::<Node>(node.clone()).is_ok());
    assert!(nodes.count() > 64);
    assert!(serde_json::from_value::<Pod>(objects::pod()).is_ok());
}
