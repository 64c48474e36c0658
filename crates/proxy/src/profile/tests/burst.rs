//! Many replicas at once, as the edge asks and chooses for them, with targets that answer in any order.

use std::collections::{BTreeMap, VecDeque};

use pilotage_sched::{Attempt, FirstOfEquals, PodUid};
use proptest::prelude::*;

use super::*;
use crate::{
    Answer, Gate, Ranked,
    board::Posting,
    others::{Scored, regard},
    rank::{Seen, rank},
};

const PODS: usize = 100;
/// So many questions are open at a target.
const FEW: usize = 16;

/// Clusters by region: one region has most of them.
const CLUSTERS: [(&str, &str); 4] = [("a", "eu"), ("b", "eu"), ("c", "eu"), ("d", "us")];

fn region(node: &str) -> &'static str {
    let mut clusters = CLUSTERS.iter();
    clusters.find(|(name, _)| *name == node).unwrap().1
}

struct Replica {
    info: Arc<PodInfo>,
    ranking: Vec<Ranked>,
    /// Who was asked, and whether it holds a node.
    asked: BTreeMap<String, bool>,
    place: Option<String>,
}

struct Edge {
    scheduler: Scheduler,
    board: Arc<Board>,
    replicas: Vec<Replica>,
    questions: usize,
}

impl Edge {
    fn new() -> Self {
        let board = Arc::<Board>::default();
        let nodes = CLUSTERS
            .map(|(name, region)| virtual_node(name, Some("shop"), json!({ REGION: region })));
        // Whoever else may go elsewhere is no place that has to be filled.
        let others = virtual_node("x", Some("bank"), json!({ REGION: "ap" }));
        let mut scheduler = with_nodes(&board, nodes.into_iter().chain([others]));
        let spread = json!({ "topologySpreadConstraints": [over_regions("DoNotSchedule")] });
        let replica = |number: usize| {
            let key = format!("shop/web-{number:03}");
            let pod = Arc::new(proxy(&key, &json!({ "app": "web" }), &spread, None));
            scheduler
                .pod_applied(Arc::clone(&pod), Moment::ZERO)
                .unwrap();
            Replica {
                info: Arc::new(PodInfo::parse(pod).unwrap()),
                ranking: Vec::new(),
                asked: BTreeMap::new(),
                place: None,
            }
        };
        let replicas = (0..PODS).map(replica).collect();
        Self {
            scheduler,
            board,
            replicas,
            questions: 0,
        }
    }

    /// Where each replica without a place is expected: at the best of those that were asked.
    fn expected(&self) -> Vec<(String, Arc<PodInfo>)> {
        let open = self
            .replicas
            .iter()
            .filter(|replica| replica.place.is_none());
        open.filter_map(|replica| {
            let mut ranking = replica.ranking.iter();
            let best = ranking.find(|ranked| replica.asked.contains_key(&ranked.node))?;
            Some((best.node.clone(), Arc::clone(&replica.info)))
        })
        .collect()
    }

    fn open_at(&self, node: &str) -> usize {
        let open = self
            .replicas
            .iter()
            .filter(|replica| replica.place.is_none());
        open.filter(|replica| replica.asked.contains_key(node))
            .count()
    }

    /// Ranks a replica anew, and asks the next one if nobody is asked who suits; whom.
    fn step(&mut self, at: usize) -> Option<String> {
        let info = Arc::clone(&self.replicas[at].info);
        let expected = self.expected();
        let expected = expected.iter().map(|(node, pod)| (node.as_str(), pod));
        let scored = |found: pilotage_sched::Evaluation| -> Scored {
            let found = found.feasible.into_iter();
            found
                .map(|node| (node.node.to_string(), node.total))
                .collect()
        };
        let now = self.scheduler.evaluate(RANKING, &info, Arc::default());
        let later = self.scheduler.evaluate_expecting(RANKING, &info, expected);
        let (feasible, others) = regard(scored(now.unwrap()), later.unwrap().map(scored));
        let seen = |node: &str| Seen {
            used: self.open_at(node) as u64,
            others: others.get(node).copied().unwrap_or_default(),
            ..Seen::default()
        };
        let ranking = rank(&info.uid, &info.needs.requests.total, &feasible, seen, None);
        let asked = &self.replicas[at].asked;
        let suits = |ranked: &&Ranked| asked.contains_key(&ranked.node);
        // One of the best that is merely busy is waited for, or that others leave soon.
        let best = ranking.iter().map(|ranked| ranked.class).min();
        let free = ranking.iter().filter(|ranked| !ranked.kept_away);
        let mut free = free.filter(|ranked| Some(ranked.class) == best);
        let next = free.find(|ranked| self.open_at(&ranked.node) < FEW);
        let next = next.filter(|_| !ranking.iter().any(|ranked| suits(&ranked)));
        let next = next.map(|ranked| ranked.node.clone());
        let replica = &mut self.replicas[at];
        if let Some(node) = &next {
            replica.asked.insert(node.clone(), false);
            self.questions += 1;
        }
        replica.ranking = ranking;
        self.post(at);
        next
    }

    fn post(&self, at: usize) {
        let replica = &self.replicas[at];
        let free = |node: &str| {
            let mut ranking = replica.ranking.iter();
            ranking.any(|ranked| ranked.node == node && !ranked.kept_away)
        };
        let holds = replica
            .asked
            .iter()
            .any(|(node, holds)| *holds && free(node));
        let answers = replica.asked.iter().map(|(node, holds)| {
            let answer = if *holds {
                Answer::Reserved
            } else {
                Answer::Waiting
            };
            (node.clone(), answer)
        });
        let gate = if holds {
            Gate::Open
        } else {
            Gate::Closed(crate::Note::Others)
        };
        let posting = Posting {
            gate,
            answers: Arc::new(answers.collect()),
            classes: Arc::default(),
        };
        self.board.post(&replica.info.uid, posting);
    }

    /// How many pods each region has.
    fn shares(&self) -> BTreeMap<&'static str, usize> {
        let mut shares = BTreeMap::from([("eu", 0), ("us", 0)]);
        for place in self.replicas.iter().filter_map(|it| it.place.as_deref()) {
            *shares.get_mut(region(place)).unwrap() += 1;
        }
        shares
    }

    /// Runs cycles for all that may be tried; how many failed.
    fn cycles(&mut self) -> Result<usize, TestCaseError> {
        let mut failed = 0;
        while let Some(attempt) = self
            .scheduler
            .schedule_next(Moment::ZERO, &mut FirstOfEquals)
        {
            let Attempt::Assumed(assumed) = attempt else {
                failed += 1;
                continue;
            };
            let at = self
                .replicas
                .iter()
                .position(|it| it.info.uid == *assumed.uid());
            self.replicas[at.unwrap()].place = Some(assumed.node().to_string());
            self.scheduler.bound(*assumed, Moment::ZERO);
            let shares = self.shares();
            let skew = shares["eu"].abs_diff(shares["us"]);
            prop_assert!(skew <= 1, "{shares:?}");
        }
        Ok(failed)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn a_burst_comes_out_evenly_and_is_never_skewed(seed in any::<u64>()) {
        let mut edge = Edge::new();
        let mut random = seed | 1;
        let mut sent: VecDeque<(usize, String)> = VecDeque::new();
        let mut failed = 0;
        for turn in 0_usize.. {
            prop_assert!(turn < 100 * PODS, "{:?}", edge.shares());
            // Those that hold a node, then those whose turn comes.
            let mut turns = 0;
            for at in 0..PODS {
                let replica = &edge.replicas[at];
                let holds = replica.asked.values().any(|holds| *holds);
                let waits = replica.asked.is_empty() && turns < 2;
                if replica.place.is_none() && (holds || waits) {
                    turns += usize::from(waits);
                    sent.extend(edge.step(at).map(|node| (at, node)));
                    let uid = PodUid::from(&*edge.replicas[at].info.uid);
                    edge.scheduler.activate(&uid);
                }
            }
            failed += edge.cycles()?;
            let placed = edge.replicas.iter().filter(|it| it.place.is_some()).count();
            if placed == PODS {
                break;
            }
            // A handful of answers comes, in any order.
            for _ in 0..4 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (random >> 33) as usize % sent.len().max(1);
                if let Some((at, node)) = sent.remove(at) {
                    edge.replicas[at].asked.insert(node, true);
                }
            }
        }
        prop_assert_eq!(edge.shares(), BTreeMap::from([("eu", PODS / 2), ("us", PODS / 2)]));
        // Nearly all are asked for where they go.
        prop_assert!(edge.questions <= PODS * 5 / 4, "{} questions", edge.questions);
        prop_assert!(failed <= PODS, "{failed} cycles failed");
    }
}
