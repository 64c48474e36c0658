//! The door: which of a target's words are taken in at all.
//!
//! A target speaks for its own chaperons of pods that it serves, and for nothing else. What is behind the door may
//! believe namespace, name and parent of a chaperon; what the chaperon *says* remains its target's word.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pilotage_api::{
    PodChaperon,
    annotations::is_subdomain,
    bounds::is_uid,
    names,
    parent::{ClusterUid, ParentLink},
};

use crate::{view::ProxyView, wire::is_own};

/// Digits of the largest version.
const LONGEST_VERSION: usize = 20;

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
    /// It is the answer to a request about another one.
    Reply,
    /// Its parent has enough of them in that target; an honest one has one.
    Crowd,
}

impl TurnedAway {
    /// Each of them.
    pub const ALL: [Self; 6] = [
        Self::Namespace,
        Self::Name,
        Self::Parent,
        Self::Form,
        Self::Reply,
        Self::Crowd,
    ];

    /// In one word, for a metric.
    pub fn word(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Name => "name",
            Self::Parent => "parent",
            Self::Form => "form",
            Self::Reply => "reply",
            Self::Crowd => "crowd",
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
            Self::Reply => "it isn't the one that a request was about",
            Self::Crowd => "the pod that it names has too many others there",
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
    let is_version = version.is_some_and(is_version);
    let has_uid = meta.uid.as_deref().is_some_and(is_uid);
    let (Some(link), true, true) = (ParentLink::of(meta), is_version, has_uid) else {
        return Err(TurnedAway::Form);
    };
    if link.namespace != namespace {
        return Err(TurnedAway::Parent);
    }
    if !is_subdomain(name) {
        return Err(TurnedAway::Name);
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

/// Whether the watch's store can compare it: what is no number there is never older than anything.
fn is_version(text: &str) -> bool {
    text.len() <= LONGEST_VERSION && text.parse::<u64>().is_ok_and(|version| version > 0)
}

/// The chaperon that a request of ours is about. Whoever answers with another one has answered nothing: neither that
/// the request was done, nor anything of that other one, which its target tells in a watch.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its UID; `None`: it is to be made, or found.
    pub uid: Option<&'a str>,
    /// UID of the pod that it is for.
    pub parent: &'a str,
    /// Who we are.
    pub cluster: &'a ClusterUid,
}

impl Wanted<'_> {
    /// Checks an object that came back of the request.
    pub fn admit(&self, meta: &ObjectMeta) -> Result<(), TurnedAway> {
        let uid = meta.uid.as_deref().filter(|uid| is_uid(uid));
        let fits = uid.is_some_and(|uid| self.uid.is_none_or(|wanted| wanted == uid));
        if fits && self.is_named(meta) && is_own(meta, self.parent, self.cluster) {
            Ok(())
        } else {
            Err(TurnedAway::Reply)
        }
    }

    /// Whether a live read shows another object of that name, which proves that the wanted one is gone.
    pub fn is_replaced_by(&self, meta: &ObjectMeta) -> bool {
        let uid = meta.uid.as_deref().filter(|uid| is_uid(uid));
        let another = self.uid.zip(uid).is_some_and(|(wanted, uid)| wanted != uid);
        another && self.is_named(meta)
    }

    /// Whether it has the place of the wanted one, whatever else it is.
    pub fn is_named(&self, meta: &ObjectMeta) -> bool {
        let place = (meta.namespace.as_deref(), meta.name.as_deref());
        place == (Some(self.namespace), Some(self.name))
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
        let long = |c: &mut Value| {
            plain(c);
            c["metadata"]["name"] = json!("w".repeat(254));
        };
        assert_eq!(check(long, Some(&own)), Err(TurnedAway::Name));
        // They would stand in the path of a request.
        for name in ["..", "?watch=true", "web/log"] {
            let leads_on = |c: &mut Value| {
                plain(c);
                c["metadata"]["name"] = json!(name);
            };
            assert_eq!(check(leads_on, Some(&own)), Err(TurnedAway::Name), "{name}");
            let parent = |c: &mut Value| {
                c["metadata"]["annotations"][PARENT_NAME] = json!(name);
                c["metadata"]["name"] = json!(names::chaperon("shop", name, "p"));
            };
            assert_eq!(check(parent, Some(&own)), Err(TurnedAway::Form), "{name}");
        }
        let table: [(&str, Value, TurnedAway); 13] = [
            ("/metadata/name", json!("web-1"), TurnedAway::Name),
            ("/metadata/uid", json!("u".repeat(64)), TurnedAway::Form),
            ("/metadata/uid", json!(""), TurnedAway::Form),
            ("/metadata/uid", json!("a/b"), TurnedAway::Form),
            ("/metadata/resourceVersion", json!("x"), TurnedAway::Form),
            ("/metadata/resourceVersion", json!("0"), TurnedAway::Form),
            (
                "/metadata/resourceVersion",
                json!("18446744073709551616"),
                TurnedAway::Form,
            ),
            (
                "/metadata/resourceVersion",
                json!("000000000000000000007"),
                TurnedAway::Form,
            ),
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

    #[test]
    fn a_reply_is_about_the_chaperon_that_was_asked_for_or_about_nothing() {
        use pilotage_api::keys::{PARENT_CLUSTER_UID, PARENT_UID};
        let (proxy, cluster) = (proxy(), ClusterUid("source".into()));
        let name = proxy.chaperon_name();
        let wanted = |uid| Wanted {
            namespace: &proxy.namespace,
            name: &name,
            uid,
            parent: &proxy.uid,
            cluster: &cluster,
        };
        let reply = |place: &str, value: Value| -> ObjectMeta {
            let mut meta = crate::testing::stored_chaperon(&proxy, "u", "7")["metadata"].take();
            match place {
                "" => {}
                PARENT_UID | PARENT_CLUSTER_UID => meta["labels"][place] = value,
                _ => meta[place] = value,
            }
            serde_json::from_value(meta).unwrap()
        };
        let own = reply("", Value::Null);
        for uid in [None, Some("u")] {
            assert_eq!(wanted(uid).admit(&own), Ok(()), "{uid:?}");
        }
        let away = Err(TurnedAway::Reply);
        assert_eq!(wanted(Some("another")).admit(&own), away);
        for (place, value) in [
            ("namespace", json!("tenant")),
            ("namespace", Value::Null),
            ("name", json!("web-1")),
            ("uid", Value::Null),
            ("uid", json!("a/b")),
            ("labels", json!({})),
            ("annotations", json!({})),
            (PARENT_UID, json!("another")),
            (PARENT_CLUSTER_UID, json!("another")),
        ] {
            let other = reply(place, value.clone());
            for uid in [None, Some("u")] {
                assert_eq!(wanted(uid).admit(&other), away, "{place}: {value}");
            }
        }
        // One that a plain scheduler has left names no source.
        let mut plain = own.clone();
        let labels = plain.labels.as_mut().unwrap();
        labels.remove(PARENT_CLUSTER_UID);
        assert_eq!(wanted(Some("u")).admit(&plain), Ok(()));
    }

    #[test]
    fn only_another_object_of_that_name_has_replaced_a_chaperon() {
        let cluster = ClusterUid("source".into());
        let wanted = Wanted {
            namespace: "shop",
            name: "web-x",
            uid: Some("u"),
            parent: "p",
            cluster: &cluster,
        };
        let shown = |namespace: &str, name: &str, uid: Option<&str>| {
            let meta = json!({ "namespace": namespace, "name": name, "uid": uid });
            wanted.is_replaced_by(&serde_json::from_value(meta).unwrap())
        };
        assert!(shown("shop", "web-x", Some("successor")));
        assert!(!shown("shop", "web-x", Some("u")), "it is still there");
        assert!(!shown("shop", "web-y", Some("successor")), "another name");
        assert!(!shown("bank", "web-x", Some("successor")), "another place");
        assert!(!shown("shop", "web-x", None) && !shown("shop", "web-x", Some("a/b")));
    }
}
