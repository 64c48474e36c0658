//! Reads the file, level by level, so that each mistake is told with its place.

use std::{collections::BTreeSet, fmt, time::Duration};

use jiff::SignedDuration;
use pilotage_api::{
    bounds::{LONGEST_TIME, cut},
    keys, limits,
};
use pilotage_placement::{Expression, Labels, Ranking, Rule, Selector, Strategy};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{ConfigError, Configuration, PodRule, Policy};
use crate::{placing::Home, settings::Settings};

/// How many entries `pods` may have: each pod is compared with them in turn.
const PODS: usize = 256;
/// How many namespaces an entry may name.
const NAMESPACES: usize = 1024;
/// So many bytes of what is wrong are told: who reads it quotes what stands there.
const TOLD: usize = 512;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    #[serde(rename = "apiVersion")]
    _api_version: Value,
    #[serde(rename = "kind")]
    _kind: Value,
    source: Option<Value>,
    placement: Option<Value>,
    region_tables: Option<Value>,
    asking: Option<Value>,
    pods: Option<Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    region: Option<String>,
    provider: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Placement {
    strategy: Option<Value>,
    rules: Option<Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Asking {
    ask_all: Option<Value>,
    wave: Option<Value>,
    silence: Option<Value>,
    settle: Option<Value>,
    patience: Option<Value>,
    give_up: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Pods {
    namespaces: Option<Value>,
    selector: Option<Value>,
    placement: Option<Value>,
    asking: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LabelSelector {
    #[serde(default)]
    match_labels: Labels,
    #[serde(default)]
    match_expressions: Vec<Requirement>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Requirement {
    key: String,
    operator: String,
    #[serde(default)]
    values: Vec<String>,
}

fn wrong(path: &str, reason: &dyn fmt::Display) -> ConfigError {
    ConfigError::Field {
        path: path.to_owned(),
        reason: told(&reason.to_string()),
    }
}

fn told(text: &str) -> String {
    cut(text, TOLD).to_owned()
}

/// A name of a bounded length.
fn name(text: &str, limit: usize, path: &str) -> Result<(), ConfigError> {
    limits::text(text, limit).map_err(|error| wrong(path, &error))
}

/// So many entries, and no more.
fn few<T>(list: &[T], limit: usize, path: &str) -> Result<(), ConfigError> {
    if list.len() <= limit {
        return Ok(());
    }
    Err(wrong(path, &limits::TooLong::List { limit }))
}

fn read<T: DeserializeOwned>(value: Value, path: &str) -> Result<T, ConfigError> {
    serde_json::from_value(value).map_err(|error| wrong(path, &error))
}

pub(super) fn configuration(text: &str, asking: &Settings) -> Result<Configuration, ConfigError> {
    let options = serde_saphyr::options! { with_snippet: false };
    let value: Value = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| ConfigError::Yaml(told(error.to_string().trim_end())))?;
    for (field, expected) in [
        ("apiVersion", keys::CONFIG_API_VERSION),
        ("kind", keys::PROXY_SCHEDULER_CONFIGURATION),
    ] {
        let found = &value[field];
        if found.as_str() != Some(expected) {
            return Err(ConfigError::Kind {
                field,
                expected,
                found: if found.is_null() {
                    "nothing".to_owned()
                } else {
                    told(&found.to_string())
                },
            });
        }
    }
    let File {
        _api_version: _,
        _kind: _,
        source,
        placement,
        region_tables,
        asking: asks,
        pods,
    } = read(value, "")?;
    let source: Option<Source> = source.map(|source| read(source, "source")).transpose()?;
    let home = source.map(|Source { region, provider }| {
        let said = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (region, provider) = (said(region), said(provider));
        for (text, path) in [(&region, "source.region"), (&provider, "source.provider")] {
            name(text.as_deref().unwrap_or_default(), limits::LABEL, path)?;
        }
        Ok(Home::new(region.as_deref(), provider.as_deref()))
    });
    let policy = Policy {
        ranking: placement
            .map(|value| ranking(value, "placement"))
            .transpose()?,
        asking: settings(asks, "asking", asking)?,
    };
    let pods = pods.unwrap_or_default();
    few(&pods, PODS, "pods")?;
    let rules = pods.into_iter().enumerate();
    let rules = rules.map(|(index, value)| pod_rule(value, &format!("pods[{index}]"), &policy));
    Ok(Configuration {
        home: home.transpose()?.unwrap_or_default(),
        region_tables: region_tables.map(tables).transpose()?,
        rules: rules.collect::<Result<_, _>>()?,
        policy,
    })
}

fn tables(value: Value) -> Result<Vec<String>, ConfigError> {
    let path = "regionTables";
    let names: Vec<String> = read(value, path)?;
    few(&names, limits::LISTED, path)?;
    let mut known = BTreeSet::new();
    for (index, text) in names.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if text.is_empty() {
            return Err(wrong(&path, &"the name of a ConfigMap can't be empty"));
        }
        name(text, limits::SUBDOMAIN, &path)?;
        if !known.insert(text) {
            return Err(wrong(&path, &format!("{text:?} is there twice")));
        }
    }
    Ok(names)
}

fn ranking(value: Value, path: &str) -> Result<Ranking, ConfigError> {
    let Placement { strategy, rules } = read(value, path)?;
    let strategy: Option<Strategy> = strategy
        .map(|value| read(value, &format!("{path}.strategy")))
        .transpose()?;
    let rules: Option<Vec<Rule>> = rules
        .map(|rules| {
            let rules = rules.into_iter().enumerate();
            let rules = rules.map(|(index, rule)| read(rule, &format!("{path}.rules[{index}]")));
            rules.collect()
        })
        .transpose()?;
    if strategy.is_none() && rules.is_none() {
        return Err(wrong(path, &"give it a strategy or rules"));
    }
    Ranking::new(strategy, rules).map_err(|error| wrong(path, &error))
}

fn settings(value: Option<Value>, path: &str, base: &Settings) -> Result<Settings, ConfigError> {
    let Some(value) = value else {
        return Ok(base.clone());
    };
    let Asking {
        ask_all,
        wave,
        silence,
        settle,
        patience,
        give_up,
    } = read(value, path)?;
    let of = |field: &str| format!("{path}.{field}");
    let time = |value: Option<Value>, field: &str, otherwise: Duration| {
        value.map_or(Ok(otherwise), |value| duration(value, &of(field)))
    };
    let wave: Option<u16> = wave.map(|value| read(value, &of("wave"))).transpose()?;
    if wave == Some(0) {
        return Err(wrong(&of("wave"), &"one target has to be asked at least"));
    }
    let ask_all = ask_all
        .map(|value| read(value, &of("askAll")))
        .transpose()?;
    Ok(Settings {
        ask_all: ask_all.unwrap_or(base.ask_all),
        wave: wave.map_or(base.wave, usize::from),
        silence: time(silence, "silence", base.silence)?,
        settle: time(settle, "settle", base.settle)?,
        patience: time(patience, "patience", base.patience)?,
        give_up: time(give_up, "giveUp", base.give_up)?,
        ..base.clone()
    })
}

fn duration(value: Value, path: &str) -> Result<Duration, ConfigError> {
    let example = "write it with units, as 15s, 500ms or 1m30s";
    let text: String = match value {
        Value::String(text) => text,
        other => return Err(wrong(path, &format!("{other} is no duration; {example}"))),
    };
    let signed: SignedDuration = text
        .parse()
        .map_err(|_| wrong(path, &format!("{text:?} is no duration; {example}")))?;
    Duration::try_from(signed)
        .map(|time| time.min(LONGEST_TIME))
        .map_err(|_| wrong(path, &format!("{text:?} is negative")))
}

fn pod_rule(value: Value, path: &str, common: &Policy) -> Result<PodRule, ConfigError> {
    let Pods {
        namespaces,
        selector,
        placement,
        asking,
    } = read(value, path)?;
    let of = |field: &str| format!("{path}.{field}");
    let namespaces: Option<BTreeSet<String>> = namespaces
        .map(|value| {
            let path = of("namespaces");
            let names: Vec<String> = read(value, &path)?;
            few(&names, NAMESPACES, &path)?;
            for (index, text) in names.iter().enumerate() {
                name(text, limits::LABEL, &format!("{path}[{index}]"))?;
            }
            Ok(names.into_iter().collect())
        })
        .transpose()?;
    let selector: Option<LabelSelector> = selector
        .map(|value| read(value, &of("selector")))
        .transpose()?;
    let selector = selector.map(
        |LabelSelector {
             match_labels,
             match_expressions,
         }| {
            let expressions: Vec<_> = match_expressions
                .into_iter()
                .map(
                    |Requirement {
                         key,
                         operator,
                         values,
                     }| Expression {
                        key,
                        operator,
                        values,
                    },
                )
                .collect();
            Selector::new(&match_labels, &expressions)
                .map_err(|error| wrong(&of("selector"), &error))
        },
    );
    if namespaces.is_none() && selector.is_none() {
        return Err(wrong(path, &"say which pods: namespaces, selector or both"));
    }
    let own = placement
        .map(|value| ranking(value, &of("placement")))
        .transpose()?;
    Ok(PodRule {
        namespaces,
        selector: selector.transpose()?,
        policy: Policy {
            ranking: own.or_else(|| common.ranking.clone()),
            asking: settings(asking, &of("asking"), &common.asking)?,
        },
    })
}
