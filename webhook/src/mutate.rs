//! The mutation itself, pure: an elected pod becomes a proxy pod, any other stays as it is.
//!
//! **Whose manifest is it?** The API server calls again when another webhook changed the pod after us, so a pod with a
//! manifest may be our own work; a user may also send a ready-made proxy with a manifest that no admission ever saw.
//! A request's UID tells nothing (each call has its own). But the API server works out `metadata.managedFields` from
//! what the *client* sent, before the first webhook runs, and doesn't touch it again during admission: an annotation
//! that some manager owns was in the request, one that nobody owns was added since. Clients can't take fields off that
//! list, only add to it. So a manifest that a manager owns is forged, and so is one on a pod without any managed
//! fields, where nothing can be told. This holds at creation, which is all that this webhook is called for.
//!
//! **What is ours in it?** The fields in [`owned::SPEC_FIELDS`], our label and finalizer: these are restored from the
//! manifest on each call. All others are taken from the pod on each call, so what others inject reaches the delegate.
//! What another webhook did to an owned field after our first call is lost; that is why our configuration's name sorts
//! behind others'.

use json_patch::Patch;
use pilotage_api::lost::LostPolicy;
use pilotage_api::{annotations, bounds, keys, limits};
use pilotage_model::constraints::ProxyConstraints;
use pilotage_model::manifest::{self, ManifestError, SourcePod};
use pilotage_model::{burden, kept_labels};
use pilotage_runtime::weight;
use serde_json::Value;

use crate::daemons::DaemonSet;
use crate::denial::Denial;
use crate::{owned, patience};

/// What becomes of a pod that is being created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mutation {
    /// Not elected: nothing is done.
    None,
    /// Elected, but it stays local: nothing is done, and its author is told.
    Local(DaemonSet),
    /// It is, or becomes with this patch, a proxy pod. The patch is empty if nothing is left to do.
    Proxy(Patch),
}

impl Mutation {
    /// The patch, empty if there is nothing to do.
    pub fn patch(&self) -> Patch {
        match self {
            Self::None | Self::Local(_) => Patch::default(),
            Self::Proxy(patch) => patch.clone(),
        }
    }
}

/// Whether a pod's author wants it delegated.
pub fn is_elected(pod: &Value) -> bool {
    pod["metadata"]["annotations"].get(keys::ELECT).is_some()
}

/// What to do with a pod that is being created. Applied to its own result it does nothing more.
pub fn mutate(pod: &Value) -> Result<Mutation, Denial> {
    if !is_elected(pod) {
        return Ok(Mutation::None);
    }
    let own = &pod["metadata"]["annotations"];
    limits::annotations(|key| own[key].as_str())
        .map_err(|(key, error)| Denial::Annotation { key, error })?;
    if own.get(keys::GRANTED_TO).is_some() {
        return Err(Denial::RecordForged);
    }
    if let Some(owner) = DaemonSet::of(pod) {
        return local(pod, owner);
    }
    if let Some(node) = pod["spec"]["nodeName"]
        .as_str()
        .filter(|node| !node.is_empty())
    {
        return Err(Denial::NodeName(
            bounds::cut(node, limits::SUBDOMAIN).to_owned(),
        ));
    }
    if own.get(keys::SOURCE_POD_MANIFEST).is_some() && sent_with_manifest(pod) {
        return Err(Denial::ManifestForged);
    }
    // What the API server adds for itself stays as it is, and may be larger than all the rest.
    let pod = owned::without_system_fields(pod);
    let after = proxy(&pod)?;
    Ok(Mutation::Proxy(json_patch::diff(&pod, &after)))
}

/// A pod that stays local has nothing that only proxies have.
fn local(pod: &Value, owner: DaemonSet) -> Result<Mutation, Denial> {
    if pod["metadata"]["annotations"]
        .get(keys::SOURCE_POD_MANIFEST)
        .is_some()
    {
        return Err(Denial::ManifestForged);
    }
    if pod["spec"]["schedulerName"] == keys::PROXY_SCHEDULER {
        return Err(Denial::SchedulerTaken);
    }
    Ok(Mutation::Local(owner))
}

/// What becomes of a pod without system fields.
fn proxy(pod: &Value) -> Result<Value, Denial> {
    let saved = match pod["metadata"]["annotations"].get(keys::SOURCE_POD_MANIFEST) {
        None if pod["spec"]["schedulerName"] == keys::PROXY_SCHEDULER => {
            return Err(Denial::SchedulerTaken);
        }
        None => None,
        Some(_) => Some(manifest::from_proxy(pod).map_err(Denial::ManifestDamaged)?),
    };
    let source = match &saved {
        None => pod.clone(),
        Some(saved) => owned::restore(pod, saved.value()),
    };
    let source = with_patience(source)?;
    let source = SourcePod::new(source).map_err(Denial::NoPod)?;
    let said = &source.value()["metadata"]["annotations"];
    if said.get(keys::WHAT_IF).is_some() && said.get(keys::NO_RESERVATION).is_some() {
        return Err(Denial::WhatIf);
    }
    let constraints = ProxyConstraints::of(source.value())?;
    // Needed only where the chaperon is made, but this is the last place where the pod's author is told at once.
    if let Some(pattern) =
        source.value()["metadata"]["annotations"][keys::NO_PREFIX_LABEL_REGEXP].as_str()
    {
        kept_labels::parse(pattern)?;
    }
    let manifest = match manifest::text_of(pod) {
        // An equal manifest keeps its text, however it was written.
        Some(text) if saved.as_ref() == Some(&source) => text.to_owned(),
        _ => source.render().map_err(|error| match error {
            ManifestError::TooLarge => Denial::TooLargeToSave(error),
            error => Denial::NoPod(error),
        })?,
    };
    // Who watches chaperons weighs them in the same way.
    burden::check_source(source.value(), weight::of)?;
    let mut after = pod.clone();
    if let Some(policy) = source.value()["metadata"]["annotations"].get(keys::REPLACE_AFTER) {
        after["metadata"]["annotations"][keys::REPLACE_AFTER] = policy.clone();
    }
    owned::set(&mut after, source.value(), &manifest, constraints);
    if owned::annotation_bytes(&after) > annotations::LIMIT {
        return Err(Denial::TooLarge);
    }
    Ok(after)
}

/// Checks what the pod says of a lost target; where it says it by tolerations, it says so by annotation from now on.
fn with_patience(mut source: Value) -> Result<Value, Denial> {
    match source["metadata"]["annotations"][keys::REPLACE_AFTER].as_str() {
        Some(text) => {
            text.parse::<LostPolicy>()?;
        }
        None => {
            if let Some(policy) = patience::of_tolerations(&source) {
                source["metadata"]["annotations"][keys::REPLACE_AFTER] = policy.to_string().into();
            }
        }
    }
    Ok(source)
}

/// Whether the client sent the manifest, or nothing tells that it did not.
fn sent_with_manifest(pod: &Value) -> bool {
    let managers = pod["metadata"]["managedFields"].as_array();
    let field = format!("f:{}", keys::SOURCE_POD_MANIFEST);
    let owns = |manager: &Value| {
        manager["fieldsV1"]["f:metadata"]["f:annotations"]
            .get(&field)
            .is_some()
    };
    managers.is_none_or(|managers| managers.is_empty() || managers.iter().any(owns))
}

#[cfg(test)]
mod tests;
