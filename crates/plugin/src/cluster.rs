//! One cluster as its user reaches it: the context of a kubeconfig, and requests there. It has no policy.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::NamespaceResourceScope;
use kube::discovery::ApiResource;
use kube::{Api, Client, Config, Resource};
use pilotage_runtime::call::{CALL_LIMIT, CallError, within};
use pilotage_runtime::client;
use serde_json::Value;

use crate::Side;
use crate::address::Trust;
use crate::error::Error;
use crate::plan::MANAGER;

/// One cluster, as the user of a context.
pub(crate) struct Cluster {
    pub(crate) side: Side,
    pub(crate) context: String,
    /// As the kubeconfig has it.
    pub(crate) server: String,
    pub(crate) trust: Trust,
    /// The context's namespace.
    pub(crate) namespace: String,
    pub(crate) client: Client,
}

impl Cluster {
    /// What a kubeconfig (kubectl's, unless a file is given) says of a context (its current one, unless one is given).
    pub(crate) async fn open(
        side: Side,
        file: Option<&Path>,
        context: Option<&str>,
    ) -> Result<Self, Error> {
        client::install_crypto_provider();
        let read = match file {
            Some(file) => Kubeconfig::read_from(file),
            None => Kubeconfig::read(),
        };
        let kubeconfig = read.map_err(|source| Error::Kubeconfig { side, source })?;
        let current = kubeconfig
            .current_context
            .clone()
            .filter(|it| !it.is_empty());
        let context = context
            .map(str::to_owned)
            .or(current)
            .ok_or(Error::NoCurrentContext(side))?;
        let known = kubeconfig.contexts.iter().map(|it| it.name.clone());
        let known: Vec<String> = known.collect();
        if !known.contains(&context) {
            return Err(Error::NoContext {
                side,
                asked: context,
                known,
            });
        }
        let options = KubeConfigOptions {
            context: Some(context.clone()),
            ..KubeConfigOptions::default()
        };
        let trust = trust(&kubeconfig, &context);
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let config = config.map_err(|source| Error::Context {
            side,
            context: context.clone(),
            source,
        })?;
        let server = config
            .cluster_url
            .to_string()
            .trim_end_matches('/')
            .to_owned();
        let namespace = config.default_namespace.clone();
        let client = client::from_config(config, MANAGER)?;
        Ok(Self {
            side,
            context,
            server,
            trust,
            namespace,
            client,
        })
    }

    /// What a request's failure means for the command.
    pub(crate) fn failed(&self, what: impl Into<String>) -> impl FnOnce(CallError) -> Error {
        let (what, side) = (what.into(), self.side);
        move |source| Error::Call { what, side, source }
    }

    /// Objects of a kind in a namespace.
    pub(crate) fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Applies an object of kind `K`. What others wrote stays, and fields of theirs aren't taken.
    pub(crate) async fn apply<K: Resource<DynamicType = ()>>(
        &self,
        object: &Value,
    ) -> Result<DynamicObject, Error> {
        let resource = ApiResource::erase::<K>(&());
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let api: Api<DynamicObject> = match metadata["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let patch = Patch::Apply(object);
        let params = PatchParams::apply(MANAGER);
        let sent = within(CALL_LIMIT, api.patch(name, &params, &patch)).await;
        sent.map_err(self.failed(format!("write {} {name}", resource.kind)))
    }
}

/// How a context's cluster is believed. What can't be read here, the client's configuration has refused.
fn trust(kubeconfig: &Kubeconfig, context: &str) -> Trust {
    let context = kubeconfig.contexts.iter().find(|it| it.name == context);
    let cluster = context
        .and_then(|it| it.context.as_ref())
        .map(|it| &it.cluster);
    let cluster = kubeconfig
        .clusters
        .iter()
        .find(|it| Some(&it.name) == cluster);
    let Some(cluster) = cluster.and_then(|it| it.cluster.as_ref()) else {
        return Trust::default();
    };
    let file = cluster
        .certificate_authority
        .as_ref()
        .and_then(|file| std::fs::read(file).ok());
    let ca = cluster.certificate_authority_data.clone();
    Trust {
        ca: ca.or_else(|| file.map(|pem| STANDARD.encode(pem))),
        server_name: cluster.tls_server_name.clone(),
        insecure: cluster.insecure_skip_tls_verify.unwrap_or_default(),
    }
}
