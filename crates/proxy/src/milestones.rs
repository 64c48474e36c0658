//! What a pod's author is told of its way by events of their own, stage by stage: each once in an attempt for each
//! target, and only as many as a budget allows. A story, not a state: nothing is decided by it. How events are written
//! is nobody's business here.

mod budget;

use std::{collections::BTreeMap, fmt, time::Duration};

use pilotage_api::preempts::Preempts;

use crate::{
    plan::{Action, Answer},
    view::{Monotonic, ProxyView, Reach},
};

pub use budget::Budget;

/// Of one pod no more attempts are told: whoever makes them fail, a target for instance, could go on for ever.
const MOST_ATTEMPTS: u8 = 8;
/// Nor more targets in one attempt.
const MOST_TARGETS: usize = 64;
/// API servers keep an event for so long by default. What is still so then may be told again.
const EVENTS_LAST: Duration = Duration::from_hours(1);

/// A stage of a pod's way, as far as a target has to do with it. That the pod is bound is told by `Scheduled`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage<'a> {
    /// The target is asked whether it takes the pod.
    Asked,
    /// It could be chosen by what it has answered.
    Reserved(&'a Answer),
    /// It has answered that it can't take the pod.
    Refused(&'a Answer),
    /// It is told that the pod is its.
    Granted,
    /// It has the pod, or was granted it, and can't be reached.
    Lost,
}

impl<'a> Stage<'a> {
    /// The stage that an answer is, if it is one.
    fn of(answer: &'a Answer) -> Option<Self> {
        match answer {
            Answer::Reserved | Answer::Evicts(_) | Answer::Outbid(_) => {
                Some(Self::Reserved(answer))
            }
            Answer::Refused(_) => Some(Self::Refused(answer)),
            Answer::Could(_)
            | Answer::Unasked
            | Answer::Waiting
            | Answer::Silent
            | Answer::Busy
            | Answer::Unreachable
            | Answer::PassedOver(_) => None,
        }
    }

    /// Its place among what was told of one target.
    fn bit(self) -> u8 {
        match self {
            Self::Asked => 1,
            Self::Reserved(_) => 2,
            Self::Refused(_) => 4,
            Self::Granted => 8,
            Self::Lost => 16,
        }
    }
}

/// Something that happens between a pod and a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Milestone<'a> {
    /// The target's virtual node.
    pub node: &'a str,
    /// What it is.
    pub stage: Stage<'a>,
}

impl Milestone<'_> {
    /// Reason of the event that says so.
    pub fn reason(&self) -> &'static str {
        match self.stage {
            Stage::Asked => "Asked",
            Stage::Reserved(_) => "Reserved",
            Stage::Refused(_) => "Refused",
            Stage::Granted => "Granted",
            Stage::Lost => "Lost",
        }
    }

    /// Whether something is wrong. A refusal isn't: other targets may take the pod.
    pub fn is_warning(&self) -> bool {
        self.stage == Stage::Lost
    }
}

impl fmt::Display for Milestone<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.node;
        match self.stage {
            Stage::Asked => write!(f, "{node} is asked whether it takes the pod"),
            Stage::Reserved(
                Answer::Evicts(Preempts { pods, .. }) | Answer::Outbid(Preempts { pods, .. }),
            ) => {
                write!(f, "{node} could take the pod by evicting {pods} pod(s)")
            }
            Stage::Reserved(_) => write!(f, "{node} holds a node for the pod"),
            Stage::Refused(answer) => {
                let says = answer.objection().unwrap_or_default();
                write!(f, "{node} {says}")
            }
            Stage::Granted => write!(f, "{node} is granted the pod"),
            Stage::Lost => write!(
                f,
                "{node} can't be reached, and the pod may be running there"
            ),
        }
    }
}

/// What was decided of a pod, as far as its story goes.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    view: &'a ProxyView,
    /// The virtual node of a target that has the pod and can't be reached.
    lost: Option<&'a str>,
    answers: &'a BTreeMap<String, Answer>,
    actions: &'a [Action],
}

impl<'a> Seen<'a> {
    /// What targets say, what is asked of them now, and whether they can be reached.
    pub fn of(
        view: &'a ProxyView,
        answers: &'a BTreeMap<String, Answer>,
        actions: &'a [Action],
        reach: impl Fn(&str) -> Reach,
    ) -> Self {
        let record = view.record.record().map(|record| record.node.as_str());
        let place = view.node_name.as_deref().or(record);
        let place = place.filter(|_| !view.ending && !view.terminal);
        Self {
            view,
            lost: place.filter(|node| reach(node) == Reach::Lost),
            answers,
            actions,
        }
    }

    /// All of it in order: a target is asked because others have refused.
    fn milestones(self) -> impl Iterator<Item = Milestone<'a>> {
        let Self {
            view,
            lost,
            answers,
            actions,
        } = self;
        let lost = lost.map(|node| Milestone {
            node,
            stage: Stage::Lost,
        });
        let waits = view.node_name.is_none() && !view.ending;
        let answers = answers.iter().filter(move |_| waits);
        let answers = answers.filter_map(|(node, answer)| {
            let stage = Stage::of(answer)?;
            Some(Milestone { node, stage })
        });
        let asked = actions.iter().filter_map(|action| match action {
            Action::Ask { node } => Some(Milestone {
                node,
                stage: Stage::Asked,
            }),
            _ => None,
        });
        lost.into_iter().chain(answers).chain(asked)
    }
}

/// Whether to tell of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Tell,
    /// It would be told, and is too much.
    Drop,
    /// It was told, or is never told.
    Known,
}

/// What has been told of one pod's way.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// By virtual node: the stages of this attempt, told or dropped.
    stages: BTreeMap<String, u8>,
    /// Something of this attempt was dropped: a story with holes isn't told on.
    is_cut: bool,
    /// How many attempts have failed.
    failed: u8,
    /// When it was told last, or dropped, that its target can't be reached.
    lost_at: Option<Monotonic>,
}

impl Told {
    /// What the author is told of by now that wasn't told before, and how many more there would be.
    pub fn news<'a>(
        &mut self,
        seen: Seen<'a>,
        budget: &mut Budget,
        now: Monotonic,
    ) -> (Vec<Milestone<'a>>, u64) {
        let (mut news, mut dropped) = (Vec::new(), 0_u64);
        // A question only has no way to tell of.
        if budget.is_closed() || seen.view.what_if {
            return (news, dropped);
        }
        for milestone in seen.milestones() {
            match self.take(milestone, budget, now) {
                Verdict::Tell => news.push(milestone),
                Verdict::Drop => dropped = dropped.saturating_add(1),
                Verdict::Known => {}
            }
        }
        if seen.view.node_name.is_some() {
            // Its way is over.
            self.stages = BTreeMap::new();
        }
        (news, dropped)
    }

    /// Whether to tell of this. It isn't asked about again in this attempt.
    pub fn take(
        &mut self,
        milestone: Milestone<'_>,
        budget: &mut Budget,
        now: Monotonic,
    ) -> Verdict {
        let Milestone { node, stage } = milestone;
        if budget.is_closed() {
            return Verdict::Known;
        }
        if stage == Stage::Lost {
            let told = self.lost_at.map(|at| at.saturating_add(EVENTS_LAST));
            if told.is_some_and(|until| now < until) {
                return Verdict::Known;
            }
            self.lost_at = Some(now);
            return if budget.take(now) {
                Verdict::Tell
            } else {
                Verdict::Drop
            };
        }
        if self.failed >= MOST_ATTEMPTS || !self.is_new(node, stage.bit()) {
            return Verdict::Known;
        }
        self.is_cut = self.is_cut || !budget.take(now);
        if self.is_cut {
            Verdict::Drop
        } else {
            Verdict::Tell
        }
    }

    /// The pod isn't its target's any more, or never was: others may take it, and what they say is told anew.
    pub fn begin_again(&mut self) {
        self.stages.clear();
        self.is_cut = false;
        self.failed = self.failed.saturating_add(1);
    }

    /// Whether nothing was said of a target's stage yet; notes it.
    fn is_new(&mut self, node: &str, bit: u8) -> bool {
        if let Some(stages) = self.stages.get_mut(node) {
            let is_new = *stages & bit == 0;
            *stages |= bit;
            return is_new;
        }
        let has_room = self.stages.len() < MOST_TARGETS;
        if has_room {
            self.stages.insert(node.to_owned(), bit);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use pilotage_api::record::Record;

    use super::*;
    use crate::{testing::proxy, view::RecordState};

    const NOW: Monotonic = Monotonic::from_secs(100);

    /// Enough for whatever a test tells.
    fn plenty() -> Budget {
        Budget::per_second(1000)
    }

    fn answers(all: &[(&str, Answer)]) -> BTreeMap<String, Answer> {
        let all = all.iter().cloned();
        all.map(|(node, answer)| (node.to_owned(), answer))
            .collect()
    }

    fn asks(nodes: &[&str]) -> Vec<Action> {
        let ask = |node: &&str| Action::Ask {
            node: (*node).to_owned(),
        };
        nodes.iter().map(ask).collect()
    }

    fn full() -> Answer {
        Answer::Refused("Unschedulable: 0/1 nodes are available: 1 Insufficient cpu.".to_owned())
    }

    fn evicting(pods: u32) -> Preempts {
        Preempts {
            budgets: 0,
            highest: 0,
            sum: 0,
            pods,
            oldest: None,
            grace: Duration::from_mins(1),
        }
    }

    /// Reasons and texts of what is told.
    fn news(told: &mut Told, seen: Seen<'_>) -> Vec<(&'static str, String)> {
        let (news, dropped) = told.news(seen, &mut plenty(), NOW);
        assert_eq!(dropped, 0);
        let news = news.iter();
        news.map(|it| (it.reason(), it.to_string())).collect()
    }

    #[test]
    fn each_stage_has_its_words() {
        let view = proxy();
        let said = answers(&[
            ("a", full()),
            ("b", Answer::Reserved),
            ("c", Answer::Evicts(evicting(2))),
            ("d", Answer::Outbid(evicting(3))),
            ("e", Answer::Waiting),
            ("f", Answer::Unreachable),
            ("g", Answer::PassedOver("is in region \"us\"".to_owned())),
            ("h", Answer::Busy),
        ]);
        let actions = asks(&["i"]);
        let seen = Seen::of(&view, &said, &actions, |_| Reach::Lost);
        let want = [
            ("Refused", "a refused [1 Insufficient cpu]"),
            ("Reserved", "b holds a node for the pod"),
            ("Reserved", "c could take the pod by evicting 2 pod(s)"),
            ("Reserved", "d could take the pod by evicting 3 pod(s)"),
            ("Asked", "i is asked whether it takes the pod"),
        ];
        let want = want.map(|(reason, text)| (reason, text.to_owned()));
        assert_eq!(news(&mut Told::default(), seen), want);
        let granted = Milestone {
            node: "b",
            stage: Stage::Granted,
        };
        assert_eq!(granted.to_string(), "b is granted the pod");
        assert_eq!((granted.reason(), granted.is_warning()), ("Granted", false));
    }

    #[test]
    fn each_stage_is_told_once_an_attempt_for_each_target() {
        let (view, mut told) = (proxy(), Told::default());
        let (said, actions) = (answers(&[("a", full())]), asks(&["a", "b"]));
        let seen = || Seen::of(&view, &said, &actions, |_| Reach::Reachable);
        assert_eq!(news(&mut told, seen()).len(), 3);
        assert!(news(&mut told, seen()).is_empty());
        // Whatever else it refuses for, it refuses.
        let other = answers(&[("a", Answer::Refused("Expired".to_owned()))]);
        let again = Seen::of(&view, &other, &actions, |_| Reach::Reachable);
        assert!(news(&mut told, again).is_empty());
        // Who could take the pod now is news.
        let held = answers(&[("a", Answer::Reserved)]);
        let changed = Seen::of(&view, &held, &actions, |_| Reach::Reachable);
        assert_eq!(news(&mut told, changed).len(), 1);
        for attempt in 1..=20 {
            told.begin_again();
            let want = if attempt < MOST_ATTEMPTS { 3 } else { 0 };
            assert_eq!(news(&mut told, seen()).len(), want, "{attempt}");
        }
    }

    #[test]
    fn nobody_makes_a_story_grow() {
        let (view, mut told) = (proxy(), Told::default());
        let nodes: Vec<String> = (0..1000).map(|number| format!("n-{number}")).collect();
        let all: BTreeMap<_, _> = nodes.iter().map(|node| (node.clone(), full())).collect();
        let seen = || Seen::of(&view, &all, &[], |_| Reach::Reachable);
        assert_eq!(news(&mut told, seen()).len(), MOST_TARGETS);
        assert!(news(&mut told, seen()).is_empty());
        // Once it has its place, nothing of its way is kept.
        let mut placed = proxy();
        placed.node_name = Some("n-1".to_owned());
        let bound = Seen::of(&placed, &all, &[], |_| Reach::Reachable);
        assert!(news(&mut told, bound).is_empty());
        assert!(told.stages.is_empty());
    }

    #[test]
    fn a_question_only_and_what_is_deleted_have_no_story() {
        let said = answers(&[("a", Answer::Reserved)]);
        let (mut question, mut ending) = (proxy(), proxy());
        (question.what_if, ending.ending) = (true, true);
        for view in [question, ending] {
            let seen = Seen::of(&view, &said, &[], |_| Reach::Lost);
            assert!(news(&mut Told::default(), seen).is_empty());
        }
    }

    #[test]
    fn what_is_too_much_is_counted_once_and_the_rest_of_the_attempt_with_it() {
        let (view, mut budget, mut told) = (proxy(), Budget::per_second(1), Told::default());
        let (nobody, actions) = (answers(&[]), asks(&["a", "b", "c", "d", "e", "f", "g"]));
        let seen = Seen::of(&view, &nobody, &actions, |_| Reach::Reachable);
        let mut count = |told: &mut Told, seen, now| {
            let (news, dropped) = told.news(seen, &mut budget, now);
            (news.len(), dropped)
        };
        assert_eq!(count(&mut told, seen, NOW), (5, 2));
        assert_eq!(count(&mut told, seen, NOW), (0, 0), "they are counted");
        // There is room again, and a hole in the story.
        let later = NOW + Duration::from_mins(1);
        let held = answers(&[("a", Answer::Reserved)]);
        let answered = Seen::of(&view, &held, &[], |_| Reach::Reachable);
        assert_eq!(count(&mut told, answered, later), (0, 1));
        // Another pod, and the next attempt, have none.
        assert_eq!(count(&mut Told::default(), answered, later), (1, 0));
        told.begin_again();
        assert_eq!(count(&mut told, answered, later), (1, 0));
        // Who wants no such events has none to count.
        budget = Budget::per_second(0);
        let (news, dropped) = Told::default().news(seen, &mut budget, later);
        assert_eq!((news.len(), dropped), (0, 0));
    }

    #[test]
    fn a_lost_target_is_told_to_who_has_a_pod_there_and_after_an_hour_again() {
        let nobody = answers(&[]);
        let (mut granted, mut placed) = (proxy(), proxy());
        granted.record = RecordState::Is("a/chaperon/1".parse::<Record>().unwrap());
        placed.node_name = Some("a".to_owned());
        for view in [&granted, &placed] {
            let mut told = Told::default();
            let mut news = |reach: Reach, now| -> Vec<String> {
                let seen = Seen::of(view, &nobody, &[], |node| {
                    assert_eq!(node, "a");
                    reach
                });
                let (news, _) = told.news(seen, &mut plenty(), now);
                assert!(news.iter().all(Milestone::is_warning));
                news.iter().map(ToString::to_string).collect()
            };
            assert!(news(Reach::Reachable, NOW).is_empty());
            let want = "a can't be reached, and the pod may be running there";
            assert_eq!(news(Reach::Lost, NOW), [want]);
            // However often it comes and goes.
            assert!(news(Reach::Reachable, NOW + Duration::from_mins(1)).is_empty());
            assert!(news(Reach::Lost, NOW + Duration::from_mins(2)).is_empty());
            assert_eq!(news(Reach::Lost, NOW + EVENTS_LAST).len(), 1);
        }
        let mut told = Told::default();
        let seen = Seen::of(&placed, &nobody, &[], |_| Reach::NoSuchTarget);
        assert!(news(&mut told, seen).is_empty());
    }
}
