//! A column's values as people write them: text of a value as a row holds it, and back. The bytes are those
//! that include/iclaustron/ic_types.h puts and gets for C. Timestamps are in UTC.

use iclaustron::dict::table::Column;
use iclaustron::wire::column::ColumnType;

/// A type with what it is of: `Varchar(20)`.
pub fn type_name(column: &Column) -> String {
    use ColumnType::*;
    let name = column.kind.name();
    match column.kind {
        Char | Varchar | Binary | Varbinary | Longvarchar | Longvarbinary | Bit => {
            format!("{name}({})", column.length)
        }
        kind if kind.is_decimal() => format!("{name}({},{})", column.precision, column.scale),
        kind if kind.has_fraction() && column.precision > 0 => format!("{name}({})", column.precision),
        _ => name.to_owned(),
    }
}

/// A value, its length bytes included, as text.
pub fn show(column: &Column, value: &[u8]) -> String {
    use ColumnType::*;
    let data = value.get(column.kind.array_type().length_bytes() as usize..).unwrap_or_default();
    let data = data.get(..column.size as usize).unwrap_or(data);
    match column.kind {
        Tinyint | Smallint | Mediumint | Int | Bigint => signed(data).to_string(),
        Tinyunsigned | Smallunsigned | Mediumunsigned | Unsigned | Bigunsigned => little(data).to_string(),
        Float => f32::from_bits(little(data) as u32).to_string(),
        Double => f64::from_bits(little(data)).to_string(),
        Char => quoted(column, without_blanks(data)),
        Varchar | Longvarchar => quoted(column, data),
        Olddecimal | Olddecimalunsigned => String::from_utf8_lossy(data).trim().escape_debug().to_string(),
        Bit if column.length <= 64 => format!("0b{:b}", little(data)),
        Bit => hexadecimal(data.iter().rev()),
        Year => (if little(data) == 0 { 0 } else { 1900 + little(data) }).to_string(),
        Date => {
            let packed = little(data);
            format!("{:04}-{:02}-{:02}", packed >> 9, packed >> 5 & 15, packed & 31)
        }
        Time => {
            let (packed, sign) = (signed(data).unsigned_abs(), if signed(data) < 0 { "-" } else { "" });
            format!("{sign}{:02}:{:02}:{:02}", packed / 10_000, packed / 100 % 100, packed % 100)
        }
        Datetime => {
            let (date, time) = (little(data) / 1_000_000, little(data) % 1_000_000);
            let date = format!("{:04}-{:02}-{:02}", date / 10_000, date / 100 % 100, date % 100);
            format!("{date} {:02}:{:02}:{:02}", time / 10_000, time / 100 % 100, time % 100)
        }
        Timestamp => instant(little(data)),
        Time2 => {
            let bits = 8 * fraction_bytes(column);
            let (packed, zero) = (big(data), 0x80_0000 << bits);
            let sign = if packed < zero { "-" } else { "" };
            let packed = packed.abs_diff(zero);
            format!("{sign}{}{}", clock(packed >> bits), fraction(column, packed & ((1 << bits) - 1)))
        }
        Datetime2 => {
            let (whole, rest) = data.split_at(data.len().min(5));
            let packed = big(whole) & ((1 << 39) - 1);
            let (months, day) = (packed >> 22, packed >> 17 & 31);
            let date = format!("{:04}-{:02}-{day:02}", months / 13, months % 13);
            format!("{date} {}{}", clock(packed & 0x1_ffff), fraction(column, big(rest)))
        }
        Timestamp2 => {
            let (whole, rest) = data.split_at(data.len().min(4));
            format!("{}{}", instant(big(whole)), fraction(column, big(rest)))
        }
        Decimal | Decimalunsigned => decimal(column, data),
        Binary | Varbinary | Longvarbinary | Blob | Text => hexadecimal(data.iter()),
    }
}

/// The bytes of a value that a person has written, length bytes included. The error says what was expected.
pub fn parse(column: &Column, text: &str) -> Result<Vec<u8>, String> {
    use ColumnType::*;
    let size = column.size as usize;
    let wrong = |expected: &str| format!("{text:?} is no {}: {expected}", type_name(column));
    let number = |signed: bool| {
        let bits = 8 * size.min(8) as u32;
        let (least, most) = match signed {
            true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            false => (0, (1i128 << bits) - 1),
        };
        match text.parse::<i128>() {
            Ok(number) if (least..=most).contains(&number) => Ok(number.to_le_bytes()[..size].to_vec()),
            _ => Err(wrong(&format!("expected a whole number from {least} to {most}"))),
        }
    };
    match column.kind {
        Tinyint | Smallint | Mediumint | Int | Bigint => number(true),
        Tinyunsigned | Smallunsigned | Mediumunsigned | Unsigned | Bigunsigned => number(false),
        Float => text.parse().map(|n: f32| n.to_le_bytes().to_vec()).map_err(|_| wrong("expected a number")),
        Double => text.parse().map(|n: f64| n.to_le_bytes().to_vec()).map_err(|_| wrong("expected a number")),
        Char | Varchar | Longvarchar => {
            let data = encoded(column, text).ok_or_else(|| wrong("expected characters of latin1"))?;
            with_length(column, data, b' ').ok_or_else(|| wrong("too long"))
        }
        Binary | Varbinary | Longvarbinary => {
            let data = bytes(text).ok_or_else(|| wrong("expected 0x and pairs of hexadecimal digits"))?;
            with_length(column, data, 0).ok_or_else(|| wrong("too long"))
        }
        Bit => {
            let expected =
                "expected a whole number, or 0b and binary, or 0x and hexadecimal digits, of so many bits";
            let bits = bits(text).filter(|&bits| column.length >= 64 || bits >> column.length == 0);
            let mut value = bits.ok_or_else(|| wrong(expected))?.to_le_bytes().to_vec();
            value.resize(size, 0);
            Ok(value)
        }
        Year => match text.parse::<u32>() {
            Ok(0) => Ok(vec![0]),
            Ok(year @ 1901..=2155) => Ok(vec![(year - 1900) as u8]),
            _ => Err(wrong("expected a year from 1901 to 2155, or 0")),
        },
        Date => {
            let [year, month, day] = date(text).ok_or_else(|| wrong("expected YYYY-MM-DD"))?;
            Ok((day | month << 5 | year << 9).to_le_bytes()[..3].to_vec())
        }
        Time => {
            let (negative, [hour, minute, second], _) =
                time(text, 838, 0).ok_or_else(|| wrong("expected hh:mm:ss"))?;
            let packed = (hour * 10_000 + minute * 100 + second) as i64;
            Ok((if negative { -packed } else { packed }).to_le_bytes()[..3].to_vec())
        }
        Datetime => {
            let ([year, month, day], [hour, minute, second], _) =
                moment(text, 0).ok_or_else(|| wrong("expected \"YYYY-MM-DD hh:mm:ss\""))?;
            let date = year * 10_000 + month * 100 + day;
            Ok((date * 1_000_000 + hour * 10_000 + minute * 100 + second).to_le_bytes().to_vec())
        }
        Time2 => {
            let expected = "expected hh:mm:ss, with no more digits of a second than the column has";
            let (negative, [hour, minute, second], micros) =
                time(text, 838, column.precision).ok_or_else(|| wrong(expected))?;
            let bits = 8 * fraction_bytes(column);
            let whole = hour << 12 | minute << 6 | second;
            let packed = (whole << bits) + micros / fraction_unit(column);
            let zero = 0x80_0000 << bits;
            Ok(big_bytes(if negative { zero - packed } else { zero + packed }, size))
        }
        Datetime2 | Timestamp2 | Timestamp => {
            let expected =
                "expected \"YYYY-MM-DD hh:mm:ss\", with no more digits of a second than the column has";
            let (date, [hour, minute, second], micros) =
                moment(text, column.precision).ok_or_else(|| wrong(expected))?;
            let [year, month, day] = date;
            let fraction = big_bytes(micros / fraction_unit(column), fraction_bytes(column));
            if column.kind == Datetime2 {
                let packed =
                    ((year * 13 + month) << 5 | day) << 17 | hour << 12 | minute << 6 | second | 1 << 39;
                return Ok([big_bytes(packed, 5), fraction].concat());
            }
            let days = days_since_1970(date);
            let seconds = days.checked_mul(86_400).map(|days| days + hour * 3600 + minute * 60 + second);
            let seconds = seconds.and_then(|seconds| u32::try_from(seconds).ok());
            let seconds = seconds.ok_or_else(|| wrong("expected a time from 1970 to 2106, in UTC"))?;
            match column.kind {
                Timestamp => Ok(seconds.to_le_bytes().to_vec()),
                _ => Ok([seconds.to_be_bytes().to_vec(), fraction].concat()),
            }
        }
        Decimal | Decimalunsigned => {
            let unsigned = column.kind == Decimalunsigned;
            let digits = decimal_digits(column, text).filter(|(negative, _)| !(unsigned && *negative));
            let (negative, digits) =
                digits.ok_or_else(|| wrong("expected a decimal number that fits the column, not rounded"))?;
            Ok(decimal_bytes(column, negative, &digits))
        }
        Olddecimal | Olddecimalunsigned | Blob | Text => Err(wrong("a value of this type cannot be given")),
    }
}

// Bytes.

/// Without the blanks that fill it.
fn without_blanks(data: &[u8]) -> &[u8] {
    let length = data.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
    &data[..length]
}

/// A number of up to eight bytes, the low byte first.
fn little(data: &[u8]) -> u64 {
    data.iter().take(8).rev().fold(0, |number, &byte| number << 8 | byte as u64)
}

/// The same, below zero if its highest bit is set.
fn signed(data: &[u8]) -> i64 {
    let unused = 64 - 8 * data.len().clamp(1, 8);
    (little(data) << unused) as i64 >> unused
}

/// A number of up to eight bytes, the high byte first.
fn big(data: &[u8]) -> u64 {
    data.iter().take(8).fold(0, |number, &byte| number << 8 | byte as u64)
}

fn big_bytes(number: u64, bytes: usize) -> Vec<u8> {
    number.to_be_bytes()[8 - bytes.min(8)..].to_vec()
}

fn hexadecimal<'a>(data: impl Iterator<Item = &'a u8>) -> String {
    data.fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?.as_bytes();
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    pairs
        .iter()
        .map(|&[high, low]| {
            let digit = |byte: u8| (byte as char).to_digit(16);
            Some((digit(high)? << 4 | digit(low)?) as u8)
        })
        .collect()
}

fn bits(text: &str) -> Option<u64> {
    let (digits, radix) = match text.get(..2) {
        Some("0b" | "0B") => (&text[2..], 2),
        Some("0x" | "0X") => (&text[2..], 16),
        _ => (text, 10),
    };
    u64::from_str_radix(digits, radix).ok()
}

// Characters.

/// Whether a collation's characters are bytes of latin1.
fn is_latin1(column: &Column) -> bool {
    matches!(column.charset, 5 | 8 | 15 | 31 | 47 | 48 | 49 | 94)
}

fn quoted(column: &Column, data: &[u8]) -> String {
    let text = match is_latin1(column) {
        true => Ok(data.iter().map(|&byte| byte as char).collect()),
        false => String::from_utf8(data.to_vec()),
    };
    match text {
        Ok(text) => format!("'{}'", printable(&text).replace('\'', "\\'")),
        Err(_) => hexadecimal(data.iter()),
    }
}

/// Text that does nothing to a terminal: control characters and backslashes as escapes.
pub fn printable(text: &str) -> String {
    let escaped = |c: char| c.is_control() || c == '\\';
    text.chars().fold(String::new(), |mut out, c| {
        match escaped(c) {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
        out
    })
}

fn encoded(column: &Column, text: &str) -> Option<Vec<u8>> {
    match is_latin1(column) {
        true => text.chars().map(|c| u8::try_from(c as u32).ok()).collect(),
        false => Some(text.as_bytes().to_vec()),
    }
}

/// Data as a row holds it: behind its length, or filled up.
fn with_length(column: &Column, mut data: Vec<u8>, fill: u8) -> Option<Vec<u8>> {
    if data.len() > column.length as usize {
        return None;
    }
    let length = (data.len() as u16).to_le_bytes();
    match column.kind.array_type().length_bytes() as usize {
        0 => data.resize(column.length as usize, fill),
        bytes => drop(data.splice(..0, length[..bytes].iter().copied())),
    }
    Some(data)
}

// Dates and times. Seconds are in the low six bits, minutes in the next, hours above.

fn clock(packed: u64) -> String {
    format!("{:02}:{:02}:{:02}", packed >> 12, packed >> 6 & 63, packed & 63)
}

fn fraction_bytes(column: &Column) -> usize {
    if column.kind.has_fraction() { column.precision.min(6).div_ceil(2) as usize } else { 0 }
}

/// What one unit of a column's fraction is, in microseconds.
fn fraction_unit(column: &Column) -> u64 {
    100u64.pow(3 - fraction_bytes(column) as u32)
}

fn fraction(column: &Column, units: u64) -> String {
    let micros = format!("{:06}", (units * fraction_unit(column)) % 1_000_000);
    match column.precision.min(6) as usize {
        0 => String::new(),
        digits => format!(".{}", &micros[..digits]),
    }
}

/// Seconds since the start of 1970, as date and time.
fn instant(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years from March to February, in cycles of 400 years that begin on the first of March of year 0.
    let day = days + 719_468;
    let (cycle, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = (400 * cycle + year + (month >= 10) as u64, (month + 2) % 12 + 1);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60)
}

/// Days from the start of 1970 to a date; huge before it.
fn days_since_1970([year, month, day]: [u64; 3]) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year.wrapping_sub(1), month + 9) };
    let days = (365u64.wrapping_mul(year)).wrapping_add(year / 4).wrapping_sub(year / 100);
    let days = days.wrapping_add(year / 400).wrapping_add((153 * month + 2) / 5 + day);
    days.wrapping_sub(719_469)
}

/// Three numbers between separators, nothing else.
fn three(text: &str, separator: char) -> Option<[u64; 3]> {
    let mut parts = text.split(separator).map(|part| {
        let digits = (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| part.parse().ok()).flatten()
    });
    let all = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(all)
}

/// Year, month and day. Zero is a month and a day that MySQL knows.
fn date(text: &str) -> Option<[u64; 3]> {
    three(text, '-').filter(|[_, month, day]| *month <= 12 && *day <= 31)
}

/// Whether it is below zero, then hours, minutes and seconds, then microseconds of no more digits than given.
fn time(text: &str, most_hours: u64, digits: u32) -> Option<(bool, [u64; 3], u64)> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_fraction = fraction.bytes().all(|byte| byte.is_ascii_digit()) && fraction.len() <= digits as usize;
    let whole = three(whole, ':').filter(|[hour, minute, second]| {
        *hour <= most_hours && *minute <= 59 && *second <= 59 && is_fraction
    })?;
    let micros = format!("{fraction:0<6}").parse().ok()?;
    Some((negative, whole, micros))
}

/// A date, and a time of the day after a blank or a T; midnight if there is none.
fn moment(text: &str, digits: u32) -> Option<([u64; 3], [u64; 3], u64)> {
    let (day, rest) = text.split_once([' ', 'T']).unwrap_or((text, "0:0:0"));
    match time(rest, 23, digits)? {
        (false, whole, micros) => Some((date(day)?, whole, micros)),
        _ => None,
    }
}

// Decimals: nine digits in four bytes, fewer in as few as hold them; before the point the shorter group comes
// first.

/// Digits of each group, before the point and after it.
fn groups(column: &Column) -> impl Iterator<Item = usize> {
    let (whole, scale) = (column.precision.saturating_sub(column.scale) as usize, column.scale as usize);
    let before = [whole % 9].into_iter().chain(std::iter::repeat_n(9, whole / 9));
    let after = std::iter::repeat_n(9, scale / 9).chain([scale % 9]);
    before.chain(after).filter(|&digits| digits > 0)
}

fn digit_bytes(digits: usize) -> usize {
    digits.div_ceil(2).min(4)
}

fn decimal(column: &Column, data: &[u8]) -> String {
    let negative = data.first().is_some_and(|first| first & 0x80 == 0);
    let mut plain: Vec<u8> = data.iter().map(|&byte| if negative { !byte } else { byte }).collect();
    if let Some(first) = plain.first_mut() {
        *first ^= 0x80;
    }
    let (mut digits, mut rest) = (String::new(), &plain[..]);
    for count in groups(column) {
        let (group, after) = rest.split_at(digit_bytes(count).min(rest.len()));
        digits += &format!("{:0count$}", big(group) % 10u64.pow(count as u32));
        rest = after;
    }
    let (whole, fraction) = digits.split_at(digits.len().saturating_sub(column.scale as usize));
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        some => some,
    };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{}{whole}{point}{fraction}", if negative { "-" } else { "" })
}

/// Whether it is below zero, and as many digits as the column has.
fn decimal_digits(column: &Column, text: &str) -> Option<(bool, String)> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (before, after) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(before) || !is_number(after) || before.len() + after.len() == 0 {
        return None;
    }
    let (before, after) = (before.trim_start_matches('0'), after.trim_end_matches('0'));
    let scale = column.scale as usize;
    let whole = (column.precision as usize).checked_sub(scale)?;
    let fits = before.len() <= whole && after.len() <= scale;
    let digits = format!("{before:0>whole$}{after:0<scale$}");
    let negative = text.starts_with('-') && digits.bytes().any(|digit| digit != b'0');
    fits.then_some((negative, digits))
}

fn decimal_bytes(column: &Column, negative: bool, digits: &str) -> Vec<u8> {
    let (mut value, mut rest) = (Vec::new(), digits);
    for count in groups(column) {
        let (group, after) = rest.split_at(count);
        value.extend(big_bytes(group.parse().unwrap_or(0), digit_bytes(count)));
        rest = after;
    }
    if let Some(first) = value.first_mut() {
        *first ^= 0x80;
    }
    value.into_iter().map(|byte| if negative { !byte } else { byte }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iclaustron::wire::column::value_bytes;
    use proptest::prelude::*;

    fn column(kind: ColumnType, length: u32, precision: u32, scale: u32) -> Column {
        let array = kind.array_type();
        Column {
            name: b"c".to_vec(),
            id: 0,
            kind,
            array,
            length,
            precision,
            scale,
            charset: 0,
            nullable: false,
            primary_key: true,
            distribution_key: false,
            on_disk: false,
            dynamic: false,
            auto_increment: false,
            default: None,
            size: value_bytes(kind, array, length, precision, scale).unwrap(),
        }
    }

    fn of(kind: ColumnType) -> Column {
        match kind {
            kind if kind.is_decimal() => column(kind, 1, 12, 3),
            kind if kind.has_fraction() => column(kind, 1, 3, 0),
            ColumnType::Bit => column(kind, 9, 0, 0),
            ColumnType::Char | ColumnType::Varchar | ColumnType::Binary => column(kind, 6, 0, 0),
            ColumnType::Varbinary | ColumnType::Longvarbinary => column(kind, 6, 0, 0),
            ColumnType::Longvarchar => column(kind, 300, 0, 0),
            _ => column(kind, 1, 0, 0),
        }
    }

    #[test]
    fn values_come_back_as_they_are_written() {
        use ColumnType::*;
        for (kind, text) in [
            (Tinyint, "-128"),
            (Mediumint, "-8388608"),
            (Mediumunsigned, "16777215"),
            (Bigint, "-9223372036854775808"),
            (Bigunsigned, "18446744073709551615"),
            (Float, "1.5"),
            (Double, "-0.1"),
            (Char, "'ab c'"),
            (Varchar, "''"),
            (Longvarchar, "'Ωmega'"),
            (Binary, "0x00ff01020304"),
            (Varbinary, "0x"),
            (Longvarbinary, "0xab"),
            (Bit, "0b101000001"),
            (Year, "2155"),
            (Year, "0"),
            (Date, "2024-02-29"),
            (Date, "0000-00-00"),
            (Time, "-838:59:59"),
            (Datetime, "9999-12-31 23:59:59"),
            (Timestamp, "1970-01-01 00:00:00"),
            (Time2, "-00:00:00.001"),
            (Time2, "838:59:59.999"),
            (Datetime2, "1000-01-01 00:00:00.000"),
            (Timestamp2, "2106-02-07 06:28:15.120"),
            (Timestamp2, "2000-02-29 00:00:00.000"),
            (Decimal, "-123456789.125"),
            (Decimal, "0.000"),
            (Decimalunsigned, "7.100"),
        ] {
            let column = of(kind);
            let value = parse(&column, text.trim_matches('\'')).unwrap();
            assert_eq!(show(&column, &value), text, "{kind:?}");
        }
    }

    /// The bytes that tests/c/types.c has for the same.
    #[test]
    fn bytes_as_in_c() {
        use ColumnType::*;
        assert_eq!(parse(&of(Date), "2024-2-29").unwrap(), [0x5d, 0xd0, 0x0f]);
        assert_eq!(parse(&column(Time2, 1, 2, 0), "12:34:56.78").unwrap(), [0x80, 0xc8, 0xb8, 0x4e]);
        assert_eq!(parse(&of(Mediumint), "-2").unwrap(), [0xfe, 0xff, 0xff]);
        assert_eq!(parse(&column(Bit, 33, 0, 0), "0x102030405").unwrap(), [5, 4, 3, 2, 1, 0, 0, 0]);
    }

    #[test]
    fn what_is_no_value() {
        use ColumnType::*;
        for (kind, text) in [
            (Unsigned, "-1"),
            (Unsigned, "4294967296"),
            (Int, "1.5"),
            (Int, ""),
            (Double, "one"),
            (Varchar, "seven77"),
            (Binary, "ab"),
            (Binary, "0xabc"),
            (Bit, "512"),
            (Year, "1900"),
            (Date, "2024-13-01"),
            (Date, "yesterday"),
            (Datetime2, "2024-01-01 24:00:00"),
            (Datetime2, "2024-01-01 00:00:00.0001"),
            (Timestamp2, "1969-12-31 23:59:59"),
            (Timestamp2, "2107-01-01"),
            (Decimal, "1.2345"),
            (Decimal, "1234567890"),
            (Decimal, "."),
            (Decimalunsigned, "-1"),
        ] {
            let wrong = parse(&of(kind), text).unwrap_err();
            assert!(wrong.starts_with(&format!("{text:?} is no ")), "{wrong}");
        }
        assert_eq!(
            parse(&of(Tinyint), "x").unwrap_err(),
            "\"x\" is no Tinyint: expected a whole number from -128 to 127"
        );
    }

    #[test]
    fn nothing_reaches_the_terminal_but_text() {
        let varchar = of(ColumnType::Varchar);
        assert_eq!(show(&varchar, b"\x04a\x1b'\\"), r"'a\u{1b}\'\\'");
        assert_eq!(show(&varchar, b"\x02\xff\xfe"), "0xfffe");
        let latin1 = Column { charset: 8, ..varchar };
        assert_eq!(show(&latin1, b"\x01\xe9"), "'é'");
        assert_eq!(parse(&latin1, "é").unwrap(), b"\x01\xe9");
    }

    proptest! {
        /// Data nodes store what they are given.
        #[test]
        fn any_bytes_show(value in proptest::collection::vec(any::<u8>(), 0..400)) {
            for &kind in ColumnType::ALL {
                prop_assert!(!show(&of(kind), &value).contains(char::is_control), "{:?}", kind);
            }
        }

        #[test]
        fn any_text_is_a_value_or_not(text in "\\PC{0,12}|-?[0-9.:xb T-]{0,20}") {
            for &kind in ColumnType::ALL {
                let column = of(kind);
                if let Ok(value) = parse(&column, &text) {
                    let shown = show(&column, &value);
                    let again = parse(&column, shown.trim_matches('\''));
                    let same = !column.kind.is_character() && !shown.contains("NaN");
                    prop_assert!(!same || again == Ok(value), "{:?} {} {}", kind, text, shown);
                }
            }
        }

        #[test]
        fn timestamps_come_back(seconds in any::<u32>()) {
            let column = of(ColumnType::Timestamp);
            let value = seconds.to_le_bytes();
            prop_assert_eq!(parse(&column, &show(&column, &value)).unwrap(), value);
        }

        #[test]
        fn decimals_come_back(scale in 0u32..=30, more in 0u32..=35, digits in "[0-9]{65}", negative: bool) {
            let column = column(ColumnType::Decimal, 1, (scale + more).max(1), scale);
            let whole = (column.precision - scale) as usize;
            let sign = if negative { "-" } else { "" };
            let text = format!("{sign}{}.{}", &digits[..whole], &digits[whole..column.precision as usize]);
            let value = parse(&column, &text).unwrap();
            prop_assert_eq!(value.len(), column.size as usize);
            prop_assert_eq!(parse(&column, &show(&column, &value)).unwrap(), value);
        }
    }
}
