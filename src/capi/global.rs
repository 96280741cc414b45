//! The cluster handle: connecting, node states, disconnecting.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::args::{ConnectArgs, NodeState, init, read, write_out};
use super::handle::{Handle, borrow, forks, give, take_back, watch_forks};
use super::{guard, guard_with, milliseconds, put, text};
use crate::cluster::{Cluster, Limits, Options};
use crate::dict::client::Client;
use crate::error::{Error, own};

/// A cluster handle: shared by all threads of the program.
pub struct ApidGlobal {
    forks: u32,
    shared: Arc<Shared>,
}

/// What a cluster handle's connections and tables hold on to.
pub(crate) struct Shared {
    forks: u32,
    state: Mutex<State>,
    /// The text of the last error, not for connections.
    error: Mutex<Error>,
    /// Connections that are open.
    pub connections: AtomicUsize,
    /// Tables that are open.
    pub tables: AtomicUsize,
}

enum State {
    /// Never connected, or disconnected.
    Apart,
    /// A connect call is under way.
    Connecting,
    Joined {
        cluster: Arc<Cluster>,
        dictionary: Arc<Mutex<Client>>,
    },
}

impl Handle for ApidGlobal {
    const KIND: u32 = 0x4943_474c;
}

impl ApidGlobal {
    pub(crate) fn shared(&self) -> Result<Arc<Shared>, i32> {
        match self.forks == forks() {
            true => Ok(self.shared.clone()),
            false => Err(own::FORKED),
        }
    }
}

impl Shared {
    /// The cluster, if connected.
    pub(crate) fn cluster(&self) -> Result<Arc<Cluster>, i32> {
        match &*self.state() {
            State::Joined { cluster, .. } => Ok(cluster.clone()),
            _ => Err(own::NOT_CONNECTED),
        }
    }

    /// Runs `ask` on the dictionary, one caller at a time; an error's text is kept.
    pub(crate) fn with_dictionary<R>(
        &self,
        ask: impl FnOnce(&mut Client) -> Result<R, Error>,
    ) -> Result<R, i32> {
        let dictionary = match &*self.state() {
            State::Joined { dictionary, .. } => dictionary.clone(),
            _ => return Err(own::NOT_CONNECTED),
        };
        let mut dictionary = dictionary.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        ask(&mut dictionary).map_err(|error| self.failed(error))
    }

    /// Keeps an error's text for ic_apid_global_error_text; gives its code.
    pub(crate) fn failed(&self, error: Error) -> i32 {
        let code = error.code;
        if self.forks != forks() {
            // Another thread of the parent may have held the lock.
            return code;
        }
        *self.error.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = error;
        code
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn connect(&self, connectstring: Option<&str>, args: &ConnectArgs) -> Result<(), i32> {
        let options = Options {
            node_id: match args.node_id {
                0 => None,
                id @ 1..=255 => Some(id as u16),
                _ => return Err(own::INVALID_ARGUMENT),
            },
            receive_threads: match args.receive_threads {
                threads @ 1..=64 => threads as usize,
                _ => return Err(own::INVALID_ARGUMENT),
            },
            lend_receive: match args.lend_receive {
                0 => false,
                1 => true,
                _ => return Err(own::INVALID_ARGUMENT),
            },
            hold: match args.hold_us {
                us @ 0..=1_000_000 => Duration::from_micros(us as u64),
                _ => return Err(own::INVALID_ARGUMENT),
            },
            deadline: milliseconds(args.deadline_ms),
            connect_limit: Duration::from_millis(args.connect_ms as u64),
            grace: Duration::from_millis(args.grace_ms as u64),
            limits: Limits {
                waiting: match args.max_waiting {
                    bytes @ 0x1_0000..=0x4000_0000 => bytes as usize,
                    _ => return Err(own::INVALID_ARGUMENT),
                },
                in_flight: match args.max_in_flight {
                    operations @ 1..=0x10_0000 => operations as usize,
                    _ => return Err(own::INVALID_ARGUMENT),
                },
            },
        };
        match &mut *self.state() {
            state @ State::Apart => *state = State::Connecting,
            State::Connecting => return Err(own::BUSY),
            State::Joined { .. } => {
                let text = "connect: already connected, disconnect first";
                return Err(self.failed(Error::new(own::STILL_IN_USE, text)));
            }
        }
        let joined = Cluster::connect(connectstring, &options).and_then(|cluster| {
            match Client::new(cluster.clone()) {
                Ok(client) => Ok(State::Joined { cluster, dictionary: Arc::new(Mutex::new(client)) }),
                Err(error) => {
                    cluster.disconnect();
                    Err(error)
                }
            }
        });
        let (state, result) = match joined {
            Ok(state) => (state, Ok(())),
            Err(error) => (State::Apart, Err(self.failed(error))),
        };
        *self.state() = state;
        result
    }

    fn disconnect(&self) -> Result<(), i32> {
        let mut state = self.state();
        if matches!(*state, State::Connecting) {
            return Err(own::BUSY);
        }
        let before = std::mem::replace(&mut *state, State::Apart);
        drop(state);
        if let State::Joined { cluster, .. } = before {
            cluster.disconnect();
        }
        Ok(())
    }
}

/// Creates a cluster handle, which is not connected yet.
/// glob: receives the handle, to be freed with ic_apid_global_free.
/// Threads: any; blocks never.
/// Returns 0.
/// See also ic_apid_global_connect, ic_apid_global_free.
///
/// # Safety
/// glob is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_global_create(glob: *mut *mut ApidGlobal) -> i32 {
    guard(|| {
        if glob.is_null() {
            return Err(own::INVALID_ARGUMENT);
        }
        watch_forks();
        let shared = Arc::new(Shared {
            forks: forks(),
            state: Mutex::new(State::Apart),
            error: Mutex::new(Error::new(0, "")),
            connections: AtomicUsize::new(0),
            tables: AtomicUsize::new(0),
        });
        let handle = ApidGlobal { forks: forks(), shared };
        // SAFETY: the caller's duty; not NULL.
        unsafe { put(glob, give(handle)) }
    })
}

/// Frees a cluster handle, and disconnects it first if need be. Free its connections and tables before.
/// glob: NULL does nothing. After an error it is still there and usable.
/// Threads: any, but no other may use the handle; blocks as ic_apid_global_disconnect.
/// Returns 0; -13 while connections or tables of it are open (the error text counts them); -3 while another
///   thread connects.
/// See also ic_apid_conn_free, ic_apid_table_close, ic_apid_global_disconnect.
///
/// # Safety
/// glob is NULL or a cluster handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_global_free(glob: *mut ApidGlobal) -> i32 {
    guard(|| {
        if glob.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's duty.
        let shared = unsafe { borrow(glob.cast_const()) }?.shared()?;
        let connections = shared.connections.load(Ordering::Acquire);
        let tables = shared.tables.load(Ordering::Acquire);
        if connections + tables > 0 {
            let text = format!("free: {connections} connections and {tables} tables of the handle are open");
            return Err(shared.failed(Error::new(own::STILL_IN_USE, text)));
        }
        shared.disconnect()?;
        // SAFETY: the caller's duty: no other thread uses the handle, and nobody does after this.
        unsafe { take_back(glob) }?;
        Ok(())
    })
}

/// Sets connect arguments to their defaults, which the comments of the fields name.
/// args: NULL does nothing.
/// size: sizeof *args.
/// Threads: any; blocks never.
/// See also ic_apid_global_connect.
///
/// # Safety
/// args is NULL or valid for size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_connect_args_init(args: *mut ConnectArgs, size: usize) {
    // SAFETY: the caller's duty.
    guard_with(|_| (), || unsafe { init(args, size) })
}

/// Joins a cluster: management server, node id, configuration, connections to the data nodes. Starts 4
/// threads and the receive threads: 4 + receive_threads of args, 5 by default, however many data nodes there
/// are. A failed connect leaves no thread and no socket, and may be tried again.
/// connectstring: as the NDB manual has it, "host:port,host:port" for example; NULL or empty means the
///   environment variable NDB_CONNECTSTRING, then localhost:1186. Copied.
/// args: NULL for all defaults.
/// Threads: any; blocks up to connect_ms, and grace_ms where a first data node is usable and others are not.
///   What can come of itself (a management server, a node id, a data node) is waited for until then; a
///   connectstring that makes no sense fails at once.
/// Returns 0 when at least one data node takes work; -15 when it could not connect, -16 when it got no node
///   id (ic_apid_global_error_text says step, host and cause); -13 if connected already; -3 while another
///   thread connects; -24 for a connectstring that is no UTF-8.
/// See also ic_connect_args_init, ic_apid_global_wait_usable, ic_apid_global_error_text, ic_embedded_start.
///
/// # Safety
/// Pointers are valid as described.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_global_connect(
    glob: *mut ApidGlobal,
    connectstring: *const c_char,
    args: *const ConnectArgs,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let shared = unsafe { borrow(glob.cast_const()) }?.shared()?;
        // SAFETY: the caller's duty.
        let (connectstring, args) = unsafe { (text(connectstring)?, read(args)?) };
        shared.connect(connectstring, &args)
    })
}

/// Leaves the cluster: ends every thread of the handle and closes its sockets. What is in flight completes
/// with an error at its connection's next poll, or when that is freed. Tables and connections stay to be
/// freed; after another connect, make new ones.
/// Threads: any, not in a callback; blocks until the threads have ended, up to a few seconds whatever the
///   network does.
/// Returns 0, also if not connected; -3 while another thread connects.
/// See also ic_apid_global_free.
///
/// # Safety
/// glob is a cluster handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_global_disconnect(glob: *mut ApidGlobal) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        unsafe { borrow(glob.cast_const()) }?.shared()?.disconnect()
    })
}

/// What went wrong last in a connect, wait, dictionary or record call on the handle, for a person: step,
/// host, port, cause.
/// Threads: any; blocks never. With several threads it is the last error of any of them.
/// Returns the text, empty if there is none; valid until this thread's next call of this function. NULL for
///   something else than a cluster handle.
/// See also ic_error_message.
///
/// # Safety
/// glob is a cluster handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_global_error_text(glob: *const ApidGlobal) -> *const c_char {
    thread_local!(static TEXT: RefCell<CString> = RefCell::default());
    guard_with(
        |_| std::ptr::null(),
        || {
            // SAFETY: the caller's duty.
            let Ok(glob) = (unsafe { borrow(glob) }) else { return std::ptr::null() };
            if glob.forks != forks() {
                // Another thread of the parent may have held the lock.
                return c"the handle belongs to the parent process".as_ptr();
            }
            let error = glob.shared.error.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let bytes: Vec<u8> = error.text.bytes().filter(|&byte| byte != 0).collect();
            TEXT.with(|text| {
                *text.borrow_mut() = CString::new(bytes).unwrap_or_default();
                text.borrow().as_ptr()
            })
        },
    )
}

/// Waits until data nodes take work.
/// nodes: how many; 0 for all that are configured.
/// wait_ms: milliseconds to wait at most.
/// Threads: any; blocks up to wait_ms.
/// Returns 0; -15 if there are too few in time (the error text says how far each of the others is); -14 if
///   not connected.
/// See also ic_apid_global_node_state.
///
/// # Safety
/// glob is a cluster handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_global_wait_usable(glob: *mut ApidGlobal, nodes: u32, wait_ms: u32) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let shared = unsafe { borrow(glob.cast_const()) }?.shared()?;
        let cluster = shared.cluster()?;
        let count = if nodes == 0 { cluster.nodes.len() } else { nodes as usize };
        let deadline = Instant::now() + Duration::from_millis(wait_ms as u64);
        cluster.wait_usable(count, deadline).map_err(|error| shared.failed(error))
    })
}

/// How many data nodes are configured.
/// Threads: any; blocks never.
/// Returns the number; 0 if not connected or for something else than a cluster handle.
/// See also ic_apid_global_node_state.
///
/// # Safety
/// glob is a cluster handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_global_node_count(glob: *mut ApidGlobal) -> u32 {
    let count = || {
        // SAFETY: the caller's duty.
        let shared = unsafe { borrow(glob.cast_const()) }?.shared()?;
        Ok::<_, i32>(shared.cluster()?.nodes.len() as u32)
    };
    guard_with(|_| 0, || count().unwrap_or(0))
}

/// The state of a data node, as the library knows it now.
/// index: from 0, below ic_apid_global_node_count; it is not the node id.
/// state: its size field, set by the caller, says how much of it is filled.
/// Threads: any; blocks never.
/// Returns 0; -1 for an index out of range; -14 if not connected.
/// See also ic_apid_global_node_count, ic_apid_global_wait_usable.
///
/// # Safety
/// glob is a cluster handle; state is valid for the size it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_global_node_state(
    glob: *mut ApidGlobal,
    index: u32,
    state: *mut NodeState,
) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let cluster = unsafe { borrow(glob.cast_const()) }?.shared()?.cluster()?;
        let node = cluster.nodes.get(index as usize).ok_or(own::INVALID_ARGUMENT)?;
        let known = NodeState {
            size: size_of::<NodeState>(),
            node_id: node.id as u32,
            connected: node.connected() as u32,
            usable: node.usable().is_some() as u32,
        };
        // SAFETY: the caller's duty.
        unsafe { write_out(state, known) }
    })
}

/// The node id of this client in the cluster.
/// Threads: any; blocks never.
/// Returns the id; 0 if not connected or for something else than a cluster handle.
///
/// # Safety
/// glob is a cluster handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_apid_global_node_id(glob: *mut ApidGlobal) -> u32 {
    let id = || {
        // SAFETY: the caller's duty.
        let shared = unsafe { borrow(glob.cast_const()) }?.shared()?;
        Ok::<_, i32>(shared.cluster()?.own_node as u32)
    };
    guard_with(|_| 0, || id().unwrap_or(0))
}
