//! Live reads: does a target exist? A store without it proves nothing, for it may be older than the target.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Resource};
use pilotage_api::{ClusterTarget, Target, names};
use pilotage_runtime::call::{CALL_LIMIT, CallError, within};
use pilotage_runtime::looks::Looks;
use serde::de::DeserializeOwned;

/// Targets in one page.
const PAGE: u32 = 500;

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
        let nodes = self.nodes.join(self.list()).await?;
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
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = within(CALL_LIMIT, targets.list_metadata(&params)).await?;
        nodes.extend(page.items.into_iter().map(|target| {
            let (namespace, name) = (target.metadata.namespace, target.metadata.name);
            names::virtual_node(namespace.as_deref(), name.as_deref().unwrap_or_default())
        }));
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return Ok(());
        }
    }
}
