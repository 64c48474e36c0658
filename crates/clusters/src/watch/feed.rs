//! What a watch has told and a reader hasn't read yet. A feed has no limit of its own, so that a slow reader delays
//! nobody and misses nothing; but what waits in the feeds of a target is counted, and who goes on telling beyond the
//! bound is lost.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::mpsc::{self, error::TryRecvError};

use super::event::Event;
use crate::budget::Budget;

/// What a place in a queue takes, beside the object.
const PLACE: usize = 512;

/// An event's share of its target's budget, as long as it waits in any queue. Clones are one share.
#[derive(Clone, Default)]
pub struct Unread(#[allow(dead_code, reason = "it matters when it goes")] Option<Arc<Share>>);

struct Share {
    budget: Arc<Budget>,
    weight: usize,
}

impl Unread {
    pub(super) fn new(budget: Option<&Arc<Budget>>, weight: usize) -> Self {
        Self(budget.map(|budget| {
            let weight = weight.saturating_add(PLACE);
            budget.queue(weight);
            Arc::new(Share {
                budget: budget.clone(),
                weight,
            })
        }))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.unqueue(self.weight);
    }
}

impl fmt::Debug for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unread")
    }
}

/// An event on its way to a reader.
pub(super) type Told<K> = (Event<K>, Unread);

/// One reader's events, in order.
pub struct Feed<K>(mpsc::UnboundedReceiver<Told<K>>);

impl<K> Feed<K> {
    /// One to which the events are sent.
    pub(super) fn new() -> (mpsc::UnboundedSender<Told<K>>, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (sender, Self(receiver))
    }

    /// These events and no others.
    pub fn of(events: impl IntoIterator<Item = Event<K>>) -> Self {
        let (sender, feed) = Self::new();
        for event in events {
            // The receiver is right here.
            let _ = sender.send((event, Unread::default()));
        }
        feed
    }

    /// The next event; none, if the watch is gone. It doesn't count any more.
    pub async fn recv(&mut self) -> Option<Event<K>> {
        Some(self.take().await?.0)
    }

    /// The next event that is there already.
    pub fn try_recv(&mut self) -> Result<Event<K>, TryRecvError> {
        Ok(self.try_take()?.0)
    }

    /// The next event, for whoever puts it into a queue of its own: it counts until its share goes.
    pub async fn take(&mut self) -> Option<(Event<K>, Unread)> {
        self.0.recv().await
    }

    /// The same, of those that are there already.
    pub fn try_take(&mut self) -> Result<(Event<K>, Unread), TryRecvError> {
        self.0.try_recv()
    }

    /// As [`Self::recv`], for a future that is written by hand.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<Event<K>>> {
        let told = self.0.poll_recv(context);
        told.map(|told| told.map(|(event, _)| event))
    }

    /// How many events are there already.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K> fmt::Debug for Feed<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Feed({})", self.len())
    }
}
