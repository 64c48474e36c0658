//! Virtual nodes: Node object and lease heartbeat for each target.
