//! What is remembered of a failure, and the line that tells it to a person. Nothing of it costs a query that
//! succeeds anything.

use super::query::State;
use super::transaction::{Phase, Transaction};
use super::{Connection, Query};
use crate::error::{class, is_unknown_result, message};

/// How far something had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Step {
    /// Defined: nothing was packed for a node.
    #[default]
    Define,
    /// Packed, and not written to a socket.
    Send,
    /// At the data nodes.
    Execute,
    /// The commit was out.
    Commit,
    /// The rollback was out.
    Rollback,
}

/// Where a failure came about.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Failure {
    pub(super) step: Step,
    /// Index of the coordinator's node.
    node: u8,
    /// The transaction was committed all the same.
    committed: bool,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Step::Define => "define",
            Step::Send => "send",
            Step::Execute => "execute",
            Step::Commit => "commit",
            Step::Rollback => "rollback",
        }
    }
}

impl<T: Copy> Connection<T> {
    /// Where the failure of a query that completes now comes about.
    #[cold]
    pub(super) fn query_failure(&self, q: u32) -> Failure {
        let query = &self.queries[q];
        let failure = self.transaction_failure(query.transaction);
        match query.state {
            State::Defined => Failure { step: Step::Define, ..failure },
            _ => failure,
        }
    }

    /// Where the failure of a transaction that ends now comes about.
    #[cold]
    pub(super) fn transaction_failure(&self, at: u32) -> Failure {
        let transaction = &self.transactions[at];
        let unsent = transaction.epoch == self.work[transaction.node].epoch;
        let step = match transaction.phase {
            Phase::RollingBack => Step::Rollback,
            Phase::TakingOver => Step::Commit,
            _ if !transaction.started => Step::Define,
            _ if unsent => Step::Send,
            Phase::Committing | Phase::ExecutingCommit => Step::Commit,
            Phase::Open | Phase::Executing | Phase::Ended => Step::Execute,
        };
        Failure { step, node: transaction.node as u8, committed: transaction.committed }
    }

    /// The last completion of a query, in a line.
    pub fn explain_query(&self, query: u64) -> Result<String, i32> {
        let Query { error, failure, table, .. } = &self.queries[self.query_at(query)?];
        let name = String::from_utf8_lossy(&table.internal_name);
        let mut parts = name.split('/');
        let (database, name) = (parts.next().unwrap_or_default(), parts.next_back().unwrap_or_default());
        Ok(self.explain(*error, failure, &format!(", table {database}.{name}")))
    }

    /// The end of a transaction, in a line.
    pub fn explain_transaction(&self, transaction: u64) -> Result<String, i32> {
        let Transaction { error, failure, .. } = &self.transactions[self.transaction_at(transaction)?];
        Ok(self.explain(*error, failure, ""))
    }

    fn explain(&self, code: i32, failure: &Failure, table: &str) -> String {
        if code == 0 {
            return explain(0);
        }
        let node = &self.work[failure.node as usize].node;
        let (step, id, host) = (failure.step.name(), node.id, &node.host);
        let committed = match failure.committed {
            true => "was committed",
            false => may_have_committed(code),
        };
        format!("{}; step {step}, node {id} at {host}{table}; {committed}", head(code))
    }
}

fn head(code: i32) -> String {
    format!("error {code} ({}): {}", class(code).name(), message(code).to_string_lossy())
}

fn may_have_committed(code: i32) -> &'static str {
    match is_unknown_result(code) {
        true => "may have been committed",
        false => "was not committed",
    }
}

/// A code alone, in a line.
pub fn explain(code: i32) -> String {
    match code {
        0 => message(0).to_string_lossy().into_owned(),
        code if is_unknown_result(code) => format!("{}; {}", head(code), may_have_committed(code)),
        code => head(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_alone() {
        assert_eq!(explain(0), "no error");
        assert_eq!(explain(626), "error 626 (no data): the row is not there");
        assert!(explain(4012).ends_with("; may have been committed"), "{}", explain(4012));
        assert!(!explain(i32::MIN).contains('\n'));
    }
}
