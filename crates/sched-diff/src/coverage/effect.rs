//! Asks our scheduler again without a field, once both have agreed on an answer with it: if the answer is another one
//! then, the field was used with effect. It keeps a scheduler of its own for that, so that the one under test isn't
//! disturbed.

use std::collections::BTreeMap;

use serde_json::Value;

use super::field::{Field, On, Point};
use super::rows::rows;
use super::table::Table;
use crate::configuration::Configuration;
use crate::draw::Draw;
use crate::explained::Scene;
use crate::object;
use crate::play::Observer;
use crate::side::{Side as _, SideError};
use crate::subject::Subject;
use crate::verdict::{Refusal, Verdict};
use crate::world::World;

/// How many fields are tried for each pod.
const TRIES: usize = 8;
/// How many fields are looked for among those of a pod and its world.
const LOOKS: usize = 80;

/// Counts effects while cases are played.
#[derive(Debug)]
pub struct Effects {
    rows: Vec<Field>,
    table: Table,
    draw: Draw,
    shadow: Subject,
    // It refused something, and is of no use until the next case.
    is_lost: bool,
}

impl Default for Effects {
    fn default() -> Self {
        let rows = rows();
        Self {
            table: Table::new(&rows),
            rows,
            draw: Draw::new(0),
            shadow: Subject::default(),
            is_lost: true,
        }
    }
}

impl Effects {
    /// What was counted.
    pub fn into_table(self) -> Table {
        self.table
    }

    fn note(&mut self, done: &Result<(), SideError>) {
        self.is_lost |= done.is_err();
    }

    /// Tries some fields, rather those that have shown no effect yet.
    fn try_fields(&mut self, scene: &Scene<'_>) {
        let idle = self.table.idle();
        let mut tried = 0;
        for look in 0..LOOKS {
            let at = match (look % 2, idle.as_slice()) {
                (0, [_, ..]) => *self.draw.one(&idle),
                _ => self.draw.below(self.rows.len()),
            };
            let row = self.rows[at];
            // Only where no node was left, and then against the same chance.
            let with = match row.point {
                Point::Preemption if !scene.ours.best.is_empty() => continue,
                Point::Preemption => match self.answer(scene.pod, &row) {
                    Ok(with) => with,
                    Err(_) => continue,
                },
                Point::Filter | Point::Score => scene.ours.clone(),
            };
            let Some(without) = self.without(scene, &row) else {
                continue;
            };
            let Ok(verdict) = without else {
                continue;
            };
            let effect = changed(&row, &with, &verdict);
            self.table
                .tried(at, effect, scene.ours.best != verdict.best);
            tried += 1;
            if tried == TRIES {
                return;
            }
        }
    }

    /// What the shadow says of a pod, as far as the row is concerned.
    fn answer(&mut self, pod: &Value, row: &Field) -> Result<Verdict, SideError> {
        ask(&mut self.shadow, pod, row)
    }

    /// The answer without the field of this row; `None` if there is none.
    fn without(&mut self, scene: &Scene<'_>, row: &Field) -> Option<Result<Verdict, SideError>> {
        let world = scene.world;
        // A score changes only on nodes that have one.
        let concerns =
            |node: &str| row.point != Point::Score || scene.ours.scores.contains_key(node);
        match row.on {
            On::Pod => {
                let pod = row.strip(scene.pod)?;
                Some(self.answer(&pod, row))
            }
            On::Node => {
                let nodes = world.nodes().values();
                let nodes: Vec<_> = nodes.filter(|node| concerns(object::name(node))).collect();
                self.with_changed(scene.pod, row, &nodes)
            }
            On::Running => {
                let pods = world.pods().values();
                let on = |pod: &&Value| concerns(object::node_of(pod).unwrap_or_default());
                let pods: Vec<_> = pods.filter(on).collect();
                self.with_changed(scene.pod, row, &pods)
            }
            On::Object(kind) => {
                let objects: Vec<_> = world.of_kind(kind).collect();
                self.with_changed(scene.pod, row, &objects)
            }
            On::Profile => {
                // A whole new scheduler costs as much as some hundred answers.
                if !self.draw.percent(10) {
                    return None;
                }
                let profile = serde_json::to_value(world.configuration()).ok()?;
                let stripped = row.strip(&profile)?;
                let configuration: Configuration = serde_json::from_value(stripped).ok()?;
                Some(elsewhere(&configuration, scene, row))
            }
        }
    }

    /// The answer while one of the objects lacks the field.
    fn with_changed(
        &mut self,
        pod: &Value,
        row: &Field,
        objects: &[&Value],
    ) -> Option<Result<Verdict, SideError>> {
        if objects.is_empty() {
            return None;
        }
        let start = self.draw.below(objects.len());
        let (before, from) = objects.split_at(start);
        let mut found = from.iter().chain(before);
        let (object, stripped) = found.find_map(|object| Some((*object, row.strip(object)?)))?;
        let verdict = self
            .shadow
            .apply(&stripped)
            .and_then(|()| self.answer(pod, row));
        let restored = self.shadow.apply(object);
        self.note(&restored);
        Some(verdict)
    }

    /// What each nomination is for: it may keep a pod off its node.
    fn try_nominations(&mut self, scene: &Scene<'_>) {
        let nominations: Vec<_> = scene.world.nominations().collect();
        if nominations.is_empty() {
            return;
        }
        let (pod, node) = *self.draw.one(&nominations);
        if pod == scene.pod {
            return;
        }
        let verdict = self
            .shadow
            .delete(pod)
            .and_then(|()| self.shadow.judge(scene.pod));
        let restored = self.shadow.nominate(pod, node);
        self.note(&restored);
        if let Ok(verdict) = verdict {
            let changed = verdict.filter != scene.ours.filter;
            self.table
                .nomination(changed, verdict.best != scene.ours.best);
        }
    }
}

fn ask(subject: &mut Subject, pod: &Value, row: &Field) -> Result<Verdict, SideError> {
    if row.point != Point::Preemption {
        return subject.judge(pod);
    }
    let told = subject.probe(pod)?.unwrap_or_default();
    Ok(Verdict {
        message: Some(told.message),
        nominated: told.nominated,
        victims: told.victims,
        cleared: told.cleared,
        ..Verdict::default()
    })
}

/// The answer of a new scheduler with another configuration in the same world.
fn elsewhere(
    configuration: &Configuration,
    scene: &Scene<'_>,
    row: &Field,
) -> Result<Verdict, SideError> {
    let mut other = Subject::default();
    other.open(configuration, &scene.world.objects())?;
    for (pod, node) in scene.world.nominations() {
        other.nominate(pod, node)?;
    }
    ask(&mut other, scene.pod, row)
}

/// Whether the plugin says something else at this point.
fn changed(row: &Field, with: &Verdict, without: &Verdict) -> bool {
    let all = row.plugin == "framework";
    match row.point {
        Point::Filter => {
            let by = |refusal: &Refusal| all || refusal.plugin == row.plugin;
            let refusals = |verdict: &Verdict| -> BTreeMap<String, Refusal> {
                let own = verdict.filter.iter().filter(|(_, refusal)| by(refusal));
                own.map(|(node, refusal)| (node.clone(), refusal.clone()))
                    .collect()
            };
            let pre_filter = |verdict: &Verdict| verdict.pre_filter.clone().filter(by);
            let narrows = all || row.plugin == "NodeAffinity";
            refusals(with) != refusals(without)
                || pre_filter(with) != pre_filter(without)
                || (narrows && with.nodes != without.nodes)
        }
        Point::Preemption => {
            let decided = |verdict: &Verdict| {
                let Verdict {
                    nominated,
                    victims,
                    cleared,
                    ..
                } = verdict.clone();
                (nominated, victims, cleared)
            };
            decided(with) != decided(without)
        }
        Point::Score => {
            // Otherwise scores may differ for other nodes' sake.
            let same_nodes = with.scores.keys().eq(without.scores.keys());
            let scores = |verdict: &Verdict| -> Vec<Option<i64>> {
                let score = |parts: &BTreeMap<String, i64>| parts.get(row.plugin).copied();
                verdict.scores.values().map(score).collect()
            };
            let totals = all && with.totals != without.totals;
            same_nodes && (totals || scores(with) != scores(without))
        }
    }
}

impl Observer for Effects {
    fn opened(&mut self, world: &World) {
        self.is_lost = false;
        let opened = self.shadow.open(world.configuration(), &world.objects());
        self.note(&opened);
    }

    fn applied(&mut self, object: &Value) {
        let applied = self.shadow.apply(object);
        self.note(&applied);
    }

    fn deleted(&mut self, object: &Value) {
        let deleted = self.shadow.delete(object);
        self.note(&deleted);
    }

    fn nominated(&mut self, pod: &Value, node: &str) {
        let nominated = self.shadow.nominate(pod, node);
        self.note(&nominated);
    }

    fn agreed(&mut self, scene: &Scene<'_>) {
        self.table.verdict(scene.theirs);
        if !self.is_lost && scene.ours.error.is_none() {
            self.try_fields(scene);
            self.try_nominations(scene);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Effects;
    use crate::case::{Case, Step};
    use crate::configuration::Configuration;
    use crate::generate::generate;
    use crate::play::{Players, play};
    use crate::subject::Subject;

    fn counted(case: &Case, effects: &mut Effects) {
        let mut players = Players {
            ours: &mut Subject::default(),
            theirs: &mut Subject::default(),
            explanations: &[],
        };
        let report = play(case, &mut players, effects).unwrap();
        assert_eq!(report.disagreements, [], "seed {}", case.seed);
    }

    #[test]
    fn a_taint_that_keeps_a_pod_away_has_an_effect_and_one_that_is_tolerated_has_none() {
        let effect_of = |tolerations: serde_json::Value| {
            let node = json!({"kind": "Node", "metadata": {"name": "n"},
                "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
                "status": {"allocatable": {"pods": "1000"}}});
            let pod = |n: usize| {
                json!({"kind": "Pod",
                    "metadata": {"name": format!("p{n}"), "namespace": "d", "uid": format!("u{n}")},
                    "spec": {"tolerations": tolerations, "containers": []}})
            };
            let case = Case {
                seed: 1,
                configuration: Configuration::default(),
                objects: vec![node],
                steps: (0..100).map(|n| Step::Ask(pod(n))).collect(),
            };
            let mut effects = Effects::default();
            counted(&case, &mut effects);
            let table = effects.into_table();
            table
                .tally("TaintToleration", "Node", "NoSchedule")
                .unwrap()
        };
        let hard = effect_of(json!([]));
        assert!(hard.effects > 0, "{hard:?}");
        assert_eq!(hard.tried, hard.effects);
        let tolerated = effect_of(json!([{"operator": "Exists"}]));
        assert!(
            tolerated.tried > 0 && tolerated.effects == 0,
            "{tolerated:?}"
        );
    }

    #[test]
    fn most_rows_show_an_effect_within_some_cases() {
        let mut effects = Effects::default();
        for seed in 0..60 {
            counted(&generate(seed), &mut effects);
        }
        let table = effects.into_table();
        let idle = table.idle_names();
        assert!(idle.len() * 2 < table.len(), "{idle:#?}");
    }
}
