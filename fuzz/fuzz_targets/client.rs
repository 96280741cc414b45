//! A whole client, from a user's calls to the sockets' edge: the script says what the user does and what the data nodes
//! say, see the library's `conn::scripted`. What was accepted completes once, and nothing is left over.
#![no_main]

use iclaustron::conn::scripted::play;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| play(bytes));
