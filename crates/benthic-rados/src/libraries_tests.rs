use super::{CLASSES_MAX, ClassInfo, DESCRIBE, Libraries, LibraryClass, library_of};
use benthic_core::ManualClock;
use std::sync::Arc;

#[test]
fn the_query_has_the_name_in_the_contract() {
    assert_eq!(DESCRIBE.to_str().unwrap(), benthic_core::DESCRIBE);
}

fn libraries() -> Libraries {
    Libraries::new(Arc::new(ManualClock::default()))
}

fn found() -> LibraryClass {
    let class = r#"{"class":"c","version":1,"build":"","summary":"","methods":[{"method":"m","reads":true,
            "writes":false,"result_xattr":null,"summary":"","input":"","output":"","examples":[]}]}"#;
    let class: ClassInfo = serde_json::from_str(class).unwrap();
    LibraryClass { library: "c_1".to_owned(), class }
}

#[test]
fn an_invalidated_entry_serves_until_it_is_refreshed() {
    let libraries = libraries();
    assert!(libraries.begin_refresh("c", Some("m")));
    libraries.insert("c", None);
    assert!(!libraries.begin_refresh("c", Some("m")), "a miss is remembered");
    libraries.invalidate("c");
    assert!(libraries.begin_refresh("c", Some("m")));
    assert!(!libraries.begin_refresh("c", Some("m")), "only one caller refreshes the entry");
    libraries.insert("c", Some(found()));
    assert!(!libraries.begin_refresh("c", Some("m")) && !libraries.begin_refresh("c", None));
    assert!(libraries.begin_refresh("c", Some("new")), "a later build may have it");
    libraries.invalidate("c");
    libraries.insert("c", None);
    assert!(libraries.get("c").is_some(), "one OSD without the library");
}

#[test]
fn misses_make_room_for_libraries() {
    let libraries = libraries();
    libraries.insert("c", Some(found()));
    for miss in 0..2 * CLASSES_MAX {
        libraries.insert(&miss.to_string(), None);
    }
    assert!(libraries.cache.lock().len() <= CLASSES_MAX && libraries.get("c").is_some());
}

#[test]
fn a_class_is_in_the_library_of_its_name_and_version() {
    assert_eq!(library_of("mydigest"), ("mydigest_1".to_owned(), "mydigest"));
    assert_eq!(library_of("mydigest_2"), ("mydigest_2".to_owned(), "mydigest"));
    assert_eq!(library_of("my_digest"), ("my_digest_1".to_owned(), "my_digest"));
    assert_eq!(library_of("a_"), ("a__1".to_owned(), "a_"));
    assert_eq!(library_of("a_1b"), ("a_1b_1".to_owned(), "a_1b"));
}
