//! What the tests place, and where: short makers of requests and candidates, and shorthands for outcomes.

use std::sync::Arc;

use pilotage_placement::{
    Candidate, Cidr, Region, RegionTable, Request, Resource, Restrictions, Selection, Settings,
    Strategy, Taint, Toleration, ZoneHints, ZoneMode,
};
use pilotage_placement::{Ranking, Rule};

/// A request of this provider and region that takes one of the resource `shoots`.
pub(crate) fn request(provider: &str, region: &str) -> Request {
    Request {
        provider: Some(provider.into()),
        region: Some(Region::new(region)),
        demand: vec![("shoots".into(), 1)],
        ..Request::default()
    }
}

pub(crate) fn candidate(name: &str, provider: &str, region: &str) -> Candidate {
    Candidate {
        name: name.into(),
        provider: provider.into(),
        region: Region::new(region),
        ..Candidate::default()
    }
}

/// The same with so many of so many shoots.
pub(crate) fn filled(candidate: Candidate, used: u64, allocatable: Option<i64>) -> Candidate {
    Candidate {
        used,
        resources: vec![Resource {
            name: "shoots".into(),
            allocatable,
            used: used as i64,
        }],
        ..candidate
    }
}

pub(crate) fn table(region: &str, row: &str) -> Option<Arc<RegionTable>> {
    Some(Arc::new(RegionTable::new(
        "garden/distances",
        [(region, row)],
    )))
}

pub(crate) fn strategy(strategy: Strategy) -> Settings {
    Settings {
        ranking: Ranking::Strategy(strategy),
        ..Settings::default()
    }
}

pub(crate) fn weighted(rules: &[Rule]) -> Settings {
    Settings {
        ranking: Ranking::Weighted(rules.to_vec()),
        ..Settings::default()
    }
}

pub(crate) fn mended(settings: &Settings) -> Settings {
    Settings {
        gardener_compatible: false,
        ..settings.clone()
    }
}

pub(crate) fn ranking(selection: &Selection) -> Vec<&str> {
    selection.ranking.iter().map(|one| &*one.name).collect()
}

/// Who fell out: `name: Step: reason`.
pub(crate) fn rejections(selection: &Selection) -> Vec<String> {
    selection
        .rejected
        .iter()
        .map(|one| format!("{}: {}: {}", one.name, one.step(), one.reason))
        .collect()
}

pub(crate) fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

pub(crate) fn near(zones: &[&str]) -> ZoneHints {
    ZoneHints::Near(strings(zones).into_iter().collect())
}

pub(crate) fn all(zones: &[&str]) -> ZoneHints {
    ZoneHints::All(strings(zones).into_iter().collect())
}

pub(crate) fn zoned(name: &str, mode: ZoneMode, zones: &[&str]) -> Candidate {
    Candidate {
        zone_mode: mode,
        zones: strings(zones),
        ..candidate(name, "foo", "europe")
    }
}

pub(crate) fn restrictions(names: &[&str]) -> Restrictions {
    strings(names).into_iter().collect()
}

pub(crate) fn taint(key: &str, value: Option<&str>) -> Taint {
    Taint {
        key: key.to_owned(),
        value: value.map(ToOwned::to_owned),
    }
}

pub(crate) fn toleration(key: &str, value: Option<&str>) -> Toleration {
    Toleration {
        key: key.to_owned(),
        value: value.map(ToOwned::to_owned),
    }
}

pub(crate) fn cidr(text: &str) -> Option<Cidr> {
    Some(Cidr::new(text))
}
