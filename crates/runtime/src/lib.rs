//! Process kit: signals, readiness, admin port, TLS, leader election, logs, metrics.
