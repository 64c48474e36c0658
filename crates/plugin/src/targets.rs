//! The targets of a source as its user sees them: all, or those of his namespace.

use jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use pilotage_api::conditions::types;
use pilotage_api::{ClusterTarget, Target, TargetStatus, names};
use pilotage_runtime::call::{CALL_LIMIT, CallError, Failure, find};
use pilotage_runtime::pages;

use crate::cluster::Cluster;
use crate::error::Error;

/// What is read of a Target or a `ClusterTarget`.
pub(crate) struct Seen {
    /// `None` for a `ClusterTarget`.
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) uid: Option<String>,
    /// Namespace and name of the Secret with its kubeconfig.
    pub(crate) secret: Option<(String, String)>,
    pub(crate) status: TargetStatus,
}

/// What a kind of target says of itself.
trait Says: Resource<DynamicType = ()> {
    fn secret(&self) -> Option<(String, String)>;
    fn status(&self) -> Option<TargetStatus>;
}

impl Says for Target {
    fn secret(&self) -> Option<(String, String)> {
        let secret = self.spec.kubeconfig_secret.as_ref()?;
        Some((self.namespace()?, secret.name.clone()))
    }

    fn status(&self) -> Option<TargetStatus> {
        self.status.clone()
    }
}

impl Says for ClusterTarget {
    fn secret(&self) -> Option<(String, String)> {
        let secret = self.spec.kubeconfig_secret.as_ref()?;
        Some((secret.namespace.clone(), secret.name.clone()))
    }

    fn status(&self) -> Option<TargetStatus> {
        self.status.clone()
    }
}

impl Seen {
    fn of(object: &impl Says) -> Self {
        Self {
            namespace: object.namespace(),
            name: object.name_any(),
            uid: object.uid(),
            secret: object.secret(),
            status: object.status().unwrap_or_default(),
        }
    }

    /// `Target shop/paris`.
    pub(crate) fn title(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("Target {namespace}/{}", self.name),
            None => format!("ClusterTarget {}", self.name),
        }
    }

    pub(crate) fn node(&self) -> String {
        let known = self.status.node.clone();
        known.unwrap_or_else(|| names::virtual_node(self.namespace.as_deref(), &self.name))
    }

    /// Whether it is connected, since when, and why.
    pub(crate) fn connected(&self) -> (String, Option<Timestamp>, String, String) {
        let conditions = &self.status.conditions;
        let Some(it) = conditions.iter().find(|it| it.type_ == types::CONNECTED) else {
            let why = "see whether \"pilotage controllers\" runs".to_owned();
            return ("Unknown".to_owned(), None, "NotTakenUp".to_owned(), why);
        };
        (
            it.status.clone(),
            Some(it.last_transition_time.0),
            it.reason.clone(),
            it.message.clone(),
        )
    }
}

/// The pods that are at a virtual node and haven't ended: those that their target runs.
pub(crate) fn running_at(node: &str) -> ListParams {
    let selection = format!("spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed");
    ListParams::default().fields(&selection)
}

/// Targets, and what else there may be.
pub(crate) struct Targets {
    pub(crate) all: Vec<Seen>,
    /// What their user may not see.
    pub(crate) notes: Vec<String>,
}

/// What was read, unless one may not read it.
pub(crate) fn allowed<T>(answer: Result<T, CallError>) -> Result<Option<T>, CallError> {
    match answer {
        Ok(it) => Ok(Some(it)),
        Err(error) if error.kind() == Failure::Forbidden => Ok(None),
        Err(error) => Err(error),
    }
}

/// Those of a namespace, or all; of these, who may not list them gets those of his context's namespace.
/// `ClusterTarget`s belong to every namespace, and count as far as one may list them.
pub(crate) async fn targets(source: &Cluster, namespace: Option<&str>) -> Result<Targets, Error> {
    let everywhere: Api<ClusterTarget> = Api::all(source.client.clone());
    let (here, everywhere) = tokio::join!(
        namespaced(source, namespace),
        pages::all(CALL_LIMIT, &everywhere, ListParams::default())
    );
    let (mut notes, mut all) = (Vec::new(), Vec::new());
    let here = if let Some(here) = here? {
        here
    } else {
        let own = source.namespace.as_str();
        // Of one namespace there is no narrower view.
        let narrower = if namespace.is_some() {
            None
        } else {
            notes.push(format!(
                "you may not list Targets of all namespaces in the source: these are those of namespace {own}"
            ));
            namespaced(source, Some(own)).await?
        };
        narrower.ok_or_else(|| Error::Rights {
            side: source.side,
            missing: vec![format!(
                "list targets of namespace {}",
                namespace.unwrap_or(own)
            )],
        })?
    };
    all.extend(here);
    let everywhere = allowed(everywhere).map_err(|error| failed(source, error))?;
    match everywhere {
        Some(list) => all.extend(list.into_iter().map(|it| Seen::of(&it))),
        None => notes.push(
            "you may not list ClusterTargets in the source: there may be some, for all namespaces"
                .to_owned(),
        ),
    }
    Ok(Targets { all, notes })
}

/// Those of a namespace, or of all; `None` if one may not list them.
async fn namespaced(source: &Cluster, namespace: Option<&str>) -> Result<Option<Vec<Seen>>, Error> {
    let api: Api<Target> = match namespace {
        Some(namespace) => source.api(namespace),
        None => Api::all(source.client.clone()),
    };
    let list = pages::all(CALL_LIMIT, &api, ListParams::default()).await;
    let list = allowed(list).map_err(|error| failed(source, error))?;
    Ok(list.map(|list| {
        let seen = list.into_iter().map(|it| Seen::of(&it));
        seen.collect()
    }))
}

fn failed(source: &Cluster, error: CallError) -> Error {
    if error.kind() == Failure::NotFound {
        let (side, reach) = (source.side, source.flags("--context"));
        return Error::NotInstalled {
            side,
            reach,
            kind: "Target",
        };
    }
    source.unread("list Targets")(error)
}

/// The Target that is meant by `NAME` or `NAMESPACE/NAME`.
pub(crate) async fn one(
    source: &Cluster,
    namespace: Option<&str>,
    name: &str,
) -> Result<Seen, Error> {
    let (namespace, name) = match name.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (namespace, name),
    };
    let namespace = namespace.unwrap_or(&source.namespace);
    let api: Api<Target> = source.api(namespace);
    let found = find(CALL_LIMIT, api.get(name), "targets", name).await;
    let may = format!("get targets of namespace {namespace}");
    let found = read(source, found, may)?;
    found
        .map(|it| Seen::of(&it))
        .ok_or_else(|| Error::Missing {
            what: format!(
                "Target {namespace}/{name} in the source (context {:?})",
                source.context
            ),
            instead: "give its namespace by -n, or --cluster-wide for a ClusterTarget, and its cluster by --source"
                .to_owned(),
        })
}

/// The `ClusterTarget` of a name.
pub(crate) async fn cluster_wide(source: &Cluster, name: &str) -> Result<Seen, Error> {
    let api: Api<ClusterTarget> = Api::all(source.client.clone());
    let found = find(CALL_LIMIT, api.get(name), "clustertargets", name).await;
    let found = read(source, found, "get clustertargets".to_owned())?;
    found.map(|it| Seen::of(&it)).ok_or_else(|| Error::Missing {
        what: format!(
            "ClusterTarget {name} in the source (context {:?})",
            source.context
        ),
        instead: "give its cluster by --source; a Target is found without --cluster-wide"
            .to_owned(),
    })
}

fn read<T>(
    source: &Cluster,
    found: Result<Option<T>, CallError>,
    may: String,
) -> Result<Option<T>, Error> {
    match found {
        Err(error) if error.kind() == Failure::Forbidden => Err(Error::Rights {
            side: source.side,
            missing: vec![may],
        }),
        found => found.map_err(|error| failed(source, error)),
    }
}
