use super::Places;

fn places(from: &[&str], via: Option<&str>) -> Places {
    Places { from: from.iter().map(ToString::to_string).collect(), via: via.map(ToOwned::to_owned) }
}

#[test]
fn invalid_places_are_refused() {
    assert!(places(&["um", "msu"], Some("ssh {}")).check().is_ok());
    for (from, via) in [(vec!["um", "um"], None), (vec!["", "um"], None), (vec!["um"], Some("ssh um"))] {
        assert!(places(&from, via).check().is_err(), "{from:?} {via:?}");
    }
    assert!(places(&vec!["x"; 65], None).check().is_err());
}
