//! Adaptive send: whether a send waits a moment for company on its link.
//!
//! Sends on a link are seen as *groups*: a group begins with a send, and the send of a connection that is not
//! in it yet joins it, if it comes within the hold limit of the group's beginning. A group ends when it is
//! written. For each size k of a group the link keeps p(k), how often a group of that size was joined by one
//! more, as a moving average over the past:
//!
//! ```text
//! after each send:   p(k) += (joined - p(k)) / 8       joined is 1 or 0, k the size before this send
//! a send is held if: p(k) >= 1/2 and k < 8              k the size with this send
//! ```
//!
//! A connection whose own words are held is not held again: its next send writes them along. All p start at
//! 0, so a thread that sends alone is never held: its own next send does not join. The outcome of a group
//! that was written is scored too, by what came next, so a link learns of company without holding anything.
//! From either end an average crosses 1/2 within [`LEARNING`] sends.

/// Connections in a group at most.
const MAX_GROUP: usize = 8;
/// One in the fixed-point averages.
const ONE: u32 = 1 << 16;
/// Sends after which a new load is learnt: the least n with (7/8)^n < 1/2.
pub const LEARNING: usize = 6;

/// What a link has learnt. Times are nanoseconds of one clock.
#[derive(Debug, Default)]
pub struct Adaptive {
    /// The connections in the present group.
    group: [u16; MAX_GROUP],
    size: usize,
    /// When the group began.
    began: u64,
    /// The group was written; the next send begins another.
    written: bool,
    /// p(k) for k from 1.
    joined: [u32; MAX_GROUP],
}

impl Adaptive {
    /// Takes note of a send of the connection `from` at `now`. True if it should be held; then until `limit`
    /// after the group's beginning at most, see [`Adaptive::deadline`].
    pub fn hold(&mut self, from: u16, now: u64, limit: u64) -> bool {
        let joins = self.size > 0
            && now.saturating_sub(self.began) <= limit
            && !self.group[..self.size].contains(&from);
        if self.size > 0 {
            let average = &mut self.joined[self.size - 1];
            *average = *average - *average / 8 + if joins { ONE / 8 } else { 0 };
        }
        if !joins && !self.written && self.size > 0 {
            // Its own words are held already, or the group's time is over: all goes now.
            self.written = true;
            return false;
        }
        if !joins || self.written {
            self.size = 0;
            self.began = now;
            self.written = false;
        }
        self.group[self.size] = from;
        self.size += 1;
        let hold = self.size < MAX_GROUP && self.joined[self.size - 1] >= ONE / 2 && limit > 0;
        self.written = !hold;
        hold
    }

    /// When a held send must be written, nanoseconds.
    pub fn deadline(&self, limit: u64) -> u64 {
        self.began + limit
    }

    /// The group was written without a send: by the send pool, or by a writer that took it along.
    pub fn written(&mut self) {
        self.written = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 200_000;

    #[test]
    fn a_lone_sender_is_never_held() {
        let mut link = Adaptive::default();
        assert!((0..1000).all(|i| !link.hold(1, i * 10_000, LIMIT)));
    }

    /// Sends in turn, `gap` apart; how many of the last hundred went alone, and in how many writes.
    fn in_turn(link: &mut Adaptive, senders: u16, gap: u64, start: u64) -> (usize, usize) {
        let (mut together, mut alone, mut writes) = (0, 0, 0);
        for i in 0..200 {
            let now = start + i * gap;
            if together > 0 && now > link.deadline(LIMIT) {
                // The send pool was first.
                link.written();
                (alone, writes) =
                    (alone + (i >= 100 && together == 1) as usize, writes + (i >= 100) as usize);
                together = 0;
            }
            together += 1;
            if !link.hold((i % senders as u64) as u16, now, LIMIT) {
                (alone, writes) =
                    (alone + (i >= 100 && together == 1) as usize, writes + (i >= 100) as usize);
                together = 0;
            }
        }
        (alone, writes)
    }

    #[test]
    fn two_in_turn_share_their_writes() {
        let (alone, writes) = in_turn(&mut Adaptive::default(), 2, 20_000, 0);
        assert_eq!((alone, writes), (0, 50), "every write carries two");
    }

    #[test]
    fn more_share_more() {
        let (alone, writes) = in_turn(&mut Adaptive::default(), 5, 20_000, 0);
        assert_eq!((alone, writes), (0, 20), "every write carries five");
    }

    #[test]
    fn company_that_comes_too_late_is_not_waited_for() {
        let (alone, writes) = in_turn(&mut Adaptive::default(), 2, LIMIT + 1, 0);
        assert_eq!((alone, writes), (100, 100));
    }

    #[test]
    fn a_change_is_learnt_in_time() {
        let mut link = Adaptive::default();
        in_turn(&mut link, 2, 20_000, 0);
        let mut now = 100_000_000;
        let held = (0..100)
            .filter(|_| {
                now += LIMIT * 2;
                link.hold(1, now, LIMIT)
            })
            .count();
        assert!(held <= LEARNING, "{held} holds after the others had left");
        let learnt = (0..100).position(|i| link.hold(1 + i % 2, now + i as u64 * 10_000, LIMIT));
        assert!(learnt.is_some_and(|sends| sends <= LEARNING + 1), "{learnt:?}");
    }

    #[test]
    fn a_second_send_does_not_move_the_deadline() {
        let mut link = Adaptive::default();
        in_turn(&mut link, 2, 20_000, 0);
        let now = 100_000_000;
        assert!(link.hold(1, now, LIMIT));
        assert!(!link.hold(1, now + 150_000, LIMIT), "the first words are held no longer");
        assert_eq!(link.deadline(LIMIT), now + LIMIT);
    }

    #[test]
    fn without_a_limit_nothing_is_held() {
        let mut link = Adaptive::default();
        assert!((0..1000).all(|i| !link.hold(i as u16 % 2, i, 0)));
    }

    #[test]
    fn a_deadline_is_within_the_limit_of_the_first_send() {
        let mut link = Adaptive::default();
        in_turn(&mut link, 3, 10_000, 0);
        link.written();
        let now = 10_000_000;
        assert!(link.hold(0, now, LIMIT) && link.hold(1, now + 5, LIMIT));
        assert_eq!(link.deadline(LIMIT), now + LIMIT);
    }
}
