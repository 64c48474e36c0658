//! A number that says whether two specs have the same of what may change in a running pod.
//!
//! It lives and dies with a process, and is never written anywhere: whoever would keep thousands of specs keeps this.

use std::hash::{DefaultHasher, Hash, Hasher};

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use serde_json::{Map, Value};

use super::{AMOUNTS, CONTAINERS, EPHEMERAL, RESIZED, RESOURCES, amount, list};

/// Names and images of ephemeral containers, and all amounts of CPU and memory, of the containers and of the pod.
///
/// Two digests are equal if nothing of that differs, and, but for chance (1 in 2⁶⁴), only then. The order of containers
/// is no difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(u64);

impl Digest {
    /// Of a whole spec. It may be anybody's: what can't be a pod's counts as absent.
    pub fn of_spec(spec: &Map<String, Value>) -> Self {
        let mut digest = Self::default();
        for container in list(spec.get(EPHEMERAL)) {
            if let Some(name) = text(container, "name") {
                digest.add_ephemeral(name, text(container, "image").unwrap_or_default());
            }
        }
        let mut add = |field, name, resources| {
            for kind in AMOUNTS {
                for of in RESIZED {
                    if let Some(amount) = amount(resources, kind, of) {
                        digest.add([field, name, kind, of, &amount]);
                    }
                }
            }
        };
        for field in CONTAINERS {
            for container in list(spec.get(field)) {
                if let Some(name) = text(container, "name") {
                    add(field, name, container.get(RESOURCES));
                }
            }
        }
        add(RESOURCES, "", spec.get(RESOURCES));
        digest
    }

    /// The same of a pod.
    pub fn of_pod(pod: &Pod) -> Self {
        let mut digest = Self::default();
        let Some(spec) = &pod.spec else {
            return digest;
        };
        for container in spec.ephemeral_containers.iter().flatten() {
            let image = container.image.as_deref().unwrap_or_default();
            digest.add_ephemeral(&container.name, image);
        }
        let containers = spec.containers.as_slice();
        let init = spec.init_containers.as_deref().unwrap_or_default();
        for (field, containers) in CONTAINERS.into_iter().zip([containers, init]) {
            for container in containers {
                digest.add_resources(field, &container.name, container.resources.as_ref());
            }
        }
        digest.add_resources(RESOURCES, "", spec.resources.as_ref());
        digest
    }

    fn add_resources(&mut self, field: &str, name: &str, resources: Option<&ResourceRequirements>) {
        let Some(resources) = resources else { return };
        for (kind, amounts) in AMOUNTS
            .into_iter()
            .zip([&resources.requests, &resources.limits])
        {
            for of in RESIZED {
                if let Some(amount) = amounts.as_ref().and_then(|all| all.get(of)) {
                    self.add([field, name, kind, of, &amount.0]);
                }
            }
        }
    }

    fn add_ephemeral(&mut self, name: &str, image: &str) {
        self.add([EPHEMERAL, name, image, "", ""]);
    }

    /// A sum doesn't know an order.
    fn add(&mut self, fact: [&str; 5]) {
        let mut hasher = DefaultHasher::new();
        fact.hash(&mut hasher);
        self.0 = self.0.wrapping_add(hasher.finish());
    }
}

/// As it is kept beside fields of a spec.
impl From<Digest> for Value {
    fn from(digest: Digest) -> Self {
        digest.0.into()
    }
}

impl Digest {
    /// What was kept.
    pub fn kept(value: &Value) -> Option<Self> {
        value.as_u64().map(Self)
    }
}

fn text<'a>(container: &'a Value, field: &str) -> Option<&'a str> {
    container.get(field).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use pilotage_absurd::{json, objects};
    use proptest::{
        prelude::*,
        sample::{select, subsequence},
    };
    use serde_json::json;

    use super::{super::of_spec, *};

    const NAMES: [&str; 3] = ["a", "b", "c"];

    /// Resources with some amounts, some of which nobody changes in place.
    fn resources() -> impl Strategy<Value = Value> {
        let amounts = || {
            let names = subsequence(vec!["cpu", "memory", "example.com/gpu"], 0..=3);
            let amounts = prop::collection::vec(select(&["1", "2"][..]), 3);
            (names, amounts).prop_map(|(names, amounts)| -> Value {
                let all = names.into_iter().zip(amounts);
                all.map(|(name, amount)| (name.to_owned(), Value::from(amount)))
                    .collect()
            })
        };
        prop_oneof![
            1 => Just(Value::Null),
            4 => (amounts(), amounts()).prop_map(|(requests, limits)| json!({ "requests": requests,
                "limits": limits })),
        ]
    }

    /// Containers of these names in any order, in which what may not change differs, too.
    fn containers() -> impl Strategy<Value = Value> {
        let one = |name: &'static str| {
            (resources(), select(&["x", "y"][..])).prop_map(move |(resources, image)| {
                json!({ "name": name, "image": image, "resources": resources })
            })
        };
        let all: Vec<_> = NAMES.into_iter().map(one).collect();
        all.prop_shuffle().prop_map(Value::Array)
    }

    fn spec() -> impl Strategy<Value = Value> {
        let ephemeral = subsequence(NAMES.to_vec(), 0..=2).prop_flat_map(|names| {
            let image = || select(&["x", "y"][..]);
            let images = prop::collection::vec(image(), names.len());
            images.prop_map(move |images| -> Value {
                let all = names.iter().zip(images);
                all.map(|(name, image)| json!({ "name": name, "image": image }))
                    .collect()
            })
        });
        let nodes = select(&["m", "n"][..]);
        (containers(), containers(), ephemeral, resources(), nodes).prop_map(
            |(containers, init, ephemeral, resources, node)| {
                json!({
                    "containers": containers, "initContainers": init, "ephemeralContainers": ephemeral,
                    "resources": resources, "nodeName": node,
                })
            },
        )
    }

    /// Two that differ in little, or in nothing that may change.
    fn two_specs() -> impl Strategy<Value = (Value, Value)> {
        let fields = [
            "containers",
            "initContainers",
            "ephemeralContainers",
            "resources",
            "nodeName",
        ];
        (spec(), spec(), subsequence(fields.to_vec(), 0..=2)).prop_map(
            move |(one, mut other, taken)| {
                for field in fields {
                    if !taken.contains(&field) {
                        other[field] = one[field].clone();
                    }
                }
                (one, other)
            },
        )
    }

    /// All that may change, each as a line.
    fn changeable(spec: &Value) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for container in spec["ephemeralContainers"].as_array().unwrap() {
            all.insert(format!("{} {}", container["name"], container["image"]));
        }
        let mut with = |of: String, resources: &Value| {
            for kind in ["requests", "limits"] {
                for (name, amount) in resources[kind].as_object().into_iter().flatten() {
                    if name != "example.com/gpu" {
                        all.insert(format!("{of} {kind} {name} {amount}"));
                    }
                }
            }
        };
        for field in ["containers", "initContainers"] {
            for container in spec[field].as_array().unwrap() {
                with(
                    format!("{field} {}", container["name"]),
                    &container["resources"],
                );
            }
        }
        with("pod".to_owned(), &spec["resources"]);
        all
    }

    fn digest(spec: &Value) -> Digest {
        Digest::of_spec(spec.as_object().unwrap())
    }

    #[test]
    fn each_thing_that_may_change_is_another_digest_and_nothing_else_is() {
        let spec = json!({
            "containers": [{ "name": "a", "image": "x", "resources": { "requests": { "cpu": "1" } } }],
            "ephemeralContainers": [{ "name": "e", "image": "x" }],
        });
        for (path, value, differs) in [
            ("/containers/0/image", json!("y"), false),
            (
                "/containers/0/resources/requests/example.com~1gpu",
                json!("1"),
                false,
            ),
            ("/containers/0/resources/requests/cpu", json!(1), false),
            ("/containers/0/resources/requests/cpu", json!("2"), true),
            ("/containers/0/resources/requests/memory", json!("1"), true),
            ("/ephemeralContainers/0/image", json!("y"), true),
            ("/ephemeralContainers/0/name", json!("f"), true),
        ] {
            let mut other = spec.clone();
            let (parent, field) = path.rsplit_once('/').unwrap();
            other.pointer_mut(parent).unwrap()[field.replace("~1", "/")] = value;
            assert_eq!(digest(&spec) != digest(&other), differs, "{path}");
        }
    }

    pilotage_absurd::properties! {
        #[test]
        fn a_digest_is_equal_if_and_only_if_nothing_that_may_change_differs(two in two_specs()) {
            let (one, other) = two;
            prop_assert_eq!(digest(&one) == digest(&other), changeable(&one) == changeable(&other));
        }

        #[test]
        fn a_reordered_spec_and_its_pod_have_the_same_digest(one in spec(), image in select(&["x", "z"][..])) {
            let mut other = one.clone();
            for field in ["containers", "initContainers", "ephemeralContainers"] {
                other[field].as_array_mut().unwrap().reverse();
            }
            other["containers"][0]["image"] = image.into();
            prop_assert_eq!(digest(&one), digest(&other));
            let pod: Pod = serde_json::from_value(json!({ "spec": other })).unwrap();
            prop_assert_eq!(Digest::of_pod(&pod), digest(&one));
        }

        #[test]
        fn where_digests_are_equal_nothing_is_sent_and_nothing_is_sent_again(two in two_specs()) {
            let (mut proxy, chaperon) = two;
            let meta = ObjectMeta::default();
            let mut known = chaperon.as_object().unwrap().clone();
            let patch = of_spec(&meta, &proxy, &known);
            if digest(&proxy) == digest(&chaperon) {
                prop_assert_eq!(&patch, &None);
            }
            known.extend(patch.into_iter().flatten());
            prop_assert_eq!(of_spec(&meta, &proxy, &known), None);
            let has = changeable(&Value::Object(known.clone()));
            let lacks = |wanted: &Value| changeable(wanted).difference(&has).count();
            // Of an ephemeral container the name counts: nobody changes one that is there.
            proxy["ephemeralContainers"] = json!([]);
            prop_assert_eq!(lacks(&proxy), 0);
        }

        #[test]
        fn any_spec_has_a_digest_and_gives_a_change_that_is_no_longer_than_both(
            one in json::junk_in(Just(objects::pod_spec())), other in json::junk_in(Just(objects::pod_spec())),
        ) {
            let (Value::Object(own), Value::Object(known)) = (&one, &other) else { return Ok(()) };
            let (own_digest, known_digest) = (Digest::of_spec(own), Digest::of_spec(known));
            let patch = of_spec(&ObjectMeta::default(), &one, known);
            let length = |value: &Value| value.to_string().len();
            if let Some(patch) = patch {
                prop_assert_ne!(own_digest, known_digest);
                prop_assert!(length(&Value::Object(patch)) <= length(&one) + length(&other) + 1024);
            }
            let kept = Value::from(own_digest);
            prop_assert_eq!(Digest::kept(&kept), Some(own_digest));
        }
    }
}
