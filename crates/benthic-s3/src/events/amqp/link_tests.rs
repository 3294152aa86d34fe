use super::{IN_FLIGHT_MAX, Job, Link, NO_CONFIRMATION};
use crate::events::amqp::{Publisher, wire};
use crate::events::broker::Message;
use bytes::{BufMut, Bytes, BytesMut};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{mpsc, oneshot};

type Answer = oneshot::Receiver<Result<(), String>>;

/// A false broker.
struct Broker(DuplexStream);

impl Broker {
    async fn method(&mut self, class: u16, method: u16, arguments: &[u8]) {
        let mut payload = BytesMut::new();
        payload.put_u16(class);
        payload.put_u16(method);
        payload.put_slice(arguments);
        self.frame(1, &payload).await;
    }

    async fn frame(&mut self, kind: u8, payload: &[u8]) {
        let mut out = BytesMut::new();
        wire::put_frame(&mut out, kind, 1, |out| out.put_slice(payload));
        self.0.write_all(&out).await.expect("the gateway reads");
    }

    /// The kind and the payload of the gateway's next frame.
    async fn next(&mut self) -> (u8, Vec<u8>) {
        let kind = self.0.read_u8().await.expect("a frame");
        self.0.read_u16().await.expect("a frame");
        let mut payload = vec![0; self.0.read_u32().await.expect("a frame") as usize + 1];
        self.0.read_exact(&mut payload).await.expect("a frame");
        assert_eq!(payload.pop(), Some(0xce));
        (kind, payload)
    }

    async fn next_but_heartbeats(&mut self) -> (u8, Vec<u8>) {
        loop {
            match self.next().await {
                (8, _) => {}
                other => return other,
            }
        }
    }

    async fn start(&mut self, mechanisms: &str) {
        let mut header = [0; 8];
        self.0.read_exact(&mut header).await.expect("a header");
        assert_eq!(&header, b"AMQP\0\0\x09\x01");
        let mut arguments = BytesMut::from(&b"\0\x09\0\0\0\0"[..]);
        arguments.put_u32(mechanisms.len() as u32);
        arguments.put_slice(mechanisms.as_bytes());
        arguments.put_slice(b"\0\0\0\0");
        self.method(10, 10, &arguments).await;
    }

    /// Opens the connection and the channel. Returns the limit of frames that the gateway chose.
    async fn open(&mut self, frame_bytes_max: u32, heartbeat_seconds: u16) -> u32 {
        self.start("AMQPLAIN PLAIN").await;
        self.next().await;
        let mut limits = BytesMut::from(&[0, 0][..]);
        limits.put_u32(frame_bytes_max);
        limits.put_u16(heartbeat_seconds);
        self.method(10, 30, &limits).await;
        let (_, tuned) = self.next().await;
        for (class, method) in [(10, 41), (20, 11), (85, 11)] {
            self.next().await;
            self.method(class, method, &[0; 4]).await;
        }
        u32::from_be_bytes([tuned[6], tuned[7], tuned[8], tuned[9]])
    }

    /// Reads published messages, and heartbeats between them. Returns their bodies.
    async fn published(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut bodies = Vec::new();
        while bodies.len() < count {
            if let (3, body) = self.next().await {
                bodies.push(body);
            }
        }
        bodies
    }

    async fn confirm(&mut self, method: u16, tag: u64, multiple: bool) {
        let mut arguments = BytesMut::new();
        arguments.put_u64(tag);
        arguments.put_u8(multiple.into());
        self.method(60, method, &arguments).await;
    }

    async fn close(&mut self, class: u16, method: u16, reason: &str) {
        let mut arguments = BytesMut::from(&[1, 2][..]);
        arguments.put_u8(reason.len() as u8);
        arguments.put_slice(reason.as_bytes());
        arguments.put_u32(0);
        self.method(class, method, &arguments).await;
    }
}

fn publisher() -> Publisher {
    let [vhost, user, password, exchange, routing_key] = ["/", "u", "p", "s3", "k"].map(str::to_owned);
    Publisher { vhost, user, password, exchange, routing_key }
}

/// Both ends of a connection.
fn connection() -> (DuplexStream, Broker) {
    let (gateway, broker) = tokio::io::duplex(4096);
    (gateway, Broker(broker))
}

/// An open connection: where to put messages, and the broker.
async fn opened(heartbeat_seconds: u16) -> (mpsc::Sender<Job>, Broker) {
    let (gateway, mut broker) = connection();
    let publisher = publisher();
    let (link, _) =
        tokio::join!(Link::open(Box::new(gateway), &publisher), broker.open(4096, heartbeat_seconds));
    let (jobs, waiting) = mpsc::channel(16);
    tokio::spawn(link.expect("open").run(waiting));
    (jobs, broker)
}

async fn publish(jobs: &mpsc::Sender<Job>, body: &'static str) -> Answer {
    let (done, answer) = oneshot::channel();
    let message = Message { key: String::new(), body: Bytes::from(body), time_ms: 0 };
    jobs.send(Job { message, done }).await.expect("the task runs");
    answer
}

async fn error_of(answer: Answer) -> String {
    answer.await.expect("an answer").expect_err("a failure")
}

#[tokio::test]
async fn messages_end_with_their_own_confirmations() {
    let (jobs, mut broker) = opened(60).await;
    let mut answers = Vec::new();
    for body in ["1", "2", "3", "4", "5", "6"] {
        answers.push(publish(&jobs, body).await);
    }
    assert_eq!(
        broker.published(6).await,
        ["1", "2", "3", "4", "5", "6"].map(|body| body.as_bytes().to_vec())
    );
    let mut answers = answers.into_iter();
    let mut answer = || answers.next().expect("an answer");
    let (first, second, third, fourth) = (answer(), answer(), answer(), answer());
    let (mut fifth, sixth) = (answer(), answer());
    // The second alone, then all up to the third.
    broker.confirm(80, 2, false).await;
    assert_eq!(second.await.expect("an answer"), Ok(()));
    broker.confirm(80, 3, true).await;
    assert_eq!(first.await.expect("an answer"), Ok(()));
    assert_eq!(third.await.expect("an answer"), Ok(()));
    broker.confirm(120, 4, false).await;
    assert_eq!(error_of(fourth).await, "the broker could not store the message");
    // A message that no queue gets comes back, before the broker confirms it.
    broker.method(60, 50, b"\x01\x38\x08NO_ROUTE\x02s3\x01k").await;
    broker.frame(2, b"\0\x3c\0\0\0\0\0\0\0\0\0\x01\x94\x40\x01x\x02\x016\0\0\0\0\0\0\0\0").await;
    broker.frame(3, b"6").await;
    broker.confirm(80, 6, false).await;
    assert!(
        error_of(sixth)
            .await
            .contains("no queue is bound to the exchange with the routing key: 312 NO_ROUTE")
    );
    assert!(fifth.try_recv().is_err());
    // One that was not sent, and then all.
    broker.confirm(80, 99, false).await;
    broker.confirm(80, 0, true).await;
    assert_eq!(fifth.await.expect("an answer"), Ok(()));
    // Without messages to come, the gateway closes the connection.
    drop(jobs);
    loop {
        match broker.next().await {
            (1, payload) => break assert_eq!(payload[..4], [0, 10, 0, 50]),
            other => assert_eq!(other.0, 8),
        }
    }
}

#[tokio::test]
async fn a_message_whose_caller_has_given_up_is_not_sent() {
    let (jobs, mut broker) = opened(60).await;
    // The task does not run before this function waits.
    drop(publish(&jobs, "late").await);
    let answer = publish(&jobs, "next").await;
    assert_eq!(broker.published(1).await, [b"next".to_vec()]);
    broker.confirm(80, 1, false).await;
    assert_eq!(answer.await.expect("an answer"), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_never_confirms_does_not_keep_the_connection() {
    let (jobs, mut broker) = opened(60).await;
    let publish_all = async {
        let mut answers = Vec::new();
        for _ in 0..IN_FLIGHT_MAX {
            answers.push(publish(&jobs, "x").await);
        }
        answers
    };
    let (answers, _) = tokio::join!(publish_all, broker.published(IN_FLIGHT_MAX));
    drop(jobs);
    let closed = async {
        loop {
            match broker.next().await {
                // The broker lives.
                (8, _) => broker.frame(8, b"").await,
                (_, payload) => return payload,
            }
        }
    };
    let closed = tokio::time::timeout(Duration::from_secs(60), closed).await.expect("it closes");
    assert_eq!(closed[..4], [0, 10, 0, 50]);
    for answer in answers {
        assert_eq!(error_of(answer).await, NO_CONFIRMATION);
    }
}

#[tokio::test]
async fn a_broker_that_refuses_gives_its_reason() {
    for (class, method) in [(10, 50), (20, 40)] {
        let (jobs, mut broker) = opened(60).await;
        let answers = (publish(&jobs, "1").await, publish(&jobs, "2").await);
        broker.published(2).await;
        broker.close(class, method, "NOT_FOUND - no exchange 's3'").await;
        for answer in [answers.0, answers.1] {
            assert_eq!(error_of(answer).await, "the broker refused: NOT_FOUND - no exchange 's3'");
        }
        jobs.closed().await;
        // The gateway answers.
        let (kind, payload) = broker.next_but_heartbeats().await;
        let [c, m] = [class, method + 1].map(|number| number as u8);
        assert_eq!((kind, &payload[..]), (1, &[0, c, 0, m][..]));
        if class == 20 {
            let (kind, payload) = broker.next_but_heartbeats().await;
            assert_eq!((kind, &payload[..4]), (1, &[0, 10, 0, 50][..]));
        }
    }
    let (jobs, mut broker) = opened(60).await;
    let answer = publish(&jobs, "1").await;
    broker.method(10, 60, b"\x0alow on mem").await;
    assert_eq!(error_of(answer).await, "the broker accepts no messages at present: low on mem");
}

#[tokio::test]
async fn logins_that_fail_give_their_reason() {
    let publisher = publisher();
    let (gateway, mut broker) = connection();
    let (link, ()) = tokio::join!(Link::open(Box::new(gateway), &publisher), broker.start("EXTERNAL"));
    assert_eq!(link.err().unwrap(), "the broker does not permit the login PLAIN; it permits EXTERNAL");
    for (reason, expected) in [
        (Some("ACCESS_REFUSED - no"), "the broker refused: ACCESS_REFUSED - no"),
        (None, "the broker closed the connection after the login; check the user and the password"),
    ] {
        let (gateway, mut broker) = connection();
        let refuse = async move {
            broker.start("PLAIN").await;
            broker.next().await;
            if let Some(reason) = reason {
                broker.close(10, 50, reason).await;
            }
        };
        let (link, ()) = tokio::join!(Link::open(Box::new(gateway), &publisher), refuse);
        assert_eq!(link.err().unwrap(), expected);
    }
}

#[tokio::test]
async fn servers_of_other_protocols_are_refused() {
    let publisher = publisher();
    let early = wire_frame(8, b"");
    for bytes in
        [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], &[0xff; 4096], &wire_frame(1, &[0, 10, 0, 41]), &early]
    {
        let (gateway, mut broker) = connection();
        let answer = async move {
            broker.0.write_all(bytes).await.unwrap();
            broker
        };
        let (link, _broker) = tokio::join!(Link::open(Box::new(gateway), &publisher), answer);
        assert!(link.err().unwrap().contains("does not speak AMQP"));
    }
    // After the connection is open.
    let returned = wire_frame(2, b"\0\x3c\0\0\0\0\0\0\0\0\0\x01\x94\x40\x01x\x02\x011\0\0\0\0\0\0\0\0");
    for bytes in [&[0; 64][..], &wire_frame(1, &[0, 10, 0, 10]), &wire_frame(1, &[0, 10, 0, 41]), &returned] {
        let (jobs, mut broker) = opened(60).await;
        let answer = publish(&jobs, "1").await;
        broker.published(1).await;
        broker.0.write_all(bytes).await.unwrap();
        error_of(answer).await;
        jobs.closed().await;
    }
}

fn wire_frame(kind: u8, payload: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    wire::put_frame(&mut out, kind, 1, |out| out.put_slice(payload));
    out
}

#[tokio::test]
async fn the_limit_of_frames_is_the_smaller_one() {
    let publisher = publisher();
    for (proposed, chosen) in [(0, 131_072), (100, 4_096), (65_536, 65_536), (u32::MAX, 131_072)] {
        let (gateway, mut broker) = connection();
        let (link, tuned) = tokio::join!(Link::open(Box::new(gateway), &publisher), broker.open(proposed, 0));
        assert!(link.is_ok());
        assert_eq!(tuned, chosen);
    }
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_is_silent_is_gone_after_two_heartbeats() {
    let (jobs, mut broker) = opened(60).await;
    let answer = publish(&jobs, "1").await;
    broker.published(1).await;
    // One that lives is not.
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(9)).await;
        broker.frame(8, b"").await;
    }
    assert!(!jobs.is_closed());
    let start = tokio::time::Instant::now();
    assert_eq!(error_of(answer).await, "the broker sends no heartbeats");
    assert!((20..30).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    // The gateway itself has sent some.
    assert_eq!(broker.next().await.0, 8);
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_does_not_read_is_gone() {
    let (jobs, _broker) = opened(60).await;
    let large = "x".repeat(20_000).leak();
    let answer = publish(&jobs, large).await;
    assert_eq!(error_of(answer).await, "the broker reads nothing");
}
