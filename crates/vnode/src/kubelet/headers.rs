//! Headers that pass between a caller and a target: those by which the two agree on the protocol of a connection, and
//! no others. Pure.

use http::HeaderMap;
use http::header::{
    CONNECTION, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS,
    SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};

use super::refusal::Refusal;

/// Names of versions that SPDY streams may have; several of them are offered.
const STREAM_VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// Values of one header that pass.
const MOST: usize = 16;
/// Bytes of one value.
const LONGEST: usize = 1024;

/// What a connection may speak after its upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Spdy,
    WebSocket,
}

impl Protocol {
    /// Its name in a header.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Spdy => "SPDY/3.1",
            Self::WebSocket => "websocket",
        }
    }

    /// The one that a request asks for.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        let upgrades = headers
            .get_all(CONNECTION)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|token| token.trim().eq_ignore_ascii_case("upgrade"));
        let asked = headers.get(UPGRADE).and_then(|it| it.to_str().ok());
        let asked = asked.filter(|_| upgrades).unwrap_or_default();
        [Self::Spdy, Self::WebSocket]
            .into_iter()
            .find(|protocol| asked.eq_ignore_ascii_case(protocol.name()))
            .ok_or_else(|| Refusal::bad("the request asks for no upgrade to SPDY/3.1 or websocket"))
    }
}

/// The head of the request to the target.
pub(crate) fn to_target(headers: &HeaderMap, protocol: Protocol) -> HeaderMap {
    let names = [
        STREAM_VERSION,
        SEC_WEBSOCKET_KEY,
        SEC_WEBSOCKET_VERSION,
        SEC_WEBSOCKET_PROTOCOL,
        SEC_WEBSOCKET_EXTENSIONS,
    ];
    passing(headers, names, protocol)
}

/// The head of the answer to the caller.
pub(crate) fn to_caller(headers: &HeaderMap, protocol: Protocol) -> HeaderMap {
    let names = [
        STREAM_VERSION,
        SEC_WEBSOCKET_ACCEPT,
        SEC_WEBSOCKET_PROTOCOL,
        SEC_WEBSOCKET_EXTENSIONS,
    ];
    passing(headers, names, protocol)
}

fn passing<const N: usize>(
    headers: &HeaderMap,
    names: [HeaderName; N],
    protocol: Protocol,
) -> HeaderMap {
    let mut passed = HeaderMap::new();
    passed.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    passed.insert(UPGRADE, HeaderValue::from_static(protocol.name()));
    for name in names {
        let values = headers.get_all(&name).iter();
        for value in values.filter(|value| value.len() <= LONGEST).take(MOST) {
            passed.append(name.clone(), value.clone());
        }
    }
    passed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn two_protocols_are_known() {
        for (pairs, want) in [
            (
                &[("connection", "Upgrade"), ("upgrade", "SPDY/3.1")][..],
                Some(Protocol::Spdy),
            ),
            (
                &[
                    ("connection", "keep-alive, upgrade"),
                    ("upgrade", "WebSocket"),
                ],
                Some(Protocol::WebSocket),
            ),
            (&[("connection", "Upgrade"), ("upgrade", "h2c")], None),
            (&[("upgrade", "SPDY/3.1")], None),
            (&[("connection", "close"), ("upgrade", "SPDY/3.1")], None),
            (&[], None),
        ] {
            assert_eq!(Protocol::of(&headers(pairs)).ok(), want, "{pairs:?}");
        }
    }

    #[test]
    fn only_what_the_protocol_needs_passes() {
        let long = "x".repeat(LONGEST + 1);
        let asked = headers(&[
            ("authorization", "Bearer secret"),
            ("cookie", "a=b"),
            ("x-stream-protocol-version", "v5.channel.k8s.io"),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
            ("x-stream-protocol-version", &long),
            ("sec-websocket-key", "k"),
            ("upgrade", "h2c"),
        ]);
        let passed = to_target(&asked, Protocol::Spdy);
        let versions: Vec<_> = passed.get_all(&STREAM_VERSION).iter().collect();
        assert_eq!(versions, ["v5.channel.k8s.io", "v4.channel.k8s.io"]);
        assert_eq!(
            (passed.len(), &passed[UPGRADE]),
            (5, &HeaderValue::from_static("SPDY/3.1"))
        );
        let answered = headers(&[
            ("set-cookie", "a=b"),
            ("location", "/"),
            ("sec-websocket-accept", "a"),
            ("sec-websocket-protocol", "v5.channel.k8s.io"),
        ]);
        let passed = to_caller(&answered, Protocol::WebSocket);
        assert_eq!(
            (passed.len(), &passed[SEC_WEBSOCKET_ACCEPT]),
            (4, &HeaderValue::from_static("a"))
        );
    }
}
