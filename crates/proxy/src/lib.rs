//! Proxy side of the protocol: state machine (ask, choose, record, grant), ranking, scheduler plugins. Pure.
