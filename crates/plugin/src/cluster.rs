//! One cluster as its user reaches it: the context of a kubeconfig, and requests there. It has no policy.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::NamespaceResourceScope;
use kube::discovery::ApiResource;
use kube::{Api, Client, Config, Resource};
use pilotage_runtime::call::{CALL_LIMIT, CallError, Failure, within};
use pilotage_runtime::client;
use serde_json::Value;

use crate::address::Trust;
use crate::error::Error;
use crate::plan::MANAGER;
use crate::{Side, reach};

/// One cluster, as the user of a context.
pub(crate) struct Cluster {
    pub(crate) side: Side,
    pub(crate) context: String,
    /// The kubeconfig, if it isn't kubectl's.
    pub(crate) file: Option<PathBuf>,
    /// As the kubeconfig has it.
    pub(crate) server: String,
    pub(crate) trust: Trust,
    /// The context's namespace.
    pub(crate) namespace: String,
    pub(crate) client: Client,
    /// The same for answers that are waited upon elsewhere: the other one repeats what is throttled, for longer than a
    /// call may take.
    pub(crate) unrepeated: Client,
}

impl Cluster {
    /// What a kubeconfig (kubectl's, unless a file is given) says of a context (its current one, unless one is given).
    pub(crate) async fn open(
        side: Side,
        file: Option<&Path>,
        context: Option<&str>,
    ) -> Result<Self, Error> {
        let (cluster, _) = Self::with_config(side, file, context).await?;
        Ok(cluster)
    }

    /// The same, with a client for connections that may be silent.
    pub(crate) async fn open_with_streams(
        side: Side,
        file: Option<&Path>,
        context: Option<&str>,
    ) -> Result<(Self, Client), Error> {
        let (cluster, config) = Self::with_config(side, file, context).await?;
        Ok((cluster, client::for_streams(config, MANAGER)?))
    }

    async fn with_config(
        side: Side,
        file: Option<&Path>,
        context: Option<&str>,
    ) -> Result<(Self, Config), Error> {
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
        let mut unrepeating = config.clone();
        unrepeating.default_retry = false;
        let unrepeated = client::from_config(unrepeating, MANAGER)?;
        let client = client::from_config(config.clone(), MANAGER)?;
        let cluster = Self {
            side,
            context,
            file: file.map(Path::to_owned),
            server,
            trust,
            namespace,
            client,
            unrepeated,
        };
        Ok((cluster, config))
    }

    /// The flags by which a command that a hint names reaches it; `flag` is that of the context.
    pub(crate) fn flags(&self, flag: &str) -> String {
        reach::flags(flag, &self.context, self.file.as_deref())
    }

    /// What a request's failure means for a command that has written, or would have by this request.
    pub(crate) fn failed(&self, what: impl Into<String>) -> impl FnOnce(CallError) -> Error {
        let (what, side) = (what.into(), self.side);
        move |source| Error::Call { what, side, source }
    }

    /// What it means for one that hasn't, of a request that changes nothing.
    pub(crate) fn unread(&self, what: impl Into<String>) -> impl FnOnce(CallError) -> Error {
        let (what, side) = (what.into(), self.side);
        move |source| Error::Read { what, side, source }
    }

    /// Objects of a kind in a namespace.
    pub(crate) fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Objects of a kind in a namespace, or in none, without their types.
    pub(crate) fn untyped<K: Resource<DynamicType = ()>>(
        &self,
        namespace: Option<&str>,
    ) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<K>(&());
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// Applies an object of kind `K`, as [`Self::apply_as`].
    pub(crate) async fn apply<K: Resource<DynamicType = ()>>(
        &self,
        object: &Value,
        force: bool,
    ) -> Result<DynamicObject, Error> {
        self.apply_as(&ApiResource::erase::<K>(&()), object, force)
            .await
    }

    /// Asks whether an object of kind `K` would be taken, as [`Self::would_apply_as`].
    pub(crate) async fn would_apply<K: Resource<DynamicType = ()>>(
        &self,
        object: &Value,
        force: bool,
    ) -> Result<(), Error> {
        self.would_apply_as(&ApiResource::erase::<K>(&()), object, force)
            .await
    }

    /// Applies an object. What others wrote stays; a field that they own is taken only by `force`.
    pub(crate) async fn apply_as(
        &self,
        resource: &ApiResource,
        object: &Value,
        force: bool,
    ) -> Result<DynamicObject, Error> {
        let params = PatchParams {
            force,
            ..PatchParams::apply(MANAGER)
        };
        let (what, sent) = self.send(resource, object, &params).await;
        sent.map_err(|source| {
            if source.kind() == Failure::Conflict {
                let begun = true;
                return self.conflict(what, &source, begun);
            }
            self.failed(format!("write {what}"))(source)
        })
    }

    /// Asks whether an object would be taken, and writes nothing. An API server that can't say so (a webhook may not
    /// let it) says it when it is asked to write.
    pub(crate) async fn would_apply_as(
        &self,
        resource: &ApiResource,
        object: &Value,
        force: bool,
    ) -> Result<(), Error> {
        let params = PatchParams {
            force,
            dry_run: true,
            ..PatchParams::apply(MANAGER)
        };
        let (what, sent) = self.send(resource, object, &params).await;
        let Err(source) = sent else { return Ok(()) };
        let refused = matches!(&source, CallError::Api(kube::Error::Api(it)) if [403, 422].contains(&it.code));
        if source.kind() == Failure::Conflict {
            let begun = false;
            return Err(self.conflict(what, &source, begun));
        }
        if refused {
            let side = self.side;
            return Err(Error::Refused { what, side, source });
        }
        Ok(())
    }

    async fn send(
        &self,
        resource: &ApiResource,
        object: &Value,
        params: &PatchParams,
    ) -> (String, Result<DynamicObject, CallError>) {
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let client = self.client.clone();
        let api: Api<DynamicObject> = match metadata["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(client, namespace, resource),
            None => Api::all_with(client, resource),
        };
        let sent = within(CALL_LIMIT, api.patch(name, params, &Patch::Apply(object))).await;
        (format!("{} {name}", resource.kind), sent)
    }

    fn conflict(&self, what: String, source: &CallError, begun: bool) -> Error {
        let side = self.side;
        let says = source.message();
        let says = says
            .split_once(": ")
            .map_or(says.clone(), |(_, whose)| whose.to_owned());
        Error::Conflict {
            what,
            side,
            says,
            begun,
        }
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
