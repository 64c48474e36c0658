//! One measurement: pods are created, run, and are deleted again, between two looks at everything that is counted.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::watcher;
use pilotage_api::PodChaperon;
use pilotage_testkit::list_until;
use tokio::sync::watch;

use super::actors::{self, Row};
use super::error::Error;
use super::figures::{self, Figures, Frozen, Idle, Seconds};
use super::freeze;
use super::load;
use super::quantiles::Quantiles;
use super::requests::{self, Counts};
use super::runs::{Load, Pace, Tempo};
use super::settings::cores;
use super::subject::{NAMESPACE, PILOTAGE, Subject, virtual_node};
use super::timeline::{Moments, Timeline};
use super::usage::{self, Program, Sample};
use super::watch::Watches;
use crate::fleet::{Error as FleetError, SOURCE_ACCOUNT};

/// How long pods may take to run, or to go.
const LIMIT: Duration = Duration::from_mins(3);
/// What is still written when the last pod runs (events, statuses that were gathered) belongs to the pods, too.
const AFTER: Duration = Duration::from_secs(2);
/// Pods that warm everything up.
const WARM: usize = 20;
/// One look at an idle fleet.
const QUIET: Duration = Duration::from_millis(2_500);
/// At most so many looks.
const LOOKS: usize = 10;

/// Running clusters, ready to be measured.
pub(super) struct Bench<'a> {
    subject: &'a Subject,
    watches: Watches,
    /// Everything that is measured.
    pub(super) programs: Vec<Program>,
    /// What it uses with nothing to do.
    pub(super) idle: Idle,
    audited: bool,
}

impl<'a> Bench<'a> {
    /// Warms the clusters up, and looks what they use when idle.
    pub(super) async fn new(subject: &'a Subject, audited: bool) -> Result<Self, Error> {
        let programs = subject.programs().await;
        let mut bench = Self {
            watches: Watches::start(subject.planes(), Some(NAMESPACE)).await?,
            idle: Idle {
                cores: vec![0.0; programs.len()],
            },
            subject,
            programs,
            audited,
        };
        let gently = Load {
            pace: Pace::Burst(2),
            frozen: false,
        };
        bench
            .measure(&gently, Tempo::Burst(2), "warm", WARM)
            .await?;
        bench.idle = bench.quiet().await?;
        Ok(bench)
    }

    /// Looks until what is used no longer falls: start-up work goes on for a while after everything is ready.
    async fn quiet(&self) -> Result<Idle, Error> {
        let mut idle: Option<Idle> = None;
        for _ in 0..LOOKS {
            let before = Sample::take(&self.programs)?;
            tokio::time::sleep(QUIET).await;
            let now = Idle::of(&before.until(&Sample::take(&self.programs)?));
            let falls = idle
                .as_ref()
                .is_none_or(|earlier| now.total() < 0.9 * earlier.total());
            idle = Some(now);
            if !falls {
                break;
            }
        }
        idle.ok_or(Error::Empty("no look at an idle fleet"))
    }

    fn has_targets(&self) -> bool {
        !self.subject.targets().is_empty()
    }

    fn pods_api(&self) -> Api<Pod> {
        Api::namespaced(self.subject.source().admin(), NAMESPACE)
    }

    /// Requests so far, cluster by cluster.
    async fn requests(&self) -> Result<BTreeMap<String, Counts>, Error> {
        let mut all = BTreeMap::new();
        for plane in self.subject.planes() {
            let counts = requests::read(&plane.admin()).await?;
            all.insert(plane.name().to_owned(), counts);
        }
        Ok(all)
    }

    /// Creates pods of this prefix in this tempo, waits until they run and all is quiet, and deletes them.
    pub(super) async fn measure(
        &mut self,
        load: &Load,
        tempo: Tempo,
        prefix: &str,
        pods: usize,
    ) -> Result<Figures, Error> {
        let names = load::names(prefix, pods);
        let has_targets = self.has_targets();
        let all = names.iter().map(|name| {
            let pod = load::pod(name).ns(NAMESPACE);
            if has_targets { pod.elect() } else { pod }.build()
        });
        let all = all.collect();
        let mut timeline = Timeline::new(names.iter().cloned());
        let victim = self.subject.targets().last().filter(|_| load.frozen);
        let victim_node = victim.map(|target| virtual_node(target.name()));
        let (api, subject) = (self.pods_api(), self.subject);
        let client = subject.source().admin();

        usage::reset_peaks(&self.programs)?;
        let requests_before = self.requests().await?;
        let audited_before = self.audited_ids().await?;
        let start = Sample::take(&self.programs)?;

        let (progress, sent) = watch::channel(0);
        let creating = load::create(&client, all, tempo, &progress);
        let freezing = async {
            match victim {
                Some(target) => freeze::after(target, pods / 5, sent).await.map(Some),
                None => Ok(None),
            }
        };
        let placed = |timeline: &Timeline| match &victim_node {
            Some(node) => timeline.all_placed_but_at(node),
            None => timeline.all_run(),
        };
        let what = "not every pod runs";
        let seeing = self.watches.until(&mut timeline, what, LIMIT, placed);
        let work = async { tokio::try_join!(creating, freezing, seeing) };
        let (created, frozen, ()) = tokio::select! {
            done = work => done?,
            ended = subject.ended() => return Err(ended),
        };
        let worked = Sample::take(&self.programs)?;

        let mut held = 0;
        let mut frozen_at = None;
        let mut frozen_for = Duration::ZERO;
        if let Some(frozen) = frozen {
            held = victim_node.as_ref().map_or(0, |node| timeline.hold(node));
            frozen_at = Some(frozen.at);
            frozen_for = frozen.end().await?;
        }
        let settled = |timeline: &Timeline| timeline.is_settled(has_targets);
        let what = "not every pod runs, or some target has more pods than run";
        self.watches
            .until(&mut timeline, what, LIMIT, settled)
            .await?;
        let settled_at = Instant::now();
        tokio::time::sleep(AFTER).await;
        let finish = Sample::take(&self.programs)?;
        let peaks = usage::peaks(&self.programs)?;
        let requests_after = self.requests().await?;
        let actors = self.actors(&audited_before, pods).await?;

        if let Some(target) = victim {
            subject.connected(target.name()).await?;
        }
        self.delete(&api, &mut timeline).await?;
        let requests_at_end = self.requests().await?;

        for sent in &created {
            timeline.sent(&sent.name, sent.at);
        }
        let first = created.iter().map(|sent| sent.at).min();
        let first = first.ok_or(Error::Empty("no pod was created"))?;
        let since = |moment: Option<Instant>| {
            moment.map(|moment| moment.saturating_duration_since(first).as_secs_f64())
        };
        // Those that a frozen target has are told apart.
        let counts =
            |pod: &&Moments| !pod.held && (victim_node.is_none() || pod.recorded != victim_node);
        let counted: Vec<&Moments> = timeline.pods().filter(counts).collect();
        let last = |moment: &dyn Fn(&Moments) -> Option<Instant>| {
            since(counted.iter().filter_map(|pod| moment(pod)).max())
        };
        let times = |moment: &dyn Fn(&Moments) -> Option<Instant>| -> Vec<Duration> {
            let times = counted.iter().map(|pod| pod.since_sent(moment(pod)));
            times.flatten().collect()
        };
        let quantiles = |moment: &dyn Fn(&Moments) -> Option<Instant>| Quantiles::of(times(moment));
        let delegate = |pod: &Moments| timeline.delegate_bound(pod);
        let none = || Error::Empty("no pod was bound");
        let bound_s = last(&|pod| pod.bound).ok_or_else(none)?;
        let running_s = last(&|pod| pod.running).ok_or_else(none)?;
        let working = start.until(&worked);
        let cpu = figures::cpu(
            &self.programs,
            &self.idle,
            counted.len(),
            &working,
            &worked.until(&finish),
            PILOTAGE,
        );
        let until_settled = between(&requests_before, &requests_after);
        let about_pods = figures::about_pods(until_settled.iter(), pods);
        let at_end = between(&requests_after, &requests_at_end);
        let achieved = counted.len() as f64 / working.time.as_secs_f64();
        let peaks = self.programs.iter().zip(peaks);
        let peaks: Vec<(&Program, f64)> = peaks
            .map(|(program, kib)| (program, kib as f64 / 1_024.0))
            .collect();
        let ours = peaks
            .iter()
            .filter(|(program, _)| program.group == PILOTAGE);
        let elsewhere = counted.iter().filter(|pod| pod.bound > frozen_at);
        let elsewhere: Vec<_> = elsewhere
            .filter_map(|pod| pod.since_sent(pod.bound))
            .collect();
        let about_ends = figures::about_pods(at_end.iter(), pods);
        Ok(Figures {
            load: load.pace.to_string(),
            rate: tempo.rate(),
            frozen: victim.map(|target| Frozen {
                target: target.name().to_owned(),
                held,
                elsewhere: Quantiles::of(elsewhere.iter().copied()),
                times: elsewhere,
                seconds: frozen_for.as_secs_f64(),
                bound_twice: timeline.bound_twice(),
            }),
            seconds: Seconds {
                created: since(created.iter().map(|sent| sent.answered).max()).unwrap_or_default(),
                delegates_bound: last(&delegate),
                bound: bound_s,
                running: running_s,
                settled: since(Some(settled_at)).unwrap_or_default(),
            },
            pods_per_second: counted.len() as f64 / bound_s.max(f64::EPSILON),
            delegate_bound: quantiles(&delegate),
            bound: quantiles(&|pod| pod.bound).ok_or_else(none)?,
            times: times(&|pod| pod.bound),
            running: quantiles(&|pod| pod.running).ok_or_else(none)?,
            bound_by_cpu: figures::bound(cores(), self.idle.total(), cpu.all_ms, achieved),
            cpu,
            // The empty sum of floats is −0.
            pilotage_peak_mib: ours.map(|(_, mib)| mib).sum::<f64>().max(0.0),
            peak_mib: peaks
                .iter()
                .map(|(p, mib)| (p.name.clone(), *mib))
                .collect(),
            requests: until_settled
                .iter()
                .map(|(cluster, counts)| (cluster.clone(), figures::per_pod(counts, pods)))
                .collect(),
            requests_per_pod: about_pods.all,
            failed_per_pod: about_pods.failed,
            failed_of_kubelets_per_pod: about_pods.failed_of_kubelets,
            requests_at_end_per_pod: about_ends.all,
            failed_at_end_per_pod: about_ends.failed,
            actors,
        })
    }

    /// Deletes the pods, and waits until nothing is left of them.
    async fn delete(&mut self, api: &Api<Pod>, timeline: &mut Timeline) -> Result<(), Error> {
        api.delete_collection(&DeleteParams::default(), &ListParams::default())
            .await
            .map_err(Error::request("can't delete the pods"))?;
        let what = "pods are left";
        self.watches
            .until(timeline, what, LIMIT, Timeline::is_empty)
            .await?;
        for target in self.subject.targets() {
            let chaperons: Api<PodChaperon> = Api::namespaced(target.plane.admin(), NAMESPACE);
            let config = watcher::Config::default();
            list_until(&chaperons, config, BTreeMap::is_empty, LIMIT)
                .await
                .map_err(FleetError::wait("chaperons are left"))?;
        }
        // Collectors that come too late ask once more; that belongs to this load, not to the next one.
        tokio::time::sleep(AFTER).await;
        Ok(())
    }

    /// Requests that the audit logs have so far.
    async fn audited_ids(&self) -> Result<HashSet<String>, Error> {
        let mut ids = HashSet::new();
        if self.audited {
            for plane in self.subject.planes() {
                let entries = plane.audit()?.entries().await.map_err(audit)?;
                ids.extend(entries.into_iter().map(|entry| entry.id));
            }
        }
        Ok(ids)
    }

    /// Who asked for what since then, in the pods' namespace.
    async fn actors(&self, before: &HashSet<String>, pods: usize) -> Result<Vec<Row>, Error> {
        let mut new = Vec::new();
        if self.audited {
            for (cluster, plane) in self.subject.planes().enumerate() {
                let mut entries = plane.audit()?.entries().await.map_err(audit)?;
                entries.retain(|entry| {
                    entry.namespace == NAMESPACE
                        && entry.verb != "watch"
                        && !before.contains(&entry.id)
                });
                new.extend(entries.into_iter().map(|entry| (cluster == 0, entry)));
            }
        }
        let entries = new.iter().map(|(in_source, entry)| (*in_source, entry));
        Ok(actors::rows(entries, pods, PILOTAGE, SOURCE_ACCOUNT))
    }
}

fn audit(error: pilotage_testkit::audit::Error) -> Error {
    pilotage_testkit::plane::Error::from(error).into()
}

fn between(
    before: &BTreeMap<String, Counts>,
    after: &BTreeMap<String, Counts>,
) -> BTreeMap<String, Counts> {
    let nothing = Counts::new();
    after
        .iter()
        .map(|(cluster, counts)| {
            let earlier = before.get(cluster).unwrap_or(&nothing);
            (cluster.clone(), requests::between(earlier, counts))
        })
        .collect()
}
