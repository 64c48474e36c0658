//! The files that commands are given: reads them, and says which file, which object and which field of it is wrong.

use std::path::{Path, PathBuf};

use pilotage_gardener::config::{ConfigError, SchedulerConfiguration};
use pilotage_gardener::fields::{Field, FieldError};
use pilotage_gardener::{YamlError, documents};
use pilotage_placement::Settings;
use serde_json::Value;

/// A file can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It can't be read.
    #[error("can't read {path}: {source}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// It isn't YAML.
    #[error("{path}, {error}", path = .path.display())]
    Yaml {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        error: YamlError,
    },
    /// An object in it isn't what it should be.
    #[error("{path}, {object}: {error}", path = .path.display())]
    Object {
        /// The file.
        path: PathBuf,
        /// Which object.
        object: String,
        /// What is wrong.
        error: Box<FieldError>,
    },
    /// It has another number of objects than it should.
    #[error("{path}: expected one {kind}, found {found}", path = .path.display())]
    Count {
        /// The file.
        path: PathBuf,
        /// Kind of the objects.
        kind: &'static str,
        /// How many there are.
        found: usize,
    },
    /// It isn't a configuration of Gardener's scheduler.
    #[error("{path}: {error}", path = .path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: ConfigError,
    },
    /// It isn't a configuration of the proxy scheduler.
    #[error("{path}: {error}", path = .path.display())]
    ProxyScheduler {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        error: pilotage_proxy::config::ConfigError,
    },
    /// It asks for what can't be had.
    #[error("{path}: {error}", path = .path.display())]
    Unfollowed {
        /// The file.
        path: PathBuf,
        /// What, and why not.
        error: String,
    },
    /// It isn't a file of settings.
    #[error("{path}: {error}", path = .path.display())]
    Settings {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: String,
    },
    /// An object of a garden isn't what it should be.
    #[error("{object}: {error}")]
    Live {
        /// Which object.
        object: String,
        /// What is wrong.
        error: Box<FieldError>,
    },
    /// What a field of the Shoot refers to is in none of the files.
    #[error("{path}, {shoot}: {field}: {what}", path = .path.display())]
    Reference {
        /// The Shoot's file.
        path: PathBuf,
        /// The Shoot.
        shoot: String,
        /// The field.
        field: &'static str,
        /// What is missing where.
        what: String,
    },
    /// A file of Seeds has none.
    #[error("{path}: expected one Seed or more, found none", path = .path.display())]
    NoSeeds {
        /// The file.
        path: PathBuf,
    },
    /// A Shoot with a domain needs its project.
    #[error("{path}, {shoot}: has the domain {domain:?}, so its project is needed: --project FILE",
        path = .path.display())]
    NeedsProject {
        /// The Shoot's file.
        path: PathBuf,
        /// The Shoot.
        shoot: String,
        /// Its domain.
        domain: String,
    },
}

/// The one Shoot in a file.
pub(super) fn one_shoot<T>(
    path: &Path,
    read: impl Fn(&Value) -> Result<T, FieldError>,
) -> Result<T, FileError> {
    let mut shoots = objects(path, &["Shoot"], read)?;
    match (shoots.pop(), shoots.len()) {
        (Some(shoot), 0) => Ok(shoot),
        (last, others) => Err(FileError::Count {
            path: path.to_owned(),
            kind: "Shoot",
            found: others.saturating_add(usize::from(last.is_some())),
        }),
    }
}

/// What is in a file.
pub(super) fn text(path: &Path) -> Result<String, FileError> {
    std::fs::read_to_string(path).map_err(|source| FileError::Read {
        path: path.to_owned(),
        source,
    })
}

/// The objects in a file, each of which must be of one of these kinds.
pub(super) fn objects<T>(
    path: &Path,
    kinds: &[&str],
    read: impl Fn(&Value) -> Result<T, FieldError>,
) -> Result<Vec<T>, FileError> {
    let documents = documents(&text(path)?).map_err(|error| FileError::Yaml {
        path: path.to_owned(),
        error,
    })?;
    let mut objects = Vec::with_capacity(documents.len());
    for (number, document) in documents.iter().enumerate() {
        let object = expect(document, kinds).and_then(|()| read(document));
        objects.push(object.map_err(|error| FileError::Object {
            path: path.to_owned(),
            object: match (&document["kind"], &document["metadata"]["name"]) {
                (Value::String(kind), Value::String(name)) => format!("{kind} {name}"),
                _ => format!("object {}", number.saturating_add(1)),
            },
            error: Box::new(error),
        })?);
    }
    Ok(objects)
}

fn expect(document: &Value, kinds: &[&str]) -> Result<(), FieldError> {
    let kind = Field::root(document).get("kind")?;
    match kind.string()? {
        Some(found) if kinds.contains(&found) => Ok(()),
        _ => Err(kind.error(&kinds.join(" or "))),
    }
}

/// The objects in these files.
pub(super) fn all<T>(
    paths: &[PathBuf],
    kinds: &[&str],
    read: impl Fn(&Value) -> Result<T, FieldError> + Copy,
) -> Result<Vec<T>, FileError> {
    let mut all = Vec::new();
    for path in paths {
        all.extend(objects(path, kinds, read)?);
    }
    Ok(all)
}

/// A file of settings.
pub(super) fn settings_file(path: &Path) -> Result<Settings, FileError> {
    serde_saphyr::from_str(&text(path)?).map_err(|error| FileError::Settings {
        path: path.to_owned(),
        error: error.without_snippet().to_string(),
    })
}

/// A configuration file of Gardener's scheduler.
pub(super) fn scheduler_config(path: &Path) -> Result<SchedulerConfiguration, FileError> {
    SchedulerConfiguration::parse(&text(path)?).map_err(|error| FileError::Config {
        path: path.to_owned(),
        error,
    })
}
