//! Live registry of target clusters: clients, connection state, supervised watches.
