//! Takes in the body of a request as far as there is room for it. What there is none for is read and dropped, but for
//! its beginning: who is answered in the midst of sending would rather see a broken connection than the answer. Must
//! not know what is in it.

use std::pin::pin;

use axum::body::{Body, HttpBody};
use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::room::{Room, Space};

/// Longest body, in bytes. An object is at most 3 MiB as it is sent, and with its defaults filled in it is longer. What
/// is too large to be elected is told in an answer as far as this.
pub(crate) const BODY_LIMIT: usize = 8 * 1024 * 1024;
/// So much is kept of a body for which there is no room, in bytes: API servers write first what an answer needs.
pub(crate) const BEGINNING: usize = 4 * 1024;

/// What was taken in of a body.
pub(crate) enum Taken {
    /// All of it.
    Whole(Vec<u8>, Space),
    /// There was no room, or not until its end: how it begins.
    Beginning(Vec<u8>),
    /// It is longer than any that is read.
    TooLong,
    /// It broke off.
    Broken(axum::Error),
}

/// Takes in a body. One that doesn't say how long it is counts for the longest.
pub(crate) async fn take_in(body: Body, room: &Room) -> Taken {
    let length = match body.size_hint().exact() {
        Some(length) => usize::try_from(length).unwrap_or(usize::MAX),
        None => BODY_LIMIT,
    };
    if length > BODY_LIMIT {
        return Taken::TooLong;
    }
    let mut space = room.enter(length);
    let pushed = space
        .as_ref()
        .map_or_else(CancellationToken::new, Space::pushed);
    let mut pushed = pin!(pushed.cancelled_owned());
    let kept = if space.is_some() { length } else { BEGINNING };
    let (mut bytes, mut read) = (Vec::with_capacity(kept), 0_usize);
    let mut chunks = body.into_data_stream();
    loop {
        let chunk = tokio::select! {
            biased;
            () = &mut pushed, if space.is_some() => {
                space = None;
                bytes.truncate(BEGINNING);
                bytes.shrink_to_fit();
                continue;
            }
            chunk = chunks.next() => chunk,
        };
        let chunk = match chunk {
            Some(Ok(chunk)) => chunk,
            Some(Err(error)) => return Taken::Broken(error),
            None => break,
        };
        read = read.saturating_add(chunk.len());
        if read > BODY_LIMIT {
            return Taken::TooLong;
        }
        let part = if space.is_some() {
            chunk.len()
        } else {
            BEGINNING.saturating_sub(bytes.len()).min(chunk.len())
        };
        bytes.extend_from_slice(chunk.get(..part).unwrap_or_default());
    }
    match space {
        Some(space) => Taken::Whole(bytes, space),
        None => Taken::Beginning(bytes),
    }
}
