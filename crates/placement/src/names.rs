//! Owns names that many candidates share: regions, providers, resources, labels. Each is in memory once, so that a
//! selection finds it at hand for all candidates but the first.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::candidate::Candidate;
use crate::limits;
use crate::region::Region;

/// Below this many nobody looks for names that are no longer used.
const FEW: usize = 256;

/// Shared names. Whoever keeps candidates for many selections keeps one of these beside them, and lets each candidate
/// [share](Names::share) when it is prepared. Among thousands of candidates that makes a selection several times
/// quicker; what it says is the same.
#[derive(Clone, Debug, Default)]
pub struct Names {
    texts: HashSet<Arc<str>>,
    regions: HashMap<Arc<str>, Region>,
    /// So many names, and those that are no longer used are forgotten.
    limit: usize,
}

impl Names {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets a candidate use the same memory as others for its names.
    pub fn share(&mut self, candidate: &mut Candidate) {
        self.tidy();
        self.text(&mut candidate.provider);
        for resource in &mut candidate.resources {
            self.text(&mut resource.name);
        }
        let labels = candidate.labels.texts_mut();
        for text in labels.chain(candidate.annotations.texts_mut()) {
            // Longer ones are notes to somebody, and nobody else has the same.
            if text.len() <= limits::KEY {
                self.text(text);
            }
        }
        if let Some(known) = self.regions.get(candidate.region.name()) {
            candidate.region = known.clone();
        } else {
            let own = candidate.region.clone();
            self.regions.insert(own.shared_name(), own);
        }
    }

    fn text(&mut self, text: &mut Arc<str>) {
        if let Some(known) = self.texts.get(text) {
            *text = known.clone();
        } else {
            self.texts.insert(text.clone());
        }
    }

    /// Forgets what nobody uses any more, each time that there is twice as much as was left the last time.
    fn tidy(&mut self) {
        if self.len() < self.limit.max(FEW) {
            return;
        }
        self.texts.retain(|text| Arc::strong_count(text) > 1);
        // A region and its key here hold the name twice.
        self.regions.retain(|name, _| Arc::strong_count(name) > 2);
        self.limit = self.len().saturating_mul(2);
    }

    fn len(&self) -> usize {
        self.texts.len().saturating_add(self.regions.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidate::Resource;

    fn candidate(provider: &str, region: &str) -> Candidate {
        let resource = Resource {
            name: "shoots".into(),
            allocatable: None,
            used: 0,
        };
        Candidate {
            provider: provider.into(),
            region: Region::new(region),
            resources: vec![resource],
            labels: [("region", region)].into_iter().collect(),
            annotations: [("note", "x".repeat(1000))].into_iter().collect(),
            ..Candidate::default()
        }
    }

    fn texts(candidate: &Candidate) -> Vec<*const u8> {
        let (labels, annotations) = (&candidate.labels, &candidate.annotations);
        let texts = labels.iter().chain(annotations.iter());
        let texts = texts.flat_map(|(key, value)| [key, value]);
        texts.map(str::as_ptr).collect()
    }

    #[test]
    fn equal_names_are_the_same_memory() {
        let mut names = Names::new();
        let mut all = [
            candidate("aws", "eu-west-1"),
            candidate("aws", "eu-west-1"),
            candidate("gcp", "us"),
        ];
        let before = all.clone();
        for one in &mut all {
            names.share(one);
        }
        let [a, b, c] = &all;
        assert!(Arc::ptr_eq(&a.provider, &b.provider));
        assert!(Arc::ptr_eq(
            &a.region.shared_name(),
            &b.region.shared_name()
        ));
        assert!(Arc::ptr_eq(&b.resources[0].name, &c.resources[0].name));
        let (a, b) = (texts(a), texts(b));
        assert_eq!(a[..3], b[..3], "keys, and values that may be a label's");
        assert_ne!(a[3], b[3]);
        for (before, after) in before.iter().zip(&all) {
            assert_eq!(before.provider, after.provider);
            assert_eq!(before.region, after.region);
        }
    }

    #[test]
    fn names_that_are_gone_are_forgotten() {
        let mut names = Names::new();
        let mut kept = candidate("kept", "kept");
        names.share(&mut kept);
        for number in 0..10_000 {
            names.share(&mut candidate(&format!("p{number}"), &format!("r{number}")));
        }
        assert!(names.texts.len() + names.regions.len() <= FEW + 2);
        let mut again = candidate("kept", "kept");
        names.share(&mut again);
        assert!(Arc::ptr_eq(&kept.provider, &again.provider));
    }
}
