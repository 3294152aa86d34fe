use super::{is_gone, place, this_program};
use benthic_classes::lock::wire::ListedHolder;

#[test]
fn only_a_dead_program_of_this_machine_is_gone() {
    let gone = |owner: &str, cookie: String| {
        is_gone(&ListedHolder { owner: owner.to_owned(), cookie, left_ms: None })
    };
    let here = format!("0123456789abcdef {}", place());
    // The kernel's limit of process numbers is 2^22.
    assert!(gone("host process 4194305", here.clone()));
    assert!(!gone(&this_program(), here.clone()));
    for owner in ["host process", "host process x", "host process 0", "host process -5", ""] {
        assert!(!gone(owner, here.clone()), "{owner}");
    }
    assert!(!gone("host process 4194305", "0123456789abcdef elsewhere".to_owned()));
    assert!(!gone("host process 4194305", String::new()));
}
