//! Live reads: does a target exist? A store without it proves nothing, for it may be older than the target.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Resource};
use pilotage_api::{ClusterTarget, Target, names};
use pilotage_runtime::call::{CALL_LIMIT, CallError};
use pilotage_runtime::looks::Looks;
use pilotage_runtime::pages::each_metadata;
use serde::de::DeserializeOwned;

/// Looks for targets. Who looks at the same time shares one LIST: anybody can invent names of virtual nodes. Clones
/// share it.
#[derive(Clone)]
pub struct Lookup {
    client: Client,
    /// The virtual nodes of all targets.
    nodes: Arc<Looks<HashSet<String>>>,
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup").finish_non_exhaustive()
    }
}

impl Lookup {
    /// Looks by this client.
    pub fn new(client: Client) -> Self {
        let nodes = Arc::default();
        Self { client, nodes }
    }

    /// Does any `Target` or `ClusterTarget` stand behind this virtual node? Read after this call.
    ///
    /// # Errors
    /// A list that failed.
    pub async fn has_target(&self, node: &str) -> Result<bool, CallError> {
        let nodes = self.nodes.join(Box::pin(self.list())).await?;
        Ok(nodes.contains(node))
    }

    async fn list(&self) -> Result<HashSet<String>, CallError> {
        let mut nodes = HashSet::new();
        add::<Target>(&self.client, &mut nodes).await?;
        add::<ClusterTarget>(&self.client, &mut nodes).await?;
        Ok(nodes)
    }
}

/// Adds the virtual nodes of all targets of a kind.
async fn add<K>(client: &Client, nodes: &mut HashSet<String>) -> Result<(), CallError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + fmt::Debug,
    PartialObjectMeta<K>: DeserializeOwned,
{
    let targets: Api<K> = Api::all(client.clone());
    each_metadata(CALL_LIMIT, &targets, ListParams::default(), |target| {
        let (namespace, name) = (target.metadata.namespace, target.metadata.name);
        let name = name.as_deref().unwrap_or_default();
        nodes.insert(names::virtual_node(namespace.as_deref(), name));
    })
    .await
}
