//! Carriers: several short signals of one number and one sender in one message to
//! [`super::block::API_PACKED`]. Source: storage/ndb/src/common/transporter/Packer.cpp,
//! src/ndbapi/TransporterFacade.cpp.

/// A carrier whose packets do not fill it exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedError;

/// The packets of a carrier's data words: receiver block and data words of each. After an error nothing more
/// comes.
#[derive(Debug, Clone)]
pub struct Packets<'a>(&'a [u32]);

impl<'a> Packets<'a> {
    /// The packets in a carrier's data words.
    #[inline]
    pub fn new(data: &'a [u32]) -> Self {
        Packets(data)
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Result<(u16, &'a [u32]), PackedError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (&head, rest) = self.0.split_first()?;
        let length = (head & 0x1f) as usize + 3;
        let packet = rest.split_at_checked(length);
        self.0 = packet.map_or(&[], |(_, rest)| rest);
        Some(packet.map(|(data, _)| ((head >> 16) as u16, data)).ok_or(PackedError))
    }
}

impl std::iter::FusedIterator for Packets<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pack(packets: &[(u16, Vec<u32>)]) -> Vec<u32> {
        let head = |receiver: u16, data: &[u32]| (receiver as u32) << 16 | (data.len() - 3) as u32;
        packets.iter().flat_map(|(r, d)| [&[head(*r, d)], &d[..]].concat()).collect()
    }

    #[test]
    fn an_overlong_packet_ends_the_carrier() {
        let mut packets = Packets::new(&[0x8000_0000, 1, 2, 3, 0x8000_0001, 4, 5, 6]);
        assert_eq!(packets.next(), Some(Ok((0x8000, &[1, 2, 3][..]))));
        assert_eq!(packets.next(), Some(Err(PackedError)));
        assert_eq!(packets.next(), None);
    }

    proptest! {
        #[test]
        fn packets_come_back(
            packets in prop::collection::vec(
                (any::<u16>(), prop::collection::vec(any::<u32>(), 3..35)),
                0..8,
            ),
            cut in any::<prop::sample::Index>(),
        ) {
            let words = pack(&packets);
            let found: Vec<_> = Packets::new(&words).map(|p| p.map(|(r, d)| (r, d.to_vec()))).collect();
            prop_assert_eq!(found, packets.into_iter().map(Ok).collect::<Vec<_>>());
            if !words.is_empty() {
                let cut = cut.index(words.len());
                let good: usize = Packets::new(&words[..cut]).flatten().map(|(_, data)| 1 + data.len()).sum();
                prop_assert_eq!(Packets::new(&words[..cut]).any(|p| p.is_err()), good != cut);
            }
        }
    }
}
