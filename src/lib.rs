//! An asynchronous client for MySQL NDB Cluster and RonDB data nodes, for C programs and for every
//! language that can call C.
//!
//! The map of the house; each layer uses only those below it:
//!
//! - [`capi`]: the C ABI. Checks arguments, calls, translates errors. `include/iclaustron/ic_apid.h` shows it.
//! - [`conn`]: a user thread's connection: queries, transactions, completion.
//! - [`dict`]: table definitions, records, distribution (which node owns a key).
//! - [`cluster`]: the cluster as the process sees it: manager, connector, receive threads, send pool, ports.
//! - [`link`]: one TCP link to one data node: hand-shake, send buffer, framing of what arrives.
//! - [`mgm`]: the management server: connectstring, session, node id, configuration.
//! - [`wire`]: NDB's protocol as words and bytes. Pure functions: no socket, no thread, no clock.
//! - [`embedded`]: data nodes in this process, the other side of [`wire`], in memory.
//! - [`log`]: what happens to links and nodes, for a callback of the program. Used by all layers.
//! - [`error`]: every code a call can return, and what to do about it. Used by all layers.
//! - [`tools`]: what the programs in `src/bin` and the tests share: control of a real cluster.
//!
//! A write's way: `capi` hands a query to [`conn`], which packs a TCKEYREQ in the query, seals it into the
//! connection's buffer for the coordinator's node at commit, and gives the buffer to [`link`] at send: one
//! write per node. Replies are routed by a receive thread in [`cluster`] to the connection's
//! [`cluster::port`]; the next poll decodes them in [`conn`] and completes the query.

#[cfg(target_endian = "big")]
compile_error!("signals travel in host byte order, and NDB on big endian hosts hashes keys differently");

pub mod capi;
pub mod cluster;
pub mod conn;
pub mod dict;
#[cfg(feature = "embedded")]
pub mod embedded;
pub mod error;
pub mod link;
pub mod log;
pub mod mgm;
mod sync;
#[cfg(feature = "tools")]
pub mod tools;
pub mod wire;
