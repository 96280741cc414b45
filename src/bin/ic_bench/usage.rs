//! What a process has used of the processors.

use std::io;
use std::mem::MaybeUninit;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use crate::allocations;

/// What the whole process, all threads, has used since it began, or between two moments.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// Processor time in user mode.
    pub user: Duration,
    /// Processor time in the kernel.
    pub system: Duration,
    /// Times a thread gave its processor up to wait.
    pub voluntary_switches: u64,
    /// Heap allocations; only of this process.
    pub allocations: u64,
}

impl Usage {
    /// Of this process, up to now.
    pub fn now() -> Usage {
        let mut usage = MaybeUninit::zeroed();
        // SAFETY: `usage` is writable and of the type that the call fills. All zeros are a valid value of it,
        // so it is initialised even if the call should fail.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
            usage.assume_init()
        };
        Usage { allocations: allocations::count(), ..Usage::of(&usage) }
    }

    /// Of a child, all of its life; waits for its end.
    pub fn of_child(child: Child) -> io::Result<(ExitStatus, Usage)> {
        use std::os::unix::process::ExitStatusExt;
        let (mut status, mut usage) = (0, MaybeUninit::zeroed());
        loop {
            // SAFETY: both are writable and of the types that the call fills. The child is not waited for by
            // anyone else: `child` is ours, and dropping it does not wait.
            let waited = unsafe { libc::wait4(child.id() as i32, &mut status, 0, usage.as_mut_ptr()) };
            if waited > 0 {
                // SAFETY: all zeros are a valid value, and the call has filled it.
                let usage = unsafe { usage.assume_init() };
                return Ok((ExitStatus::from_raw(status), Usage::of(&usage)));
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    fn of(usage: &libc::rusage) -> Usage {
        Usage {
            user: duration(usage.ru_utime),
            system: duration(usage.ru_stime),
            voluntary_switches: usage.ru_nvcsw.try_into().unwrap_or(0),
            allocations: 0,
        }
    }

    /// Processor time.
    pub fn cpu(&self) -> Duration {
        self.user + self.system
    }

    /// From `earlier` to `self`.
    pub fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            allocations: self.allocations.saturating_sub(earlier.allocations),
        }
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_micros(time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64)
}
