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
use tokio::task::spawn_blocking;

use crate::metrics::Metrics;
use crate::review::{self, Answer, Notice};
use crate::shares::Shares;

/// Where the API server asks; as in Admiralty.
pub const PATH: &str = "/mutate--v1-pod";
/// Longest review, in bytes. An object is at most 3 MiB as it is sent, and with its defaults filled in it is longer.
/// What is too large to be elected is told in an answer as far as this.
const BODY_LIMIT: usize = 8 * 1024 * 1024;

/// Judges a review.
type Judge = dyn Fn(&[u8]) -> Answer + Send + Sync;

/// Takes what somebody should be told; it must not wait.
pub type Notify = dyn Fn(Notice) + Send + Sync;

/// What answers.
#[derive(Clone)]
struct Desk {
    metrics: Arc<Metrics>,
    shares: Shares,
    judge: Arc<Judge>,
    notify: Arc<Notify>,
}

/// The routes.
pub fn router(metrics: Arc<Metrics>, shares: Shares, notify: Arc<Notify>) -> Router {
    router_of(Desk {
        metrics,
        shares,
        judge: Arc::new(review::answer),
        notify,
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
    let turn = desk.shares.turn(namespace).await;
    // Whoever doesn't wait for it any more still has the turn until it is judged.
    let judged = spawn_blocking(move || {
        let _turn = turn;
        let answer = (desk.judge)(&body);
        desk.metrics.answered(answer.outcome, begun.elapsed());
        if let Some(notice) = answer.notice {
            (desk.notify)(notice);
        }
        answer.body.to_string()
    });
    match judged.await {
        Ok(text) => ([(CONTENT_TYPE, "application/json")], text).into_response(),
        // Panics are answers; this is the end of the process.
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests;
