//! The built binary, run as a user would.

mod crds;
mod rbac;
