//! Embedded data nodes: starting, stopping, and faults on request. With the feature `embedded` only.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::args::{SizedStruct, init, read};
use super::handle::{Handle, borrow, forks, give, take_back, watch_forks};
use super::{guard, guard_with, put};
use crate::embedded::faults::Fault;
use crate::embedded::{EmbeddedCluster, Options};
use crate::error::{Error, own};

/// Embedded data nodes: a set of data nodes and their management server inside this process, in memory, on
/// loopback sockets. For first runs and for tests; what they hold is gone when they stop. Several sets can
/// run at once. All that begins with ic_embedded_ is missing from a library built without its feature
/// "embedded".
pub struct EmbeddedHandle {
    forks: u32,
    nodes: EmbeddedCluster,
    connectstring: CString,
    /// What was asked for; a fault's number is its place here, from 1.
    faults: Mutex<Vec<Fault>>,
}

impl Handle for EmbeddedHandle {
    const KIND: u32 = 0x4943_454d;
}

impl EmbeddedHandle {
    fn start(options: Options) -> Result<Self, Error> {
        let nodes = EmbeddedCluster::start(options)?;
        let connectstring = CString::new(nodes.connectstring()).unwrap_or_default();
        Ok(EmbeddedHandle { forks: forks(), nodes, connectstring, faults: Mutex::default() })
    }

    /// Keeps a fault; its number.
    fn keep(&self, fault: Fault) -> u32 {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.push(fault);
        faults.len() as u32
    }

    fn consumed(&self, fault: u32) -> bool {
        let faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        (fault as usize).checked_sub(1).and_then(|at| faults.get(at)).is_some_and(Fault::consumed)
    }
}

thread_local!(static ERROR: RefCell<CString> = RefCell::default());

/// How embedded data nodes are started.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct EmbeddedArgs {
    /// Size of the struct in bytes, as the caller knows it.
    pub size: usize,
    /// Data nodes, 1 to 48. Their ids are 1 and up.
    pub nodes: u32,
    /// Copies of each row, 1 to 4; it must divide the number of nodes.
    pub replicas: u32,
    /// Decides what real nodes leave to chance, as the order in which rows come.
    pub seed: u64,
    /// The management server's port; 0: any that is free.
    pub port: u32,
    /// Milliseconds that an operation waits for a lock before it fails with 266; at least 1.
    pub lock_timeout_ms: u32,
}

impl SizedStruct for EmbeddedArgs {
    fn defaults() -> Self {
        EmbeddedArgs {
            size: size_of::<Self>(),
            nodes: 2,
            replicas: 2,
            seed: 0,
            port: 0,
            lock_timeout_ms: 1200,
        }
    }
}

impl EmbeddedArgs {
    fn options(&self) -> Result<Options, Error> {
        let refuse = |what: &str| Error::new(own::INVALID_ARGUMENT, format!("embedded nodes: {what}"));
        Ok(Options {
            nodes: u16::try_from(self.nodes).map_err(|_| refuse("1 to 48 nodes"))?,
            replicas: u16::try_from(self.replicas).map_err(|_| refuse("1 to 4 replicas"))?,
            seed: self.seed,
            port: match u16::try_from(self.port).map_err(|_| refuse("a port is below 65536"))? {
                0 => None,
                port => Some(port),
            },
            lock_timeout: match self.lock_timeout_ms {
                0 => return Err(refuse("a lock time-out of 0")),
                ms => Duration::from_millis(ms as u64),
            },
            ..Options::default()
        })
    }
}

/// The nodes behind a handle, if they are this process's.
///
/// # Safety
/// As [`borrow`].
unsafe fn cluster<'a>(cluster: *const EmbeddedHandle) -> Result<&'a EmbeddedHandle, i32> {
    // SAFETY: this function's own condition.
    let handle = unsafe { borrow(cluster) }?;
    if handle.forks == forks() { Ok(handle) } else { Err(own::FORKED) }
}

/// A node id, if a node can have it.
fn node(id: u32) -> Result<u16, i32> {
    u16::try_from(id).map_err(|_| own::INVALID_ARGUMENT)
}

/// Asks for a fault and gives its number to C.
///
/// # Safety
/// As [`borrow`]; `number` is NULL or valid.
unsafe fn ask(
    handle: *const EmbeddedHandle,
    number: *mut u32,
    ask: impl FnOnce(&EmbeddedCluster) -> Result<Fault, i32>,
) -> Result<(), i32> {
    // SAFETY: this function's own condition.
    let handle = unsafe { cluster(handle) }?;
    let fault = handle.keep(ask(&handle.nodes)?);
    if !number.is_null() {
        // SAFETY: not NULL, and this function's own condition.
        unsafe { put(number, fault) }?;
    }
    Ok(())
}

/// Sets start arguments to their defaults: 2 data nodes, 2 replicas, seed 0, any port, 1200 ms for a lock.
/// args: NULL does nothing.
/// size: sizeof *args.
/// Threads: any; blocks never.
/// See also ic_embedded_start.
///
/// # Safety
/// args is NULL or valid for size bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_embedded_args_init(args: *mut EmbeddedArgs, size: usize) {
    // SAFETY: the caller's duty.
    guard_with(|_| (), || unsafe { init(args, size) })
}

/// Starts a set of embedded data nodes; when it returns, clients can connect. Each node is a thread, and so
/// is the management server, with one more for each of its sessions.
/// args: NULL for all defaults.
/// cluster: receives the handle, to be freed with ic_embedded_stop.
/// Threads: any; blocks for some milliseconds.
/// Returns 0; -1 for arguments that do not fit; -2 if a socket or a thread could not be had.
///   ic_embedded_error_text says more.
/// See also ic_embedded_connectstring, ic_embedded_stop, ic_apid_global_connect.
///
/// # Safety
/// Pointers are valid as described.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_embedded_start(
    args: *const EmbeddedArgs,
    cluster: *mut *mut EmbeddedHandle,
) -> i32 {
    guard(|| {
        ERROR.take();
        // SAFETY: the caller's duty.
        let args = unsafe { read(args) }?;
        if cluster.is_null() {
            return Err(own::INVALID_ARGUMENT);
        }
        watch_forks();
        let handle = args.options().and_then(EmbeddedHandle::start).map_err(|error| {
            ERROR.set(CString::new(error.text).unwrap_or_default());
            error.code
        })?;
        // SAFETY: the caller's duty; not NULL.
        unsafe { put(cluster, give(handle)) }
    })
}

/// Why this thread's last ic_embedded_start failed, for a person.
/// Threads: any; blocks never.
/// Returns the text, empty if there is none; valid until this thread's next ic_embedded_start.
/// See also ic_embedded_start.
#[unsafe(no_mangle)]
pub extern "C" fn ic_embedded_error_text() -> *const c_char {
    guard_with(|_| std::ptr::null(), || ERROR.with_borrow(|text| text.as_ptr()))
}

/// What ic_apid_global_connect needs to find the nodes.
/// Threads: any; blocks never.
/// Returns the connectstring, valid as long as the handle; NULL for something else than a handle of embedded
///   nodes, and in a forked child.
/// See also ic_apid_global_connect.
///
/// # Safety
/// cluster is a handle of embedded nodes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_embedded_connectstring(cluster: *const EmbeddedHandle) -> *const c_char {
    // SAFETY: the caller's duty.
    let text = || unsafe { self::cluster(cluster) }.map(|handle| handle.connectstring.as_ptr());
    guard_with(|_| std::ptr::null(), || text().unwrap_or(std::ptr::null()))
}

/// Stops all nodes and frees the handle. Clients that are connected lose their links, as when real nodes end;
/// they may be disconnected before or after.
/// cluster: NULL does nothing.
/// Threads: any, but no other may use the handle; blocks until the nodes' threads have ended, some
///   milliseconds.
/// Returns 0.
/// See also ic_embedded_start.
///
/// # Safety
/// cluster is NULL or a handle of embedded nodes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_embedded_stop(cluster: *mut EmbeddedHandle) -> i32 {
    guard(|| {
        if cluster.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's duty.
        unsafe { self::cluster(cluster.cast_const()) }?;
        // SAFETY: the caller's duty: no other thread uses the handle, and nobody does after this.
        unsafe { take_back(cluster) }?;
        Ok(())
    })
}

/// Ends a node as a crash does: its links close, its rows are gone. When a node group has lost its last node,
/// all others end too. Nothing happens if it is down already.
/// node_id: of the node, from 1.
/// Threads: any; blocks until the node has ended, some milliseconds.
/// Returns 0; -1 if there is no such node.
/// See also ic_embedded_restart_node.
///
/// # Safety
/// cluster is a handle of embedded nodes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_embedded_kill_node(cluster: *mut EmbeddedHandle, node_id: u32) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let nodes = &unsafe { self::cluster(cluster.cast_const()) }?.nodes;
        nodes.kill(node(node_id)?).map_err(|error| error.code)
    })
}

/// Starts a node that was killed: it copies its rows from the others and joins them. If none is left, all
/// begin anew, without tables. Nothing happens if it runs.
/// node_id: of the node, from 1.
/// Threads: any; does not wait until the node takes work: ic_apid_global_wait_usable does.
/// Returns 0; -1 if there is no such node; -2 if a socket or a thread could not be had.
/// See also ic_embedded_kill_node, ic_apid_global_wait_usable.
///
/// # Safety
/// cluster is a handle of embedded nodes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_embedded_restart_node(cluster: *mut EmbeddedHandle, node_id: u32) -> i32 {
    guard(|| {
        // SAFETY: the caller's duty.
        let nodes = &unsafe { self::cluster(cluster.cast_const()) }?.nodes;
        nodes.restart(node(node_id)?).map_err(|error| error.code)
    })
}

/// Drops a node's link to a client, or its links to all: all nodes then expel whom it concerns, as real ones
/// do.
/// node_id: of the node, from 1.
/// client_id: a client's node id; 0: all clients.
/// fault: receives a number for ic_embedded_fault_consumed; NULL if nobody wants to know.
/// Threads: any; blocks never, the node does it soon.
/// Returns 0; -1 if there is no such node.
/// See also ic_embedded_fault_consumed, ic_apid_global_node_id.
///
/// # Safety
/// cluster is a handle of embedded nodes; fault is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_embedded_drop_link(
    cluster: *mut EmbeddedHandle,
    node_id: u32,
    client_id: u32,
    fault: *mut u32,
) -> i32 {
    guard(|| {
        let client = if client_id == 0 { None } else { Some(node(client_id)?) };
        let drop_link =
            |nodes: &EmbeddedCluster| nodes.drop_link(node(node_id)?, client).map_err(|error| error.code);
        // SAFETY: the caller's duty.
        unsafe { ask(cluster, fault, drop_link) }
    })
}

/// Has a node send garbage to its clients, then close their links.
/// node_id: of the node, from 1.
/// fault: receives a number for ic_embedded_fault_consumed; NULL if nobody wants to know.
/// Threads: any; blocks never, the node does it soon.
/// Returns 0; -1 if there is no such node.
/// See also ic_embedded_fault_consumed.
///
/// # Safety
/// cluster is a handle of embedded nodes; fault is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_embedded_send_garbage(
    cluster: *mut EmbeddedHandle,
    node_id: u32,
    fault: *mut u32,
) -> i32 {
    let garbage = |nodes: &EmbeddedCluster| nodes.send_garbage(node(node_id)?).map_err(|error| error.code);
    // SAFETY: the caller's duty.
    guard(|| unsafe { ask(cluster, fault, garbage) })
}

/// Has a node send nothing for some time.
/// node_id: of the node, from 1.
/// ms: milliseconds from now.
/// fault: receives a number for ic_embedded_fault_consumed, which is true once a reply has waited; NULL if
///   nobody wants to know.
/// Threads: any; blocks never.
/// Returns 0; -1 if there is no such node.
/// See also ic_embedded_fault_consumed, ic_embedded_delay.
///
/// # Safety
/// cluster is a handle of embedded nodes; fault is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_embedded_stall(
    cluster: *mut EmbeddedHandle,
    node_id: u32,
    ms: u32,
    fault: *mut u32,
) -> i32 {
    let time = Duration::from_millis(ms as u64);
    let stall = |nodes: &EmbeddedCluster| nodes.stall(node(node_id)?, time).map_err(|error| error.code);
    // SAFETY: the caller's duty.
    guard(|| unsafe { ask(cluster, fault, stall) })
}

/// Has a node hold back each of its replies for some time, until it is told otherwise.
/// node_id: of the node, from 1.
/// ms: milliseconds that each reply is held back; 0 ends it.
/// fault: receives a number for ic_embedded_fault_consumed, which is true once a reply was held back; NULL if
///   nobody wants to know.
/// Threads: any; blocks never.
/// Returns 0; -1 if there is no such node.
/// See also ic_embedded_fault_consumed, ic_embedded_stall.
///
/// # Safety
/// cluster is a handle of embedded nodes; fault is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_embedded_delay(
    cluster: *mut EmbeddedHandle,
    node_id: u32,
    ms: u32,
    fault: *mut u32,
) -> i32 {
    let time = Duration::from_millis(ms as u64);
    let delay = |nodes: &EmbeddedCluster| nodes.delay(node(node_id)?, time).map_err(|error| error.code);
    // SAFETY: the caller's duty.
    guard(|| unsafe { ask(cluster, fault, delay) })
}

/// Has one operation fail. Replaces what was asked of the node before and has not happened yet.
/// node_id: of the node that coordinates the operation, from 1.
/// nth: which one, counted from now; 1 is the next.
/// code: with which error of data nodes, above 0.
/// fault: receives a number for ic_embedded_fault_consumed; NULL if nobody wants to know.
/// Threads: any; blocks never.
/// Returns 0; -1 if there is no such node, or for an nth or code below 1.
/// See also ic_embedded_fault_consumed.
///
/// # Safety
/// cluster is a handle of embedded nodes; fault is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_embedded_fail_operation(
    cluster: *mut EmbeddedHandle,
    node_id: u32,
    nth: u32,
    code: i32,
    fault: *mut u32,
) -> i32 {
    let fail = |nodes: &EmbeddedCluster| match nth == 0 || code <= 0 {
        true => Err(own::INVALID_ARGUMENT),
        false => nodes.fail_operation(node(node_id)?, nth, code).map_err(|error| error.code),
    };
    // SAFETY: the caller's duty.
    guard(|| unsafe { ask(cluster, fault, fail) })
}

/// Has the management server refuse the next requests for a node id.
/// count: how many; 0 ends it.
/// fault: receives a number for ic_embedded_fault_consumed, which is true once one was refused; NULL if
///   nobody wants to know.
/// Threads: any; blocks never.
/// Returns 0.
/// See also ic_embedded_fault_consumed.
///
/// # Safety
/// cluster is a handle of embedded nodes; fault is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_embedded_refuse_node_ids(
    cluster: *mut EmbeddedHandle,
    count: u32,
    fault: *mut u32,
) -> i32 {
    // SAFETY: the caller's duty.
    guard(|| unsafe { ask(cluster, fault, |nodes| Ok(nodes.refuse_node_ids(count))) })
}

/// Whether a fault that was asked for has happened. A test that does not ask may have tested nothing.
/// fault: its number.
/// Threads: any; blocks never.
/// Returns true if so; false also for a number that no fault has, for something else than a handle of
///   embedded nodes, and in a forked child.
///
/// # Safety
/// cluster is a handle of embedded nodes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ic_embedded_fault_consumed(cluster: *const EmbeddedHandle, fault: u32) -> bool {
    // SAFETY: the caller's duty.
    let consumed = || unsafe { self::cluster(cluster) }.is_ok_and(|handle| handle.consumed(fault));
    guard_with(|_| false, consumed)
}

/// tests/c/layout.c asserts the same of the header.
#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::offset_of;

    assert!(size_of::<EmbeddedArgs>() == 32);
    assert!(offset_of!(EmbeddedArgs, size) == 0);
    assert!(offset_of!(EmbeddedArgs, nodes) == 8);
    assert!(offset_of!(EmbeddedArgs, replicas) == 12);
    assert!(offset_of!(EmbeddedArgs, seed) == 16);
    assert!(offset_of!(EmbeddedArgs, port) == 24);
    assert!(offset_of!(EmbeddedArgs, lock_timeout_ms) == 28);
};
