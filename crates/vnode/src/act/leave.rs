//! Whether a virtual node and its Target may go: live reads, in the source and in the target. It writes nothing.
//!
//! A target that answers may show our chaperons for ever, however its operator waits. One that is forgotten is looked
//! at for some time, by our own clock, and then no more.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::api::ListParams;
use kube::core::ObjectMeta;
use pilotage_api::parent::selector_of_source;
use pilotage_api::{PodChaperon, keys};
use pilotage_clusters::{Connection, Target, TargetObject};
use pilotage_model::virtual_node::was_reached;
use pilotage_runtime::call::{self, CALL_LIMIT, Failure};
use pilotage_runtime::moment::from_now;
use tokio::time::{Instant, timeout_at};

use super::records::{Records, each_pod};
use super::{ActError, Actor};
use crate::decide::is_made_proxy;

/// Chaperons that are looked at at once when a Target is to go, and how often more are asked for: no target is endless.
const PAGE: u32 = 500;
const PAGES: usize = 200;

/// So long what is left in a forgotten target is waited for, from when the last of its pods here has gone. These were
/// waited for with their grace; what is left was asked to end before.
const FORGOTTEN: Duration = Duration::from_secs(30);

/// Since when the end of a deleted Target waits for its target alone.
#[derive(Debug, Default)]
pub(crate) struct Leaving(Option<(String, Instant)>);

impl Leaving {
    /// Begins with the first look for this Target, by its UID; when nobody waits any more if it is forgotten.
    fn begin(&mut self, uid: &str) -> Instant {
        match &self.0 {
            Some((known, until)) if known == uid => *until,
            _ => {
                let until = from_now(FORGOTTEN);
                self.0 = Some((uid.to_owned(), until));
                until
            }
        }
    }

    /// When that is, if it has begun and isn't over.
    pub(crate) fn ends_in(&self) -> Option<Duration> {
        let (_, until) = self.0.as_ref()?;
        let left = until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}

/// What a look at a target says, or that the time for it is over.
async fn in_time(
    until: Instant,
    look: impl Future<Output = Result<(), ActError>>,
) -> Result<(), ActError> {
    // A timer that is due lets others begin all the same.
    if until <= Instant::now() {
        return Ok(());
    }
    timeout_at(until, look).await.unwrap_or(Ok(()))
}

impl Actor {
    /// Live reads, since the watches may be older than the last pod: no proxy is bound here, and no chaperon of ours is
    /// left in the target. `false`: a proxy is, which the watch will show; or the target hasn't been tried yet.
    pub(super) async fn is_empty(&mut self) -> Result<bool, ActError> {
        if *self.is_bound().await? {
            return Ok(false);
        }
        let Some(target) = self.target.clone() else {
            return Ok(true);
        };
        if target.connection() == Connection::Connecting {
            return Ok(false);
        }
        let until = self.leaving.begin(&target.object().uid);
        if !is_forgotten(&target) {
            // However long the target takes to answer, the word of its operator counts when it comes.
            tokio::select! {
                looked = self.look(&target) => return looked.map(|()| true),
                () = forgotten(&target) => {}
            }
        }
        in_time(until, self.check_target(&target)).await?;
        Ok(true)
    }

    /// Whether a proxy is bound to the node. Other pods there are whoever's names the node.
    async fn is_bound(&self) -> Result<Arc<bool>, ActError> {
        let fields = format!("spec.nodeName={}", self.node);
        let read = async {
            let mut found = false;
            let look = each_pod(&self.client, &fields, |pod| {
                found = is_made_proxy(pod);
                !found
            });
            look.await.map(|()| found)
        };
        let bound = self.bound.join(Box::pin(read)).await;
        bound.map_err(|source| ActError::Call {
            what: "list the node's pods",
            source,
        })
    }

    /// Nothing of ours is left in the target.
    async fn look(&self, target: &Target) -> Result<(), ActError> {
        self.check_target(target).await?;
        match self.followed.left(target, &self.cluster).await {
            Some(kind) => Err(ActError::Followed(kind)),
            None => Ok(()),
        }
    }

    async fn check_target(&self, target: &Target) -> Result<(), ActError> {
        let object = target.object();
        let forgotten = is_forgotten(target);
        let (Some(client), true) = (target.client(), target.is_connected()) else {
            return if forgotten || !self.may_hold_something(target).await? {
                Ok(())
            } else {
                let why = "can't be reached".to_owned();
                Err(ActError::Away { why })
            };
        };
        let chaperons: Api<PodChaperon> = match &object.key.namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        };
        let mut ours = ListParams::default()
            .labels(&selector_of_source(&self.cluster))
            .limit(PAGE);
        let mut records = None;
        for _ in 0..PAGES {
            let left = match call::within(CALL_LIMIT, chaperons.list_metadata(&ours)).await {
                Ok(left) => left,
                Err(_) if forgotten => return Ok(()),
                Err(source) if !matches!(source.kind(), Failure::Forbidden | Failure::NotFound) => {
                    let what = "list our PodChaperons in the target";
                    return Err(ActError::Call { what, source });
                }
                Err(error) => {
                    let why = format!("doesn't list our PodChaperons ({error})");
                    return Err(ActError::Away { why });
                }
            };
            let metas: Vec<_> = left.items.into_iter().map(|it| it.metadata).collect();
            if !metas.is_empty() {
                // Two Targets may stand for one cluster.
                if records.is_none() {
                    records = Some(self.records().await?);
                }
                let known = records.iter().flat_map(|all| all.elsewhere(&self.node));
                match waited_for(&metas, &known.collect(), forgotten) {
                    0 => {}
                    count => return Err(ActError::Occupied(count)),
                }
            }
            ours.continue_token = left.metadata.continue_.filter(|token| !token.is_empty());
            if ours.continue_token.is_none() {
                return Ok(());
            }
        }
        if forgotten {
            return Ok(());
        }
        let why = "lists PodChaperons without end".to_owned();
        Err(ActError::Away { why })
    }

    /// Whether something of ours may be in a target that can't be asked: whoever was reached once may have been sent
    /// pods, and what was only asked there, or replaced, stands in no record.
    async fn may_hold_something(&self, target: &Target) -> Result<bool, ActError> {
        let told = target.identity().borrow().is_some();
        let node = self.nodes.get(None, &self.node);
        if told
            || target.object().status.cluster_uid.is_some()
            || node.is_some_and(|node| was_reached(&node))
        {
            return Ok(true);
        }
        Ok(self.records().await?.may_name(&self.node))
    }

    /// What the records of all proxy pods name, read live.
    async fn records(&self) -> Result<Arc<Records>, ActError> {
        let read = Box::pin(Records::read(&self.client));
        let records = self.records.join(read).await;
        records.map_err(|source| ActError::Call {
            what: "list proxy pods",
            source,
        })
    }
}

/// Whether its operator doesn't want it to be waited for.
pub(crate) fn is_forgotten(target: &Target) -> bool {
    has_word(&target.object())
}

fn has_word(object: &TargetObject) -> bool {
    object.annotations.get(keys::FORGET).map(String::as_str) == Some(keys::TRUE)
}

/// Waits for its operator to say so.
async fn forgotten(target: &Target) {
    let mut objects = target.objects();
    if objects.wait_for(|object| has_word(object)).await.is_err() {
        // It is gone, and so will its keeper be.
        std::future::pending::<()>().await;
    }
}

/// How many of these chaperons are in the way of the Target's end.
fn waited_for(left: &[ObjectMeta], elsewhere: &HashSet<&str>, forgotten: bool) -> usize {
    // What is ending, or was asked to give up, needs only the target's own Pilotage, which may be down.
    let told = |meta: &ObjectMeta| {
        let annotations = meta.annotations.as_ref();
        let gives_up = annotations.and_then(|all| all.get(keys::GIVE_UP));
        meta.deletion_timestamp.is_some() || gives_up.is_some_and(|text| text == keys::TRUE)
    };
    let waits = |meta: &&ObjectMeta| !(forgotten && told(meta));
    let uids = left.iter().filter(waits);
    uids.filter_map(|meta| meta.uid.as_deref())
        .filter(|uid| !elsewhere.contains(uid))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn occupied() -> Result<(), ActError> {
        Err(ActError::Occupied(1))
    }

    #[tokio::test(start_paused = true)]
    async fn a_forgotten_target_is_looked_at_until_its_time_is_over() {
        let mut leaving = Leaving::default();
        assert_eq!(leaving.ends_in(), None);
        let until = leaving.begin("a");
        assert_eq!(until - Instant::now(), FORGOTTEN);
        let looked = in_time(until, async { occupied() }).await;
        assert!(matches!(looked, Err(ActError::Occupied(1))));
        tokio::time::advance(FORGOTTEN.saturating_sub(SECOND)).await;
        assert_eq!(leaving.begin("a"), until, "nothing begins it anew");
        assert_eq!(leaving.ends_in(), Some(SECOND));
        assert!(in_time(until, async { occupied() }).await.is_err());
        tokio::time::advance(SECOND).await;
        assert!(in_time(until, async { occupied() }).await.is_ok());
        assert_eq!(leaving.ends_in(), None);
        let another = leaving.begin("b");
        assert_eq!(another - Instant::now(), FORGOTTEN, "another Target");
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_never_ends_ends_with_its_time() {
        let (begun, until) = (Instant::now(), from_now(FORGOTTEN));
        let looked = in_time(until, std::future::pending()).await;
        assert!(looked.is_ok());
        assert_eq!(begun.elapsed(), FORGOTTEN);
        assert!(in_time(until, std::future::pending()).await.is_ok());
    }

    #[test]
    fn of_a_forgotten_target_only_what_was_not_told_to_end_is_waited_for() {
        let chaperon = |uid: &str, ending: bool, gives_up: &str| ObjectMeta {
            uid: Some(uid.to_owned()),
            deletion_timestamp: ending.then(|| {
                serde_json::from_value(serde_json::json!("2026-01-01T00:00:00Z")).unwrap()
            }),
            annotations: Some([(keys::GIVE_UP.to_owned(), gives_up.to_owned())].into()),
            ..ObjectMeta::default()
        };
        let all = [
            chaperon("a", false, ""),
            chaperon("b", true, ""),
            chaperon("c", false, keys::TRUE),
            chaperon("d", false, ""),
        ];
        let elsewhere = HashSet::from(["d"]);
        assert_eq!(waited_for(&all, &elsewhere, false), 3);
        assert_eq!(waited_for(&all, &elsewhere, true), 1);
    }
}
