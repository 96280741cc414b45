//! The log: what happens to links and nodes, told to a callback of the program if it asks for it. Composing a
//! line costs nothing unless its level is on, and no lock of the library is held while the callback runs.

use std::cell::Cell;
use std::fmt::Arguments;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

/// How important a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Something broke: a node that cannot be used, damage on the way.
    Error = 1,
    /// Something was lost, and is being repaired.
    Warning = 2,
    /// A state has changed.
    Info = 3,
    /// Each step.
    Debug = 4,
}

/// What is called with each line.
pub type Callback = dyn Fn(Level, &str) + Send + Sync;

/// The highest level that is on; 0 for none.
static LEVEL: AtomicU8 = AtomicU8::new(0);
static CALLBACK: RwLock<Option<Arc<Callback>>> = RwLock::new(None);
/// Threads that are in a callback or about to be.
static CALLING: AtomicUsize = AtomicUsize::new(0);

thread_local!(static INSIDE: Cell<bool> = const { Cell::new(false) });

/// Whether lines of a level are wanted.
#[inline]
pub fn is_on(level: Level) -> bool {
    level as u8 <= LEVEL.load(Ordering::Relaxed)
}

/// From now on lines up to a level go to a callback; `None` ends the log. On return nobody is in the callback
/// that was set before, unless this is called in a callback.
pub fn set(to: Option<(Level, Arc<Callback>)>) {
    let (level, callback) = match to {
        Some((level, callback)) => (level as u8, Some(callback)),
        None => (0, None),
    };
    LEVEL.store(0, Ordering::Relaxed);
    *CALLBACK.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = callback;
    // Who comes from now on has the new one. A callback does not wait: two of them might for each other.
    while !INSIDE.with(Cell::get) && CALLING.load(Ordering::Acquire) > 0 {
        std::thread::sleep(Duration::from_micros(100));
    }
    LEVEL.store(level, Ordering::Relaxed);
}

/// Tells the callback a line. A line that the callback itself causes is left out.
#[cold]
pub fn write(level: Level, text: Arguments<'_>) {
    if INSIDE.with(|inside| inside.replace(true)) {
        return;
    }
    /// Also after a panic.
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            CALLING.fetch_sub(1, Ordering::Release);
            INSIDE.with(|inside| inside.set(false));
        }
    }
    CALLING.fetch_add(1, Ordering::SeqCst);
    let _leave = Leave;
    let callback = CALLBACK.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
    if let Some(callback) = callback {
        callback(level, &text.to_string());
    }
}

/// `log!(Level, "text {}", values)`: a line, composed only if its level is on.
macro_rules! log {
    ($level:ident, $($text:tt)+) => {
        if $crate::log::is_on($crate::log::Level::$level) {
            $crate::log::write($crate::log::Level::$level, format_args!($($text)+));
        }
    };
}

pub(crate) use log;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// One test, for there is one log in a process. Lines of other tests' clusters may come between.
    #[test]
    fn lines_go_where_they_are_wanted() {
        let compose = |composed: &Cell<u32>| {
            composed.set(composed.get() + 1);
            "composed"
        };
        let composed = Cell::new(0);
        log!(Info, "{}", compose(&composed));
        assert_eq!(composed.get(), 0, "nobody has asked");

        let lines = Arc::new(Mutex::new(Vec::new()));
        let mine = std::thread::current().id();
        let callback = {
            let lines = lines.clone();
            move |level: Level, text: &str| {
                if std::thread::current().id() == mine {
                    lines.lock().unwrap().push((level, text.to_owned()));
                    // Not a line about a line, and a change of mind does not wait for itself.
                    log!(Error, "again");
                    if text == "last" {
                        set(None);
                    }
                }
            }
        };
        set(Some((Level::Warning, Arc::new(callback))));
        log!(Info, "{}", compose(&composed));
        log!(Warning, "one {}", compose(&composed));
        log!(Error, "last");
        log!(Error, "too late");
        assert_eq!(composed.get(), 1);
        let expected = [(Level::Warning, "one composed".into()), (Level::Error, "last".into())];
        assert_eq!(*lines.lock().unwrap(), expected);
    }
}
