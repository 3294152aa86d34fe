use super::Kv;
use bytes::Bytes;
use parking_lot::Mutex;

const WRITERS: usize = 4;
const OPERATIONS_EACH: usize = 50;
const CHANGES: usize = 100;

fn key(operation: usize, change: usize) -> Vec<u8> {
    format!("{operation:08}-{change:08}").into_bytes()
}

#[test]
fn a_sealed_table_ends_between_two_operations() {
    for _ in 0..10 {
        let dir = tempfile::tempdir().unwrap();
        let kv = Kv::create(dir.path(), 1024 * 1024).unwrap();
        // As the commit queue does.
        let begun = Mutex::new(0);
        let write = || {
            for _ in 0..OPERATIONS_EACH {
                let mut next = begun.lock();
                let operation = *next;
                *next += 1;
                let applying = kv.begin();
                drop(next);
                let changes = (0..CHANGES).map(|change| (key(operation, change).into(), Some(Bytes::new())));
                applying.apply(changes.collect());
            }
        };
        let sealed = std::thread::scope(|scope| {
            (0..WRITERS).for_each(|_| drop(scope.spawn(write)));
            loop {
                let next = begun.lock();
                if *next > WRITERS * OPERATIONS_EACH / 2 {
                    kv.seal();
                    break *next;
                }
            }
        });
        kv.write_sealed().unwrap();
        drop(kv);

        // Everything of the operations before the seal, and nothing of the later ones.
        let kv = Kv::open(dir.path(), 1024 * 1024).unwrap();
        let mut found = kv.scan(b"", None).map(|entry| entry.unwrap().0);
        for operation in 0..sealed {
            for change in 0..CHANGES {
                assert_eq!(found.next(), Some(key(operation, change).into()));
            }
        }
        assert_eq!(found.next(), None);
    }
}
