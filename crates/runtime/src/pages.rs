//! Lists of a kind or a selection, page by page: no answer has more objects than a page, however many there are.
//!
//! Must not know what the objects are. Watches list for themselves.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::Api;
use kube::api::ListParams;
use kube::core::PartialObjectMeta;
use serde::de::DeserializeOwned;

use crate::call::{CallError, within};

/// So many objects are read at once.
pub const PAGE: u32 = 500;
/// A list that has more pages is no list of a cluster.
const MOST_PAGES: u32 = 1_000;

/// Takes all objects of a selection; `limit` is that of one page.
pub async fn each<K>(
    limit: Duration,
    api: &Api<K>,
    params: ListParams,
    mut take: impl FnMut(K),
) -> Result<(), CallError>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut pages = Pages::of(params.limit(PAGE));
    loop {
        let page = within(limit, api.list(&pages.params)).await?;
        page.items.into_iter().for_each(&mut take);
        if !pages.go_on(page.metadata)? {
            return Ok(());
        }
    }
}

/// Takes the metadata of all objects of a selection; `limit` is that of one page.
pub async fn each_metadata<K>(
    limit: Duration,
    api: &Api<K>,
    params: ListParams,
    mut take: impl FnMut(PartialObjectMeta<K>),
) -> Result<(), CallError>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut pages = Pages::of(params.limit(PAGE));
    loop {
        let page = within(limit, api.list_metadata(&pages.params)).await?;
        page.items.into_iter().for_each(&mut take);
        if !pages.go_on(page.metadata)? {
            return Ok(());
        }
    }
}

/// All objects of a selection, for who needs them together.
pub async fn all<K>(limit: Duration, api: &Api<K>, params: ListParams) -> Result<Vec<K>, CallError>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut all = Vec::new();
    each(limit, api, params, |object| all.push(object)).await?;
    Ok(all)
}

/// How many objects a selection has.
pub async fn count<K>(limit: Duration, api: &Api<K>, params: ListParams) -> Result<usize, CallError>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut count = 0_usize;
    each_metadata(limit, api, params, |_| count = count.saturating_add(1)).await?;
    Ok(count)
}

/// Where a list is.
struct Pages {
    params: ListParams,
    read: u32,
}

impl Pages {
    fn of(params: ListParams) -> Self {
        Self { params, read: 0 }
    }

    /// Whether there is another page.
    fn go_on(&mut self, page: ListMeta) -> Result<bool, CallError> {
        self.read = self.read.saturating_add(1);
        self.params.continue_token = page.continue_.filter(|token| !token.is_empty());
        if self.params.continue_token.is_none() {
            return Ok(false);
        }
        if self.read >= MOST_PAGES {
            return Err(CallError::Endless(self.read));
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;
    use tower::service_fn;

    use super::*;

    type Asked = Arc<Mutex<Vec<String>>>;

    /// Maps of a server with so many pages of two, and what it was asked.
    fn maps(pages: usize) -> (Api<ConfigMap>, Asked) {
        let asked = Asked::default();
        let log = asked.clone();
        let service = service_fn(move |request: Request<Body>| {
            let mut log = log.lock().unwrap();
            log.push(request.uri().query().unwrap_or_default().to_owned());
            let number = log.len();
            let next = (number < pages).then(|| format!("page-{number}"));
            let map = |half: usize| json!({ "metadata": { "name": format!("m-{number}-{half}") } });
            let list = json!({
                "kind": "List", "apiVersion": "v1", "metadata": { "continue": next }, "items": [map(0), map(1)],
            });
            let answer = Response::new(Body::from(list.to_string().into_bytes()));
            async move { Ok::<_, std::convert::Infallible>(answer) }
        });
        (Api::all(Client::new(service, "default")), asked)
    }

    const LIMIT: Duration = Duration::from_secs(5);

    #[tokio::test]
    async fn each_page_has_a_limit_and_none_is_left_out() {
        let (api, asked) = maps(3);
        let params = ListParams::default().labels("a=b");
        let all = all(LIMIT, &api, params).await.unwrap();
        let names: Vec<_> = all.into_iter().filter_map(|it| it.metadata.name).collect();
        assert_eq!(
            names,
            ["m-1-0", "m-1-1", "m-2-0", "m-2-1", "m-3-0", "m-3-1"]
        );
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), 3);
        for (number, query) in asked.iter().enumerate() {
            let token = query.contains(&format!("continue=page-{number}"));
            assert_eq!(token, number > 0, "{query}");
            assert!(
                query.contains("limit=500") && query.contains("a%3Db"),
                "{query}"
            );
        }
    }

    #[tokio::test]
    async fn metadata_is_counted_over_all_pages() {
        let (api, _) = maps(2);
        let counted = count(LIMIT, &api, ListParams::default()).await;
        assert_eq!(counted.unwrap(), 4);
    }

    #[tokio::test]
    async fn a_list_without_end_ends_in_an_error() {
        let (api, asked) = maps(usize::MAX);
        let read = count(LIMIT, &api, ListParams::default()).await;
        assert!(
            matches!(read, Err(CallError::Endless(MOST_PAGES))),
            "{read:?}"
        );
        assert_eq!(asked.lock().unwrap().len(), MOST_PAGES as usize);
    }
}
