//! The mutating webhook: pure mutate, handler, server, its own certificates.
