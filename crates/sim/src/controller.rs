//! A chaperon controller: the real machine of each name and the stores that it reads.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use pilotage_api::PodChaperon;
use pilotage_candidate::chaperon::{Memory, Monotonic, Observed, decide};

use crate::{
    request::{Reply, Request},
    server::{Delegate, Object},
    watch::{News, Watch},
};

#[derive(Debug, Default)]
struct Cell {
    memory: Memory,
    busy: bool,
    wake: Option<Monotonic>,
}

/// What its two followers have to take in; the stores show it already.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Chaperon(News<PodChaperon>),
    Pod(News<Delegate>),
}

/// The process.
#[derive(Debug)]
pub(crate) struct Controller {
    pub(crate) chaperons: Watch<PodChaperon>,
    pub(crate) pods: Watch<Delegate>,
    cells: BTreeMap<String, Cell>,
    events: VecDeque<Event>,
}

/// What a step of the process is given.
pub(crate) struct Cx<'a> {
    pub(crate) now: Monotonic,
    pub(crate) wall: Timestamp,
    pub(crate) sent: &'a mut Vec<Request>,
}

impl Controller {
    /// A process that starts; `fresh`: nothing has happened in the world yet.
    pub(crate) fn new(fresh: bool) -> Self {
        Self {
            chaperons: Watch::new(false, fresh),
            pods: Watch::new(true, fresh),
            cells: BTreeMap::new(),
            events: VecDeque::new(),
        }
    }

    fn leads(&self) -> bool {
        self.chaperons.synced && self.pods.synced
    }

    /// The stores changed.
    pub(crate) fn queue(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Events that wait, once both lists are read.
    pub(crate) fn waiting(&self) -> usize {
        if self.leads() { self.events.len() } else { 0 }
    }

    /// Takes in the next event.
    pub(crate) fn take(&mut self, cx: &mut Cx<'_>) {
        let Some(event) = self.events.pop_front() else {
            return;
        };
        let key = match event {
            Event::Chaperon(News::Applied(chaperon) | News::Gone(chaperon)) => {
                chaperon.name().to_owned()
            }
            Event::Chaperon(News::Deleted(chaperon)) => {
                let memory = self.memory(chaperon.name());
                memory.chaperon_deleted(chaperon.uid(), cx.now);
                chaperon.name().to_owned()
            }
            Event::Pod(News::Applied(pod)) => {
                self.memory(pod.name()).pod_applied();
                pod.name().to_owned()
            }
            Event::Pod(News::Deleted(pod)) => {
                self.memory(pod.name()).pod_deleted(pod.uid());
                pod.name().to_owned()
            }
            Event::Pod(News::Gone(pod)) => pod.name().to_owned(),
        };
        self.turn(&key, cx);
    }

    fn memory(&mut self, key: &str) -> &mut Memory {
        &mut self.cells.entry(key.to_owned()).or_default().memory
    }

    /// Decides until there is nothing to do, or a request is under way.
    fn turn(&mut self, key: &str, cx: &mut Cx<'_>) {
        if self.cells.get(key).is_some_and(|cell| cell.busy) {
            return;
        }
        let chaperon = self.chaperons.get(key).cloned();
        let pod = self.pods.get(key).cloned();
        if chaperon.is_none() && pod.is_none() {
            self.cells.remove(key);
            return;
        }
        let cell = self.cells.entry(key.to_owned()).or_default();
        let plan = decide(&Observed {
            chaperon: chaperon.as_deref(),
            pod: pod.as_ref().map(|pod| &*pod.raw),
            memory: &cell.memory,
            now: cx.now,
            wall: cx.wall,
        });
        cell.memory.begin(&plan, cx.now);
        cell.wake = plan.wake_at;
        if let Some(action) = plan.action {
            cell.busy = true;
            cx.sent.push(Request::Control {
                key: key.to_owned(),
                action,
                chaperon,
            });
        }
    }

    /// A request ended.
    pub(crate) fn answered(&mut self, request: &Request, reply: Reply, cx: &mut Cx<'_>) {
        let (
            Request::Control { key, action, .. },
            Reply::Control {
                outcome,
                chaperon,
                pod,
            },
        ) = (request, reply)
        else {
            return;
        };
        if let Some(chaperon) = chaperon {
            let mut news = Vec::new();
            self.chaperons.fold(chaperon, &mut news);
            self.events.extend(news.into_iter().map(Event::Chaperon));
        }
        if let Some(pod) = pod {
            let mut news = Vec::new();
            self.pods.fold(pod, &mut news);
            self.events.extend(news.into_iter().map(Event::Pod));
        }
        let cell = self.cells.entry(key.clone()).or_default();
        cell.busy = false;
        cell.memory.finish(action, &outcome, cx.now);
        self.turn(key, cx);
    }

    /// Timers that are due.
    pub(crate) fn fire(&mut self, cx: &mut Cx<'_>) {
        let due: Vec<String> = self
            .cells
            .iter()
            .filter(|(_, cell)| !cell.busy && cell.wake.is_some_and(|at| at <= cx.now))
            .map(|(key, _)| key.clone())
            .collect();
        for key in due {
            self.turn(&key, cx);
        }
    }

    /// The next timer.
    pub(crate) fn next_wake(&self) -> Option<Monotonic> {
        let idle = self.cells.values().filter(|cell| !cell.busy);
        idle.filter_map(|cell| cell.wake).min()
    }
}
