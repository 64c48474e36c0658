//! When a process of the source decides, and the requests that follow.

use std::{collections::BTreeMap, sync::Arc};

use pilotage_api::record::Record;
use pilotage_proxy::{
    Action, Book, ChoiceFate, Gate, Monotonic, Note, ProxyView, Settings, Words, book::Turn,
    feedback,
};

use super::{Cx, Entry, Link, Part, Source};
use crate::request::Request;

/// Back-off of a pod whose choice failed.
const BACKOFF: Monotonic = Monotonic::from_secs(1);

impl Source {
    pub(super) fn decide_all(&mut self, cx: &mut Cx<'_>) {
        let uids = match &self.part {
            Part::Ask { entries, .. } => entries.keys().cloned().collect(),
            Part::Feedback { book, .. } => book.uids().map(str::to_owned).collect(),
        };
        self.decide_each(uids, cx);
    }

    /// Whom it concerns that something has become of a target.
    pub(super) fn concerned(&self, node: &str) -> Vec<String> {
        match &self.part {
            Part::Ask { book, .. } => book.concerned(node),
            Part::Feedback { book, .. } => book.concerned(node),
        }
    }

    pub(super) fn decide_each(&mut self, mut uids: Vec<String>, cx: &mut Cx<'_>) {
        uids.sort();
        uids.dedup();
        for uid in uids {
            self.decide(&uid, cx);
        }
    }

    /// Somebody's word, if there is one, for leaving what `record` names.
    /// `asked`: when this process began to want its end.
    fn note_word(
        links: &[Link],
        record: Option<&Record>,
        asked: Option<Monotonic>,
        cx: &mut Cx<'_>,
    ) {
        let Some(record) = record else { return };
        let target = cx.nodes.iter().position(|node| *node == record.node);
        let has_word = |link: &Link| {
            link.has_word(cx.own_policy, cx.now) || link.has_had_its_time(asked, cx.now)
        };
        if target.is_none_or(|target| has_word(&links[target])) {
            cx.words.insert(record.chaperon_uid.clone());
        }
    }

    /// Lets those decide who waited for room at a target and have it now.
    pub(super) fn call(&mut self, cx: &mut Cx<'_>) {
        if let Part::Ask { book, .. } = &mut self.part {
            for uid in book.call(cx.now) {
                self.decide(&uid, cx);
            }
        }
    }

    pub(super) fn decide(&mut self, uid: &str, cx: &mut Cx<'_>) {
        let unknown = match &self.part {
            Part::Ask { book, .. } => book.unknown_target(uid),
            Part::Feedback { book, .. } => book.unknown_target(uid),
        };
        if let Some(node) = unknown
            && !self.looking.iter().any(|(known, _)| known == node)
        {
            self.looking.push((node.to_owned(), None));
            cx.sent.push(Request::Look {
                node: node.to_owned(),
            });
        }
        match &mut self.part {
            Part::Ask { book, entries } => {
                // A choice that failed is decided on again without it.
                let known = (&self.settings, self.links.as_slice());
                while decide_ask(book, entries, uid, known, &mut self.asked, cx) {}
                self.call(cx);
            }
            Part::Feedback { book, wakes } => {
                wakes.remove(uid);
                let Some(plan) = book.plan(uid, cx.now) else {
                    return;
                };
                if let Some(at) = plan.wake_at {
                    wakes.insert(uid.to_owned(), at);
                }
                let leaves = |action: &feedback::Action| {
                    use feedback::Action::{DeleteProxy, EndGrace, RemoveFinalizer};
                    matches!(action, DeleteProxy | EndGrace | RemoveFinalizer { .. })
                };
                if plan.actions.iter().any(leaves) {
                    let record = book.pod(uid).and_then(|(view, _)| view.record.record());
                    let asked = self.asked.get(uid).copied();
                    Self::note_word(&self.links, record, asked, cx);
                }
                for action in plan.actions {
                    let name = match (book.pod(uid), &action) {
                        (Some((view, _)), _) => view.name.clone(),
                        (None, feedback::Action::DeleteIfOrphan { parent, .. }) => {
                            parent.name.clone()
                        }
                        (None, _) => continue,
                    };
                    book.begin(uid, &action, plan.judged_on.as_deref(), cx.now);
                    cx.sent.push(Request::Feedback {
                        uid: uid.to_owned(),
                        name,
                        action,
                    });
                }
            }
        }
    }
}

/// One decision; whether another one has to follow.
fn decide_ask(
    book: &mut Book,
    entries: &mut BTreeMap<String, Entry>,
    uid: &str,
    (settings, links): (&Settings, &[Link]),
    asked: &mut BTreeMap<String, Monotonic>,
    cx: &mut Cx<'_>,
) -> bool {
    let Some(entry) = entries.get_mut(uid) else {
        return false;
    };
    let mut ranking = cx.ranking.to_vec();
    for ranked in &mut ranking {
        ranked.surely_fits &= !book.is_silent(&ranked.node, cx.now);
    }
    ranking.sort_by_key(|ranked| book.is_silent(&ranked.node, cx.now));
    let turn = Turn {
        ranking: &ranking,
        choice: entry.choice.as_deref(),
        settings,
        now: cx.now,
    };
    let Some(plan) = book.plan(uid, turn) else {
        return false;
    };
    entry.wake = plan.wake_at;
    let mut again = plan.tell.is_some();
    if let Some(note) = &plan.tell {
        let message = note.to_string();
        let reason = "Waiting";
        book.say(uid, Some(Words { reason, message }));
    }
    match plan.choice {
        ChoiceFate::Undecided => {}
        ChoiceFate::Done => entry.choice = None,
        ChoiceFate::Failed(_) => {
            let chose = entry.choice.take().is_some();
            again |= chose;
            if chose {
                entry.cycle = Some(cx.now + BACKOFF);
            }
        }
    }
    let settled = plan.gate == Gate::Closed(Note::Settled);
    let posting = (plan.gate, plan.answers);
    let worth_a_cycle = posting.0 == Gate::Open && entry.posting.as_ref() != Some(&posting);
    entry.posting = Some(posting);
    if worth_a_cycle && !settled && entry.choice.is_none() {
        entry.cycle = Some(cx.now);
    }
    if settled {
        entry.cycle = None;
    }
    for action in &plan.actions {
        book.begin(uid, action, cx.now);
        if let Action::GiveUp { uid, .. } | Action::DeleteChaperon { uid, .. } = action {
            asked.entry(uid.clone()).or_insert(cx.now);
        }
    }
    let Some(proxy) = book.proxy(uid) else {
        return false;
    };
    let proxy: &ProxyView = proxy;
    let leaves = |action: &Action| matches!(action, Action::Record { .. });
    if plan.actions.iter().any(leaves) {
        let record = proxy.record.record();
        let asked = record.and_then(|it| asked.get(&it.chaperon_uid).copied());
        Source::note_word(links, record, asked, cx);
    }
    for action in plan.actions {
        cx.sent.push(Request::Ask {
            proxy: proxy.clone(),
            pod: Arc::clone(&entry.pod),
            action,
        });
    }
    again
}
