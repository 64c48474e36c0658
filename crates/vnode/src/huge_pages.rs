//! Whether this cluster's own nodes have huge pages of several sizes; asked only when a target has.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client};
use pilotage_model::virtual_node::{has_several_huge_page_sizes, is_ours};
use pilotage_runtime::call::{self, CALL_LIMIT, CallError};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long an answer is good for: nodes of a new kind are rare.
const FRESH: Duration = Duration::from_mins(10);
/// Nodes in one page.
const PAGE_SIZE: u32 = 500;

/// The answer, shared by all virtual nodes.
#[derive(Debug, Default)]
pub(crate) struct HugePages {
    answer: Mutex<Option<(Instant, bool)>>,
}

impl HugePages {
    /// Whether some real node of the cluster has several sizes.
    pub(crate) async fn several(&self, client: &Client) -> Result<bool, CallError> {
        let mut answer = self.answer.lock().await;
        if let Some((asked, several)) = *answer
            && asked.elapsed() < FRESH
        {
            return Ok(several);
        }
        let several = ask(client).await?;
        *answer = Some((Instant::now(), several));
        Ok(several)
    }
}

async fn ask(client: &Client) -> Result<bool, CallError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE_SIZE);
    loop {
        let page = call::within(CALL_LIMIT, nodes.list(&params)).await?;
        let found = page.items.iter().filter(|node| !is_ours(node)).any(|node| {
            let capacity = node
                .status
                .as_ref()
                .and_then(|status| status.capacity.as_ref());
            capacity.is_some_and(has_several_huge_page_sizes)
        });
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if found || params.continue_token.is_none() {
            return Ok(found);
        }
    }
}
