//! Who has the receive role: the receive thread, or, lent, the one thread that polls.
//!
//! Waking a polling thread through another thread is a good part of an operation's cost. When one thread
//! alone polls, the role is lent to its port: a poll that would sleep reads the sockets and routes by itself,
//! and gives the receiver back before it returns. Only one receive thread's role can be lent, so none is when
//! there are several.
//!
//! The word `Role::state` is one of
//!
//! - *dedicated*: the receive thread holds the receiver and reads;
//! - *wanted by P*: as dedicated, and the port P, whose owner has polled alone for a while, asks for the role.
//!   The receive thread is woken, lets go of the receiver, and makes the word *lent to P*;
//! - *lent to P*: the receiver is free for the owner of P. The receive thread rests and looks every few
//!   milliseconds whether P's owner still reads; if not, it takes the receiver and makes the word *dedicated*,
//!   for a client must not leave its sockets unread.
//!
//! Any other port that waits makes the word *dedicated* and ends the receive thread's rest. The receiver is
//! behind a mutex, so a socket has one reader at a time, and its order is kept over a hand-over. Whoever sees
//! the word *lent* to itself and finds the receiver taken waits at its inbox, for then the receive thread has
//! it. The owner of P may have gone to sleep there when the word becomes *lent to P*: it is woken, for nobody
//! else reads.
//!
//! The word also counts the descriptors that event loops watch. While there is one, it stays *dedicated*: a
//! thread that sleeps in an event loop does not read, and whose turn it is would change at each poll.

use std::sync::TryLockError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::receive::Receiver;
use crate::sync::{AtomicU32, Condvar, Mutex, MutexGuard, TryMutex, TryMutexGuard};

const DEDICATED: u32 = 0;
const WANTED: u32 = 1 << 16;
const LENT: u32 = 2 << 16;
const MODE: u32 = 3 << 16;
/// One descriptor that is watched. There are at most as many as ports.
const WATCHED: u32 = 1 << 18;
const PORT: u32 = 0xffff;

/// Waits that one port must have had alone before it asks for the role.
#[cfg(not(loom))]
const ALONE: u32 = 32;
#[cfg(loom)]
const ALONE: u32 = 0;
/// How long the receive thread rests before it looks whether the borrower still reads.
#[cfg(not(loom))]
const REST: Duration = Duration::from_millis(4);

/// What can be done by whoever has the role.
pub trait Reads {
    /// What ends the wait of a round.
    type Waker: Wake;

    /// Waits until something can be read, reads it and routes it. False at the end.
    fn round(&mut self) -> bool;

    /// As `round`, by a borrower: waits at most `wait`, and calls `awake` between the wait and the rest.
    fn borrowed_round(&mut self, wait: Duration, awake: impl FnOnce()) -> bool;

    /// What wakes the owner of a port.
    fn poker(&self) -> Box<dyn Fn(u16)>;
}

/// Wakes whoever has the role from its wait.
pub trait Wake {
    /// Ends the wait that is, or the next one.
    fn wake(&self);
}

/// The receive role of the links of one receive thread.
pub struct Role<R: Reads = Receiver> {
    receiver: TryMutex<R>,
    /// Wakes whoever has the role.
    pub waker: std::sync::Arc<R::Waker>,
    /// One of the modes above, a port's block number in the low half, and how many descriptors are watched.
    state: AtomicU32,
    /// Times the receiver was borrowed.
    borrowed: AtomicU32,
    /// Which port waited last (high half), and how often in a row (low half).
    waiters: AtomicU32,
    rest: Mutex<()>,
    rest_over: Condvar,
    lends: bool,
    #[cfg(loom)]
    rests_end: bool,
}

impl<R: Reads> Role<R> {
    /// A dedicated role; it never changes unless it `lends`.
    pub fn new(receiver: R, waker: std::sync::Arc<R::Waker>, lends: bool) -> std::sync::Arc<Self> {
        std::sync::Arc::new(Role {
            receiver: TryMutex::new(receiver),
            waker,
            state: AtomicU32::new(DEDICATED),
            borrowed: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
            rest: Mutex::new(()),
            rest_over: Condvar::new(),
            lends,
            #[cfg(loom)]
            rests_end: true,
        })
    }

    /// The body of the receive thread. Ends when the receiver does.
    pub fn run(&self) {
        loop {
            let mut receiver = self.receiver.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let borrower = loop {
                if !receiver.round() {
                    return;
                }
                let state = self.state.load(Ordering::Acquire);
                if state & MODE == WANTED && self.change(state, LENT | state & PORT) {
                    break state & PORT;
                }
            };
            let poke = receiver.poker();
            // First the receiver is free: a borrower that finds it taken goes to sleep, to be woken by this
            // poke.
            drop(receiver);
            poke(borrower as u16);
            self.rest_while_lent();
        }
    }

    fn rest_while_lent(&self) {
        let mut seen = self.borrowed.load(Ordering::Relaxed);
        let mut rest = self.rest.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        loop {
            let state = self.state.load(Ordering::Acquire);
            if state & MODE != LENT {
                return;
            }
            rest = self.rest_a_moment(rest);
            let now = self.borrowed.load(Ordering::Relaxed);
            // The receiver being taken means that the borrower is reading, however long.
            let free = !matches!(self.receiver.try_lock(), Err(TryLockError::WouldBlock));
            if now == seen && free && self.change(state, DEDICATED) {
                // The borrower has paused: it must wait alone for a while again.
                self.waiters.store(0, Ordering::Relaxed);
            }
            seen = now;
        }
    }

    #[cfg(not(loom))]
    fn rest_a_moment<'a>(&'a self, rest: MutexGuard<'a, ()>) -> MutexGuard<'a, ()> {
        self.rest_over.wait_timeout(rest, REST).unwrap_or_else(|p| p.into_inner()).0
    }

    /// A model has no clock: any moment may be the end of a rest, or none, to see that its end is not relied
    /// on.
    #[cfg(loom)]
    fn rest_a_moment<'a>(&'a self, rest: MutexGuard<'a, ()>) -> MutexGuard<'a, ()> {
        if !self.rests_end {
            return self.rest_over.wait(rest).unwrap();
        }
        drop(rest);
        loom::thread::yield_now();
        self.rest.lock().unwrap()
    }

    /// The receiver, if the role is lent to the port `block`. Otherwise the owner waits at its inbox, and
    /// this call counts as its wait: it may get the role for it later, or end the loan to another.
    #[inline]
    pub fn borrow(&self, block: u16) -> Option<TryMutexGuard<'_, R>> {
        if !self.lends {
            return None;
        }
        let state = self.state.load(Ordering::Acquire);
        if state != LENT | block as u32 {
            self.wait_without(state, block);
            return None;
        }
        let receiver = match self.receiver.try_lock() {
            Ok(receiver) => receiver,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        // Looked at again, now that nobody else can have it: the loan may just have ended.
        if self.state.load(Ordering::Acquire) != state {
            return None;
        }
        self.borrowed.fetch_add(1, Ordering::Relaxed);
        Some(receiver)
    }

    #[cold]
    fn wait_without(&self, state: u32, block: u16) {
        let me = (block as u32) << 16;
        let waiters = self.waiters.load(Ordering::Relaxed);
        let alone = if waiters & 0xffff_0000 == me { (waiters & 0xffff).min(ALONE) + 1 } else { 1 };
        self.waiters.store(me | alone, Ordering::Relaxed);
        match state & MODE {
            // As long as it counts no descriptor.
            DEDICATED if alone > ALONE && state == DEDICATED && self.change(state, WANTED | block as u32) => {
                self.waker.wake();
            }
            WANTED if state & PORT != block as u32 => {
                self.change(state, DEDICATED);
            }
            LENT => self.recall(),
            _ => {}
        }
    }

    /// Ends a loan: the receive thread reads from now on.
    pub fn recall(&self) {
        let state = self.state.load(Ordering::Acquire);
        if state & MODE == LENT && self.change(state, DEDICATED) {
            self.end_rest();
        }
    }

    fn end_rest(&self) {
        drop(self.rest.lock());
        self.rest_over.notify_one();
    }

    /// An event loop watches a descriptor: ends a loan, and there is none until [`Role::unwatch`].
    pub fn watch(&self) {
        let mut state = self.state.load(Ordering::Acquire);
        // Only a word without a port counts descriptors.
        let watched = |state: u32| WATCHED + if state & MODE == DEDICATED { state } else { DEDICATED };
        while !self.change(state, watched(state)) {
            state = self.state.load(Ordering::Acquire);
        }
        if state & MODE == LENT {
            self.end_rest();
        }
    }

    /// A descriptor is watched no more.
    pub fn unwatch(&self) {
        self.state.fetch_sub(WATCHED, Ordering::AcqRel);
    }

    fn change(&self, from: u32, to: u32) -> bool {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Nothing;

    impl Wake for Nothing {
        fn wake(&self) {}
    }

    impl Reads for Nothing {
        type Waker = Nothing;

        fn round(&mut self) -> bool {
            false
        }

        fn borrowed_round(&mut self, _: Duration, awake: impl FnOnce()) -> bool {
            awake();
            true
        }

        fn poker(&self) -> Box<dyn Fn(u16)> {
            Box::new(|_| ())
        }
    }

    fn wanted_by(role: &Role<Nothing>) -> Option<u32> {
        let state = role.state.load(Ordering::Relaxed);
        (state & MODE == WANTED).then_some(state & PORT)
    }

    #[test]
    fn only_a_port_that_waits_alone_asks() {
        let role = Role::new(Nothing, std::sync::Arc::new(Nothing), true);
        for _ in 0..ALONE {
            assert!(role.borrow(7).is_none());
        }
        role.borrow(8);
        for _ in 0..ALONE {
            role.borrow(7);
            assert_eq!(wanted_by(&role), None, "8 has waited too");
        }
        role.borrow(7);
        assert_eq!(wanted_by(&role), Some(7));
        role.borrow(8);
        assert_eq!(wanted_by(&role), None);
    }

    #[test]
    fn nothing_is_lent_while_a_descriptor_is_watched() {
        let role = Role::new(Nothing, std::sync::Arc::new(Nothing), true);
        let wait_long = || (0..2 * ALONE).for_each(|_| drop(role.borrow(7)));
        let lend = || role.state.store(LENT | 7, Ordering::Relaxed);
        lend();
        assert!(role.borrow(7).is_some());
        role.watch();
        assert!(role.borrow(7).is_none());
        role.watch();
        wait_long();
        assert_eq!(role.state.load(Ordering::Relaxed), DEDICATED + 2 * WATCHED);
        role.unwatch();
        wait_long();
        assert_eq!(wanted_by(&role), None);
        role.unwatch();
        wait_long();
        assert_eq!(wanted_by(&role), Some(7));
        role.watch();
        assert_eq!(role.state.load(Ordering::Relaxed), DEDICATED + WATCHED);
    }

    #[test]
    fn a_role_that_is_not_to_be_lent_is_not() {
        let role = Role::new(Nothing, std::sync::Arc::new(Nothing), false);
        (0..2 * ALONE).for_each(|_| drop(role.borrow(7)));
        assert_eq!(wanted_by(&role), None);
    }
}

/// The code above with sockets that are a list of numbers: a page of the generation 5 stands for the number
/// 5.
#[cfg(all(test, loom))]
mod loom_tests {
    use std::sync::{Arc, Weak};
    use std::time::Instant;

    use loom::thread;

    use super::super::inbox::{Enough, Inbox, News};
    use super::super::port;
    use super::*;
    use crate::link::page::{Content, Page};

    const BLOCK: u16 = 0x8001;

    #[derive(Default)]
    struct Network {
        unread: Vec<u32>,
        woken: bool,
        stop: bool,
    }

    #[derive(Default)]
    struct Sockets {
        network: Mutex<Network>,
        ready: Condvar,
    }

    impl Sockets {
        fn change(&self, change: impl FnOnce(&mut Network)) {
            change(&mut self.network.lock().unwrap());
            self.ready.notify_one();
        }

        fn bring(&self, number: u32) {
            self.change(|network| network.unread.push(number));
        }

        fn stop(&self) {
            self.change(|network| (network.stop, network.woken) = (true, true));
        }
    }

    impl Wake for Sockets {
        fn wake(&self) {
            self.change(|network| network.woken = true);
        }
    }

    struct Model {
        sockets: Arc<Sockets>,
        inbox: Weak<Inbox<Model>>,
        stopped: bool,
    }

    impl Model {
        fn wait(&mut self) -> bool {
            let mut network = self.sockets.network.lock().unwrap();
            while !self.stopped && network.unread.is_empty() && !network.woken {
                network = self.sockets.ready.wait(network).unwrap();
            }
            !self.stopped
        }

        fn read(&mut self) -> bool {
            let mut network = self.sockets.network.lock().unwrap();
            self.stopped |= std::mem::take(&mut network.woken) && network.stop;
            let page = |generation| Page { node: 1, generation, content: Content::LinkLost };
            let mut pages: Vec<_> = network.unread.drain(..).map(page).collect();
            drop(network);
            if !pages.is_empty() {
                let news = News { other: true, ..News::default() };
                self.inbox.upgrade().unwrap().post(&mut pages, &mut Vec::new(), news);
            }
            !self.stopped
        }
    }

    impl Reads for Model {
        type Waker = Sockets;

        fn round(&mut self) -> bool {
            self.wait() && self.read()
        }

        fn borrowed_round(&mut self, _: Duration, awake: impl FnOnce()) -> bool {
            let waited = self.wait();
            awake();
            waited && self.read()
        }

        fn poker(&self) -> Box<dyn Fn(u16)> {
            let inbox = self.inbox.upgrade().unwrap();
            Box::new(move |_| inbox.poke())
        }
    }

    struct Setup {
        sockets: Arc<Sockets>,
        inbox: Arc<Inbox<Model>>,
        role: Arc<Role<Model>>,
        thread: thread::JoinHandle<()>,
    }

    impl Setup {
        /// A receive thread, whose role has a state to begin with.
        fn new(state: u32, rests_end: bool) -> Setup {
            let (sockets, inbox) = (Arc::new(Sockets::default()), Arc::new(Inbox::default()));
            let model = Model { sockets: sockets.clone(), inbox: Arc::downgrade(&inbox), stopped: false };
            let mut role = Role::new(model, sockets.clone(), true);
            Arc::get_mut(&mut role).unwrap().rests_end = rests_end;
            role.state.store(state, Ordering::Relaxed);
            assert!(inbox.role.set(role.clone()).is_ok());
            let thread = thread::spawn({
                let role = role.clone();
                move || role.run()
            });
            Setup { sockets, inbox, role, thread }
        }

        /// Brings numbers from another thread, one by one.
        fn bring(&self, numbers: &'static [u32]) -> thread::JoinHandle<()> {
            let sockets = self.sockets.clone();
            thread::spawn(move || numbers.iter().for_each(|&number| sockets.bring(number)))
        }

        /// As the port's owner, polls once.
        fn take(&self) -> Vec<u32> {
            let (mut pages, until) = (Vec::new(), Instant::now() + Duration::from_secs(3600));
            port::take(&self.inbox, BLOCK, Some(until), Enough::default(), &mut pages, &mut Vec::new());
            pages.into_iter().map(|page| page.generation).collect()
        }

        /// As the port's owner, polls until so many numbers have come.
        fn take_all(&self, count: usize) -> Vec<u32> {
            let mut taken = Vec::new();
            while taken.len() < count {
                taken.extend(self.take());
            }
            taken
        }

        /// Ends the receive thread, which has the role then, or takes it.
        fn end(self) {
            self.role.watch();
            self.sockets.stop();
            self.thread.join().unwrap();
        }
    }

    /// Checks a model with few switches in the middle of things, which find nearly all there is to find.
    fn check(model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(model);
    }

    /// A port that waits gets all numbers in their order, whoever reads them, and the loan wakes it where it
    /// sleeps: the receive thread's rest has no end here.
    #[test]
    fn loom_role_is_handed_over_in_order_and_the_borrower_woken() {
        check(|| {
            let setup = Setup::new(DEDICATED, false);
            let network = setup.bring(&[1, 2]);
            assert_eq!(setup.take_all(2), [1, 2]);
            network.join().unwrap();
            setup.end();
        });
    }

    /// The same with a rest that can be over at any moment: the receive thread takes the role back while the
    /// borrower uses it, or is about to.
    #[test]
    fn loom_role_is_taken_back_in_order() {
        check(|| {
            let setup = Setup::new(WANTED | BLOCK as u32, true);
            let network = setup.bring(&[1, 2]);
            assert_eq!(setup.take_all(2), [1, 2]);
            network.join().unwrap();
            setup.end();
        });
    }

    /// A borrower that stays away: what comes is read all the same.
    #[test]
    fn loom_role_leaves_no_socket_unread() {
        check(|| {
            let setup = Setup::new(WANTED | BLOCK as u32, true);
            setup.sockets.wake();
            let network = setup.bring(&[1]);
            let mut pages = Vec::new();
            while pages.is_empty() {
                // It sleeps at its inbox and never borrows. The loan pokes it.
                setup.inbox.wait(None, Enough::default(), &mut pages, &mut Vec::new());
            }
            network.join().unwrap();
            setup.end();
        });
    }

    /// The order to end reaches whoever has the role, and then the receive thread.
    #[test]
    fn loom_role_ends_wherever_it_is() {
        check(|| {
            let setup = Setup::new(WANTED | BLOCK as u32, false);
            let stopper = thread::spawn({
                let (sockets, inbox) = (setup.sockets.clone(), setup.inbox.clone());
                move || {
                    sockets.stop();
                    // As leaving a cluster does.
                    inbox.poke();
                }
            });
            setup.take();
            stopper.join().unwrap();
            setup.role.watch();
            setup.thread.join().unwrap();
        });
    }

    /// Once a descriptor is watched the role is lent to nobody, whatever was under way.
    #[test]
    fn loom_role_is_not_lent_while_watched() {
        check(|| {
            let setup = Setup::new(DEDICATED, false);
            setup.sockets.bring(1);
            let watcher = thread::spawn({
                let (role, sockets) = (setup.role.clone(), setup.sockets.clone());
                move || {
                    role.watch();
                    sockets.bring(2);
                }
            });
            assert_eq!(setup.take_all(2), [1, 2]);
            watcher.join().unwrap();
            assert_eq!(setup.role.state.load(Ordering::Relaxed), DEDICATED + WATCHED);
            assert!(setup.role.borrow(BLOCK).is_none());
            setup.end();
        });
    }
}
