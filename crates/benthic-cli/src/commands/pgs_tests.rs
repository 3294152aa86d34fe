use super::{share, suggestion};
use benthic_ceph::pgs::{Basis, PoolShare};

#[test]
fn advice_states_its_assumption() {
    let mut pool = PoolShare {
        pool: "photos".to_owned(),
        pg_num: 32,
        replicas: 3,
        data_bytes: Some(1),
        data_share: 0.5,
        basis: Basis::Assumed,
        replica_share: 1.0,
        suggested: Some(64),
        no_advice: None,
        autoscaler: None,
    };
    let line = suggestion(&pool);
    assert!(
        line.starts_with("ceph osd pool set photos pg_num 64   # 32 now, 50.0% of the data, if "),
        "{line}"
    );
    assert!(line.contains("equal shares") && line.contains("less than 1 GiB"), "{line}");
    (pool.suggested, pool.no_advice, pool.basis) = (None, Some("it is empty"), Basis::Unknown);
    let line = suggestion(&pool);
    assert!(line.starts_with("# photos: no advice, because it is empty; --share "), "{line}");
}

#[test]
fn shares_parse() {
    assert_eq!(share("a=b=25"), Ok(("a=b".to_owned(), 0.25)));
    assert_eq!(share("a=12.5%"), Ok(("a".to_owned(), 0.125)));
    for text in ["a", "a=", "a=-1", "a=101", "a=NaN", "a=x"] {
        assert!(share(text).is_err(), "{text}");
    }
}
