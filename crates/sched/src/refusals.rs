//! Owns which of many nodes were refused, and why: equal rejections are kept once. Knows nothing of plugins.

use std::collections::HashMap;

use crate::status::{PluginError, PluginName, Rejection, Status, Verdict};

/// One rejection among those that were said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RejectionId(u32);

impl RejectionId {
    pub(crate) const fn new(index: u32) -> Self {
        Self(index)
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Rejections, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rejections {
    by_value: HashMap<Rejection, RejectionId>,
    all: Vec<Rejection>,
}

impl Rejections {
    pub(crate) fn id(&mut self, rejection: Rejection) -> RejectionId {
        if let Some(&id) = self.by_value.get(&rejection) {
            return id;
        }
        // There are never more rejections than answers about nodes.
        let id = RejectionId(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        self.all.push(rejection.clone());
        self.by_value.insert(rejection, id);
        id
    }

    pub(crate) fn get(&self, id: RejectionId) -> &Rejection {
        &self.all[id.index()]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rejection> {
        self.all.iter()
    }

    pub(crate) const fn len(&self) -> usize {
        self.all.len()
    }
}

/// What one plugin says of many nodes.
#[derive(Debug)]
pub struct Refusals<'a> {
    plugin: PluginName,
    known: &'a mut Rejections,
    refused: Vec<(usize, RejectionId)>,
}

impl<'a> Refusals<'a> {
    pub(crate) const fn new(plugin: PluginName, known: &'a mut Rejections) -> Self {
        Self {
            plugin,
            known,
            refused: Vec::new(),
        }
    }

    /// Keeps a rejection, to refuse several nodes with it.
    pub fn keep(&mut self, rejection: Rejection) -> RejectionId {
        self.known.id(rejection.by(self.plugin))
    }

    /// Refuses the node at this place of the list. Places must be told in ascending order, each once.
    pub fn refuse(&mut self, at: usize, rejection: RejectionId) {
        self.refused.push((at, rejection));
    }

    /// Takes down what was said of the node at this place of the list.
    pub fn note(&mut self, at: usize, said: Verdict) -> Result<(), PluginError> {
        match said {
            Ok(()) => Ok(()),
            Err(Status::Rejected(rejection)) => {
                let id = self.keep(rejection);
                self.refuse(at, id);
                Ok(())
            }
            Err(Status::Error(error)) => Err(error.by(self.plugin)),
        }
    }

    pub(crate) fn into_refused(self) -> Vec<(usize, RejectionId)> {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::{Refusals, Rejections};
    use crate::status::Status;

    #[test]
    fn equal_rejections_are_kept_once_and_name_their_plugin() {
        let mut known = Rejections::default();
        let mut refusals = Refusals::new("Depth", &mut known);
        for at in [1, 4] {
            refusals
                .note(at, Err(Status::unschedulable("too shallow")))
                .unwrap();
        }
        refusals.note(5, Ok(())).unwrap();
        refusals
            .note(6, Err(Status::unresolvable("too shallow")))
            .unwrap();
        let error = refusals.note(7, Err(Status::error("broken"))).unwrap_err();
        assert_eq!(error.plugin(), Some("Depth"));
        let refused = refusals.into_refused();
        let places: Vec<_> = refused.iter().map(|(at, id)| (*at, id.index())).collect();
        assert_eq!(places, [(1, 0), (4, 0), (6, 1)]);
        assert_eq!(known.get(refused[0].1).plugin(), Some("Depth"));
    }
}
