//! Random walks of the machine in a small world: a chaperon and its pod behind an API server that loses replies, a
//! store that lags, a source that grants, a scheduler that finds nodes or not, an admission that gates some pods,
//! restarts, and another leader now and then.

use std::{collections::BTreeSet, time::Duration};

use proptest::prelude::*;

use super::*;
use crate::{
    seat::{BindOutcome, Fit, Outcome},
    view::Grant,
};

/// Where the scheduler has the pod.
#[derive(Clone, Debug, PartialEq)]
enum Place {
    Queue,
    Permit(String),
    Bind(String),
}

/// How the API server treats the next request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Luck {
    Good,
    /// It lands, the reply is lost.
    ReplyLost,
    /// It doesn't land, nobody knows.
    Lost,
    /// It lands later, nobody knows.
    Delayed,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Luck(Luck),
    Pass(u16),
    Cycle { node: Option<u8>, ignore_gate: bool },
    Fits(bool),
    Grant,
    StatusUpdate,
    Watch,
    LandDelayed,
    DeletePod,
    EndPod,
    MakePod { gated: bool },
    Ungate,
    EndChaperon,
    Restart,
    OtherLeader,
    LoseSeat,
}

#[derive(Debug)]
struct World {
    now: Duration,
    version: u64,
    pods: u64,
    pod: Option<PodView>,
    chaperon: Option<ChaperonView>,
    seen_pod: Option<PodView>,
    seen_chaperon: Option<ChaperonView>,
    memory: Memory,
    place: Place,
    gate: Gate,
    luck: Luck,
    fits: bool,
    delayed: Vec<Delayed>,
    settings: Settings,
    /// Reserving writes that landed: attempt and pod.
    reserving: BTreeSet<(u64, String)>,
    /// Grants that landed.
    granted: BTreeSet<u64>,
}

#[derive(Debug)]
enum Delayed {
    Write(Write),
    Bind { pod_uid: String, node: String },
}

impl World {
    fn new(gated: bool) -> Self {
        let mut world = Self {
            now: Duration::ZERO,
            version: 1,
            pods: 0,
            pod: None,
            chaperon: Some(ChaperonView {
                uid: "c".into(),
                resource_version: "1".into(),
                ending: false,
                attempt: 0,
                reserved: false,
                reserved_pod_uid: None,
                preempts: None,
                refusal: None,
                grant: Grant::Attempt(0),
                was_bound: false,
                bound: false,
                source_side: 0,
                faults: vec![],
            }),
            seen_pod: None,
            seen_chaperon: None,
            memory: Memory::new(false),
            place: Place::Queue,
            gate: Gate::Shut(Note::Unseen),
            luck: Luck::Good,
            fits: true,
            delayed: vec![],
            settings: Settings::default(),
            reserving: BTreeSet::new(),
            granted: BTreeSet::new(),
        };
        world.make_pod(gated);
        world
    }

    fn make_pod(&mut self, gated: bool) {
        let alive = self.chaperon.as_ref().is_some_and(|c| !c.ending);
        if self.pod.is_none() && alive {
            self.pods += 1;
            self.pod = Some(PodView {
                uid: format!("p{}", self.pods),
                node: None,
                ending: false,
                finished: false,
                owner: Some("c".into()),
                gates: gated.then(|| "example.com/queue".to_owned()),
            });
        }
    }

    fn update(&mut self, change: impl FnOnce(&mut ChaperonView)) {
        if let Some(chaperon) = &mut self.chaperon {
            self.version += 1;
            change(chaperon);
            chaperon.resource_version = self.version.to_string();
        }
    }

    /// What the API server does with a write; `false` is a conflict.
    fn land(&mut self, write: &Write) -> bool {
        let current = self.chaperon.as_ref().filter(|c| !c.ending);
        let Some(current) = current.filter(|c| c.resource_version == write.resource_version) else {
            return false;
        };
        assert_eq!(
            write.attempt,
            current.attempt + 1,
            "always the old number plus 1"
        );
        self.update(|chaperon| {
            chaperon.attempt = write.attempt;
            match &write.answer {
                Answer::Reserved { pod, .. } => {
                    chaperon.reserved = true;
                    chaperon.reserved_pod_uid = Some(pod.clone());
                    chaperon.refusal = None;
                }
                Answer::Refused(why) => {
                    chaperon.reserved = false;
                    chaperon.refusal = Some(why.to_string());
                }
            }
        });
        if let Answer::Reserved { pod, .. } = &write.answer {
            self.reserving.insert((write.attempt, pod.clone()));
        }
        true
    }

    fn land_binding(&mut self, pod_uid: &str, node: &str) -> bool {
        match &mut self.pod {
            Some(pod)
                if pod.uid == pod_uid
                    && !pod.ending
                    && pod.node.is_none()
                    && pod.gates.is_none() =>
            {
                pod.node = Some(node.to_owned());
                true
            }
            _ => false,
        }
    }

    fn put_back(&mut self, pod_uid: &str) {
        self.place = Place::Queue;
        self.memory.put_back(pod_uid);
    }

    /// Decides and acts until there is nothing to do.
    fn settle(&mut self) {
        for _ in 0..50 {
            self.memory.see(self.seen_chaperon.as_ref(), self.now);
            let plan = decide(&Observed {
                pod: self.seen_pod.as_ref(),
                chaperon: self.seen_chaperon.as_ref(),
                memory: &self.memory,
                settings: &self.settings,
                now: self.now,
            });
            self.memory.begin(&plan, self.now);
            self.gate = plan.gate;
            if plan.step == Step::Rest {
                if let Some(seat) = self.memory.seat() {
                    self.check_seat(seat);
                }
                return;
            }
            self.act(plan.step);
        }
        panic!("no rest after 50 steps: {self:?}");
    }

    fn check_seat(&self, seat: &Seat) {
        let seen = self
            .seen_chaperon
            .as_ref()
            .map_or(0, |chaperon| chaperon.attempt);
        assert!(
            seat.attempt().is_none_or(|attempt| attempt >= seen),
            "someone took over"
        );
        match seat.state {
            SeatState::Held { deadline, .. } => {
                assert!(self.now < deadline, "no hold outlives its deadline");
            }
            SeatState::Binding { until, .. } => {
                assert!(self.now < until, "no binding outlives its time-out");
            }
            SeatState::Taken { since } => assert!(self.now < since + self.settings.hold),
            SeatState::Making { .. } => unreachable!("nobody is evicted here"),
        }
    }

    fn act(&mut self, step: Step) {
        match step {
            Step::Rest => {}
            Step::Write(write) => {
                let luck = self.luck;
                let outcome = match luck {
                    Luck::Good if self.land(&write) => {
                        self.seen_chaperon.clone_from(&self.chaperon);
                        Outcome::Done
                    }
                    Luck::Good => Outcome::Conflict,
                    Luck::ReplyLost => {
                        self.land(&write);
                        Outcome::Unknown
                    }
                    Luck::Lost => Outcome::Unknown,
                    Luck::Delayed => {
                        self.delayed.push(Delayed::Write(write.clone()));
                        Outcome::Unknown
                    }
                };
                self.memory
                    .wrote(&write, outcome, true, &self.settings, self.now);
            }
            Step::Recheck { attempt } => {
                let fit = if self.fits {
                    Fit::Fits
                } else {
                    Fit::Misfit("taken".to_owned())
                };
                self.memory
                    .rechecked(attempt, fit, &self.settings, self.now);
            }
            Step::MakeRoom { .. } => unreachable!("nobody is evicted here"),
            Step::Permit => {
                self.memory.permitted();
                if let Place::Permit(node) = self.place.clone() {
                    let pod_uid = self.memory.seat().unwrap().pod_uid.clone();
                    self.place = Place::Bind(node.clone());
                    assert!(self.memory.bind_called(&pod_uid, &node, self.now));
                }
            }
            Step::Bind { pod_uid, node } => {
                self.check_binding(&pod_uid);
                let luck = self.luck;
                let outcome = match luck {
                    Luck::Good if self.land_binding(&pod_uid, &node) => BindOutcome::Done,
                    Luck::Good => BindOutcome::Lost,
                    Luck::ReplyLost => {
                        self.land_binding(&pod_uid, &node);
                        BindOutcome::Unknown
                    }
                    Luck::Lost => BindOutcome::Unknown,
                    Luck::Delayed => {
                        self.delayed.push(Delayed::Bind { pod_uid, node });
                        BindOutcome::Unknown
                    }
                };
                self.memory.bind_replied(outcome, &self.settings, self.now);
            }
            Step::Confirm => {
                let pod_uid = self.memory.seat().unwrap().pod_uid.clone();
                self.memory.confirmed();
                self.put_back(&pod_uid);
            }
            Step::Drop { why, debt, pause } => {
                let pod_uid = self.memory.seat().unwrap().pod_uid.clone();
                self.memory
                    .dropped(&why, debt, pause, &self.settings, self.now);
                self.put_back(&pod_uid);
            }
        }
    }

    /// A binding is sent only under a reserving write that landed, named the pod, and was granted.
    fn check_binding(&self, pod_uid: &str) {
        let attempt = self.memory.seat().and_then(Seat::attempt).unwrap();
        let seen = self.seen_pod.as_ref();
        assert!(
            seen.is_none_or(|pod| pod.gates.is_none()),
            "a gated pod is bound"
        );
        assert!(
            self.reserving.contains(&(attempt, pod_uid.to_owned())),
            "attempt {attempt} never reserved for {pod_uid}: {:?}",
            self.reserving
        );
        let successor = self.chaperon.as_ref().is_some_and(|c| c.was_bound);
        assert!(
            self.granted.contains(&attempt) || successor,
            "attempt {attempt} was never granted"
        );
    }

    fn grant(&mut self) {
        let Some(chaperon) = self.chaperon.as_ref().filter(|c| c.reserved && !c.ending) else {
            return;
        };
        let attempt = chaperon.attempt;
        self.granted.insert(attempt);
        self.update(|chaperon| {
            chaperon.grant = Grant::Attempt(attempt);
            chaperon.source_side += 1;
        });
    }

    fn watch(&mut self) {
        self.seen_pod.clone_from(&self.pod);
        self.seen_chaperon.clone_from(&self.chaperon);
    }

    fn cycle(&mut self, node: Option<u8>) {
        let Some(pod) = self.seen_pod.clone() else {
            return;
        };
        if self.place != Place::Queue || pod.node.is_some() {
            return;
        }
        match node {
            Some(node) => {
                let node = format!("n{node}");
                self.place = Place::Permit(node.clone());
                self.memory.taken(&pod.uid, &node, self.now);
            }
            None => self
                .memory
                .found_none(&pod.uid, Refusal::Unschedulable("full".into())),
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Luck(luck) => self.luck = luck,
            Event::Pass(millis) => self.now += Duration::from_millis(u64::from(millis)),
            Event::Cycle { node, ignore_gate } => {
                if ignore_gate || self.gate == Gate::Open {
                    self.cycle(node);
                }
            }
            Event::Fits(fits) => self.fits = fits,
            Event::Grant => self.grant(),
            Event::StatusUpdate => {
                let bound = self.pod.as_ref().is_some_and(|pod| pod.node.is_some());
                self.update(|chaperon| chaperon.bound = bound);
            }
            Event::Watch => self.watch(),
            Event::LandDelayed => {
                if !self.delayed.is_empty() {
                    match self.delayed.remove(0) {
                        Delayed::Write(write) => {
                            self.land(&write);
                        }
                        Delayed::Bind { pod_uid, node } => {
                            self.land_binding(&pod_uid, &node);
                        }
                    }
                }
            }
            Event::DeletePod => {
                if self.pod.take().is_some_and(|pod| pod.node.is_some()) {
                    self.update(|chaperon| chaperon.was_bound = true);
                }
            }
            Event::EndPod => {
                if let Some(pod) = &mut self.pod {
                    pod.ending = true;
                }
            }
            Event::MakePod { gated } => self.make_pod(gated),
            Event::Ungate => {
                if let Some(pod) = &mut self.pod {
                    pod.gates = None;
                }
            }
            Event::EndChaperon => self.update(|chaperon| chaperon.ending = true),
            Event::Restart => {
                self.memory = Memory::new(true);
                self.place = Place::Queue;
                self.watch();
            }
            Event::OtherLeader => {
                if let (Some(chaperon), Some(pod)) = (&self.chaperon, &self.pod) {
                    let (pod, preempts) = (pod.uid.clone(), None);
                    let write = Write {
                        chaperon_uid: "c".into(),
                        resource_version: chaperon.resource_version.clone(),
                        attempt: chaperon.attempt + 1,
                        answer: Answer::Reserved { pod, preempts },
                    };
                    self.land(&write);
                }
            }
            Event::LoseSeat => {
                if let (Place::Permit(_), Some(seat)) = (&self.place, self.memory.seat().cloned()) {
                    self.put_back(&seat.pod_uid);
                }
            }
        }
        self.settle();
    }

    /// Everything works again, the source takes what it is offered: the pod gets bound, or the chaperon has ended.
    fn heal(&mut self) {
        self.luck = Luck::Good;
        self.fits = true;
        while !self.delayed.is_empty() {
            self.happen(Event::LandDelayed);
        }
        if self.pod.as_ref().is_some_and(|pod| pod.ending) {
            self.pod = None;
        }
        self.happen(Event::Ungate);
        for _ in 0..400 {
            self.make_pod(false);
            self.happen(Event::Watch);
            if self.chaperon.as_ref().is_none_or(|c| c.ending)
                || self.pod.as_ref().is_some_and(|pod| pod.node.is_some())
            {
                self.happen(Event::Pass(60_000));
                assert_eq!(
                    self.memory.seat(),
                    None,
                    "nothing is held when all is quiet"
                );
                return;
            }
            if self.gate == Gate::Open {
                self.happen(Event::Cycle {
                    node: Some(1),
                    ignore_gate: false,
                });
            }
            self.happen(Event::Watch);
            self.happen(Event::Grant);
            self.happen(Event::Watch);
            self.happen(Event::Pass(1_000));
        }
        panic!("the pod was never bound: {self:#?}");
    }
}

fn event() -> impl Strategy<Value = Event> {
    let luck = prop_oneof![
        4 => Just(Luck::Good),
        1 => Just(Luck::ReplyLost),
        1 => Just(Luck::Lost),
        1 => Just(Luck::Delayed),
    ];
    prop_oneof![
        3 => luck.prop_map(Event::Luck),
        4 => (1u16..12_000).prop_map(Event::Pass),
        6 => (prop::option::weighted(0.8, 0u8..3), prop::bool::weighted(0.1))
            .prop_map(|(node, ignore_gate)| Event::Cycle { node, ignore_gate }),
        1 => prop::bool::ANY.prop_map(Event::Fits),
        4 => Just(Event::Grant),
        2 => Just(Event::StatusUpdate),
        8 => Just(Event::Watch),
        2 => Just(Event::LandDelayed),
        1 => Just(Event::DeletePod),
        1 => Just(Event::EndPod),
        2 => prop::bool::weighted(0.3).prop_map(|gated| Event::MakePod { gated }),
        2 => Just(Event::Ungate),
        1 => Just(Event::EndChaperon),
        1 => Just(Event::Restart),
        1 => Just(Event::OtherLeader),
        1 => Just(Event::LoseSeat),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_walk_breaks_an_invariant_and_all_of_them_heal(
        gated in prop::bool::weighted(0.3),
        events in prop::collection::vec(event(), 1..60),
    ) {
        let mut world = World::new(gated);
        for event in events {
            world.happen(event);
        }
        world.heal();
    }
}
