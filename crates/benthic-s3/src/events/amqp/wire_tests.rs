use super::{FRAME_BYTES_MAX, Incoming, heartbeat, publish, start_ok, take_frame, tune_ok_and_open};
use crate::events::amqp::Publisher;
use benthic_testkit::random::Rng;
use benthic_testkit::seed;
use bytes::{BufMut, BytesMut};

fn publisher() -> Publisher {
    Publisher {
        vhost: "/".to_owned(),
        user: "gateway".to_owned(),
        password: "secret".to_owned(),
        exchange: "s3".to_owned(),
        routing_key: "photos".to_owned(),
    }
}

fn frame(kind: u8, payload: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    super::put_frame(&mut out, kind, 1, |out| out.put_slice(payload));
    out
}

fn taken(bytes: &[u8]) -> Result<Option<Incoming>, String> {
    take_frame(&mut BytesMut::from(bytes))
}

#[test]
fn messages_have_the_bytes_of_the_specification() {
    assert_eq!(heartbeat()[..], [8, 0, 0, 0, 0, 0, 0, 0xce]);
    assert_eq!(
        tune_ok_and_open(4096, 10, "/")[..],
        *b"\x01\0\0\0\0\0\x0c\0\x0a\0\x1f\0\x01\0\0\x10\0\0\x0a\xce\x01\0\0\0\0\0\x08\0\x0a\0\x28\x01/\0\0\xce"
    );
    let login = start_ok(&publisher());
    assert!(login.ends_with(b"\x05PLAIN\0\0\0\x0f\0gateway\0secret\x05en_US\xce"));
    let out = publish(&publisher(), (7, 1_000), b"{}", 4096);
    let mut expected = b"\x01\0\x01\0\0\0\x11\0\x3c\0\x28\0\0\x02s3\x06photos\x01\xce".to_vec();
    expected.extend_from_slice(b"\x02\0\x01\0\0\0\x2a\0\x3c\0\0\0\0\0\0\0\0\0\x02\x94\x40");
    expected.extend_from_slice(b"\x10application/json\x02\x017\0\0\0\0\0\0\0\x01\xce");
    expected.extend_from_slice(b"\x03\0\x01\0\0\0\x02{}\xce");
    assert_eq!(out[..], expected);
}

#[test]
fn a_large_body_is_split_into_frames() {
    let body = vec![b'x'; 10_000];
    let mut out = publish(&publisher(), (1, 0), &body, 4096);
    let mut sizes = Vec::new();
    while !out.is_empty() {
        let size = u32::from_be_bytes([out[3], out[4], out[5], out[6]]) as usize;
        assert!(size + 8 <= 4096);
        if out[0] == 3 {
            sizes.push(size);
        }
        let _ = out.split_to(size + 8);
    }
    assert_eq!(sizes, [4088, 4088, 1824]);
}

#[test]
fn frames_are_taken_when_they_are_complete() {
    let start = frame(1, b"\0\x0a\0\x0a\0\x09\0\0\0\0\0\0\0\x0ePLAIN AMQPLAIN\0\0\0\x05en_US");
    let confirmed = frame(1, b"\0\x3c\0\x50\0\0\0\0\0\0\0\x07\x01");
    let returned = frame(1, b"\0\x3c\0\x32\x01\x38\x08NO_ROUTE\x02s3\x06photos");
    let mut received = BytesMut::new();
    let mut found = Vec::new();
    for byte in start.iter().chain(&confirmed).chain(&returned) {
        received.put_u8(*byte);
        found.extend(take_frame(&mut received).expect("valid"));
    }
    assert_eq!(
        found,
        [
            Incoming::Start { mechanisms: "PLAIN AMQPLAIN".to_owned() },
            Incoming::Ack { tag: 7, multiple: true },
            Incoming::Return { reason: "312 NO_ROUTE".to_owned() },
        ]
    );
    assert!(received.is_empty());
}

#[test]
fn the_header_of_a_returned_message_has_its_tag() {
    let out = publish(&publisher(), (4_711, 0), b"{}", 4096);
    let mut received = out.clone();
    // The method, which only a client sends.
    assert!(take_frame(&mut received).is_err());
    assert_eq!(take_frame(&mut received), Ok(Some(Incoming::Header { tag: Some(4_711) })));
    assert_eq!(take_frame(&mut received), Ok(Some(Incoming::Body)));
    // Other properties, and another correlation id.
    let header = b"\0\x3c\0\0\0\0\0\0\0\0\0\0\x80\0\x01x";
    assert_eq!(taken(&frame(2, header)), Ok(Some(Incoming::Header { tag: None })));
    let header = b"\0\x3c\0\0\0\0\0\0\0\0\0\0\x94\x40\x01x\x02\x01x";
    assert_eq!(taken(&frame(2, header)), Ok(Some(Incoming::Header { tag: None })));
    // The broker has added an encoding, headers and a priority.
    let header = b"\0\x3c\0\0\0\0\0\0\0\0\0\0\xfc\x40\x01x\x04gzip\0\0\0\x04\x01ht\x01\x02\x09\x017";
    assert_eq!(taken(&frame(2, header)), Ok(Some(Incoming::Header { tag: Some(7) })));
    for len in 12..header.len() {
        let cut = taken(&frame(2, &header[..len]));
        assert!(cut.is_err(), "{len}");
    }
}

#[test]
fn other_protocols_and_large_frames_are_refused_at_their_head() {
    for bytes in [
        b"HTTP/1.1 400 Bad Request".as_slice(),
        // An answer of a broker with another version, and an alert of TLS.
        b"AMQP\0\x01\0\0",
        b"\x15\x03\x03\0\x02\x02\x46",
        &[1, 0, 0, 0xff, 0xff, 0xff, 0xff],
    ] {
        assert!(taken(bytes).is_err_and(|error| error.contains("does not speak AMQP")), "{bytes:?}");
    }
    let mut head = vec![1, 0, 0];
    head.extend_from_slice(&(FRAME_BYTES_MAX + 1).to_be_bytes());
    assert!(taken(&head).is_err());
    head[3..].copy_from_slice(&FRAME_BYTES_MAX.to_be_bytes());
    assert_eq!(taken(&head), Ok(None));
    // Without the mark at its end.
    let mut unmarked = frame(8, b"");
    unmarked[7] = 0;
    assert!(taken(&unmarked).is_err());
}

#[test]
fn methods_that_are_cut_are_refused() {
    let methods: [&[u8]; 5] = [
        b"\0\x0a\0\x0a\0\x09\0\0\0\0\0\0\0\x05PLAIN",
        b"\0\x0a\0\x1e\0\0\0\x01\0\0\0\x3c",
        b"\0\x0a\0\x32\x01\x93\x02no",
        b"\0\x3c\0\x50\0\0\0\0\0\0\0\x07\x01",
        b"\0\x3c\0\x32\x01\x38\x08NO_ROUTE",
    ];
    for method in methods {
        assert!(matches!(taken(&frame(1, method)), Ok(Some(_))), "{method:?}");
        for len in 0..method.len() {
            assert!(taken(&frame(1, &method[..len])).is_err(), "{method:?} {len}");
        }
    }
}

#[test]
fn random_frames_never_panic_or_wait_for_more() {
    let seed = seed::one();
    let mut random = Rng(seed);
    for _ in 0..20_000 {
        let len = random.below(64);
        let mut payload: Vec<u8> = (0..len).map(|_| random.number() as u8).collect();
        if len > 4 {
            // Often a method that is known.
            (payload[0], payload[1]) = (0, [10, 20, 60, 85][random.below(4)]);
            (payload[2], payload[3]) = (0, payload[3] % 124);
        }
        let kind = [1, 2, 3, 8][random.below(4)];
        assert!(!matches!(taken(&frame(kind, &payload)), Ok(None)), "{}={seed}", seed::VARIABLE);
    }
}
