//! What the programs in `src/bin` and the tests share. Nothing of it is in the bare library.

pub mod command_line;
pub mod ndb_cluster;
