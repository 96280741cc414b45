//! The integration suite: what the library promises, against data nodes that run. Each test makes a table of
//! its own, so tests run side by side on one cluster.
//!
//! `IC_NDB_HOME` names the directory whose `bin` holds NDB's programs; without it every test here is reported
//! as ignored. See [`cluster`] for what else the environment can say.

mod batches;
mod cluster;
mod dictionary;
mod distribution;
mod kit;
mod lifetimes;
mod node_ids;
mod operations;
mod pipelines;
mod placement;
mod rows;
mod transactions;
mod values;
