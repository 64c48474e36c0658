//! The door: which of a target's words are taken in at all.
//!
//! A target speaks for its own chaperons of pods that it serves, and for nothing else. What is behind the door may believe
//! namespace, name and parent of a chaperon; what the chaperon *says* remains its target's word.

use std::fmt;

use pilotage_api::{PodChaperon, bounds::is_uid, names, parent::ParentLink};

use crate::view::ProxyView;

/// Whose pods a target may be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Serves {
    /// A Target: those of its own namespace.
    Namespace(String),
    /// A `ClusterTarget`: everybody's.
    Everybody,
}

impl Serves {
    /// Whether pods of this namespace are served.
    pub fn serves(&self, namespace: &str) -> bool {
        match self {
            Self::Namespace(own) => own == namespace,
            Self::Everybody => true,
        }
    }
}

/// Why a target's word of a chaperon counts for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TurnedAway {
    /// The target doesn't serve the chaperon's namespace.
    Namespace,
    /// It isn't named as its parent's chaperon is.
    Name,
    /// It names a parent of another namespace or name than the pod with that UID has.
    Parent,
    /// What every stored object has is missing or unreadable.
    Form,
}

impl TurnedAway {
    /// In one word, for a metric.
    pub fn word(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Name => "name",
            Self::Parent => "parent",
            Self::Form => "form",
        }
    }
}

impl fmt::Display for TurnedAway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Namespace => "it is in a namespace that this target doesn't serve",
            Self::Name => "its name isn't that of its parent's chaperon",
            Self::Parent => "the pod that it names is another one",
            Self::Form => "it has no UID, version or parent that can be read",
        })
    }
}

/// Checks a chaperon that a target behind a Target with `serves` tells of; `None`: nobody knows that Target (any more).
/// `proxy`: the pod with the UID of its parent, if that is known.
pub fn admit(
    serves: Option<&Serves>,
    proxy: Option<&ProxyView>,
    chaperon: &PodChaperon,
) -> Result<(), TurnedAway> {
    let meta = &chaperon.metadata;
    let (Some(namespace), Some(name)) = (meta.namespace.as_deref(), meta.name.as_deref()) else {
        return Err(TurnedAway::Form);
    };
    if !serves.is_some_and(|serves| serves.serves(namespace)) {
        return Err(TurnedAway::Namespace);
    }
    let version = meta.resource_version.as_deref();
    let is_version = version.is_some_and(|version| version.parse::<u128>().is_ok());
    let link = ParentLink::of(meta).filter(|link| is_uid(&link.uid));
    let (Some(link), true, true) = (link, is_version, meta.uid.as_deref().is_some_and(is_uid))
    else {
        return Err(TurnedAway::Form);
    };
    if link.namespace != namespace {
        return Err(TurnedAway::Parent);
    }
    // Plain Admiralty lets the API server make up a name.
    if link.cluster_uid.is_some() && name != names::chaperon(namespace, &link.name, &link.uid) {
        return Err(TurnedAway::Name);
    }
    match proxy {
        Some(proxy) if !is_parent(proxy, &link) => Err(TurnedAway::Parent),
        _ => Ok(()),
    }
}

/// Whether the link leads to this very pod.
pub(crate) fn is_parent(proxy: &ProxyView, link: &ParentLink) -> bool {
    (&proxy.uid, &proxy.namespace, &proxy.name) == (&link.uid, &link.namespace, &link.name)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::proxy;

    fn check(change: impl FnOnce(&mut Value), serves: Option<&Serves>) -> Result<(), TurnedAway> {
        let proxy = proxy();
        let mut chaperon = crate::testing::stored_chaperon(&proxy, "u", "7");
        change(&mut chaperon);
        let chaperon = serde_json::from_value(chaperon).unwrap();
        admit(serves, Some(&proxy), &chaperon)
    }

    #[test]
    fn a_target_speaks_only_for_chaperons_of_pods_that_it_serves() {
        use pilotage_api::keys::{PARENT_CLUSTER_UID, PARENT_NAME, PARENT_NAMESPACE, PARENT_UID};
        let own = Serves::Namespace("shop".into());
        let other = Serves::Namespace("tenant".into());
        assert_eq!(check(|_| {}, Some(&own)), Ok(()));
        assert_eq!(check(|_| {}, Some(&Serves::Everybody)), Ok(()));
        for serves in [Some(&other), None] {
            assert_eq!(check(|_| {}, serves), Err(TurnedAway::Namespace));
        }
        let moved = |c: &mut Value| c["metadata"]["namespace"] = json!("tenant");
        assert_eq!(check(moved, Some(&own)), Err(TurnedAway::Namespace));
        assert_eq!(check(moved, Some(&other)), Err(TurnedAway::Parent));
        let plain = |c: &mut Value| {
            c["metadata"]["name"] = json!("web-abcde");
            let labels = c["metadata"]["labels"].as_object_mut().unwrap();
            labels.remove(PARENT_CLUSTER_UID);
        };
        assert_eq!(check(plain, Some(&own)), Ok(()));
        let table: [(&str, Value, TurnedAway); 10] = [
            ("/metadata/name", json!("web-1"), TurnedAway::Name),
            ("/metadata/uid", json!("u".repeat(64)), TurnedAway::Form),
            ("/metadata/uid", json!(""), TurnedAway::Form),
            ("/metadata/uid", json!("a/b"), TurnedAway::Form),
            ("/metadata/resourceVersion", json!("x"), TurnedAway::Form),
            ("/metadata/labels", json!({}), TurnedAway::Form),
            ("/metadata/annotations", json!({}), TurnedAway::Form),
            (PARENT_UID, json!("another"), TurnedAway::Name),
            (PARENT_NAME, json!("api"), TurnedAway::Name),
            (PARENT_NAMESPACE, json!("tenant"), TurnedAway::Parent),
        ];
        for (place, value, want) in table {
            let forge = |c: &mut Value| {
                let of_link = match place {
                    PARENT_UID => Some("labels"),
                    PARENT_NAME | PARENT_NAMESPACE => Some("annotations"),
                    _ => None,
                };
                match of_link {
                    Some(map) => c["metadata"][map][place] = value.clone(),
                    None => *c.pointer_mut(place).unwrap() = value.clone(),
                }
            };
            assert_eq!(check(forge, Some(&own)), Err(want), "{place}: {value}");
        }
        // A name that fits a link to another pod of that UID.
        let renamed = |c: &mut Value| {
            c["metadata"]["annotations"][PARENT_NAME] = json!("api");
            c["metadata"]["name"] = json!(names::chaperon("shop", "api", "p"));
        };
        assert_eq!(check(renamed, Some(&own)), Err(TurnedAway::Parent));
    }
}
