//! What a watch tells its consumers: one change at a time, and how much each may conclude from it.

use std::fmt;
use std::sync::Arc;

use kube::Resource;

use super::object::name;

/// One change of a watched set.
pub enum Event<K> {
    /// The object is new or changed.
    Applied(Arc<K>),
    /// The API server said so: the object with this UID is gone. This is evidence.
    ///
    /// With a selector, the API server says the same of an object that ceased to match it; then this event is only
    /// sent if the object was at the end of its deletion, without grace left, and [`Event::Gone`] otherwise. Who takes
    /// a label that is selected by off an object which only a finalizer still keeps can't be told from its end: what is
    /// sent is the object before the change either way.
    Deleted(Arc<K>),
    /// The object isn't in the set any more, and nobody saw it go: a new list lacks it, or has another UID under its
    /// name, or it ceased to match the selector. **No evidence** that it doesn't exist: a live read is.
    Gone(Arc<K>),
    /// All that a list held has been told; sent after each list, the first one included.
    Synced,
}

impl<K> Clone for Event<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Applied(object) => Self::Applied(object.clone()),
            Self::Deleted(object) => Self::Deleted(object.clone()),
            Self::Gone(object) => Self::Gone(object.clone()),
            Self::Synced => Self::Synced,
        }
    }
}

impl<K: Resource> fmt::Debug for Event<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, object) = match self {
            Self::Applied(object) => ("Applied", object),
            Self::Deleted(object) => ("Deleted", object),
            Self::Gone(object) => ("Gone", object),
            Self::Synced => return f.write_str("Synced"),
        };
        let meta = object.meta();
        write!(
            f,
            "{word}({}/{})",
            meta.namespace.as_deref().unwrap_or_default(),
            name(&**object)
        )
    }
}
