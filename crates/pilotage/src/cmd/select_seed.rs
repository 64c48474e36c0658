//! `pilotage select-seed`: which Seed a Shoot gets, on files or in a garden as it is, and why the others lose. It
//! reads, asks, and prints; nothing is written.

mod faults;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use pilotage_gardener::fields::{Field, FieldError};
use pilotage_gardener::kinds::{CloudProfile, Project, RegionConfig, Shoot, choose, seed};
use pilotage_gardener::{
    Report, RequestError, Texts, Usage, eligible, profile_id, profile_of, request, unasked,
};
use pilotage_gardener_scheduler::live;
use pilotage_placement::{Candidate, Ranking, Request, Selection, Settings, select};
use pilotage_runtime::args::ClientArgs;
use pilotage_runtime::client;
use serde_json::Value;

use self::faults::{Faults, strictly};
use super::files::{FileError, all, objects, one_shoot, scheduler_config, settings_file};
use super::{print, yaml};
use crate::error::Error;

/// Told where it may matter, since only the API server knows what it would add.
const AS_IT_STANDS: &str = "note: the Shoot is taken as it stands: what Gardener's admission adds when one is created \
    isn't there (tolerations by its project, selector and tolerations of its exposure class)";

/// Flags of `pilotage select-seed`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File with the Shoot.
    #[arg(long, value_name = "FILE", required_unless_present = "shoot_name")]
    shoot: Option<PathBuf>,

    /// Kubeconfig file of a garden: everything but the Shoot is read there, and with --shoot-name the Shoot, too.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "cloudprofile", "project", "shoots",
        "region_config"])]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig to use instead of its current one.
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,

    /// A Shoot of the garden, instead of one in a file.
    #[arg(long, value_name = "NAMESPACE/NAME", requires = "kubeconfig", conflicts_with = "shoot",
        value_parser = namespaced)]
    shoot_name: Option<(String, String)>,

    /// Files with the Seeds. May be repeated.
    #[arg(long, value_name = "FILE", required_unless_present = "kubeconfig")]
    seeds: Vec<PathBuf>,

    /// Files with CloudProfiles or NamespacedCloudProfiles, the Shoot's among them. May be repeated.
    #[arg(long, value_name = "FILE", required_unless_present = "kubeconfig")]
    #[allow(clippy::doc_markdown, reason = "this is a help text")]
    cloudprofile: Vec<PathBuf>,

    /// Files with Projects, the Shoot's among them. Only a Shoot that has a domain needs it. May be repeated.
    #[arg(long, value_name = "FILE")]
    project: Vec<PathBuf>,

    /// Files with Shoots that are there already: they are counted at their Seeds. May be repeated.
    #[arg(long, value_name = "FILE")]
    shoots: Vec<PathBuf>,

    /// Files with region ConfigMaps, for distances. May be repeated.
    #[arg(long, value_name = "FILE")]
    #[allow(clippy::doc_markdown, reason = "this is a help text")]
    region_config: Vec<PathBuf>,

    /// Configuration file of Gardener's scheduler (SchedulerConfiguration); its strategy is used.
    #[arg(long, value_name = "FILE", conflicts_with = "settings")]
    #[allow(clippy::doc_markdown, reason = "this is a help text")]
    config: Option<PathBuf>,

    /// File with "strategy" or weighted "rules", and "gardenerCompatible"; see docs/placement.md.
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,

    /// How the outcome is printed.
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// How the outcome is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Table,
    /// For programs.
    Json,
    /// For either.
    Yaml,
}

fn namespaced(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("write it as NAMESPACE/NAME".to_owned()),
    }
}

/// All that is known.
struct Input {
    shoot: Shoot,
    seeds: Vec<Candidate>,
    profile: Result<CloudProfile, RequestError>,
    projects: Vec<Project>,
    configs: Vec<RegionConfig>,
    settings: Settings,
    usage: Usage,
}

pub(crate) async fn run(args: &Args) -> Result<(), Error> {
    let input = match &args.kubeconfig {
        None => read(args)?,
        Some(kubeconfig) => ask(args, kubeconfig).await?,
    };
    let shoot = &input.shoot;
    let name = format!("{}/{}", shoot.namespace, shoot.name);
    if let Err(why) = eligible(shoot, shoot.scheduler.as_deref()) {
        eprintln!("note: no scheduler would touch {name}: {why}");
    }
    let message;
    let report = match asked(&input) {
        Ok((request, profile)) => {
            let selection = select(&request, &input.seeds, &input.settings);
            let texts = Texts {
                request: &request,
                settings: &input.settings,
                profile: &profile.name,
            };
            message = texts.failure(&selection);
            let message = message.clone();
            Report::new(shoot, &input.seeds, &input.settings, &selection, message)
        }
        // What a garden lacks is what its scheduler would say.
        Err(error) if args.kubeconfig.is_some() => {
            message = Some(unasked(&error));
            let nothing = Selection {
                ranking: Vec::new(),
                rejected: Vec::new(),
                failure: None,
            };
            let message = message.clone();
            Report::new(shoot, &input.seeds, &input.settings, &nothing, message)
        }
        Err(error) => return Err(reference(args, shoot, &error).into()),
    };
    if let (None, None, Ranking::Strategy(strategy)) =
        (&args.config, &args.settings, &input.settings.ranking)
    {
        let strategy = strategy.name();
        eprintln!("note: strategy {strategy}, since neither --config nor --settings is given");
    }
    print(&match args.output {
        Output::Table => report.table(),
        Output::Yaml => yaml("the outcome", &report)?,
        Output::Json => {
            let text = serde_json::to_string_pretty(&report).map_err(|source| Error::Render {
                what: "the outcome".to_owned(),
                source: source.into(),
            })?;
            text + "\n"
        }
    })?;
    match message {
        None => Ok(()),
        Some(_) => Err(Error::NoSeed(name)),
    }
}

/// What the Shoot asks for, and by which profile.
fn asked(input: &Input) -> Result<(Request, &CloudProfile), RequestError> {
    let shoot = &input.shoot;
    let profile = input.profile.as_ref().map_err(Clone::clone)?;
    let config = choose(&input.configs, &profile.name);
    for other in &input.configs {
        if config.is_none_or(|config| config.name != other.name) {
            let (other, profile) = (other.table.name(), &profile.name);
            eprintln!("note: the region ConfigMap {other} isn't used for cloud profile {profile}");
        }
    }
    let table = config.map(|config| config.table.clone());
    let mut request = request(shoot, profile, &input.projects, table)?;
    request.peers = Some(input.usage.peers(&shoot.namespace));
    Ok((request, profile))
}

/// Which file and field of it refers to what isn't there.
fn reference(args: &Args, shoot: &Shoot, error: &RequestError) -> FileError {
    let files = |paths: &[PathBuf]| {
        let names: Vec<_> = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        names.join(", ")
    };
    let (field, what) = match error {
        RequestError::NoProfile { .. } => (
            "spec.cloudProfile or spec.cloudProfileName",
            "expected the name of a CloudProfile, found nothing".to_owned(),
        ),
        RequestError::ProfileNotFound { kind, name, .. } => {
            let files = files(&args.cloudprofile);
            let what = format!("the {kind} {name:?} isn't in {files}");
            ("spec.cloudProfile or spec.cloudProfileName", what)
        }
        RequestError::NoProject { namespace } => {
            let files = files(&args.project);
            let what = format!("no Project in {files} has the spec.namespace {namespace:?}");
            ("metadata.namespace", what)
        }
        other @ RequestError::ProfileUnreadable { .. } => ("spec.cloudProfile", other.to_string()),
    };
    FileError::Reference {
        path: args.shoot.clone().unwrap_or_default(),
        shoot: format!("Shoot {}", shoot.name),
        field,
        what,
    }
}

/// Tells what of an object of a garden can't be used. Its scheduler goes on all the same, and so does this.
fn note(object: &str, content: &impl Faults) {
    for fault in content.faults() {
        eprintln!("note: {object}: {fault}");
    }
}

/// Reads a garden as it is now.
async fn ask(args: &Args, kubeconfig: &Path) -> Result<Input, Error> {
    let client = ClientArgs {
        kubeconfig: Some(kubeconfig.to_owned()),
        context: args.context.clone(),
    };
    let client = client::connect(&client, "select-seed").await?;
    let shoot = if let Some((namespace, name)) = &args.shoot_name {
        let Some(value) = live::shoot(&client, namespace, name).await? else {
            return Err(Error::NoShoot(format!("{namespace}/{name}")));
        };
        let object = format!("Shoot {namespace}/{name}");
        let shoot = Shoot::read(&value).map_err(|error| FileError::Live {
            object: object.clone(),
            error: Box::new(error),
        })?;
        note(&object, &shoot);
        shoot
    } else {
        let path = args.shoot.as_deref().unwrap_or(Path::new(""));
        let shoot = one_shoot(path, strictly(Shoot::read))?;
        eprintln!("{AS_IT_STANDS}");
        shoot
    };
    let live::Snapshot {
        seeds,
        usage,
        profile,
        projects,
        configs,
        unread,
    } = live::snapshot(&client, &shoot).await?;
    for what in unread {
        eprintln!("note: passed over, since it can't be read: {what}");
    }
    for seed in &seeds {
        note(&format!("Seed {}", seed.name), seed);
    }
    for config in &configs {
        note(&format!("ConfigMap {}", config.table.name()), config);
    }
    if let Some(Ok(profile)) = &profile {
        note(
            &format!("{} {}", profile.kind.name(), profile.name),
            profile,
        );
    }
    let profile = profile_id(&shoot).and_then(|id| match profile {
        Some(Ok(profile)) => Ok(profile),
        Some(Err(error)) => Err(RequestError::unreadable(&id, error)),
        None => Err(RequestError::not_found(&shoot, &id)),
    });
    Ok(Input {
        shoot,
        seeds,
        usage,
        profile,
        projects,
        configs,
        settings: settings(args)?,
    })
}

fn read(args: &Args) -> Result<Input, FileError> {
    // The command line has one or the other.
    let path = args.shoot.as_deref().unwrap_or(Path::new(""));
    let (shoot, exposed) = one_shoot(path, |value| {
        Ok((strictly(Shoot::read)(value)?, has_exposure_class(value)?))
    })?;
    let read = |value: &Value| Ok((Project::read(value)?, default_tolerations(value)?));
    let (mut projects, defaults): (Vec<_>, Vec<_>) =
        all(&args.project, &["Project"], read)?.into_iter().unzip();
    let lacks = |key: &String| !shoot.tolerations.iter().any(|has| has.key == *key);
    let own = |project: &Project| project.namespace.as_ref() == Some(&shoot.namespace);
    let mut defaults = projects.iter().zip(&defaults);
    let admitted =
        exposed || defaults.any(|(project, keys)| own(project) && keys.iter().any(lacks));
    if args.project.is_empty() {
        if let Some(domain) = &shoot.domain {
            return Err(FileError::NeedsProject {
                path: path.to_owned(),
                shoot: format!("Shoot {}", shoot.name),
                domain: domain.clone(),
            });
        }
        // Only a domain is ever compared with the project's name.
        projects.push(Project {
            name: String::new(),
            namespace: Some(shoot.namespace.clone()),
        });
    }
    let mut seeds = Vec::new();
    for path in &args.seeds {
        let found = objects(path, &["Seed"], strictly(seed))?;
        if found.is_empty() {
            return Err(FileError::NoSeeds { path: path.clone() });
        }
        seeds.extend(found);
    }
    let mut others = all(&args.shoots, &["Shoot"], strictly(Shoot::read))?;
    // The Shoot itself, which may be among those that are there, doesn't stand in its own way.
    others.retain(|other| (&other.namespace, &other.name) != (&shoot.namespace, &shoot.name));
    let usage = Usage::of(&others);
    for seed in &mut seeds {
        usage.fill(seed);
    }
    let profiles = all(
        &args.cloudprofile,
        &["CloudProfile", "NamespacedCloudProfile"],
        strictly(CloudProfile::read),
    )?;
    let configs = all(
        &args.region_config,
        &["ConfigMap"],
        strictly(RegionConfig::read),
    )?;
    let settings = settings(args)?;
    if admitted {
        eprintln!("{AS_IT_STANDS}");
    }
    Ok(Input {
        profile: profile_of(&shoot, &profiles).cloned(),
        shoot,
        seeds,
        projects,
        configs,
        settings,
        usage,
    })
}

fn has_exposure_class(shoot: &Value) -> Result<bool, FieldError> {
    let class = Field::root(shoot).at(&["spec", "exposureClassName"])?;
    Ok(class.non_empty()?.is_some())
}

/// Keys of the taints that Shoots of a project tolerate by default.
fn default_tolerations(project: &Value) -> Result<Vec<String>, FieldError> {
    let defaults = Field::root(project).at(&["spec", "tolerations", "defaults"])?;
    let key = |one: Field<'_>| Ok(one.get("key")?.name()?.to_owned());
    defaults.list()?.into_iter().map(key).collect()
}

fn settings(args: &Args) -> Result<Settings, FileError> {
    if let Some(path) = &args.settings {
        return settings_file(path);
    }
    let Some(path) = &args.config else {
        return Ok(Settings::default());
    };
    let config = scheduler_config(path)?;
    Ok(Settings {
        // It has been validated.
        ranking: Ranking::Strategy(config.strategy().unwrap_or_default()),
        ..Settings::default()
    })
}
