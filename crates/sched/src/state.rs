//! Owns the state of one scheduling cycle: what plugins tell their later points, by type.
//! Knows nothing of the plugins; it is made anew for each attempt.

use std::any::{Any, TypeId};
use std::sync::{Arc, Mutex, PoisonError};

use crate::effects::Effects;
use crate::status::Status;
use crate::status::Verdict;

type Shared = Arc<dyn Any + Send + Sync>;

/// One bit a plugin of an extension point, in profile order. A profile has at most 64 plugins a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PluginMask(u64);

impl PluginMask {
    pub(crate) const fn insert(&mut self, index: usize) {
        self.0 |= 1 << index;
    }

    pub(crate) const fn contains(self, index: usize) -> bool {
        self.0 & (1 << index) != 0
    }

    /// Those of both.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Typed values of one scheduling cycle.
///
/// Cloning is cheap: values are shared until one side changes its own with [`CycleState::get_mut`]. That is
/// what *what if* questions use (nominated pods, preemption): clone, `AddPod`/`RemovePod`, Filter, drop.
#[derive(Debug, Default)]
pub struct CycleState {
    // A dozen entries at most: a linear scan beats hashing.
    values: Vec<(TypeId, Shared)>,
    pub(crate) skipped_pre_filters: PluginMask,
    pub(crate) skipped_filters: PluginMask,
    pub(crate) skipped_scores: PluginMask,
    effects: Mutex<Effects>,
}

impl Clone for CycleState {
    /// The values and skip sets; not the effects, since what happens in a *what if* must not happen.
    fn clone(&self) -> Self {
        Self {
            values: self.values.clone(),
            skipped_pre_filters: self.skipped_pre_filters,
            skipped_filters: self.skipped_filters,
            skipped_scores: self.skipped_scores,
            effects: Mutex::default(),
        }
    }
}

impl CycleState {
    /// An empty state.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps `value`, replacing the one of the same type.
    pub fn insert<T: Any + Send + Sync>(&mut self, value: T) {
        let id = TypeId::of::<T>();
        let value: Shared = Arc::new(value);
        match self.values.iter_mut().find(|(known, _)| *known == id) {
            Some((_, slot)) => *slot = value,
            None => self.values.push((id, value)),
        }
    }

    /// The value of this type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        let id = TypeId::of::<T>();
        let (_, value) = self.values.iter().find(|(known, _)| *known == id)?;
        value.downcast_ref()
    }

    /// The value of this type, or an error for a plugin whose earlier point should have put it there.
    pub fn require<T: Any + Send + Sync>(&self) -> Verdict<&T> {
        self.get().ok_or_else(|| {
            let wanted = std::any::type_name::<T>();
            Status::error(format!(
                "cycle state has no {wanted}: the plugin's earlier point didn't run"
            ))
        })
    }

    /// The value of this type, to change. If a clone of this state shares it, it is copied first.
    pub fn get_mut<T: Any + Send + Sync + Clone>(&mut self) -> Option<&mut T> {
        let id = TypeId::of::<T>();
        let (_, value) = self.values.iter_mut().find(|(known, _)| *known == id)?;
        if Arc::get_mut(value).is_none() {
            let copy = value.downcast_ref::<T>()?.clone();
            *value = Arc::new(copy);
        }
        Arc::get_mut(value)?.downcast_mut()
    }

    /// Takes the value of this type out.
    pub fn remove<T: Any + Send + Sync>(&mut self) {
        let id = TypeId::of::<T>();
        self.values.retain(|(known, _)| *known != id);
    }

    /// Asks for something to be done to other pods when the cycle, or the binding, is over.
    ///
    /// Takes `&self`, since `PreBind` and Filter see the state shared.
    pub fn request(&self, change: impl FnOnce(&mut Effects)) {
        change(&mut self.effects.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn take_effects(&self) -> Effects {
        std::mem::take(&mut *self.effects.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::CycleState;
    use crate::names::PodUid;

    #[derive(Clone, Debug, PartialEq)]
    struct Counts(Vec<i64>);

    #[test]
    fn a_clone_changes_without_touching_the_original() {
        let mut state = CycleState::new();
        state.insert(Counts(vec![1]));
        state.insert("other type");
        let mut what_if = state.clone();
        what_if.get_mut::<Counts>().unwrap().0.push(2);
        assert_eq!(state.get::<Counts>().unwrap().0, [1]);
        assert_eq!(what_if.get::<Counts>().unwrap().0, [1, 2]);
        state.get_mut::<Counts>().unwrap().0.push(3);
        assert_eq!(what_if.get::<Counts>().unwrap().0, [1, 2]);
    }

    #[test]
    fn effects_of_a_what_if_are_lost() {
        let state = CycleState::new();
        let what_if = state.clone();
        what_if.request(|effects| effects.activate(PodUid::from("a")));
        assert!(state.take_effects().is_empty());
        assert!(!what_if.take_effects().is_empty());
        assert!(what_if.take_effects().is_empty());
    }

    #[test]
    fn a_missing_value_is_an_error_with_its_type() {
        let error = CycleState::new().require::<Counts>().unwrap_err();
        assert!(error.to_string().contains("Counts"), "{error}");
    }
}
