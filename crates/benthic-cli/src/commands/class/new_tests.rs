use super::check_name;

#[test]
fn invalid_and_taken_class_names_are_refused() {
    for name in ["mydigest", "my_digest", "x", "sha3_256bit", &"x".repeat(62)] {
        assert!(check_name(name).is_ok(), "{name}");
    }
    for name in [
        "",
        "Lock",
        "1x",
        "_x",
        "a-b",
        "a/b",
        "..",
        "é",
        "lock",
        "hello",
        "digest",
        "benthic",
        "my_1",
        &"x".repeat(63),
    ] {
        assert!(check_name(name).is_err(), "{name}");
    }
}
