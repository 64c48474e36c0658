//! What the invariants rest on, checked at each call: broken, these say more, and sooner, than two bound delegates
//! would.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::{PodChaperon, keys};
use pilotage_proxy::{Action, ProxyView, class::Marks, feedback, view::ChaperonView};

use crate::{
    candidate::{Candidate, Eviction},
    check::{Violation, has_our_finalizer},
    clock::Time,
    request::Request,
    server::Object,
    world::{Kind, World},
};

/// A lease duration by the fastest clock.
const LEASE: Time = Time::from_secs(12);

/// What there was before a call.
pub(crate) struct Before {
    proxy: Option<Arc<Pod>>,
    chaperon: Option<Arc<PodChaperon>>,
}

impl World {
    /// What a call may change.
    pub(crate) fn before(&self, request: &Request, stage: u8, server: usize) -> Before {
        let remote = request.node(stage).is_some();
        let proxy = match request {
            Request::Ask { proxy, .. } if !remote => Some(&proxy.name),
            Request::Feedback { name, .. } if !remote => Some(name),
            _ => None,
        };
        let chaperon = match request {
            Request::Ask {
                action: Action::Grant { name, .. } | Action::DeleteChaperon { name, .. },
                ..
            } if remote => Some(name),
            Request::Write { key, .. } | Request::Control { key, .. } => Some(key),
            _ => None,
        };
        Before {
            proxy: proxy.and_then(|name| self.servers[0].proxies.get(name).cloned()),
            chaperon: chaperon.and_then(|name| self.servers[server].chaperons.get(name).cloned()),
        }
    }

    /// Whether something is deleted that must stay.
    pub(crate) fn check_deletion(
        &mut self,
        request: &Request,
        stage: u8,
        server: usize,
        before: &Before,
    ) {
        match request {
            Request::Feedback {
                action: feedback::Action::DeleteIfOrphan { name, uid, .. },
                uid: parent,
                ..
            } if stage > 0 => self.check_orphan(server, name, uid, parent),
            Request::Feedback {
                action: feedback::Action::DeleteProxy,
                uid,
                ..
            } => self.check_placed(uid, before.proxy.as_deref()),
            Request::Ask {
                proxy,
                action:
                    Action::DeleteChaperon {
                        uid,
                        resource_version,
                        node,
                        plain,
                        ..
                    },
                ..
            } => {
                let Some(chaperon) = before.chaperon.clone().filter(|c| c.uid() == uid) else {
                    return;
                };
                let meets = resource_version.as_ref().is_none_or(|version| {
                    chaperon.metadata.resource_version.as_ref() == Some(version)
                });
                let delegate = self.servers[server].delegates.get(chaperon.name());
                let runs = delegate.is_some_and(|d| d.owner() == Some(uid) && d.node().is_some());
                // Nobody in a plain target could say so in time.
                let runs = runs && !*plain;
                let view = ChaperonView::of(node, chaperon);
                let bound = runs || view.is_some_and(|view| view.says_bound && !view.marks.missing);
                let live = self.servers[0].proxies.get(&proxy.name);
                let names = live
                    .and_then(|live| ProxyView::of(live))
                    .is_some_and(|live| {
                        let record = live.record.record();
                        !live.ending && record.is_some_and(|record| record.chaperon_uid == *uid)
                    });
                let leaving = self.sites[server - 1].terms.leaving;
                if meets && bound && names && !leaving {
                    let what = format!("{uid} is given up although its delegate is bound");
                    self.broke(Violation::new("I4", what));
                }
            }
            _ => {}
        }
    }

    /// A live read of the record let a deletion pass: then it doesn't name the chaperon.
    pub(crate) fn check_look(&mut self, request: &Request) {
        let Request::Ask {
            proxy,
            action: Action::DeleteUnlessRecorded { uid, .. },
            ..
        } = request
        else {
            return;
        };
        let live = self.servers[0].proxies.get(&proxy.name);
        let live = live.and_then(|live| ProxyView::of(live));
        let record = live.as_ref().and_then(|live| live.record.record());
        if record.is_some_and(|record| record.chaperon_uid == *uid) {
            let what = format!("{uid} is taken for a leftover, but the record names it");
            self.broke(Violation::new("I4", what));
        }
    }

    /// A placed proxy is deleted only if its delegate is gone, or somebody said so.
    fn check_placed(&mut self, uid: &str, before: Option<&Pod>) {
        let Some(view) = before
            .and_then(ProxyView::of)
            .filter(|view| view.uid == uid)
        else {
            return;
        };
        let Some(record) = view.record.record() else {
            return;
        };
        let Some(target) = self.nodes.iter().position(|node| *node == record.node) else {
            return;
        };
        let mut chaperons = self.servers[target + 1].chaperons.all().iter();
        let lives = chaperons.any(|c| c.uid() == record.chaperon_uid);
        if lives && !self.may_leave(&record.chaperon_uid, target) {
            let what = format!("{uid} is deleted although {record} lives");
            self.broke(Violation::new("I1", what));
        }
    }

    /// What a call has changed.
    pub(crate) fn check_call(&mut self, request: &Request, server: usize, before: &Before) {
        if let Some(proxy) = &before.proxy {
            self.check_left(proxy);
            self.note_record(proxy.name());
        }
        if let Some(chaperon) = &before.chaperon {
            self.check_chaperon(request, server, chaperon);
        }
        if let Request::Bind { key, .. } = request {
            self.check_bound(server, key);
        }
    }

    fn note_record(&mut self, name: &str) {
        let view = self.servers[0]
            .proxies
            .get(name)
            .and_then(|pod| ProxyView::of(pod));
        if let Some(record) = view.as_ref().and_then(|view| view.record.record()) {
            self.recorded
                .insert((record.chaperon_uid.clone(), record.attempt));
            if !self.nodes.contains(&record.node) {
                let what = format!("{name} was granted to {}, where nobody asked", record.node);
                self.broke(Violation::new("I1", what));
            }
        }
    }

    fn check_chaperon(&mut self, request: &Request, server: usize, before: &PodChaperon) {
        let name = before.name();
        let now = self.servers[server].chaperons.get(name).cloned();
        let now = now.filter(|now| now.uid() == before.uid());
        self.check_guard(server, before, now.as_deref());
        let Some(now) = now else { return };
        let (was, is) = (Marks::of(before), Marks::of(&now));
        let granted = match (is.allowed == was.allowed, is.is_allowed && !was.is_allowed) {
            (false, _) => Some(Some(is.allowed)),
            (true, true) => Some(None),
            (true, false) => None,
        };
        if granted.is_some() {
            self.granted.insert(now.uid().to_owned());
        }
        if let Some(attempt) = granted
            && !self.recorded.contains(&(now.uid().to_owned(), attempt))
        {
            let what = format!("{} is granted {attempt:?} without a record", now.uid());
            self.broke(Violation::new("I1", what));
        }
        if is.missing && !was.missing {
            // One that was only just made for it may be; but its first reservation would have moved the chaperon on.
            let pod = self.servers[server].delegates.get(name);
            if pod.is_some_and(|pod| {
                let ours = pod.scheduler() == keys::CANDIDATE_SCHEDULER;
                pod.owner() == Some(now.uid()) && pod.node().is_some() && ours
            }) {
                let what = format!("{name} is marked missing its pod, which is there");
                self.broke(Violation::new("I4", what));
            }
        }
        if let Request::Write { write, .. } = request
            && is.attempt != was.attempt
        {
            self.check_takeover(now.uid(), &was);
            let number = self.caller.unwrap_or_default();
            self.answers
                .insert(now.uid().to_owned(), (write.attempt, self.now, number));
        }
    }

    /// A finalizer of ours is lifted from a chaperon when the pod that was reserved for is gone.
    fn check_guard(&mut self, server: usize, before: &PodChaperon, now: Option<&PodChaperon>) {
        if !has_our_finalizer(&before.metadata)
            || now.is_some_and(|now| has_our_finalizer(&now.metadata))
        {
            return;
        }
        let annotations = before.metadata.annotations.as_ref();
        let reserved = annotations.and_then(|all| all.get(keys::RESERVED_POD_UID));
        let pod = self.servers[server].delegates.get(before.name());
        if pod.is_some_and(|pod| Some(pod.uid()) == reserved.map(String::as_str)) {
            let what = format!(
                "{} loses its finalizer before the pod it reserved for",
                before.name()
            );
            self.broke(Violation::new("I1", what));
        }
    }

    /// I7, as a candidate scheduler evicts: for a chaperon that was granted, once for an attempt, and at no higher cost
    /// and for no longer than that attempt has told. Who follows a pod that had been bound needs no grant of its own.
    pub(crate) fn check_eviction(&mut self, slot: usize, server: usize, eviction: Eviction) {
        let Eviction {
            chaperon,
            attempt,
            cost,
        } = eviction;
        let number = self.slots[slot].as_ref().map(|process| process.number);
        let granted = self.granted.contains(&chaperon);
        let Some(attempt) = attempt.filter(|_| granted) else {
            let what = format!("somebody is evicted for {chaperon}, which isn't granted");
            return self.broke(Violation::new("I7", what));
        };
        let mut answers = self.servers[server].chaperons.all().iter();
        let answer = answers.find(|known| known.uid() == chaperon);
        let answer = answer.map(|known| Marks::of(known));
        if let Some(told) = answer.filter(|answer| answer.attempt == attempt)
            && !told.preempts.is_some_and(|told| cost.is_within(&told))
        {
            let what = format!(
                "{} evicts for {chaperon} at {cost}, told {:?}",
                Self::name_of(slot),
                told.preempts
            );
            self.broke(Violation::new("I7", what));
        }
        let by = (number.unwrap_or_default(), chaperon, attempt);
        if !self.evicted.insert(by.clone()) {
            let what = format!(
                "{} evicts twice for attempt {attempt} of {}",
                Self::name_of(slot),
                by.1
            );
            self.broke(Violation::new("I7", what));
        }
    }

    /// An answer of another process that may live is left alone for a lease duration, unless it stood there before.
    fn check_takeover(&mut self, uid: &str, was: &Marks) {
        let Some((attempt, at, by)) = self.answers.get(uid).copied() else {
            return;
        };
        let Some(caller) = self.caller.filter(|caller| *caller < by) else {
            return;
        };
        let is = |number: u32, what: &dyn Fn(&Candidate) -> bool| {
            let mut processes = self.slots.iter().flatten();
            processes.any(|process| match &process.kind {
                Kind::Candidate(candidate) => process.number == number && what(candidate),
                _ => false,
            })
        };
        let holds = is(by, &|other| other.holds(uid, attempt));
        let found = is(caller, &|own| own.found(uid, attempt));
        // An answer of its own that may have landed looks the same.
        let own = self.tried.contains(&(caller, uid.to_owned(), attempt));
        if holds
            && !own
            && !found
            && was.reserved
            && was.attempt == attempt
            && self.now < at + LEASE
        {
            let what =
                format!("process {caller} overwrites the answer of {by}, who holds a node for it");
            self.broke(Violation::new("I2", what));
        }
    }
}
