//! How long a selection takes among 10 to 10,000 candidates, how that grows, and which step takes which share of it.
//!
//! It owns the population that is chosen from and the clock; it knows the pipeline only by its public face.
//! `make bench-placement` runs it.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilotage_placement::{
    Candidate, CandidateNetworks, Cidr, Cost, Families, Labels, Names, Over, Providers, Ranking,
    Readiness, Region, RegionTable, Request, RequestNetworks, Resource, Rule, Selector, Settings,
    SharedLabels, Stage, Step, Strategy, Taint, Weight, ZoneMode, select, select_watched,
};

const SIZES: [usize; 4] = [10, 100, 1_000, 10_000];
/// Sizes for which the shares of the stages are told.
const SHARES: [usize; 2] = [1_000, 10_000];
/// Each size is measured so many times, of which the quickest counts: whatever else runs makes others slower.
const ROUNDS: u32 = 40;
/// How long a warm one takes.
const PIECE: Duration = Duration::from_millis(5);

/// So many candidates are more than the caches of a processor hold.
const POOL: usize = 40_000;

fn main() {
    println!(
        "Selections on one core, the quickest of {ROUNDS} rounds. Warm: among the same candidates again."
    );
    println!("Cold: among others each time, out of {POOL}: memory is equally slow at all sizes.");
    println!("Growth: the ratio to the size before. Looks: in mere looks at each, warm.\n");
    print!("{:32} {:>10}", "", "candidates");
    println!(
        " {:>13} {:>9} {:>7} {:>7} {:>7} {:>13} {:>7} {:>7}",
        "warm", "a second", "a piece", "growth", "looks", "cold", "a piece", "growth"
    );
    let looks = grow("nothing but a look at each", mixed, read_all, None);
    for case in chosen() {
        let run = |candidates: &[Candidate]| select(&case.request, candidates, &case.settings);
        grow(case.name, case.population, run, Some(&looks));
    }
    for size in SHARES {
        shares(size);
    }
}

/// Measures one thing at all sizes, in ns. Beside each stands how many times of `looks` it takes: what is many looks at
/// any size grows as memory does.
fn grow<T>(
    name: &str,
    population: fn(usize) -> Vec<Candidate>,
    mut run: impl FnMut(&[Candidate]) -> T,
    looks: Option<&[f64; SIZES.len()]>,
) -> [f64; SIZES.len()] {
    let ratio = |once: f64, other: Option<f64>| {
        other.map_or(String::new(), |other| format!("{:.1}x", once / other))
    };
    let pool = shared(population(POOL));
    let some = SIZES.map(|size| shared(population(size)));
    let mut times = [Times::default(); SIZES.len()];
    // All sizes in turn: whatever else runs on the machine makes all of them slower, or none.
    for _ in 0..ROUNDS {
        for (times, some) in times.iter_mut().zip(&some) {
            times.warm = times.warm.min(warm(some, &mut run));
            times.cold = times.cold.min(cold(&pool, some.len(), &mut run));
        }
    }
    let mut before: Option<Times> = None;
    for (number, size) in SIZES.into_iter().enumerate() {
        let Times { warm, cold } = times[number];
        println!(
            "{name:32} {size:>10} {:>10.2} us {:>9.0} {:>4.0} ns {:>7} {:>7} {:>10.2} us {:>4.0} ns {:>7}",
            warm / 1e3,
            1e9 / warm,
            warm / size as f64,
            ratio(warm, before.map(|before| before.warm)),
            ratio(warm, looks.map(|looks| looks[number])),
            cold / 1e3,
            cold / size as f64,
            ratio(cold, before.map(|before| before.cold)),
        );
        before = Some(times[number]);
    }
    times.map(|times| times.warm)
}

/// Nanoseconds of the quickest run.
#[derive(Clone, Copy)]
struct Times {
    warm: f64,
    cold: f64,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            warm: f64::MAX,
            cold: f64::MAX,
        }
    }
}

/// Nanoseconds of a run among candidates that were all looked at just now.
fn warm<T>(candidates: &[Candidate], run: &mut impl FnMut(&[Candidate]) -> T) -> f64 {
    black_box(run(candidates));
    let start = Instant::now();
    black_box(run(candidates));
    let one = start.elapsed().as_nanos().max(1);
    let runs = (PIECE.as_nanos() / one).clamp(1, 1_000_000) as u32;
    let start = Instant::now();
    for _ in 0..runs {
        black_box(run(candidates));
    }
    start.elapsed().as_nanos() as f64 / f64::from(runs)
}

/// Nanoseconds of a run among `size` candidates at which nobody has looked for long.
fn cold<T>(pool: &[Candidate], size: usize, run: &mut impl FnMut(&[Candidate]) -> T) -> f64 {
    let pieces = pool.chunks_exact(size);
    let runs = pieces.len();
    let start = Instant::now();
    for piece in pieces {
        black_box(run(piece));
    }
    start.elapsed().as_nanos() as f64 / runs as f64
}

/// Reads what a selection reads, copies each name, and decides nothing: what memory alone takes.
fn read_all(candidates: &[Candidate]) -> (u64, Vec<Arc<str>>) {
    let text = |text: &str| text.bytes().next().map_or(0, u64::from);
    let mut names = Vec::with_capacity(candidates.len());
    let mut sum = 0;
    for candidate in candidates {
        sum += u64::from(candidate.visible) + candidate.used + candidate.taints.len() as u64;
        sum += text(&candidate.provider) + text(candidate.region.name());
        if let Some((key, value)) = candidate.labels.iter().next() {
            sum += text(key) + text(value);
        }
        for resource in &candidate.resources {
            sum += resource.used as u64;
        }
        names.push(candidate.name.clone());
    }
    (sum, names)
}

/// Which part of a selection's time each of its stages takes, in percent.
fn shares(size: usize) {
    let cases = chosen();
    println!(
        "\nShares in percent among {size} candidates. The first step also fetches what the others read;"
    );
    println!("the clock itself is in all of them.\n");
    let columns: Vec<_> = cases.iter().map(stage_times_of(size)).collect();
    let mut stages = vec![Stage::Preparation];
    stages.extend(Step::ALL.iter().map(|step| Stage::Step(*step)));
    stages.push(Stage::Ranking);
    for (number, case) in cases.iter().enumerate() {
        println!("{:>4} = {}", number + 1, case.name);
    }
    print!("{:20}", "");
    (1..=cases.len()).for_each(|number| print!("{number:>7}"));
    println!();
    for stage in stages {
        let name = match stage {
            Stage::Step(step) => step.name().to_owned(),
            other => format!("({other:?})"),
        };
        print!("{name:20}");
        for times in &columns {
            let whole: Duration = times.values().sum();
            match times.get(&stage) {
                Some(time) => print!("{:>7.1}", 100.0 * time.as_secs_f64() / whole.as_secs_f64()),
                None => print!("{:>7}", "-"),
            }
        }
        println!();
    }
}

/// How long each stage takes in a selection: the quickest of many.
fn stage_times_of(size: usize) -> impl Fn(&Case) -> HashMap<Stage, Duration> {
    move |case| {
        let candidates = shared((case.population)(size));
        let mut best: HashMap<Stage, Duration> = HashMap::new();
        for _ in 0..500_000 / size {
            let mut times: HashMap<Stage, Duration> = HashMap::new();
            let mut last = Instant::now();
            let mut done = |stage| {
                *times.entry(stage).or_default() += last.elapsed();
                last = Instant::now();
            };
            black_box(select_watched(
                &case.request,
                &candidates,
                &case.settings,
                &mut done,
            ));
            for (stage, time) in times {
                best.entry(stage)
                    .and_modify(|best| *best = time.min(*best))
                    .or_insert(time);
            }
        }
        best
    }
}

/// Those whose name has each word of the command line.
fn chosen() -> Vec<Case> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    // cargo adds an option of its own.
    let words = || words.iter().filter(|word| *word != "--bench");
    let mut cases = cases();
    cases.retain(|case| words().all(|word| case.name.contains(word.as_str())));
    cases
}

/// What is measured.
struct Case {
    name: &'static str,
    request: Request,
    settings: Settings,
    population: fn(usize) -> Vec<Candidate>,
}

fn cases() -> Vec<Case> {
    let strategy = |strategy| Settings {
        ranking: Ranking::Strategy(strategy),
        ..Settings::default()
    };
    let one = Weight::default();
    let rules = Settings {
        ranking: Ranking::Weighted(vec![
            Rule::cost(one, Cost::Label("example.com/cost".to_owned())),
            Rule::minimal_distance(one),
            Rule::spread(one, Over::Region),
            Rule::least_allocated(one),
        ]),
        ..Settings::default()
    };
    let anywhere = || Request {
        providers: Providers::Any,
        ..request("eu-west-1")
    };
    let with_table = Request {
        distances: Some(table()),
        ..anywhere()
    };
    let reserved = Request {
        networks: Some(networks("240.0.0.0/16")),
        ..request("eu-west-1")
    };
    vec![
        Case {
            name: "SameRegion",
            request: request("eu-west-1"),
            settings: strategy(Strategy::SameRegion),
            population: mixed,
        },
        Case {
            name: "SameRegion, all of them alike",
            request: request("eu-west-1"),
            settings: strategy(Strategy::SameRegion),
            population: alike,
        },
        Case {
            name: "SameRegion, nobody can have it",
            request: reserved,
            settings: strategy(Strategy::SameRegion),
            population: mixed,
        },
        Case {
            name: "MinimalDistance by name",
            request: anywhere(),
            settings: strategy(Strategy::MinimalDistance),
            population: mixed,
        },
        Case {
            name: "MinimalDistance by table",
            request: with_table.clone(),
            settings: strategy(Strategy::MinimalDistance),
            population: mixed,
        },
        Case {
            name: "four weighted rules",
            request: with_table,
            settings: rules,
            population: mixed,
        },
    ]
}

/// The same sequence in each run (`SplitMix64`), so that all measure the same.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }

    fn one_of(&mut self, of: &'static [&'static str]) -> &'static str {
        of[self.below(of.len() as u64) as usize]
    }
}

const PROVIDERS: &[&str] = &["aws", "aws", "gcp", "azure"];
const REGIONS: &[&str] = &[
    "eu-west-1",
    "eu-west-1",
    "eu-west-2",
    "eu-central-1",
    "eu-north-1",
    "eu-south-1",
    "us-east-1",
    "us-east-2",
    "us-west-1",
    "us-west-2",
    "ca-central-1",
    "sa-east-1",
    "ap-south-1",
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-southeast-1",
    "ap-southeast-2",
    "me-south-1",
    "af-south-1",
    "il-central-1",
];

fn table() -> Arc<RegionTable> {
    let row: Vec<_> = REGIONS[1..]
        .iter()
        .enumerate()
        .map(|(number, region)| format!("{region}: {}", number * 12))
        .collect();
    let row = row.join("\n");
    Arc::new(RegionTable::new("garden/distances", [("eu-west-1", &*row)]))
}

/// All that a seed of a large garden has, few of them unfit for one reason or another, in no order.
fn mixed(size: usize) -> Vec<Candidate> {
    let mut numbers = Numbers(7);
    let mut candidates: Vec<_> = (0..size)
        .map(|number| {
            let region = numbers.one_of(REGIONS);
            let provider = numbers.one_of(PROVIDERS);
            let used = numbers.below(260);
            Candidate {
                readiness: if numbers.below(30) == 0 {
                    Readiness::NotReady("GardenletReady is Progressing".into())
                } else {
                    Readiness::Ready
                },
                stopped: numbers.below(100) == 0,
                taints: match numbers.below(20) {
                    0 => vec![Taint {
                        key: "seed.gardener.cloud/protected".to_owned(),
                        value: None,
                    }],
                    _ => Vec::new(),
                },
                labels: shared_labels(&[
                    (
                        "environment",
                        numbers.one_of(&["live", "live", "live", "test"]),
                    ),
                    (
                        "example.com/cost",
                        numbers.one_of(&["0.22", "0.31", "0.33", "0.4"]),
                    ),
                    ("name.seed.gardener.cloud/garden", "true"),
                    ("seed.gardener.cloud/provider", provider),
                    ("seed.gardener.cloud/region", region),
                ]),
                ..candidate(
                    &format!("seed-{provider}-{region}-{number:05}"),
                    provider,
                    region,
                    used,
                )
            }
        })
        .collect();
    for place in (1..candidates.len()).rev() {
        candidates.swap(place, numbers.below(place as u64 + 1) as usize);
    }
    candidates
}

/// Only their names decide, and those in no order.
fn alike(size: usize) -> Vec<Candidate> {
    let mut numbers = Numbers(7);
    let mut order: Vec<_> = (0..size).collect();
    for place in (1..size).rev() {
        order.swap(place, numbers.below(place as u64 + 1) as usize);
    }
    order
        .into_iter()
        .map(|number| {
            let name = format!("seed-aws-eu-west-1-{number:05}");
            Candidate {
                labels: shared_labels(&[("environment", "live")]),
                ..candidate(&name, "aws", "eu-west-1", 100)
            }
        })
        .collect()
}

fn shared_labels(pairs: &[(&str, &str)]) -> SharedLabels {
    pairs.iter().copied().collect()
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn candidate(name: &str, provider: &str, region: &str, used: u64) -> Candidate {
    Candidate {
        name: name.into(),
        provider: provider.into(),
        region: Region::new(region),
        zones: ["a", "b", "c"]
            .map(|zone| format!("{region}{zone}"))
            .to_vec(),
        zone_mode: ZoneMode::Prefer,
        domains: vec!["example.com".to_owned()],
        networks: CandidateNetworks {
            nodes: Some(Cidr::new("10.10.0.0/16")),
            pods: Some(Cidr::new("10.20.0.0/16")),
            services: Some(Cidr::new("10.30.0.0/16")),
            default_pods: Some(Cidr::new("100.96.0.0/11")),
            default_services: Some(Cidr::new("100.64.0.0/13")),
        },
        used,
        resources: vec![Resource {
            name: "shoots".into(),
            allocatable: Some(250),
            used: used as i64,
        }],
        ..Candidate::default()
    }
}

/// As whoever keeps candidates prepares them.
fn shared(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    let mut names = Names::new();
    for candidate in &mut candidates {
        names.share(candidate);
    }
    candidates
}

fn networks(pods: &str) -> RequestNetworks {
    RequestNetworks {
        nodes: Some(Cidr::new("10.180.0.0/16")),
        pods: Some(Cidr::new(pods)),
        services: Some(Cidr::new("100.64.0.0/13")),
        families: Families {
            v4: true,
            v6: false,
        },
        ..RequestNetworks::default()
    }
}

/// A shoot of AWS with a profile that selects by label.
fn request(region: &str) -> Request {
    let live = Selector::new(&labels(&[("environment", "live")]), &[]);
    Request {
        profile_selector: Some(live),
        provider: Some("aws".into()),
        region: Some(Region::new(region)),
        networks: Some(networks("100.96.0.0/11")),
        demand: vec![("shoots".into(), 1)],
        ..Request::default()
    }
}
