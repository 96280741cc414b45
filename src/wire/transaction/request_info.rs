//! Word 4 of TCKEYREQ: what an operation does and where it stands in its transaction. Source:
//! storage/ndb/include/kernel/signaldata/TcKeyReq.hpp, src/kernel/blocks/dblqh/DblqhMain.cpp.
//!
//! A data node stops for some combinations of these bits: dirty without simple, commit without execute,
//! no-wait on a write. None of them can be built here.

const DIRTY: u32 = 1 << 0;
const NO_DISK: u32 = 1 << 1;
const COMMIT: u32 = 1 << 4;
const OPERATION_SHIFT: u32 = 5;
const SIMPLE: u32 = 1 << 8;
const QUEUE_ON_REDO: u32 = 1 << 9;
const EXECUTE: u32 = 1 << 10;
const START: u32 = 1 << 11;
const ABORT_SHIFT: u32 = 12;

const READ: u32 = 0;
const READ_EXCLUSIVE: u32 = 5;

/// The request information of one operation.
///
/// Its bits come from the constructors alone:
///
/// ```compile_fail
/// let dirty_without_simple = iclaustron::wire::transaction::RequestInfo(1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestInfo(u32);

/// What happens to the transaction when the operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum AbortOption {
    /// The transaction is rolled back.
    AbortOnError = 0,
    /// The others go on, and a commit commits them.
    IgnoreError = 2,
}

/// How a read treats locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// The last committed row; takes no lock, waits for none. Its failure never fails the transaction.
    Committed,
    /// Waits for the lock and frees it at once. Its failure never fails the transaction.
    Simple,
    /// Others may read the row until the transaction ends.
    Shared(AbortOption),
    /// Nobody else may lock the row until the transaction ends.
    Exclusive(AbortOption),
}

/// What a write does. The numbers are NDB's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum WriteKind {
    /// Changes a row that must be there.
    Update = 1,
    /// Makes a row that must not be there.
    Insert = 2,
    /// Removes a row that must be there.
    Delete = 3,
    /// Makes the row or changes it.
    Write = 4,
}

impl RequestInfo {
    /// A read.
    #[inline]
    pub const fn read(mode: LockMode) -> Self {
        let ignore = AbortOption::IgnoreError;
        match mode {
            LockMode::Committed => Self::new(READ, ignore, DIRTY | SIMPLE),
            LockMode::Simple => Self::new(READ, ignore, SIMPLE),
            LockMode::Shared(option) => Self::new(READ, option, 0),
            LockMode::Exclusive(option) => Self::new(READ_EXCLUSIVE, option, 0),
        }
    }

    /// A write.
    #[inline]
    pub const fn write(kind: WriteKind, option: AbortOption) -> Self {
        Self::new(kind as u32, option, 0)
    }

    const fn new(operation: u32, option: AbortOption, flags: u32) -> Self {
        RequestInfo(operation << OPERATION_SHIFT | (option as u32) << ABORT_SHIFT | flags)
    }

    /// No column on disk is touched: a committed read may then run on a query thread.
    #[inline]
    pub const fn no_disk(self) -> Self {
        RequestInfo(self.0 | NO_DISK)
    }

    /// While the redo log is overloaded the node waits instead of refusing.
    #[inline]
    pub const fn queue_on_redo(self) -> Self {
        RequestInfo(self.0 | QUEUE_ON_REDO)
    }

    /// The first operation of its transaction. Never while the record's last transaction has not had its
    /// final reply: the node would stop.
    #[inline]
    pub const fn start(self) -> Self {
        RequestInfo(self.0 | START)
    }

    /// The last operation of its batch.
    #[inline]
    pub const fn execute(self) -> Self {
        RequestInfo(self.0 | EXECUTE)
    }

    /// The last operation of its transaction: the commit rides on it.
    #[inline]
    pub const fn execute_and_commit(self) -> Self {
        RequestInfo(self.0 | EXECUTE | COMMIT)
    }

    /// Whether the operation is a read, with a lock or without.
    #[inline]
    pub const fn is_read(self) -> bool {
        matches!(self.0 >> OPERATION_SHIFT & 7, READ | READ_EXCLUSIVE)
    }

    /// The word.
    #[inline]
    pub const fn bits(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use AbortOption::{AbortOnError, IgnoreError};

    /// Every value that the constructors and setters can reach.
    fn all() -> Vec<RequestInfo> {
        let mut all: Vec<_> = [AbortOnError, IgnoreError]
            .into_iter()
            .flat_map(|option| {
                let reads = [
                    LockMode::Committed,
                    LockMode::Simple,
                    LockMode::Shared(option),
                    LockMode::Exclusive(option),
                ]
                .map(RequestInfo::read);
                let kinds = [WriteKind::Insert, WriteKind::Update, WriteKind::Write, WriteKind::Delete];
                reads.into_iter().chain(kinds.map(|kind| RequestInfo::write(kind, option)))
            })
            .collect();
        let setters: [fn(RequestInfo) -> RequestInfo; 5] = [
            RequestInfo::no_disk,
            RequestInfo::queue_on_redo,
            RequestInfo::start,
            RequestInfo::execute,
            RequestInfo::execute_and_commit,
        ];
        for set in setters {
            all.extend(all.iter().map(|&info| set(info)).collect::<Vec<_>>());
        }
        all
    }

    #[test]
    fn no_request_stops_a_node() {
        const NOWAIT: u32 = 1 << 21;
        for info in all() {
            let bits = info.bits();
            let operation = bits >> OPERATION_SHIFT & 7;
            assert!(bits & DIRTY == 0 || bits & SIMPLE != 0, "dirty without simple: {bits:x}");
            assert!(bits & DIRTY == 0 || operation == READ, "dirty write: {bits:x}");
            assert!(bits & SIMPLE == 0 || operation == READ, "simple write: {bits:x}");
            assert!(bits & SIMPLE == 0 || bits >> ABORT_SHIFT & 3 == IgnoreError as u32, "{bits:x}");
            assert!(bits & COMMIT == 0 || bits & EXECUTE != 0, "commit without execute: {bits:x}");
            assert!(bits & NOWAIT == 0, "{bits:x}");
            assert!(operation <= READ_EXCLUSIVE, "{bits:x}");
            let known = DIRTY | NO_DISK | COMMIT | 7 << OPERATION_SHIFT | SIMPLE | QUEUE_ON_REDO;
            assert_eq!(bits & !(known | EXECUTE | START | 3 << ABORT_SHIFT), 0, "{bits:x}");
        }
    }

    #[test]
    fn words_are_those_of_real_clients() {
        let delete = RequestInfo::write(WriteKind::Delete, IgnoreError).start().execute_and_commit();
        assert_eq!(delete.bits(), 0x2c70);
        let insert = RequestInfo::write(WriteKind::Insert, AbortOnError).start().execute_and_commit();
        assert_eq!(insert.bits(), 0xc50);
        let read = RequestInfo::read(LockMode::Committed).no_disk().start().execute_and_commit();
        assert_eq!(read.bits(), 0x2d13);
    }
}
