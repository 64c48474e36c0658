//! Random walks of the chaperon controller in a small world: one name, an API server that loses replies, stores that
//! lag and miss deletions, restarts, a garbage collector, and users.

use std::{collections::BTreeSet, time::Duration};

use pilotage_api::PodChaperon;
use proptest::prelude::*;

use super::{
    super::memory::{Memory, Outcome},
    *,
};

#[derive(Clone, Copy, Debug)]
enum Event {
    Luck(Luck),
    Pass(u16),
    /// The stores catch up; the end of a pod is seen as evidence or not.
    Watch {
        evidence: bool,
    },
    Reserve,
    Grant,
    Bind,
    DeletePod,
    PodGoes,
    DeleteChaperon,
    Ask,
    CollectGarbage,
    Restart,
    Refuse(bool),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Luck {
    Good,
    ReplyLost,
    Lost,
}

#[derive(Clone, Debug, PartialEq)]
struct Pod {
    uid: String,
    owner: String,
    bound: bool,
    ending: bool,
}

#[derive(Debug)]
struct World {
    now: Duration,
    made: u32,
    version: u32,
    chaperon: Option<Value>,
    pod: Option<Pod>,
    seen_chaperon: Option<Value>,
    seen_pod: Option<Pod>,
    memory: Memory,
    luck: Luck,
    refuses: bool,
    /// UIDs of pods that a reserving write named under a chaperon that got our finalizer.
    guarded: BTreeSet<String>,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            now: Duration::ZERO,
            made: 0,
            version: 0,
            chaperon: None,
            pod: None,
            seen_chaperon: None,
            seen_pod: None,
            memory: Memory::default(),
            luck: Luck::Good,
            refuses: false,
            guarded: BTreeSet::new(),
        };
        world.happen(Event::Ask);
        world
    }

    fn next(&mut self) -> u32 {
        self.made += 1;
        self.made
    }

    fn change(&mut self, change: impl FnOnce(&mut Value)) {
        if let Some(chaperon) = &mut self.chaperon {
            self.version += 1;
            change(chaperon);
            chaperon["metadata"]["resourceVersion"] = self.version.to_string().into();
        }
    }

    fn uid(&self) -> Option<String> {
        Some(
            self.chaperon.as_ref()?["metadata"]["uid"]
                .as_str()?
                .to_owned(),
        )
    }

    fn is_ending(&self) -> bool {
        self.chaperon
            .as_ref()
            .is_some_and(|c| c["metadata"].get("deletionTimestamp").is_some())
    }

    fn drop_if_free(&mut self) {
        let free = self.chaperon.as_ref().is_some_and(|c| {
            c["metadata"]["finalizers"]
                .as_array()
                .is_none_or(Vec::is_empty)
        });
        if self.is_ending() && free {
            self.chaperon = None;
        }
    }

    /// What the API server does with a merge patch.
    fn patch(&mut self, patch: &Value) -> bool {
        let Some(chaperon) = &self.chaperon else {
            return false;
        };
        let meta = &patch["metadata"];
        let same = |key: &str| {
            meta.get(key)
                .is_none_or(|value| *value == chaperon["metadata"][key])
        };
        if !same("uid") || !same("resourceVersion") {
            return false;
        }
        if meta.get("finalizers").is_some() {
            let guarded = &chaperon["metadata"]["annotations"][keys::RESERVED_POD_UID];
            let there = self
                .pod
                .as_ref()
                .is_some_and(|pod| *guarded == pod.uid.as_str());
            assert!(
                !there,
                "the finalizer is lifted only when the reserved pod is gone"
            );
        }
        if meta["annotations"]
            .get(keys::POD_MISSING_SINCE)
            .is_some_and(Value::is_string)
        {
            let own = self
                .pod
                .as_ref()
                .is_some_and(|pod| Some(&pod.owner) == self.uid().as_ref());
            assert!(!own, "a pod that is there isn't missing");
        }
        let patch = patch.clone();
        self.change(|chaperon| merge_patch(chaperon, &patch));
        self.drop_if_free();
        true
    }

    fn settle(&mut self) {
        for _ in 0..40 {
            let chaperon: Option<PodChaperon> = self
                .seen_chaperon
                .clone()
                .map(|c| serde_json::from_value(c).unwrap());
            let pod: Option<RawPod> = self.seen_pod.as_ref().map(raw);
            let plan = decide(&Observed {
                chaperon: chaperon.as_ref(),
                pod: pod.as_ref(),
                memory: &self.memory,
                now: self.now,
                wall: jiff::Timestamp::UNIX_EPOCH + self.now,
            });
            self.memory.begin(&plan, self.now);
            let Some(action) = plan.action else { return };
            let outcome = self.act(&action);
            self.memory.finish(&action, &outcome, self.now);
        }
        panic!("no rest after 40 requests: {self:#?}");
    }

    fn act(&mut self, action: &Action) -> Outcome {
        let luck = if matches!(action, Action::Tell(_)) {
            Luck::Good
        } else {
            self.luck
        };
        if luck == Luck::Lost {
            return Outcome::Failed("lost".into());
        }
        let outcome = match action {
            Action::Tell(_) => Outcome::Done,
            Action::CreatePod => self.create(),
            Action::DeletePod { uid } => {
                let alive = self.uid().filter(|_| !self.is_ending());
                if let Some(pod) = self.pod.as_mut().filter(|pod| pod.uid == *uid) {
                    assert_ne!(
                        Some(&pod.owner),
                        alive.as_ref(),
                        "a delegate of a living chaperon is deleted"
                    );
                    pod.ending = true;
                    if !pod.bound {
                        self.pod = None;
                    }
                }
                Outcome::Done
            }
            Action::EndUnbound { .. } => unreachable!("nothing is given up here"),
            Action::Ungate(_) => unreachable!("its pods are all reserved for"),
            Action::Change(_) => unreachable!("no spec changes here"),
            Action::LookAtPod { .. } => match &self.pod {
                None => Outcome::NoPod,
                Some(pod) => {
                    self.seen_pod = Some(pod.clone());
                    Outcome::Pod(pod.uid.clone())
                }
            },
            Action::Mark(patch)
            | Action::CopyAnnotations(patch)
            | Action::CopyStatus(patch)
            | Action::SayRefused(patch) => {
                if self.patch(patch) {
                    if self.chaperon.is_some() {
                        self.seen_chaperon.clone_from(&self.chaperon);
                    }
                    Outcome::Done
                } else {
                    Outcome::Failed("conflict".into())
                }
            }
        };
        match luck {
            Luck::ReplyLost => Outcome::Failed("reply lost".into()),
            _ => outcome,
        }
    }

    fn create(&mut self) -> Outcome {
        if self.refuses {
            return Outcome::Refused("quota".into());
        }
        if self.pod.is_some() {
            self.seen_pod.clone_from(&self.pod);
            return Outcome::Failed("exists".into());
        }
        let Some(seen) = &self.seen_chaperon else {
            return Outcome::Failed("gone".into());
        };
        let owner = seen["metadata"]["uid"].as_str().unwrap().to_owned();
        let uid = format!("p{}", self.next());
        self.pod = Some(Pod {
            uid,
            owner,
            bound: false,
            ending: false,
        });
        if self.luck == Luck::Good {
            self.seen_pod.clone_from(&self.pod);
            self.memory.pod_applied();
        }
        Outcome::Done
    }

    fn watch(&mut self, evidence: bool) {
        let uid =
            |chaperon: &Option<Value>| chaperon.as_ref().map(|c| c["metadata"]["uid"].clone());
        if uid(&self.seen_chaperon) != uid(&self.chaperon)
            && let Some(Value::String(gone)) = uid(&self.seen_chaperon)
            && evidence
        {
            self.memory.chaperon_deleted(&gone, self.now);
        }
        let gone = self
            .seen_pod
            .as_ref()
            .filter(|seen| self.pod.as_ref().is_none_or(|pod| pod.uid != seen.uid));
        if let Some(gone) = gone
            && evidence
        {
            self.memory.pod_deleted(&gone.uid.clone());
        }
        if self.pod.is_some() && self.pod != self.seen_pod {
            self.memory.pod_applied();
        }
        self.seen_pod.clone_from(&self.pod);
        self.seen_chaperon.clone_from(&self.chaperon);
    }

    fn happen(&mut self, event: Event) {
        let own = self
            .pod
            .clone()
            .filter(|pod| Some(&pod.owner) == self.uid().as_ref());
        match event {
            Event::Luck(luck) => self.luck = luck,
            Event::Pass(millis) => self.now += Duration::from_millis(u64::from(millis)),
            Event::Watch { evidence } => self.watch(evidence),
            Event::Refuse(refuses) => self.refuses = refuses,
            Event::Reserve => {
                if let Some(pod) = own.filter(|_| !self.is_ending()) {
                    self.change(|chaperon| {
                        let annotations = &mut chaperon["metadata"]["annotations"];
                        annotations[keys::RESERVED_POD_UID] = pod.uid.into();
                        annotations[keys::ATTEMPT] = "1".into();
                        annotations[keys::IS_RESERVED] = "true".into();
                    });
                }
            }
            Event::Grant => {
                let reserved = self.chaperon.as_ref().and_then(|c| {
                    c["metadata"]["annotations"][keys::RESERVED_POD_UID]
                        .as_str()
                        .map(str::to_owned)
                });
                if let Some(reserved) = reserved.filter(|_| !self.is_ending()) {
                    self.guarded.insert(reserved);
                    self.change(|c| c["metadata"]["finalizers"] = json!([keys::DELEGATE_GONE]));
                }
            }
            Event::Bind => {
                if let Some(pod) = self
                    .pod
                    .as_mut()
                    .filter(|pod| self.guarded.contains(&pod.uid))
                {
                    pod.bound = true;
                }
            }
            Event::DeletePod => {
                if let Some(pod) = &mut self.pod {
                    pod.ending = true;
                }
            }
            Event::PodGoes => {
                if self.pod.as_ref().is_some_and(|pod| pod.ending) {
                    self.pod = None;
                }
            }
            Event::DeleteChaperon => {
                if !self.is_ending() {
                    self.change(|c| {
                        c["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z".into();
                    });
                }
                self.drop_if_free();
            }
            Event::Ask => {
                if self.chaperon.is_none() {
                    let uid = format!("c{}", self.next());
                    self.chaperon = Some(json!({
                        "metadata": { "name": "web", "uid": uid, "labels": { keys::PARENT_UID: "u" },
                            "annotations": { keys::ATTEMPT: "0", keys::ALLOWED_ATTEMPT: "0" } },
                        "spec": { "schedulerName": "admiralty-candidate" },
                    }));
                    self.change(|_| ());
                }
            }
            Event::CollectGarbage => {
                if self
                    .pod
                    .as_ref()
                    .is_some_and(|pod| Some(&pod.owner) != self.uid().as_ref())
                    && let Some(pod) = &mut self.pod
                {
                    pod.ending = true;
                }
            }
            Event::Restart => {
                self.memory = Memory::default();
                self.watch(false);
            }
        }
        self.settle();
    }

    /// Everything works again: a living chaperon has its pod, or says why not; an ending one goes with its pod.
    fn heal(&mut self, delete: bool) {
        self.luck = Luck::Good;
        self.refuses = false;
        for _ in 0..100 {
            if delete {
                self.happen(Event::DeleteChaperon);
            }
            self.happen(Event::CollectGarbage);
            self.happen(Event::Pass(61_000));
            self.happen(Event::Watch { evidence: true });
            self.happen(Event::PodGoes);
            self.happen(Event::Watch { evidence: true });
            let own = self
                .pod
                .as_ref()
                .is_some_and(|pod| Some(&pod.owner) == self.uid().as_ref());
            let done = if self.chaperon.is_some() {
                own && !delete
            } else {
                self.pod.is_none()
            };
            if done {
                return;
            }
        }
        panic!("it never came to rest: {self:#?}");
    }
}

fn raw(pod: &Pod) -> RawPod {
    let mut value = json!({
        "metadata": { "name": "web", "uid": pod.uid, "ownerReferences": [{
            "apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "PodChaperon",
            "name": "web", "uid": pod.owner, "controller": true }] },
        "spec": {},
        "status": { "phase": "Pending" },
    });
    if pod.bound {
        value["spec"]["nodeName"] = "n".into();
        value["status"]["conditions"] = json!([{ "type": "PodScheduled", "status": "True" }]);
    }
    if pod.ending {
        value["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z".into();
    }
    serde_json::from_value(value).unwrap()
}

fn merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, change) in changes {
        if change.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge_patch(&mut target[key], change);
        }
    }
}

fn event() -> impl Strategy<Value = Event> {
    let luck =
        prop_oneof![4 => Just(Luck::Good), 1 => Just(Luck::ReplyLost), 1 => Just(Luck::Lost)];
    prop_oneof![
        3 => luck.prop_map(Event::Luck),
        4 => (1u16..).prop_map(Event::Pass),
        8 => prop::bool::weighted(0.7).prop_map(|evidence| Event::Watch { evidence }),
        3 => Just(Event::Reserve),
        3 => Just(Event::Grant),
        3 => Just(Event::Bind),
        1 => Just(Event::DeletePod),
        3 => Just(Event::PodGoes),
        2 => Just(Event::DeleteChaperon),
        2 => Just(Event::Ask),
        1 => Just(Event::CollectGarbage),
        1 => Just(Event::Restart),
        1 => prop::bool::ANY.prop_map(Event::Refuse),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_walk_breaks_an_invariant_and_all_of_them_heal(
        events in prop::collection::vec(event(), 1..60),
        delete in prop::bool::ANY,
    ) {
        let mut world = World::new();
        for event in events {
            world.happen(event);
        }
        world.heal(delete);
    }
}
