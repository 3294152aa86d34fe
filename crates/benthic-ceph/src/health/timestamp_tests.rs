use super::unix_s;

#[test]
fn a_time_is_seconds_since_1970() {
    assert_eq!(unix_s("1970-01-01T00:00:00.000000+0000"), Some(0));
    assert_eq!(unix_s("2026-11-23T07:24:34.509725+0000"), Some(1_795_418_674));
    assert_eq!(unix_s("2026-11-23T08:24:34.509725+0100"), Some(1_795_418_674));
    assert_eq!(unix_s("2026-11-23T07:24:34.421330Z"), Some(1_795_418_674));
    assert_eq!(unix_s("2024-02-29T00:00:00+0000"), Some(1_709_164_800));
}

#[test]
fn invalid_time_stamps_are_none() {
    for text in
        ["", "0.000000", "now", "2026-11-23", "2026-13-23T07:24:34", "2026-11-23T07:24", "é-1-1T00:00:00"]
    {
        assert_eq!(unix_s(text), None, "{text}");
    }
    assert_eq!(unix_s("2026-11-23T07:24:3é"), None);
    assert_eq!(unix_s("2026-11-23T07:24:34+1"), None);
}
