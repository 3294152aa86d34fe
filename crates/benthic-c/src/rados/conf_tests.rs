use super::{option_name, parse};

#[test]
fn a_client_gets_the_options_of_its_sections() {
    let text = "[global]\nbenthic store = file:/a\nfsid=1\n# x = y\n[osd]\nfsid = 2\n[client]\n\
                    debug-ms = \"5\" ; five\n[client.me]\nbenthic_store = mem:\n[client.other]\nfsid = 3\n";
    let options = parse(text, "client.me");
    assert_eq!(options["benthic_store"], "mem:");
    assert_eq!(options["fsid"], "1");
    assert_eq!(options["debug_ms"], "5");
    assert_eq!(options.len(), 3);
    assert_eq!(parse(text, "client.x")["benthic_store"], "file:/a");
    assert!(parse("]\n[\n=\n", "client.x").contains_key(""));
    assert_eq!(option_name(" Client Mount-Timeout"), "client_mount_timeout");
}
