use super::parse;
use serde_json::json;

#[test]
fn spaces_make_the_tree() {
    let plan = parse(
        "Sort: a: b\n  Join\n    Left: x, metrics=[output_rows=2, elapsed=1.5ms]\n    Right\n  Other:\n",
    );
    assert_eq!(plan.len(), 1);
    let sort = &plan[0];
    assert_eq!((&sort["name"], &sort["details"]), (&json!("Sort"), &json!("a: b")));
    assert_eq!(sort["children"].as_array().unwrap().len(), 2);
    assert_eq!(sort["children"][1]["name"], "Other");
    let left = &sort["children"][0]["children"][0];
    assert_eq!(
        (&left["name"], &left["details"], &left["place"]),
        (&json!("Left"), &json!("x"), &json!("client"))
    );
    assert_eq!(left["metrics"], json!({ "output_rows": "2", "elapsed": "1.5ms" }));
}

#[test]
fn fragments_show_where_they_ran() {
    let fragment = |metrics: &str| {
        let line = format!(
            "FragmentExec: objects=3, objects_pruned=1, beside each: AggregateExec: mode=Partial <- FilterExec: a > 1 <- \
             ParquetExec{metrics}"
        );
        parse(&line).remove(0)
    };
    let planned = fragment("");
    assert_eq!(
        (&planned["place"], &planned["details"]),
        (&json!("objects"), &json!("objects=3, objects_pruned=1"))
    );
    let names: Vec<_> = std::iter::successors(Some(&planned), |node| node["children"].get(0))
        .map(|node| node["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["FragmentExec", "AggregateExec", "FilterExec", "ParquetExec"]);
    assert_eq!(planned["children"][0]["children"][0]["details"], "a > 1");
    for (metrics, place) in [
        ("objects_pushed=3", "objects"),
        ("objects_pulled=3", "client"),
        ("objects_pushed=0, objects_pulled=3", "client"),
        ("objects_pushed=1, objects_pulled=2", "both"),
    ] {
        let ran = fragment(&format!(", metrics=[{metrics}, bytes_moved=12]"));
        assert_eq!(
            (&ran["place"], &ran["children"][0]["place"]),
            (&json!(place), &json!(place)),
            "{metrics}"
        );
        assert_eq!(ran["metrics"]["bytes_moved"], "12");
    }
}

#[test]
fn odd_text_is_a_plan_too() {
    assert_eq!(parse(""), Vec::<serde_json::Value>::new());
    assert_eq!(parse("\n \n"), Vec::<serde_json::Value>::new());
    let odd = parse("    deep\n  less\n, metrics=[]\n<img src=x>");
    assert_eq!(odd.len(), 4);
    let deep: String = (0..3_000).map(|depth| format!("{}n\n", " ".repeat(depth))).collect();
    assert_eq!(parse(&deep).len(), 1);
}
