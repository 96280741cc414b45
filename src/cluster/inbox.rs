//! Where receive threads leave pages for the thread that owns a port. The [`Wakeup`] is what wakes it.
//!
//! An owner that wants several completions does not want to be woken for each page. A receive thread cannot
//! decode, but it knows each signal's number; so the owner says for how many *replies* it is worth waking
//! ([`Enough`]): confirmations of transactions, and rows if it says so. Everything else always wakes: other
//! signals, lost links, news of failures, pokes. The owner takes care that no more replies are asked for than
//! must come for all that is in flight to complete (see `Connection::enough`), so it never sleeps when all
//! has come.

use std::io;
use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::time::Instant;

use super::alarm::Due;
use super::receive::Receiver;
use super::role::{Reads, Role, Wake};
use super::wakeup::{Content, Wakeup};
use crate::link::page::Page;
use crate::wire::gsn;

/// The inbox of one port.
pub struct Inbox<R: Reads = Receiver> {
    wakeup: Wakeup<State>,
    /// The receive role that the owner may borrow.
    pub role: OnceLock<std::sync::Arc<Role<R>>>,
    /// When the owner is to be woken if it is in no poll.
    pub due: Due,
}

impl<R: Reads> Default for Inbox<R> {
    fn default() -> Self {
        Inbox { wakeup: Wakeup::default(), role: OnceLock::new(), due: Due::default() }
    }
}

#[derive(Debug, Default)]
struct State {
    pages: Vec<Page>,
    /// Buffers of pages that were read, on their way back to the receive threads.
    spent: Vec<Vec<u32>>,
    poked: bool,
    #[cfg(test)]
    posts: u64,
    /// What the pages bring.
    news: News,
    /// What the owner sleeps for.
    enough: Enough,
}

/// What pages bring, as far as it shows without decoding.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct News {
    /// Confirmations of transactions' operations.
    pub confirmations: u32,
    /// Rows, or parts of large ones.
    pub rows: u32,
    /// Something else: it always wakes.
    pub other: bool,
}

impl News {
    /// Counts a signal by its number.
    #[inline]
    pub fn count(&mut self, number: u16) {
        match number {
            gsn::TCKEYCONF => self.confirmations += 1,
            gsn::TRANSID_AI => self.rows += 1,
            _ => self.other = true,
        }
    }

    pub(super) fn add(&mut self, more: News) {
        self.confirmations += more.confirmations;
        self.rows += more.rows;
        self.other |= more.other;
    }
}

/// For what an owner is to be woken.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Enough {
    /// So many replies; anything at all if 0 or 1.
    pub replies: u32,
    /// Rows are replies too, not only confirmations.
    pub rows: bool,
}

impl Content for State {
    fn is_enough(&self) -> bool {
        let News { confirmations, rows, other } = self.news;
        let Enough { replies, rows: with_rows } = self.enough;
        let counted = confirmations.saturating_add(if with_rows || replies <= 1 { rows } else { 0 });
        other || self.poked || counted >= replies.max(1)
    }
}

impl State {
    /// Takes all pages, and gives buffers back. True if pages came or the inbox was poked. `pages` must be
    /// empty.
    fn take(&mut self, pages: &mut Vec<Page>, spent: &mut Vec<Vec<u32>>) -> bool {
        std::mem::swap(&mut self.pages, pages);
        self.spent.append(spent);
        self.news = News::default();
        std::mem::take(&mut self.poked) | !pages.is_empty()
    }
}

impl<R: Reads> Inbox<R> {
    /// Leaves `pages` (and empties them), takes spent buffers along, and wakes the owner if it sleeps and
    /// `news` is what it waits for.
    pub fn post(&self, pages: &mut Vec<Page>, spent: &mut Vec<Vec<u32>>, news: News) {
        self.leave(|state| {
            state.pages.append(pages);
            spent.append(&mut state.spent);
            state.news.add(news);
            #[cfg(test)]
            {
                state.posts += 1;
            }
        });
    }

    /// Wakes the owner without a page: something else that it looks at has changed.
    pub fn poke(&self) {
        self.leave(|state| state.poked = true);
    }

    fn leave(&self, change: impl FnOnce(&mut State)) {
        if self.wakeup.leave(change)
            && let Some(role) = self.role.get()
        {
            role.waker.wake();
        }
    }

    /// The owner is about to read its sockets; false if something is there already.
    pub fn start_reading(&self) -> bool {
        self.wakeup.start_reading()
    }

    /// The owner has something to route.
    pub fn stop_reading(&self) {
        self.wakeup.stop_reading();
    }

    /// Takes all pages, and gives buffers back. True if pages came or the inbox was poked. `pages` must be
    /// empty.
    #[inline]
    pub fn take(&self, pages: &mut Vec<Page>, spent: &mut Vec<Vec<u32>>) -> bool {
        self.wakeup.take(|state| state.take(pages, spent)).unwrap_or(false)
    }

    /// As [`Inbox::take`], but sleeps until there is `enough` or `until` has come; `None` has no end.
    pub fn wait(
        &self,
        until: Option<Instant>,
        enough: Enough,
        pages: &mut Vec<Page>,
        spent: &mut Vec<Vec<u32>>,
    ) -> bool {
        let begin = |state: &mut State| state.enough = enough;
        self.wakeup.wait(until, begin, |state| state.take(pages, spent)).unwrap_or(false)
    }

    /// A descriptor that is readable while there is something to take; made at the first call. From then on
    /// the receive role is lent to nobody.
    pub fn descriptor(&self) -> io::Result<RawFd> {
        let (number, new) = self.wakeup.descriptor()?;
        if new && let Some(role) = self.role.get() {
            role.watch();
        }
        Ok(number)
    }

    /// Closes the descriptor, if there is one.
    pub fn close_descriptor(&self) {
        if self.wakeup.close_descriptor()
            && let Some(role) = self.role.get()
        {
            role.unwatch();
        }
    }

    /// How often the owner was woken.
    pub fn wakeups(&self) -> u64 {
        self.wakeup.wakeups()
    }
}

#[cfg(test)]
impl<R: Reads> Inbox<R> {
    /// What the pages that are not taken bring.
    pub fn news(&self) -> News {
        self.wakeup.look(|state| state.news)
    }

    /// How often pages were posted.
    pub fn posts(&self) -> u64 {
        self.wakeup.look(|state| state.posts)
    }
}

impl<R: Reads> std::fmt::Debug for Inbox<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Inbox")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn is_enough(news: News, poked: bool, enough: Enough) -> bool {
        State { news, poked, enough, ..State::default() }.is_enough()
    }

    #[test]
    fn what_is_enough() {
        let nothing = News::default();
        let confirmations = |confirmations| News { confirmations, ..nothing };
        let rows = |rows| News { rows, ..nothing };
        let ten = Enough { replies: 10, rows: false };
        let ten_with_rows = Enough { replies: 10, rows: true };
        for any in [Enough::default(), Enough { replies: 1, rows: false }] {
            assert!(is_enough(confirmations(1), false, any) && is_enough(rows(1), false, any));
        }
        assert!(!is_enough(nothing, false, Enough::default()));
        assert!(!is_enough(nothing, false, Enough { replies: 1, rows: true }));
        assert!(!is_enough(confirmations(9), false, ten) && is_enough(confirmations(10), false, ten));
        assert!(!is_enough(rows(99), false, ten) && is_enough(rows(10), false, ten_with_rows));
        assert!(is_enough(News { confirmations: 5, rows: 5, other: false }, false, ten_with_rows));
        for enough in [ten, ten_with_rows] {
            assert!(is_enough(News { other: true, ..nothing }, false, enough));
            assert!(is_enough(nothing, true, enough), "a poke");
        }
    }

    #[test]
    fn signals_count_by_their_numbers() {
        let mut news = News::default();
        for number in [gsn::TCKEYCONF, gsn::TRANSID_AI, gsn::TRANSID_AI] {
            news.count(number);
        }
        assert_eq!(news, News { confirmations: 1, rows: 2, other: false });
        for number in [gsn::TCKEYREF, gsn::TCROLLBACKREP, gsn::TC_COMMITCONF, gsn::NODE_FAILREP] {
            let mut news = News::default();
            news.count(number);
            assert!(news.other);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::link::page::Content;
    use loom::sync::Arc;
    use loom::thread;

    const LOST: News = News { confirmations: 0, rows: 0, other: true };

    fn page(generation: u32) -> Page {
        Page { node: 1, generation, content: Content::LinkLost }
    }

    /// Whatever the order: every page is taken once, in its order, and the owner does not sleep on one.
    #[test]
    fn loom_nothing_is_missed() {
        loom::model(|| {
            let inbox = Arc::new(Inbox::<Receiver>::default());
            let poster = {
                let inbox = inbox.clone();
                thread::spawn(move || {
                    for generation in 1..=2 {
                        inbox.post(&mut vec![page(generation)], &mut Vec::new(), LOST);
                    }
                })
            };
            let (mut taken, mut spent) = (Vec::new(), Vec::new());
            while taken.len() < 2 {
                let mut pages = Vec::new();
                if !inbox.take(&mut pages, &mut spent) {
                    assert!(inbox.wait(None, Enough::default(), &mut pages, &mut spent));
                }
                taken.extend(pages.into_iter().map(|page| page.generation));
            }
            assert_eq!(taken, [1, 2]);
            poster.join().unwrap();
        });
    }

    /// A poke ends a sleep too, and two posters do not lose each other's pages.
    #[test]
    fn loom_poke_and_two_posters() {
        loom::model(|| {
            let inbox = Arc::new(Inbox::<Receiver>::default());
            let threads: Vec<_> = (0..2)
                .map(|number| {
                    let inbox = inbox.clone();
                    thread::spawn(move || match number {
                        0 => inbox.post(&mut vec![page(7)], &mut Vec::new(), LOST),
                        _ => inbox.poke(),
                    })
                })
                .collect();
            let (mut pages, mut spent) = (Vec::new(), Vec::new());
            let mut rounds = 0;
            while pages.is_empty() {
                assert!(inbox.wait(None, Enough::default(), &mut pages, &mut spent));
                rounds += 1;
            }
            assert!(rounds <= 2);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }

    /// A page that comes before the owner starts to read its sockets keeps it from reading.
    #[test]
    fn loom_reading_does_not_miss_a_page() {
        loom::model(|| {
            let inbox = Arc::new(Inbox::<Receiver>::default());
            let poster = {
                let inbox = inbox.clone();
                thread::spawn(move || inbox.post(&mut vec![page(1)], &mut Vec::new(), LOST))
            };
            let started = inbox.start_reading();
            poster.join().unwrap();
            let (mut pages, mut spent) = (Vec::new(), Vec::new());
            // Had it started, the post would have woken its wait for the sockets: see the wake-up's own
            // models.
            assert_eq!(started, !inbox.start_reading() && started);
            assert!(inbox.take(&mut pages, &mut spent));
        });
    }
}
