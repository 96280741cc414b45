//! Whether a table's definition still holds in the cluster as it is now.
//!
//! A cluster that has lost all its nodes may come back with other tables under the same ids, so a definition
//! is good for one *incarnation* of the cluster only. When the cluster is back every definition in use is
//! asked for again: one that has not changed is good for the new incarnation too, and whoever uses it goes on
//! without noticing.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::table::Table;
use crate::error::{ndb, own};

/// Of which incarnation a definition was seen last.
#[derive(Debug)]
pub struct Standing(AtomicU32);

/// Of none: the table is gone, or another.
const GONE: u32 = 0;

impl Standing {
    /// A definition as this incarnation has given it.
    pub fn new(incarnation: u32) -> Arc<Self> {
        Arc::new(Standing(AtomicU32::new(incarnation)))
    }

    /// Whether the definition can be used in `incarnation`. Not yet is temporary.
    #[inline]
    pub fn check(&self, incarnation: u32) -> Result<(), i32> {
        match self.0.load(Ordering::Relaxed) {
            seen if seen == incarnation => Ok(()),
            GONE => Err(ndb::SCHEMA_VERSION),
            _ => Err(own::NO_NODE),
        }
    }
}

/// The definitions in use.
#[derive(Debug, Default)]
pub struct Standings(Mutex<Vec<(Weak<Standing>, Arc<Table>)>>);

impl Standings {
    /// Takes on a definition that was just fetched.
    pub fn add(&self, table: &Arc<Table>, incarnation: u32) -> Arc<Standing> {
        let standing = Standing::new(incarnation);
        let mut all = self.lock();
        all.retain(|(standing, _)| standing.strong_count() > 0);
        all.push((Arc::downgrade(&standing), table.clone()));
        standing
    }

    /// Asks for each definition in use that is not of `incarnation` again: `fetch` gives it, or the error.
    /// False if some could not be asked for now.
    pub fn renew(&self, incarnation: u32, mut fetch: impl FnMut(&Table) -> Result<Table, i32>) -> bool {
        let old: Vec<_> = {
            let all = self.lock();
            let old = all.iter().filter_map(|(standing, table)| Some((standing.upgrade()?, table.clone())));
            old.filter(|(standing, _)| standing.check(incarnation) == Err(own::NO_NODE)).collect()
        };
        let mut all_asked = true;
        for (standing, table) in old {
            let seen = match fetch(&table) {
                Ok(now) if is_same(&table, &now) => incarnation,
                Ok(_) => GONE,
                Err(code) if crate::error::class(code) == crate::error::Class::Schema => GONE,
                Err(_) => {
                    all_asked = false;
                    continue;
                }
            };
            standing.0.store(seen, Ordering::Relaxed);
        }
        all_asked
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Weak<Standing>, Arc<Table>)>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Where fragments are may have changed: that decides which node is asked, not which row is found.
fn is_same(before: &Table, now: &Table) -> bool {
    let identity = |table: &Table| (table.id, table.version, table.partition_count, table.hash_map_id);
    identity(before) == identity(now)
        && before.columns == now.columns
        && before.primary_key == now.primary_key
        && before.distribution_key == now.distribution_key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dict::table::tests::section;

    fn table() -> Table {
        Table::parse(&section("types-get_tabinfo_conf-57")).unwrap()
    }

    #[test]
    fn what_has_not_changed_stays_good() {
        let table = Arc::new(table());
        let standings = Standings::default();
        let standing = standings.add(&table, 1);
        let other = standings.add(&table, 1);
        assert_eq!((standing.check(1), standing.check(2)), (Ok(()), Err(own::NO_NODE)));
        assert!(!standings.renew(2, |_| Err(ndb::CLUSTER_FAILURE)));
        assert_eq!(standing.check(2), Err(own::NO_NODE), "nobody could say");
        drop(other);
        let mut asked = 0;
        assert!(standings.renew(2, |table| {
            asked += 1;
            Ok(table.clone())
        }));
        assert_eq!((standing.check(2), asked), (Ok(()), 1));
    }

    #[test]
    fn what_is_gone_or_another_is_told_so_for_good() {
        let table = Arc::new(table());
        let standings = Standings::default();
        let changed = standings.add(&table, 1);
        assert!(standings.renew(2, |table| Ok(Table { version: table.version + 1, ..table.clone() })));
        assert_eq!(changed.check(2), Err(ndb::SCHEMA_VERSION));
        let dropped = standings.add(&table, 2);
        assert!(standings.renew(3, |_| Err(ndb::NO_SUCH_TABLE)));
        assert_eq!(dropped.check(3), Err(ndb::SCHEMA_VERSION));
        let mut asked = 0;
        assert!(standings.renew(4, |table| {
            asked += 1;
            Ok(table.clone())
        }));
        assert_eq!(asked, 0);
    }
}
