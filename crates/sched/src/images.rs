//! Owns container images by name: which ones a pod wants, which ones a node has, and how many nodes have each.
//! Knows nothing of scores.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PodSpec};

/// The images of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodImages {
    /// Of init containers, app containers and image volumes, with tags; one that is used twice is there twice.
    pub names: Vec<Arc<str>>,
    /// How many init and app containers there are.
    pub containers: usize,
}

/// The images that a pod wants.
pub(crate) fn wanted(spec: &PodSpec) -> PodImages {
    let inits = spec.init_containers.as_deref().unwrap_or_default();
    let containers = inits.iter().chain(&spec.containers);
    let volumes = spec.volumes.iter().flatten();
    let mounted = volumes.filter_map(|volume| Some(&volume.image.as_ref()?.reference));
    let names = containers.clone().map(|container| &container.image);
    let names = names.chain(mounted);
    PodImages {
        names: names
            .map(|name| tagged(name.as_deref().unwrap_or_default()))
            .collect(),
        containers: containers.count(),
    }
}

/// The name with its tag: without one it means `latest`. A colon before the last slash belongs to the registry's port.
fn tagged(name: &str) -> Arc<str> {
    if name.rfind(':') <= name.rfind('/') {
        format!("{name}:latest").into()
    } else {
        name.into()
    }
}

/// An image that a node has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeImage {
    /// One of its names.
    pub name: Arc<str>,
    /// Its size in bytes, as the node tells it.
    pub size: i64,
}

/// The images that a node has, sorted by name, each name once.
pub(crate) fn on_node(node: &Node) -> Vec<NodeImage> {
    let images = node
        .status
        .as_ref()
        .and_then(|status| status.images.as_ref());
    let named = images.into_iter().flatten().flat_map(|image| {
        let size = image.size_bytes.unwrap_or_default();
        let names = image.names.iter().flatten();
        names.map(move |name| NodeImage {
            name: Arc::from(&**name),
            size,
        })
    });
    let mut named: Vec<_> = named.collect();
    // Stable, so that of several images with one name the first stays.
    named.sort_by(|a, b| a.name.cmp(&b.name));
    named.dedup_by(|later, first| later.name == first.name);
    named
}

/// Whether an image is among those of a node.
pub fn has(images: &[NodeImage], name: &str) -> bool {
    images
        .binary_search_by(|image| (*image.name).cmp(name))
        .is_ok()
}

/// How far an image has spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Its size in bytes, as the first node said that had it. It stays until no node has the image any more, as in
    /// kube-scheduler 1.36.3.
    pub size: i64,
    /// How many nodes have it.
    pub nodes: usize,
}

/// The images of all nodes together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageSpread {
    // Lookups only; never iterated, so that its order can't matter.
    by_name: HashMap<Arc<str>, Spread>,
}

impl ImageSpread {
    /// The name as others have it; `None` if no node has the image.
    pub(crate) fn name(&self, name: &str) -> Option<Arc<str>> {
        let (known, _) = self.by_name.get_key_value(name)?;
        Some(known.clone())
    }

    /// How far the image has spread; `None` if no node has it.
    pub fn of(&self, name: &str) -> Option<Spread> {
        self.by_name.get(name).copied()
    }

    /// A node had the images `old` and has `new` now. One that comes had none, one that goes has none. Whether anything
    /// changed.
    pub(crate) fn change(&mut self, old: &[NodeImage], new: &[NodeImage]) -> bool {
        if old == new && old.iter().all(|image| self.agrees_with(image)) {
            return false;
        }
        for image in old {
            self.remove(&image.name);
        }
        for image in new {
            self.add(image);
        }
        true
    }

    /// Whether telling an image again changes nothing: an only owner's word about the size would.
    fn agrees_with(&self, image: &NodeImage) -> bool {
        let known = self.of(&image.name);
        known.is_some_and(|known| known.nodes > 1 || known.size == image.size)
    }

    fn add(&mut self, image: &NodeImage) {
        let spread = self.by_name.entry(image.name.clone()).or_insert(Spread {
            size: image.size,
            nodes: 0,
        });
        spread.nodes = spread.nodes.saturating_add(1);
    }

    fn remove(&mut self, name: &str) {
        let Some(spread) = self.by_name.get_mut(name) else {
            return;
        };
        spread.nodes = spread.nodes.saturating_sub(1);
        if spread.nodes == 0 {
            self.by_name.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{
        Container, ContainerImage, ImageVolumeSource, Node, PodSpec, Volume,
    };

    use super::{ImageSpread, NodeImage, Spread, has, on_node, wanted};

    #[test]
    fn a_pod_s_images_have_tags() {
        let container = |image: &str| Container {
            image: Some(image.into()),
            ..Container::default()
        };
        let images = wanted(&PodSpec {
            init_containers: Some(vec![container("tide")]),
            containers: vec![
                container("port.io/tug:3"),
                container("port.io:5000/tug"),
                container("tug@sha256:ab"),
                container("tide"),
                Container::default(),
            ],
            volumes: Some(vec![
                Volume::default(),
                Volume {
                    image: Some(ImageVolumeSource {
                        reference: Some("charts".into()),
                        ..ImageVolumeSource::default()
                    }),
                    ..Volume::default()
                },
            ]),
            ..PodSpec::default()
        });
        let names: Vec<_> = images.names.iter().map(|name| &**name).collect();
        assert_eq!(
            names,
            [
                "tide:latest",
                "port.io/tug:3",
                "port.io:5000/tug:latest",
                "tug@sha256:ab",
                "tide:latest",
                ":latest",
                "charts:latest",
            ]
        );
        assert_eq!(images.containers, 6);
    }

    #[test]
    fn a_node_s_images_are_told_once_a_name() {
        let image = |names: &[&str], size_bytes| ContainerImage {
            names: Some(names.iter().map(|name| (*name).to_owned()).collect()),
            size_bytes,
        };
        let mut node = Node::default();
        node.status.get_or_insert_default().images = Some(vec![
            image(&["tug:3", "tug@sha256:ab"], Some(7)),
            image(&["tide:1", "tug:3"], Some(9)),
            image(&["buoy:1"], None),
        ]);
        let images = on_node(&node);
        let told: Vec<_> = images
            .iter()
            .map(|image| (&*image.name, image.size))
            .collect();
        assert_eq!(
            told,
            [
                ("buoy:1", 0),
                ("tide:1", 9),
                ("tug:3", 7),
                ("tug@sha256:ab", 7)
            ]
        );
        assert!(has(&images, "tide:1"));
        assert!(!has(&images, "tide"));
    }

    #[test]
    fn the_first_node_says_how_large_an_image_is_until_nobody_has_it() {
        let of = |size| {
            vec![NodeImage {
                name: "tug:3".into(),
                size,
            }]
        };
        let mut spread = ImageSpread::default();
        let mut change = |old: &[_], new: &[_]| {
            let changed = spread.change(old, new);
            (spread.of("tug:3"), !changed)
        };
        let known = |size, nodes| Some(Spread { size, nodes });
        for (what, old, new, expected) in [
            ("the first comes", vec![], of(7), (known(7, 1), false)),
            ("a second one comes", vec![], of(9), (known(7, 2), false)),
            ("it tells it again", of(9), of(9), (known(7, 2), true)),
            ("the first goes", of(7), vec![], (known(7, 1), false)),
            ("the last one's word", of(9), of(9), (known(9, 1), false)),
            ("and the same again", of(9), of(9), (known(9, 1), true)),
            ("nobody has it", of(9), vec![], (None, false)),
        ] {
            assert_eq!(change(&old, &new), expected, "{what}");
        }
    }
}
