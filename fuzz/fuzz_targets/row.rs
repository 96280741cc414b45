//! Rows: what a record with columns of all types decodes says the same when it is encoded and decoded again;
//! a packed row of any columns stays inside its words.
#![no_main]

use std::sync::LazyLock;

use iclaustron::dict::record::{Columns, Record};
use iclaustron::dict::table::Table;
use iclaustron::wire::attribute::Attributes;
use iclaustron::wire::attribute::packed::{Column, Form, PackedRow, Value};
use iclaustron::wire::column::ColumnType;
use iclaustron_fuzz::{table_of_all_types, words};
use libfuzzer_sys::fuzz_target;

static TABLE: LazyLock<Table> = LazyLock::new(table_of_all_types);
static RECORD: LazyLock<Record> = LazyLock::new(|| Record::natural(&TABLE));
static COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    let form = |kind: ColumnType, length: u32, size: u32| match (kind.array_type().length_bytes(), kind) {
        (1, _) => Form::Short(size),
        (2, _) => Form::Long(size),
        (_, ColumnType::Bit) => Form::Bits(length),
        _ if kind.alignment() >= 4 => Form::Words(size),
        _ => Form::Bytes(size),
    };
    let column = |c: &iclaustron::dict::table::Column| Column {
        form: form(c.kind, c.length, c.size),
        nullable: c.nullable,
    };
    TABLE.columns.iter().map(column).collect()
});

fn meaning(row: &[u8]) -> Vec<Option<&[u8]>> {
    RECORD.fields().iter().map(|field| (!field.is_null(row)).then(|| field.value(row).unwrap())).collect()
}

fn plain(attributes: &[u32]) {
    let _ = Attributes::new(attributes).count();
    let mut row = vec![0; RECORD.row_size()];
    if RECORD.decode_row(attributes, &mut row).is_err() {
        return;
    }
    let (mut encoded, mut again) = (Vec::new(), vec![0; RECORD.row_size()]);
    RECORD.encode_key_values(&row, &mut encoded).unwrap();
    RECORD.encode_values(&row, &mut encoded, Columns::All).unwrap();
    RECORD.decode_row(&encoded, &mut again).unwrap();
    assert_eq!(meaning(&again), meaning(&row));
}

fn packed(row: &[u32], columns: &[Column]) {
    let Ok(mut packed) = PackedRow::new(row, columns) else { return };
    let mut bytes = 0;
    for (number, value) in packed.by_ref().flatten() {
        match (columns[number].form, value) {
            (_, Value::Null) => assert!(columns[number].nullable),
            (Form::Bits(bits), Value::Bits(value)) => {
                assert_eq!(value.words().count(), bits.div_ceil(32) as usize);
            }
            (Form::Words(size) | Form::Bytes(size), Value::Bytes(value)) => {
                assert_eq!(value.len(), size as usize);
                bytes += value.len();
            }
            (Form::Short(most) | Form::Long(most), Value::Bytes(value)) => {
                assert!(value.len() <= most as usize);
                bytes += value.len();
            }
            (form, value) => panic!("{form:?} gives {value:?}"),
        }
    }
    assert!(bytes + 4 * packed.rest().len() <= 4 * row.len());
}

fn column(word: u32) -> Column {
    let size = word >> 8 & 0xffff;
    let form = match word & 7 {
        0 | 5 => Form::Bits(size),
        1 | 6 => Form::Words(size),
        2 | 7 => Form::Bytes(size),
        3 => Form::Short(size),
        _ => Form::Long(size),
    };
    Column { form, nullable: word & 8 != 0 }
}

fuzz_target!(|bytes: &[u8]| {
    let words = words(bytes);
    plain(&words);
    packed(&words, &COLUMNS);
    // The first word says how many columns follow it, the packed row comes behind them.
    if let [count, rest @ ..] = &words[..]
        && let Some((columns, row)) = rest.split_at_checked(*count as usize)
    {
        packed(row, &columns.iter().copied().map(column).collect::<Vec<_>>());
    }
});
