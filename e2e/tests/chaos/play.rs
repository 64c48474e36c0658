//! One cell from its first pod to its verdict: a stream of pods, a fault while the first of them is in the cell's
//! state, quiet, and then what must hold.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use pilotage_api::{PodChaperon, keys};
use pilotage_e2e::fleet::Error;
use pilotage_testkit::{Change, LIMIT, TestNamespace, build};

use crate::cell::{Actor, Cell, State};
use crate::crowd;
use crate::evictions::{Fault, is_crowd};
use crate::keep::Kept;
use crate::stage::Stage;
use crate::strike::{Victim, strike};
use crate::tapes::{LOOK_AGAIN, Tapes, held, unrest};
use crate::world::{Place, Wanted, World};

/// Pods in a cell's stream.
const PODS: usize = 8;
/// Between two of them: so that they are in different states when the fault comes.
const PACE: Duration = Duration::from_millis(120);
/// Until the first pod is in the cell's state.
const FIRST: Duration = Duration::from_secs(30);
/// From the end of the fault until all is quiet: all back-offs together, on a busy machine.
const QUIET: Duration = LIMIT;
/// Between two tries to create a pod.
const AGAIN: Duration = Duration::from_millis(200);

/// How a cell ended.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) cell: Cell,
    /// How long its steps took.
    pub(crate) steps: Vec<(&'static str, Duration)>,
    /// Whether a pod was in the cell's state, so that somebody was struck. It takes processes that keep their leases:
    /// on a machine that stalls for seconds they end before any pod gets there.
    pub(crate) reached: bool,
    /// In which states pods were when the fault came.
    pub(crate) states: BTreeSet<State>,
    /// How many pods of the targets' own were evicted.
    pub(crate) evicted: usize,
    /// What was wrong; nothing, if it ended well.
    pub(crate) wrong: Vec<String>,
    /// What was seen, for those who must find out why.
    pub(crate) timeline: Vec<String>,
}

/// Plays a cell.
pub(crate) async fn play(stage: &Stage, cell: Cell) -> Verdict {
    let mut play = Play {
        stage,
        cell,
        begin: SystemTime::now(),
        steps: Vec::new(),
        step: Instant::now(),
        reached: false,
        states: BTreeSet::new(),
        fault: None,
        death: None,
        evicted: 0,
        tapes: None,
        wrong: Vec::new(),
    };
    if let Err(error) = play.run().await {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(error) = source {
            text = format!("{text}: {error}");
            source = error.source();
        }
        play.wrong.push(text);
    }
    let timeline = play.timeline();
    Verdict {
        cell,
        steps: play.steps,
        reached: play.reached,
        states: play.states,
        evicted: play.evicted,
        wrong: play.wrong,
        timeline,
    }
}

struct Play<'a> {
    stage: &'a Stage,
    cell: Cell,
    begin: SystemTime,
    steps: Vec<(&'static str, Duration)>,
    step: Instant,
    reached: bool,
    states: BTreeSet<State>,
    /// From the strike until what was held back had landed; everywhere, since writes were held back in all targets.
    fault: Option<Fault>,
    /// The same, of a candidate scheduler in its target.
    death: Option<Fault>,
    evicted: usize,
    tapes: Option<Tapes>,
    wrong: Vec<String>,
}

impl Play<'_> {
    async fn run(&mut self) -> Result<(), Error> {
        let (namespace, namespaces) = self.namespaces().await?;
        let played = self.run_in(&namespace).await;
        if self.cell.state.is_of_preemptors() {
            crowd::disperse(self.stage, &namespace).await?;
        }
        drop(namespaces);
        played
    }

    async fn run_in(&mut self, namespace: &str) -> Result<(), Error> {
        let preempt = self.cell.state.is_of_preemptors();
        if preempt {
            crowd::gather(self.stage, namespace).await?;
        }
        let victim = Victim::find(self.stage, self.cell.actor).await?;
        self.tapes = Some(Tapes::start(self.stage, namespace).await?);
        let kept = Kept::start(self.stage, self.cell.state, namespace);
        let pods: Api<Pod> = Api::namespaced(self.stage.fleet().source.plane.admin(), namespace);
        let creating = tokio::spawn(create_all(pods.clone(), preempt));
        let mut wanted = Wanted {
            running: (0..PODS).map(pod_name).collect(),
        };
        self.done("set up");

        let struck = self.strike_first(&pods, &mut wanted, &victim).await?;
        kept.release().await;
        if let Some((struck, target)) = struck {
            let fault = |target| Fault {
                target,
                time: struck..=SystemTime::now(),
            };
            self.fault = Some(fault(None));
            if let (Actor::CandidateScheduler, Place::Target(target)) = (self.cell.actor, target) {
                self.death = Some(fault(Some(target)));
            }
        }
        self.done("fault");
        let created = creating.await;
        created.unwrap_or_else(|error| panic!("creating pods: {error}"));
        self.done("stream");

        let restless = self.quiet(namespace, &wanted).await?;
        self.done("quiet");
        self.wrong.extend(restless);
        self.verdict(namespace, &wanted).await?;

        // What is left is to go without a trace.
        pods.delete_collection(&DeleteParams::default(), &ListParams::default())
            .await
            .map_err(Error::request("can't delete all pods"))?;
        let nothing = Wanted::default();
        let restless = self.quiet(namespace, &nothing).await?;
        self.wrong
            .extend(restless.iter().map(|line| format!("after the end: {line}")));
        self.verdict(namespace, &nothing).await?;
        self.done("end");
        Ok(())
    }

    /// Strikes while the first pod is in the cell's state: since when, and in which target it was. `None`: no pod got
    /// there, and nobody was struck.
    async fn strike_first(
        &mut self,
        pods: &Api<Pod>,
        wanted: &mut Wanted,
        victim: &Victim,
    ) -> Result<Option<(SystemTime, Place)>, Error> {
        let before = match self.cell.state {
            State::Deleting => State::Running,
            state => state,
        };
        let mut first = self.tapes()?.first(before, FIRST).await?;
        if let (State::Deleting, Some((pod, _))) = (self.cell.state, &first) {
            pods.delete(pod, &DeleteParams::default())
                .await
                .map_err(Error::request("can't delete the first pod"))?;
            wanted.running.remove(pod);
            first = self.tapes()?.first(State::Deleting, FIRST).await?;
        }
        let Some((pod, place)) = first else {
            return Ok(None);
        };
        // Seen in the source, it is the target of its delegate that is meant.
        let target = match place {
            Place::Source => self.tapes()?.target_of(&pod).unwrap_or(Place::Target(0)),
            Place::Target(_) => place,
        };
        let state = self.tapes()?.state_of(&pod);
        // It went on before it could be stopped, or gave its node back: then nothing is shown by this round.
        let holds_none = self.cell.state == State::Reserved && !self.holds_a_node().await;
        if state != Some(self.cell.state) || holds_none {
            let journal = self.stage.journal();
            journal.note(format!(
                "{pod} was {state:?} before the fault came; no node held: {holds_none}"
            ));
            return Ok(None);
        }
        self.reached = true;
        self.states = self.tapes()?.states();
        self.stage
            .journal()
            .note(format!("{pod} is seen in the cell's state, in {target:?}"));
        self.done("first");

        let struck = SystemTime::now();
        strike(self.stage, self.cell, victim, target).await?;
        Ok(Some((struck, target)))
    }

    async fn holds_a_node(&self) -> bool {
        let holds = self.stage.holds().await;
        holds
            .iter()
            .any(|hold| hold.pods.is_some_and(|pods| pods > 0))
    }

    /// Waits for quiet in the recorded histories and then in listings (I3); what is wrong when time is over. What was
    /// sent to an API server while it was frozen lands when all may be quiet otherwise.
    async fn quiet(&mut self, namespace: &str, wanted: &Wanted) -> Result<Vec<String>, Error> {
        let (stage, deadline) = (self.stage, Instant::now() + QUIET);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let restless = self.tapes()?.quiet(stage, wanted, left).await?;
            if !restless.is_empty() {
                return Ok(restless);
            }
            let mut wrong = unrest(&self.list(namespace).await?, wanted);
            wrong.extend(held(stage).await);
            if wrong.is_empty() || Instant::now() >= deadline {
                return Ok(wrong.iter().map(|line| format!("listed: {line}")).collect());
            }
            // The histories show it, too, now.
            self.tapes()?.settle().await?;
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    fn tapes(&mut self) -> Result<&mut Tapes, Error> {
        self.tapes.as_mut().ok_or_else(|| Error::Ended {
            process: "the recording".to_owned(),
            tail: String::new(),
        })
    }

    fn done(&mut self, step: &'static str) {
        self.steps.push((step, self.step.elapsed()));
        self.step = Instant::now();
    }

    /// A namespace of one name in all clusters.
    async fn namespaces(&self) -> Result<(String, Vec<TestNamespace>), Error> {
        let name = format!("chaos-{}", pilotage_testkit::unique());
        let making = self.stage.places().into_iter().map(|(cluster, place)| {
            let mut labels = BTreeMap::new();
            if place == Place::Source {
                let (key, value) = (keys::NAMESPACE_LABEL, keys::NAMESPACE_LABEL_VALUE);
                labels.insert(key.to_owned(), value.to_owned());
            }
            cluster.plane.named_namespace(&name, labels)
        });
        let namespaces = try_join_all(making).await?;
        Ok((name, namespaces))
    }

    /// I1 and I7 from the recorded histories and the audit logs.
    async fn verdict(&mut self, namespace: &str, wanted: &Wanted) -> Result<(), Error> {
        let (faults, deaths) = (self.faults(), self.deaths());
        let world = self.tapes()?.settle().await?;
        let mut wrong = world.bound_twice();
        if world.proxies_bound() < wanted.running.len() {
            wrong.push(format!(
                "only {} proxies were ever bound",
                world.proxies_bound()
            ));
        }
        wrong.extend(in_vain(world, &faults, &deaths));
        let evicted = world.evictions().count();
        self.evicted = evicted;
        wrong.extend(self.bindings_accepted_twice(namespace).await?);
        self.wrong.extend(wrong);
        Ok(())
    }

    /// When grants may have been left half done: while somebody was struck, and whenever a candidate scheduler ended.
    fn faults(&self) -> Vec<Fault> {
        self.fault.iter().cloned().chain(self.deaths()).collect()
    }

    /// When a candidate scheduler may have evicted without its successor's knowing: while it was struck, whoever led
    /// then, and whenever one ended.
    fn deaths(&self) -> Vec<Fault> {
        let ends = (self.stage.journal()).ends_of("candidate-scheduler", self.begin);
        let ends = ends.into_iter().filter_map(|(place, end)| match place {
            Place::Source => None,
            Place::Target(target) => Some(Fault {
                target: Some(target),
                time: end..=end,
            }),
        });
        self.death.iter().cloned().chain(ends).collect()
    }

    /// By name over all targets: the name of a delegate follows from its parent's UID.
    async fn bindings_accepted_twice(&self, namespace: &str) -> Result<Vec<String>, Error> {
        let mut accepted: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for cluster in &self.stage.fleet().targets {
            let entries = cluster.plane.audit()?.entries().await;
            for entry in entries.map_err(pilotage_testkit::plane::Error::from)? {
                if entry.is_binding() && entry.accepted() && entry.namespace == namespace {
                    accepted.entry(entry.name).or_default().push(cluster.name());
                }
            }
        }
        let twice = accepted
            .into_iter()
            .filter(|(_, clusters)| clusters.len() > 1);
        Ok(twice
            .map(|(name, clusters)| format!("delegate {name} was bound in {clusters:?}"))
            .collect())
    }

    /// What API servers show now.
    async fn list(&self, namespace: &str) -> Result<World, Error> {
        let mut world = World::default();
        let failed = || Error::request("can't list what is left");
        let all = ListParams::default();
        for (cluster, place) in self.stage.places() {
            let client = cluster.plane.admin();
            let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
            let listed = pods.list(&all).await.map_err(failed())?;
            for pod in listed.into_iter().filter(|pod| !is_crowd(pod)) {
                match place {
                    Place::Source => world.proxy(pod, false),
                    Place::Target(target) => world.delegate(target, pod, false, SystemTime::now()),
                };
            }
            let Place::Target(target) = place else {
                continue;
            };
            let chaperons: Api<PodChaperon> = Api::namespaced(client, namespace);
            for chaperon in chaperons.list(&all).await.map_err(failed())? {
                world.chaperon(target, chaperon, Change::Added);
            }
        }
        Ok(world)
    }

    fn timeline(&self) -> Vec<String> {
        let mut lines: Vec<(SystemTime, String)> = self.stage.journal().since(self.begin);
        for line in self.tapes.iter().flat_map(Tapes::timeline) {
            let seen = &line.seen;
            lines.push((
                line.at,
                format!("{:?} {}: {}", line.place, seen.proxy, seen.what),
            ));
        }
        lines.sort();
        let since = |at: SystemTime| at.duration_since(self.begin).unwrap_or_default();
        lines
            .into_iter()
            .map(|(at, line)| format!("{:7.3} {line}", since(at).as_secs_f32()))
            .collect()
    }
}

/// I7: who was evicted without leave, which only the death of a candidate scheduler explains; and more of them than
/// took their places, but for grants that were left half done, whoever was struck.
fn in_vain(world: &World, faults: &[Fault], deaths: &[Fault]) -> Vec<String> {
    let evictions = world.evictions();
    let mut wrong = evictions.unexplained(deaths);
    let (evicted, bound) = (evictions.count(), world.proxies_bound());
    let interrupted = evictions.interrupted(faults);
    if evicted > bound + interrupted {
        wrong.push(format!(
            "{evicted} were evicted for {bound} pods; {interrupted} grants stood during the fault"
        ));
    }
    wrong
}

fn pod_name(number: usize) -> String {
    format!("p{number}")
}

/// Creates the stream, whatever becomes of the API server meanwhile; `preempt`: of pods that evict others.
async fn create_all(pods: Api<Pod>, preempt: bool) {
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for number in 0..PODS {
        pace.tick().await;
        let pod = build::pod(&pod_name(number)).elect();
        let pod = if preempt {
            pod.request("cpu", crowd::CPU).priority_class(crowd::URGENT)
        } else {
            pod.request("cpu", "250m")
        };
        let pod = pod.build();
        while let Err(error) = pods.create(&PostParams::default(), &pod).await {
            if matches!(&error, kube::Error::Api(status) if status.reason == "AlreadyExists") {
                // The answer to an earlier try was lost.
                break;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}
