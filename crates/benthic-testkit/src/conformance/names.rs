//! Object names are data. An engine never interprets them as file paths.

use super::Case;
use super::support::ObjectContent;
use benthic_core::ObjectId;

pub(super) async fn every_name_is_a_separate_object(case: &Case<'_>) {
    let names = [
        "a",
        "A",
        "a ",
        " a",
        "a/",
        "/a",
        "a/b",
        "a//b",
        "a/../b",
        ".",
        "..",
        "../..",
        "-a",
        "--all",
        "*",
        "?",
        "%2e",
        "%",
        "a\n",
        "\n",
        "\t",
        "\u{1}",
        "\u{7f}",
        "\"",
        "'",
        "\\",
        "a\\b",
        "a:b",
        ":a",
        "~",
        "$HOME",
        "é",
        "e\u{301}",
        "日本語",
        "😀",
        "\u{feff}",
        "\u{202e}",
        "\u{10ffff}",
        "_",
        "a_b",
        "a@b",
        "con",
        "nul",
        "0",
        "-1",
    ];
    for name in names {
        case.pool.write_full(&case.object(name), name).await.unwrap();
    }
    for name in names {
        assert_eq!(case.state(&case.object(name)).await, Some(ObjectContent::data(name)), "{name:?}");
    }
    let pages = case.list_pages(&case.list_request(), None).await;
    let mut listed: Vec<_> = pages.iter().flat_map(|page| &page.objects).map(ObjectId::name).collect();
    listed.sort_unstable();
    let mut expected = names.to_vec();
    expected.sort_unstable();
    assert_eq!(listed, expected);
    case.pool.remove(&case.object("a/../b")).await.unwrap();
    assert_eq!(case.state(&case.object("b")).await, None);
    assert_eq!(case.state(&case.object("a/b")).await, Some(ObjectContent::data("a/b")));
}

pub(super) async fn long_names_differ_in_their_last_byte(case: &Case<'_>) {
    let long = "x".repeat(2_047);
    let names = ["a", "b", ""].map(|last| format!("{long}{last}"));
    for name in &names {
        let object = ObjectId::in_namespace(case.namespace(), name.clone()).unwrap();
        case.pool.write_full(&object, name[2_040..].to_owned()).await.unwrap();
    }
    for name in &names {
        let object = ObjectId::in_namespace(case.namespace(), name.clone()).unwrap();
        assert_eq!(case.state(&object).await, Some(ObjectContent::data(name[2_040..].to_owned())));
    }
}

pub(super) async fn a_pool_returns_its_name(case: &Case<'_>) {
    let pools = case.store.list_pools().await.unwrap();
    assert!(pools.iter().any(|name| name == case.pool.name()), "{} in {pools:?}", case.pool.name());
}
