//! What is done to single requests: whose reply is lost, which are held back, which watches have expired. It knows
//! nothing of how requests are forwarded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use super::call::{Call, Calls};

/// How often a rule is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// So often, then no more.
    Next(usize),
    /// Until it is taken back.
    Always,
}

/// All rules of one proxy, and the watches under way.
#[derive(Debug, Default)]
pub(super) struct Rules(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    once: Vec<Once>,
    expired: Vec<(Calls, Times)>,
    watches: BTreeMap<u64, (Call, Arc<Notify>)>,
    next: u64,
}

/// A rule for the next request that fits.
#[derive(Debug)]
enum Once {
    Lose(Calls, oneshot::Sender<u16>),
    Hold(Calls, Catch),
}

/// The proxy's end of a [`Held`].
#[derive(Debug)]
pub(super) struct Catch {
    pub(super) caught: oneshot::Sender<()>,
    pub(super) release: oneshot::Receiver<oneshot::Sender<u16>>,
}

/// What is to be done with a request.
#[derive(Debug)]
pub(super) enum Verdict {
    Forward,
    /// Tell the status of the reply, and close the connection instead of passing it on.
    LoseReply(oneshot::Sender<u16>),
    Hold(Catch),
    /// The place in history that this watch wants to go on from is forgotten.
    Expired,
}

/// The next request that fits will lose its reply. Dropping this before it came withdraws the rule.
#[derive(Debug)]
#[must_use = "dropping it withdraws the rule"]
pub struct LostReply(oneshot::Receiver<u16>);

impl LostReply {
    /// Waits until the API server has answered such a request and the answer is lost; returns its status. `None` if
    /// the proxy has ended before.
    pub async fn caught(self) -> Option<u16> {
        self.0.await.ok()
    }
}

/// The next request that fits will be held back. Dropping this before it came withdraws the rule; dropping it later
/// lets the request never arrive.
#[derive(Debug)]
#[must_use = "dropping it withdraws the rule"]
pub struct Held {
    caught: Option<oneshot::Receiver<()>>,
    release: oneshot::Sender<oneshot::Sender<u16>>,
}

impl Held {
    /// Waits until a request is held; `false` if the proxy has ended before.
    pub async fn caught(&mut self) -> bool {
        match self.caught.take() {
            Some(caught) => caught.await.is_ok(),
            None => true,
        }
    }

    /// Whether a request is held.
    pub fn is_caught(&mut self) -> bool {
        let is = (self.caught.as_mut()).is_none_or(|caught| caught.try_recv().is_ok());
        if is {
            self.caught = None;
        }
        is
    }

    /// Lets the request land, whether or not its sender still waits; returns the status of the reply. `None` if there
    /// was no request or it got no reply.
    pub async fn release(self) -> Option<u16> {
        let (told, status) = oneshot::channel();
        self.release.send(told).ok()?;
        status.await.ok()
    }
}

/// A watch under way, known until this is dropped.
#[derive(Debug)]
pub(super) struct Entry {
    rules: Arc<Rules>,
    id: u64,
    pub(super) expired: Arc<Notify>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.rules.lock().watches.remove(&self.id);
    }
}

impl Rules {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lose_reply(&self, calls: Calls) -> LostReply {
        let (told, caught) = oneshot::channel();
        self.lock().once.push(Once::Lose(calls, told));
        LostReply(caught)
    }

    pub(super) fn hold(&self, calls: Calls) -> Held {
        let (caught, is_caught) = oneshot::channel();
        let (release, released) = oneshot::channel();
        let catch = Catch {
            caught,
            release: released,
        };
        self.lock().once.push(Once::Hold(calls, catch));
        Held {
            caught: Some(is_caught),
            release,
        }
    }

    pub(super) fn refuse_watches(&self, calls: Calls, times: Times) {
        self.lock().expired.push((calls, times));
    }

    pub(super) fn accept_watches(&self) {
        self.lock().expired.clear();
    }

    /// Ends the watches under way that fit; how many those are.
    pub(super) fn expire(&self, calls: &Calls) -> usize {
        let inner = self.lock();
        let fitting = inner.watches.values();
        fitting
            .filter(|(call, _)| calls.include(call))
            .map(|(_, expired)| expired.notify_one())
            .count()
    }

    pub(super) fn watches(&self) -> usize {
        self.lock().watches.len()
    }

    pub(super) fn watch_begins(self: &Arc<Self>, call: &Call) -> Entry {
        let mut inner = self.lock();
        let id = inner.next;
        inner.next += 1;
        let expired = Arc::new(Notify::new());
        inner
            .watches
            .insert(id, (call.clone(), Arc::clone(&expired)));
        drop(inner);
        Entry {
            rules: Arc::clone(self),
            id,
            expired,
        }
    }

    /// What is to be done with this request; uses the rule up that says so.
    pub(super) fn judge(&self, call: &Call) -> Verdict {
        let mut inner = self.lock();
        // Nobody waits for these any more.
        inner.once.retain(|rule| match rule {
            Once::Lose(_, told) => !told.is_closed(),
            Once::Hold(_, catch) => !catch.caught.is_closed(),
        });
        let fits = |rule: &Once| match rule {
            Once::Lose(calls, _) | Once::Hold(calls, _) => calls.include(call),
        };
        if let Some(index) = inner.once.iter().position(fits) {
            return match inner.once.remove(index) {
                Once::Lose(_, told) => Verdict::LoseReply(told),
                Once::Hold(_, catch) => Verdict::Hold(catch),
            };
        }
        if call.resumes {
            let fitting = inner
                .expired
                .iter_mut()
                .find(|(calls, times)| *times != Times::Next(0) && calls.include(call));
            if let Some((_, times)) = fitting {
                if let Times::Next(left) = times {
                    *left -= 1;
                }
                return Verdict::Expired;
            }
        }
        Verdict::Forward
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::super::call::Verb;
    use super::*;

    fn call(method: &Method, uri: &str) -> Call {
        Call::of(method, &uri.parse().unwrap())
    }

    #[tokio::test]
    async fn a_rule_is_used_once_and_can_be_withdrawn() {
        let rules = Rules::default();
        let create = call(&Method::POST, "/api/v1/namespaces/n/pods");
        let lost = rules.lose_reply(Calls::of(Verb::Create, "pods"));
        drop(rules.hold(Calls::any()));
        let Verdict::LoseReply(told) = rules.judge(&create) else {
            panic!("the reply must be lost");
        };
        told.send(201).unwrap();
        assert_eq!(lost.caught().await, Some(201));
        assert!(matches!(rules.judge(&create), Verdict::Forward));
    }

    #[tokio::test]
    async fn only_watches_that_resume_expire_and_as_often_as_asked() {
        let rules = Rules::default();
        let resumed = call(&Method::GET, "/api/v1/pods?watch=true&resourceVersion=7");
        let fresh = call(&Method::GET, "/api/v1/pods?watch=true");
        let nodes = call(&Method::GET, "/api/v1/nodes?watch=true&resourceVersion=7");
        let pods = Calls::any().resource("pods");
        rules.refuse_watches(pods.clone(), Times::Next(1));
        assert!(matches!(rules.judge(&fresh), Verdict::Forward));
        assert!(matches!(rules.judge(&nodes), Verdict::Forward));
        assert!(matches!(rules.judge(&resumed), Verdict::Expired));
        assert!(matches!(rules.judge(&resumed), Verdict::Forward));
        rules.refuse_watches(pods.clone(), Times::Always);
        for _ in 0..3 {
            assert!(matches!(rules.judge(&resumed), Verdict::Expired));
        }
        rules.accept_watches();
        assert!(matches!(rules.judge(&resumed), Verdict::Forward));
    }

    #[tokio::test]
    async fn watches_under_way_are_known_until_they_end() {
        let rules = Arc::new(Rules::default());
        let entry = rules.watch_begins(&call(&Method::GET, "/api/v1/pods?watch=true"));
        assert_eq!(rules.expire(&Calls::any().resource("nodes")), 0);
        assert_eq!(rules.expire(&Calls::any().resource("pods")), 1);
        entry.expired.notified().await;
        drop(entry);
        assert_eq!((rules.watches(), rules.expire(&Calls::any())), (0, 0));
    }
}
