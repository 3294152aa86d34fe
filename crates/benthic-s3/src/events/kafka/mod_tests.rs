use super::{Kafka, WRITERS_MAX, murmur2, partition_of};
use crate::events::broker::Message;
use crate::events::webhook::Failure;
use crate::identity::Sasl;
use benthic_core::Environment;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

#[test]
fn keys_have_the_partitions_of_kafkas_own_clients() {
    // From the tests of Kafka (UtilsTest.testMurmur2).
    let known: [(&str, i32); 6] = [
        ("21", -973_932_308),
        ("foobar", -790_332_482),
        ("a-little-bit-long-string", -985_981_536),
        ("a-little-bit-longer-string", -1_486_304_829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ("abc", 479_470_107),
    ];
    for (key, hash) in known {
        assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        assert_eq!(partition_of(key.as_bytes(), 7) as i32, (hash & 0x7fff_ffff) % 7, "{key}");
    }
    assert_eq!(partition_of(b"", 1), 0);
}

#[test]
fn brokers_are_checked() {
    let new = |brokers: &str, password| {
        let login = (Sasl::Plain, Some(("user", password)));
        Kafka::new(brokers, "t", None, login, Environment::default().random)
    };
    for brokers in ["host:9092", "10.0.0.1:9092,10.0.0.2:9092", "a-b.example:1, c_d:65535"] {
        assert!(new(brokers, "password").is_ok(), "{brokers}");
    }
    for brokers in
        ["", "host", "host:", ":9092", "host:0", "host:65536", "a:1,", "kafka://host:1", "[::1]:9092"]
    {
        assert!(new(brokers, "password").is_err(), "{brokers}");
    }
    assert!(new(&vec!["host:9092"; 33].join(","), "password").is_err());
    assert!(new("host:9092", "pass\0word").is_err());
}

/// A broker with one partition that answers `produces` requests to store a record per connection,
/// with `code`. Returns its address, and the number of records that it took.
async fn broker(produces: usize, code: u8) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let taken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&taken);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let count = Arc::clone(&count);
            tokio::spawn(async move {
                let mut left = produces;
                while left > 0 {
                    let mut request = vec![0; stream.read_u32().await? as usize];
                    stream.read_exact(&mut request).await?;
                    let mut answer = request[4..8].to_vec();
                    match request[1] {
                        18 => answer.extend_from_slice(b"\0\0\0\0\0\x02\0\0\0\x03\0\x0b\0\x03\0\0\0\x0c"),
                        3 => {
                            answer.extend_from_slice(b"\0\0\0\0\0\0\0\x01\0\0\0\x05\0\x09127.0.0.1\0\0");
                            answer.extend_from_slice(&port.to_be_bytes());
                            answer.extend_from_slice(
                                b"\xff\xff\xff\xff\0\0\0\x05\0\0\0\x01\0\0\0\x01t\0\0\0\0\x01",
                            );
                            answer.extend_from_slice(b"\0\0\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\0\0\0\0\0");
                        }
                        _ => {
                            left -= 1;
                            count.fetch_add(1, Relaxed);
                            answer.extend_from_slice(b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\0");
                            answer.push(code);
                            answer.extend_from_slice(&[0; 28]);
                        }
                    }
                    stream.write_u32(answer.len() as u32).await?;
                    stream.write_all(&answer).await?;
                }
                Ok::<_, std::io::Error>(())
            });
        }
    });
    (format!("127.0.0.1:{port}"), taken)
}

fn kafka(brokers: &str) -> Kafka {
    Kafka::new(brokers, "t", None, (Sasl::Plain, None), Environment::default().random).unwrap()
}

fn message() -> Message {
    Message { key: "photos/k".to_owned(), body: Bytes::from_static(b"{}"), time_ms: 1 }
}

#[tokio::test]
async fn a_connection_that_the_broker_has_closed_is_opened_again() {
    let (address, taken) = broker(1, 0).await;
    let kafka = kafka(&address);
    for count in 1..5 {
        assert_eq!(kafka.send(&message()).await, Ok(()));
        assert_eq!(taken.load(Relaxed), count);
    }
}

#[tokio::test]
async fn brokers_that_do_not_answer_are_passed_over() {
    let (address, _) = broker(100, 0).await;
    // Nobody listens at port 1.
    let kafka = kafka(&format!("127.0.0.1:1,127.0.0.1:1,{address}"));
    assert_eq!(kafka.send(&message()).await, Ok(()));
    assert_eq!(kafka.send(&message()).await, Ok(()));
    let none = self::kafka("127.0.0.1:1").send(&message()).await;
    assert!(
        matches!(none, Err(Failure::Unavailable(reason)) if reason.contains("cannot connect to 127.0.0.1:1"))
    );
}

#[tokio::test]
async fn a_silent_broker_is_passed_over_however_many_messages_wait() {
    let cases = [2, 16].map(|count| async move {
        // Connections wait in the backlog.
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, taken) = broker(100, 0).await;
        let kafka = kafka(&format!("{},{address}", silent.local_addr().unwrap()));
        let message = message();
        let sent = futures::future::join_all((0..count).map(|_| kafka.send(&message)));
        // One broker that is silent takes three seconds.
        let sent = timeout(Duration::from_secs(9), sent).await.unwrap();
        assert_eq!(sent, vec![Ok(()); count]);
        assert_eq!(taken.load(Relaxed), count);
        // The next question begins with the broker that answers.
        kafka.ask_again();
        assert_eq!(timeout(Duration::from_secs(2), kafka.send(&message)).await, Ok(Ok(())));
    });
    futures::future::join_all(cases).await;
}

#[tokio::test]
async fn a_broker_that_refuses_after_the_connection_is_passed_over() {
    // A broker that closes each connection.
    let (closing, _) = broker(0, 0).await;
    let (address, _) = broker(100, 0).await;
    assert_eq!(kafka(&format!("{closing},{address}")).send(&message()).await, Ok(()));
}

#[tokio::test]
async fn a_message_that_waits_for_its_turn_is_sent_later() {
    let (address, taken) = broker(100, 0).await;
    let kafka = kafka(&address);
    assert_eq!(kafka.send(&message()).await, Ok(()));
    let open = kafka.open().await.unwrap();
    let writer = open.writer(0);
    let other = writer.lock().await;
    assert_eq!(kafka.send(&message()).await, Err(Failure::Later));
    drop(other);
    // The gateway has no doubt of the cluster.
    assert!(Arc::ptr_eq(&open, &kafka.open().await.unwrap()));
    // After a failure, it asks again, and keeps the connection.
    kafka.ask_again();
    assert_eq!(kafka.send(&message()).await, Ok(()));
    let asked = kafka.open().await.unwrap();
    assert!(!Arc::ptr_eq(&open, &asked));
    assert!(Arc::ptr_eq(&writer, &asked.writer(0)));
    assert_eq!(taken.load(Relaxed), 2);
}

#[tokio::test]
async fn the_number_of_connections_has_a_limit() {
    let (address, _) = broker(100, 0).await;
    let kafka = kafka(&address);
    let open = kafka.open().await.unwrap();
    let used = open.writer(0);
    for partition in 1..2 * WRITERS_MAX {
        open.writer(partition);
        assert!(open.writers.lock().len() <= WRITERS_MAX);
    }
    // A message uses it.
    assert!(Arc::ptr_eq(&used, &open.writer(0)));
}

#[tokio::test]
async fn only_refusals_of_the_message_make_it_dead() {
    let (address, _) = broker(100, 10).await;
    let reason = "the broker refused: MESSAGE_TOO_LARGE (10)".to_owned();
    assert_eq!(kafka(&address).send(&message()).await, Err(Failure::Refused(reason)));
    let (address, _) = broker(100, 6).await;
    let reason = "the broker refused: NOT_LEADER_OR_FOLLOWER (6)".to_owned();
    assert_eq!(kafka(&address).send(&message()).await, Err(Failure::Unavailable(reason)));
}
