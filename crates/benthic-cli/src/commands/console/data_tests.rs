use super::disposition;

#[test]
fn the_file_name_is_the_escaped_last_part() {
    for (name, expected) in [
        ("a/b/cat.jpg", "cat.jpg"),
        ("a/", "a"),
        ("/", "object"),
        ("..\\..\r\nset-cookie: x=\"1\"", "..%5C..%0D%0Aset-cookie%3A%20x%3D%221%22"),
        ("gr\u{fc}n", "gr%C3%BCn"),
    ] {
        assert_eq!(disposition(name), format!("attachment; filename*=UTF-8''{expected}"));
    }
}
