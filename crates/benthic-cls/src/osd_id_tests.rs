use super::of;

#[test]
fn the_number_is_in_the_arguments() {
    let of = |line: &str| of(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
    for line in [
        "ceph-osd -f --cluster ceph --id 12 --setuser ceph",
        "ceph-osd -i 12 -c /c/ceph.conf",
        "ceph-osd --id=12",
        "/usr/bin/ceph-osd -n osd.12 -f",
        "ceph-osd --name osd.12",
        "ceph-osd --name=osd.12",
    ] {
        assert_eq!(of(line), Some(12), "{line}");
    }
    for line in ["ceph-osd", "ceph-osd --id", "ceph-osd -n mon.1", "ceph-osd --osd-data=/3"] {
        assert_eq!(of(line), None, "{line}");
    }
}
