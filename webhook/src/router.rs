//! The webhook's HTTP routes, without port and TLS.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::Value;

use crate::metrics::Metrics;
use crate::review::{self, Answer};
use crate::shares::Shares;

/// Where the API server asks; as in Admiralty.
pub const PATH: &str = "/mutate--v1-pod";
/// Longest review, in bytes. An object is at most 3 MiB as it is sent, and with its defaults filled in it is longer. What is
/// too large to be elected is told in an answer as far as this.
const BODY_LIMIT: usize = 8 * 1024 * 1024;

/// What answers.
#[derive(Clone)]
struct Desk {
    metrics: Arc<Metrics>,
    shares: Shares,
    judge: Arc<dyn Fn(&[u8]) -> Answer + Send + Sync>,
}

/// The routes.
pub fn router(metrics: Arc<Metrics>, shares: Shares) -> Router {
    router_of(Desk {
        metrics,
        shares,
        judge: Arc::new(review::answer),
    })
}

fn router_of(desk: Desk) -> Router {
    Router::new()
        .route(PATH, post(mutate))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(desk)
}

async fn mutate(State(desk): State<Desk>, headers: HeaderMap, body: Bytes) -> Response {
    let content_type = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    if content_type
        .split(';')
        .next()
        .is_none_or(|kind| kind.trim() != "application/json")
    {
        let text = format!("content type {content_type:?} isn't application/json");
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into_response();
    }
    let begun = Instant::now();
    let namespace = review::namespace(&body).unwrap_or_default();
    let _turn = desk.shares.turn(namespace).await;
    let answer = (desk.judge)(&body);
    desk.metrics.answered(answer.outcome, begun.elapsed());
    json_response(&answer.body)
}

fn json_response(body: &Value) -> Response {
    ([(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

#[cfg(test)]
mod tests;
