//! The cases in `tests/cases`, each a patch over one base.

use std::collections::BTreeMap;

use pilotage_gardener::config::SchedulerConfiguration;
use pilotage_gardener::kinds::{
    CloudProfile, ProfileKind, Project, RegionConfig, Shoot, choose, seed,
};
use pilotage_gardener::scheduler::{Decision, SeenShoot, ShootKey, World};
use pilotage_gardener::{Texts, Usage, documents, eligible, profile_of, request};
use pilotage_placement::{Candidate, Failure, Ranking, Selection, Settings, Strategy, select};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Base {
    shoot: Value,
    seed: Value,
    profile: Value,
    project: Value,
    config: Value,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    #[serde(default, rename = "about")]
    _about: String,
    #[serde(default)]
    strategy: Strategy,
    #[serde(default)]
    shoot: Value,
    #[serde(default)]
    profile: Value,
    #[serde(default)]
    project: Value,
    /// The base seed alone, if nothing is said.
    seeds: Option<Vec<Value>>,
    #[serde(default)]
    configs: Vec<Value>,
    /// How many other Shoots seeds have.
    #[serde(default)]
    shoots: BTreeMap<String, u64>,
    /// Other Shoots one by one.
    #[serde(default)]
    others: Vec<Value>,

    winner: Option<String>,
    /// All that are left, in their order.
    ranking: Option<Vec<String>>,
    /// Those with the winner's distance.
    nearest: Option<BTreeMap<String, String>>,
    used: Option<BTreeMap<String, u64>>,
    fails: Option<Fails>,
    /// Step and text of those who fell out.
    #[serde(default)]
    reasons: BTreeMap<String, String>,
    /// It doesn't come to a selection.
    error: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fails {
    /// None if something can't be read.
    step: Option<String>,
    /// A part of what users are told.
    text: Option<String>,
}

/// RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}

fn patched(base: &Value, patch: &Value) -> Value {
    let mut value = base.clone();
    if !patch.is_null() {
        merge(&mut value, patch);
    }
    value
}

fn base() -> Base {
    serde_saphyr::from_str(include_str!("../cases/base.yaml")).unwrap()
}

/// The selection and what users are told if it fails.
fn run(case: &Case, base: &Base) -> Result<(Selection, Option<String>), String> {
    let tell = |error: &dyn std::fmt::Display| error.to_string();
    let shoot = Shoot::read(&patched(&base.shoot, &case.shoot)).map_err(|e| tell(&e))?;
    let profile = CloudProfile::read(&patched(&base.profile, &case.profile)).unwrap();
    let project = Project::read(&patched(&base.project, &case.project)).unwrap();
    let configs: Vec<_> = case
        .configs
        .iter()
        .map(|config| RegionConfig::read(&patched(&base.config, config)).unwrap())
        .collect();
    let one = vec![Value::Null];
    let mut seeds: Vec<Candidate> = case
        .seeds
        .as_ref()
        .unwrap_or(&one)
        .iter()
        .map(|patch| seed(&patched(&base.seed, patch)).unwrap())
        .collect();
    let others: Vec<_> = case
        .others
        .iter()
        .map(|other| Shoot::read(&patched(&base.shoot, other)).unwrap())
        .collect();
    let mut usage = Usage::of(&others);
    for (seed, count) in &case.shoots {
        (0..*count).for_each(|_| usage.count("others", Some(seed), None));
    }
    for seed in &mut seeds {
        usage.fill(seed);
    }

    let profile = profile_of(&shoot, [&profile]).map_err(|e| tell(&e))?;
    let table = choose(&configs, &profile.name).map(|config| config.table.clone());
    let request = request(&shoot, profile, [&project], table).map_err(|e| tell(&e))?;
    let settings = Settings {
        ranking: Ranking::Strategy(case.strategy),
        ..Settings::default()
    };
    let selection = select(&request, &seeds, &settings);
    seeds.reverse();
    let reversed = select(&request, &seeds, &settings);
    assert_eq!(names(&selection), names(&reversed), "{}: reversed", case.id);
    let texts = Texts {
        request: &request,
        settings: &settings,
        profile: &profile.name,
    };
    let text = texts.failure(&selection);
    Ok((selection, text))
}

fn names(selection: &Selection) -> Vec<&str> {
    selection.ranking.iter().map(|one| &*one.name).collect()
}

fn check(case: &Case, base: &Base) {
    let id = &case.id;
    let (selection, text) = match (run(case, base), &case.error) {
        (Ok(outcome), None) => outcome,
        (Err(error), Some(expected)) => {
            assert!(error.contains(expected), "{id}: {error}");
            return;
        }
        (outcome, expected) => panic!("{id}: {outcome:?} instead of error {expected:?}"),
    };
    let expects_something = case.winner.is_some()
        || case.ranking.is_some()
        || case.nearest.is_some()
        || case.fails.is_some();
    assert!(expects_something, "{id} expects nothing");
    let winner = selection.winner();
    if let Some(expected) = &case.winner {
        assert_eq!(
            winner.map(|one| &*one.name),
            Some(&**expected),
            "{id}: {text:?}"
        );
    }
    if let Some(expected) = &case.ranking {
        assert_eq!(names(&selection), *expected, "{id}: {text:?}");
    }
    if let Some(expected) = &case.nearest {
        let distance = winner.and_then(|one| one.distance);
        let nearest: BTreeMap<_, _> = selection
            .ranking
            .iter()
            .take_while(|one| one.distance == distance)
            .map(|one| (one.name.to_string(), one.distance.unwrap().to_string()))
            .collect();
        assert_eq!(nearest, *expected, "{id}");
    }
    if let Some(expected) = &case.used {
        let used: BTreeMap<_, _> = selection
            .ranking
            .iter()
            .map(|one| (one.name.to_string(), one.used))
            .collect();
        assert_eq!(used, *expected, "{id}");
    }
    assert_eq!(
        case.fails.is_some(),
        winner.is_none(),
        "{id}: {selection:?}"
    );
    if let Some(expected) = &case.fails {
        let step = match &selection.failure {
            Some(Failure::Empty { step, .. }) => Some(step.name()),
            _ => None,
        };
        assert_eq!(step, expected.step.as_deref(), "{id}: {selection:?}");
        let text = text.unwrap();
        let part = expected.text.as_deref().unwrap_or_default();
        assert!(text.contains(part), "{id}: {text}\ninstead of\n{part}");
    }
    for (name, expected) in &case.reasons {
        let mut rejected = selection.rejected.iter();
        let rejection = rejected.find(|one| *one.name == **name);
        let reason = rejection.map(|one| format!("{}: {}", one.step(), one.reason));
        assert_eq!(reason.as_ref(), Some(expected), "{id}");
    }
}

fn check_all(yaml: &str, count: usize) {
    let base = base();
    // As files of users are read, where `y` is a word.
    let cases: Vec<Case> = serde_json::from_value(documents(yaml).unwrap().remove(0)).unwrap();
    assert_eq!(cases.len(), count);
    for case in &cases {
        check(case, &base);
    }
}

#[test]
fn whole_selections() {
    check_all(include_str!("../cases/selection.yaml"), 51);
}

#[test]
fn single_steps() {
    check_all(include_str!("../cases/steps.yaml"), 59);
}

#[test]
fn tables_of_regions() {
    check_all(include_str!("../cases/regions.yaml"), 12);
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Eligible {
    id: String,
    scheduler: Option<String>,
    shoot: Value,
    text: Option<String>,
}

#[test]
fn shoots_that_are_placed_at_all() {
    let base = base();
    let yaml = include_str!("../cases/eligible.yaml");
    let cases: Vec<Eligible> = serde_saphyr::from_str(yaml).unwrap();
    assert_eq!(cases.len(), 8);
    for case in cases {
        let shoot = Shoot::read(&patched(&base.shoot, &case.shoot)).unwrap();
        let text = eligible(&shoot, case.scheduler.as_deref())
            .err()
            .map(|reason| reason.to_string());
        assert_eq!(text, case.text, "{}", case.id);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Config {
    id: String,
    file: Value,
    #[serde(default)]
    empty_lock_namespace: bool,
    problems: Vec<String>,
}

#[test]
fn configurations() {
    let yaml = include_str!("../cases/config.yaml");
    let cases: Vec<Config> = serde_saphyr::from_str(yaml).unwrap();
    assert_eq!(cases.len(), 4);
    for case in cases {
        let mut file = serde_json::json!({
            "apiVersion": "scheduler.config.gardener.cloud/v1alpha1", "kind": "SchedulerConfiguration",
        });
        merge(&mut file, &case.file);
        let told = match SchedulerConfiguration::parse(&file.to_string()) {
            Err(error) => error.to_string(),
            Ok(mut config) => {
                if case.empty_lock_namespace {
                    config.leader_election.resource_namespace = String::new();
                }
                let problems = config.validate();
                let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
                problems.join("; ")
            }
        };
        for problem in &case.problems {
            assert!(told.contains(problem), "{}: {told}", case.id);
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sighting {
    id: String,
    before: Option<Value>,
    after: Option<Value>,
    /// Whether the second sight deserves an attempt.
    attempt: bool,
    /// What that attempt comes to.
    then: Option<String>,
}

#[test]
fn changes_that_deserve_an_attempt() {
    let base = base();
    let cases: Vec<Sighting> =
        serde_saphyr::from_str(include_str!("../cases/attempts.yaml")).unwrap();
    assert_eq!(cases.len(), 6);
    let key = ShootKey::new("my-namespace", "shoot");
    for case in cases {
        let seen = |patch: &Value, version: &str| {
            let mut shoot = patched(&base.shoot, patch);
            merge(
                &mut shoot,
                &serde_json::json!({"metadata": {"uid": "u", "resourceVersion": version}}),
            );
            SeenShoot::read(shoot).unwrap()
        };
        let mut world = World::new("default-scheduler", Settings::default());
        let profile = CloudProfile::read(&base.profile);
        world.profile(
            ProfileKind::CloudProfile,
            "",
            "cloudprofile-1",
            Some(&profile),
        );
        world.project("project-1", Some(&Project::read(&base.project).unwrap()));
        world.seed("seed-1", Some(&seed(&base.seed)));
        if let Some(before) = &case.before {
            world.shoot(&key, Some(&seen(before, "1")));
            if let Decision::Bind(bind) = world.decide(&key) {
                world.bound(&key, &bind, "2");
            }
        }
        let after = case.after.as_ref().map(|after| seen(after, "2"));
        let woken = world.shoot(&key, after.as_ref());
        assert_eq!(woken.contains(&key), case.attempt, "{}", case.id);
        if let Some(then) = &case.then {
            let decision = match world.decide(&key) {
                Decision::Bind(_) => "bind",
                Decision::Report(_) => "report",
                Decision::Nothing => "nothing",
            };
            assert_eq!(decision, then, "{}", case.id);
        }
    }
}
