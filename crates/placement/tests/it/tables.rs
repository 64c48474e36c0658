//! Strategy `MinimalDistance` with a table of regions: what it says, where it ends, and the order after the winner.

use pilotage_placement::{
    Candidate, Distance, Failure, InputError, Loss, Providers, Request, Strategy, select,
};

use crate::world::{candidate, filled, ranking, rejections, request, strategy, table};

fn seeds(regions: &[&str]) -> Vec<Candidate> {
    regions
        .iter()
        .map(|region| candidate(region, "foo", region))
        .collect()
}

fn with_row(region: &str, row: &str) -> Request {
    Request {
        distances: table(region, row),
        ..request("foo", region)
    }
}

#[test]
fn the_row_decides() {
    let seeds = seeds(&[
        "ap-west-1",
        "eu-east-1",
        "eu-west-1",
        "us-central-2",
        "us-east-1",
    ]);
    let settings = strategy(Strategy::MinimalDistance);
    let others = "{ap-west-1: 300, eu-east-1: 20, us-central-2: 200, us-east-1: 100}";
    let cases = [
        // Its own region is at 0 unless the row says otherwise.
        (others, "eu-west-1"),
        ("{eu-west-1: 30, us-east-1: 20}", "us-east-1"),
        // Less than nothing is nearer than nothing.
        ("{ap-west-1: -1}", "ap-west-1"),
        ("{ap-west-1: null, eu-west-1: 1}", "ap-west-1"),
        // Too far to be in the table at all.
        (
            "{eu-west-1: 2147483648, us-east-1: 2147483647}",
            "us-east-1",
        ),
        // An empty row has only the own region.
        ("# nothing", "eu-west-1"),
    ];
    for (row, winner) in cases {
        let selection = select(&with_row("eu-west-1", row), &seeds, &settings);
        assert_eq!(ranking(&selection)[0], winner, "{row}");
    }
}

#[test]
fn who_follows_is_who_would_win_without_the_ones_before() {
    let request = with_row(
        "eu-west-1",
        "{us-east-1: 20, ap-west-1: 300, us-central-2: 20}",
    );
    let mut rest = seeds(&[
        "ap-west-1",
        "eu-east-1",
        "us-central-2",
        "us-east-1",
        "eu-west-2",
    ]);
    rest[2].used = 7;
    let settings = strategy(Strategy::MinimalDistance);
    let whole = select(&request, &rest, &settings);
    assert_eq!(
        ranking(&whole),
        [
            "us-east-1",
            "us-central-2",
            "ap-west-1",
            "eu-east-1",
            "eu-west-2"
        ]
    );
    let distances: Vec<_> = whole
        .ranking
        .iter()
        .map(|one| one.distance.unwrap())
        .collect();
    let (by_table, by_name) = (Distance::Table, Distance::Name);
    assert_eq!(
        distances,
        [
            by_table(20),
            by_table(20),
            by_table(300),
            by_name(2),
            by_name(2)
        ]
    );
    let losses: Vec<_> = whole.ranking[1..]
        .iter()
        .map(|one| one.loss_to(&whole.ranking[0]))
        .collect();
    let farther = |own| Loss::Farther {
        own,
        nearer: by_table(20),
    };
    assert_eq!(
        losses,
        [
            Loss::MoreUsed { own: 7, less: 0 },
            farther(by_table(300)),
            farther(by_name(2)),
            farther(by_name(2)),
        ]
    );
    for expected in &whole.ranking {
        let selection = select(&request, &rest, &settings);
        assert_eq!(selection.winner().unwrap().name, expected.name);
        rest.retain(|seed| seed.name != expected.name);
    }
}

#[test]
fn without_a_row_for_it_names_decide() {
    let settings = strategy(Strategy::MinimalDistance);
    let seeds = seeds(&["ap-west-1", "eu-east-1", "us-central-2", "us-east-1"]);
    // The table has a row for another region, an empty one, or none that a candidate is in.
    for (region, row) in [
        ("eu-central-1", "{us-east-1: 1}"),
        ("eu-west-1", ""),
        ("eu-west-1", "{us-west-7: 1}"),
    ] {
        let request = Request {
            distances: table(region, row),
            ..request("foo", "eu-west-1")
        };
        let selection = select(&request, &seeds, &settings);
        assert_eq!(ranking(&selection)[0], "eu-east-1", "{region} {row}");
        assert_eq!(selection.ranking[0].distance, Some(Distance::Name(2)));
    }
}

#[test]
fn a_row_that_is_broken_fails_those_who_need_it() {
    let seeds = seeds(&["eu-west-1"]);
    let request = with_row("eu-west-1", "{");
    let selection = select(&request, &seeds, &strategy(Strategy::MinimalDistance));
    assert!(selection.winner().is_none());
    let Some(Failure::Input(InputError::Row { table, region, .. })) = selection.failure else {
        panic!("{selection:?}");
    };
    assert_eq!((&*table, &*region), ("garden/distances", "eu-west-1"));
    // The other strategy and tests don't need it.
    let same = select(&request, &seeds, &strategy(Strategy::SameRegion));
    assert!(same.winner().is_some());
    let testing = Request {
        testing: true,
        ..request
    };
    let selection = select(&testing, &seeds, &strategy(Strategy::MinimalDistance));
    assert!(selection.winner().is_some());
}

#[test]
fn providers_dont_count_in_tables() {
    let mut request = with_row("eu", "{us: 10}");
    request.providers = Providers::Any;
    let seeds = [
        filled(candidate("own", "foo", "us"), 2, None),
        filled(candidate("foreign", "bar", "us"), 1, None),
    ];
    let selection = select(&request, &seeds, &strategy(Strategy::MinimalDistance));
    assert_eq!(ranking(&selection), ["foreign", "own"]);
}

#[test]
fn too_far_by_name() {
    // Distance is twice the number of characters that have to go, as long as it is a region's name.
    let name = |length: usize| format!("a{}", "b".repeat(length));
    let seeds = [
        candidate("just", "foo", &name(62)),
        candidate("beyond", "foo", &name(63)),
        candidate("foreign", "bar", &name(200_000)),
    ];
    let mut request = request("foo", "a");
    request.providers = Providers::Any;
    let selection = select(&request, &seeds, &strategy(Strategy::MinimalDistance));
    assert_eq!(ranking(&selection), ["just"]);
    assert_eq!(
        rejections(&selection),
        [
            "beyond: Strategy: is too far away",
            "foreign: Strategy: is too far away"
        ]
    );
}

#[test]
fn tests_may_go_to_any_region_of_their_provider() {
    let seeds = [
        filled(candidate("near", "foo", "eu"), 2, None),
        filled(candidate("far", "foo", "us"), 1, None),
        candidate("foreign", "bar", "eu"),
    ];
    let mut request = request("foo", "eu");
    request.testing = true;
    request.providers = Providers::Any;
    for settings in Strategy::ALL.map(strategy) {
        let selection = select(&request, &seeds, &settings);
        assert_eq!(ranking(&selection), ["far", "near"]);
        assert_eq!(
            rejections(&selection),
            ["foreign: Strategy: is of provider \"bar\""]
        );
    }
}
