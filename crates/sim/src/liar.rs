//! Two targets that lie about chaperons that aren't theirs: they forge them, repeat what they once were, tell of their
//! end, and withhold them from lists. Nobody is ever asked for there.
//!
//! The first one stands behind a Target of another namespace, and may say nothing of these pods. The other one serves
//! them, so that its words come in; but what it says of a chaperon's end must count for its own chaperons only.

use std::sync::Arc;

use pilotage_api::{PodChaperon, keys};
use pilotage_proxy::{ChaperonNews, Serves};
use serde_json::json;

use crate::world::World;

/// The one of another namespace.
pub(crate) const TENANT: &str = "liar-of-another-namespace";
/// The one that serves these pods.
pub(crate) const TWIN: &str = "liar-of-this-namespace";

/// Kinds of lies.
pub(crate) const LIES: usize = 8;

/// What each serves.
pub(crate) fn liars() -> [(&'static str, Serves); 2] {
    let elsewhere = Serves::Namespace("elsewhere".to_owned());
    [(TENANT, elsewhere), (TWIN, Serves::Everybody)]
}

impl World {
    /// A process of the source hears a lie about the chaperon with this number.
    pub(crate) fn lie(&mut self, slot: usize, n: usize, how: usize) -> bool {
        let servers = self.servers[1..].iter();
        let chaperons: Vec<_> = servers.flat_map(|s| s.chaperons.all()).cloned().collect();
        if chaperons.is_empty() || !self.runs(slot) {
            return false;
        }
        let truth = chaperons[n % chaperons.len()].clone();
        let (node, news) = match how % LIES {
            0 => match forged(&truth) {
                Some(forged) => (TENANT, ChaperonNews::Applied(forged)),
                None => return false,
            },
            1 => (TENANT, ChaperonNews::Deleted(truth)),
            2 => (TENANT, ChaperonNews::Vanished(truth)),
            3 => (TWIN, ChaperonNews::Deleted(truth)),
            4 => (TENANT, ChaperonNews::Applied(truth)),
            5 => (TENANT, ChaperonNews::Applied(self.first_of(truth))),
            6 => (TWIN, ChaperonNews::Vanished(truth)),
            _ => (TWIN, ChaperonNews::Deleted(self.first_of(truth))),
        };
        self.source(slot, |source, cx, _| source.take_news(node, news, cx))
            .is_some()
    }

    /// The chaperon as it was when it was made.
    fn first_of(&self, chaperon: Arc<PodChaperon>) -> Arc<PodChaperon> {
        let logs = self.servers[1..].iter().flat_map(|s| &s.chaperons.log);
        let mut known = logs.map(|entry| &entry.object);
        known
            .find(|known| known.metadata.uid == chaperon.metadata.uid)
            .cloned()
            .unwrap_or(chaperon)
    }
}

/// The newest version, reserved, granted, bound and running.
fn forged(truth: &PodChaperon) -> Option<Arc<PodChaperon>> {
    let mut object = serde_json::to_value(truth).ok()?;
    object["metadata"]["resourceVersion"] = json!(u64::MAX.to_string());
    let marks = [
        (keys::ATTEMPT, "99"),
        (keys::ALLOWED_ATTEMPT, "99"),
        (keys::IS_RESERVED, keys::TRUE),
        (keys::IS_ALLOWED, keys::TRUE),
    ];
    for (key, value) in marks {
        object["metadata"]["annotations"][key] = json!(value);
    }
    let bound = json!([{ "type": "PodScheduled", "status": "True" }]);
    object["status"] = json!({ "phase": "Running", "conditions": bound });
    serde_json::from_value(object).ok().map(Arc::new)
}
