//! The watches of all processes: which can bring something now, and what they bring.

use pilotage_proxy::Reach;

use crate::{
    controller::Event,
    server::Object,
    world::{Kind, World},
};

impl World {
    /// Whether the way of a watch is open.
    pub(crate) fn watch_open(&self, slot: usize, watch: usize) -> bool {
        let Some(process) = self.slots.get(slot).and_then(Option::as_ref) else {
            return false;
        };
        if process.stopped {
            return false;
        }
        match (&process.kind, watch) {
            (Kind::Source(source), 1..) => {
                let site = self.sites.get(watch - 1);
                site.is_some_and(|site| !site.parted && site.exists)
                    && source.links[watch - 1].reach == Reach::Reachable
            }
            _ => !process.cut,
        }
    }

    /// How many changes a watch can bring now; `None` if it hasn't read its first list.
    pub(crate) fn behind(&self, slot: usize, watch: usize) -> Option<usize> {
        let process = self.slots.get(slot).and_then(Option::as_ref)?;
        let server = &self.servers[Self::server_of(slot)];
        let (synced, frozen, behind) = match (&process.kind, watch) {
            (Kind::Source(source), 0) => {
                let watch = &source.proxies;
                (watch.synced, watch.frozen, watch.behind(&server.proxies))
            }
            (Kind::Source(source), _) => {
                let watch_of = &source.links.get(watch - 1)?.chaperons;
                let table = &self.servers[watch].chaperons;
                (watch_of.synced, watch_of.frozen, watch_of.behind(table))
            }
            (Kind::Candidate(process), 0) => {
                let watch = &process.chaperons;
                (watch.synced, watch.frozen, watch.behind(&server.chaperons))
            }
            (Kind::Candidate(process), 1) => {
                let watch = &process.pods;
                (watch.synced, watch.frozen, watch.behind(&server.delegates))
            }
            (Kind::Controller(process), 0) => {
                let watch = &process.chaperons;
                (watch.synced, watch.frozen, watch.behind(&server.chaperons))
            }
            (Kind::Controller(process), 1) => {
                let watch = &process.pods;
                (watch.synced, watch.frozen, watch.behind(&server.delegates))
            }
            _ => return Some(0),
        };
        if !synced {
            return None;
        }
        Some(if frozen { 0 } else { behind })
    }

    pub(crate) fn deliver(&mut self, slot: usize, watch: usize, count: usize) -> bool {
        if !self.watch_open(slot, watch) || self.behind(slot, watch).is_none_or(|n| n == 0) {
            return false;
        }
        for _ in 0..count {
            self.move_watch(slot, watch, None);
        }
        true
    }

    pub(crate) fn list(&mut self, slot: usize, watch: usize, back: usize, first: bool) -> bool {
        let synced = self.behind(slot, watch).is_some();
        let remote = watch > 0
            && matches!(self.slots.get(slot), Some(Some(process)) if matches!(process.kind, Kind::Source(_)));
        // The first list of a target is read as the target is noticed.
        if !self.watch_open(slot, watch) || synced == first || (first && remote) {
            return false;
        }
        self.move_watch(slot, watch, Some(back));
        true
    }

    /// A watch brings its next change, or reads a list that is so many changes old.
    fn move_watch(&mut self, slot: usize, watch: usize, back: Option<usize>) {
        macro_rules! moved {
            ($watch:expr, $table:expr) => {{
                let mut news = Vec::new();
                match back {
                    None => $watch.deliver($table, &mut news),
                    Some(back) => $watch.list($table, back, &mut news),
                }
                news
            }};
        }
        let listed = back.is_some();
        match slot / 2 {
            0 | 1 if watch == 0 => {
                self.source(slot, |source, cx, servers| {
                    let news = moved!(source.proxies, &servers[0].proxies);
                    source.take_proxies(news, listed, cx);
                });
            }
            0 | 1 => {
                self.source(slot, |source, cx, servers| {
                    let link = &mut source.links[watch - 1];
                    let news = moved!(link.chaperons, &servers[watch].chaperons);
                    source.take_chaperons(watch - 1, news, cx);
                });
            }
            role if role % 2 == 0 => {
                self.candidate(slot, |process, cx, server| {
                    use crate::watch::News::{Applied, Deleted, Gone};
                    let keys = if watch == 0 {
                        let news = moved!(process.chaperons, &server.chaperons);
                        news.iter()
                            .map(|(Applied(o) | Deleted(o) | Gone(o))| o.name().to_owned())
                            .collect()
                    } else {
                        let news = moved!(process.pods, &server.delegates);
                        news.iter()
                            .map(|(Applied(o) | Deleted(o) | Gone(o))| o.name().to_owned())
                            .collect()
                    };
                    process.changed(keys, cx);
                });
            }
            _ => {
                self.controller(slot, |process, _, server| {
                    if watch == 0 {
                        let news = moved!(process.chaperons, &server.chaperons);
                        news.into_iter()
                            .map(Event::Chaperon)
                            .for_each(|event| process.queue(event));
                    } else {
                        let news = moved!(process.pods, &server.delegates);
                        news.into_iter()
                            .map(Event::Pod)
                            .for_each(|event| process.queue(event));
                    }
                });
            }
        }
    }

    pub(crate) fn set_frozen(&mut self, slot: usize, watch: usize, frozen: bool) -> bool {
        let Some(process) = self.slots.get_mut(slot).and_then(Option::as_mut) else {
            return false;
        };
        let flag = match (&mut process.kind, watch) {
            (Kind::Source(source), 0) => &mut source.proxies.frozen,
            (Kind::Source(source), n) => match source.links.get_mut(n - 1) {
                Some(link) => &mut link.chaperons.frozen,
                None => return false,
            },
            (Kind::Candidate(process), 0) => &mut process.chaperons.frozen,
            (Kind::Candidate(process), 1) => &mut process.pods.frozen,
            (Kind::Controller(process), 0) => &mut process.chaperons.frozen,
            (Kind::Controller(process), 1) => &mut process.pods.frozen,
            _ => return false,
        };
        std::mem::replace(flag, frozen) != frozen
    }
}
