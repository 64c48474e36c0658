//! What holds for all requests and candidates, well-formed or not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pilotage_placement::{
    Candidate, Cidr, Cost, Domain, Expression, Failure, Families, Labels, ObservedNetworks, Over,
    Providers, Ranking, Readiness, Region, RegionTable, Request, RequestNetworks, Resource, Rule,
    Selection, Selector, Settings, Step, Strategy, Taint, Toleration, Weight, ZoneHints, ZoneMode,
    select,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::{select as one_of, subsequence};
use proptest::strategy::Strategy as Generate;

const REGIONS: [&str; 6] = [
    "eu-west-1",
    "eu-east-1",
    "eu-west-2",
    "us-east-1",
    "ap-1",
    "",
];
const PROVIDERS: [&str; 3] = ["aws", "gcp", ""];
const ZONES: [&str; 3] = ["a", "b", "c"];
const KEYS: [&str; 2] = ["k", "l"];
const CIDRS: [&str; 8] = [
    "10.0.0.0/8",
    "10.1.0.0/16",
    "240.1.0.0/16",
    "fd00::/16",
    "fd00:1::/32",
    "fd8f:6d53:b97a:1::/100",
    "nonsense",
    "",
];
const ROWS: [&str; 6] = [
    "{eu-east-1: 10, us-east-1: 100}",
    "{eu-west-1: 5, us-east-1: 5}",
    "{}",
    "# empty",
    "{",
    "{ap-1: -1, eu-west-2: 3000000000}",
];

fn text(choices: &'static [&'static str]) -> impl Generate<Value = String> + Clone {
    one_of(choices).prop_map(ToOwned::to_owned)
}

fn texts(choices: &'static [&'static str]) -> impl Generate<Value = Vec<String>> + Clone {
    vec(text(choices), 0..4)
}

fn set(choices: &'static [&'static str]) -> impl Generate<Value = BTreeSet<String>> + Clone {
    texts(choices).prop_map(|texts| texts.into_iter().collect())
}

fn labels() -> impl Generate<Value = Labels> + Clone {
    vec((text(&KEYS), text(&["1", "2", "3.5", "x"])), 0..3)
        .prop_map(|pairs| pairs.into_iter().collect::<BTreeMap<_, _>>())
}

fn cidr() -> impl Generate<Value = Option<Cidr>> + Clone {
    option::of(one_of(&CIDRS[..]).prop_map(Cidr::new))
}

fn cidrs() -> impl Generate<Value = Vec<Cidr>> + Clone {
    vec(one_of(&CIDRS[..]).prop_map(Cidr::new), 0..3)
}

fn candidate() -> impl Generate<Value = Candidate> {
    let state = (
        one_of(&["a", "b", "c", "d", "e"][..]),
        any::<[bool; 4]>(),
        labels(),
        labels(),
        option::weighted(0.1, Just("is out")),
    );
    let place = (
        text(&PROVIDERS),
        text(&REGIONS),
        texts(&ZONES),
        one_of(&[ZoneMode::Ignore, ZoneMode::Prefer, ZoneMode::Enforce][..]),
        texts(&["eu", "us"]),
        texts(&["example.com", "test.org", ""]),
    );
    let networks = (cidr(), cidr(), cidr(), cidr(), cidr());
    let taints = vec((text(&KEYS), option::of(text(&["v", "w"]))), 0..3);
    let room = (0..5u64, option::of(-1..6i64));
    (state, place, networks, taints, room).prop_map(
        |(
            (name, [a, b, c, d], labels, annotations, out),
            (provider, region, zones, zone_mode, access, domains),
            (nodes, pods, services, default_pods, default_services),
            taints,
            (used, allocatable),
        )| Candidate {
            name: name.into(),
            labels: labels.into_iter().collect(),
            annotations: annotations.into_iter().collect(),
            deleting: a && b && c,
            visible: !(b && c && d),
            readiness: out.map_or(Readiness::Ready, |why| Readiness::NotReady(why.into())),
            provider: provider.into(),
            region: Region::new(&region),
            zones,
            zone_mode,
            access_restrictions: access.into_iter().collect(),
            domains,
            stopped: a && c && d,
            networks: pilotage_placement::CandidateNetworks {
                nodes,
                pods,
                services,
                default_pods,
                default_services,
            },
            taints: taints
                .into_iter()
                .map(|(key, value)| Taint { key, value })
                .collect(),
            used,
            resources: vec![Resource {
                name: "shoots".into(),
                allocatable,
                used: used as i64,
            }],
        },
    )
}

fn selector() -> impl Generate<Value = Option<Result<Selector, pilotage_placement::SelectorError>>>
{
    let operator = text(&["In", "NotIn", "Exists", "DoesNotExist", "in"]);
    let expression =
        (text(&KEYS), operator, texts(&["1", "2"])).prop_map(|(key, operator, values)| {
            Expression {
                key,
                operator,
                values,
            }
        });
    option::weighted(
        0.3,
        vec(expression, 0..2).prop_map(|all| Selector::new(&Labels::new(), &all)),
    )
}

pub(crate) fn request() -> impl Generate<Value = Request> {
    let selectors = (selector(), selector());
    let providers = prop_oneof![
        Just(Providers::Own),
        Just(Providers::Any),
        set(&PROVIDERS).prop_map(Providers::Listed),
    ];
    let row = option::of((text(&REGIONS), one_of(&ROWS[..])));
    let place = (
        option::of(text(&PROVIDERS)),
        providers,
        option::of(text(&REGIONS)),
        row,
    );
    let zones = prop_oneof![
        3 => Just(ZoneHints::default()),
        2 => set(&ZONES).prop_map(ZoneHints::Near),
        1 => set(&ZONES).prop_map(ZoneHints::All),
    ];
    let domain = option::weighted(
        0.3,
        text(&[
            "shoot.project.example.com",
            "other.project.example.com",
            "shoot.other.test.org",
            "x.test.org",
            "own.net",
            ".",
            "",
        ]),
    );
    let networks = option::weighted(
        0.4,
        (
            (cidr(), cidr(), cidr()),
            any::<[bool; 3]>(),
            option::of((cidrs(), cidrs(), cidrs())),
        ),
    );
    let tolerations = vec((text(&KEYS), option::of(text(&["v", "w"]))), 0..4);
    let rest = (
        zones,
        texts(&["eu", "us"]),
        domain,
        networks,
        tolerations,
        any::<[bool; 3]>(),
    );
    (selectors, place, rest).prop_map(
        |(
            (profile_selector, own_selector),
            (provider, providers, region, row),
            (zones, access, domain, networks, tolerations, [a, b, c]),
        )| Request {
            profile_selector,
            own_selector,
            provider: provider.map(Into::into),
            providers,
            region: region.as_deref().map(Region::new),
            distances: row.map(|(region, row)| RegionTable::new("t", [(&*region, row)]).into()),
            zonal: a && b,
            zones,
            access_restrictions: if c { access } else { Vec::new() },
            domain: domain.map(|domain| Domain {
                domain,
                name: "shoot".to_owned(),
                project: "project".to_owned(),
            }),
            networks: networks.map(
                |((nodes, pods, services), [v4, v6, workerless], observed)| RequestNetworks {
                    nodes,
                    pods,
                    services,
                    families: Families { v4, v6 },
                    workerless,
                    observed: observed.map(|(nodes, pods, services)| ObservedNetworks {
                        nodes,
                        pods,
                        services,
                    }),
                },
            ),
            tolerations: tolerations
                .into_iter()
                .map(|(key, value)| Toleration { key, value })
                .collect(),
            demand: vec![("shoots".into(), 1)],
            peers: (a && !b).then(|| Arc::new([("a0".into(), 2), ("b1".into(), 1)].into())),
            testing: a && c,
        },
    )
}

fn settings() -> impl Generate<Value = Settings> {
    let weight = || (0..4u32).prop_map(|weight| Weight::new(weight).unwrap());
    let rules = (weight(), weight(), weight(), weight(), weight()).prop_map(|(a, b, c, d, e)| {
        vec![
            Rule::minimal_distance(a),
            Rule::least_allocated(b),
            Rule::least_used(c),
            Rule::spread(d, Over::Region),
            Rule::cost(e, Cost::Label("k".to_owned())),
        ]
    });
    let ranking = prop_oneof![
        one_of(&Strategy::ALL[..]).prop_map(Ranking::Strategy),
        rules
            .prop_flat_map(|rules| subsequence(rules, 1..=5))
            .prop_map(Ranking::Weighted),
    ];
    (ranking, any::<bool>()).prop_map(|(ranking, gardener_compatible)| Settings {
        ranking,
        gardener_compatible,
    })
}

/// Candidates with names of their own.
fn candidates() -> impl Generate<Value = Vec<Candidate>> {
    named(0..9)
}

pub(crate) fn named(count: std::ops::Range<usize>) -> impl Generate<Value = Vec<Candidate>> {
    vec(candidate(), count).prop_map(|mut candidates| {
        for (number, candidate) in candidates.iter_mut().enumerate() {
            candidate.name = format!("{}{number}", candidate.name).into();
        }
        candidates
    })
}

/// The outcome without places in the list of candidates.
fn nameless(mut selection: Selection) -> Selection {
    for one in &mut selection.ranking {
        one.index = 0;
    }
    for one in &mut selection.rejected {
        one.index = 0;
    }
    selection
        .rejected
        .sort_by(|a, b| (a.step(), &a.name).cmp(&(b.step(), &b.name)));
    selection
}

/// Whether a rejected candidate may still have had a say: zones and domains are judged among all that are left.
fn had_a_say(request: &Request, rejected_by: Step) -> bool {
    let zones = !matches!(&request.zones, ZoneHints::Near(zones) if zones.is_empty());
    (rejected_by > Step::Zones && zones)
        || (rejected_by >= Step::Domain && request.domain.is_some())
}

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(600))]

    #[test]
    fn the_order_of_candidates_changes_nothing(
        request in request(),
        settings in settings(),
        (candidates, shuffled) in candidates().prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
    ) {
        let one = select(&request, &candidates, &settings);
        let other = select(&request, &shuffled, &settings);
        for ranked in &other.ranking {
            prop_assert_eq!(&shuffled[ranked.index].name, &ranked.name);
        }
        prop_assert_eq!(nameless(one), nameless(other));
    }

    #[test]
    fn each_candidate_is_told_of_exactly_once(
        request in request(), candidates in candidates(), settings in settings(),
    ) {
        let selection = select(&request, &candidates, &settings);
        let mut told = vec![0; candidates.len()];
        for index in selection.ranking.iter().map(|one| one.index) {
            told[index] += 1;
        }
        for index in selection.rejected.iter().map(|one| one.index) {
            told[index] += 1;
        }
        match &selection.failure {
            // It ended early: nobody is told of twice.
            Some(Failure::Input(_)) => prop_assert!(told.iter().all(|times| *times <= 1)),
            Some(Failure::Empty { step, received }) => {
                prop_assert!(told.iter().all(|times| *times == 1));
                prop_assert!(selection.ranking.is_empty());
                prop_assert_eq!(selection.received_by(*step), *received);
                prop_assert!(selection.rejected.iter().all(|one| one.step() <= *step));
            }
            _ => {
                prop_assert!(told.iter().all(|times| *times == 1));
                prop_assert!(selection.winner().is_some());
            }
        }
        for rejection in &selection.rejected {
            prop_assert!(!rejection.reason.to_string().is_empty());
        }
    }

    #[test]
    fn one_that_is_rejected_changes_nothing_for_others(
        request in request(), candidates in candidates(), mut more in candidate(), settings in settings(),
    ) {
        more.name = "more".into();
        let without = nameless(select(&request, &candidates, &settings));
        let mut all = candidates;
        all.push(more);
        let mut with = nameless(select(&request, &all, &settings));
        let Some(place) = with.rejected.iter().position(|one| &*one.name == "more") else {
            return Ok(());
        };
        let step = with.rejected.remove(place).step();
        if had_a_say(&request, step) {
            return Ok(());
        }
        // Alone, it may have brought the selection as far as a later step.
        if with.failure.is_some() && without.failure.is_some() {
            prop_assert!(with.ranking.is_empty() && without.ranking.is_empty());
            prop_assert_eq!(with.rejected, without.rejected);
        } else {
            prop_assert_eq!(with, without);
        }
    }

    #[test]
    fn ranked_ones_are_in_order(
        request in request(), candidates in candidates(), settings in settings(),
    ) {
        let selection = select(&request, &candidates, &settings);
        for pair in selection.ranking.windows(2) {
            let key = |one: &pilotage_placement::Ranked| {
                (one.distance, std::cmp::Reverse(one.total), one.used, one.name.clone())
            };
            prop_assert!(key(&pair[0]) < key(&pair[1]));
            prop_assert!(pair[0].total.milli() <= 4 * 5 * 100_000);
        }
        for score in selection.ranking.iter().flat_map(|one| one.scores.iter()) {
            prop_assert!(score.points.milli() <= 100_000);
        }
    }

    #[test]
    fn weighted_distance_alone_is_the_classic_strategy(
        request in request(), candidates in candidates(), compatible in any::<bool>(),
    ) {
        let settings = |ranking| Settings { ranking, gardener_compatible: compatible };
        let classic = settings(Ranking::Strategy(Strategy::MinimalDistance));
        let zero = Weight::new(0).unwrap();
        let weighted = settings(Ranking::Weighted(vec![
            Rule::minimal_distance(Weight::default()),
            Rule::least_allocated(zero),
        ]));
        let classic = select(&request, &candidates, &classic);
        let weighted = select(&request, &candidates, &weighted);
        prop_assert_eq!(
            classic.winner().map(|one| &one.name),
            weighted.winner().map(|one| &one.name)
        );
        prop_assert_eq!(classic.failure.is_some(), weighted.failure.is_some());
        prop_assert_eq!(classic.rejected, weighted.rejected);
    }

    #[test]
    fn under_same_region_use_and_name_decide(
        request in request(), candidates in candidates(),
    ) {
        let settings = Settings::default();
        let selection = select(&request, &candidates, &settings);
        let Some(winner) = selection.winner() else { return Ok(()); };
        for other in &selection.ranking {
            prop_assert!((winner.used, &winner.name) <= (other.used, &other.name));
            let region = request.region.as_ref().filter(|_| !request.testing);
            if let Some(region) = region {
                prop_assert_eq!(&candidates[other.index].region, region);
            }
        }
    }

    #[test]
    fn spelling_never_panics(
        region in "\\PC{0,30}", other in "\\PC{0,30}", row in "\\PC{0,30}", domain in "\\PC{0,12}",
        cidr in "\\PC{0,20}", settings in settings(),
    ) {
        let request = Request {
            region: Some(Region::new(&region)),
            distances: Some(RegionTable::new("t", [(&*region, &*row)]).into()),
            domain: Some(Domain { domain: domain.clone(), name: row.clone(), project: String::new() }),
            networks: Some(RequestNetworks { pods: Some(Cidr::new(&cidr)), ..RequestNetworks::default() }),
            demand: vec![("shoots".into(), i64::MAX)],
            ..Request::default()
        };
        let candidate = Candidate {
            region: Region::new(&other),
            domains: vec![domain, String::new()],
            resources: vec![Resource { name: "shoots".into(), allocatable: Some(i64::MIN), used: i64::MAX }],
            used: u64::MAX,
            ..Candidate::default()
        };
        let selection = select(&request, &[candidate.clone(), candidate], &settings);
        prop_assert!(selection.ranking.len() + selection.rejected.len() <= 2);
    }
}

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(100))]

    /// Among more of them than are looked at in one go.
    #[test]
    fn a_crowd_is_told_of_in_order_too(
        request in request(), settings in settings(),
        (crowd, shuffled) in named(50..150).prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
    ) {
        let selection = select(&request, &crowd, &settings);
        let places: Vec<_> = selection.rejected.iter().map(|one| (one.step(), one.index)).collect();
        prop_assert!(places.is_sorted());
        let told = selection.ranking.len() + selection.rejected.len();
        match &selection.failure {
            Some(Failure::Empty { step, received }) => {
                prop_assert_eq!(told, crowd.len());
                let last = selection.rejected.iter().filter(|one| one.step() == *step);
                prop_assert_eq!(last.count(), *received);
                prop_assert!(selection.rejected.iter().all(|one| one.step() <= *step));
            }
            Some(_) => prop_assert!(told < crowd.len()),
            None => prop_assert_eq!(told, crowd.len()),
        }
        let shared: Vec<_> = shuffled.into_iter().map(Arc::new).collect();
        prop_assert_eq!(nameless(selection), nameless(select(&request, &shared, &settings)));
    }

    /// Without a look at distances, what is free decides, then what is used, then the name.
    #[test]
    fn without_distances_the_freest_wins(
        request in request(), candidates in candidates(), other in 0..3u32,
    ) {
        let settings = Settings {
            ranking: Ranking::Weighted(vec![
                Rule::minimal_distance(Weight::new(0).unwrap()),
                Rule::least_allocated(Weight::new(other + 1).unwrap()),
            ]),
            ..Settings::default()
        };
        let selection = select(&Request { testing: false, ..request }, &candidates, &settings);
        let Some(winner) = selection.winner() else { return Ok(()); };
        // In hundred-thousandths, rounded down.
        let free = |index: usize| match candidates[index].resources[0] {
            Resource { allocatable: None, .. } => 100_000,
            Resource { allocatable: Some(all), used, .. } if all > 0 => (all - used).max(0) * 100_000 / all,
            _ => 0,
        };
        for other in &selection.ranking {
            let key = |one: &pilotage_placement::Ranked| {
                (std::cmp::Reverse(free(one.index)), one.used, one.name.clone())
            };
            prop_assert!(key(winner) <= key(other));
        }
    }
}
