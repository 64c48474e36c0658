//! When certificates are made, rotated and retired: pure. Must not know keys, secrets or clocks.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use thiserror::Error;

use super::Material;

/// How long certificates live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// Life of a CA; its successor is published when a third is left.
    pub ca: SignedDuration,
    /// Life of a serving certificate; it is replaced when a third is left.
    pub serving: SignedDuration,
    /// Time between the steps of a CA's rotation: longer than it takes until every API server and every replica has
    /// seen a change.
    pub overlap: SignedDuration,
}

/// Timings that can't work.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TimingsError {
    /// One of them is zero.
    #[error("--ca-validity, --certificate-validity and --ca-overlap must be longer than nothing")]
    Zero,
    /// One is too long for a date.
    #[error(
        "--ca-validity, --certificate-validity and --ca-overlap can't be longer than a hundred years"
    )]
    TooLong,
    /// A CA would expire before its rotation is over.
    #[error(
        "--ca-validity must be at least three times --certificate-validity and --ca-overlap together: a CA is \
         rotated when a third of its life is left"
    )]
    Order,
}

const CENTURY: SignedDuration = SignedDuration::from_hours(100 * 365 * 24);

impl Timings {
    /// Checks that a CA outlives its rotation.
    pub fn new(ca: Duration, serving: Duration, overlap: Duration) -> Result<Self, TimingsError> {
        let [ca, serving, overlap] = [ca, serving, overlap].map(SignedDuration::try_from);
        let (Ok(ca), Ok(serving), Ok(overlap)) = (ca, serving, overlap) else {
            return Err(TimingsError::TooLong);
        };
        if [ca, serving, overlap].iter().any(|time| *time > CENTURY) {
            return Err(TimingsError::TooLong);
        }
        if [ca, serving, overlap].iter().any(SignedDuration::is_zero) {
            return Err(TimingsError::Zero);
        }
        if ca < serving.saturating_add(overlap).saturating_mul(3) {
            return Err(TimingsError::Order);
        }
        Ok(Self {
            ca,
            serving,
            overlap,
        })
    }
}

/// The moment that lies `span` after `start`, as far as time is counted: stored moments may lie anywhere.
pub(super) fn after(start: Timestamp, span: SignedDuration) -> Timestamp {
    start.checked_add(span).unwrap_or(Timestamp::MAX)
}

/// The moment that lies `span` before `end`.
pub(super) fn before(end: Timestamp, span: SignedDuration) -> Timestamp {
    end.checked_sub(span).unwrap_or(Timestamp::MIN)
}

/// `1 / parts` of a span.
fn part(span: SignedDuration, parts: i32) -> SignedDuration {
    span.checked_div(parts).unwrap_or(SignedDuration::ZERO)
}

/// What is to be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing, until then.
    Keep {
        /// When to ask again.
        until: Timestamp,
    },
    /// Begin anew: there is nothing, or nothing that can be used any more.
    Create,
    /// Make a new serving certificate, signed by the same CA.
    Renew(Renewal),
    /// Make a new CA, trust it, and let it sign from then on.
    Publish {
        /// From when on it signs.
        from: Timestamp,
    },
    /// Let the published CA sign, and trust the old one until then.
    Switch {
        /// Until when the old one is trusted.
        until: Timestamp,
    },
    /// Don't trust the retired CA any more.
    Retire,
}

/// Why a serving certificate is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// It comes to its end.
    Age,
    /// It isn't good for the name that the API server uses.
    Names,
}

/// What to do with `material` at `now`, if the API server calls the webhook by `names`.
pub fn decide(
    material: Option<&Material>,
    names: &[String],
    now: Timestamp,
    timings: &Timings,
) -> Step {
    let Some(Material {
        ca,
        serving,
        next,
        retired,
    }) = material
    else {
        return Step::Create;
    };
    if ca.not_after <= now {
        return Step::Create;
    }
    if !names.iter().all(|name| serving.names.contains(name)) {
        return Step::Renew(Renewal::Names);
    }
    let next_from = next.as_ref().map(|next| next.from);
    let retired_until = retired.as_ref().map(|retired| retired.until);
    // A certificate never outlives its CA, so one that ends with it can't be bettered.
    let renew_at = (serving.not_after < ca.not_after).then(|| {
        let life = serving.not_after.duration_since(serving.made);
        before(serving.not_after, part(life, 3))
    });
    // One rotation at a time.
    let publish_at =
        (next.is_none() && retired.is_none()).then(|| before(ca.not_after, part(timings.ca, 3)));

    let due = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
    if due(next_from) {
        return Step::Switch {
            until: after(now, timings.overlap),
        };
    }
    if due(retired_until) {
        return Step::Retire;
    }
    if due(publish_at) {
        // A CA that is nearly over (nobody was here for long) leaves less time.
        let left = part(ca.not_after.duration_since(now), 2);
        return Step::Publish {
            from: after(now, timings.overlap.min(left)),
        };
    }
    if due(renew_at) {
        return Step::Renew(Renewal::Age);
    }
    let times = [next_from, retired_until, publish_at, renew_at]
        .into_iter()
        .flatten();
    Step::Keep {
        until: times.min().unwrap_or(ca.not_after),
    }
}

#[cfg(test)]
mod tests;
