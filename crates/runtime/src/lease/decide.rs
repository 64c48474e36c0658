//! The rules of leader election: what was seen, and what to do next. No clock, no client.
//!
//! All times are on this process's monotonic clock, counted from any origin. A record's own
//! timestamps are never read: only *that* a Lease changed is evidence of life.

use std::time::Duration;

/// A moment on the monotonic clock.
pub(super) type Moment = Duration;

/// A Lease as the API server returned it, reduced to what matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// `metadata.resourceVersion`.
    pub(super) version: String,
    /// `spec.holderIdentity`; `None` if absent or empty.
    pub(super) holder: Option<String>,
    /// `spec.leaseDurationSeconds`; `None` if absent or not positive.
    pub(super) duration: Option<Duration>,
    /// `spec.leaseTransitions`.
    pub(super) transitions: i32,
}

/// What a look at the API server or the answer to a write said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// There is no Lease.
    Absent,
    /// There is this one.
    Present(Record),
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Read the Lease: what we know may be out of date.
    Look,
    /// Create the Lease with us as holder; it must not exist.
    Create,
    /// Write us as holder over this version.
    Take {
        /// Version that must still be there.
        version: String,
        /// New value of `spec.leaseTransitions`.
        transitions: i32,
        /// Whether `acquireTime` is to be set.
        fresh: bool,
    },
    /// Do nothing before this moment, then look or renew.
    Wait(Moment),
    /// Leadership is over and must not be taken up again by this process.
    Lost {
        /// Who holds the Lease now, if anybody else does.
        to: Option<String>,
    },
}

/// The times of a [`super::LeaseConfig`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) lease_duration: Duration,
    pub(super) renew_deadline: Duration,
    pub(super) retry_period: Duration,
}

/// The claim of another holder.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Foreign {
    holder: String,
    version: String,
    expiry: Moment,
}

/// One process's view of the election.
#[derive(Debug)]
pub(super) struct Election {
    me: String,
    times: Times,
    /// What was seen last and whether it can still be believed.
    seen: Option<Seen>,
    foreign: Option<Foreign>,
    /// Our own claim: when the last write that succeeded was sent.
    renewed: Option<Moment>,
    /// Not before this moment is anything to be done.
    next: Moment,
}

impl Election {
    pub(super) fn new(me: String, times: Times) -> Self {
        Self {
            me,
            times,
            seen: None,
            foreign: None,
            renewed: None,
            next: Moment::ZERO,
        }
    }

    /// Until when we hold the Lease, if we ever did.
    pub(super) fn own_expiry(&self) -> Option<Moment> {
        self.renewed
            .map(|sent| sent.saturating_add(self.times.renew_deadline))
    }

    /// Who else holds it, and until when we must believe so.
    pub(super) fn foreign(&self) -> Option<(&str, Moment)> {
        self.foreign
            .as_ref()
            .map(|claim| (claim.holder.as_str(), claim.expiry))
    }

    /// The Lease was read at `now`. While another one holds it, the next look comes after the retry
    /// period, lengthened by `dice` (0..1 of a fifth of it), so that standbys don't come together.
    pub(super) fn looked(&mut self, seen: Seen, now: Moment, dice: f64) {
        if let Seen::Present(record) = &seen {
            match &record.holder {
                Some(holder) if *holder != self.me => {
                    let known = self.foreign.as_ref();
                    if known.is_none_or(|claim| claim.version != record.version) {
                        let duration = record.duration.unwrap_or(self.times.lease_duration);
                        self.foreign = Some(Foreign {
                            holder: holder.clone(),
                            version: record.version.clone(),
                            expiry: now.saturating_add(duration),
                        });
                    }
                }
                // Given back, or ours.
                _ => self.foreign = None,
            }
        }
        // An absent Lease leaves a claim seen before in force: somebody deleted the object, but
        // its holder may still act until it notices.
        self.seen = Some(seen);
        if self
            .foreign
            .as_ref()
            .is_some_and(|claim| now < claim.expiry)
        {
            let lengthened = 1.0 + 0.2 * dice.clamp(0.0, 1.0);
            self.next = now.saturating_add(self.times.retry_period.mul_f64(lengthened));
        }
    }

    /// Our write, sent at `sent`, made this record.
    pub(super) fn wrote(&mut self, record: Record, sent: Moment) {
        self.renewed = Some(sent);
        self.foreign = None;
        self.seen = Some(Seen::Present(record));
        self.next = sent.saturating_add(self.times.retry_period);
    }

    /// Our write failed because the Lease had changed, or its outcome is open.
    pub(super) fn write_failed(&mut self, stale: bool, now: Moment) {
        self.seen = None;
        if !stale {
            self.next = now.saturating_add(self.times.retry_period);
        }
    }

    /// A look failed.
    pub(super) fn look_failed(&mut self, now: Moment) {
        self.next = now.saturating_add(self.times.retry_period);
    }

    /// What to do at `now`.
    pub(super) fn decide(&self, now: Moment) -> Step {
        if let Some(expiry) = self.own_expiry() {
            if now >= expiry {
                return Step::Lost {
                    to: self.foreign.as_ref().map(|claim| claim.holder.clone()),
                };
            }
            if let Some(claim) = &self.foreign {
                return Step::Lost {
                    to: Some(claim.holder.clone()),
                };
            }
            if let Some(Seen::Present(Record { holder: None, .. })) = &self.seen {
                // Somebody else gave our Lease back: another may have it any moment.
                return Step::Lost { to: None };
            }
            if now < self.next {
                return Step::Wait(self.next.min(expiry));
            }
            return match &self.seen {
                None => Step::Look,
                Some(Seen::Absent) => Step::Create,
                Some(Seen::Present(record)) => Step::Take {
                    version: record.version.clone(),
                    transitions: record.transitions,
                    fresh: false,
                },
            };
        }
        if now < self.next {
            return Step::Wait(self.next);
        }
        let Some(seen) = &self.seen else {
            return Step::Look;
        };
        if self
            .foreign
            .as_ref()
            .is_some_and(|claim| now < claim.expiry)
        {
            return Step::Look;
        }
        match seen {
            Seen::Absent => Step::Create,
            Seen::Present(record) => Step::Take {
                version: record.version.clone(),
                // Ours already if a write of ours landed whose answer was lost.
                transitions: if record.holder.as_deref() == Some(&self.me) {
                    record.transitions
                } else {
                    record.transitions.saturating_add(1)
                },
                fresh: true,
            },
        }
    }

    /// The version over which to give the Lease back, if it is ours at `now`.
    pub(super) fn vacate(&self, now: Moment) -> Option<&Record> {
        match &self.seen {
            Some(Seen::Present(record))
                if record.holder.as_deref() == Some(&self.me)
                    && self.own_expiry().is_some_and(|expiry| now < expiry) =>
            {
                Some(record)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
