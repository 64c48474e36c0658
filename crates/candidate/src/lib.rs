//! Candidate side of the protocol: state machine (reserve, hold, bind), scheduler plugins. Pure.
