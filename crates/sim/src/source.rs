//! The two processes of a source: a proxy scheduler and a feedback controller, each around its real book, fed as its edge
//! feeds it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::{PodChaperon, lost::LostPolicy, parent::ClusterUid, record::Record};
use pilotage_proxy::{
    Action, Answer, Book, ChaperonNews, ChoiceFate, Gate, Monotonic, Note, ProxyView, Ranked,
    Reach, Reply as Replied, Settings, Terms, book::Turn, feedback,
};

use crate::{
    request::{Reply, Request},
    server::{Object, has_label},
    watch::{News, Watch},
};

/// A pod that a cycle couldn't place is tried again after this, whatever happens.
const FLUSH: Monotonic = Monotonic::from_mins(5);
/// Back-off of a pod whose choice failed.
const BACKOFF: Monotonic = Monotonic::from_secs(1);
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

/// What a process knows of the way to one target.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) reach: Reach,
    /// Since when it is lost.
    lost_since: Monotonic,
    pub(crate) terms: Terms,
    pub(crate) chaperons: Watch<PodChaperon>,
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
}

impl Link {
    /// Whether what the process knows lets it give up the pods there: the Target is gone, or lost and forgotten, or lost for
    /// as long as was said.
    fn has_word(&self, own: Option<Monotonic>, now: Monotonic) -> bool {
        let theirs = match self.terms.lost_policy {
            Some(LostPolicy::ReplaceAfter(after)) => Some(after),
            Some(LostPolicy::Hold) | None => None,
        };
        let is_over = |after: Monotonic| now >= self.lost_since + after;
        match self.reach {
            Reach::NoSuchTarget => true,
            Reach::Lost => self.terms.forgotten || own.or(theirs).is_some_and(is_over),
            Reach::Unseen => self.terms.forgotten,
            Reach::Reachable | Reach::Unknown => false,
        }
    }
}

impl Source {
    /// A process that starts; `known`: targets that exist, by their nodes. `fresh`: nothing has happened in the world yet.
    pub(crate) fn new(
        feedback: bool,
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
                book: Box::default(),
                entries: BTreeMap::new(),
            }
        };
        let mut source = Self {
            proxies: Watch::new(true, fresh),
            links: Vec::new(),
            part,
            settings: Settings::default(),
            looking: Vec::new(),
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
        if fresh && let Part::Feedback { book, .. } = &mut source.part {
            book.proxies_listed();
        }
        source
    }

    pub(crate) fn is_feedback(&self) -> bool {
        matches!(self.part, Part::Feedback { .. })
    }

    fn tell_reach(&mut self, node: &str, reach: Reach, now: Monotonic) {
        match &mut self.part {
            Part::Ask { book, .. } => book.set_reach(node, reach, now),
            Part::Feedback { book, .. } => book.set_reach(node, reach, now),
        }
    }

    // ---- what happens -------------------------------------------------------------------------------------------

    /// A target can, or can't, be reached from now on.
    pub(crate) fn set_reach(&mut self, target: usize, reach: Reach, cx: &mut Cx<'_>) {
        let link = &mut self.links[target];
        if reach == Reach::Lost && link.reach != Reach::Lost {
            link.lost_since = cx.now;
        }
        link.reach = reach;
        self.tell_reach(&cx.nodes[target].clone(), reach, cx.now);
        self.decide_all(cx);
    }

    /// Its operator says something else.
    pub(crate) fn set_terms(&mut self, target: usize, terms: Terms, cx: &mut Cx<'_>) {
        self.links[target].terms = terms;
        let node = &cx.nodes[target];
        match &mut self.part {
            Part::Ask { book, .. } => book.set_terms(node, terms),
            Part::Feedback { book, .. } => book.set_terms(node, terms),
        }
        self.decide_all(cx);
    }

    /// News of proxy pods.
    pub(crate) fn take_proxies(&mut self, news: Vec<News<Pod>>, listed: bool, cx: &mut Cx<'_>) {
        for news in news {
            match news {
                News::Applied(pod) => self.apply(pod, cx),
                News::Deleted(pod) | News::Gone(pod) => match &mut self.part {
                    Part::Ask { book, entries } => {
                        book.proxy_gone(pod.uid());
                        entries.remove(pod.uid());
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
            let parent = match &mut self.part {
                Part::Ask { book, .. } => book.chaperon(&node, news, cx.now),
                Part::Feedback { book, .. } => book.chaperon(&node, news),
            };
            if let Some(parent) = parent {
                self.decide(&parent, cx);
            }
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
                    book.answered(&proxy.uid, action, reply, &self.settings, cx.now);
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
                    book.answered(uid, action, reply, &self.settings, cx.now);
                    self.decide(uid, cx);
                }
            }
            _ => {}
        }
    }

    /// A chaperon that the watch is past is old news.
    fn drop_old(&self, request: &Request, reply: &mut Reply, cx: &Cx<'_>) {
        let node = match request {
            Request::Ask { action, .. } => action.node(),
            Request::Feedback { action, .. } => action.node(),
            _ => None,
        };
        let target = node.and_then(|node| cx.nodes.iter().position(|known| known == node));
        if let (Some(target), Reply::Source(reply)) = (target, reply)
            && let Some(chaperon) = &reply.chaperon
            && self.links[target].chaperons.is_past(chaperon)
        {
            reply.chaperon = None;
        }
    }

    fn looked(&mut self, node: &str, exists: Option<bool>, cx: &mut Cx<'_>) {
        if exists == Some(false) {
            self.looking.retain(|(known, _)| known != node);
            let known = cx.nodes.iter().position(|known| known == node);
            if let Some(link) = known.map(|target| &mut self.links[target]) {
                link.reach = Reach::NoSuchTarget;
            }
            self.tell_reach(node, Reach::NoSuchTarget, cx.now);
            self.decide_all(cx);
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
    }

    /// The next timer.
    pub(crate) fn next_wake(&self) -> Option<Monotonic> {
        let looks = self.looking.iter().filter_map(|(_, at)| *at).min();
        let wakes = match &self.part {
            Part::Ask { entries, .. } => entries.values().filter_map(|entry| entry.wake).min(),
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
        let suits =
            |(_, answer): &(&String, &Answer)| matches!(answer, Answer::Reserved | Answer::Unasked);
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
        entry.choice = Some(node.clone());
        self.decide(&uid, cx);
        Some(format!("{uid}: {node}"))
    }

    // ---- decisions --------------------------------------------------------------------------------------------------

    fn decide_all(&mut self, cx: &mut Cx<'_>) {
        let mut uids: Vec<String> = match &self.part {
            Part::Ask { entries, .. } => entries.keys().cloned().collect(),
            Part::Feedback { book, .. } => book.uids().map(str::to_owned).collect(),
        };
        uids.sort();
        uids.dedup();
        for uid in uids {
            self.decide(&uid, cx);
        }
    }

    /// Somebody's word, if there is one, for leaving what `record` names.
    fn note_word(links: &[Link], record: Option<&Record>, cx: &mut Cx<'_>) {
        let Some(record) = record else { return };
        let target = cx.nodes.iter().position(|node| *node == record.node);
        if target.is_none_or(|target| links[target].has_word(cx.own_policy, cx.now)) {
            cx.words.insert(record.chaperon_uid.clone());
        }
    }

    fn decide(&mut self, uid: &str, cx: &mut Cx<'_>) {
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
                while decide_ask(book, entries, uid, &self.settings, &self.links, cx) {}
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
                    Self::note_word(&self.links, record, cx);
                }
                for action in plan.actions {
                    let name = match (book.pod(uid), &action) {
                        (Some((view, _)), _) => view.name.clone(),
                        (None, feedback::Action::DeleteIfOrphan { parent, .. }) => {
                            parent.name.clone()
                        }
                        (None, _) => continue,
                    };
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
    settings: &Settings,
    links: &[Link],
    cx: &mut Cx<'_>,
) -> bool {
    let Some(entry) = entries.get_mut(uid) else {
        return false;
    };
    let turn = Turn {
        ranking: cx.ranking,
        choice: entry.choice.as_deref(),
        settings,
        now: cx.now,
    };
    let Some(plan) = book.plan(uid, turn) else {
        return false;
    };
    entry.wake = plan.wake_at;
    let mut again = false;
    match plan.choice {
        ChoiceFate::Undecided => {}
        ChoiceFate::Done => entry.choice = None,
        ChoiceFate::Failed(_) => {
            again = entry.choice.take().is_some();
            if again {
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
    let Some(proxy) = book.proxy(uid) else {
        return false;
    };
    let proxy: &ProxyView = proxy;
    let leaves = |action: &Action| matches!(action, Action::Record { .. });
    if plan.actions.iter().any(leaves) {
        Source::note_word(links, proxy.record.record(), cx);
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
