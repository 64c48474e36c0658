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
    let mut found = Found::default();
    for secret in spec.image_pull_secrets.iter().flatten() {
        found.secret(&secret.name);
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

#[derive(Default)]
struct Found {
    needs: BTreeSet<Need>,
}

impl Found {
    fn config_map(&mut self, name: &str) {
        self.needs.extend(Need::new(Kind::ConfigMap, name));
    }

    fn secret(&mut self, name: &str) {
        self.needs.extend(Need::new(Kind::Secret, name));
    }

    fn local(&mut self, reference: Option<&LocalObjectReference>) {
        if let Some(reference) = reference {
            self.secret(&reference.name);
        }
    }

    fn volume(&mut self, volume: &Volume) {
        if let Some(source) = &volume.config_map {
            self.config_map(&source.name);
        }
        if let Some(name) = volume
            .secret
            .as_ref()
            .and_then(|source| source.secret_name.as_ref())
        {
            self.secret(name);
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
            self.secret(&source.secret_name);
        }
    }

    fn projection(&mut self, source: &VolumeProjection) {
        if let Some(source) = &source.config_map {
            self.config_map(&source.name);
        }
        if let Some(source) = &source.secret {
            self.secret(&source.name);
        }
    }

    fn environment(&mut self, env: Option<&[EnvVar]>, env_from: Option<&[EnvFromSource]>) {
        for source in env
            .into_iter()
            .flatten()
            .filter_map(|it| it.value_from.as_ref())
        {
            if let Some(key) = &source.config_map_key_ref {
                self.config_map(&key.name);
            }
            if let Some(key) = &source.secret_key_ref {
                self.secret(&key.name);
            }
        }
        for source in env_from.into_iter().flatten() {
            if let Some(source) = &source.config_map_ref {
                self.config_map(&source.name);
            }
            if let Some(source) = &source.secret_ref {
                self.secret(&source.name);
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
    fn what_no_object_can_be_called_is_no_need() {
        let got = named(json!({
            "containers": [],
            "imagePullSecrets": [{ "name": "" }, { "name": "a/b" }, { "name": "x".repeat(254) }, {}],
        }));
        assert_eq!(got, [""; 0]);
    }
}
