//! Owns the kinds that are watched: each is parsed when it is read, and only what is needed of it is kept. It knows
//! nothing of what becomes of them.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use pilotage_gardener::fields::FieldError;
use pilotage_gardener::kinds::{CloudProfile, GROUP, Project, RegionConfig, seed};
use pilotage_gardener::scheduler::{Place, Profile, SeenShoot};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Version of Gardener's API that is spoken.
pub const VERSION: &str = "v1beta1";

/// `apiVersion` of Gardener's kinds.
pub fn api_version() -> String {
    format!("{GROUP}/{VERSION}")
}

/// What identifies an object, and nothing else: annotations and managed fields are most of many objects.
fn identity(value: &Value) -> Result<ObjectMeta, serde_json::Error> {
    let Some(metadata) = value.get("metadata") else {
        return Err(serde_json::Error::custom("it has no metadata"));
    };
    let mut identity = serde_json::Map::new();
    for key in [
        "namespace",
        "name",
        "uid",
        "resourceVersion",
        "deletionTimestamp",
    ] {
        if let Some(value) = metadata.get(key) {
            identity.insert(key.to_owned(), value.clone());
        }
    }
    serde_json::from_value(Value::Object(identity))
}

macro_rules! watched {
    ($(#[$doc:meta])* $name:ident, $what:ty, $read:expr, $scope:ty, $group:expr, $version:expr, $kind:literal,
        $plural:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            /// What identifies it.
            pub metadata: ObjectMeta,
            /// What it says.
            pub content: $what,
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let mut value = Value::deserialize(deserializer)?;
                // Items of a list needn't say what they are.
                if let Some(object) = value.as_object_mut() {
                    for (key, text) in [("kind", $kind.to_owned()), ("apiVersion", joined($group, $version))] {
                        object.entry(key).or_insert(Value::String(text));
                    }
                }
                let metadata = identity(&value).map_err(D::Error::custom)?;
                let read: fn(Value) -> Result<$what, FieldError> = $read;
                let content = read(value).map_err(D::Error::custom)?;
                Ok(Self { metadata, content })
            }
        }

        impl Resource for $name {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

fn joined(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

watched!(
    /// A Shoot.
    ShootObject, SeenShoot, SeenShoot::read, NamespaceResourceScope, GROUP, VERSION, "Shoot", "shoots"
);
watched!(
    /// A Seed.
    SeedObject, Place, |value| Ok(seed(&value)), ClusterResourceScope, GROUP, VERSION, "Seed", "seeds"
);
watched!(
    /// A `CloudProfile`.
    CloudProfileObject, Profile, |value| Ok(CloudProfile::read(&value)), ClusterResourceScope, GROUP, VERSION,
    "CloudProfile", "cloudprofiles"
);
watched!(
    /// A `NamespacedCloudProfile`.
    NamespacedCloudProfileObject, Profile, |value| Ok(CloudProfile::read(&value)), NamespaceResourceScope,
        GROUP, VERSION,
    "NamespacedCloudProfile", "namespacedcloudprofiles"
);
watched!(
    /// A Project.
    ProjectObject, Project, |value| Project::read(&value), ClusterResourceScope, GROUP, VERSION, "Project", "projects"
);
watched!(
    /// A region `ConfigMap`.
    RegionConfigObject, Result<RegionConfig, FieldError>, |value| Ok(RegionConfig::read(&value)),
        NamespaceResourceScope,
    "", "v1", "ConfigMap", "configmaps"
);

#[cfg(test)]
mod tests {
    use kube::core::ObjectList;
    use pilotage_runtime::guarded::Guarded;
    use serde_json::json;

    use super::*;

    #[test]
    fn items_of_a_list_needn_t_say_what_they_are() {
        let list = json!({
            "apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "9"},
            "items": [
                {"metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "8",
                "annotations": {"x": "y"}}, "spec": {"z": 1.5}},
                {"metadata": {"name": "b", "namespace": "n"}, "spec": {"seedName": "s"}},
                {"metadata": {"name": "c"}, "spec": 7},
            ],
        });
        let list: ObjectList<Guarded<ShootObject>> = serde_json::from_value(list).unwrap();
        let mut items = list.items.into_iter();
        let a = items.next().unwrap().0.unwrap();
        assert_eq!(a.metadata.annotations, None);
        assert_eq!(
            (a.content.uid.as_str(), a.content.version.as_str()),
            ("u", "8")
        );
        let object = a.content.unassigned.unwrap().with_seed("s").unwrap();
        assert_eq!(object["kind"], "Shoot");
        assert_eq!(object["spec"]["seedName"], "s");
        assert_eq!(object["apiVersion"], "core.gardener.cloud/v1beta1");
        assert_eq!(
            (
                &object["metadata"]["annotations"]["x"],
                &object["spec"]["z"]
            ),
            (&json!("y"), &json!(1.5))
        );
        let b = items.next().unwrap().0.unwrap();
        assert_eq!(
            (b.content.seed.as_deref(), b.content.unassigned),
            (Some("s"), None)
        );
        assert!(items.next().unwrap().0.is_err());

        let profile = json!({"metadata": {"name": "p", "namespace": "n"},
            "status": {"cloudProfileSpec": {"seedSelector": {"providerTypes": ["*"]}}}});
        let profile: NamespacedCloudProfileObject = serde_json::from_value(profile).unwrap();
        let content = profile.content.unwrap();
        assert_eq!(content.providers, pilotage_placement::Providers::Any);
    }
}
