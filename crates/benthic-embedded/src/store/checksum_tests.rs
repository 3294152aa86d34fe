use super::crc32c;
use benthic_testkit::random::Rng;

#[test]
fn it_is_the_checksum_of_an_independent_implementation() {
    let mut random = Rng(1);
    let data: Vec<u8> = (0..70_000).map(|_| random.below(256) as u8).collect();
    for number in 0..1_400 {
        let (from, len) = (random.below(9), if number < 1_200 { number } else { random.below(69_000) });
        let data = &data[from..from + len];
        let (head, tail) = data.split_at(random.below(len + 1));
        let expected = crc32c::crc32c(data);
        assert_eq!((crc32c(&[data]), crc32c(&[head, tail])), (expected, expected), "{from}, {len}");
    }
}
