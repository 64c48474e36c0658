//! A pod as a request of seed selection: what its annotations, selector, tolerations and node affinity ask for.
//!
//! Read when the pod changes. What its annotations demand filters; all else only orders, since whether a pod may be
//! somewhere is for the scheduler's own plugins and for the target to say. A proxy's own selector speaks of virtual
//! nodes, so where its author wants the pod is read from the saved manifest. It knows no target.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use k8s_openapi::{
    api::core::v1::{Pod, PodSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use pilotage_api::{bounds, keys, limits};
use pilotage_model::manifest::SourcePod;
use pilotage_placement::{
    Peers, Providers, Region, RegionTable, Request, Selector, Toleration as Tolerated, ZoneHints,
};
use pilotage_sched::{
    PodInfo,
    labels::{Labels, Requirement, Test},
    taints::{Comparison, Taint, Toleration},
};

use super::place::list;

/// What a pod asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Want {
    /// Its annotations say something of where it belongs.
    asks: bool,
    /// The region of its annotation, which a strategy may insist on.
    demanded_region: Option<Region>,
    /// The region of its selector or affinity.
    wished_region: Option<Region>,
    demanded_provider: Option<Arc<str>>,
    zones: BTreeSet<String>,
    access_restrictions: Vec<String>,
    selector: Option<Selector>,
    tolerations: Vec<Toleration>,
    /// What owns the pod.
    application: Option<Arc<str>>,
}

/// Where node selector and affinity want a pod to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wishes {
    region: Option<Region>,
    zones: BTreeSet<String>,
}

impl Wishes {
    fn of(info: &PodInfo) -> Self {
        Self {
            region: wished(info, keys::REGION_LABELS)
                .first()
                .map(|region| Region::new(region)),
            zones: wished(info, keys::ZONE_LABELS)
                .into_iter()
                .take(limits::LISTED)
                .collect(),
        }
    }

    /// What the author of a proxy's pod wishes, whose saved manifest this is.
    pub fn of_source(source: &SourcePod) -> Self {
        let spec = &source.value()["spec"];
        let read = |field: &str| spec.get(field).cloned().unwrap_or_default();
        let pod = Pod {
            // A pod that isn't created yet has neither, and nothing here depends on them.
            metadata: ObjectMeta {
                name: Some("author".to_owned()),
                uid: Some("author".to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(PodSpec {
                node_selector: serde_json::from_value(read("nodeSelector")).unwrap_or_default(),
                affinity: serde_json::from_value(read("affinity")).unwrap_or_default(),
                ..PodSpec::default()
            }),
            ..Pod::default()
        };
        PodInfo::parse(Arc::new(pod)).map_or_else(|_| Self::default(), |info| Self::of(&info))
    }
}

/// What holds for a pod beside its own words.
pub(super) struct Surroundings<'a> {
    /// Region and provider of the source.
    pub(super) region: Option<&'a Region>,
    pub(super) provider: Option<&'a Arc<str>>,
    /// Distances.
    pub(super) table: Option<Arc<RegionTable>>,
    /// Taints that targets have.
    pub(super) taints: &'a [(String, Taint)],
    /// Where others of its application are placed.
    pub(super) peers: Option<Arc<Peers>>,
}

impl Want {
    /// Reads a proxy pod; `author` is what its saved manifest wishes, which counts before what the proxy's own selector
    /// says.
    pub fn of(info: &PodInfo, author: &Wishes) -> Self {
        let pod = info.pod();
        let said = |key| pod.and_then(|pod| said(pod, key));
        let name = |key| said(key).map(short);
        let (region, provider) = (name(keys::REGION), name(keys::CLOUD_PROVIDER));
        let (zones, access) = (said(keys::ZONES), said(keys::ACCESS_RESTRICTIONS));
        let asks = region.is_some() || provider.is_some() || zones.is_some() || access.is_some();
        let own = Wishes::of(info);
        let selected = &info.needs.node_affinity.selector;
        Self {
            asks,
            demanded_region: region.as_deref().map(Region::new),
            wished_region: author.region.clone().or(own.region),
            demanded_provider: provider.map(Arc::from),
            zones: match zones {
                Some(zones) => named(zones),
                None if author.zones.is_empty() => own.zones,
                None => author.zones.clone(),
            },
            // One that is listed twice is one.
            access_restrictions: access.map(demanded).into_iter().flatten().collect(),
            // The API server lets no other selector pass.
            selector: Selector::new(selected, &[])
                .ok()
                .filter(|_| !selected.is_empty()),
            tolerations: info.needs.tolerations.clone(),
            application: pod.and_then(|pod| owner(pod)),
        }
    }

    /// The application that the pod is one of: the UID of what controls it, a `ReplicaSet` for instance.
    pub fn application(&self) -> Option<&Arc<str>> {
        self.application.as_ref()
    }

    /// Its own annotations say something of where it belongs, so that the pipeline counts even if nobody configured it.
    pub const fn asks(&self) -> bool {
        self.asks
    }

    /// The provider whose tables of regions are for it.
    pub(super) fn provider<'a>(&'a self, source: Option<&'a Arc<str>>) -> Option<&'a str> {
        self.demanded_provider
            .as_ref()
            .or(source)
            .map(|provider| &**provider)
    }

    /// A strategy may turn down other regions for its sake.
    pub(super) const fn demands_region(&self) -> bool {
        self.demanded_region.is_some()
    }

    /// Takes the region and the provider out of a request that the pod doesn't demand itself.
    pub(super) fn forgo_place(&self, request: &mut Request) {
        if self.demanded_region.is_none() {
            request.region = None;
        }
        if self.demanded_provider.is_none() {
            request.provider = None;
        }
    }

    /// The request, with what the surroundings add.
    pub(super) fn request(&self, around: &Surroundings<'_>) -> Request {
        let tolerated = |(_, taint): &&(String, Taint)| {
            self.tolerations
                .iter()
                .any(|toleration| toleration.tolerates(taint, Comparison::Off))
        };
        let tolerations = around.taints.iter().filter(tolerated);
        Request {
            own_selector: self.selector.clone().map(Ok),
            provider: self.demanded_provider.as_ref().or(around.provider).cloned(),
            // The provider of the source says what is near, not what is possible.
            providers: match self.demanded_provider {
                Some(_) => Providers::Own,
                None => Providers::Any,
            },
            region: self
                .demanded_region
                .as_ref()
                .or(self.wished_region.as_ref())
                .or(around.region)
                .cloned(),
            distances: around.table.clone(),
            peers: around.peers.clone(),
            zones: ZoneHints::Near(self.zones.clone()),
            access_restrictions: self.access_restrictions.clone(),
            tolerations: tolerations
                .map(|(name, _)| Tolerated {
                    key: name.clone(),
                    value: None,
                })
                .collect(),
            ..Request::default()
        }
    }
}

fn owner(pod: &Pod) -> Option<Arc<str>> {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    Some(owner.uid.as_str().into())
}

fn said<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    let text = pod.metadata.annotations.as_ref()?.get(key)?.trim();
    (!text.is_empty()).then_some(text)
}

/// A name; one that is too long for any is cut, and is nobody's then. Webhook and policy let no such one pass.
fn short(name: &str) -> Cow<'_, str> {
    if name.len() <= limits::LABEL {
        return name.into();
    }
    let mark = '…';
    let kept = bounds::cut(name, limits::LABEL.saturating_sub(mark.len_utf8()));
    format!("{kept}{mark}").into()
}

/// Names separated by commas that are wished for.
fn named(text: &str) -> BTreeSet<String> {
    list(text).map(str::to_owned).collect()
}

/// Names separated by commas that are demanded: of more than a list may have nobody has them all.
fn demanded(text: &str) -> BTreeSet<String> {
    let names = limits::names(text).take(limits::LISTED.saturating_add(1));
    let mut names: BTreeSet<_> = names.map(|name| short(name).into_owned()).collect();
    if limits::list(text).is_err() {
        names.insert("…".to_owned());
    }
    names
}

/// Values of the first of these labels that the pod selects: by its selector, by what its affinity requires, or by the
/// heaviest term that it prefers and that speaks of it.
fn wished(info: &PodInfo, labels: [&str; 2]) -> BTreeSet<String> {
    let selector: &Labels = &info.needs.node_affinity.selector;
    if let Some(value) = labels.iter().find_map(|label| selector.get(*label)) {
        return BTreeSet::from([value.clone()]);
    }
    let among = |requirements: &[Requirement]| -> BTreeSet<String> {
        let mut sets = requirements.iter().filter_map(|requirement| {
            let spoken_of = labels.contains(&requirement.key.as_str());
            match &requirement.test {
                Test::In(values) if spoken_of => Some(values.clone()),
                _ => None,
            }
        });
        sets.next().unwrap_or_default()
    };
    let required = info.needs.node_affinity.terms.iter().flatten();
    let required: BTreeSet<_> = required.flat_map(|term| among(&term.labels)).collect();
    if !required.is_empty() {
        return required;
    }
    let mut preferred: Vec<_> = info.needs.preferred_nodes.iter().collect();
    preferred.sort_by_key(|term| std::cmp::Reverse(term.weight));
    let mut sets = preferred
        .iter()
        .map(|preferred| among(&preferred.term.labels));
    sets.find(|set| !set.is_empty()).unwrap_or_default()
}
