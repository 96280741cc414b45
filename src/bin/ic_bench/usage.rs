//! What the process has used of the processors.

use std::mem::MaybeUninit;
use std::time::Duration;

/// What the whole process, all threads, has used since it began, or between two moments.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// Processor time in user mode.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// Times a thread gave its processor up to wait.
    pub voluntary_switches: u64,
}

impl Usage {
    /// Up to now.
    pub fn now() -> Usage {
        let usage = rusage();
        Usage {
            user: duration(usage.ru_utime),
            system: duration(usage.ru_stime),
            voluntary_switches: usage.ru_nvcsw.try_into().unwrap_or(0),
        }
    }

    /// From `earlier` to `self`.
    pub fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
        }
    }
}

fn rusage() -> libc::rusage {
    let mut usage = MaybeUninit::zeroed();
    // SAFETY: `usage` is writable and of the type that the call fills. All zeros are a valid value of it, so it
    // is initialised even if the call should fail.
    unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_micros(time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64)
}
