"""Events for RabbitMQ and Kafka, on real brokers that are down, that die, and that refuse."""

import collections
import concurrent.futures
import json
import uuid

import pytest
from brokers import Rabbit, needs_rabbit, running_kafka, running_rabbit
from gateway import LONG, running
from target import CREATED, notify, rule, status, wait_until, waiting

LONG_RABBIT = pytest.mark.skipif(not LONG, reason="`make test-long` runs it: it waits for failures, or starts RabbitMQ again")
LONG_KAFKA = pytest.mark.skipif(not LONG, reason="`make test-long` runs it: Kafka takes 10 to 60 seconds to start, and 150 MB")
KEYS = 7
# The ETag of an object without data.
EMPTY = "d41d8cd98f00b204e9800998ecf8427e"


@pytest.fixture(scope="module")
def watching(tmp_path_factory):
    """A gateway that searches for events every second, and logs everything."""
    with running("file", tmp_path_factory.mktemp("events"), "--events-every", "1", "-vvv") as gateway:
        yield gateway


@pytest.fixture
def login(tmp_path):
    """Options of a user with the right password."""
    return login_with(tmp_path, "secret")


def login_with(dir, password):
    (dir / f"password-{password}").write_text(f"{password}\n")
    return ["--user", "gateway", "--password-file", str(dir / f"password-{password}")]


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory, leaf_certificate):
    with running_rabbit(tmp_path_factory.mktemp("rabbit"), leaf_certificate) as rabbit:
        yield rabbit


@pytest.fixture(scope="module")
def kafka(tmp_path_factory, leaf_certificate):
    with running_kafka(tmp_path_factory.mktemp("kafka"), leaf_certificate) as kafka:
        yield kafka


def create(gateway, *options):
    """Creates a target with a new name; returns its ARN."""
    return gateway.run("events", "target", "create", f"main/{uuid.uuid4().hex[:8]}", *options)[0]["arn"]


def write(client, bucket, numbers):
    """Writes objects with `KEYS` keys from several threads. Returns the ETags of each key in order."""
    written = {f"k{key}": [] for key in range(KEYS)}

    def write_key(key):
        for number in numbers:
            if number % KEYS == key:
                etag = client.put_object(Bucket=bucket, Key=f"k{key}", Body=f"{number}".encode())["ETag"]
                written[f"k{key}"].append(etag.strip('"'))

    with concurrent.futures.ThreadPoolExecutor(KEYS) as threads:
        list(threads.map(write_key, range(KEYS)))
    return written


def seen(messages):
    """The ETags of each key in the order of their first delivery."""
    seen = collections.defaultdict(list, {f"k{key}": [] for key in range(KEYS)})
    for message in messages:
        (record,) = message["Records"]
        found = record["s3"]["object"]
        if found["eTag"] not in seen[found["key"]]:
            seen[found["key"]].append(found["eTag"])
    return seen


def failures(gateway, bucket):
    return [found["failure"] or "" for found in status(gateway, bucket) if found["queue"]]


@needs_rabbit
def test_rabbitmq_gets_all_events_in_order(watching, client, photos, rabbit, login):
    arn = create(watching, "--amqp", rabbit.url, "--routing-key", "events", *login)
    notify(client, photos, rule(arn, CREATED))
    client.put_object(Bucket=photos, Key="first", Body=b"")
    # A message that no queue gets waits.
    wait_until(lambda: any("no queue is bound" in failure for failure in failures(watching, photos)))
    assert waiting(watching, photos) == 1
    rabbit.declare("events")
    written = write(client, photos, range(40))
    wait_until(lambda: waiting(watching, photos) == 0)
    assert failures(watching, photos) == [""]
    messages = rabbit.take("events")
    assert len(messages) == 41
    for properties, body in messages:
        assert (properties.content_type, properties.delivery_mode) == ("application/json", 2)
        assert body["Records"][0]["eventName"] == "ObjectCreated:Put"
        assert body["Records"][0]["s3"]["bucket"]["name"] == photos
    assert seen(body for _, body in messages) == {**written, "first": [EMPTY]}


@LONG_RABBIT
def test_all_places_share_one_connection(watching, client, photos, rabbit, login):
    target = ["--amqp", f"{rabbit.url}/%2F", "--exchange", "amq.topic", "--routing-key", "photos.new", *login]
    rabbit.declare("topic")
    with rabbit.channel() as channel:
        channel.queue_bind("topic", "amq.topic", "photos.*")
    before = rabbit.connections()
    notify(client, photos, rule(create(watching, *target), CREATED))
    written = write(client, photos, range(40))
    wait_until(lambda: waiting(watching, photos) == 0)
    assert rabbit.connections() == before + 1
    assert seen(body for _, body in rabbit.take("topic")) == written


@needs_rabbit
def test_a_wrong_password_is_a_clear_failure_and_stays_secret(watching, client, photos, rabbit, tmp_path):
    password = "not-the-password"
    options = ["--amqp", rabbit.url, "--routing-key", "events", *login_with(tmp_path, password)]
    notify(client, photos, rule(create(watching, *options), CREATED))
    client.put_object(Bucket=photos, Key="k", Body=b"")
    wait_until(lambda: any("ACCESS_REFUSED" in failure for failure in failures(watching, photos)))
    shown = [watching.log(), status(watching, photos), watching.run("events", "target", "ls")]
    assert password not in json.dumps(shown)


@LONG_RABBIT
def test_what_rabbitmq_refuses_is_a_clear_failure(watching, client, photos, rabbit, login, leaf_certificate):
    cases = [
        (["--amqp", rabbit.url, "--exchange", "none", *login], "no exchange 'none'"),
        (["--amqp", f"{rabbit.url}/none", *login], "vhost none"),
        # Without the authority's certificate, the gateway does not trust the broker.
        (["--amqp", rabbit.tls_url, *login], "certificate"),
        # The certificate is one of another host.
        (["--amqp", rabbit.tls_url.replace("127.0.0.1", "localhost"), *login, "--ca", leaf_certificate[0]], "not valid for name"),
        # A server of another protocol.
        (["--amqp", watching.url.replace("http:", "amqp:"), *login], "does not speak AMQP"),
    ]
    for options, reason in cases:
        notify(client, photos, rule(create(watching, *options, "--routing-key", "events"), CREATED))
        client.put_object(Bucket=photos, Key="k", Body=b"")
        wait_until(lambda reason=reason: any(reason in failure for failure in failures(watching, photos)))
        notify(client, photos)
        wait_until(lambda: waiting(watching, photos) == 0)


@LONG_RABBIT
def test_rabbitmq_over_tls(watching, client, photos, rabbit, login, leaf_certificate):
    rabbit.declare("tls")
    arn = create(watching, "--amqp", rabbit.tls_url, "--routing-key", "tls", *login, "--ca", leaf_certificate[0])
    notify(client, photos, rule(arn, CREATED))
    written = write(client, photos, range(3))
    wait_until(lambda: waiting(watching, photos) == 0)
    assert seen(body for _, body in rabbit.take("tls")) == written


@LONG_RABBIT
def test_events_wait_for_rabbitmq(watching, client, photos, login, tmp_path):
    """The broker is down, then up, then dies while the gateway delivers, and comes up again."""
    rabbit = Rabbit(tmp_path)
    try:
        arn = create(watching, "--amqp", rabbit.url, "--routing-key", "events", *login)
        notify(client, photos, rule(arn, CREATED))
        written = write(client, photos, range(200))
        wait_until(lambda: any("cannot connect" in failure for failure in failures(watching, photos)))
        assert waiting(watching, photos) == 200
        rabbit.start()
        rabbit.declare("events")
        wait_until(lambda: 20 < rabbit.length("events") < 180)
        rabbit.kill()
        assert 0 < waiting(watching, photos) < 200
        more = write(client, photos, range(200, 250))
        rabbit.start()
        wait_until(lambda: waiting(watching, photos) == 0, 180)
        messages = [body for _, body in rabbit.take("events")]
        assert seen(messages) == {key: etags + more[key] for key, etags in written.items()}
        # Those that the gateway knew nothing of when the broker died: at most one per place, and a
        # page that the store did not know of.
        assert len(messages) < 250 + 110
    finally:
        rabbit.stop()


@LONG_RABBIT
def test_events_for_a_broker_that_refuses_become_dead(rabbit, tmp_path):
    with running("file", tmp_path, "--events-every", "1", "--events-keep", "0") as gateway:
        client = gateway.client()
        client.create_bucket(Bucket="photos")
        options = ["--amqp", rabbit.url, "--routing-key", "events", *login_with(tmp_path, "wrong")]
        notify(client, "photos", rule(create(gateway, *options), CREATED))
        client.put_object(Bucket="photos", Key="k", Body=b"")
        wait_until(lambda: [found["dead"] for found in status(gateway, "photos")] == [1])
        assert "ACCESS_REFUSED" in status(gateway, "photos", "--dead")[1]["reason"]


@LONG_KAFKA
def test_kafka_gets_the_events_of_a_key_in_one_partition(watching, client, photos, kafka):
    from kafka.partitioner.default import murmur2

    kafka.create_topic("events", 5)
    notify(client, photos, rule(create(watching, "--kafka", kafka.address, "--topic", "events"), CREATED))
    written = write(client, photos, range(60))
    wait_until(lambda: waiting(watching, photos) == 0)
    records = kafka.take("events")
    assert sum(map(len, records.values())) == 60
    for partition, found in records.items():
        for key, message in found:
            assert key == f"{photos}/{message['Records'][0]['s3']['object']['key']}"
            # As Kafka's own clients choose it.
            assert partition == (murmur2(key.encode()) & 0x7FFF_FFFF) % 5
    assert seen(message for found in records.values() for _, message in found) == written


@LONG_KAFKA
@pytest.mark.parametrize("mechanism", ["plain", "scram-sha-256", "scram-sha-512"])
@pytest.mark.parametrize("tls", [False, True])
def test_logins_to_kafka(watching, client, photos, kafka, login, tmp_path, leaf_certificate, mechanism, tls):
    topic = f"login-{mechanism}-{tls}"
    kafka.create_topic(topic, 1)
    options = ["--kafka", kafka.tls_address if tls else kafka.sasl_address, "--topic", topic, "--sasl", mechanism]
    options += ["--ca", leaf_certificate[0]] if tls else []
    notify(client, photos, rule(create(watching, *options, *login_with(tmp_path, "wrong")), CREATED))
    client.put_object(Bucket=photos, Key="k0", Body=b"")
    wait_until(lambda: any("SASL_AUTHENTICATION_FAILED" in failure for failure in failures(watching, photos)))
    notify(client, photos, rule(create(watching, *options, *login), CREATED))
    written = write(client, photos, range(3))
    wait_until(lambda: waiting(watching, photos) == 0)
    assert seen(message for _, message in kafka.take(topic)[0]) == written


@LONG_KAFKA
def test_what_kafka_refuses_is_a_clear_failure(watching, client, photos, kafka, login, leaf_certificate):
    elsewhere = ["--kafka", kafka.tls_address.replace("127.0.0.1", "localhost")]
    cases = [
        (["--kafka", kafka.address, "--topic", "none"], "no topic 'none'"),
        (["--kafka", kafka.sasl_address, "--topic", "none"], "--user"),
        (["--kafka", kafka.tls_address, "--topic", "none", "--tls", *login], "certificate"),
        # The certificate is one of another host.
        ([*elsewhere, "--topic", "none", *login, "--ca", leaf_certificate[0]], "not valid for name"),
        # A port that wants TLS.
        (["--kafka", kafka.tls_address, "--topic", "none", *login], "TLS"),
        (["--kafka", watching.url.removeprefix("http://"), "--topic", "none"], "does not speak Kafka"),
    ]
    for options, reason in cases:
        notify(client, photos, rule(create(watching, *options), CREATED))
        client.put_object(Bucket=photos, Key="k", Body=b"")
        wait_until(lambda reason=reason: any(failure and reason in failure for failure in failures(watching, photos)))
        notify(client, photos)
        wait_until(lambda: waiting(watching, photos) == 0)


@LONG_KAFKA
def test_a_message_that_is_too_large_is_dead(watching, client, photos, kafka):
    kafka.create_topic("small", 1, **{"max.message.bytes": "200"})
    notify(client, photos, rule(create(watching, "--kafka", kafka.address, "--topic", "small"), CREATED))
    client.put_object(Bucket=photos, Key="k", Body=b"")
    wait_until(lambda: [found["dead"] for found in status(watching, photos)] == [1])
    assert "MESSAGE_TOO_LARGE" in status(watching, photos, "--dead")[1]["reason"]


@LONG_KAFKA
def test_events_wait_for_kafka(watching, client, photos, kafka):
    """The broker is down, then up, then dies while the gateway delivers, and comes up again. It is the last
    test of this broker.
    """
    kafka.create_topic("waits", 3)
    notify(client, photos, rule(create(watching, "--kafka", kafka.address, "--topic", "waits"), CREATED))
    kafka.kill()
    written = write(client, photos, range(200))
    wait_until(lambda: any("refused" in failure for failure in failures(watching, photos)))
    assert waiting(watching, photos) == 200
    kafka.start()
    wait_until(lambda: 20 < 200 - waiting(watching, photos), 180)
    kafka.kill()
    more = write(client, photos, range(200, 250))
    kafka.start()
    wait_until(lambda: waiting(watching, photos) == 0, 180)
    records = kafka.take("waits")
    messages = [message for found in records.values() for _, message in found]
    assert seen(messages) == {key: etags + more[key] for key, etags in written.items()}
