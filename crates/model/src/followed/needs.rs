//! Which `ConfigMap`s and Secrets a pod names, in every way that the API has.

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::api::core::v1::{
    Container, EnvFromSource, EnvVar, EphemeralContainer, LocalObjectReference, PodSpec, Volume,
    VolumeProjection,
};
use pilotage_api::limits::SUBDOMAIN;

/// The `ConfigMap` that Kubernetes puts into every namespace: it holds its own cluster's CA, so each target has
/// another.
const ROOT_CA: &str = "kube-root-ca.crt";

/// A kind that follows pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `ConfigMap`.
    ConfigMap,
    /// `Secret`.
    Secret,
    /// `Service`.
    Service,
    /// `Ingress`.
    Ingress,
}

impl Kind {
    /// As in manifests.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::Service => "Service",
            Self::Ingress => "Ingress",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An object of the pod's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Need {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

impl Need {
    /// None, if no object can have that name.
    fn new(kind: Kind, name: &str) -> Option<Self> {
        let foreign = kind == Kind::ConfigMap && name == ROOT_CA;
        let fits = !name.is_empty() && name.len() <= SUBDOMAIN && !name.contains('/');
        (fits && !foreign).then(|| Self {
            kind,
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

/// What a pod with this spec names, whether it can do without it or not.
pub fn needs(spec: &PodSpec) -> BTreeSet<Need> {
    named(spec, false)
}

/// Of what [`needs`] finds, what a pod with this spec doesn't start without.
pub fn required(spec: &PodSpec) -> BTreeSet<Need> {
    named(spec, true)
}

fn named(spec: &PodSpec, required_only: bool) -> BTreeSet<Need> {
    let mut found = Found {
        needs: BTreeSet::new(),
        required_only,
    };
    for secret in spec.image_pull_secrets.iter().flatten() {
        // A node may have the image, or need no password for it.
        found.secret(&secret.name, Some(true));
    }
    for volume in spec.volumes.iter().flatten() {
        found.volume(volume);
    }
    let containers = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().flatten());
    for Container { env, env_from, .. } in containers {
        found.environment(env.as_deref(), env_from.as_deref());
    }
    for EphemeralContainer { env, env_from, .. } in spec.ephemeral_containers.iter().flatten() {
        found.environment(env.as_deref(), env_from.as_deref());
    }
    found.needs
}

struct Found {
    needs: BTreeSet<Need>,
    /// Without what is optional.
    required_only: bool,
}

impl Found {
    fn config_map(&mut self, name: &str, optional: Option<bool>) {
        self.add(Kind::ConfigMap, name, optional);
    }

    fn secret(&mut self, name: &str, optional: Option<bool>) {
        self.add(Kind::Secret, name, optional);
    }

    fn add(&mut self, kind: Kind, name: &str, optional: Option<bool>) {
        if !(self.required_only && optional == Some(true)) {
            self.needs.extend(Need::new(kind, name));
        }
    }

    fn local(&mut self, reference: Option<&LocalObjectReference>) {
        if let Some(reference) = reference {
            self.secret(&reference.name, None);
        }
    }

    fn volume(&mut self, volume: &Volume) {
        if let Some(source) = &volume.config_map {
            self.config_map(&source.name, source.optional);
        }
        if let Some(source) = &volume.secret
            && let Some(name) = &source.secret_name
        {
            self.secret(name, source.optional);
        }
        for source in volume
            .projected
            .iter()
            .flat_map(|it| it.sources.iter().flatten())
        {
            self.projection(source);
        }
        if let Some(source) = &volume.csi {
            self.local(source.node_publish_secret_ref.as_ref());
        }
        if let Some(source) = &volume.flex_volume {
            self.local(source.secret_ref.as_ref());
        }
        if let Some(source) = &volume.cephfs {
            self.local(source.secret_ref.as_ref());
        }
        if let Some(source) = &volume.rbd {
            self.local(source.secret_ref.as_ref());
        }
        if let Some(source) = &volume.iscsi {
            self.local(source.secret_ref.as_ref());
        }
        if let Some(source) = &volume.cinder {
            self.local(source.secret_ref.as_ref());
        }
        if let Some(source) = &volume.scale_io {
            self.local(Some(&source.secret_ref));
        }
        if let Some(source) = &volume.storageos {
            self.local(source.secret_ref.as_ref());
        }
        if let Some(source) = &volume.azure_file {
            self.secret(&source.secret_name, None);
        }
    }

    fn projection(&mut self, source: &VolumeProjection) {
        if let Some(source) = &source.config_map {
            self.config_map(&source.name, source.optional);
        }
        if let Some(source) = &source.secret {
            self.secret(&source.name, source.optional);
        }
    }

    fn environment(&mut self, env: Option<&[EnvVar]>, env_from: Option<&[EnvFromSource]>) {
        for source in env
            .into_iter()
            .flatten()
            .filter_map(|it| it.value_from.as_ref())
        {
            if let Some(key) = &source.config_map_key_ref {
                self.config_map(&key.name, key.optional);
            }
            if let Some(key) = &source.secret_key_ref {
                self.secret(&key.name, key.optional);
            }
        }
        for source in env_from.into_iter().flatten() {
            if let Some(source) = &source.config_map_ref {
                self.config_map(&source.name, source.optional);
            }
            if let Some(source) = &source.secret_ref {
                self.secret(&source.name, source.optional);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(spec: serde_json::Value) -> Vec<String> {
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        needs(&spec).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_way_to_name_an_object_is_known() {
        let env = |kind: &str| {
            json!({
                "name": kind,
                "env": [
                    { "name": "A", "valueFrom": { "configMapKeyRef": { "name": format!("{kind}-env"), "key": "k" } } },
                    { "name": "B", "valueFrom": { "secretKeyRef": { "name": format!("{kind}-env"), "key": "k" } } },
                    { "name": "C", "value": "plain" },
                ],
                "envFrom": [
                    { "configMapRef": { "name": format!("{kind}-from") } },
                    { "secretRef": { "name": format!("{kind}-from") } },
                ],
            })
        };
        let secret_ref = |name: &str| json!({ "name": name });
        let got = named(json!({
            "imagePullSecrets": [{ "name": "pull" }],
            "containers": [env("main")],
            "initContainers": [env("init")],
            "ephemeralContainers": [env("debug")],
            "volumes": [
                { "name": "a", "configMap": { "name": "volume" } },
                { "name": "b", "secret": { "secretName": "volume", "optional": true } },
                { "name": "c", "projected": { "sources": [
                    { "configMap": { "name": "projected" } },
                    { "secret": { "name": "projected" } },
                    { "configMap": { "name": "kube-root-ca.crt" } },
                    { "serviceAccountToken": { "path": "token" } },
                ] } },
                { "name": "d", "csi": { "driver": "x", "nodePublishSecretRef": secret_ref("csi") } },
                { "name": "e", "flexVolume": { "driver": "x", "secretRef": secret_ref("flex") } },
                { "name": "f", "cephfs": { "monitors": [], "secretRef": secret_ref("ceph") } },
                { "name": "g", "rbd": { "monitors": [], "image": "i", "secretRef": secret_ref("rbd") } },
                { "name": "h", "iscsi": {
                    "targetPortal": "t", "iqn": "q", "lun": 0, "secretRef": secret_ref("iscsi"),
                } },
                { "name": "i", "azureFile": { "secretName": "azure", "shareName": "s" } },
                { "name": "j", "cinder": { "volumeID": "v", "secretRef": secret_ref("cinder") } },
                { "name": "k", "scaleIO": {
                    "gateway": "g", "system": "s", "secretRef": secret_ref("scaleio"),
                } },
                { "name": "l", "storageos": { "secretRef": secret_ref("storageos") } },
                { "name": "m", "emptyDir": {} },
            ],
        }));
        let want = [
            "ConfigMap/debug-env",
            "ConfigMap/debug-from",
            "ConfigMap/init-env",
            "ConfigMap/init-from",
            "ConfigMap/main-env",
            "ConfigMap/main-from",
            "ConfigMap/projected",
            "ConfigMap/volume",
            "Secret/azure",
            "Secret/ceph",
            "Secret/cinder",
            "Secret/csi",
            "Secret/debug-env",
            "Secret/debug-from",
            "Secret/flex",
            "Secret/init-env",
            "Secret/init-from",
            "Secret/iscsi",
            "Secret/main-env",
            "Secret/main-from",
            "Secret/projected",
            "Secret/pull",
            "Secret/rbd",
            "Secret/scaleio",
            "Secret/storageos",
            "Secret/volume",
        ];
        assert_eq!(got, want);
    }

    #[test]
    fn what_a_pod_can_do_without_is_not_required() {
        let optional = |name: &str| json!({ "name": name, "optional": true });
        let key = |name: &str| json!({ "name": name, "key": "k", "optional": true });
        let spec = json!({
            "imagePullSecrets": [{ "name": "pull" }],
            "containers": [{
                "name": "c",
                "env": [
                    { "name": "A", "valueFrom": { "configMapKeyRef": key("a") } },
                    { "name": "B", "valueFrom": { "secretKeyRef": key("a") } },
                    { "name": "C", "valueFrom": { "secretKeyRef": { "name": "c", "key": "k" } } },
                ],
                "envFrom": [
                    { "configMapRef": optional("b") },
                    { "secretRef": optional("b") },
                    { "configMapRef": { "name": "both", "optional": false } },
                ],
            }],
            "volumes": [
                { "name": "a", "configMap": optional("both") },
                { "name": "b", "secret": { "secretName": "d", "optional": true } },
                { "name": "c", "projected": { "sources": [
                    { "configMap": optional("e") },
                    { "secret": optional("e") },
                    { "secret": { "name": "f" } },
                ] } },
                { "name": "d", "csi": { "driver": "x", "nodePublishSecretRef": { "name": "g" } } },
            ],
        });
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        let got: Vec<_> = required(&spec).iter().map(ToString::to_string).collect();
        assert_eq!(got, ["ConfigMap/both", "Secret/c", "Secret/f", "Secret/g"]);
        assert_eq!(needs(&spec).len(), 12);
    }

    #[test]
    fn what_no_object_can_be_called_is_no_need() {
        let got = named(json!({
            "containers": [],
            "imagePullSecrets": [{ "name": "" }, { "name": "a/b" }, { "name": "x".repeat(254) }, {}],
        }));
        assert_eq!(got, [""; 0]);
    }
}
