use super::Pieces;
use benthic_testkit::random::Rng;
use bytes::Bytes;

#[test]
fn the_newest_write_wins() {
    let mut pieces = Pieces::default();
    let mut expected = vec![b'.'; 64];
    let mut random = Rng(1);
    for round in 0..3_000_u64 {
        let (from, len) = (random.below(60), random.below(8));
        let to = (from + len).min(64);
        match random.below(4) {
            0 => {
                pieces.truncate(from as u64);
                expected[from..].fill(b'.');
            }
            1 => {
                pieces.zero(from as u64, (to - from) as u64);
                expected[from..to].fill(0);
            }
            _ => {
                let byte = b'a' + (round % 26) as u8;
                pieces.write(from as u64, Bytes::from(vec![byte; to - from]));
                expected[from..to].fill(byte);
            }
        }
        let mut buffer = vec![b'.'; 64];
        pieces.overlay(0, &mut buffer);
        assert_eq!(buffer, expected, "round {round}");
        let mut part = vec![b'.'; 20];
        pieces.overlay(30, &mut part);
        assert_eq!(part, expected[30..50], "round {round}");
        assert_eq!(
            pieces.iter().map(|(_, len, _)| len).sum::<u64>() as usize,
            expected.iter().filter(|b| **b != b'.').count()
        );
    }
}
