//! One TCP link to one data node: the hand-shake that opens it ([`dial`]), the one writer at a time
//! ([`sender`]), and what arrives cut into pages ([`page`], [`reader`]).
//!
//! A node's link outlives its connections: each connection is one *generation* of it, numbered from 1. Words
//! given to a link name the generation they were packed for, and are refused by any other.

pub mod adaptive;
pub mod dial;
pub mod page;
pub mod reader;
pub mod sender;
pub mod statistics;
pub mod trace;
