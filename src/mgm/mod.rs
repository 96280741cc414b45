//! The management server: where it is, the session with it, a node id, the configuration.

pub mod connectstring;
