use super::{FoundKey, parse};

#[test]
fn the_type_of_each_key_is_found() {
    // Made with ceph-authtool 16.2.15 and 20.2.4; the keys were never in use.
    let keyring = "[client.old]\n\tkey = AQBXU4Bm5mYQLBAAxxDnEdl5lgw3yV+5TFjyHg==\n\tcaps mon = \"allow *\"\n\n\
            [client.new]\nkey=AgDKowtr8ZKlHCAAp616LebpD130sqy3/TQI+tJzwztKUQAvAGZRqXFFVu0=\n[client.later]\nkey = AwAA\n\
            [client.broken]\n key =\n";
    let found = parse(keyring);
    let found: Vec<_> = found.iter().map(|FoundKey { owner, key_type }| (&owner[..], *key_type)).collect();
    let expected = [
        ("client.old", "aes"),
        ("client.new", "aes256k"),
        ("client.later", "unknown"),
        ("client.broken", "unknown"),
    ];
    assert_eq!(found, expected);
    assert!(parse("").is_empty() && parse("[client.x]\nkeyring = y\n").is_empty());
}
