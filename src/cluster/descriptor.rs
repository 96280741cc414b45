//! A descriptor for event loops: readable while it is raised. An event counter of the kernel on Linux,
//! elsewhere a pipe. Raised and lowered in turn, so it never holds more than one event and no call on it
//! blocks.

#[cfg(all(not(loom), target_os = "linux"))]
pub use event::Descriptor;
#[cfg(loom)]
pub use model::Descriptor;
#[cfg(all(not(loom), not(target_os = "linux")))]
pub use pipe::Descriptor;

#[cfg(all(not(loom), target_os = "linux"))]
mod event {
    use std::fs::File;
    use std::io::{self, Read, Write};
    use std::os::fd::{AsRawFd, FromRawFd, RawFd};

    /// The descriptor. Dropping it closes it.
    #[derive(Debug)]
    pub struct Descriptor(File);

    impl Descriptor {
        /// One that is not readable.
        pub fn new() -> io::Result<Self> {
            // SAFETY: the call takes no pointers.
            let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: the descriptor was made just now, and nobody else knows it.
            Ok(Descriptor(unsafe { File::from_raw_fd(fd) }))
        }

        /// Makes it readable; it is not.
        pub fn raise(&self) {
            let _ = (&self.0).write(&1u64.to_ne_bytes());
        }

        /// Makes it unreadable; it is readable.
        pub fn lower(&self) {
            let _ = (&self.0).read(&mut [0; 8]);
        }

        /// Its number.
        pub fn number(&self) -> RawFd {
            self.0.as_raw_fd()
        }
    }
}

/// Also built on Linux for its test.
#[cfg(all(not(loom), any(test, not(target_os = "linux"))))]
mod pipe {
    use std::io::{self, PipeReader, PipeWriter, Read, Write};
    use std::os::fd::{AsRawFd, RawFd};

    /// The descriptor: a pipe's end for reading. Dropping it closes both ends.
    #[derive(Debug)]
    pub struct Descriptor {
        reader: PipeReader,
        writer: PipeWriter,
    }

    impl Descriptor {
        /// One that is not readable.
        pub fn new() -> io::Result<Self> {
            let (reader, writer) = io::pipe()?;
            Ok(Descriptor { reader, writer })
        }

        /// Makes it readable; it is not.
        pub fn raise(&self) {
            let _ = (&self.writer).write(&[1]);
        }

        /// Makes it unreadable; it is readable.
        pub fn lower(&self) {
            let _ = (&self.reader).read(&mut [0]);
        }

        /// Its number.
        pub fn number(&self) -> RawFd {
            self.reader.as_raw_fd()
        }
    }
}

/// What the models see of it.
#[cfg(loom)]
mod model {
    use std::io;
    use std::os::fd::RawFd;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A descriptor that only says whether it is readable, and insists on being raised and lowered in turn.
    #[derive(Debug, Default)]
    pub struct Descriptor(AtomicBool);

    impl Descriptor {
        /// One that is not readable.
        pub fn new() -> io::Result<Self> {
            Ok(Self::default())
        }

        /// Makes it readable; it is not.
        pub fn raise(&self) {
            assert!(!self.0.swap(true, Ordering::Relaxed), "raised twice");
        }

        /// Makes it unreadable; it is readable.
        pub fn lower(&self) {
            assert!(self.0.swap(false, Ordering::Relaxed), "lowered twice");
        }

        /// In place of a number: whether it is readable.
        pub fn number(&self) -> RawFd {
            self.0.load(Ordering::Relaxed).into()
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    /// Whether a descriptor is readable now.
    pub fn is_readable(fd: std::os::fd::RawFd) -> bool {
        let mut asked = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which outlives the call.
        let ready = unsafe { libc::poll(&mut asked, 1, 0) };
        ready == 1 && asked.revents == libc::POLLIN
    }

    macro_rules! goes_up_and_down {
        ($test:ident, $descriptor:ty) => {
            #[test]
            fn $test() {
                let descriptor = <$descriptor>::new().unwrap();
                assert!(!is_readable(descriptor.number()));
                for _ in 0..3 {
                    descriptor.raise();
                    assert!(is_readable(descriptor.number()));
                    descriptor.lower();
                    assert!(!is_readable(descriptor.number()));
                }
            }
        };
    }

    goes_up_and_down!(the_systems_goes_up_and_down, super::Descriptor);
    goes_up_and_down!(a_pipe_goes_up_and_down, super::pipe::Descriptor);
}

#[cfg(all(test, not(loom)))]
pub use tests::is_readable;
