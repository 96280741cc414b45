//! The integration suite: what the library promises, against data nodes that run. Each test makes a table of
//! its own, so tests run side by side on one cluster.
//!
//! Each test runs on embedded nodes and on real ones: `cargo test --test suite on_embedded`. `IC_NDB_HOME` names the
//! directory whose `bin` holds NDB's programs; without it every test on real nodes is reported as ignored. See
//! [`cluster`] and [`real`] for what else the environment can say.

#[macro_use]
mod cluster;
mod batches;
mod dictionary;
mod distribution;
mod kit;
mod ledger;
mod lifetimes;
mod multi_reads;
mod node_ids;
mod operations;
mod pipelines;
mod placement;
mod real;
mod rows;
mod statistics;
mod transactions;
mod values;
