//! Fields of a pod that an API server drops without a word if it is too old for them, or has them switched off: a pod
//! that asks for one must not run without it.
//!
//! Must not know versions: what was asked for is held against what an API server makes of it.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};
use thiserror::Error;

/// As many fields are named.
const NAMED: usize = 5;

/// Fields that a pod asks for, and that are missing in what an API server made of it, as people write them:
/// `spec.hostnameOverride`, `spec.containers[app].restartPolicy`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct Dropped(Vec<String>);

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (named, others) = self.0.split_at(self.0.len().min(NAMED));
        write!(f, "the API server leaves out {}", named.join(", "))?;
        if !others.is_empty() {
            write!(f, " and {} more", others.len())?;
        }
        f.write_str(": its Kubernetes is too old for that, or has it switched off")
    }
}

/// One such field: where it is below what holds it, with `*` for any item of a list, and the value that says no more
/// than its absence does.
struct Field(&'static [&'static str], &'static str);

/// Those of the pod itself. Gates of Kubernetes 1.36 that aren't open in all versions from 1.32.
const OF_POD: [Field; 7] = [
    Field(&["hostnameOverride"], ""),
    Field(&["hostUsers"], "true"),
    Field(&["resourceClaims"], ""),
    Field(&["resources"], ""),
    Field(&["schedulingGroup"], ""),
    Field(&["securityContext", "seLinuxChangePolicy"], "MountOption"),
    Field(&["securityContext", "supplementalGroupsPolicy"], "Merge"),
];
/// Those of a container. A restart policy of init containers (sidecars) is known everywhere.
const OF_CONTAINER: [Field; 3] = [
    Field(&["lifecycle", "stopSignal"], ""),
    Field(&["restartPolicyRules"], ""),
    Field(&["securityContext", "procMount"], "Default"),
];
const OF_MAIN_CONTAINER: [Field; 1] = [Field(&["restartPolicy"], "")];
/// Those of a volume. One with an image is left out whole, with its mounts.
const OF_VOLUME: [Field; 3] = [
    Field(&["image"], ""),
    Field(&["projected", "sources", "*", "clusterTrustBundle"], ""),
    Field(&["projected", "sources", "*", "podCertificate"], ""),
];

/// Whether a pod's spec asks for any of them, so that it should be found out what an API server makes of it.
pub fn asks(spec: &Map<String, Value>) -> bool {
    visit(spec, |asked, _, fields| {
        fields.iter().any(|field| field.is_in(asked))
    })
}

/// Whether all such fields of a pod's spec are in what an API server made of it.
///
/// Containers and volumes are known by their names: admission may have put others before them.
pub fn check(asked: &Map<String, Value>, made: &Map<String, Value>) -> Result<(), Dropped> {
    // A pod may have thousands of volumes: each is looked up, not looked for.
    let named: BTreeMap<_, _> = [CONTAINERS, INIT_CONTAINERS, VOLUMES]
        .into_iter()
        .flat_map(|list| items(made, list).map(move |item| ((list, name_of(item)), item)))
        .collect();
    let mut all = Vec::new();
    visit(asked, |holder, place, fields| {
        let left = match place {
            Place::Pod => Some(made),
            Place::Named(list, name) => named.get(&(list, name)).copied(),
        };
        // A container that is gone was taken away by somebody.
        if left.is_none() && matches!(place, Place::Named(CONTAINERS | INIT_CONTAINERS, _)) {
            return false;
        }
        let missing =
            |field: &&Field| field.is_in(holder) && left.is_none_or(|left| !field.is_in(left));
        for field in fields.iter().filter(missing) {
            all.push(format!("{place}.{}", field.0.join(".")));
        }
        false
    });
    if all.is_empty() {
        Ok(())
    } else {
        Err(Dropped(all))
    }
}

impl Field {
    /// Whether it is there and says something.
    fn is_in(&self, holder: &Map<String, Value>) -> bool {
        let Self(path, absent) = self;
        let Some((first, rest)) = path.split_first() else {
            return false;
        };
        holder
            .get(*first)
            .is_some_and(|value| says(value, rest, absent))
    }
}

/// Whether something below a value, by this path, says something.
fn says(value: &Value, path: &[&str], absent: &str) -> bool {
    match (path, value) {
        (["*", rest @ ..], Value::Array(list)) => list.iter().any(|item| says(item, rest, absent)),
        (["*", ..], _) | ([], Value::Null) => false,
        ([key, rest @ ..], _) => value
            .get(*key)
            .is_some_and(|value| says(value, rest, absent)),
        ([], Value::Bool(value)) => value.to_string() != absent,
        ([], Value::String(text)) => text != absent,
        ([], Value::Array(list)) => !list.is_empty(),
        ([], Value::Object(object)) => !object.is_empty(),
        ([], Value::Number(_)) => true,
    }
}

const CONTAINERS: &str = "containers";
const INIT_CONTAINERS: &str = "initContainers";
const VOLUMES: &str = "volumes";

/// What holds fields.
#[derive(Clone, Copy)]
enum Place<'a> {
    Pod,
    /// An item of a list.
    Named(&'static str, &'a str),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod => f.write_str("spec"),
            Self::Named(list, name) => write!(f, "spec.{list}[{name}]"),
        }
    }
}

/// Shows everything that may hold fields, with the fields that it may hold, until one is enough.
fn visit<'a>(
    spec: &'a Map<String, Value>,
    mut is_enough: impl FnMut(&'a Map<String, Value>, Place<'a>, &[Field]) -> bool,
) -> bool {
    let lists: [(_, &[Field]); 4] = [
        (CONTAINERS, &OF_CONTAINER),
        (CONTAINERS, &OF_MAIN_CONTAINER),
        (INIT_CONTAINERS, &OF_CONTAINER),
        (VOLUMES, &OF_VOLUME),
    ];
    is_enough(spec, Place::Pod, &OF_POD)
        || lists.into_iter().any(|(list, fields)| {
            let mut all = items(spec, list);
            all.any(|item| is_enough(item, Place::Named(list, name_of(item)), fields))
        })
}

fn items<'a>(
    spec: &'a Map<String, Value>,
    list: &str,
) -> impl Iterator<Item = &'a Map<String, Value>> + use<'a> {
    let list = spec.get(list).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_object)
}

fn name_of(item: &Map<String, Value>) -> &str {
    let name = item.get("name").and_then(Value::as_str);
    name.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    fn everything() -> Map<String, Value> {
        spec(json!({
            "hostnameOverride": "db-0.example.com",
            "hostUsers": false,
            "resourceClaims": [{ "name": "gpu" }],
            "resources": { "requests": { "cpu": "1" } },
            "schedulingGroup": { "podGroupName": "all" },
            "securityContext": { "seLinuxChangePolicy": "Recursive", "supplementalGroupsPolicy": "Strict" },
            "initContainers": [
                {
                    "name": "init", "restartPolicy": "Always",
                    "restartPolicyRules": [{ "action": "Restart" }], "securityContext": { "procMount": "Unmasked" },
                },
            ],
            "containers": [
                { "name": "side", "image": "x" },
                {
                    "name": "app", "restartPolicy": "Never", "lifecycle": { "stopSignal": "SIGUSR1" },
                    "restartPolicyRules": [{ "action": "Restart" }], "securityContext": { "procMount": "Unmasked" },
                },
            ],
            "volumes": [
                { "name": "data", "image": { "reference": "x" } },
                {
                    "name": "keys",
                    "projected": { "sources": [{ "secret": { "name": "s" } },
                    { "podCertificate": { "keyType": "x" } }] },
                },
            ],
        }))
    }

    #[test]
    fn what_an_old_api_server_leaves_out_is_named() {
        let asked = everything();
        assert!(asks(&asked));
        assert_eq!(check(&asked, &asked), Ok(()));
        let made = spec(json!({
            "securityContext": {},
            "initContainers": [{ "name": "init", "restartPolicy": "Always" }],
            "containers": [
                { "name": "mesh" },
                { "name": "app", "securityContext": { "procMount": "Default" } },
                { "name": "side", "image": "x" },
            ],
            "volumes": [{ "name": "keys", "projected": { "sources": [{ "secret": { "name": "s" } }, {}] } }],
        }));
        let want = [
            "spec.hostnameOverride",
            "spec.hostUsers",
            "spec.resourceClaims",
            "spec.resources",
            "spec.schedulingGroup",
            "spec.securityContext.seLinuxChangePolicy",
            "spec.securityContext.supplementalGroupsPolicy",
            "spec.containers[app].lifecycle.stopSignal",
            "spec.containers[app].restartPolicyRules",
            "spec.containers[app].securityContext.procMount",
            "spec.containers[app].restartPolicy",
            "spec.initContainers[init].restartPolicyRules",
            "spec.initContainers[init].securityContext.procMount",
            "spec.volumes[data].image",
            "spec.volumes[keys].projected.sources.*.podCertificate",
        ];
        let dropped = check(&asked, &made).unwrap_err();
        assert_eq!(dropped.0, want);
        assert_eq!(
            dropped.to_string(),
            "the API server leaves out spec.hostnameOverride, spec.hostUsers, spec.resourceClaims, spec.resources, \
             spec.schedulingGroup and 10 more: its Kubernetes is too old for that, or has it switched off"
        );
    }

    #[test]
    fn what_admission_changes_or_takes_away_whole_is_its_affair() {
        let asked = spec(json!({
            "resources": { "requests": { "cpu": "1" } },
            "containers": [{ "name": "app", "restartPolicy": "Never" }],
        }));
        let made = spec(json!({
            "resources": { "requests": { "cpu": "2" } },
            "containers": [{ "name": "other" }],
        }));
        assert_eq!(check(&asked, &made), Ok(()));
    }

    #[test]
    fn ordinary_pods_cost_nothing() {
        for value in [
            json!({}),
            json!({ "containers": [{ "name": "a", "image": "x", "resources": { "requests": { "cpu": "1" } } }] }),
            json!({ "hostUsers": true, "hostnameOverride": null, "resources": {}, "resourceClaims": [] }),
            json!({ "securityContext": { "supplementalGroupsPolicy": "Merge", "seLinuxChangePolicy": "MountOption" } }),
            json!({ "initContainers": [{ "name": "side", "restartPolicy": "Always" }] }),
            json!({ "containers": [{ "name": "a", "securityContext": { "procMount": "Default" } }] }),
            json!({ "volumes": [{ "name": "a", "emptyDir": {} }, { "name": "b", "projected": { "sources": [] } }] }),
            // Of no pod's shape.
            json!({ "containers": { "name": "a" }, "securityContext": "x", "initContainers": [1], "volumes": [{}] }),
            json!({ "volumes": [{ "projected": { "sources": { "*": { "podCertificate": 1 } } } }] }),
        ] {
            assert!(!asks(&spec(value.clone())), "{value}");
        }
    }
}
