//! By which node's proxy a request came, as the API server says it: pure.
//!
//! All virtual nodes show one address, so a request alone doesn't tell which of them it is meant for. Of what comes by
//! `nodes/NAME/proxy` the API server says so in a header, which it sets itself over what its caller sent, unless the
//! request asks for an upgrade. Who may use one node's proxy gets no further by the others' address then.

use http::{HeaderMap, HeaderName, StatusCode};
use pilotage_api::annotations::is_subdomain;

use super::refusal::Refusal;

/// What the API server was asked for.
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
/// Where the proxies of nodes are.
const NODES: &str = "/api/v1/nodes/";

/// The node whose proxy a request came by, if it came by one. For `streams` the header is whatever their callers sent:
/// one that names a node counts all the same, another one says nothing.
pub(crate) fn node(headers: &HeaderMap, streams: bool) -> Result<Option<&str>, Refusal> {
    let mut values = headers.get_all(FORWARDED_URI).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let node = value.to_str().ok().and_then(node_of);
    match node.filter(|_| values.next().is_none()) {
        Some(node) => Ok(Some(node)),
        None if streams => Ok(None),
        // A path such as `nodes/a/proxy/../..` leads here, too, and names no node any more.
        None => {
            let text = "the request came by a proxy whose path names no node";
            Err(Refusal::new(StatusCode::FORBIDDEN, text))
        }
    }
}

/// Says no to who came by one node's proxy and asks for what isn't on that node, whether or not it is elsewhere.
pub(crate) fn elsewhere(node: &str) -> Refusal {
    let text = format!("the request came by the proxy of node {node}, where that isn't");
    Refusal::new(StatusCode::FORBIDDEN, text)
}

/// The node in the path of its proxy: `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`.
fn node_of(path: &str) -> Option<&str> {
    let (named, rest) = path.strip_prefix(NODES)?.split_once('/')?;
    let is_proxy = rest == "proxy" || rest.starts_with("proxy/");
    let mut parts = named.split(':');
    let (first, second) = (parts.next()?, parts.next());
    let name = match (second, parts.next(), parts.next()) {
        (_, None, None) => first,
        (Some(name), Some(_), None) => name,
        _ => return None,
    };
    (is_proxy && is_subdomain(name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(FORWARDED_URI, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn the_api_server_names_the_node() {
        let logs = "/api/v1/nodes/admiralty-shop-c2/proxy/containerLogs/shop/web/app";
        for path in [
            logs,
            "/api/v1/nodes/admiralty-shop-c2/proxy",
            "/api/v1/nodes/admiralty-shop-c2:10250/proxy/metrics/resource",
            "/api/v1/nodes/https:admiralty-shop-c2:10250/proxy/metrics/resource",
        ] {
            let headers = headers(&[path]);
            assert_eq!(
                node(&headers, false),
                Ok(Some("admiralty-shop-c2")),
                "{path}"
            );
            assert_eq!(
                node(&headers, true),
                Ok(Some("admiralty-shop-c2")),
                "{path}"
            );
        }
        assert_eq!(node(&HeaderMap::new(), false), Ok(None));
    }

    #[test]
    fn a_path_that_leads_around_the_name_is_refused_where_the_api_server_writes_it() {
        // What the API server makes of `nodes/a/proxy/../../x/../containerLogs/shop/web/app`, and the like.
        for path in [
            "/api/v1/nodes/containerLogs/shop/web/app",
            "/api/v1/nodes/a/containerLogs/shop/web/app",
            "/api/v1/nodes/a/proxys",
            "/api/v1/nodes/a",
            "/api/v1/nodes//proxy/metrics/resource",
            "/api/v1/nodes/a:b:c:d/proxy/x",
            "/api/v1/namespaces/shop/pods/web/exec",
            "/containerLogs/shop/web/app",
            "",
        ] {
            let headers = headers(&[path]);
            assert_eq!(node(&headers, false).unwrap_err().status, 403, "{path}");
            assert_eq!(node(&headers, true), Ok(None), "{path}");
        }
        let two = headers(&["/api/v1/nodes/a/proxy/x", "/api/v1/nodes/b/proxy/x"]);
        assert!(node(&two, false).is_err());
    }
}
