//! Services that follow pods: which ones may, the write that makes one select delegates, and what its copy looks like.
//!
//! Must not know which pods there are.

use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilotage_api::keys;
use pilotage_api::parent::ParentLink;
use serde_json::{Map, Value, json};

use super::copy::{Content, NotCopied, fitting};
use super::marked::{self, Marks};
use super::selector::{self, Selector};
use crate::kept_labels::{self, RegexpError};
use crate::label_pattern::LabelPattern;

/// Cluster IP of a Service that has none.
const HEADLESS: &str = "None";
/// A Service that only stands for a name.
const EXTERNAL_NAME: &str = "ExternalName";
/// A Service with an address for everybody.
const LOAD_BALANCER: &str = "LoadBalancer";

/// Of each copy in a target.
const MARKS: Marks = &[
    (keys::GLOBAL, keys::TRUE),
    (keys::IS_DELEGATE, ""),
    (keys::CILIUM_GLOBAL[0], keys::TRUE),
    (keys::CILIUM_GLOBAL[1], keys::TRUE),
];

/// The selector that its author wrote, of a Service that may follow; none, if it never does.
pub fn selected(service: &Service) -> Result<Option<Selector>, NotCopied> {
    Ok(read(service)?.map(|(original, _)| original))
}

/// The selector of its author, and what it has to be.
fn read(service: &Service) -> Result<Option<(Selector, Selector)>, NotCopied> {
    let meta = &service.metadata;
    let Some(spec) = &service.spec else {
        return Ok(None);
    };
    let live = spec.selector.as_ref().filter(|live| !live.is_empty());
    let Some(live) = live else {
        return Ok(None);
    };
    if marked::is_copy(meta) || spec.type_.as_deref() == Some(EXTERNAL_NAME) {
        return Ok(None);
    }
    let kept = kept(meta)?;
    let original = match annotation(meta, keys::ORIGINAL_SELECTOR) {
        Some(noted) => selector::original(live, &selector::parse(noted)?, kept.as_ref()),
        None => live.clone(),
    };
    selector::check(&original)?;
    let rewritten = selector::rewritten(&original, kept.as_ref());
    if let Some(error) = kept.as_ref().and_then(LabelPattern::spent) {
        return Err(RegexpError::from(error).into());
    }
    Ok(Some((original, rewritten)))
}

fn kept(meta: &ObjectMeta) -> Result<Option<LabelPattern>, NotCopied> {
    let pattern = annotation(meta, keys::NO_PREFIX_LABEL_REGEXP);
    Ok(pattern.map(kept_labels::parse).transpose()?)
}

fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    let value = meta.annotations.as_ref().and_then(|all| all.get(key));
    value.map(String::as_str)
}

/// The merge patch after which a Service selects delegates in place of proxies, for this version of it; none, if it
/// does already, or never follows.
pub fn reroute(service: &Service) -> Result<Option<Value>, NotCopied> {
    let Some((original, rewritten)) = read(service)? else {
        return Ok(None);
    };
    let meta = &service.metadata;
    let mut annotations = Map::new();
    let noted = selector::text(&original);
    let global = [keys::GLOBAL, keys::CILIUM_GLOBAL[0], keys::CILIUM_GLOBAL[1]];
    let global = global.into_iter().map(|key| (key, keys::TRUE));
    for (key, value) in global.chain([(keys::ORIGINAL_SELECTOR, noted.as_str())]) {
        if annotation(meta, key) != Some(value) {
            annotations.insert(key.to_owned(), value.into());
        }
    }
    let live = service.spec.as_ref().and_then(|it| it.selector.as_ref());
    let mut selector = Map::new();
    for key in live.into_iter().flat_map(Selector::keys) {
        if !rewritten.contains_key(key) {
            selector.insert(key.clone(), Value::Null);
        }
    }
    for (key, value) in &rewritten {
        if live.and_then(|live| live.get(key)) != Some(value) {
            selector.insert(key.clone(), value.as_str().into());
        }
    }
    if annotations.is_empty() && selector.is_empty() {
        return Ok(None);
    }
    Ok(Some(json!({
        "metadata": { "resourceVersion": meta.resource_version, "annotations": annotations },
        "spec": { "selector": selector },
    })))
}

/// The copy of a Service; an error, if it is too large.
pub fn service(source: &Service, link: &ParentLink) -> Result<Service, NotCopied> {
    let Some((_, rewritten)) = read(source)? else {
        return Err(NotCopied::NeverFollows);
    };
    let spec = ServiceSpec {
        selector: Some(rewritten),
        ..source.spec.as_ref().map(own).unwrap_or_default()
    };
    fitting(Service {
        metadata: marked::metadata(&source.metadata, link, MARKS),
        spec: Some(spec),
        status: None,
    })
}

/// Gives the next state of a copy the class of load balancers that its cluster chose, if the author left it open: it
/// can't be changed while the Service is one.
pub fn keep_load_balancer(copy: &mut Service, found: &Service) {
    let (Some(copy), Some(found)) = (&mut copy.spec, &found.spec) else {
        return;
    };
    let balanced = |spec: &ServiceSpec| spec.type_.as_deref() == Some(LOAD_BALANCER);
    if copy.load_balancer_class.is_none() && balanced(copy) && balanced(found) {
        copy.load_balancer_class
            .clone_from(&found.load_balancer_class);
    }
}

/// What of a spec is its author's, and not its cluster's.
fn own(spec: &ServiceSpec) -> ServiceSpec {
    let mut own = spec.clone();
    own.cluster_ip = is_headless(spec).then(|| HEADLESS.to_owned());
    (own.cluster_ips, own.ip_families, own.external_name) = (None, None, None);
    own.health_check_node_port = None;
    for port in own.ports.iter_mut().flatten() {
        port.node_port = None;
    }
    own
}

fn is_headless(spec: &ServiceSpec) -> bool {
    spec.cluster_ip.as_deref() == Some(HEADLESS)
}

impl Content {
    /// Of a Service; of one that doesn't follow it says nothing.
    pub fn of_service(object: &Service) -> Self {
        let meta = &object.metadata;
        let spec = object.spec.as_ref().map(|spec| {
            let mut own = own(spec);
            if !marked::is_linked(meta) {
                // As it is in the copy.
                own.selector = read(object).ok().flatten().map(|(_, rewritten)| rewritten);
            }
            own
        });
        // A headless one can't become another one.
        let type_ = object.spec.as_ref().filter(|spec| is_headless(spec));
        Self {
            digest: marked::digest(meta, MARKS, spec.as_ref()),
            immutable: false,
            type_: type_.map(|_| HEADLESS.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests;
