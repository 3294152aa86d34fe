use super::{Mount, parse};

#[test]
fn lines_are_parsed() {
    let line = br"36 35 7:0 / /mnt/a\040b\134c rw,noatime master:1 shared:2 - ext4 /dev/loop0 rw";
    let mount = Mount {
        device: "7:0".to_owned(),
        root: "/".into(),
        point: r"/mnt/a b\c".into(),
        fs_type: "ext4".to_owned(),
        source: "/dev/loop0".into(),
    };
    assert_eq!(parse(line), Some(mount));
    assert_eq!(parse(b""), None);
}
