//! Two targets that lie: they tell of chaperons that aren't theirs. Nobody is ever asked for there.
//!
//! The first one stands behind a Target of another namespace, and may say nothing of these pods. The other one serves them, so that
//! its words come in; but what it says of a chaperon's end must count for its own chaperons only.

use std::sync::Arc;

use pilotage_api::{PodChaperon, keys};
use pilotage_proxy::{ChaperonNews, Serves};
use serde_json::json;

use crate::world::World;

/// The one of another namespace.
pub(crate) const TENANT: &str = "liar-of-another-namespace";
/// The one that serves these pods.
pub(crate) const TWIN: &str = "liar-of-this-namespace";

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
        let truth = &chaperons[n % chaperons.len()];
        let (node, news) = match how % 4 {
            0 => match forged(truth) {
                Some(forged) => (TENANT, ChaperonNews::Applied(forged)),
                None => return false,
            },
            1 => (TENANT, ChaperonNews::Deleted(truth.clone())),
            2 => (TENANT, ChaperonNews::Vanished(truth.clone())),
            _ => (TWIN, ChaperonNews::Deleted(truth.clone())),
        };
        self.source(slot, |source, cx, _| source.take_news(node, news, cx))
            .is_some()
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
