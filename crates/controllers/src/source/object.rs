//! A Source or `ClusterSource` as the controller sees it: the two kinds in one form, its key, and the marks on what
//! belongs to it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use pilotage_api::annotations::{is_label, is_subdomain};
use pilotage_api::keys::MANAGED_BY;
use pilotage_api::{
    ClusterSource, GROUP, Right, ServiceAccountRef, Source, SourceStatus, VERSION, keys,
};

/// Which Source or `ClusterSource`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SourceKey {
    /// Namespace of a Source; `None` for a `ClusterSource`.
    pub(crate) namespace: Option<String>,
    /// Name.
    pub(crate) name: String,
}

impl SourceKey {
    pub(super) fn of(meta: &ObjectMeta) -> Self {
        Self {
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }

    /// Whose a binding is, by its marks.
    pub(super) fn marked(meta: &ObjectMeta) -> Option<Self> {
        meta.labels.as_ref()?.get(keys::SOURCE_UID)?;
        let annotations = meta.annotations.as_ref()?;
        Some(Self {
            namespace: annotations.get(keys::SOURCE_NAMESPACE).cloned(),
            name: annotations.get(keys::SOURCE_NAME)?.clone(),
        })
    }

    pub(super) fn url(&self) -> String {
        let namespace = self.namespace.as_deref();
        let list = match namespace {
            Some(_) => Source::url_path(&(), namespace),
            None => ClusterSource::url_path(&(), None),
        };
        format!("{list}/{}", self.name)
    }
}

/// One version of a Source or `ClusterSource`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SourceObject {
    pub(crate) key: SourceKey,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    pub(crate) generation: Option<i64>,
    pub(crate) deleting: bool,
    pub(crate) account: Option<ServiceAccountRef>,
    /// It names an account that can't exist.
    pub(crate) misnamed: bool,
    pub(crate) user: Option<String>,
    /// In order, each once.
    pub(crate) rights: Vec<Right>,
    pub(crate) status: SourceStatus,
}

impl SourceObject {
    pub(crate) fn from_source(source: &Source) -> Option<Self> {
        let namespace = source.metadata.namespace.clone()?;
        let account = source.spec.service_account_name.clone();
        let account = account.map(|name| ServiceAccountRef {
            name,
            namespace: namespace.clone(),
        });
        let who = (account, source.spec.user_name.clone());
        let rights = source.spec.rights.clone();
        Self::new(
            &source.metadata,
            Some(namespace),
            who,
            rights,
            source.status.clone(),
        )
    }

    pub(crate) fn from_cluster_source(source: &ClusterSource) -> Option<Self> {
        let who = (
            source.spec.service_account.clone(),
            source.spec.user_name.clone(),
        );
        let rights = source.spec.rights.clone();
        Self::new(&source.metadata, None, who, rights, source.status.clone())
    }

    fn new(
        meta: &ObjectMeta,
        namespace: Option<String>,
        (account, user): (Option<ServiceAccountRef>, Option<String>),
        mut rights: Vec<Right>,
        status: Option<SourceStatus>,
    ) -> Option<Self> {
        rights.sort_unstable();
        rights.dedup();
        let account = account.filter(|account| !account.name.is_empty());
        // It becomes a part of paths.
        let can_be = |it: &ServiceAccountRef| is_subdomain(&it.name) && is_label(&it.namespace);
        let misnamed = account.as_ref().is_some_and(|account| !can_be(account));
        Some(Self {
            key: SourceKey {
                namespace,
                name: meta.name.clone()?,
            },
            uid: meta.uid.clone()?,
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            generation: meta.generation,
            deleting: meta.deletion_timestamp.is_some(),
            account: account.filter(can_be),
            misnamed,
            user: user.filter(|user| !user.is_empty()),
            rights,
            status: status.unwrap_or_default(),
        })
    }

    pub(super) fn kind(&self) -> &'static str {
        if self.key.namespace.is_some() {
            "Source"
        } else {
            "ClusterSource"
        }
    }

    pub(super) fn owner(&self) -> OwnerReference {
        OwnerReference {
            api_version: format!("{GROUP}/{VERSION}"),
            kind: self.kind().to_owned(),
            name: self.key.name.clone(),
            uid: self.uid.clone(),
            ..OwnerReference::default()
        }
    }

    /// Owner of the fields that belong to this Source alone: several may share a service account.
    pub(crate) fn field_manager(&self) -> String {
        format!("pilotage-source-{}", self.uid)
    }

    pub(super) fn marks(&self) -> (BTreeMap<&str, &str>, BTreeMap<&str, &str>) {
        let labels = BTreeMap::from([MANAGED_BY, (keys::SOURCE_UID, self.uid.as_str())]);
        let mut annotations = BTreeMap::from([(keys::SOURCE_NAME, self.key.name.as_str())]);
        if let Some(namespace) = &self.key.namespace {
            annotations.insert(keys::SOURCE_NAMESPACE, namespace);
        }
        (labels, annotations)
    }
}
