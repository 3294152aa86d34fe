use super::{GENERATED_BYTES_MAX, MIB, generated_files};
use std::collections::BTreeSet;

#[test]
fn generated_files_have_the_requested_size_and_distinct_names() {
    for total_bytes in [MIB, 100 * MIB, 1024 * MIB] {
        let files = generated_files(total_bytes);
        let sum: u64 = files.iter().map(|(_, size_bytes)| size_bytes).sum();
        assert_eq!(sum, total_bytes);
        assert!(files.iter().any(|(_, size_bytes)| *size_bytes == 0));
        assert!(files.iter().all(|(_, size_bytes)| *size_bytes <= GENERATED_BYTES_MAX));
        assert_eq!(files.iter().map(|(name, _)| name).collect::<BTreeSet<_>>().len(), files.len());
        assert_eq!(files, generated_files(total_bytes), "the same in every run");
    }
    assert!(generated_files(1024 * MIB).iter().any(|(_, size_bytes)| *size_bytes == GENERATED_BYTES_MAX));
}
