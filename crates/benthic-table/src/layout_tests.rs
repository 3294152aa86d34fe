use super::{Codec, Layout, LayoutChange};
use crate::schema::tests::every_type;
use benthic_core::ErrorKind;

#[test]
fn codecs_have_names() {
    for (text, codec) in [
        ("none", Codec::None),
        ("snappy", Codec::Snappy),
        ("lz4", Codec::Lz4),
        ("zstd:1", Codec::Zstd { level: 1 }),
        ("zstd:19", Codec::Zstd { level: 19 }),
    ] {
        assert_eq!(text.parse::<Codec>().unwrap(), codec);
        assert_eq!(codec.to_string(), text);
        codec.compression().unwrap();
    }
    assert_eq!("zstd".parse::<Codec>().unwrap(), Codec::Zstd { level: 3 });
    for text in ["", "gzip", "ZSTD", "zstd:", "zstd:0", "zstd:20", "zstd:-1", "zstd:x", "zstd:99999999999"] {
        assert_eq!(text.parse::<Codec>().unwrap_err().kind(), ErrorKind::InvalidArgument, "{text:?}");
    }
}

#[test]
fn a_change_leaves_the_rest_and_refuses_what_does_not_fit() {
    let schema = every_type();
    let flat = |column: &&crate::schema::Column| !column.data_type.is_nested();
    let name = |is_flat: bool| {
        let found = schema.columns().iter().find(|column| flat(column) == is_flat).unwrap();
        (found.id, found.name.clone())
    };
    let (id, column) = name(true);
    let base = Layout { object_bytes: 2 << 20, ..Layout::default() };
    let sorted = LayoutChange { sort: Some(vec![column.clone()]), ..LayoutChange::default() };
    assert_eq!(base.with(&LayoutChange::default(), &schema).unwrap(), base);
    assert_eq!(base.with(&sorted, &schema).unwrap(), Layout { sort: vec![id], ..base.clone() });
    // Older builds could store a column twice.
    let twice = Layout { sort: vec![id, id], ..base.clone() };
    let rewritten = twice.with(&LayoutChange { codec: Some(Codec::Lz4), ..LayoutChange::default() }, &schema);
    assert_eq!(rewritten.unwrap(), Layout { sort: vec![id], codec: Codec::Lz4, ..base.clone() });
    let wrong = [
        LayoutChange { sort: Some(vec![name(false).1]), ..LayoutChange::default() },
        LayoutChange { sort: Some(vec!["no such".to_owned()]), ..LayoutChange::default() },
        LayoutChange { sort: Some(vec![column.clone(), column]), ..LayoutChange::default() },
        LayoutChange { object_bytes: Some(1), ..LayoutChange::default() },
        LayoutChange { object_bytes: Some(65 << 20), ..LayoutChange::default() },
        LayoutChange { row_group_bytes: Some(1), ..LayoutChange::default() },
        LayoutChange { row_group_bytes: Some(65 << 20), ..LayoutChange::default() },
        LayoutChange { codec: Some(Codec::Zstd { level: 22 }), ..LayoutChange::default() },
    ];
    for change in wrong {
        let error = base.with(&change, &schema).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{change:?} {error}");
    }
}

/// A layout without Bloom filters has the text from before them. Otherwise a rewrite would write
/// older objects again.
#[test]
fn a_layout_without_bloom_filters_has_the_older_text() {
    let layout = Layout { sort: vec![2, 1], ..Layout::default() };
    let text = "codec=snappy row_group_bytes=8388608 object_bytes=33554432 sort=2,1";
    assert_eq!(layout.to_string(), text);
    let filtered = Layout { bloom: vec![3, 4], ..layout.clone() };
    assert_eq!(filtered.to_string(), format!("{text} bloom=3,4"));
    let grouped = Layout { groups: vec![vec![3, 4], vec![5]], ..layout };
    assert_eq!(grouped.to_string(), format!("{text} groups=3,4;5"));
}
