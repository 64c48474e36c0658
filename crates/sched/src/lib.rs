//! The scheduling framework: snapshot, cache, queue, plugin traits, profiles, one scheduling cycle, plugins. Pure.
