use super::Keys;

#[test]
fn files_of_keys() {
    let key = "00ff".repeat(8);
    let keys = Keys::parse(&format!("alice:{key}\n\nbob:{}\n", key.to_uppercase())).unwrap_or_default();
    assert_eq!(keys.find(b"alice"), Some(&[0, 255].repeat(8)[..]));
    assert_eq!(keys.find(b"alice"), keys.find(b"bob"));
    assert_eq!(keys.find(b"carol"), None);
    let long = "a".repeat(129);
    for bad in [
        String::new(),
        "alice".to_owned(),
        format!(":{key}"),
        format!("{long}:{key}"),
        format!("alice:{key}0"),
        format!("alice:{key}\nalice:{key}"),
        format!("alice:{}", "+f".repeat(16)),
        format!("alice:{}", "é".repeat(16)),
        format!("alice:{}", "0f".repeat(15)),
        format!("alice:{}", "0f".repeat(65)),
    ] {
        let error = Keys::parse(&bad).err().unwrap_or_default();
        assert!(!error.is_empty() && !error.contains("0f"), "{bad}: {error}");
    }
}
