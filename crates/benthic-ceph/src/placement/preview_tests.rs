use super::{osds, parse_mappings};

#[test]
fn the_output_of_the_tools_is_parsed() {
    let dump =
        "pool 2 pg_num 2\n2.0\t[2,1,3]\t2\n2.1f\t[3,3]\t3\n#osd\tcount\tfirst\nosd.0\t1\t0\nsize 3\t1\n";
    let mappings = parse_mappings(dump);
    assert_eq!(mappings.len(), 2);
    assert_eq!((&mappings["2.0"][..], &mappings["2.1f"][..]), (&[2, 1, 3][..], &[3, 3][..]));
    assert_eq!(osds("CRUSH rule 0 x 1 [0,4,2]"), Some(vec![0, 4, 2]));
    assert_eq!(osds("CRUSH rule 0 x 2 []"), Some(vec![]));
    assert_eq!(osds("osd.0"), None);
}
