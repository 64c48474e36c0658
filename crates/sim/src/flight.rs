//! Requests under way: sent, landed in an API server, answered, given up, or landed after all.

use std::{mem, time::Duration};

use crate::{
    clock::Time,
    request::{CallContext, Progress, Reply, Request, describe},
    world::World,
};

/// A request under way.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) slot: usize,
    pub(crate) request: Request,
    pub(crate) stage: u8,
    pub(crate) reply: Option<Reply>,
    /// When its sender gives it up.
    pub(crate) limit: Time,
}

impl World {
    pub(crate) fn send(&mut self, slot: usize, now: Duration) {
        let Some(process) = &self.slots[slot] else {
            return;
        };
        let sent = mem::take(&mut self.sent);
        for request in sent {
            if let Request::Write { write, .. } = &request {
                let tried = (process.number, write.chaperon_uid.clone(), write.attempt);
                self.tried.insert(tried);
            }
            let limit = process.clock.when(now + request.limit(now));
            if let Some(trace) = &mut self.trace {
                trace.push(format!(
                    "{:>34} {} sends {}",
                    "",
                    Self::name_of(slot),
                    describe(&request)
                ));
            }
            self.flights.push(Flight {
                slot,
                request,
                stage: 0,
                reply: None,
                limit,
            });
        }
    }

    // ---- requests ---------------------------------------------------------------------------------------------------

    /// The API server that the next call goes to, and whether the way there is open.
    pub(crate) fn way(&self, flight: &Flight) -> (usize, bool) {
        let own = Self::server_of(flight.slot);
        let cut = self.slots[flight.slot]
            .as_ref()
            .is_some_and(|process| process.cut);
        match flight.request.node(flight.stage) {
            None => (own, !cut),
            Some(node) => {
                let target = self
                    .nodes
                    .iter()
                    .position(|known| known == node)
                    .unwrap_or(0);
                let site = &self.sites[target];
                (target + 1, !site.parted && site.exists)
            }
        }
    }

    /// Whether a request's next call can reach its API server.
    pub(crate) fn can_land(&self, index: usize) -> bool {
        let flight = self.flights.get(index);
        flight.is_some_and(|flight| flight.reply.is_none() && self.way(flight).1)
    }

    /// The next call of a request.
    pub(crate) fn land(&mut self, index: usize) {
        let (server, _) = self.way(&self.flights[index]);
        let flight = &self.flights[index];
        let (request, stage) = (flight.request.clone(), flight.stage);
        let slot = flight.slot;
        self.caller = self.slots[slot].as_ref().map(|process| process.number);
        match self.call(&request, stage, server) {
            Progress::Next => self.flights[index].stage += 1,
            Progress::Done(reply) => self.flights[index].reply = Some(reply),
        }
    }

    /// A request that nobody waits for lands, one call of it.
    pub(crate) fn land_late(&mut self, index: usize) {
        let flight = self.late.remove(index);
        let (server, _) = self.way(&flight);
        self.caller = None;
        self.call(&flight.request, flight.stage, server);
    }

    pub(crate) fn call(&mut self, request: &Request, stage: u8, server: usize) -> Progress {
        let known: Vec<String> = match request {
            Request::Look { .. } => {
                let nodes = self.nodes.iter().zip(&self.sites);
                nodes
                    .filter(|(_, site)| site.exists)
                    .map(|(node, _)| node.clone())
                    .collect()
            }
            _ => Vec::new(),
        };
        let before = self.before(request, stage, server);
        self.check_deletion(request, stage, server, &before);
        let cx = CallContext {
            cluster: &self.cluster,
            nodes: &known,
            elsewhere: server > 0
                && request.node(stage).is_some()
                && self.sites[server - 1].elsewhere,
        };
        let progress = request.call(stage, &mut self.servers[server], &cx);
        self.check_call(request, server, &before);
        if matches!(progress, Progress::Next) {
            self.check_look(request);
        }
        progress
    }

    /// The answer of a request arrives.
    pub(crate) fn reply(&mut self, index: usize) {
        let flight = self.flights.remove(index);
        if let Some(reply) = flight.reply {
            self.answer(flight.slot, &flight.request, reply);
        }
    }

    /// A request's sender hears nothing; the request, if it hasn't landed.
    pub(crate) fn give_up(&mut self, index: usize) -> Option<Flight> {
        let flight = self.flights.remove(index);
        let unknown = flight.request.unknown();
        self.answer(flight.slot, &flight.request, unknown);
        flight.reply.is_none().then_some(flight)
    }

    pub(crate) fn answer(&mut self, slot: usize, request: &Request, reply: Reply) {
        if self.trace.is_some() {
            let answer = crate::request::describe_reply(&reply);
            self.tell(format!(
                "{:>34} {} hears {answer} ({})",
                "",
                Self::name_of(slot),
                describe(request)
            ));
        }
        match slot / 2 {
            0 | 1 => {
                self.source(slot, |source, cx, _| source.answered(request, reply, cx));
            }
            role if role % 2 == 0 => {
                self.candidate(slot, |process, cx, _| process.answered(request, reply, cx));
            }
            _ => {
                self.controller(slot, |process, cx, _| process.answered(request, reply, cx));
            }
        }
    }
}
