//! Afterwards: what the table holds against what the clients were told.

use std::ffi::CStr;
use std::time::{Duration, Instant};

use iclaustron::capi::args::{IC_READ_KIND_COMMITTED, IC_WRITE_KIND_INSERT};
use iclaustron::error::{is_temporary, ndb};

use crate::abi::{Connection, Global, Table, Way};
use crate::work::{ACCOUNTS, BALANCE, Done, Outcome, value_of};

const BATCH: usize = 200;
/// How long reading may fail in a cluster where nothing goes wrong any more.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes the accounts.
pub fn fill(global: &Global, name: &CStr) -> Result<(), String> {
    let accounts: Vec<u64> = (0..ACCOUNTS).collect();
    each(global, name, &accounts, Some(BALANCE)).map(drop)
}

/// Every marker and account; what does not fit is told.
pub fn check(global: &Global, name: &CStr, done: &[Done]) -> Result<Vec<String>, String> {
    let ids: Vec<u64> = done.iter().map(|done| done.id).collect();
    let rows = each(global, name, &ids, None)?;
    let mut wrong = Vec::new();
    let mut balances = vec![BALANCE; ACCOUNTS as usize];
    for (done, row) in done.iter().zip(rows) {
        match (done.outcome, row) {
            (_, Some(value)) if value != value_of(done.id) => {
                wrong.push(format!("value {value:#x}, not {:#x}: {done}", value_of(done.id)));
            }
            (Outcome::Committed, None) => wrong.push(format!("committed, and not there: {done}")),
            (Outcome::Refused(_), Some(_)) => wrong.push(format!("refused, and there: {done}")),
            _ => {}
        }
        if let (Some((from, to, amount)), Some(_)) = (done.transfer, row) {
            balances[from as usize] -= amount;
            balances[to as usize] += amount;
        }
    }
    let accounts: Vec<u64> = (0..ACCOUNTS).collect();
    let found = each(global, name, &accounts, None)?;
    for (id, (balance, found)) in balances.iter().zip(&found).enumerate() {
        if *found != Some(*balance) {
            wrong
                .push(format!("account {id} has {found:?}, not the {balance} of the markers that are there"));
        }
    }
    let sum: u64 = found.iter().flatten().sum();
    if sum != BALANCE * ACCOUNTS {
        wrong.push(format!("the sum of all accounts is {sum}, not {}", BALANCE * ACCOUNTS));
    }
    Ok(wrong)
}

/// Reads the rows of ids, or inserts them with a value, until each has an answer.
fn each(global: &Global, name: &CStr, ids: &[u64], value: Option<u64>) -> Result<Vec<Option<u64>>, String> {
    let until = Instant::now() + PATIENCE;
    let table = loop {
        match Table::open(global, name) {
            Ok(table) => break table,
            Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(50)),
            Err(_) => return Err(global.error_text()),
        }
    };
    let conn = Connection::new(global).map_err(|code| format!("a connection: {code}"))?;
    let rows = ids.chunks(BATCH).map(|ids| batch(conn, &table, ids, value)).collect::<Result<Vec<_>, _>>();
    conn.free().map_err(|code| format!("freeing a connection: {code}"))?;
    Ok(rows?.concat())
}

fn batch(
    conn: Connection,
    table: &Table<'_>,
    ids: &[u64],
    value: Option<u64>,
) -> Result<Vec<Option<u64>>, String> {
    let text = |code: i32| format!("reading or filling the table: error {code}");
    let mut rows = vec![None; ids.len()];
    let mut left: Vec<usize> = (0..ids.len()).collect();
    let until = Instant::now() + PATIENCE;
    while !left.is_empty() {
        let mut out = Vec::new();
        for &at in &left {
            let query = conn.create_query(table).map_err(text)?;
            conn.fill(query, ids[at], value.unwrap_or(0));
            let trans = conn.start(table, ids[at]).map_err(text)?;
            match value {
                Some(_) => conn.write(query, trans, IC_WRITE_KIND_INSERT, Way::List),
                None => conn.read(query, trans, IC_READ_KIND_COMMITTED, Way::List),
            }
            .and_then(|()| conn.commit(trans))
            .and_then(|()| conn.close(trans))
            .map_err(text)?;
            out.push((at, query));
        }
        conn.send(true).map_err(text)?;
        while conn.in_flight() > 0 {
            conn.poll(100).map_err(text)?;
            if Instant::now() > until {
                return Err("reading the table takes too long".into());
            }
        }
        while conn.next_executed().is_some() {}
        left.clear();
        for (at, query) in out {
            match conn.query_error(query) {
                0 => rows[at] = Some(conn.row(query).1),
                ndb::NO_SUCH_ROW => {}
                code if is_temporary(code) && Instant::now() < until => left.push(at),
                code => return Err(text(code)),
            }
            conn.free_query(query).map_err(text)?;
        }
    }
    Ok(rows)
}
