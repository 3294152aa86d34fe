use super::{
    NOT_KAFKA, Refusal, check_versions, metadata, parse_metadata, parse_produce, parse_sasl_authenticate,
    parse_sasl_handshake, produce, put_string, sasl_authenticate,
};
use benthic_testkit::random::Rng;
use benthic_testkit::seed;
use bytes::{BufMut, Bytes, BytesMut};
use std::sync::Arc;

#[test]
fn a_record_has_the_bytes_of_the_specification() {
    let request = produce("t", 3, b"k", b"value", 0x0102);
    let mut expected = BytesMut::new();
    expected.put_slice(b"\xff\xff\xff\xff\0\0\x1f\x40\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x03");
    // The batch: 61 bytes of head and the record with its length.
    expected.put_i32(61 + 13);
    expected.put_slice(&[0; 8]);
    expected.put_i32(49 + 13);
    expected.put_slice(b"\xff\xff\xff\xff\x02");
    let mut checked = BytesMut::new();
    checked.put_slice(&[0; 6]);
    checked.put_slice(&[0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 1, 2]);
    checked.put_slice(&[0xff; 14]);
    checked.put_slice(&[0, 0, 0, 1]);
    // Lengths are zigzag: twice the number.
    checked.put_slice(b"\x18\0\0\0\x02k\x0avalue\0");
    expected.put_u32(crc32c(&checked));
    expected.put_slice(&checked);
    assert_eq!(request[..], expected[..]);
}

/// CRC-32C, bit by bit.
fn crc32c(data: &[u8]) -> u32 {
    !data.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 * (crc & 1)))
    })
}

#[test]
fn lengths_of_more_than_63_bytes_have_more_bytes() {
    for (len, bytes) in
        [(63, &[0x7e][..]), (64, &[0x80, 1]), (8_191, &[0xfe, 0x7f]), (8_192, &[0x80, 0x80, 1])]
    {
        let mut out = BytesMut::new();
        super::put_varint(&mut out, len);
        assert_eq!(out[..], *bytes);
    }
}

fn versions(ranges: &[(i16, i16, i16)]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i16(0);
    out.put_i32(ranges.len() as i32);
    for (key, min, max) in ranges {
        out.put_i16(*key);
        out.put_i16(*min);
        out.put_i16(*max);
    }
    out.freeze()
}

#[test]
fn brokers_without_our_versions_are_refused() {
    assert_eq!(check_versions(versions(&[(0, 3, 13), (3, 0, 13), (18, 0, 4)])), Ok(()));
    for (ranges, request) in [
        ([(0, 0, 5), (3, 0, 13)], "version 7 of request 0"),
        ([(0, 9, 13), (3, 0, 13)], "version 7 of request 0"),
        ([(0, 3, 13), (1, 0, 13)], "version 5 of request 3"),
    ] {
        assert!(check_versions(versions(&ranges)).is_err_and(|error| error.contains(request)));
    }
    let refused = check_versions(Bytes::from_static(&[0, 42, 0, 0, 0, 0]));
    assert!(refused.is_err_and(|error| error.contains("INVALID_REQUEST (42)")));
}

/// An answer about a topic `t`: brokers with their ports, and partitions with their leaders.
fn topic(code: i16, brokers: &[(i32, i32)], partitions: &[(i32, i32)]) -> Bytes {
    topic_at("host", code, brokers, partitions)
}

fn topic_at(host: &str, code: i16, brokers: &[(i32, i32)], partitions: &[(i32, i32)]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i32(0);
    out.put_i32(brokers.len() as i32);
    for (id, port) in brokers {
        out.put_i32(*id);
        put_string(&mut out, host);
        out.put_i32(*port);
        // No rack.
        out.put_i16(-1);
    }
    put_string(&mut out, "cluster");
    out.put_i32(1);
    out.put_i32(1);
    out.put_i16(code);
    put_string(&mut out, "t");
    out.put_u8(0);
    out.put_i32(partitions.len() as i32);
    for (partition, leader) in partitions {
        out.put_i16(0);
        out.put_i32(*partition);
        out.put_i32(*leader);
        for replicas in [&[1, 2][..], &[1], &[]] {
            out.put_i32(replicas.len() as i32);
            replicas.iter().for_each(|id| out.put_i32(*id));
        }
    }
    out.freeze()
}

#[test]
fn partitions_have_the_addresses_of_their_leaders() {
    let answer = topic(0, &[(1, 9092), (2, 9093), (3, -1)], &[(1, 2), (0, 1), (2, -1), (3, 3)]);
    let address = |port| Some(Arc::new(("host".to_owned(), port)));
    assert_eq!(parse_metadata(answer.clone(), "t"), Ok(vec![address(9092), address(9093), None, None]));
    assert_eq!(parse_metadata(answer, "other"), Err(NOT_KAFKA.to_owned()));
    for (code, partitions, reason) in [
        (3, &[][..], "no topic 't'"),
        (29, &[], "TOPIC_AUTHORIZATION_FAILED (29)"),
        (0, &[], "all partitions"),
        (0, &[(1, 1)], "all partitions"),
        (0, &[(-1, 1), (0, 1)], "all partitions"),
    ] {
        let error = parse_metadata(topic(code, &[(1, 9092)], partitions), "t");
        assert!(error.is_err_and(|error| error.contains(reason)), "{code} {reason}");
    }
}

#[test]
fn a_long_host_is_skipped_and_partitions_share_hosts() {
    let partitions: Vec<(i32, i32)> = (0..10_000).map(|partition| (partition, 1)).collect();
    let leaders = |host: &str| {
        let answer = topic_at(host, 0, &[(1, 9092)], &partitions);
        parse_metadata(answer, "t").expect("valid")
    };
    let longest = leaders(&"h".repeat(255));
    let first = longest[0].as_ref().expect("a leader");
    assert_eq!(first.0.len(), 255);
    // One for each partition, and the name is not copied.
    assert_eq!(longest.len(), 10_000);
    assert_eq!(Arc::strong_count(first), 10_000);
    for host in ["h".repeat(256), "h".repeat(32_767)] {
        assert!(leaders(&host).iter().all(Option::is_none));
    }
}

fn produced(code: i16) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i32(1);
    put_string(&mut out, "t");
    out.put_i32(1);
    out.put_i32(3);
    out.put_i16(code);
    out.put_slice(&[0; 24]);
    out.put_i32(0);
    out.freeze()
}

#[test]
fn only_some_refusals_are_of_the_message() {
    assert_eq!(parse_produce(produced(0), "t", 3), Ok(None));
    for (code, is_of_message, name) in [
        (10, true, "MESSAGE_TOO_LARGE"),
        (18, true, "RECORD_LIST_TOO_LARGE"),
        // A topic whose rules refuse a record refuses every event.
        (87, false, "INVALID_RECORD"),
        (6, false, "NOT_LEADER_OR_FOLLOWER"),
        (19, false, "NOT_ENOUGH_REPLICAS"),
        (29, false, "TOPIC_AUTHORIZATION_FAILED"),
        (1_234, false, "unknown code"),
    ] {
        let reason = format!("the broker refused: {name} ({code})");
        assert_eq!(parse_produce(produced(code), "t", 3), Ok(Some(Refusal { is_of_message, reason })));
    }
    // An answer about another topic or partition.
    assert!(parse_produce(produced(0), "u", 3).is_err());
    assert!(parse_produce(produced(0), "t", 2).is_err());
}

#[test]
fn logins_name_the_reason() {
    let mut permitted = BytesMut::from(&[0, 33, 0, 0, 0, 2][..]);
    put_string(&mut permitted, "GSSAPI");
    put_string(&mut permitted, "OAUTHBEARER");
    let error = parse_sasl_handshake(permitted.freeze(), "PLAIN").unwrap_err();
    assert_eq!(error, "the broker does not permit the login PLAIN; it permits GSSAPI, OAUTHBEARER");
    let answer = Bytes::from_static(b"\0\x3a\0\x02no\0\0\0\0");
    let error = parse_sasl_authenticate(answer).unwrap_err();
    assert_eq!(error, "the broker refused: SASL_AUTHENTICATION_FAILED (58): no");
    let answer = Bytes::from_static(b"\0\0\xff\xff\0\0\0\x03r=x");
    assert_eq!(parse_sasl_authenticate(answer).as_deref(), Ok("r=x"));
}

#[test]
fn cut_and_damaged_answers_are_refused() {
    type IsValid = fn(Bytes) -> bool;
    let answers: [(Bytes, IsValid); 4] = [
        (versions(&[(0, 3, 13), (3, 0, 13)]), |answer| check_versions(answer).is_ok()),
        (topic(0, &[(1, 9092)], &[(0, 1)]), |answer| parse_metadata(answer, "t").is_ok()),
        (produced(0).slice(..41), |answer| parse_produce(answer, "t", 3).is_ok()),
        (Bytes::from_static(b"\0\0\xff\xff\0\0\0\x03r=x"), |answer| parse_sasl_authenticate(answer).is_ok()),
    ];
    let seed = seed::one();
    let mut random = Rng(seed);
    for (answer, is_valid) in &answers {
        assert!(is_valid(answer.clone()));
        for len in 0..answer.len() {
            assert!(!is_valid(answer.slice(..len)), "{len}");
        }
        for _ in 0..5_000 {
            // Also lists that claim two thousand million elements.
            let mut changed = BytesMut::from(&answer[..]);
            for _ in 0..=random.below(4) {
                let place = random.below(changed.len());
                changed[place] = random.number() as u8;
            }
            changed.truncate(1 + random.below(answer.len()));
            let is_cut = changed.len() < answer.len();
            let is_same = answer.starts_with(&changed);
            assert!(!(is_cut && is_same && is_valid(changed.freeze())), "{}={seed}", seed::VARIABLE);
        }
    }
}

#[test]
fn requests_have_the_bytes_of_the_specification() {
    assert_eq!(metadata("t")[..], *b"\0\0\0\x01\0\x01t\0");
    assert_eq!(sasl_authenticate("\0user\0secret")[..], *b"\0\0\0\x0c\0user\0secret");
    let mut head = BytesMut::new();
    super::put_head(&mut head, super::PRODUCE, 9);
    assert_eq!(head[..], *b"\0\0\0\x07\0\0\0\x09\0\x0abenthic-s3");
}
