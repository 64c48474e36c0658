//! What pods, Targets and tables say at absurd length, and in any form.

use super::*;

#[test]
fn what_is_too_long_is_nobodys_name() {
    let long = "r".repeat(200_000);
    let mut world = World::three();
    let dublin = "topology.kubernetes.io/region".to_owned();
    let words = |value: &str| Words {
        labels: [(dublin.clone(), "eu-west-1".to_owned())].into(),
        annotations: [
            (
                "multicluster.admiralty.io/region".to_owned(),
                value.to_owned(),
            ),
            (
                "multicluster.admiralty.io/cloud-provider".to_owned(),
                value.to_owned(),
            ),
            (
                "multicluster.admiralty.io/zones".to_owned(),
                format!("{value},a"),
            ),
        ]
        .into(),
    };
    // A Target that says too much has said nothing: its labels count.
    world.placing.set_words("iad", words(&long));
    assert_eq!(
        world.text(&region("eu-west-1"), &NEAREST),
        "dub=0 iad=0 fra=1"
    );
    assert!(
        world
            .placing
            .candidates
            .iter()
            .all(|one| one.region.name().len() <= 63)
    );
    // A pod that demands what nobody can be gets nobody, and is told so in few words.
    assert_eq!(
        world
            .text(&region(&long[..90_000]), &NEAREST)
            .matches('=')
            .count(),
        3
    );
    for (key, value) in [
        ("region", long.clone()),
        ("cloud-provider", long.clone()),
        ("access-restrictions", long.clone()),
        ("access-restrictions", "a,".repeat(5000)),
        (
            "access-restrictions",
            (0..100)
                .map(|n| format!("r{n}"))
                .collect::<Vec<_>>()
                .join(","),
        ),
    ] {
        let want = annotated(&json!({ format!("multicluster.admiralty.io/{key}"): value }));
        let order = world.order(&want, &SAME);
        assert_eq!(order.standings().count(), 0, "{key}");
        assert!(order.tell("", &BTreeMap::new()).unwrap().len() <= 1024);
    }
    // What it would like is no demand.
    let want = annotated(&json!({ "multicluster.admiralty.io/zones": format!("{long},a") }));
    assert_eq!(world.order(&want, &NEAREST).standings().count(), 3);
}

/// Any text, often a long one or one that means something.
fn any_text() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::prelude::*;
    prop_oneof![
        any::<String>(),
        "(eu|us)-(west|east)-[0-9]",
        "[a-c,. ]{0,200}",
        (1..5000_usize).prop_map(|length| "x,".repeat(length)),
        (60..5000_usize).prop_map(|length| "é".repeat(length)),
        Just("true".to_owned()),
        Just("{\"cpu\":\"9223372036854775807\",\"memory\":\"-1e300\"}".to_owned()),
    ]
}

mod fuzz {
    use super::*;

    pilotage_absurd::properties! {
        /// Whatever is written where a pod, a node, a Target or a table says where it is.
        #[test]
        fn any_words_give_an_order_that_is_told_in_few_words(
            pod_says in proptest::collection::vec(any_text(), 4),
            node_says in proptest::collection::vec(any_text(), 4),
            target_says in proptest::collection::vec(any_text(), 4),
            rows in proptest::collection::btree_map(any_text(), any_text(), 0..4),
            room in any_text(),
            same in proptest::bool::ANY,
        ) {
            let keys = ["region", "zones", "cloud-provider", "access-restrictions"];
            let keys = keys.map(|key| format!("multicluster.admiralty.io/{key}"));
            let said = |texts: &[String]| -> BTreeMap<String, String> {
                keys.iter().cloned().zip(texts.iter().cloned()).collect()
            };
            let mut annotations = json!(said(&node_says));
            annotations["multicluster.admiralty.io/free"] = json!(room);
            let mut world = World::new(&[
                node("a", "eu-west-1", &json!({ "metadata": { "annotations": annotations } })),
                node("b", &node_says[0], &json!({ "spec": { "providerID": node_says[1] } })),
            ]);
            let access = format!("access.multicluster.admiralty.io/{}", target_says[3]);
            let words = Words {
                annotations: said(&target_says),
                labels: [(access, "true".to_owned())].into(),
            };
            world.placing.set_words("b", words);
            let reading = world.table(&json!(rows));
            proptest::prop_assert!(reading.malformed.iter().all(|(_, error)| error.len() <= 256));
            world.home = Home::new(Some(&node_says[0]), Some(&node_says[2]));
            let want = annotated(&json!(said(&pod_says)));
            let order = world.order(&want, if same { &SAME } else { &NEAREST });
            proptest::prop_assert!(order.standings().count() + order.passed().count() == 2);
            let told = order.tell("", &BTreeMap::new()).unwrap_or_default();
            proptest::prop_assert!(told.len() <= 2048, "{}", told);
        }
    }
}
