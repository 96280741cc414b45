//! What replies do. Each names its transaction by the id of a coordinator record or of a query, and by its
//! transaction id; one that nothing waits for any more is counted and dropped, after the acknowledgement that
//! it asks for.

use std::sync::atomic::Ordering;

use super::query::{Confirmed, State};
use super::slots::{MAX_SLOTS, NONE};
use super::transaction::{NEVER, Phase, Usage};
use super::{Connection, Due};
use crate::error::{Class, class, ndb};
use crate::link::page::{Content, Page, for_each_signal, is_failure_news};
use crate::log::log;
use crate::wire::block::DBTC;
use crate::wire::gsn;
use crate::wire::registration::{NodeFailRep, TakeOverTcConf};
use crate::wire::signal::{Fragment, Signal};
use crate::wire::transaction::{
    self as signals, AttrInfo, CommitConf, CommitRef, Ending, FailConf, FailRef, KeyConf, KeyRef,
    RollbackConf, RollbackRef, RollbackRep, Row, SeizeConf, SeizeRef, TransId,
};

impl<T: Copy> Connection<T> {
    /// Takes what the inbox held.
    pub(super) fn take_pages(&mut self, pages: &mut Vec<Page>) {
        let block = self.port.block();
        self.begin_round(pages);
        for page in pages.drain(..) {
            self.statistics.pages += 1;
            let Some(node) = self.work.iter().position(|work| work.node.id == page.node) else { continue };
            let work = &mut self.work[node];
            if work.generation == 0 && work.node.open_generation() == page.generation {
                // Acknowledgements may be due to a node that nothing was sent to.
                work.generation = page.generation;
            }
            match &page.content {
                Content::LinkLost => self.link_lost(node, page.generation),
                // A node that this connection has sent nothing to may read for another, also over a generation
                // before the one that its first request goes to: its rows count.
                Content::Signals(words) => {
                    let mine = |receiver, number| receiver == block || is_failure_news(receiver, number);
                    let read = for_each_signal(words, mine, |signal| self.signal(node, &signal));
                    if read.is_err() {
                        log!(Error, "node {}: a carrier that cannot be read, closing the link", page.node);
                        self.work[node].node.sender.shut_down(page.generation);
                    }
                }
            }
            self.port.recycle(page);
        }
    }

    #[inline]
    fn signal(&mut self, node: usize, signal: &Signal<'_>) {
        self.statistics.signals += 1;
        if signal.fragment != Fragment::Whole {
            return self.part(node, signal);
        }
        let known = match signal.header.gsn {
            gsn::TCKEYCONF => KeyConf::decode(signal.data).map(|conf| self.key_conf(node, signal, &conf)),
            gsn::TRANSID_AI => signals::row_of(signal).map(|row| self.row(&row)),
            _ => self.rare(node, signal),
        };
        if known.is_none() {
            self.statistics.late_replies += 1;
        }
    }

    /// A part of a large row.
    #[cold]
    fn part(&mut self, node: usize, part: &Signal<'_>) {
        let id = self.work[node].node.id;
        let Some(whole) = self.port.assemble(id, part) else { return };
        if whole.header.gsn == gsn::TRANSID_AI
            && let Some(row) = Row::decode(&whole.data)
            && let [attributes] = &whole.sections[..]
        {
            self.row(&Row { attributes, ..row });
        }
    }

    #[cold]
    fn rare(&mut self, node: usize, signal: &Signal<'_>) -> Option<()> {
        let data = signal.data;
        match signal.header.gsn {
            gsn::TCKEYREF => self.key_ref(signal, &KeyRef::decode(data)?),
            gsn::TCROLLBACKREP => self.rollback_rep(node, &RollbackRep::decode(data)?),
            gsn::TC_COMMITCONF => self.commit_conf(node, signal, &CommitConf::decode(data)?),
            gsn::TC_COMMITREF => {
                let refused = CommitRef::decode(data)?;
                self.outcome(
                    node,
                    refused.client,
                    refused.transid,
                    &[Phase::Committing],
                    refused.error,
                    false,
                );
            }
            gsn::TCROLLBACKCONF => {
                let conf = RollbackConf::decode(data)?;
                self.outcome(node, conf.client, conf.transid, &[Phase::RollingBack], 0, false);
            }
            gsn::TCROLLBACKREF => {
                let refused = RollbackRef::decode(data)?;
                if let Some(at) = self.transaction_of(node, refused.client, refused.transid)
                    && self.transactions[at].phase == Phase::RollingBack
                {
                    self.transactions[at].phase = Phase::ExecutingCommit;
                }
            }
            gsn::TCSEIZECONF => self.seized(node, &SeizeConf::decode(data)?),
            gsn::TCSEIZEREF => self.seize_refused(node, &SeizeRef::decode(data)?),
            gsn::TCKEY_FAILCONF => {
                let conf = FailConf::decode(data)?;
                self.acknowledge(node, signal, conf.operation.1.then_some(conf.transid));
                self.outcome_of_take_over(conf.transid, true).then_some(())?;
            }
            gsn::TCKEY_FAILREF => {
                self.outcome_of_take_over(FailRef::decode(data)?.transid, false).then_some(())?;
            }
            gsn::NODE_FAILREP => {
                NodeFailRep::decode(signal)?.failed.iter().for_each(|failed| self.reader_failed(failed));
            }
            gsn::TAKE_OVERTCCONF => {
                let failed = TakeOverTcConf::decode(data)?.failed;
                self.taken_over(failed, self.work[node].node.id);
                self.reader_failed(failed);
            }
            gsn::TCRELEASECONF | gsn::NF_COMPLETEREP => {}
            _ => return None,
        }
        Some(())
    }

    #[inline]
    fn key_conf(&mut self, node: usize, signal: &Signal<'_>, conf: &KeyConf<'_>) {
        if conf.acknowledge {
            self.acknowledge(node, signal, Some(conf.transid));
        }
        let Some(at) = self.transaction_of(node, conf.client, conf.transid) else {
            let ending = if conf.commit { Ending::Whole } else { Ending::Part };
            return self.late_reply(node, conf.client, conf.transid, ending);
        };
        let transaction = &mut self.transactions[at];
        let (goes_on, over) = match transaction.phase {
            Phase::Executing => (true, false),
            Phase::ExecutingCommit => (false, conf.commit),
            _ => (false, false),
        };
        transaction.committed |= over;
        for (operation, info) in conf.operations() {
            let Some(q) = self.query_of(operation, conf.transid) else { continue };
            let query = &mut self.queries[q];
            query.confirmed = match info {
                AttrInfo::Words(words) => Confirmed::Words(words),
                AttrInfo::ReadBy(node) => Confirmed::ReadBy(node),
            };
            if query.losses != self.losses && !query.is_answered() {
                self.may_be_lost(q);
            }
            let query = &self.queries[q];
            let answered = query.is_answered();
            self.rows_due += !answered as usize;
            // Of a transaction that is over queries complete in the order of their definition: the first
            // here, what has to follow another by the end of the batch.
            let completes = goes_on || over && query.error == 0 && query.previous == NONE;
            if answered && query.state == State::Sent && completes {
                self.complete(q);
            }
        }
        if over {
            // All that the coordinator had to say has been said: a refusal it sent is not followed by more.
            if self.transactions[at].first != NONE {
                self.end_batch(at);
            }
            self.finish_transaction(at);
        } else if goes_on {
            if conf.operations().len() == 0 {
                self.end_batch(at);
            }
            self.batch_may_be_over(at);
        }
    }

    #[inline]
    fn row(&mut self, row: &Row<'_>) {
        let Some(q) = self.query_of(row.operation, row.transid) else {
            self.statistics.late_replies += 1;
            return;
        };
        let query = &mut self.queries[q];
        // A confirmation that was first has counted it, once however often it comes.
        let counted = query.confirmed != Confirmed::No && !query.is_answered();
        query.received = query.received.saturating_add(row.attributes.len() as u32);
        let decoded = match &query.attr {
            Some(attr) if query.decodes => attr.decode_row(row.attributes, query.attr_row.bytes_mut()),
            _ => Ok(()),
        };
        if row.attributes.is_empty() {
            // A row without attributes is a row all the same.
            query.received = query.received.max(1);
        }
        if let Err(code) = decoded {
            query.error = code;
        }
        if query.is_answered() {
            self.rows_due = self.rows_due.saturating_sub(counted as usize);
            self.answered(q);
        }
    }

    fn key_ref(&mut self, signal: &Signal<'_>, refused: &KeyRef) {
        let Some(q) = self.query_of(refused.operation, refused.transid) else {
            self.statistics.late_replies += 1;
            return;
        };
        let query = &mut self.queries[q];
        query.error = refused.error;
        query.refused = true;
        // A refusal by the coordinator stands for the confirmation; one by the node that reads comes beside it.
        if signal.header.sender & 0x1ff == DBTC && query.confirmed == Confirmed::No {
            query.confirmed = Confirmed::Words(0);
        }
        if query.is_answered() {
            self.answered(q);
        }
    }

    /// Every reply about a query is in; it completes unless the outcome of its transaction is still open.
    #[inline]
    pub(super) fn answered(&mut self, q: u32) {
        let at = self.queries[q].transaction;
        match self.transactions[at].phase {
            Phase::Ended => self.complete(q),
            Phase::Executing => {
                self.complete(q);
                self.batch_may_be_over(at);
            }
            _ => {}
        }
    }

    /// No further confirmation comes for the batch: refusals that came without one are complete.
    #[inline]
    fn end_batch(&mut self, at: u32) {
        let mut next = self.transactions[at].first;
        while next != NONE {
            let query = &mut self.queries[next];
            let q = next;
            next = query.next;
            if query.state == State::Sent {
                if query.refused && query.confirmed == Confirmed::No {
                    query.confirmed = Confirmed::Words(0);
                }
                if query.is_answered() {
                    if query.error == ndb::READ_LOST && self.transactions[at].committed {
                        self.rows_lost(q, ndb::READ_LOST);
                    }
                    self.complete(q);
                }
            }
        }
    }

    fn batch_may_be_over(&mut self, at: u32) {
        let transaction = &mut self.transactions[at];
        if transaction.phase == Phase::Executing && transaction.first == transaction.first_defined {
            transaction.phase = Phase::Open;
            transaction.deadline = NEVER;
            self.advance(at);
        }
    }

    fn rollback_rep(&mut self, node: usize, rep: &RollbackRep) {
        let Some(at) = self.transaction_of(node, rep.client, rep.transid) else {
            return self.late_reply(node, rep.client, rep.transid, Ending::Aborted);
        };
        if self.transactions[at].phase == Phase::RollingBack {
            // The answer to our own rollback is still to come, and only then the record is free.
            self.fail_all(at, rep.error);
        } else {
            self.end(at, rep.error, false);
        }
    }

    fn commit_conf(&mut self, node: usize, signal: &Signal<'_>, conf: &CommitConf) {
        let (client, acknowledge) = conf.client;
        self.acknowledge(node, signal, acknowledge.then_some(conf.transid));
        self.outcome(node, client, conf.transid, &[Phase::Committing, Phase::ExecutingCommit], 0, true);
    }

    /// The final reply of a transaction that is in one of `phases`.
    fn outcome(
        &mut self,
        node: usize,
        client: u32,
        transid: TransId,
        phases: &[Phase],
        error: i32,
        committed: bool,
    ) {
        match self.transaction_of(node, client, transid) {
            Some(at) if phases.contains(&self.transactions[at].phase) => self.end(at, error, committed),
            Some(_) => self.statistics.late_replies += 1,
            None => self.late_reply(node, client, transid, Ending::Whole),
        }
    }

    #[inline]
    fn acknowledge(&mut self, node: usize, signal: &Signal<'_>, transid: Option<TransId>) {
        if let Some(transid) = transid {
            let buffer = &mut self.work[node].buffer;
            signals::commit_ack(buffer, signal.header.sender, self.port.block(), transid);
        }
    }

    /// Ends a transaction. With an error, or rolled back, its queries that are not complete end too.
    pub(super) fn end(&mut self, at: u32, error: i32, committed: bool) {
        let transaction = &mut self.transactions[at];
        transaction.error = error;
        transaction.committed = committed;
        if !committed {
            self.transactions[at].failure = self.transaction_failure(at);
            self.fail_all(at, if error == 0 { ndb::ROLLED_BACK } else { error });
        } else {
            self.end_batch(at);
        }
        self.finish_transaction(at);
    }

    /// The outcome is in: the record is free, and the slot too if the caller has given the transaction up.
    #[inline]
    fn finish_transaction(&mut self, at: u32) {
        let transaction = &mut self.transactions[at];
        // What the caller asked for by itself, not along with an operation.
        self.settled |= matches!(transaction.phase, Phase::Committing | Phase::RollingBack);
        self.statistics.transaction_ended(transaction.committed, transaction.error);
        transaction.phase = Phase::Ended;
        self.multi.parts -= transaction.part as u64;
        let record = std::mem::replace(&mut transaction.record, NONE);
        if record == NONE && !transaction.started {
            // It may be among those that wait for a record.
            let (transid, waiting) = (transaction.transid, &mut self.work[transaction.node].waiting);
            if let Some(place) = waiting.iter().rposition(|waits| *waits == (at, transid)) {
                waiting.remove(place);
            }
        }
        let transaction = &mut self.transactions[at];
        if transaction.closed && transaction.first == NONE {
            self.remove_transaction(at);
        }
        if record != NONE && self.records[record as usize].usage == Usage::Busy(at) {
            self.reuse_record(record);
        }
    }

    /// Completes the queries that are not packed yet with an error.
    pub(super) fn fail_defined(&mut self, at: u32, error: i32) {
        let mut next = self.transactions[at].first_defined;
        self.transactions[at].first_defined = NONE;
        while next != NONE {
            let q = next;
            next = self.queries[q].next;
            self.queries[q].error = error;
            self.complete(q);
        }
    }

    fn fail_all(&mut self, at: u32, error: i32) {
        self.transactions[at].first_defined = NONE;
        loop {
            let q = self.transactions[at].first;
            if q == NONE {
                return;
            }
            self.queries[q].error = error;
            self.complete(q);
        }
    }

    /// A query is complete: it leaves its transaction, and waits for its callback or on the executed list.
    #[inline]
    pub(super) fn complete(&mut self, q: u32) {
        if self.queries[q].error != 0 {
            self.failed(q);
        }
        let query = &mut self.queries[q];
        self.unpacked -= if query.state == State::Defined { query.request.len() } else { 0 };
        query.state = State::Complete;
        self.live.completed(query.kind, self.stamp.since(query.since));
        let (at, previous, next) = (query.transaction, query.previous, query.next);
        let (callback, multi_read) = (query.callback, query.multi_read);
        let transaction = &mut self.transactions[at];
        if previous == NONE {
            transaction.first = next;
        }
        if next == NONE {
            transaction.last = previous;
        }
        if previous == NONE && next == NONE {
            self.busy -= 1;
            if transaction.phase == Phase::Ended && transaction.closed {
                self.remove_transaction(at);
            }
        } else {
            self.close_gap(previous, next);
        }
        self.in_flight -= 1;
        if self.in_flight == 0 {
            // Reads that failed while their row was due have left theirs.
            self.rows_due = 0;
        }
        self.statistics.completed += 1;
        if multi_read != NONE {
            return self.gathered(q);
        }
        self.done += 1;
        if callback {
            self.ready.push_back(Due::Query(q));
        } else {
            self.executed.push_back(q);
        }
    }

    /// A query has left the list of its transaction from between these two.
    fn close_gap(&mut self, previous: u32, next: u32) {
        if previous != NONE {
            self.queries[previous].next = next;
        }
        if next != NONE {
            self.queries[next].previous = previous;
        }
    }

    #[cold]
    fn failed(&mut self, q: u32) {
        let failure = self.query_failure(q);
        let query = &mut self.queries[q];
        query.failure = failure;
        self.statistics.failed += 1;
        self.live.failed(query.kind, query.error);
        if class(query.error) == Class::Schema {
            self.cluster.schema_news.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The transaction on the record that a reply names, if the reply is about it.
    #[inline]
    fn transaction_of(&self, node: usize, client: u32, transid: TransId) -> Option<u32> {
        let record = self.records.get((client >> 1) as usize)?;
        match record.usage {
            Usage::Busy(at) if record.node == node && self.transactions.get(at)?.transid == transid => {
                Some(at)
            }
            _ => None,
        }
    }

    /// The query that a reply names, if it waits for one of this transaction.
    #[inline]
    fn query_of(&self, operation: u32, transid: TransId) -> Option<u32> {
        let q = operation >> 1 & (MAX_SLOTS as u32 - 1);
        let query = self.queries.get(q)?;
        let waits = query.state == State::Sent && query.operation == operation && query.transid == transid;
        waits.then_some(q)
    }
}
