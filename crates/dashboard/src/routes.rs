//! The page and what it hears, as routes of an admin port. Nobody can change anything here.

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::StreamExt;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, HeaderValue, StatusCode};

use crate::guard::judge;
use crate::hub::{Dashboard, MOST_LISTENERS};

/// Where the page is.
pub const PATH: &str = "/dashboard";

const HTML: &str = include_str!("page/page.html");
const CSS: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// Nothing comes from elsewhere, nothing runs that isn't a file of ours, and nobody frames it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' \
    data:; base-uri 'none'; frame-ancestors 'none'; form-action 'none'";

impl Dashboard {
    /// The routes. The server has to tell them who asks, by axum's `ConnectInfo`; without that nobody may look.
    pub fn routes(&self) -> Router {
        Router::new()
            .route(PATH, get(answer))
            .route("/dashboard/{what}", get(answer))
            .with_state(self.clone())
    }
}

async fn answer(State(dashboard): State<Dashboard>, request: Request) -> Response {
    let mut response = to(&dashboard, &request);
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn to(dashboard: &Dashboard, request: &Request) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    if let Err(refusal) = judge(peer.map(|peer| peer.0.ip()), request.headers()) {
        return (StatusCode::FORBIDDEN, refusal.line()).into_response();
    }
    let file =
        |kind: &'static str, text: &'static str| ([(CONTENT_TYPE, kind)], text).into_response();
    match request.uri().path() {
        PATH => file("text/html; charset=utf-8", HTML),
        "/dashboard/page.css" => file("text/css; charset=utf-8", CSS),
        "/dashboard/page.js" => file("text/javascript; charset=utf-8", SCRIPT),
        "/dashboard/events" => events(dashboard),
        _ => (
            StatusCode::NOT_FOUND,
            "there is nothing here; the page is /dashboard\n",
        )
            .into_response(),
    }
}

fn events(dashboard: &Dashboard) -> Response {
    let Some(messages) = dashboard.listen() else {
        let text = format!(
            "{MOST_LISTENERS} pages are open already, and no more can be: close one of them\n"
        );
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    let body = Body::from_stream(messages.map(Ok::<_, Infallible>));
    ([(CONTENT_TYPE, "text/event-stream")], body).into_response()
}

#[cfg(test)]
mod tests;
