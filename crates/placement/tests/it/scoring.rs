//! Weighted rules: what each one gives, how they add up, and that they contain the classic strategy.

use std::sync::Arc;

use pilotage_placement::{
    Candidate, Cost, Distance, Loss, Measure, Over, Points, Ranked, Request, Rule, RuleScore,
    Weight, select,
};

use crate::world::{candidate, filled, ranking, request, table, weighted};

fn weight(weight: u32) -> Weight {
    Weight::new(weight).unwrap()
}

fn points(whole: u64) -> Points {
    Points::from_milli(1000 * whole)
}

fn distance() -> Rule {
    Rule::minimal_distance(weight(1))
}

/// What the only rule gave.
fn score_of(ranked: &Ranked) -> RuleScore {
    ranked.scores.iter().next().unwrap()
}

fn free() -> Rule {
    Rule::least_allocated(weight(1))
}

/// Three seeds between which distance and room disagree.
fn three() -> (Request, Vec<Candidate>) {
    let request = Request {
        distances: table("a", "{a: 0, b: 20, c: 5}"),
        ..request("foo", "a")
    };
    let seeds = vec![
        filled(candidate("A", "foo", "a"), 240, Some(250)),
        filled(candidate("B", "foo", "b"), 50, Some(250)),
        filled(candidate("C", "foo", "c"), 125, Some(250)),
    ];
    (request, seeds)
}

#[test]
fn near_and_free_add_up() {
    let (request, seeds) = three();
    let selection = select(&request, &seeds, &weighted(&[distance(), free()]));
    assert_eq!(ranking(&selection), ["C", "A", "B"]);
    let totals: Vec<_> = selection.ranking.iter().map(|one| one.total).collect();
    assert_eq!(totals, [points(125), points(104), points(80)]);
    let best = &selection.ranking[0];
    let scores: Vec<_> = best
        .scores
        .iter()
        .map(|score| (score.rule, score.points, score.measure))
        .collect();
    assert_eq!(
        scores,
        [
            (
                "MinimalDistance",
                points(75),
                Measure::Distance(Distance::Table(5))
            ),
            (
                "SeedResourcesLeastAllocated",
                points(50),
                Measure::Free(points(50))
            ),
        ]
    );
    assert_eq!(
        selection.ranking[1].loss_to(best),
        Loss::LowerScore {
            own: points(104),
            higher: points(125)
        }
    );
}

#[test]
fn weights_change_the_winner() {
    let (request, seeds) = three();
    for (near, room, expected) in [
        (1, 1, ["C", "A", "B"]),
        (1, 0, ["A", "C", "B"]),
        (0, 1, ["B", "C", "A"]),
        (4, 1, ["A", "C", "B"]),
        (1, 4, ["B", "C", "A"]),
        // Without any weight all are equal, and the least used one wins.
        (0, 0, ["B", "C", "A"]),
    ] {
        let rules = [
            Rule::minimal_distance(weight(near)),
            Rule::least_allocated(weight(room)),
        ];
        let selection = select(&request, &seeds, &weighted(&rules));
        assert_eq!(ranking(&selection), expected, "{near}:{room}");
    }
}

/// What a single rule gives, by name of the candidate.
fn given(rule: Rule, seeds: &[Candidate]) -> Vec<(&str, String, String)> {
    let selection = select(&request("foo", "a"), seeds, &weighted(&[rule]));
    assert_eq!(selection.ranking.len(), seeds.len());
    seeds
        .iter()
        .map(|seed| {
            let mut ranking = selection.ranking.iter();
            let ranked = ranking.find(|one| one.name == seed.name).unwrap();
            let score = score_of(ranked);
            let (points, measure) = (score.points.to_string(), score.measure.to_string());
            (&*seed.name, points, measure)
        })
        .collect()
}

fn is(given: &[(&str, String, String)], expected: &[(&str, &str, &str)]) {
    let given: Vec<_> = given.iter().map(|(a, b, c)| (*a, &**b, &**c)).collect();
    assert_eq!(given, expected);
}

#[test]
fn least_allocated_is_relative() {
    let seeds = [
        filled(candidate("small", "foo", "a"), 1, Some(4)),
        filled(candidate("large", "foo", "a"), 10, Some(100)),
        filled(candidate("endless", "foo", "a"), 1000, None),
        candidate("unknown", "foo", "a"),
    ];
    is(
        &given(free(), &seeds),
        &[
            ("small", "75", "75% free"),
            ("large", "90", "90% free"),
            ("endless", "100", "100% free"),
            ("unknown", "100", "100% free"),
        ],
    );
    let overfull = [filled(candidate("a", "foo", "a"), 7, Some(5))];
    let mut asks_nothing = request("foo", "a");
    asks_nothing.demand.clear();
    let selection = select(&asks_nothing, &overfull, &weighted(&[free()]));
    assert_eq!(selection.ranking[0].total, Points::ZERO);
}

#[test]
fn least_used_is_absolute() {
    let seeds = [(1, "a"), (10, "b"), (4, "c")]
        .map(|(used, name)| filled(candidate(name, "foo", "a"), used, Some(1000)));
    is(
        &given(Rule::least_used(weight(1)), &seeds),
        &[
            ("a", "100", "1 used"),
            ("b", "0", "10 used"),
            ("c", "66.666", "4 used"),
        ],
    );
}

#[test]
fn spread_counts_regions_or_providers() {
    let seeds = [
        ("a", "aws", "eu", 3),
        ("b", "gcp", "eu", 3),
        ("c", "aws", "us", 4),
    ]
    .map(|(name, provider, region, used)| filled(candidate(name, provider, region), used, None));
    let free_choice = |rule| {
        let mut seeds = seeds.clone();
        for seed in &mut seeds {
            seed.labels = [("x", "y")].into_iter().collect();
        }
        let request = Request::default();
        let selection = select(&request, &seeds, &weighted(&[rule]));
        let mut found: Vec<_> = selection
            .ranking
            .iter()
            .map(|one| {
                (
                    one.name.to_string(),
                    score_of(one).measure.to_string(),
                    one.total,
                )
            })
            .collect();
        found.sort();
        found
    };
    let row =
        |name: &str, measure: &str, whole| (name.to_owned(), measure.to_owned(), points(whole));
    assert_eq!(
        free_choice(Rule::spread(weight(1), Over::Region)),
        [
            row("a", "6 used", 0),
            row("b", "6 used", 0),
            row("c", "4 used", 100)
        ]
    );
    assert_eq!(
        free_choice(Rule::spread(weight(1), Over::Provider)),
        [
            row("a", "7 used", 0),
            row("b", "3 used", 100),
            row("c", "7 used", 0)
        ]
    );
}

#[test]
fn spread_keeps_those_of_one_application_apart() {
    let seeds = [
        ("a", "eu", 3),
        ("b", "eu", 3),
        ("c", "us", 4),
        ("d", "ap", 90),
    ]
    .map(|(name, region, used)| filled(candidate(name, "aws", region), used, None));
    let mut request = Request::default();
    let peers = [("a", 2), ("c", 1), ("gone", 50)];
    request.peers = Some(Arc::new(
        peers.map(|(name, count)| (name.into(), count)).into(),
    ));
    let rules = weighted(&[Rule::spread(weight(1), Over::Region)]);
    let told = |request: &Request| -> Vec<String> {
        let selection = select(request, &seeds, &rules);
        let told = selection.ranking.iter().map(|one| {
            let score = score_of(one);
            format!("{}: {} ({})", one.name, score.points, score.measure)
        });
        told.collect()
    };
    // What others have in a region counts only between equals.
    assert_eq!(
        told(&request),
        [
            "d: 100 (0 of its own)",
            "c: 50 (1 of its own)",
            "a: 0 (2 of its own)",
            "b: 0 (2 of its own)"
        ]
    );
    request.peers = None;
    assert_eq!(told(&request)[0], "c: 100 (4 used)");
}

#[test]
fn cost_is_read_from_where_it_is_said_to_be() {
    let key = "example.com/cost";
    let priced = |name: &str, cost: &str| {
        let mut seed = candidate(name, "foo", "a");
        seed.labels = [(key, cost)].into_iter().collect();
        seed.annotations = [(key, "1")].into_iter().collect();
        seed
    };
    let seeds = [
        priced("cheap", "0.25"),
        priced("dear", "1.25"),
        priced("middle", "0.5"),
        priced("unknown", "a lot"),
        candidate("silent", "foo", "a"),
    ];
    is(
        &given(Rule::cost(weight(1), Cost::Label(key.to_owned())), &seeds),
        &[
            ("cheap", "100", "0.25"),
            ("dear", "0", "1.25"),
            ("middle", "75", "0.5"),
            ("unknown", "0", "unknown"),
            ("silent", "0", "unknown"),
        ],
    );
    is(
        &given(
            Rule::cost(weight(1), Cost::Annotation(key.to_owned())),
            &seeds[..1],
        ),
        &[("cheap", "100", "1")],
    );
}

#[test]
fn a_table_excludes_distances_by_name() {
    let request = Request {
        distances: table("a", "{b: 20, c: 5}"),
        ..request("foo", "a")
    };
    // `aa` would be nearest by name, but the table knows others.
    let seeds = ["aa", "b", "c"].map(|region| candidate(region, "foo", region));
    let selection = select(&request, &seeds, &weighted(&[distance()]));
    let totals: Vec<_> = selection
        .ranking
        .iter()
        .map(|one| (&*one.name, one.total))
        .collect();
    assert_eq!(
        totals,
        [("c", points(100)), ("aa", points(0)), ("b", points(0))]
    );
}

#[test]
fn a_broken_row_fails_only_rules_that_need_it() {
    let request = Request {
        distances: table("a", "{"),
        ..request("foo", "a")
    };
    let seeds = [candidate("a", "foo", "a")];
    assert!(
        select(&request, &seeds, &weighted(&[free()]))
            .winner()
            .is_some()
    );
    let selection = select(&request, &seeds, &weighted(&[distance()]));
    assert!(selection.winner().is_none());
    assert!(selection.failure.is_some());
}
