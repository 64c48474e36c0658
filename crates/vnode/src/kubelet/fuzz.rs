//! Whatever a caller asks for, nothing panics, and what goes to a target is a path below the pod that was looked at.

use http::{HeaderMap, HeaderValue, Method, Uri};
use pilotage_absurd::text;
use proptest::prelude::*;

use super::caller::{self, Caller};
use super::forwarded;
use super::headers::{self, Protocol};
use super::route::{Place, Route, route, subresource};
use super::{query, refusal::Refusal};

const DELEGATE: &str = "web-0123456789";

fn parts() -> BoxedStrategy<String> {
    prop_oneof![
        4 => prop::sample::select(vec![
            "containerLogs", "exec", "attach", "portForward", "healthz", "stats", "shop", "web", "app", "..", "",
        ]).prop_map(str::to_owned),
        1 => text::text(),
    ]
    .boxed()
}

fn path() -> BoxedStrategy<String> {
    let parts = prop::collection::vec(parts(), 0..7);
    parts
        .prop_map(|parts| format!("/{}", parts.join("/")))
        .boxed()
}

fn question() -> BoxedStrategy<String> {
    let names = prop::sample::select(vec![
        "command",
        "input",
        "output",
        "tty",
        "follow",
        "tailLines",
        "sinceTime",
        "stream",
        "port",
        "container",
        "x",
    ]);
    let pairs = prop::collection::vec((names, text::text()), 0..9);
    pairs
        .prop_map(|pairs| {
            let pairs = pairs.iter().map(|(name, value)| format!("{name}={value}"));
            pairs.collect::<Vec<_>>().join("&")
        })
        .boxed()
}

fn asked(path: &str, query: &str) -> Result<(Route, String), Refusal> {
    match route(&Method::GET, path)? {
        Place::Pod(route) => {
            let asked = query::of_target(&route, DELEGATE, query)?;
            Ok((route, asked))
        }
        Place::Health | Place::Usage(..) => Err(Refusal::absent("no pod")),
    }
}

pilotage_absurd::properties! {
    #[test]
    fn no_path_leads_past_its_pod(path in path(), query in prop_oneof![3 => question(), 1 => text::text()]) {
        let _ = subresource(&path);
        let Ok((route, asked)) = asked(&path, &query) else { return Ok(()) };
        let pod = format!("/api/v1/namespaces/{}/pods/{DELEGATE}/", route.namespace);
        let uri: Uri = asked.parse().unwrap();
        prop_assert!(uri.path().starts_with(&pod), "{asked}");
        prop_assert_eq!(&uri.path()[pod.len()..], route.action.subresource());
        prop_assert!(!route.namespace.contains(['/', '.', '%']));
        prop_assert!(asked.len() < 1 << 16);
        let containers = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        let containers: Vec<_> = containers.filter(|(name,
            _)| name == "container").map(|it| it.1.into_owned()).collect();
        prop_assert_eq!(containers, Vec::from_iter(route.container));
    }

    #[test]
    fn no_certificate_and_no_header_is_too_strange(der in text::bytes(), value in text::bytes(),
        more in text::bytes()) {
        let _ = Caller::of_certificate(&der);
        let mut all = HeaderMap::new();
        for name in ["authorization", "upgrade", "connection", "sec-websocket-protocol", "x-stream-protocol-version"] {
            for value in [&value, &more] {
                if let Ok(value) = HeaderValue::from_bytes(value) {
                    all.append(name, value);
                }
            }
        }
        let _ = caller::token(&all);
        let _ = Protocol::of(&all);
        let mut forwarded_by = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_bytes(&value) {
            forwarded_by.insert("x-forwarded-uri", value);
        }
        let _ = (forwarded::node(&forwarded_by, true), forwarded::node(&forwarded_by, false));
        for passed in [headers::to_target(&all, Protocol::Spdy), headers::to_caller(&all, Protocol::WebSocket)] {
            let bytes: usize = passed.values().map(HeaderValue::len).sum();
            prop_assert!(bytes <= 128 << 10);
            prop_assert!(!passed.contains_key("authorization"));
        }
    }
}
