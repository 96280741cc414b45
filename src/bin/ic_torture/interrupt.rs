//! SIGINT and SIGTERM: what was started ends with the program, data nodes that are halted included.

use std::path::Path;
use std::process::exit;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

use iclaustron::tools::ndb_cluster::NdbCluster;

/// The signal that came.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

extern "C" fn note(signal: i32) {
    SIGNAL.store(signal, Ordering::Relaxed);
}

/// Has this program end at SIGINT and SIGTERM after `clean_up`. A handler, for a blocked signal stays blocked
/// in the programs that are started.
pub fn on_interrupt(clean_up: impl FnOnce() + Send + 'static) {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: all that the handler does is a store to an atomic.
        unsafe { libc::signal(signal, note as extern "C" fn(i32) as libc::sighandler_t) };
    }
    thread::spawn(move || {
        while SIGNAL.load(Ordering::Relaxed) == 0 {
            thread::sleep(Duration::from_millis(50));
        }
        let signal = SIGNAL.load(Ordering::Relaxed);
        eprintln!("ic_torture: ended by signal {signal}");
        clean_up();
        exit(128 + signal);
    });
}

/// Ends the cluster that this process may have started in a directory.
pub fn end_cluster(dir: &Path) {
    if let Ok(mut cluster) = NdbCluster::attach(dir) {
        let _ = cluster.stop();
    }
    let _ = std::fs::remove_dir_all(dir);
}
