//! Attributes: the columns of ATTRINFO and of rows, each under a header of its own, or all together in the
//! packed form. Source: storage/ndb/include/kernel/AttributeHeader.hpp,
//! src/kernel/blocks/dbtup/DbtupRoutines.cpp.
//!
//! A data node stops for some pseudo columns with data of an unexpected length, so only what is known to be
//! harmless is encoded.

pub mod packed;

use super::signal::EncodeError;

/// Columns that a table can have.
pub const MAX_COLUMNS: usize = 512;

macro_rules! pseudo_columns {
    ($($(#[doc = $doc:literal])* $name:ident = $id:literal;)*) => {
        /// Ids of what is no column but is read or written like one.
        pub mod pseudo {
            $($(#[doc = $doc])* pub const $name: u16 = $id;)*
        }
    };
}

pseudo_columns! {
    /// The row's fragment: 4 bytes.
    FRAGMENT = 0xfffe;
    /// Rows in the fragment: 8 bytes.
    ROW_COUNT = 0xfffd;
    /// Commits in the fragment: 8 bytes.
    COMMIT_COUNT = 0xfffc;
    /// Number of the range of a scan: 4 bytes.
    RANGE_NO = 0xfffb;
    /// Size of the row's fixed part: 4 bytes.
    ROW_SIZE = 0xfffa;
    /// Memory of the fragment's fixed parts: 8 bytes.
    FRAGMENT_FIXED_MEMORY = 0xfff9;
    /// The row's place: 8 bytes.
    ROWID = 0xfff6;
    /// The global checkpoint of the row's last change: 8 bytes, or none.
    ROW_GCI = 0xfff5;
    /// Memory of the fragment's variable parts: 8 bytes.
    FRAGMENT_VARSIZED_MEMORY = 0xfff4;
    /// Several columns in the packed form: see [`super::packed`].
    READ_PACKED = 0xfff3;
    /// A word that goes with a change to whoever listens for changes.
    ANY_VALUE = 0xfff2;
    /// All columns in the packed form.
    READ_ALL = 0xfff0;
    /// What a later unlock names: 12 bytes.
    LOCK_REF = 0xffee;
    /// The operation inside the node: 8 bytes.
    OP_ID = 0xffed;
    /// Disk space of the fragment's extents: 8 bytes.
    FRAGMENT_EXTENT_SPACE = 0xffec;
    /// Free disk space in them: 8 bytes.
    FRAGMENT_FREE_EXTENT_SPACE = 0xffeb;
    /// The epoch of the row's last change: 8 bytes, or none.
    ROW_GCI64 = 0xffe7;
    /// Who changed the row last: 4 bytes, or none.
    ROW_AUTHOR = 0xffe6;
}

/// Bytes that were received are not attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttributeError;

/// A column's id and the length of its value in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttributeHeader(pub u32);

impl AttributeHeader {
    /// The header of a value; length 0 is NULL, or "read this" in a request.
    #[inline]
    pub const fn new(id: u16, bytes: u16) -> Self {
        AttributeHeader((id as u32) << 16 | bytes as u32)
    }

    /// The column's id.
    #[inline]
    pub const fn id(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The value's length in bytes, padding not counted.
    #[inline]
    pub const fn bytes(self) -> usize {
        (self.0 & 0xffff) as usize
    }
}

/// The attributes of a row whose columns were asked for one by one: id and value, an empty value for NULL.
/// After an error nothing more comes.
#[derive(Debug, Clone)]
pub struct Attributes<'a>(&'a [u32]);

impl<'a> Attributes<'a> {
    /// The attributes in `words`.
    #[inline]
    pub fn new(words: &'a [u32]) -> Self {
        Attributes(words)
    }

    /// The words that were not looked at yet.
    pub fn rest(&self) -> &'a [u32] {
        self.0
    }

    #[inline]
    fn split(&mut self) -> Option<(u16, &'a [u8])> {
        let (&head, rest) = self.0.split_first()?;
        let head = AttributeHeader(head);
        // The packed form's header counts only its mask: what follows is for [`packed::PackedRow`] to tell.
        if head.id() == pseudo::READ_PACKED {
            return None;
        }
        let (value, rest) = rest.split_at_checked(head.bytes().div_ceil(4))?;
        self.0 = rest;
        Some((head.id(), bytemuck::cast_slice(value).get(..head.bytes())?))
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<(u16, &'a [u8]), AttributeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let next = self.split().ok_or(AttributeError);
        if next.is_err() {
            self.0 = &[];
        }
        Some(next)
    }
}

impl std::iter::FusedIterator for Attributes<'_> {}

/// Appends the wish to read column `id`, or a pseudo column that can be read like one.
#[inline]
pub fn push_read(out: &mut Vec<u32>, id: u16) -> Result<(), EncodeError> {
    use pseudo::*;
    let readable = match id {
        FRAGMENT | ROW_COUNT | COMMIT_COUNT | RANGE_NO | ROW_SIZE | ROWID | ROW_GCI | LOCK_REF | OP_ID => {
            true
        }
        FRAGMENT_FIXED_MEMORY | FRAGMENT_VARSIZED_MEMORY => true,
        FRAGMENT_EXTENT_SPACE | FRAGMENT_FREE_EXTENT_SPACE | ROW_GCI64 | ROW_AUTHOR => true,
        _ => (id as usize) < MAX_COLUMNS,
    };
    if !readable {
        return Err(EncodeError::Data);
    }
    out.push(AttributeHeader::new(id, 0).0);
    Ok(())
}

/// Appends a column's value. The bytes of a variable-length value begin with its length.
#[inline]
pub fn push_value(out: &mut Vec<u32>, id: u16, bytes: &[u8]) -> Result<(), EncodeError> {
    let writable = match id {
        pseudo::ANY_VALUE | pseudo::ROW_AUTHOR => bytes.len() == 4,
        pseudo::ROW_GCI64 => bytes.len() == 8,
        _ => (id as usize) < MAX_COLUMNS,
    };
    let length = u16::try_from(bytes.len()).map_err(|_| EncodeError::Length)?;
    if !writable || length == 0 {
        return Err(EncodeError::Data);
    }
    out.push(AttributeHeader::new(id, length).0);
    push_bytes(out, bytes);
    Ok(())
}

/// Appends a column's value NULL.
#[inline]
pub fn push_null(out: &mut Vec<u32>, id: u16) -> Result<(), EncodeError> {
    if id as usize >= MAX_COLUMNS {
        return Err(EncodeError::Data);
    }
    out.push(AttributeHeader::new(id, 0).0);
    Ok(())
}

/// Appends bytes, padded with zero to whole words.
#[inline]
pub fn push_bytes(out: &mut Vec<u32>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(4), 0);
    let words = out.get_mut(start..).unwrap_or_default();
    if let Some(target) = bytemuck::cast_slice_mut(words).get_mut(..bytes.len()) {
        target.copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_padded_with_zero() {
        let mut out = Vec::new();
        push_value(&mut out, 2, b"\x05hello").unwrap();
        push_null(&mut out, 3).unwrap();
        push_read(&mut out, pseudo::FRAGMENT).unwrap();
        assert_eq!(out, [0x20006, 0x6c65_6805, 0x6f6c, 0x30000, 0xfffe_0000]);
    }

    #[test]
    fn lengths_that_stop_a_node_are_refused() {
        let mut out = Vec::new();
        for (id, good) in [(pseudo::ANY_VALUE, 4), (pseudo::ROW_AUTHOR, 4), (pseudo::ROW_GCI64, 8)] {
            for length in 0..20 {
                assert_eq!(push_value(&mut out, id, &[1; 20][..length]).is_ok(), length == good);
            }
        }
        out.clear();
        for id in MAX_COLUMNS as u16..=u16::MAX {
            let known = [pseudo::ANY_VALUE, pseudo::ROW_AUTHOR, pseudo::ROW_GCI64].contains(&id);
            assert!(known || push_value(&mut out, id, &[1; 8]).is_err(), "{id:x}");
            assert!(push_null(&mut out, id).is_err());
        }
        for id in
            [pseudo::READ_PACKED, pseudo::READ_ALL, pseudo::ANY_VALUE, 0xffea, 0xffef, 0xfff1, 0xfff7, 512]
        {
            assert_eq!(push_read(&mut out, id), Err(EncodeError::Data));
        }
        assert_eq!(push_value(&mut out, 1, &[]), Err(EncodeError::Data));
        assert_eq!(push_value(&mut out, 1, &[0; 65536]), Err(EncodeError::Length));
        assert!(out.is_empty());
    }

    #[test]
    fn the_packed_form_is_not_walked_blindly() {
        let mut attributes = Attributes::new(&[0x10004, 7, 0xfff3_0004, 1, 2]);
        assert_eq!(attributes.next(), Some(Ok((1, &[7, 0, 0, 0][..]))));
        assert_eq!(attributes.rest().len(), 3);
        assert_eq!(attributes.next(), Some(Err(AttributeError)));
        assert_eq!(attributes.next(), None);
    }

    proptest! {
        #[test]
        fn values_come_back(
            values in prop::collection::vec((0..512u16, prop::collection::vec(any::<u8>(), 0..40)), 0..10),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut out = Vec::new();
            for (id, bytes) in &values {
                match &bytes[..] {
                    [] => push_null(&mut out, *id).unwrap(),
                    bytes => push_value(&mut out, *id, bytes).unwrap(),
                }
            }
            let owned = |(id, bytes): (u16, &[u8])| (id, bytes.to_vec());
            let found: Vec<_> = Attributes::new(&out).map(|a| a.map(owned)).collect();
            prop_assert_eq!(found, values.into_iter().map(Ok).collect::<Vec<_>>());
            if !out.is_empty() {
                let cut = &out[..cut.index(out.len())];
                let good: usize = Attributes::new(cut).flatten().map(|(_, b)| 1 + b.len().div_ceil(4)).sum();
                prop_assert_eq!(Attributes::new(cut).any(|a| a.is_err()), good != cut.len());
            }
        }

        #[test]
        fn any_words_end(words in prop::collection::vec(any::<u32>(), 0..60)) {
            prop_assert!(Attributes::new(&words).count() <= words.len());
        }
    }
}
