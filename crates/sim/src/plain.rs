//! A target that runs plain Admiralty: it writes what its schedulers and controllers write, and no numbers.
//!
//! It reads everything live, as that candidate scheduler re-reads its chaperon before each step.

use pilotage_api::keys;
use pilotage_proxy::class::Marks;
use serde_json::{Value, json};

use crate::{
    bodies,
    clock::Time,
    server::{Object, Server},
    world::World,
};

/// How long it holds a node for an answer.
pub(crate) const PATIENCE: Time = Time::from_secs(30);

/// What a plain target's parts do next for one chaperon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    MakePod,
    MarkMissing,
    Reserve,
    Unreserve,
    Bind,
    CopyStatus,
}

impl World {
    fn plain_next(&self, target: usize, n: usize) -> Option<(String, Next)> {
        let site = &self.sites[target];
        let server = &self.servers[target + 1];
        let chaperon = server.chaperons.all().get(n).filter(|_| site.plain)?;
        let name = chaperon.name().to_owned();
        let pod = server.delegates.get(&name);
        let own = pod.filter(|pod| pod.owner() == Some(chaperon.uid()));
        if chaperon.is_ending() {
            return None;
        }
        let Some(pod) = own else {
            let missing = Marks::of(chaperon).missing;
            return match (pod, chaperon.status.is_none()) {
                (None, true) if !server.refuses_pods => Some((name, Next::MakePod)),
                (None, false) if !missing => Some((name, Next::MarkMissing)),
                _ => None,
            };
        };
        let next = |next| Some((name.clone(), next));
        let status = chaperon.status.as_ref().map(|status| &status.0);
        if status != Some(&pod.raw.status) {
            return next(Next::CopyStatus);
        }
        if pod.is_ending() || pod.node().is_some() || pod.scheduler() != keys::CANDIDATE_SCHEDULER {
            return None;
        }
        let marks = Marks::of(chaperon);
        let held = site
            .plain_holds
            .iter()
            .find(|(uid, _)| uid == chaperon.uid());
        match (held, marks.reserved) {
            (Some(_), true) if marks.is_allowed && site.takes() => next(Next::Bind),
            (Some((_, since)), _) if self.now >= *since + PATIENCE => next(Next::Unreserve),
            (None, _) if site.takes() => next(Next::Reserve),
            _ => None,
        }
    }

    /// Whether a plain target has something to do for a chaperon.
    pub(crate) fn can_plain(&self, target: usize, n: usize) -> bool {
        self.plain_next(target, n).is_some()
    }

    pub(crate) fn plain(&mut self, target: usize, n: usize, _: usize) -> bool {
        let Some((name, next)) = self.plain_next(target, n) else {
            return false;
        };
        if self.is_traced() {
            self.tell(format!("{:>34} plain: {name}: {next:?}", ""));
        }
        let now = self.now;
        let server = &mut self.servers[target + 1];
        let Some(chaperon) = server.chaperons.get(&name).cloned() else {
            return false;
        };
        match next {
            Next::MakePod => {
                if let Ok(body) = bodies::candidate(&chaperon) {
                    drop(server.create_pod(body));
                }
            }
            Next::MarkMissing => {
                let since = json!({ keys::POD_MISSING_SINCE: "2024-01-01T00:00:00Z" });
                let patch = json!({ "metadata": { "annotations": since } });
                drop(server.merge_chaperon(&name, &patch));
            }
            Next::Reserve => {
                mark(server, &name, &keys::TRUE.into());
                let uid = chaperon.uid().to_owned();
                self.sites[target].plain_holds.push((uid, now));
            }
            Next::Unreserve => {
                mark(server, &name, &Value::Null);
                self.sites[target]
                    .plain_holds
                    .retain(|(uid, _)| uid != chaperon.uid());
            }
            Next::Bind => {
                let uid = server.delegates.get(&name).map(|pod| pod.uid().to_owned());
                if let Some(uid) = uid {
                    let _ = server.bind_pod(&name, &uid, "n3");
                }
                self.sites[target]
                    .plain_holds
                    .retain(|(uid, _)| uid != chaperon.uid());
                self.check_bound(target + 1, &name);
            }
            Next::CopyStatus => {
                if let Some(pod) = server.delegates.get(&name) {
                    let patch = json!({ "status": pod.raw.status });
                    drop(server.merge_chaperon_status(&name, &patch));
                }
            }
        }
        true
    }
}

fn mark(server: &mut Server, name: &str, reserved: &Value) {
    let patch = json!({ "metadata": { "annotations": { keys::IS_RESERVED: reserved } } });
    drop(server.merge_chaperon(name, &patch));
}
