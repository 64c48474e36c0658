//! One pod's turn: decides for it, tells what came of that, sends the requests. Knows nothing of what comes in, nor of
//! who else has a turn.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use pilotage_api::trace::TraceParent;
use pilotage_proxy::{
    Action, Answer, ChoiceFate, Gate, Note, Plan, Released, Words, board::Posting, book::Turn,
    placing::expected_at, plugins::GrantFailure, rank::class_unheld,
};
use pilotage_runtime::slice::Slice;
use pilotage_sched::PodUid;
use pilotage_sched_driver::publish::EventType;

use super::{Edge, Finished};
use crate::{
    ask::{act::Question, progress::Stage, story::story},
    caught::{AFTER_PANIC, PANICKED, caught_async, note, replied},
    proxies::keep_less,
};

/// Reason of the event that says why a pod that has its place didn't get another one.
const PASSED_OVER: &str = "PassedOver";

impl Edge {
    pub(super) async fn take_turn(&mut self, uid: &str, slice: &mut Slice) {
        if self.timers.is_held(uid) {
            // Whoever waits for its turn goes on.
            self.book.pass(uid);
            return;
        }
        let turn = async {
            let now = self.clock.now();
            self.trace_look(uid);
            self.rank(uid, now, slice).await;
            self.step(uid, now);
        };
        if let Err(panic) = caught_async(turn).await {
            self.panicked(uid, &panic);
        }
    }

    /// A mistake of ours about one pod: whoever chose for it hears that nothing comes of it, and its author hears of
    /// it, too.
    pub(super) fn panicked(&mut self, uid: &str, panic: &str) {
        tracing::error!(pod = %uid, panic, "a step panicked");
        // Whoever waits for its turn goes on.
        self.book.pass(uid);
        let until = self.clock.now().saturating_add(AFTER_PANIC);
        self.timers.hold(&uid.to_owned(), until);
        let Some(proxy) = self.proxies.get_mut(uid) else {
            return;
        };
        if let Some((node, done)) = proxy.choice.take() {
            let reason = note(panic);
            let _ = done.send(Err(GrantFailure::Failed { node, reason }));
        }
        let (scheduling, event) = (&self.parts.scheduling, EventType::Warning);
        scheduling.record(&proxy.pod, event, PANICKED, "Scheduling", note(panic));
    }

    fn step(&mut self, uid: &str, now: Duration) {
        #[cfg(test)]
        crate::caught::on_purpose::step(uid);
        if let Some(node) = self.book.unknown_target(uid) {
            self.acting.fleet.look_for(node);
        }
        let book = &self.book;
        let open = self.places.open_questions(|node| book.is_silent(node, now));
        let Some(proxy) = self.proxies.get_mut(uid) else {
            return;
        };
        let settings = self.ranker.policy(proxy.policy).asking.under_load(open);
        let turn = Turn {
            ranking: &proxy.ranking,
            choice: proxy.choice.as_ref().map(|(node, _)| node.as_str()),
            settings: &settings,
            now,
        };
        let Some(plan) = self.book.plan(uid, turn) else {
            return;
        };
        let Plan {
            actions,
            gate,
            mut answers,
            choice,
            queue,
            tell,
            released,
            wake_at,
        } = plan;
        self.timers.set(&uid.to_owned(), wake_at);
        let view = self.book.proxy(uid);
        if let Some(view) = view {
            proxy.progress.see(&proxy.pod, view, now, Timestamp::now);
            let bound = view.node_name.is_some();
            let after = bound.then(|| proxy.progress.reach(Stage::Bound, now));
            if let Some(after) = after.flatten() {
                self.parts.counts.reached(Stage::Bound, after);
            }
        }
        if proxy.queued != queue {
            self.parts.counts.queued(&proxy.queued, &queue);
            proxy.queued = queue;
        }
        let placed = view.is_none_or(|view| view.node_name.is_some());
        let unheld = view.is_some_and(|view| view.no_reservation);
        match view.filter(|view| !view.terminal) {
            Some(view) if !placed => {
                let chaperons = self.book.chaperons(uid);
                let node = expected_at(view, chaperons, &proxy.ranking, &actions);
                self.ranker.expect_guest(uid, node, &proxy.want);
                self.expected.set(uid, node.zip(proxy.info.as_ref()));
            }
            guest => {
                let node = guest.and_then(|view| view.node_name.as_deref());
                self.ranker.set_guest(uid, node, &proxy.want);
                self.expected.set(uid, None);
            }
        }
        if let (Some(order), false) = (&proxy.order, placed) {
            // Whatever was asked there earlier: it can't be chosen.
            let passed = order.passed();
            answers.extend(
                passed.map(|(node, reason)| {
                    (node.to_owned(), Answer::PassedOver(reason.to_string()))
                }),
            );
        }
        let chaperons = if placed {
            &[]
        } else {
            self.book.chaperons(uid)
        };
        // Once it is chosen, the scheduler itself counts it.
        let info = proxy.info.as_ref().filter(|_| proxy.choice.is_none());
        let asks = |node: &str| !placed && self.book.is_asking(uid, node);
        self.places.see(uid, info, chaperons, asks);
        if let Some(note) = tell {
            let (reason, event) = note.reasons();
            let (scheduling, message) = (&self.parts.scheduling, in_full(&note, &answers));
            let warning = EventType::Warning;
            scheduling.record(&proxy.pod, warning, event, "Scheduling", message.clone());
            let words = Words { reason, message };
            self.book.say(uid, Some(words));
            self.dirty.insert(uid.to_owned());
        }
        let mut let_go = None;
        if let Some(released) = &released {
            let_go = Some(if released.given_up {
                "given_up"
            } else {
                "released"
            });
            let (scheduling, note) = (&self.parts.scheduling, released.to_string());
            let event = event_of(released);
            scheduling.record(&proxy.pod, event, released.reason(), "Scheduling", note);
        }
        let mut left = false;
        match choice {
            ChoiceFate::Undecided => {}
            ChoiceFate::Done => {
                if let Some((_, done)) = proxy.choice.take() {
                    let others = proxy.others.take().unwrap_or_default();
                    self.stories.put(uid, story(&proxy.progress, &others));
                    let _ = done.send(Ok(()));
                }
                if let Some(note) = proxy.passed_over.take() {
                    let (events, event) = (&self.parts.scheduling, EventType::Normal);
                    events.record(&proxy.pod, event, PASSED_OVER, "Scheduling", note);
                }
            }
            ChoiceFate::Failed(reason) => {
                if let Some((node, done)) = proxy.choice.take() {
                    let _ = done.send(Err(GrantFailure::Failed { node, reason }));
                }
                // Decide again without it.
                proxy.ranked_at = None;
                let_go = let_go.or(Some("failed"));
                self.dirty.insert(uid.to_owned());
                left = true;
            }
        }
        let settled = gate == Gate::Closed(Note::Settled);
        let order = proxy.order.as_ref();
        let class_of = |node: &str| match order {
            _ if unheld => class_unheld(&proxy.ranking, node),
            Some(order) => Some(order.standing(node).map_or(u32::MAX, |at| at.class)),
            None => None,
        };
        let eligible = answers.iter().filter(|(_, answer)| answer.is_choosable());
        let classes = eligible.filter_map(|(node, _)| Some((node.clone(), class_of(node)?)));
        let posting = Posting {
            gate,
            classes: Arc::new(classes.collect()),
            answers: Arc::new(answers),
        };
        let info = proxy.info.clone();
        self.paint_pod(uid, &posting, released.as_ref());
        if let_go.is_some() {
            self.tell_anew(uid);
        }
        self.tell_stages(uid, &posting.answers, &actions);
        if self.parts.board.post(uid, posting) && !settled {
            self.parts.scheduling.activate(&PodUid::from(uid));
        }
        if let Some(why) = let_go {
            self.trace_released(uid, why);
        }
        for action in actions {
            let mut context = None;
            if let Action::Ask { node } = &action {
                context = self.trace_ask(uid, node);
                self.places.asked(uid, info.as_ref(), node);
                self.parts.counts.asked(node);
                self.reach(uid, Stage::Asked);
            }
            self.send(uid, action, context);
        }
        if left {
            self.others_moved();
        }
    }

    /// For metrics: a pod has come so far.
    pub(super) fn reach(&mut self, uid: &str, stage: Stage) {
        let now = self.clock.now();
        let proxy = self.proxies.get_mut(uid);
        if let Some(after) = proxy.and_then(|proxy| proxy.progress.reach(stage, now)) {
            self.parts.counts.reached(stage, after);
        }
    }

    fn send(&mut self, uid: &str, action: Action, context: Option<TraceParent>) {
        let (Some(view), Some(proxy)) = (self.book.proxy(uid), self.proxies.get(uid)) else {
            return;
        };
        let place = action.cleans_up_at();
        if !place.is_none_or(|node| self.lanes.enter(node, uid)) {
            return;
        }
        let (view, pod) = (Arc::clone(view), Arc::clone(&proxy.pod));
        let asks = matches!(action, Action::Ask { .. });
        let question = Question {
            source: proxy.source.clone().filter(|_| asks),
            context,
        };
        let (acting, finished) = (Arc::clone(&self.acting), self.finished.clone());
        self.book.begin(uid, &action, self.clock.now());
        let proxies = self.parts.proxies.clone();
        tokio::spawn(async move {
            let acted = Box::pin(acting.act(&view, &pod, question, &action));
            let mut reply = replied(acted).await;
            keep_less(&proxies, &mut reply);
            let _ = finished.send(Finished {
                uid: view.uid.clone(),
                action,
                reply,
            });
        });
    }
}

/// That a pod may run twice is a warning.
fn event_of(released: &Released) -> EventType {
    if released.given_up {
        EventType::Warning
    } else {
        EventType::Normal
    }
}

/// What a pod waits for, and which targets aren't asked because of its own words.
fn in_full(note: &Note, answers: &BTreeMap<String, Answer>) -> String {
    let passed = answers.iter().filter_map(|(node, answer)| match answer {
        Answer::PassedOver(reason) if matches!(note, Note::Asked(_)) => {
            Some(format!("; {node} {reason}"))
        }
        _ => None,
    });
    format!("{note}{}", passed.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_answers_is_told_who_isnt_asked() {
        let answers = [
            (
                "fra",
                Answer::PassedOver("is in region \"eu-central-1\"".into()),
            ),
            ("dub", Answer::Waiting),
        ]
        .map(|(node, answer)| (node.to_owned(), answer))
        .into();
        assert_eq!(
            in_full(&Note::Asked(vec!["dub".into()]), &answers),
            "waiting for an answer of dub; fra is in region \"eu-central-1\""
        );
        assert_eq!(in_full(&Note::Gated, &answers), Note::Gated.to_string());
    }
}
