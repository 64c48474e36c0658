//! Owns which images the nodes of the cluster have, how large they are and on how many nodes. Knows nothing of what that
//! is worth to a pod.

use std::collections::HashMap;
use std::sync::Arc;

use crate::node_object::NodeObject;

/// An image in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its size in bytes, as the first node with it said.
    pub size: i64,
    /// How many nodes have it.
    pub nodes: usize,
}

/// The images of all nodes, by name.
#[derive(Debug, Default)]
pub struct ImageSpread {
    images: HashMap<Arc<str>, Image>,
    version: u64,
}

impl ImageSpread {
    /// The image of this name, if a node has it. Names are as nodes tell them, with tag or digest.
    pub fn get(&self, name: &str) -> Option<Image> {
        self.images.get(name).copied()
    }

    /// Grows with each change, also of the number of nodes.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// A node has come.
    pub(super) fn add(&mut self, node: &NodeObject) {
        for image in &node.images {
            let known = self.images.entry(image.name.clone()).or_insert(Image {
                size: image.size,
                nodes: 0,
            });
            known.nodes = known.nodes.saturating_add(1);
        }
        self.version = self.version.saturating_add(1);
    }

    /// A node has gone.
    pub(super) fn remove(&mut self, node: &NodeObject) {
        for image in &node.images {
            if let Some(known) = self.images.get_mut(&image.name) {
                known.nodes = known.nodes.saturating_sub(1);
                if known.nodes == 0 {
                    self.images.remove(&image.name);
                }
            }
        }
        self.version = self.version.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::{Image, ImageSpread};
    use crate::test_objects::node;

    #[test]
    fn an_image_has_the_size_that_the_first_node_told() {
        let mut spread = ImageSpread::default();
        let first = node("a").image(&["web:1", "web:1"], 10).object();
        let second = node("b").image(&["web:1", "db:1"], 20).object();
        spread.add(&first);
        spread.add(&second);
        assert_eq!(spread.get("web:1"), Some(Image { size: 10, nodes: 2 }));
        assert_eq!(spread.get("db:1"), Some(Image { size: 20, nodes: 1 }));
        spread.remove(&first);
        assert_eq!(spread.get("web:1"), Some(Image { size: 10, nodes: 1 }));
        spread.remove(&second);
        assert_eq!(spread.get("web:1"), None);
        assert_eq!(spread.version(), 4);
    }
}
