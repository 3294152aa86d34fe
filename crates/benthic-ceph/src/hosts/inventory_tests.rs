use super::{ClassSettings, Host, HostOsd, Inventory, Setting};
use benthic_core::ErrorKind;

fn setting(value: &str, source: &str) -> Setting {
    Setting { value: value.to_owned(), source: source.to_owned() }
}

fn osd(id: i32, class_dir: Option<&str>) -> HostOsd {
    let settings =
        class_dir.map(|dir| ClassSettings { class_dir: dir.to_owned(), ..ClassSettings::default() });
    HostOsd { id, version: String::new(), arch: String::new(), in_container: false, settings }
}

#[test]
fn a_list_includes_whole_names_and_the_star() {
    assert!(setting("lock  x_1 rbd", "mon").includes("x_1") && setting("*", "file").includes("x_1"));
    assert!(!setting("x_10 ax_1", "mon").includes("x_1") && !setting("", "mon").includes("x_1"));
    assert!(setting("", "default").is_of_monitors() && setting("", "mon").is_of_monitors());
    assert!(!setting("", "file").is_of_monitors());
}

#[test]
fn a_host_has_the_directories_of_its_running_osds() {
    let host = Host {
        name: "um".to_owned(),
        osds: vec![osd(0, Some("/a")), osd(1, None), osd(2, Some("/a")), osd(3, Some("/b"))],
    };
    let directories: Vec<_> = host.directories().into_iter().collect();
    assert_eq!(directories, [("/a", vec![0, 2]), ("/b", vec![3])]);
    assert_eq!(host.down(), [1]);
}

#[test]
fn only_hosts_of_the_cluster_are_kept() {
    let host = |name: &str| Host { name: name.to_owned(), osds: Vec::new() };
    let mut inventory =
        Inventory { fsid: String::new(), hosts: vec![host("msu"), host("um")], homeless: Vec::new() };
    let error = inventory.keep(&["um".to_owned(), "mars".to_owned()]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.message().contains("msu, um"), "{error}");
    inventory.keep(&["um".to_owned()]).unwrap();
    assert_eq!(inventory.hosts, [host("um")]);
}
