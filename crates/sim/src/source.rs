//! The two processes of a source: a proxy scheduler and a feedback controller, each around its real book, fed as its
//! edge feeds it.

mod decide;
mod link;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::{PodChaperon, parent::ClusterUid};
use pilotage_proxy::{
    Answer, Book, ChaperonNews, Gate, Monotonic, Ranked, Reach, Reply as Replied, Serves, Settings,
    Terms, feedback,
};

pub(crate) use self::link::Link;
use crate::liar::liars;
use crate::{
    request::{Reply, Request},
    server::{Object, has_label},
    watch::{News, Watch},
};

/// A pod that a cycle couldn't place is tried again after this, whatever happens.
const FLUSH: Monotonic = Monotonic::from_mins(5);
/// How long to wait before looking again for a target that a record names and nobody knows.
const LOOK_AGAIN: Monotonic = Monotonic::from_secs(30);

/// What a step of a process is given.
pub(crate) struct Cx<'a> {
    /// The process's own clock.
    pub(crate) now: Monotonic,
    /// Virtual nodes by target.
    pub(crate) nodes: &'a [String],
    /// Targets, best first.
    pub(crate) ranking: &'a [Ranked],
    /// What all pods say about lost targets.
    pub(crate) own_policy: Option<Monotonic>,
    /// Chaperons that a record may leave on somebody's word, as this process knows it when it leaves them.
    pub(crate) words: &'a mut BTreeSet<String>,
    /// Requests that it sends.
    pub(crate) sent: &'a mut Vec<Request>,
}

/// One proxy pod of a proxy scheduler.
#[derive(Debug)]
struct Entry {
    pod: Arc<Pod>,
    choice: Option<String>,
    posting: Option<(Gate, BTreeMap<String, Answer>)>,
    /// When the scheduler tries it.
    cycle: Option<Monotonic>,
    wake: Option<Monotonic>,
}

#[derive(Debug)]
enum Part {
    Ask {
        book: Box<Book>,
        entries: BTreeMap<String, Entry>,
    },
    Feedback {
        book: Box<feedback::Book>,
        wakes: BTreeMap<String, Monotonic>,
    },
}

/// A process of the source.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) proxies: Watch<Pod>,
    pub(crate) links: Vec<Link>,
    part: Part,
    settings: Settings,
    /// Nodes that are looked for, and when to ask again.
    looking: Vec<(String, Option<Monotonic>)>,
    /// When it first asked for the end of a chaperon, or met a pod that is ending, by their UIDs.
    asked: BTreeMap<String, Monotonic>,
    /// A target was chosen that evicts although another one had room, or evicts who is worth less.
    pub(crate) outdone: bool,
}

impl Source {
    /// A process that starts; `few`: see [`Book::with_window`]; `known`: targets that exist, by their nodes. `fresh`:
    /// nothing has happened in the world yet.
    pub(crate) fn new(
        feedback: bool,
        few: usize,
        cluster: &ClusterUid,
        nodes: &[String],
        known: &[bool],
        fresh: bool,
    ) -> Self {
        let part = if feedback {
            Part::Feedback {
                book: Box::new(feedback::Book::new(cluster.clone())),
                wakes: BTreeMap::new(),
            }
        } else {
            Part::Ask {
                book: Box::new(Book::with_window(few)),
                entries: BTreeMap::new(),
            }
        };
        let mut source = Self {
            proxies: Watch::new(true, fresh),
            links: Vec::new(),
            part,
            settings: Settings::default(),
            looking: Vec::new(),
            asked: BTreeMap::new(),
            outdone: false,
        };
        for (node, known) in nodes.iter().zip(known) {
            let reach = match (known, fresh) {
                (false, _) => Reach::NoSuchTarget,
                (true, true) => Reach::Reachable,
                (true, false) => Reach::Unknown,
            };
            source.links.push(Link {
                reach,
                lost_since: Monotonic::ZERO,
                terms: Terms::default(),
                chaperons: Watch::new(true, fresh).only(has_label),
            });
            // What never was known has no entry in the books.
            if *known {
                source.tell_reach(node, reach, Monotonic::ZERO);
            }
        }
        for (liar, serves) in liars() {
            source.tell_reach(liar, Reach::Reachable, Monotonic::ZERO);
            source.tell_serves(liar, serves);
        }
        if fresh && let Part::Feedback { book, .. } = &mut source.part {
            book.proxies_listed();
        }
        source
    }

    pub(crate) fn is_feedback(&self) -> bool {
        matches!(self.part, Part::Feedback { .. })
    }

    fn tell_serves(&mut self, node: &str, serves: Serves) {
        match &mut self.part {
            Part::Ask { book, .. } => book.set_serves(node, serves),
            Part::Feedback { book, .. } => book.set_serves(node, serves),
        }
    }

    fn tell_reach(&mut self, node: &str, reach: Reach, now: Monotonic) {
        if reach != Reach::NoSuchTarget {
            self.tell_serves(node, Serves::Everybody);
        }
        match &mut self.part {
            Part::Ask { book, .. } => book.set_reach(node, reach, now),
            Part::Feedback { book, .. } => book.set_reach(node, reach, now),
        };
    }

    // ---- what happens -------------------------------------------------------------------------------------------

    /// A target can, or can't, be reached from now on.
    pub(crate) fn set_reach(&mut self, target: usize, reach: Reach, cx: &mut Cx<'_>) {
        let link = &mut self.links[target];
        if reach == Reach::Lost && link.reach != Reach::Lost {
            link.lost_since = cx.now;
        }
        link.reach = reach;
        let node = cx.nodes[target].clone();
        let concerned = self.concerned(&node);
        self.tell_reach(&node, reach, cx.now);
        self.decide_each(concerned, cx);
    }

    /// Its operator says something else.
    pub(crate) fn set_terms(&mut self, target: usize, terms: Terms, cx: &mut Cx<'_>) {
        self.links[target].terms = terms;
        let node = &cx.nodes[target];
        match &mut self.part {
            Part::Ask { book, .. } => book.set_terms(node, terms),
            Part::Feedback { book, .. } => book.set_terms(node, terms),
        }
        self.decide_each(self.concerned(node), cx);
    }

    /// News of proxy pods.
    pub(crate) fn take_proxies(&mut self, news: Vec<News<Pod>>, listed: bool, cx: &mut Cx<'_>) {
        for news in news {
            match news {
                News::Applied(pod) => self.apply(pod, cx),
                News::Deleted(pod) | News::Gone(pod) => match &mut self.part {
                    Part::Ask { book, entries } => {
                        book.proxy_gone(pod.uid(), cx.now);
                        entries.remove(pod.uid());
                        self.call(cx);
                    }
                    Part::Feedback { book, .. } => {
                        book.proxy_gone(pod.uid());
                        self.decide(pod.uid(), cx);
                    }
                },
            }
        }
        if listed
            && let Part::Feedback { book, .. } = &mut self.part
            && book.proxies_listed()
        {
            self.decide_all(cx);
        }
    }

    fn apply(&mut self, pod: Arc<Pod>, cx: &mut Cx<'_>) {
        if self.is_feedback() && pod.is_ending() {
            self.asked.entry(pod.uid().to_owned()).or_insert(cx.now);
        }
        let news = match &mut self.part {
            Part::Ask { book, entries } => book.proxy_applied(&pod).inspect(|uid| {
                let entry = entries.entry(uid.clone()).or_insert_with(|| Entry {
                    pod: Arc::clone(&pod),
                    choice: None,
                    posting: None,
                    cycle: None,
                    wake: None,
                });
                entry.pod = pod;
            }),
            Part::Feedback { book, .. } => book.proxy_applied(pod),
        };
        if let Some(uid) = news {
            self.decide(&uid, cx);
        }
    }

    /// News of chaperons in a target.
    pub(crate) fn take_chaperons(
        &mut self,
        target: usize,
        news: Vec<News<PodChaperon>>,
        cx: &mut Cx<'_>,
    ) {
        let node = cx.nodes[target].clone();
        for news in news {
            let news = match news {
                News::Applied(chaperon) => ChaperonNews::Applied(chaperon),
                News::Deleted(chaperon) => ChaperonNews::Deleted(chaperon),
                News::Gone(chaperon) => ChaperonNews::Vanished(chaperon),
            };
            self.take_news(&node, news, cx);
        }
    }

    /// One word of whoever is behind a node.
    pub(crate) fn take_news(&mut self, node: &str, news: ChaperonNews, cx: &mut Cx<'_>) {
        let heard = match &mut self.part {
            Part::Ask { book, .. } => book.chaperon(node, news, cx.now),
            Part::Feedback { book, .. } => book.chaperon(node, news),
        };
        for parent in heard.parents {
            self.decide(&parent, cx);
        }
    }

    /// A request ended.
    pub(crate) fn answered(&mut self, request: &Request, mut reply: Reply, cx: &mut Cx<'_>) {
        self.drop_old(request, &mut reply, cx);
        match (request, reply) {
            (Request::Look { node }, Reply::Look(exists)) => self.looked(node, exists, cx),
            (Request::Ask { proxy, action, .. }, Reply::Source(reply)) => {
                if let Part::Ask { book, entries } = &mut self.part {
                    let pod = reply.proxy.clone();
                    let _ = book.answered(&proxy.uid, action, reply, &self.settings, cx.now);
                    if let (Some(pod), Some(entry)) = (pod, entries.get_mut(&proxy.uid))
                        && pod.version() > entry.pod.version()
                    {
                        entry.pod = pod;
                    }
                    self.decide(&proxy.uid, cx);
                }
            }
            (Request::Feedback { uid, action, .. }, Reply::Source(reply)) => {
                if let Part::Feedback { book, .. } = &mut self.part {
                    let reply: Replied = reply;
                    let _ = book.answered(uid, action, reply, &self.settings, cx.now);
                    self.decide(uid, cx);
                }
            }
            _ => {}
        }
    }

    /// [`Replied::drop_old`] by the watch of the target that was asked.
    fn drop_old(&self, request: &Request, reply: &mut Reply, cx: &Cx<'_>) {
        let node = match request {
            Request::Ask { action, .. } => action.node(),
            Request::Feedback { action, .. } => action.node(),
            _ => None,
        };
        let target = node.and_then(|node| cx.nodes.iter().position(|known| known == node));
        if let (Some(target), Reply::Source(reply)) = (target, reply) {
            reply.drop_old(|chaperon| self.links[target].chaperons.is_past(chaperon));
        }
    }

    fn looked(&mut self, node: &str, exists: Option<bool>, cx: &mut Cx<'_>) {
        if exists == Some(false) {
            self.looking.retain(|(known, _)| known != node);
            let known = cx.nodes.iter().position(|known| known == node);
            if let Some(link) = known.map(|target| &mut self.links[target]) {
                link.reach = Reach::NoSuchTarget;
            }
            let concerned = self.concerned(node);
            self.tell_reach(node, Reach::NoSuchTarget, cx.now);
            self.decide_each(concerned, cx);
        } else if let Some(look) = self.looking.iter_mut().find(|(known, _)| known == node) {
            look.1 = Some(cx.now + LOOK_AGAIN);
        }
    }

    /// Timers that are due.
    pub(crate) fn fire(&mut self, cx: &mut Cx<'_>) {
        let again: Vec<String> = self
            .looking
            .iter()
            .filter(|(_, at)| at.is_some_and(|at| at <= cx.now))
            .map(|(node, _)| node.clone())
            .collect();
        if !again.is_empty() {
            self.looking.retain(|(node, _)| !again.contains(node));
            self.decide_all(cx);
        }
        let due: Vec<String> = match &mut self.part {
            Part::Ask { entries, .. } => entries
                .iter_mut()
                .filter(|(_, entry)| entry.wake.is_some_and(|at| at <= cx.now))
                .map(|(uid, entry)| {
                    entry.wake = None;
                    uid.clone()
                })
                .collect(),
            Part::Feedback { wakes, .. } => {
                let due: Vec<String> = wakes
                    .iter()
                    .filter(|(_, at)| **at <= cx.now)
                    .map(|(uid, _)| uid.clone())
                    .collect();
                wakes.retain(|_, at| *at > cx.now);
                due
            }
        };
        for uid in due {
            self.decide(&uid, cx);
        }
        self.call(cx);
    }

    /// The next timer.
    pub(crate) fn next_wake(&self) -> Option<Monotonic> {
        let looks = self.looking.iter().filter_map(|(_, at)| *at).min();
        let wakes = match &self.part {
            Part::Ask { book, entries } => {
                let wakes = entries.values().filter_map(|entry| entry.wake);
                wakes.chain(book.wake_at()).min()
            }
            Part::Feedback { wakes, .. } => wakes.values().min().copied(),
        };
        looks.into_iter().chain(wakes).min()
    }

    // ---- the scheduler --------------------------------------------------------------------------------------------

    /// When the scheduler tries a pod.
    pub(crate) fn next_cycle(&self) -> Option<Monotonic> {
        let Part::Ask { entries, .. } = &self.part else {
            return None;
        };
        entries.values().filter_map(|entry| entry.cycle).min()
    }

    /// Runs the scheduling cycle of the first pod that is due: `pick` chooses among the targets that hold a node.
    pub(crate) fn cycle(&mut self, pick: usize, cx: &mut Cx<'_>) -> Option<String> {
        let Part::Ask { entries, .. } = &mut self.part else {
            return None;
        };
        let due = |entry: &Entry| entry.cycle.is_some_and(|at| at <= cx.now);
        let (uid, entry) = entries.iter_mut().find(|(_, entry)| due(entry))?;
        let uid = uid.clone();
        entry.cycle = None;
        let Some((Gate::Open, answers)) = &entry.posting else {
            return Some(format!("{uid}: the gate is shut"));
        };
        let suits = |(_, answer): &(&String, &Answer)| answer.is_choosable();
        let nodes: Vec<String> = answers
            .iter()
            .filter(suits)
            .map(|(node, _)| node.clone())
            .collect();
        if nodes.is_empty() {
            entry.cycle = Some(cx.now + FLUSH);
            return Some(format!("{uid}: nobody takes it"));
        }
        let node = nodes[pick % nodes.len()].clone();
        self.outdone |= is_outdone(&answers[&node], answers);
        entry.choice = Some(node.clone());
        self.decide(&uid, cx);
        Some(format!("{uid}: {node}"))
    }
}

/// Whether others have answered better than the one that was chosen: with room, or victims that are worth less.
fn is_outdone(chosen: &Answer, answers: &BTreeMap<String, Answer>) -> bool {
    let Answer::Evicts(cost) = chosen else {
        return false;
    };
    answers.values().any(|other| match other {
        Answer::Reserved => true,
        Answer::Evicts(other) | Answer::Outbid(other) => other.cost() < cost.cost(),
        _ => false,
    })
}
