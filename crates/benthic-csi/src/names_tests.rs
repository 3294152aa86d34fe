use super::{for_clone, internal, is_for_clone, snapshot, volume};

#[test]
fn names_are_valid_short_and_different() {
    assert_eq!(internal("pvc-1"), "csi-pvc-1");
    assert_eq!(internal("a/b@c%\u{e9} "), "csi-a%2Fb%40c%25%C3%A9%20");
    let long = "x".repeat(128);
    assert_eq!(internal(&long).len(), "csi~".len() + 32);
    assert_ne!(internal(&long), internal(&long[1..]));
    for name in ["-", "a/b@c", &long] {
        let id = format!("pool/{}", internal(name));
        assert_eq!(volume(&id).unwrap().to_string(), id);
        let id = format!("{id}@{}", internal("snap"));
        assert_eq!(snapshot(&id).unwrap().1, "csi-snap");
    }
    assert!(is_for_clone(&for_clone(&internal("x"))));
    for id in ["", "p", "p/i", "p/csi-a@csi-b", "p/csi-a/b"] {
        assert!(volume(id).is_none(), "{id}");
    }
    assert!(snapshot("p/csi-a").is_none() && snapshot("p/csi-a@b").is_none());
}
