//! Ranks nodes by how much of the pod's images they have: less is to be pulled there. An image that few nodes have
//! counts for less, so that its pods don't all go to the same ones.
//!
//! Formula and limits are those of kube-scheduler 1.36.3 (`plugins/imagelocality`).

use std::sync::Arc;

use super::by_set;
use crate::context::Context;
use crate::images::{Spread, has};
use crate::plugin::{MAX_NODE_SCORE, Plugin, PreScore, PreScored, Score};
use crate::pod_info::PodInfo;
use crate::state::CycleState;
use crate::status::{PluginName, Verdict};
use crate::table::{NodeId, NodeTable, NodeView, Reads};

const MB: i64 = 1024 * 1024;
/// Less than this much isn't worth a point.
const LEAST: i64 = 23 * MB;
/// More than this much for each container isn't worth more.
const MOST: i64 = 1000 * MB;

/// Images that nodes have already.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImageLocality;

/// What each of the pod's images is worth where it is.
#[derive(Clone, Debug)]
struct Worth(Vec<(Arc<str>, i64)>);

impl Plugin for ImageLocality {
    fn name(&self) -> PluginName {
        "ImageLocality"
    }
}

impl PreScore for ImageLocality {
    fn pre_score(
        &self,
        cx: &Context<'_>,
        state: &mut CycleState,
        pod: &PodInfo,
        _nodes: &[NodeId],
    ) -> Verdict<PreScored> {
        let (images, nodes) = (cx.nodes().images(), cx.nodes().len());
        let names = pod.needs.images.names.iter();
        let known = names.filter_map(|name| Some((name.clone(), worth(images.of(name)?, nodes))));
        state.insert(Worth(known.collect()));
        Ok(PreScored::Proceed)
    }
}

impl Score for ImageLocality {
    fn score(&self, state: &CycleState, pod: &PodInfo, node: NodeView<'_>) -> Verdict<i64> {
        let Worth(images) = state.require()?;
        let here = images
            .iter()
            .filter(|(name, _)| has(&node.node().images, name));
        let sum = here.fold(0_i64, |sum, (_, worth)| sum.saturating_add(*worth));
        Ok(score(sum, pod.needs.images.containers))
    }

    fn reads(&self) -> Reads {
        Reads::IMAGES
    }

    fn score_all(
        &self,
        state: &CycleState,
        pod: &PodInfo,
        table: &NodeTable,
        nodes: &[NodeId],
        scores: &mut Vec<i64>,
    ) -> Verdict {
        let set = (table.image_sets(), |id| table.image_set(id));
        by_set::score(
            |node| self.score(state, pod, node),
            table,
            set,
            nodes,
            scores,
        )
    }
}

/// The size of an image, less the fewer of all nodes have it.
fn worth(image: Spread, nodes: usize) -> i64 {
    let share = image.nodes as f64 / nodes as f64;
    (image.size as f64 * share) as i64
}

/// What the images on a node come to, between the limits.
fn score(sum: i64, containers: usize) -> i64 {
    let most = MOST.saturating_mul(containers as i64);
    let sum = if sum < LEAST {
        LEAST
    } else if sum > most {
        most
    } else {
        sum
    };
    let (part, whole) = (sum.saturating_sub(LEAST), most.saturating_sub(LEAST));
    let score = MAX_NODE_SCORE.saturating_mul(part).checked_div(whole);
    score.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{ImageLocality, MB, score, worth};
    use crate::images::Spread;
    use crate::plugin::{PreScore, PreScored, Score};
    use crate::state::CycleState;
    use crate::table::NodeTable;
    use crate::test_objects::{PodBuilder, container, node, over, pod};

    #[test]
    fn limits() {
        for (megabytes, containers, expected) in [
            (0, 1, 0),
            (23, 1, 0),
            (32, 1, 0),
            (33, 1, 1),
            (500, 1, 48),
            (1000, 1, 100),
            (1001, 1, 100),
            (500, 2, 24),
            (2000, 2, 100),
            (1500, 3, 49),
        ] {
            let found = score(megabytes * MB, containers);
            assert_eq!(found, expected, "{megabytes} MB, {containers} containers");
        }
        assert_eq!(score(i64::MAX, 1), 100);
        assert_eq!(score(i64::MIN, 1), 0);
    }

    #[test]
    fn what_few_nodes_have_is_worth_less() {
        let image = |nodes| Spread { size: 1000, nodes };
        for (nodes, all, expected) in [(1, 1, 1000), (1, 3, 333), (2, 3, 666), (3, 3, 1000)] {
            assert_eq!(worth(image(nodes), all), expected, "{nodes} of {all}");
        }
    }

    fn with_images(images: &[&str]) -> PodBuilder {
        let images: Vec<_> = images
            .iter()
            .map(|image| Some((*image).to_owned()))
            .collect();
        pod("p").edit(|pod| {
            let spec = pod.spec.get_or_insert_default();
            spec.containers = vec![container("main", &[]); images.len()];
            for (container, image) in spec.containers.iter_mut().zip(images) {
                container.image = image;
            }
        })
    }

    /// Scores of nodes that have these images of these sizes in MB.
    fn scores(nodes: &[&[(&str, i64)]], pod: PodBuilder) -> Vec<i64> {
        let mut table = NodeTable::default();
        for (number, has) in nodes.iter().enumerate() {
            let empty = node(&number.to_string());
            let node = has
                .iter()
                .fold(empty, |node, (name, size)| node.image(name, size * MB));
            table.set_node(node.object());
        }
        let (mut state, pod) = (CycleState::new(), pod.info());
        let scored = over(&table, |cx| {
            ImageLocality.pre_score(cx, &mut state, &pod, table.ids())
        });
        assert_eq!(scored.unwrap(), PreScored::Proceed);
        let each = table
            .iter()
            .map(|node| ImageLocality.score(&state, &pod, node).unwrap());
        let each = each.collect::<Vec<_>>();
        let mut all = Vec::new();
        let told = ImageLocality.score_all(&state, &pod, &table, table.ids(), &mut all);
        assert_eq!((told.is_ok(), &all), (true, &each));
        each
    }

    #[test]
    fn nodes_that_have_more_of_the_images_win() {
        let fleet: &[&[(&str, i64)]] = &[
            &[("tug:latest", 600), ("tide:2", 300)],
            &[("tug:latest", 800)],
            &[("tide:2", 300), ("crane:1", 5000)],
            &[],
        ];
        // tug: 600 MB on half of the nodes; tide: 300 MB on half of them.
        assert_eq!(scores(fleet, with_images(&["tug"])), [28, 28, 0, 0]);
        assert_eq!(
            scores(fleet, with_images(&["tug", "tide:2"])),
            [21, 14, 6, 0]
        );
        assert_eq!(
            scores(fleet, with_images(&["tide:2", "tide:2"])),
            [14, 0, 14, 0]
        );
        assert_eq!(scores(fleet, with_images(&["tide"])), [0, 0, 0, 0]);
        // 1250 MB are more than count.
        assert_eq!(scores(fleet, with_images(&["crane:1"])), [0, 0, 100, 0]);
    }

    #[test]
    fn half_of_an_image_counts_where_half_of_the_nodes_have_it() {
        for (size, expected) in [(250, 5), (2000, 49), (40, 0)] {
            let fleet: &[&[(&str, i64)]] = &[&[("tug:latest", size)], &[]];
            let found = scores(fleet, with_images(&["tug", "crane:1"]));
            assert_eq!(found, [expected, 0], "{size} MB");
        }
    }
}
