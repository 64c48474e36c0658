//! Where the source itself is: what its configuration says, or what all of its own nodes have in common.

use std::{collections::HashMap, sync::Arc};

use k8s_openapi::api::core::v1::Node;
use pilotage_placement::Region;

use super::place::location;

/// Region and provider of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Home {
    /// Its region.
    pub region: Option<Region>,
    /// Its provider.
    pub provider: Option<Arc<str>>,
}

impl Home {
    /// From their names.
    pub fn new(region: Option<&str>, provider: Option<&str>) -> Self {
        Self {
            region: region.map(Region::new),
            provider: provider.map(Arc::from),
        }
    }

    /// The same, with what it doesn't say from `other`.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self {
            region: self.region.clone().or_else(|| other.region.clone()),
            provider: self.provider.clone().or_else(|| other.provider.clone()),
        }
    }
}

/// The source's own nodes, which aren't virtual ones.
#[derive(Debug, Default)]
pub struct OwnNodes {
    by_name: HashMap<String, (Option<String>, Option<String>)>,
    told: Home,
}

impl OwnNodes {
    /// A node is there in this version; where the source is, if that is news.
    pub fn apply(&mut self, node: &Node) -> Option<Home> {
        let name = node.metadata.name.clone()?;
        let (region, provider) = location(node);
        let known = self.by_name.get(&name);
        if known.is_some_and(|(r, p)| (r.as_deref(), p.as_deref()) == (region, provider)) {
            return None;
        }
        let owned = |text: Option<&str>| text.map(str::to_owned);
        self.by_name.insert(name, (owned(region), owned(provider)));
        self.news()
    }

    /// A node is gone; where the source is, if that is news.
    pub fn remove(&mut self, name: &str) -> Option<Home> {
        self.by_name.remove(name)?;
        self.news()
    }

    fn news(&mut self) -> Option<Home> {
        let regions = self.by_name.values().map(|(region, _)| region.as_deref());
        let providers = self
            .by_name
            .values()
            .map(|(_, provider)| provider.as_deref());
        let home = Home::new(common(regions), common(providers));
        if home == self.told {
            return None;
        }
        self.told = home.clone();
        Some(home)
    }
}

/// What all of those say that say anything.
fn common<'a>(values: impl Iterator<Item = Option<&'a str>>) -> Option<&'a str> {
    let mut said = values.flatten();
    let first = said.next()?;
    said.all(|other| other == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, region: Option<&str>) -> Node {
        let mut node = Node::default();
        node.metadata.name = Some(name.into());
        node.metadata.labels = region.map(|region| {
            [(
                "topology.kubernetes.io/region".to_owned(),
                region.to_owned(),
            )]
            .into()
        });
        node.spec.get_or_insert_default().provider_id = Some(format!("aws:///zone/{name}"));
        node
    }

    #[test]
    fn the_source_is_where_all_of_its_nodes_are() {
        let mut nodes = OwnNodes::default();
        let home = |region| Home::new(region, Some("aws"));
        assert_eq!(nodes.apply(&node("a", None)), Some(home(None)));
        assert_eq!(nodes.apply(&node("b", Some("eu"))), Some(home(Some("eu"))));
        assert_eq!(nodes.apply(&node("c", Some("eu"))), None);
        assert_eq!(nodes.apply(&node("d", Some("us"))), Some(home(None)));
        assert_eq!(nodes.apply(&node("d", Some("us"))), None);
        assert_eq!(nodes.remove("d"), Some(home(Some("eu"))));
        assert_eq!(nodes.remove("d"), None);
        let configured = Home::new(Some("ap"), None);
        assert_eq!(configured.or(&home(Some("eu"))), home(Some("ap")));
    }
}
