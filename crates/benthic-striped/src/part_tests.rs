use super::{PartialFile, claim, is_at};
use benthic_core::ErrorKind;
use std::fs::{self, File};

#[test]
fn a_file_is_filled_by_one_copy_at_a_time() {
    let here = tempfile::tempdir().unwrap();
    let target = here.path().join("f");
    let first = PartialFile::open(&target, 10, true).unwrap();
    let second = PartialFile::open(&target, 20, true).map(|_| ());
    assert_eq!(second.map_err(|error| error.kind()), Err(ErrorKind::Busy));
    first.finish(None).unwrap();
    assert_eq!(fs::metadata(&target).unwrap().len(), 10, "the second has not touched it");
    drop(PartialFile::open(&target, 20, true).unwrap());
}

#[test]
fn a_partial_file_that_was_renamed_to_its_target_is_not_filled_again() {
    let here = tempfile::tempdir().unwrap();
    let (path, target) = (here.path().join(".f.benthic-part"), here.path().join("f"));
    let (file, existed) = claim(&path).unwrap();
    assert!(!existed && is_at(&file, &path));
    fs::rename(&path, &target).unwrap();
    assert!(!is_at(&file, &path));
    File::create(&path).unwrap();
    assert!(!is_at(&file, &path) && is_at(&file, &target));
    assert!(claim(&path).unwrap().1);
}

#[test]
fn what_others_may_have_put_in_the_way_is_not_changed() {
    let here = tempfile::tempdir().unwrap();
    let (path, target) = (here.path().join(".f.benthic-part"), here.path().join("f"));
    let other = here.path().join("other");
    fs::write(&other, "other").unwrap();
    for is_symbolic in [false, true] {
        match is_symbolic {
            true => std::os::unix::fs::symlink(&other, &path).unwrap(),
            false => fs::hard_link(&other, &path).unwrap(),
        }
        let refused = PartialFile::open(&target, 10, true).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        assert_eq!(fs::read(&other).unwrap(), b"other");
        fs::remove_file(&path).unwrap();
    }
}
