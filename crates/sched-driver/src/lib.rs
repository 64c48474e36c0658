//! Feeds watches to the scheduling framework, runs its loop, binds, records events and conditions.
