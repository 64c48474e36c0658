//! What is preferred, case by case.

use super::{InterPodAffinityArgs, World};
use crate::plugin::Score;
use crate::state::CycleState;
use crate::test_objects::{PodBuilder, pod, pods_with, selecting};

/// Three zones of a node each, and a node that is nowhere; by name.
fn harbour() -> World {
    World::of(&[
        ("east", &[("zone", "east")]),
        ("north", &[("zone", "north")]),
        ("nowhere", &[]),
        ("west", &[("zone", "west")]),
    ])
}

fn app(name: &str, app: &str) -> PodBuilder {
    pod(name).label("app", app)
}

fn raw(world: &World, pod: PodBuilder) -> Option<Vec<i64>> {
    let scores = world.scores(pod)?;
    Some(scores.into_iter().map(|(raw, _)| raw).collect())
}

#[test]
fn the_worked_example() {
    let world = World::of(&[
        ("a", &[("zone", "a")]),
        ("b", &[("zone", "b")]),
        ("c", &[("zone", "c")]),
    ]);
    let world = world
        .with("a", app("db", "db"))
        .with("c", app("cache1", "cache"))
        .with("c", app("cache2", "cache"));
    let pod = pod("p")
        .prefers(-10, pods_with("zone", &[("app", "db")]))
        .prefers(15, pods_with("zone", &[("app", "cache")]));
    assert_eq!(world.scores(pod).unwrap(), [(-10, 0), (0, 25), (30, 100)]);
}

#[test]
fn what_a_place_is_worth() {
    let world = harbour()
        .with("east", app("a", "db"))
        .with("east", app("b", "db").label("tier", "back"))
        .with("west", app("c", "db"))
        .with("nowhere", app("d", "db"));
    let near = |weight| pod("p").prefers(weight, pods_with("zone", &[("app", "db")]));
    let host = pods_with("kubernetes.io/hostname", &[("app", "db")]);
    for (what, pod, expected) in [
        ("near", near(7), [14, 0, 0, 7]),
        ("away", near(-7), [-14, 0, 0, -7]),
        ("two labels", near(7).prefers(-3, host), [8, 0, -3, 4]),
        (
            "each term for itself",
            near(7).prefers(2, pods_with("zone", &[("tier", "back")])),
            [16, 0, 0, 7],
        ),
    ] {
        assert_eq!(raw(&world, pod).unwrap(), expected, "{what}");
    }
}

#[test]
fn what_pods_that_are_there_think_counts_as_well() {
    let web = || pods_with("zone", &[("app", "web")]);
    for (what, there, weight, expected) in [
        ("prefers", app("a", "db").prefers(5, web()), 1, Some(5)),
        ("rather not", app("a", "db").prefers(-5, web()), 1, Some(-5)),
        ("requires", app("a", "db").near(web()), 1, Some(1)),
        ("requires more", app("a", "db").near(web()), 100, Some(100)),
        ("that is worth nothing", app("a", "db").near(web()), 0, None),
        // Who requires to be alone is no matter of taste.
        ("refuses", app("a", "db").away_from(web()), 1, None),
        (
            "another one",
            app("a", "db").prefers(5, pods_with("zone", &[("app", "tug")])),
            1,
            None,
        ),
    ] {
        let args = InterPodAffinityArgs {
            hard_pod_affinity_weight: weight,
            ..InterPodAffinityArgs::default()
        };
        let world = harbour().told(args).with("west", there);
        let expected = expected.map(|worth| vec![0, 0, 0, worth]);
        assert_eq!(raw(&world, app("p", "web")), expected, "{what}");
    }
}

#[test]
fn preferences_of_others_can_be_ignored_unless_the_pod_has_some() {
    let args = InterPodAffinityArgs {
        ignore_preferred_terms_of_existing_pods: true,
        ..InterPodAffinityArgs::default()
    };
    let prefers = app("a", "db").prefers(5, pods_with("zone", &[("app", "web")]));
    let world = harbour().told(args).with("west", prefers);
    assert_eq!(raw(&world, app("p", "web")), None);
    // What it requires is no preference.
    let requires = app("p", "web").away_from(pods_with("zone", &[("app", "web")]));
    assert_eq!(raw(&world, requires), None);
    let prefers = app("p", "web").prefers(1, pods_with("zone", &[("app", "db")]));
    assert_eq!(raw(&world, prefers).unwrap(), [0, 0, 0, 6]);
}

#[test]
fn nothing_is_scored_where_nobody_is_meant() {
    let prefers = || pod("p").prefers(5, pods_with("zone", &[("app", "db")]));
    assert_eq!(raw(&harbour(), prefers()), None);
    assert_eq!(
        raw(&harbour().with("nowhere", app("a", "db")), prefers()),
        None
    );
    let world = harbour().with("west", app("a", "db"));
    assert_eq!(raw(&world, pod("p")), None);
    // Two that outweigh each other are two.
    let torn = prefers().prefers(-5, pods_with("zone", &[("app", "db")]));
    assert_eq!(world.scores(torn).unwrap(), [(0, 0); 4]);
}

#[test]
fn namespaces_count_both_ways() {
    let world = harbour()
        .namespace("shop", &[("team", "x")])
        .with("east", app("a", "db").namespace("shop"))
        .with("west", app("b", "db").namespace("bank"));
    let mut of_x = pods_with("zone", &[("app", "db")]);
    of_x.namespace_selector = Some(selecting(&[("team", "x")]));
    assert_eq!(
        raw(&world, pod("p").prefers(5, of_x)).unwrap(),
        [5, 0, 0, 0]
    );
    let mut of_x = pods_with("zone", &[("app", "web")]);
    of_x.namespace_selector = Some(selecting(&[("team", "x")]));
    let world = world.with("north", app("c", "db").prefers(3, of_x));
    let in_shop = raw(&world, app("p", "web").namespace("shop"));
    assert_eq!(in_shop.unwrap(), [0, 3, 0, 0]);
    assert_eq!(raw(&world, app("p", "web")), None);
}

#[test]
fn the_range_is_spread_from_0_to_100() {
    let plugin = super::InterPodAffinity::default();
    let (state, pod) = (CycleState::new(), pod("p").info());
    for (raw, expected) in [
        (vec![], vec![]),
        (vec![5], vec![0]),
        (vec![-3, -3], vec![0, 0]),
        (vec![1, 2, 4], vec![0, 33, 100]),
        (vec![-1, 1], vec![0, 100]),
        // 100 × (29 ÷ 100) is less than 29 in floating point.
        (vec![0, 29, 100], vec![0, 28, 100]),
        (vec![0, 57, 58, 100], vec![0, 56, 57, 100]),
        (vec![i64::MIN + 1, 0, i64::MAX], vec![0, 100, 100]),
    ] {
        let mut scores = raw.clone();
        let table = crate::table::NodeTable::default();
        plugin
            .normalize(&state, &pod, &table, &[], &mut scores)
            .unwrap();
        assert_eq!(scores, expected, "{raw:?}");
    }
}
