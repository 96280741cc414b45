//! Where the signal trace goes. Off, it costs one relaxed load per send and per read of a socket. On, each
//! send and each read is put in words ([`crate::wire::trace`]) by the thread that does it, so the library
//! becomes slow; and keys and values are readable in it.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once};

use crate::wire::NodeId;
use crate::wire::trace::{Direction, describe};

/// The environment variable that turns the trace on at the first connect: `stderr`, or a file's path.
pub const VARIABLE: &str = "IC_SIGNAL_TRACE";

static ON: AtomicBool = AtomicBool::new(false);
static SINK: Mutex<Option<Sink>> = Mutex::new(None);

enum Sink {
    Stderr,
    File(File),
}

/// Whether signals are traced.
#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// From now on traces to standard error (`stderr`), or appends to the file at a path; `None` ends the trace.
pub fn set(to: Option<&str>) -> std::io::Result<()> {
    let sink = match to {
        None | Some("") => None,
        Some("stderr") => Some(Sink::Stderr),
        Some(path) => Some(Sink::File(File::options().append(true).create(true).open(path)?)),
    };
    let on = sink.is_some();
    *lock() = sink;
    ON.store(on, Ordering::Relaxed);
    Ok(())
}

/// As the environment asks, once in the life of the process. A file that cannot be opened is told on standard
/// error.
pub fn from_environment() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if let Ok(to) = std::env::var(VARIABLE)
            && let Err(error) = set(Some(&to))
        {
            eprintln!("{VARIABLE}={to}: {error}");
        }
    });
}

/// Traces messages on their way to or from a node.
#[cold]
pub fn messages(direction: Direction, node: NodeId, words: &[u32]) {
    let mut text = String::new();
    describe(&mut text, direction, node, words);
    write(&text);
}

#[cold]
fn write(text: &str) {
    // A trace that cannot be written is no reason to stop.
    let _ = match &mut *lock() {
        Some(Sink::Stderr) => std::io::stderr().write_all(text.as_bytes()),
        Some(Sink::File(file)) => file.write_all(text.as_bytes()),
        None => Ok(()),
    };
}

fn lock() -> MutexGuard<'static, Option<Sink>> {
    SINK.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
