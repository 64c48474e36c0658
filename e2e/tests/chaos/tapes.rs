//! The witnesses of one cell: the histories of its namespace in all clusters, and the world that they add up to.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use futures::FutureExt;
use futures::future::{select_all, try_join_all};
use pilotage_e2e::fleet::Error;
use pilotage_testkit::History;
use pilotage_testkit::plane;
use tokio::time::{Instant, timeout_at};

use crate::cell::State;
use crate::stage::{Hold, Stage, TARGETS};
use crate::world::{Place, Seen, Wanted, World};

/// Between two looks at what no history tells of, such as what schedulers hold.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// A line of the timeline.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) at: SystemTime,
    pub(crate) place: Place,
    pub(crate) seen: Seen,
}

/// Histories of one namespace.
#[derive(Debug)]
pub(crate) struct Tapes {
    /// Each with how far it has been read.
    clusters: Vec<(Place, History, usize)>,
    world: World,
    timeline: Vec<Line>,
}

impl Tapes {
    /// Records from now on.
    pub(crate) async fn start(stage: &Stage, namespace: &str) -> Result<Self, Error> {
        let pods = format!("pods/{namespace}/");
        let chaperons = format!("{}/podchaperons/{namespace}/", pilotage_api::GROUP);
        // Of events those count that tell for whom somebody was evicted.
        let events = format!("events/{namespace}/");
        let prefixes = [pods.as_str(), chaperons.as_str(), events.as_str()];
        let recording = stage
            .places()
            .into_iter()
            .map(|(cluster, place)| async move {
                let history = cluster.plane.history(&prefixes).await?;
                Ok::<_, plane::Error>((place, history, 0))
            });
        Ok(Self {
            clusters: try_join_all(recording).await?,
            world: World::default(),
            timeline: Vec::new(),
        })
    }

    /// Reads on; lines from `index` of the timeline on are new.
    fn read(&mut self) -> Result<usize, Error> {
        let index = self.timeline.len();
        for (place, history, read) in &mut self.clusters {
            for version in history.since(*read).map_err(plane::Error::from)? {
                *read += 1;
                if let Some(seen) = self.world.take(*place, &version) {
                    self.timeline.push(Line {
                        at: version.at,
                        place: *place,
                        seen,
                    });
                }
            }
        }
        Ok(index)
    }

    /// Reads until `pick` finds something in the world or in the new lines, or time is over.
    async fn until<T>(
        &mut self,
        limit: Duration,
        mut pick: impl FnMut(&World, &[Line]) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let deadline = Instant::now() + limit;
        loop {
            let mut news: Vec<_> = self
                .clusters
                .iter()
                .map(|(_, tape, _)| tape.news())
                .collect();
            for news in &mut news {
                news.mark_unchanged();
            }
            let new = self.read()?;
            if let Some(found) = pick(&self.world, &self.timeline[new..]) {
                return Ok(Some(found));
            }
            // The sender goes only with an end that the next reading tells of.
            let changed = select_all(news.iter_mut().map(|news| news.changed().boxed()));
            if timeout_at(deadline, changed).await.is_err() {
                return Ok(None);
            }
        }
    }

    /// The first version that shows a pod in a state: the pod, and the target if it was seen in one.
    pub(crate) async fn first(
        &mut self,
        state: State,
        limit: Duration,
    ) -> Result<Option<(String, Place)>, Error> {
        self.until(limit, |_, lines| {
            let first = lines.iter().find(|line| line.seen.state == Some(state));
            first.map(|line| (line.seen.proxy.clone(), line.place))
        })
        .await
    }

    /// Waits for quiet, of objects first; what is wrong when time is over.
    pub(crate) async fn quiet(
        &mut self,
        stage: &Stage,
        wanted: &Wanted,
        limit: Duration,
    ) -> Result<Vec<String>, Error> {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let quiet = self
                .until(left, |world, _| {
                    unrest(world, wanted).is_empty().then_some(())
                })
                .await?;
            let mut wrong = match quiet {
                Some(()) => Vec::new(),
                None => unrest(&self.world, wanted),
            };
            wrong.extend(held(stage).await);
            if wrong.is_empty() || Instant::now() >= deadline {
                return Ok(wrong);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Reads everything that was written before this call.
    pub(crate) async fn settle(&mut self) -> Result<&World, Error> {
        for (_, history, _) in &self.clusters {
            history.settle().await.map_err(plane::Error::from)?;
        }
        self.read()?;
        Ok(&self.world)
    }

    /// The target where a proxy's delegate is bound.
    pub(crate) fn target_of(&self, proxy: &str) -> Option<Place> {
        self.world.target_of(proxy).map(Place::Target)
    }

    pub(crate) fn timeline(&self) -> &[Line] {
        &self.timeline
    }

    /// How far a pod has come.
    pub(crate) fn state_of(&self, proxy: &str) -> Option<State> {
        let lines = self.timeline.iter();
        let its = lines.filter(|line| line.seen.proxy == proxy);
        its.filter_map(|line| line.seen.state).max()
    }

    /// How far all pods have come, for the report.
    pub(crate) fn states(&self) -> BTreeSet<State> {
        let proxies: BTreeSet<&str> = (self.timeline.iter())
            .map(|line| line.seen.proxy.as_str())
            .collect();
        (proxies.into_iter())
            .filter_map(|proxy| self.state_of(proxy))
            .collect()
    }
}

/// Who holds a node that nobody is bound to, with or without an object that shows it.
pub(crate) async fn held(stage: &Stage) -> Vec<String> {
    let holds = stage.holds().await.into_iter();
    holds
        .filter_map(|Hold { scheduler, pods }| match pods {
            Some(0) => None,
            Some(pods) => Some(format!("{scheduler} holds nodes for {pods} pods")),
            None => Some(format!("{scheduler} doesn't say what it holds")),
        })
        .collect()
}

/// What is wrong in a world, with the targets' names.
pub(crate) fn unrest(world: &World, wanted: &Wanted) -> Vec<String> {
    world.unrest(wanted, &TARGETS.map(ToOwned::to_owned))
}
