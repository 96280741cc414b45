//! The dictionary as a client sees it: table definitions, records (which column stands where in a row), and
//! distribution (which fragment, hence which node, owns a key).

pub mod client;
pub mod distribution;
pub mod record;
pub mod schema;
pub mod standing;
pub mod table;

#[cfg(test)]
pub(crate) mod vectors;
