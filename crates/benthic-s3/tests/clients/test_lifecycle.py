"""Lifecycle rules: their documents, the header of objects, and gateways that apply them."""

import datetime
import time

import pytest
from gateway import running
from raw import send_signed
from test_object_lock import after, retained

RULE = {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": "tmp/"}, "Expiration": {"Days": 3}}


def put_rules(s3, bucket, *rules):
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": list(rules)})


def rules_of(s3, bucket):
    return s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]


def keys(s3, bucket):
    return sorted(found["Key"] for found in s3.list_objects_v2(Bucket=bucket).get("Contents", []))


def test_rules_are_stored_and_removed(s3, bucket, code_of):
    missing = ("NoSuchLifecycleConfiguration", 404)
    assert code_of(s3.get_bucket_lifecycle_configuration, Bucket=bucket) == missing
    tags = [{"Key": "team", "Value": "a"}, {"Key": "kind", "Value": "b"}]
    rules = [
        RULE,
        {"ID": "prefix", "Status": "Disabled", "Prefix": "a", "Expiration": {"Date": datetime.datetime(2030, 1, 1, tzinfo=datetime.timezone.utc)}},
        {"ID": "tag", "Status": "Enabled", "Filter": {"Tag": tags[0]}, "Expiration": {"Days": 1}},
        {
            "ID": "several",
            "Status": "Enabled",
            "Filter": {"And": {"Prefix": "a", "Tags": tags, "ObjectSizeGreaterThan": 1, "ObjectSizeLessThan": 9}},
            "NoncurrentVersionExpiration": {"NoncurrentDays": 2, "NewerNoncurrentVersions": 3},
        },
        {"ID": "uploads", "Status": "Enabled", "Filter": {}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}},
        {"ID": "markers", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"ExpiredObjectDeleteMarker": True}},
    ]
    put_rules(s3, bucket, *rules)
    found = rules_of(s3, bucket)
    for rule in found:
        if rule.get("Filter") == {"Prefix": ""} and rule["ID"] == "uploads":
            rule["Filter"] = {}
    assert found == rules
    # A rule without a name gets one.
    put_rules(s3, bucket, {name: value for name, value in RULE.items() if name != "ID"})
    assert [rule["ID"] for rule in rules_of(s3, bucket)] == ["rule-1"]
    s3.delete_bucket_lifecycle(Bucket=bucket)
    assert code_of(s3.get_bucket_lifecycle_configuration, Bucket=bucket) == missing


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"Status": "enabled"}, "MalformedXML"),
        ({"Expiration": {}}, "MalformedXML"),
        ({"Expiration": {"Days": 0}}, "InvalidArgument"),
        ({"Expiration": {"Days": -1}}, "InvalidArgument"),
        ({"Expiration": {"Days": 1, "ExpiredObjectDeleteMarker": True}}, "MalformedXML"),
        ({"Expiration": {"Date": datetime.datetime(2030, 1, 1, 1)}}, "InvalidArgument"),
        ({"ID": "x" * 256}, "InvalidArgument"),
        ({"Prefix": "a"}, "MalformedXML"),
        ({"Filter": {"Prefix": "a", "Tag": {"Key": "a", "Value": "b"}}}, "MalformedXML"),
        ({"Filter": {"And": {"ObjectSizeGreaterThan": 9, "ObjectSizeLessThan": 9}}}, "InvalidArgument"),
        ({"NoncurrentVersionExpiration": {"NewerNoncurrentVersions": 3}}, "MalformedXML"),
        ({"NoncurrentVersionExpiration": {"NoncurrentDays": 1, "NewerNoncurrentVersions": 101}}, "InvalidArgument"),
        ({"Transitions": [{"Days": 1, "StorageClass": "GLACIER"}]}, "InvalidStorageClass"),
        ({"Transitions": [{"Days": 1, "StorageClass": "STANDARD"}]}, "MalformedXML"),
        ({"Transitions": [{"Days": 3, "StorageClass": "GLACIER"}]}, "InvalidArgument"),
        ({"NoncurrentVersionTransitions": [{"StorageClass": "GLACIER"}]}, "MalformedXML"),
        ({"Filter": {"Tag": {"Key": "a", "Value": "b"}}, "Expiration": {"ExpiredObjectDeleteMarker": True}}, "InvalidRequest"),
        ({"Filter": {"ObjectSizeLessThan": 3}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}}, "InvalidRequest"),
    ],
)
def test_bad_rules_are_refused(s3, bucket, code_of, change, code):
    rules = {"Rules": [{**RULE, "ID": "good"}, {**RULE, **change}]}
    assert code_of(s3.put_bucket_lifecycle_configuration, Bucket=bucket, LifecycleConfiguration=rules)[0] == code
    assert code_of(s3.get_bucket_lifecycle_configuration, Bucket=bucket)[0] == "NoSuchLifecycleConfiguration"


def test_rules_need_an_action_and_unique_names(s3, bucket, code_of):
    idle = {name: value for name, value in RULE.items() if name != "Expiration"}
    for rules, code in [([idle], "InvalidRequest"), ([RULE, RULE], "InvalidArgument"), ([RULE] * 1_001, "MalformedXML")]:
        configuration = {"Rules": rules}
        assert code_of(s3.put_bucket_lifecycle_configuration, Bucket=bucket, LifecycleConfiguration=configuration)[0] == code


def expiring(time):
    """The document of a rule that no ordinary client sends."""
    rule = f"<Filter><Prefix>tmp/</Prefix></Filter><Status>Enabled</Status><Expiration>{time}</Expiration>"
    return f"<LifecycleConfiguration><Rule>{rule}</Rule></LifecycleConfiguration>".encode()


@pytest.mark.parametrize("days", ["3O", "1.5", "3 0", "&#51;0", "3<!-- 0 -->x"])
def test_a_number_with_something_behind_it_is_refused(gateway, s3, bucket, code_of, days):
    answer = send_signed(gateway, "PUT", f"/{bucket}?lifecycle", expiring(f"<Days>{days}</Days>"))
    assert answer == (400, "MalformedXML")
    assert code_of(s3.get_bucket_lifecycle_configuration, Bucket=bucket)[0] == "NoSuchLifecycleConfiguration"


def test_dates_may_have_any_time_zone(gateway, s3, bucket):
    for date in ["2030-01-01T00:00:00Z", "2030-01-01T05:00:00+05:00", "2029-12-31T23:59:59.9999999Z"]:
        assert send_signed(gateway, "PUT", f"/{bucket}?lifecycle", expiring(f"<Date>{date}</Date>"))[0] == 200
        assert rules_of(s3, bucket)[0]["Expiration"]["Date"] == datetime.datetime(2030, 1, 1, tzinfo=datetime.timezone.utc)
        assert "Expiration" in s3.put_object(Bucket=bucket, Key="tmp/a", Body=b"1")
    wrong = expiring("<Date>2030-01-01T00:00:00+05:00</Date>")
    assert send_signed(gateway, "PUT", f"/{bucket}?lifecycle", wrong) == (400, "InvalidArgument")


def test_answers_say_when_an_object_expires(s3, bucket):
    tagged = {"ID": "tagged", "Status": "Enabled", "Filter": {"Tag": {"Key": "a", "Value": "b"}}, "Expiration": {"Days": 1}}
    never = {"ID": "never\n\"é", "Status": "Enabled", "Filter": {"Prefix": "never/"}, "Expiration": {"Days": 2**31 - 1}}
    put_rules(s3, bucket, RULE, tagged, never)
    header = lambda: after(days=4).strftime('expiry-date="%a, %d %b %Y 00:00:00 GMT", rule-id="old"')
    # Midnight may pass.
    possible = {header()}
    expected = s3.put_object(Bucket=bucket, Key="tmp/a", Body=b"1")["Expiration"]
    assert expected in possible | {header()}
    assert s3.head_object(Bucket=bucket, Key="tmp/a")["Expiration"] == expected
    assert s3.get_object(Bucket=bucket, Key="tmp/a")["Expiration"] == expected
    assert s3.copy_object(Bucket=bucket, Key="tmp/b", CopySource=f"{bucket}/tmp/a")["Expiration"] == expected
    assert "Expiration" not in s3.put_object(Bucket=bucket, Key="other", Body=b"1")
    answer = s3.put_object(Bucket=bucket, Key="tmp/c", Body=b"1", Tagging="a=b")
    assert 'rule-id="tagged"' in answer["Expiration"]
    answer = s3.put_object(Bucket=bucket, Key="never/a", Body=b"1")
    assert answer["Expiration"] == 'expiry-date="Fri, 31 Dec 9999 23:59:59 GMT", rule-id="never%0A%22%C3%A9"'


@pytest.mark.parametrize("store", ["file", pytest.param("ceph", marks=pytest.mark.ceph)])
def test_gateways_apply_rules(store, tmp_path):
    """Two gateways with short days: one second."""
    options = ["--lifecycle-day", "1", "--lifecycle-every", "1"]
    with running(store, tmp_path, *options) as gateway:
        other = gateway.start_another()
        try:
            s3 = gateway.client()
            s3.create_bucket(Bucket="photos", ObjectLockEnabledForBucket=True)
            gone = [f"tmp/{number}" for number in range(30)]
            for key in [*gone, "tmp/keep", "keep"]:
                s3.put_object(Bucket="photos", Key=key, Body=b"1", Tagging="keep=yes" if key == "tmp/keep" else "keep=no")
            locked = s3.put_object(Bucket="photos", Key="locked", Body=b"1", **retained("COMPLIANCE", after(days=1)))
            s3.put_object(Bucket="photos", Key="locked", Body=b"2")
            upload = s3.create_multipart_upload(Bucket="photos", Key="upload")["UploadId"]
            put_rules(
                s3,
                "photos",
                {
                    "ID": "tmp",
                    "Status": "Enabled",
                    "Filter": {"And": {"Prefix": "tmp/", "Tags": [{"Key": "keep", "Value": "no"}]}},
                    "Expiration": {"Days": 1},
                },
                {"ID": "versions", "Status": "Enabled", "Filter": {}, "NoncurrentVersionExpiration": {"NoncurrentDays": 1}},
                {"ID": "markers", "Status": "Enabled", "Filter": {}, "Expiration": {"ExpiredObjectDeleteMarker": True}},
                {"ID": "uploads", "Status": "Enabled", "Filter": {}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}},
            )
            left = {"keep", "tmp/keep", "locked"}
            for _ in range(120):
                versions = s3.list_object_versions(Bucket="photos")
                names = {found["Key"] for kind in ["Versions", "DeleteMarkers"] for found in versions.get(kind, [])}
                if names == left and "Uploads" not in s3.list_multipart_uploads(Bucket="photos"):
                    break
                time.sleep(0.5)
            assert names == left
            assert s3.get_object(Bucket="photos", Key="locked", VersionId=locked["VersionId"])["Body"].read() == b"1"
            assert upload not in str(s3.list_multipart_uploads(Bucket="photos"))
            status = gateway.run("lifecycle", "status", "photos")[0]
            assert status["bucket"] == "photos" and status["finished"]["versions"] > 0
            done = gateway.run("lifecycle", "run")
            assert [line["bucket"] for line in done] == ["photos"]
            gateway.run("bucket", "check", "photos")
        finally:
            other.stop()
        assert "failed" not in gateway.log()


def test_a_bucket_without_rules_has_no_lifecycle(gateway, s3, bucket):
    verb = gateway.spawn("lifecycle", "run", bucket)
    _, err = verb.communicate(timeout=60)
    assert verb.returncode == 3 and "no lifecycle rules" in err
