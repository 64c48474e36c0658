//! The webhook's HTTP routes, without port and TLS.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use tokio::task::spawn_blocking;

use crate::intake::{BEGINNING, Taken, take_in};
use crate::metrics::Metrics;
use crate::review::{self, Answer, Notice, Outcome};
use crate::room::{Lack, Room};
use crate::shares::Shares;

/// Where the API server asks; as in Admiralty.
pub const PATH: &str = "/mutate--v1-pod";

/// Judges a review.
type Judge = dyn Fn(&[u8]) -> Answer + Send + Sync;

/// Takes what somebody should be told; it must not wait.
pub type Notify = dyn Fn(Notice) + Send + Sync;

/// What answers.
#[derive(Clone)]
struct Desk {
    metrics: Arc<Metrics>,
    room: Room,
    shares: Shares,
    judge: Arc<Judge>,
    notify: Arc<Notify>,
}

impl Desk {
    /// Says that a review isn't judged now, of which at least the beginning was read.
    fn turn_away(&self, body: &[u8], why: &Lack, begun: Instant) -> Response {
        let beginning = body.get(..BEGINNING).unwrap_or(body);
        let answer = review::later(beginning, &why.to_string());
        self.metrics.answered(Outcome::Busy, begun.elapsed());
        if let Some(answer) = answer {
            let text = answer.body.to_string();
            return ([(CONTENT_TYPE, "application/json")], text).into_response();
        }
        let later = [(RETRY_AFTER, review::LATER.to_string())];
        (StatusCode::TOO_MANY_REQUESTS, later, why.to_string()).into_response()
    }
}

/// The routes.
pub fn router(metrics: Arc<Metrics>, shares: Shares, notify: Arc<Notify>) -> Router {
    router_of(Desk {
        metrics,
        room: Room::default(),
        shares,
        judge: Arc::new(review::answer),
        notify,
    })
}

fn router_of(desk: Desk) -> Router {
    Router::new().route(PATH, post(mutate)).with_state(desk)
}

async fn mutate(State(desk): State<Desk>, request: Request) -> Response {
    let content_type = request.headers().get(CONTENT_TYPE);
    let content_type = content_type
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
    let taken = take_in(request.into_body(), &desk.room).await;
    let begun = Instant::now();
    let (body, mut space) = match taken {
        Taken::Whole(body, space) => (body, space),
        Taken::Beginning(beginning) => return desk.turn_away(&beginning, &Lack::Room, begun),
        Taken::TooLong => return StatusCode::PAYLOAD_TOO_LARGE.into_response(),
        Taken::Broken(error) => {
            return (StatusCode::BAD_REQUEST, error.to_string()).into_response();
        }
    };
    let namespace = review::namespace(&body).unwrap_or_default();
    if let Err(why) = space.settle(body.len(), &namespace) {
        return desk.turn_away(&body, &why, begun);
    }
    let turn = desk.shares.turn(namespace).await;
    // Whoever doesn't wait for it any more still has the turn, and the room, until it is judged.
    let judged = spawn_blocking(move || {
        let _held = (turn, space);
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
