//! Gardener's pipeline once more, as simply as its description can be put: seed by seed, filter by filter, without a
//! thought of speed. The real one must agree with it on who wins, on the filter that leaves nobody, on how many seeds
//! that filter had got, and on who fell out where.

use std::collections::BTreeMap;

use pilotage_placement::{
    Candidate, Cidr, Failure, InputError, Providers, Ranking, Readiness, Region, Request,
    Selection, Settings, Strategy, ZoneHints, ZoneMode, select,
};
use proptest::prelude::{any, prop_assert_eq, proptest};

use crate::properties::{named, request};
use crate::world::strategy;

/// Who wins, or which filter leaves nobody of how many.
type Outcome = Result<String, (String, usize)>;

struct Oracle<'a> {
    request: &'a Request,
    left: Vec<&'a Candidate>,
    /// Where each of the others fell out.
    fell: BTreeMap<String, &'static str>,
}

impl<'a> Oracle<'a> {
    fn filter(
        &mut self,
        name: &'static str,
        keeps: impl Fn(&Request, &[&'a Candidate], &'a Candidate) -> bool,
    ) -> Result<(), (String, usize)> {
        let before = self.left.clone();
        for seed in &before {
            if !keeps(self.request, &before, seed) {
                self.fell.insert(seed.name.to_string(), name);
            }
        }
        self.left
            .retain(|seed| !self.fell.contains_key(&*seed.name));
        if self.left.is_empty() {
            return Err((name.to_owned(), before.len()));
        }
        Ok(())
    }

    fn run(&mut self, strategy: Strategy) -> Outcome {
        self.filter("Usable", |_, _, seed| {
            !seed.deleting && seed.visible && seed.readiness == Readiness::Ready
        })?;
        for (name, selector) in [
            ("ProfileSelector", &self.request.profile_selector),
            ("OwnSelector", &self.request.own_selector),
        ] {
            match selector {
                None => {}
                Some(Err(_)) => return Err(("selector".to_owned(), 0)),
                Some(Ok(selector)) => {
                    self.filter(name, |_, _, seed| selector.matches(&seed.labels))?;
                }
            }
        }
        self.filter("Provider", |shoot, _, seed| match &shoot.providers {
            Providers::Own => own_provider(shoot, seed),
            Providers::Any => true,
            Providers::Listed(list) => list.contains(&*seed.provider),
        })?;
        self.filter("Zonal", |shoot, _, seed| {
            !shoot.zonal || seed.zones.len() >= 3
        })?;
        self.filter("Zones", zones)?;
        self.filter("AccessRestrictions", |shoot, _, seed| {
            let wanted = &shoot.access_restrictions;
            wanted.len() <= seed.access_restrictions.listed()
                && wanted
                    .iter()
                    .all(|name| seed.access_restrictions.supports(name))
        })?;
        self.filter("Domain", domain)?;
        self.filter("EmergencyStop", |_, _, seed| !seed.stopped)?;
        // The last three are one filter there: the first check that fails is a seed's reason, and whoever passes them
        // all is left.
        let before = self.left.clone();
        for seed in &before {
            let reason = if networks(self.request, seed) > 0 {
                "Networks"
            } else if !tolerated(self.request, seed) {
                "Taints"
            } else if full(seed) {
                "Capacity"
            } else {
                continue;
            };
            self.fell.insert(seed.name.to_string(), reason);
        }
        self.left
            .retain(|seed| !self.fell.contains_key(&*seed.name));
        if self.left.is_empty() {
            return Err(("F10".to_owned(), before.len()));
        }
        let nearest = self.nearest(strategy)?;
        let least = nearest.iter().map(|seed| (seed.used, &seed.name)).min();
        least
            .map(|(_, name)| name.to_string())
            .ok_or_else(|| ("Strategy".to_owned(), self.left.len()))
    }

    fn nearest(&self, strategy: Strategy) -> Result<Vec<&'a Candidate>, (String, usize)> {
        let shoot = self.request;
        let mut left = self.left.clone();
        if shoot.testing {
            left.retain(|seed| own_provider(shoot, seed));
            return Ok(left);
        }
        let Some(region) = shoot.region.as_ref().map(Region::name) else {
            // Not a Shoot, which always has one.
            if strategy == Strategy::SameRegion {
                left.retain(|seed| own_provider(shoot, seed));
                return Ok(left);
            }
            return Ok(with_least(left, |seed| {
                Some(i64::from(!own_provider(shoot, seed)))
            }));
        };
        if strategy == Strategy::SameRegion {
            left.retain(|seed| own_provider(shoot, seed) && seed.region.name() == region);
            return Ok(left);
        }
        if let Some(row) = shoot.distances.as_ref().and_then(|table| table.row(region)) {
            let row = row.map_err(|_| ("row".to_owned(), 0))?;
            let near = with_least(left.clone(), |seed| {
                let distance = row.distance(region, seed.region.name());
                distance.filter(|distance| *distance <= i64::from(i32::MAX))
            });
            if !near.is_empty() {
                return Ok(near);
            }
        }
        Ok(with_least(left, |seed| {
            let foreign = if own_provider(shoot, seed) { 0 } else { 2 };
            let distance = by_name(seed.region.name(), region) + foreign;
            (distance <= 1000).then_some(distance)
        }))
    }
}

fn with_least(
    seeds: Vec<&Candidate>,
    distance: impl Fn(&Candidate) -> Option<i64>,
) -> Vec<&Candidate> {
    let least = seeds.iter().filter_map(|seed| distance(seed)).min();
    let near = seeds.into_iter().filter(|seed| distance(seed) == least);
    near.filter(|_| least.is_some()).collect()
}

fn own_provider(shoot: &Request, seed: &Candidate) -> bool {
    shoot
        .provider
        .as_ref()
        .is_none_or(|own| *own == seed.provider)
}

fn zones(shoot: &Request, all: &[&Candidate], seed: &Candidate) -> bool {
    if shoot.zonal {
        return true;
    }
    let hints = match &shoot.zones {
        ZoneHints::All(zones) => return zones.iter().all(|zone| seed.zones.contains(zone)),
        ZoneHints::Near(zones) if zones.is_empty() => return true,
        ZoneHints::Near(zones) => zones,
    };
    let shares = |seed: &Candidate| seed.zones.iter().any(|zone| hints.contains(zone));
    let passes_first = |seed: &Candidate| seed.zone_mode != ZoneMode::Enforce || shares(seed);
    let passes_second = |seed: &Candidate| seed.zone_mode != ZoneMode::Prefer || shares(seed);
    let second_leaves_some = all
        .iter()
        .any(|seed| passes_first(seed) && passes_second(seed));
    passes_first(seed) && (!second_leaves_some || passes_second(seed))
}

fn domain(shoot: &Request, all: &[&Candidate], seed: &Candidate) -> bool {
    let Some(wanted) = &shoot.domain else {
        return true;
    };
    let below = |default: &String| wanted.domain.ends_with(&format!(".{default}"));
    let managed = all.iter().any(|seed| seed.domains.iter().any(below));
    let exact =
        |default: &String| wanted.domain == format!("{}.{}.{default}", wanted.name, wanted.project);
    !managed || seed.domains.iter().any(exact)
}

const RESERVED: [&str; 6] = [
    "fd8f:6d53:b97a:1::/96",
    "240.0.0.0/8",
    "241.0.0.0/8",
    "242.0.0.0/8",
    "243.0.0.0/8",
    "244.0.0.0/8",
];

/// How many errors there are.
fn networks(shoot: &Request, seed: &Candidate) -> usize {
    let Some(own) = &shoot.networks else {
        return 0;
    };
    let listed = |default: &&Cidr| {
        (own.families.v4 && default.is_v4()) || (own.families.v6 && default.is_v6())
    };
    let default_services = seed.networks.default_services.as_ref().filter(listed);
    let default_pods = seed.networks.default_pods.as_ref().filter(listed);
    let default_pods = default_pods.filter(|_| !own.workerless);
    let mut all: Vec<&Cidr> = Vec::new();
    all.extend(&own.nodes);
    all.extend(own.services.as_ref().or(default_services));
    all.extend(own.pods.as_ref().or(default_pods));
    let mut errors = 0;
    if let Some(observed) = &own.observed {
        all.extend(&observed.nodes);
        all.extend(&observed.services);
        all.extend(&observed.pods);
        errors += usize::from(observed.services.is_empty());
        errors += usize::from(observed.pods.is_empty() && !own.workerless);
    }
    let theirs = [
        &seed.networks.services,
        &seed.networks.pods,
        &seed.networks.nodes,
    ];
    for cidr in all {
        if cidr.is_v6() {
            let theirs = theirs.into_iter().flatten();
            errors += theirs.filter(|theirs| theirs.intersects(cidr)).count();
        }
        let reserved = RESERVED.map(Cidr::new);
        errors += reserved
            .iter()
            .filter(|range| range.intersects(cidr))
            .count();
    }
    errors
}

fn tolerated(shoot: &Request, seed: &Candidate) -> bool {
    seed.taints.is_empty()
        || (seed.taints.len() <= shoot.tolerations.len()
            && seed.taints.iter().all(|taint| {
                let mut later_first = shoot.tolerations.iter().rev();
                let toleration = later_first.find(|toleration| toleration.key == taint.key);
                toleration.is_some_and(|toleration| match &taint.value {
                    None => true,
                    Some(value) => toleration.value.as_deref().unwrap_or("") == value,
                })
            }))
}

/// Everything in these tests takes one of the resource that all seeds have.
fn full(seed: &Candidate) -> bool {
    let room = seed.resources[0].allocatable;
    room.is_some_and(|allocatable| seed.resources[0].used >= allocatable)
}

/// Twice the edits between what is left of both names, and a penalty for their words.
fn by_name(one: &str, other: &str) -> i64 {
    let split = |name: &str| {
        let words = ["north", "south", "east", "west", "central"];
        let word = words.into_iter().find(|word| name.contains(word));
        let base = word.map_or(name.to_owned(), |word| name.replacen(word, ":", 1));
        (base.chars().collect::<Vec<_>>(), word)
    };
    let ((a, a_word), (b, b_word)) = (split(one), split(other));
    let penalty = match (a_word, b_word) {
        (a, b) if a == b => 0,
        (Some(_), Some(_)) => 2,
        _ => 1,
    };
    2 * edits(&a, &b) + penalty
}

fn edits(a: &[char], b: &[char]) -> i64 {
    let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            table[i][j] = match (i, j) {
                (0, _) => j as i64,
                (_, 0) => i as i64,
                _ => {
                    let changed = table[i - 1][j - 1] + i64::from(a[i - 1] != b[j - 1]);
                    changed.min(table[i - 1][j] + 1).min(table[i][j - 1] + 1)
                }
            };
        }
    }
    table[a.len()][b.len()]
}

/// The same of a real selection.
fn outcome(selection: &Selection) -> Outcome {
    match &selection.failure {
        None => Ok(selection.ranking[0].name.to_string()),
        Some(Failure::Input(InputError::Selector { .. })) => Err(("selector".to_owned(), 0)),
        Some(Failure::Input(InputError::Row { .. })) => Err(("row".to_owned(), 0)),
        Some(Failure::Empty { step, received }) => {
            let (step, received) = match step.name() {
                "Networks" | "Taints" | "Capacity" => {
                    let first = pilotage_placement::Step::Networks;
                    ("F10", selection.received_by(first))
                }
                name => (name, *received),
            };
            Err((step.to_owned(), received))
        }
        Some(other) => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(3000))]

    #[test]
    fn both_agree(
        request in request(), seeds in named(0..9), minimal in any::<bool>(),
        [selectors, place, others] in any::<[bool; 3]>(), plain in any::<[bool; 4]>(),
    ) {
        // With all that may be asked for at once hardly anybody would be left.
        let mut request = request;
        if selectors {
            (request.profile_selector, request.own_selector) = (None, None);
        }
        if place {
            (request.providers, request.zonal) = (Providers::Any, false);
            request.zones = ZoneHints::default();
        }
        if others {
            (request.networks, request.domain) = (None, None);
            request.access_restrictions.clear();
        }
        let mut seeds = seeds;
        for seed in &mut seeds {
            seed.readiness = if plain[0] { Readiness::Ready } else { seed.readiness.clone() };
            (seed.deleting, seed.visible) = (seed.deleting && plain[0], seed.visible || plain[0]);
            seed.stopped &= plain[1];
            if plain[2] {
                seed.taints.clear();
            }
            if plain[3] {
                seed.resources[0].allocatable = None;
            }
        }
        let wanted = if minimal { Strategy::MinimalDistance } else { Strategy::SameRegion };
        let settings: Settings = strategy(wanted);
        assert!(settings.gardener_compatible && matches!(settings.ranking, Ranking::Strategy(_)));
        let selection = select(&request, &seeds, &settings);
        let mut oracle = Oracle { request: &request, left: seeds.iter().collect(), fell: BTreeMap::new() };
        let expected = oracle.run(wanted);
        prop_assert_eq!(outcome(&selection), expected);
        // Who follows would win without the first.
        if let [_, second, ..] = &*selection.ranking {
            let first = &selection.ranking[0].name;
            let alone = Oracle {
                request: &request,
                left: oracle.left.iter().filter(|seed| seed.name != *first).copied().collect(),
                fell: BTreeMap::new(),
            };
            let nearest = alone.nearest(wanted).unwrap_or_default();
            let least = nearest.iter().map(|seed| (seed.used, &seed.name)).min();
            prop_assert_eq!(least.map(|(_, name)| name), Some(&second.name));
        }
        if !matches!(selection.failure, Some(Failure::Input(_))) {
            let fell: BTreeMap<_, _> = selection
                .rejected
                .iter()
                .filter(|one| one.step().name() != "Strategy")
                .map(|one| (one.name.to_string(), one.step().name()))
                .collect();
            prop_assert_eq!(fell, oracle.fell);
        }
    }
}
