"""Events: their rules, their delivery, and failures of targets and gateways."""

import concurrent.futures
import threading
import time
import uuid

import pytest
from gateway import LONG, running
from target import ALL, CREATED, notify, rule, rules_of, running_target, status, wait_until, waiting


def create_target(gateway, url, *options):
    """Creates a target with a new name; returns its ARN."""
    name = f"main/{uuid.uuid4().hex[:8]}"
    return gateway.run("events", "target", "create", name, "--webhook", url, *options)[0]["arn"]


def test_rules_are_stored_and_removed(watching, client, photos):
    arn = create_target(watching, "http://localhost:1/")
    assert rules_of(client, photos) == []
    notify(client, photos, {**rule(arn, CREATED, prefix="raw/", suffix=".jpg"), "Id": "mine"}, rule(arn, ["s3:ObjectRemoved:Delete"]))
    first, second = rules_of(client, photos)
    assert first == {**rule(arn, CREATED, prefix="raw/", suffix=".jpg"), "Id": "mine"}
    assert second == {**rule(arn, ["s3:ObjectRemoved:Delete"]), "Id": "notification-1"}
    notify(client, photos)
    assert rules_of(client, photos) == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"Events": ["s3:ObjectMoved:*"]}, "InvalidArgument"),
        ({"Events": ["ObjectCreated:*"]}, "InvalidArgument"),
        ({"Events": ["s3:*"]}, "InvalidArgument"),
        ({"Events": ["s3:Object*"]}, "InvalidArgument"),
        ({"Events": ["s3:ObjectRestore:Post"]}, "NotImplemented"),
        ({"Events": ["s3:ObjectTagging:*"]}, "NotImplemented"),
        ({"TopicArn": "arn:aws:sns:us-east-1:main:none"}, "InvalidArgument"),
        ({"TopicArn": "arn:aws:sns:eu-west-1:main:there"}, "InvalidArgument"),
        ({"TopicArn": "arn:aws:sqs:us-east-1:main:there"}, "InvalidArgument"),
        ({"TopicArn": "there"}, "InvalidArgument"),
        ({"TopicArn": "arn:aws:sns:us-east-1:rival:there"}, "AccessDenied"),
        ({"TopicArn": "arn:aws:sns:us-east-1:rival:none"}, "AccessDenied"),
        ({"Id": "x" * 256}, "InvalidArgument"),
        ({"Id": "good"}, "InvalidArgument"),
        ({"Filter": {"Key": {"FilterRules": [{"Name": "middle", "Value": "x"}]}}}, "InvalidArgument"),
        ({"Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": "x"}] * 2}}}, "InvalidArgument"),
        ({"Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": "x" * 1025}]}}}, "InvalidArgument"),
    ],
)
def test_bad_rules_are_refused(watching, client, photos, code_of, change, code):
    accounts = [found["account"] for found in watching.run("account", "ls")]
    if "rival" not in accounts:
        watching.run("account", "create", "rival")
        for target in ["main/there", "rival/there"]:
            watching.run("events", "target", "create", target, "--webhook", "http://localhost:1/")
    good = {**rule("arn:aws:sns:us-east-1:main:there"), "Id": "good"}
    configuration = {"TopicConfigurations": [good, {**good, "Id": "bad", **change}]}
    call = client.put_bucket_notification_configuration
    assert code_of(call, Bucket=photos, NotificationConfiguration=configuration)[0] == code
    assert rules_of(client, photos) == []


def test_a_queue_configuration_names_the_same_target(watching, client, photos, code_of):
    with running_target() as target:
        topic = create_target(watching, target.url)
        queue = topic.replace(":sns:", ":sqs:")
        both = {
            "TopicConfigurations": [rule(topic, CREATED, prefix="topic/")],
            "QueueConfigurations": [{"QueueArn": queue, "Events": CREATED, "Filter": rule("", prefix="queue/")["Filter"]}],
        }
        client.put_bucket_notification_configuration(Bucket=photos, NotificationConfiguration=both)
        found = client.get_bucket_notification_configuration(Bucket=photos)
        assert [part["QueueArn"] for part in found["QueueConfigurations"]] == [queue]
        assert [part["TopicArn"] for part in found["TopicConfigurations"]] == [topic]
        for key in ["topic/k", "queue/k", "none/k"]:
            client.put_object(Bucket=photos, Key=key, Body=b"")
        wait_until(lambda: len(target.taken) == 2 and waiting(watching, photos) == 0)
        assert sorted(key for _, key in target.names()) == ["queue/k", "topic/k"]
        call = client.put_bucket_notification_configuration
        for arn, code in [(topic, "InvalidArgument"), (queue.replace(":main:", ":rival:"), "AccessDenied"), (queue + "x", "InvalidArgument")]:
            wrong = {"QueueConfigurations": [{"QueueArn": arn, "Events": CREATED}]}
            assert code_of(call, Bucket=photos, NotificationConfiguration=wrong)[0] == code


@pytest.mark.parametrize("kind", ["LambdaFunctionConfigurations", "EventBridgeConfiguration"])
def test_other_kinds_of_targets_are_refused(client, photos, code_of, kind):
    given = [{"LambdaFunctionArn": "arn:aws:sns:us-east-1:main:x", "Events": CREATED}] if kind.startswith("L") else {}
    call = client.put_bucket_notification_configuration
    assert code_of(call, Bucket=photos, NotificationConfiguration={kind: given})[0] == "NotImplemented"


def test_a_target_gets_what_its_rule_asks_for(watching, client, photos):
    with running_target() as target, running_target() as other:
        notify(
            client,
            photos,
            rule(create_target(watching, target.url), ALL, prefix="a b/"),
            rule(create_target(watching, other.url), ["s3:ObjectCreated:Copy"], suffix=".jpg"),
        )
        put = client.put_object(Bucket=photos, Key="a b/ü.jpg", Body=b"data")
        client.put_object(Bucket=photos, Key="elsewhere", Body=b"data")
        client.copy_object(Bucket=photos, Key="a b/copy.jpg", CopySource={"Bucket": photos, "Key": "a b/ü.jpg"})
        upload = client.create_multipart_upload(Bucket=photos, Key="a b/parts")["UploadId"]
        part = client.upload_part(Bucket=photos, Key="a b/parts", UploadId=upload, PartNumber=1, Body=b"part")
        parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
        client.complete_multipart_upload(Bucket=photos, Key="a b/parts", UploadId=upload, MultipartUpload=parts)
        client.delete_object(Bucket=photos, Key="a b/copy.jpg")
        client.delete_objects(Bucket=photos, Delete={"Objects": [{"Key": "a b/parts"}, {"Key": "a b/none"}]})
        client.put_bucket_versioning(Bucket=photos, VersioningConfiguration={"Status": "Enabled"})
        marker = client.delete_object(Bucket=photos, Key="a b/ü.jpg")["VersionId"]
        wait_until(lambda: len(target.taken) == 6 and len(other.taken) == 1)
        expected = [
            ("ObjectCreated:CompleteMultipartUpload", "a+b/parts"),
            ("ObjectCreated:Copy", "a+b/copy.jpg"),
            ("ObjectCreated:Put", "a+b/%C3%BC.jpg"),
            ("ObjectRemoved:Delete", "a+b/copy.jpg"),
            ("ObjectRemoved:Delete", "a+b/parts"),
            ("ObjectRemoved:DeleteMarkerCreated", "a+b/%C3%BC.jpg"),
        ]
        assert sorted(target.names()) == expected
        assert other.names() == [("ObjectCreated:Copy", "a+b/copy.jpg")]
        (record,) = [record for record in target.taken if record["eventName"] == "ObjectCreated:Put"]
        assert record["eventSource"] == "aws:s3" and record["awsRegion"] == "us-east-1"
        assert record["userIdentity"] == {"principalId": "main/admin"}
        assert record["requestParameters"] == {"sourceIPAddress": "127.0.0.1"}
        assert record["s3"]["bucket"] == {"name": photos, "ownerIdentity": {"principalId": "main"}, "arn": f"arn:aws:s3:::{photos}"}
        assert record["s3"]["object"]["size"] == 4
        assert record["s3"]["object"]["eTag"] == put["ETag"].strip('"')
        assert record["s3"]["configurationId"] == "notification-1"
        (hidden,) = [record for record in target.taken if record["eventName"].endswith("MarkerCreated")]
        assert hidden["s3"]["object"]["versionId"] == marker
        assert "size" not in hidden["s3"]["object"]
        sequencers = [r["s3"]["object"]["sequencer"] for r in target.taken if r["s3"]["object"]["key"] == "a+b/%C3%BC.jpg"]
        assert sequencers == sorted(sequencers) and len(set(sequencers)) == 2
        assert {headers["content-type"] for headers in target.headers} == {"application/json"}


def test_a_target_over_tls_with_a_token(watching, client, photos, tmp_path, leaf_certificate):
    cert, key = leaf_certificate
    (tmp_path / "token").write_text("open sesame\n")
    with running_target(tls=(cert, key)) as target:
        options = ["--ca", str(cert), "--token-file", str(tmp_path / "token")]
        notify(client, photos, rule(create_target(watching, target.url, *options)))
        client.put_object(Bucket=photos, Key="k", Body=b"")
        wait_until(lambda: target.taken)
        assert target.headers[0]["authorization"] == "Bearer open sesame"
    with running_target(tls=(cert, key)) as target:
        # Without the authority's certificate, the gateway does not trust the target.
        notify(client, photos, rule(create_target(watching, target.url)))
        client.put_object(Bucket=photos, Key="k", Body=b"")
        wait_until(lambda: any("certificate" in (found["failure"] or "") for found in status(watching, photos)))
        assert target.attempts == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["main/x", "--webhook", "ftp://host/"], "http://"),
        (["main/x", "--webhook", "no url"], "not a URL"),
        (["main/x", "--webhook", "http://user:pass@host/"], "password"),
        (["x", "--webhook", "http://host/"], "ACCOUNT/NAME"),
        (["none/x", "--webhook", "http://host/"], "account"),
        (["main/a b", "--webhook", "http://host/"], "name"),
        (["main/x", "--webhook", "https://host/", "--ca", "/etc/hostname"], "no certificate"),
        (["main/x", "--webhook", "https://host/", "--token-file", "/dev/null"], "empty"),
        (["main/x"], "--webhook"),
        (["main/x", "--webhook", "http://host/", "--amqp", "amqp://host", "--routing-key", "k"], "cannot be used with"),
        (["main/x", "--webhook", "http://host/", "--topic", "t"], "cannot be used with"),
        (["main/x", "--webhook", "http://host/", "--password-file", "/dev/null"], "cannot be used with"),
        (["main/x", "--amqp", "amqp://host", "--routing-key", "k", "--tls"], "cannot be used with"),
        (["main/x", "--kafka", "host:9092", "--topic", "t", "--token-file", "/dev/null"], "cannot be used with"),
        (["main/x", "--amqp", "amqp://host"], "--routing-key"),
        (["main/x", "--amqp", "http://host", "--routing-key", "k"], "amqp://HOST"),
        (["main/x", "--amqp", "amqp://ho%20st", "--routing-key", "k"], "amqp://HOST"),
        (["main/x", "--amqp", "amqp://host", "--routing-key", "k", "--user", "u"], "--password-file"),
        (["main/x", "--amqp", "amqp://host", "--routing-key", "k", "--user", "u", "--password-file", "/dev/null"], "empty"),
        (["main/x", "--kafka", "host:9092"], "--topic"),
        (["main/x", "--kafka", "host", "--topic", "t"], "HOST:PORT"),
        (["main/x", "--kafka", "host:9092", "--topic", "t", "--sasl", "plain"], "--user"),
    ],
)
def test_bad_targets_are_refused(watching, options, message):
    before = watching.run("events", "target", "ls")
    verb = watching.spawn("events", "target", "create", *options)
    out, err = verb.communicate(timeout=60)
    assert verb.returncode != 0 and message in err, out + err
    assert watching.run("events", "target", "ls") == before


def test_a_kafka_target_shows_its_login(watching, tmp_path):
    options = ["--kafka", "host:9092", "--topic", "t"]
    (tmp_path / "password").write_text("secret\n")
    login = ["--user", "gateway", "--password-file", str(tmp_path / "password")]
    for sasl in ["plain", "scram-sha-256", "scram-sha-512"]:
        (created,) = watching.run("events", "target", "create", f"main/{sasl}", *options, *login, "--sasl", sasl)
        assert created["sasl"] == sasl
    (created,) = watching.run("events", "target", "create", "main/no-login", *options)
    assert created["sasl"] is None


def test_a_refused_event_is_dead_until_it_is_repeated(watching, client, photos):
    with running_target(lambda record: 410 if record["s3"]["object"]["key"] == "bad" else 200) as target:
        notify(client, photos, rule(create_target(watching, target.url)))
        for key in ["good", "bad", "better"]:
            client.put_object(Bucket=photos, Key=key, Body=b"")
        wait_until(lambda: len(target.taken) == 2 and waiting(watching, photos) == 0)
        queue, dead = status(watching, photos, "--dead")
        assert (queue["dead"], dead["key"], dead["reason"]) == (1, "bad", "the answer is 410 Gone")
        target.answer = lambda record: 200
        assert watching.run("events", "retry", photos)[0]["events"] == 1
        wait_until(lambda: target.names()[-1] == ("ObjectCreated:Put", "bad"))
        wait_until(lambda: status(watching, photos)[0]["dead"] == 0 and waiting(watching, photos) == 0)
        target.answer = lambda record: 400
        client.put_object(Bucket=photos, Key="bad", Body=b"")
        wait_until(lambda: status(watching, photos)[0]["dead"] == 1)
        assert watching.run("events", "rm", photos)[0]["events"] == 1
        assert status(watching, photos)[0]["dead"] == 0


@pytest.mark.parametrize("code", [301, 408, 425, 429, 500, 503])
def test_other_answers_are_repeated(watching, client, photos, code):
    answers = [code, 200]
    with running_target(lambda record: answers.pop(0)) as target:
        notify(client, photos, rule(create_target(watching, target.url)))
        client.put_object(Bucket=photos, Key="k", Body=b"")
        wait_until(lambda: target.taken and waiting(watching, photos) == 0)
        assert (target.attempts, len(target.taken)) == (2, 1)


def test_events_wait_for_a_target_that_is_created_again(watching, client, photos):
    with running_target() as target:
        name = f"main/{uuid.uuid4().hex[:8]}"
        arn = watching.run("events", "target", "create", name, "--webhook", "http://localhost:1/")[0]["arn"]
        notify(client, photos, rule(arn))
        watching.run("events", "target", "rm", name)
        client.put_object(Bucket=photos, Key="k", Body=b"")
        wait_until(lambda: any("no such target" in (found["failure"] or "") for found in status(watching, photos)))
        watching.run("events", "target", "create", name, "--webhook", target.url)
        wait_until(lambda: target.taken)


def test_a_target_that_is_down_delays_no_request_and_no_other_target(watching, client, photos):
    with running_target(lambda record: 503) as down, running_target() as up:
        notify(client, photos, rule(create_target(watching, down.url)), rule(create_target(watching, up.url)))
        for number in range(20):
            client.put_object(Bucket=photos, Key=f"k{number % 4}", Body=b"%d" % number)
        wait_until(lambda: len(up.taken) == 20)
        wait_until(lambda: down.attempts > 0)
        wait_until(lambda: sum("503" in (found["failure"] or "") for found in status(watching, photos)) == 1)
        assert waiting(watching, photos) == 20
        down.answer = lambda record: 200
        wait_until(lambda: len(down.taken) >= 20 and waiting(watching, photos) == 0)
        assert not any(found["failure"] for found in status(watching, photos))
        # The events of each key are in order.
        for target in [up, down]:
            for key in ["k0", "k1", "k2", "k3"]:
                etags = [r["s3"]["object"]["eTag"] for r in target.taken if r["s3"]["object"]["key"] == key]
                assert len(etags) == len(set(etags)) == 5
                order = [r["s3"]["object"]["sequencer"] for r in target.taken if r["s3"]["object"]["key"] == key]
                assert order == sorted(order)


def test_events_that_wait_too_long_are_dead(tmp_path):
    with running("file", tmp_path, "--events-every", "1", "--events-keep", "0") as gateway:
        client = gateway.client()
        client.create_bucket(Bucket="photos")
        notify(client, "photos", rule(create_target(gateway, "http://localhost:1/")))
        client.put_object(Bucket="photos", Key="k", Body=b"")
        wait_until(lambda: [found["dead"] for found in status(gateway, "photos")] == [1])
        assert "cannot connect" in status(gateway, "photos", "--dead")[1]["reason"]


def test_a_target_that_hangs_delays_no_other_target(watching, client, photos):
    gate = threading.Event()

    def hang(record):
        gate.wait(60)
        return 503

    with running_target(hang) as hanging, running_target() as up:
        notify(client, photos, rule(create_target(watching, hanging.url)), rule(create_target(watching, up.url)))
        client.put_object(Bucket=photos, Key="k0", Body=b"")
        wait_until(lambda: hanging.attempts == 1)
        # While the gateway waits for the answer, the other target gets its events.
        for number in range(20):
            client.put_object(Bucket=photos, Key=f"k{number}", Body=b"")
        wait_until(lambda: len(up.taken) == 21)
        assert not any(found["failure"] for found in status(watching, photos))
        wait_until(lambda: any("10 seconds" in (found["failure"] or "") for found in status(watching, photos)))
        hanging.answer = lambda record: 200
        gate.set()
        wait_until(lambda: waiting(watching, photos) == 0)
        assert {record["s3"]["object"]["key"] for record in hanging.taken} == {f"k{number}" for number in range(20)}


def test_a_slow_body_of_an_answer_does_not_count(watching, client, photos):
    with running_target(lambda record: 200, body_seconds=12) as slow:
        notify(client, photos, rule(create_target(watching, slow.url)))
        for _ in range(2):
            client.put_object(Bucket=photos, Key="k", Body=b"")
        wait_until(lambda: waiting(watching, photos) == 0)
        assert len(slow.taken) == 2


def test_one_event_that_fails_blocks_only_its_place(watching, client, photos):
    with running_target(lambda record: 500 if record["s3"]["object"]["key"] == "poison" else 200) as target:
        notify(client, photos, rule(create_target(watching, target.url)))
        client.put_object(Bucket=photos, Key="poison", Body=b"")
        for number in range(64):
            client.put_object(Bucket=photos, Key=f"k{number}", Body=b"")
        keys = {f"k{number}" for number in range(64)}
        # All events of other shards arrive: those that wait are in the place of the first one. An event
        # that has arrived waits until it is removed.
        wait_until(
            lambda: target.attempts >= 4
            and waiting(watching, photos) == len(keys - {key for _, key in target.names()}) + 1 < 16
        )


@pytest.mark.parametrize("replaced", [True, False])
def test_events_of_a_removed_rule_are_dropped(watching, client, photos, replaced):
    with running_target(lambda record: 503) as down:
        notify(client, photos, rule(create_target(watching, down.url)))
        client.put_object(Bucket=photos, Key="k", Body=b"")
        wait_until(lambda: down.attempts > 0)
        assert waiting(watching, photos) == 1
        if replaced:
            with running_target() as up:
                notify(client, photos, rule(create_target(watching, up.url)))
                client.put_object(Bucket=photos, Key="k", Body=b"")
                wait_until(lambda: up.taken and waiting(watching, photos) == 0)
        else:
            notify(client, photos)
            wait_until(lambda: waiting(watching, photos) == 0)
            assert rules_of(client, photos) == []
        assert down.taken == []


def test_dead_events_without_a_rule_are_only_removed(watching, client, photos):
    with running_target(lambda record: 400) as target:
        notify(client, photos, rule(create_target(watching, target.url)))
        client.put_object(Bucket=photos, Key="k", Body=b"")
        wait_until(lambda: status(watching, photos)[0]["dead"] == 1)
        notify(client, photos)
        assert watching.run("events", "retry", photos)[0]["events"] == 0
        verb = watching.spawn("events", "retry", photos, "--queue", status(watching, photos)[0]["queue"])
        assert "no rule" in verb.communicate(timeout=60)[1] and verb.returncode != 0
        assert watching.run("events", "rm", photos)[0]["events"] == 1


def test_a_bucket_of_the_same_name_has_later_sequencers(watching, client, photos):
    with running_target() as target:
        arn = create_target(watching, target.url)
        for _ in range(2):
            notify(client, photos, rule(arn))
            client.put_object(Bucket=photos, Key="k", Body=b"")
            client.delete_object(Bucket=photos, Key="k")
            wait_until(lambda: waiting(watching, photos) == 0)
            client.delete_bucket(Bucket=photos)
            client.create_bucket(Bucket=photos)
        sequencers = [record["s3"]["object"]["sequencer"] for record in target.taken]
        assert len(sequencers) == 4 and sequencers == sorted(set(sequencers))
        # Each change has its id.
        assert len({record["responseElements"]["x-amz-request-id"] for record in target.taken}) == 4


def test_a_stopped_gateway_delivers_no_event_twice(tmp_path):
    with running_target(lambda record: time.sleep(0.2) or 200) as target:
        with running("file", tmp_path) as gateway:
            client = gateway.client(max_pool_connections=8)
            client.create_bucket(Bucket="photos")
            notify(client, "photos", rule(create_target(gateway, target.url)))
            for round in range(2):
                with concurrent.futures.ThreadPoolExecutor(8) as threads:
                    list(threads.map(lambda n: client.put_object(Bucket="photos", Key=f"k{n % 9}", Body=b"%d" % n), range(60)))
                gateway.stop()
                assert len(target.taken) < 60 * (round + 1)
                gateway.start()
                client = gateway.client(max_pool_connections=8)
            wait_until(lambda: waiting(gateway, "photos") == 0)
        assert len(target.taken) == 120
        assert len({record["responseElements"]["x-amz-request-id"] for record in target.taken}) == 120


def test_lifecycle_rules_make_events(tmp_path):
    options = ["--events-every", "1", "--lifecycle-every", "1", "--lifecycle-day", "1"]
    with running("file", tmp_path, *options) as gateway, running_target() as target:
        client = gateway.client()
        client.create_bucket(Bucket="photos")
        notify(client, "photos", rule(create_target(gateway, target.url), ["s3:LifecycleExpiration:*"]))
        expiration = {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}
        client.put_bucket_lifecycle_configuration(Bucket="photos", LifecycleConfiguration={"Rules": [expiration]})
        client.put_object(Bucket="photos", Key="k", Body=b"")
        wait_until(lambda: target.taken)
        assert target.names() == [("LifecycleExpiration:Delete", "k")]
        assert target.taken[0]["userIdentity"] == {"principalId": "lifecycle"}


def test_an_account_with_targets_is_not_removed(watching):
    watching.run("account", "create", "brief")
    watching.run("events", "target", "create", "brief/web", "--webhook", "http://localhost:1/")
    verb = watching.spawn("account", "rm", "brief")
    assert "targets of events" in verb.communicate(timeout=60)[1] and verb.returncode != 0
    watching.run("events", "target", "rm", "brief/web")
    watching.run("account", "rm", "brief")


@pytest.mark.skipif(not LONG, reason="`make test-long` runs it: the leases of dead gateways take half a minute to expire")
def test_no_event_is_lost_when_gateways_die(engine, tmp_path):
    """One gateway writes and dies, again and again. Another one delivers the remaining events."""
    rounds = 12
    with running(engine, tmp_path, "--events-every", "1") as first, running_target() as target:
        client = first.client()
        client.create_bucket(Bucket=f"photos-{first.pool}")
        bucket = f"photos-{first.pool}"
        notify(client, bucket, rule(create_target(first, target.url), CREATED))
        written = {}
        for round in range(rounds):
            other = first.start_another()
            try:
                clients = other.client(max_pool_connections=8)

                def write(number, clients=clients, round=round):
                    done = clients.put_object(Bucket=bucket, Key=f"k{number % 7}", Body=f"{round} {number}".encode())
                    written.setdefault(f"k{number % 7}", set()).add(done["ETag"].strip('"'))

                with concurrent.futures.ThreadPoolExecutor(8) as threads:
                    running_writes = [threads.submit(write, number) for number in range(40)]
                    concurrent.futures.wait(running_writes[:20])
                    other.kill()
            finally:
                other.kill()
        # A lease of a dead gateway ends after half a minute.
        wait_until(lambda: waiting(first, bucket) == 0, 120)
        for key, etags in written.items():
            records = [r["s3"]["object"] for r in target.taken if r["s3"]["object"]["key"] == key]
            assert etags <= {found["eTag"] for found in records}
            # Events come twice at most after a crash, and the first delivery of each is in order.
            first_seen = list(dict.fromkeys(found["sequencer"] for found in records))
            assert first_seen == sorted(first_seen)
