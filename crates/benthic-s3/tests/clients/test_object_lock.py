"""Object lock: retention periods, legal holds and the defaults of a bucket."""

import datetime
import time

import pytest
from test_forms import post as post_form
from test_policies import member, other, policy, statement  # noqa: F401, fixtures

DENIED = ("AccessDenied", 403)
GOVERNANCE, COMPLIANCE = "GOVERNANCE", "COMPLIANCE"


def after(**given):
    """A time in the future, in whole seconds."""
    return datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0) + datetime.timedelta(**given)


def wait_until(end):
    left = end - datetime.datetime.now(datetime.timezone.utc)
    time.sleep(max(left.total_seconds(), 0) + 0.1)


def default(mode=GOVERNANCE, **period):
    return {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": mode, **period}}}


@pytest.fixture
def locking(s3, bucket):
    """A new bucket with object lock."""
    name = f"lock-{bucket}"
    s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    return name


def put(s3, bucket, key="a", **lock):
    return s3.put_object(Bucket=bucket, Key=key, Body=b"1", **lock)["VersionId"]


def retained(mode, until):
    return {"ObjectLockMode": mode, "ObjectLockRetainUntilDate": until}


def test_a_bucket_with_object_lock_keeps_its_versions(s3, bucket, locking, code_of):
    assert s3.get_bucket_versioning(Bucket=locking)["Status"] == "Enabled"
    settings = s3.get_object_lock_configuration(Bucket=locking)["ObjectLockConfiguration"]
    assert settings == {"ObjectLockEnabled": "Enabled"}
    suspended = {"Status": "Suspended"}
    call = {"Bucket": locking, "VersioningConfiguration": suspended}
    assert code_of(s3.put_bucket_versioning, **call) == ("InvalidBucketState", 409)
    s3.put_bucket_versioning(Bucket=locking, VersioningConfiguration={"Status": "Enabled"})

    missing = ("ObjectLockConfigurationNotFoundError", 404)
    assert code_of(s3.get_object_lock_configuration, Bucket=bucket) == missing
    call = {"Bucket": bucket, "ObjectLockConfiguration": default(Days=1)}
    assert code_of(s3.put_object_lock_configuration, **call) == ("InvalidBucketState", 409)
    assert code_of(put, s3, bucket, ObjectLockLegalHoldStatus="ON") == ("InvalidRequest", 400)
    s3.put_object(Bucket=bucket, Key="a", Body=b"1")
    for call in [s3.get_object_retention, s3.get_object_legal_hold]:
        assert code_of(call, Bucket=bucket, Key="a") == ("InvalidRequest", 400)
    held = {"Bucket": bucket, "Key": "a", "LegalHold": {"Status": "ON"}}
    assert code_of(s3.put_object_legal_hold, **held) == ("InvalidRequest", 400)
    # A bucket with versions can get object lock later.
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    s3.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled"})
    s3.put_object_legal_hold(**held)
    assert code_of(s3.delete_object, Bucket=bucket, Key="a", VersionId="null") == DENIED


@pytest.mark.parametrize("mode", [GOVERNANCE, COMPLIANCE])
def test_a_retention_period_protects_a_version(s3, locking, code_of, mode):
    until = after(days=2)
    version = put(s3, locking, **retained(mode, until))
    head = s3.head_object(Bucket=locking, Key="a")
    assert (head["ObjectLockMode"], head["ObjectLockRetainUntilDate"]) == (mode, until)
    assert "ObjectLockLegalHoldStatus" not in head
    assert s3.get_object(Bucket=locking, Key="a")["ObjectLockMode"] == mode
    found = s3.get_object_retention(Bucket=locking, Key="a", VersionId=version)["Retention"]
    assert found == {"Mode": mode, "RetainUntilDate": until}
    none = ("NoSuchObjectLockConfiguration", 404)
    assert code_of(s3.get_object_legal_hold, Bucket=locking, Key="a") == none

    exact = {"Bucket": locking, "Key": "a", "VersionId": version}
    assert code_of(s3.delete_object, **exact) == DENIED
    objects = {"Objects": [{"Key": "a", "VersionId": version}]}
    failed = s3.delete_objects(Bucket=locking, Delete=objects)["Errors"]
    assert [(error["Key"], error["Code"]) for error in failed] == [("a", "AccessDenied")]
    # A new version and a delete marker only hide it.
    put(s3, locking)
    marker = s3.delete_object(Bucket=locking, Key="a")
    assert marker["DeleteMarker"]
    s3.delete_object(Bucket=locking, Key="a", VersionId=marker["VersionId"])
    assert s3.get_object(**exact)["Body"].read() == b"1"
    # Metadata can change.
    s3.put_object_tagging(Tagging={"TagSet": [{"Key": "a", "Value": "b"}]}, **exact)
    assert s3.get_object_retention(**exact)["Retention"]["RetainUntilDate"] == until

    change = lambda mode, date, **more: s3.put_object_retention(Retention={"Mode": mode, "RetainUntilDate": date}, **exact, **more)
    other_mode = COMPLIANCE if mode == GOVERNANCE else GOVERNANCE
    change(mode, after(days=3))
    assert code_of(change, mode, after(days=1)) == DENIED
    assert code_of(change, other_mode, after(days=4)) == DENIED
    assert code_of(s3.put_object_retention, Retention={}, **exact) == DENIED
    bypass = {"BypassGovernanceRetention": True}
    if mode == COMPLIANCE:
        assert code_of(change, mode, after(days=1), **bypass) == DENIED
        assert code_of(s3.put_object_retention, Retention={}, **exact, **bypass) == DENIED
        assert code_of(s3.delete_object, **exact, **bypass) == DENIED
    else:
        change(mode, after(days=1), **bypass)
        change(other_mode, soon := after(seconds=6), **bypass)
        wait_until(soon)
        change(mode, after(days=1))
        s3.put_object_retention(Retention={}, **exact, **bypass)
        assert code_of(s3.get_object_retention, **exact) == none
        change(mode, after(days=1))
        s3.delete_objects(Bucket=locking, Delete=objects, **bypass)
        assert code_of(s3.head_object, **exact) == ("404", 404)


def test_a_period_ends(s3, locking, code_of):
    version = put(s3, locking, **retained(COMPLIANCE, until := after(seconds=8)))
    exact = {"Bucket": locking, "Key": "a", "VersionId": version}
    assert code_of(s3.delete_object, **exact) == DENIED
    wait_until(until)
    s3.delete_object(**exact)
    assert code_of(s3.head_object, **exact) == ("404", 404)


def test_a_legal_hold_protects_a_version(s3, locking, code_of):
    version = put(s3, locking, ObjectLockLegalHoldStatus="ON")
    exact = {"Bucket": locking, "Key": "a", "VersionId": version}
    assert s3.head_object(**exact)["ObjectLockLegalHoldStatus"] == "ON"
    assert code_of(s3.delete_object, **exact) == DENIED
    assert code_of(s3.delete_object, BypassGovernanceRetention=True, **exact) == DENIED
    s3.put_object_legal_hold(LegalHold={"Status": "OFF"}, **exact)
    assert s3.get_object_legal_hold(**exact)["LegalHold"] == {"Status": "OFF"}
    s3.put_object_legal_hold(LegalHold={"Status": "ON"}, **exact)
    assert code_of(s3.delete_object, **exact) == DENIED
    s3.put_object_legal_hold(LegalHold={"Status": "OFF"}, **exact)
    s3.delete_object(**exact)


def test_the_default_of_a_bucket_applies_to_new_objects(s3, locking):
    put(s3, locking, "before")
    settings = default(Days=3)
    s3.put_object_lock_configuration(Bucket=locking, ObjectLockConfiguration=settings)
    assert s3.get_object_lock_configuration(Bucket=locking)["ObjectLockConfiguration"] == settings
    start = after(days=3)
    put(s3, locking, "put")
    s3.copy_object(Bucket=locking, Key="copy", CopySource=f"{locking}/before")
    upload = s3.create_multipart_upload(Bucket=locking, Key="upload")["UploadId"]
    part = {"Bucket": locking, "Key": "upload", "UploadId": upload}
    etag = s3.upload_part(PartNumber=1, Body=b"1", **part)["ETag"]
    s3.complete_multipart_upload(MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]}, **part)
    for key in ["put", "copy", "upload"]:
        found = s3.get_object_retention(Bucket=locking, Key=key)["Retention"]
        assert found["Mode"] == GOVERNANCE
        assert start <= found["RetainUntilDate"] <= after(days=3, seconds=1), key
    assert "ObjectLockMode" not in s3.head_object(Bucket=locking, Key="before")
    # A request can ask for another period, and a legal hold comes in addition.
    until = after(days=1)
    put(s3, locking, "own", ObjectLockLegalHoldStatus="ON", **retained(COMPLIANCE, until))
    head = s3.head_object(Bucket=locking, Key="own")
    assert (head["ObjectLockMode"], head["ObjectLockRetainUntilDate"]) == (COMPLIANCE, until)
    put(s3, locking, "held", ObjectLockLegalHoldStatus="ON")
    assert s3.head_object(Bucket=locking, Key="held")["ObjectLockMode"] == GOVERNANCE
    # A copy does not inherit a lock, and an upload has the one that it began with.
    s3.put_object_lock_configuration(Bucket=locking, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled"})
    s3.copy_object(Bucket=locking, Key="copy of own", CopySource=f"{locking}/own")
    assert "ObjectLockMode" not in s3.head_object(Bucket=locking, Key="copy of own")
    upload = s3.create_multipart_upload(Bucket=locking, Key="upload", ObjectLockLegalHoldStatus="ON", **retained(COMPLIANCE, until))
    part["UploadId"] = upload["UploadId"]
    etag = s3.upload_part(PartNumber=1, Body=b"2", **part)["ETag"]
    s3.complete_multipart_upload(MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]}, **part)
    head = s3.head_object(Bucket=locking, Key="upload")
    assert (head["ObjectLockMode"], head["ObjectLockLegalHoldStatus"]) == (COMPLIANCE, "ON")


def test_a_form_gives_a_lock(gateway, s3, locking):
    until = after(days=1)
    fields = {
        "x-amz-object-lock-mode": COMPLIANCE,
        "x-amz-object-lock-retain-until-date": until.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "x-amz-object-lock-legal-hold": "ON",
    }
    conditions = [{name: value} for name, value in fields.items()]
    signed = s3.generate_presigned_post(locking, "form", Fields=fields, Conditions=conditions)["fields"]
    status, text, _ = post_form(gateway, locking, signed)
    assert (status, text) == (204, b"")
    head = s3.head_object(Bucket=locking, Key="form")
    assert (head["ObjectLockMode"], head["ObjectLockRetainUntilDate"]) == (COMPLIANCE, until)
    assert head["ObjectLockLegalHoldStatus"] == "ON"


def test_policies_know_locks(s3, locking, member, code_of):  # noqa: F811
    user, limit = member
    far = {"NumericGreaterThan": {"s3:object-lock-remaining-retention-days": "10"}}
    limit(
        write=policy(
            statement(locking, ["s3:PutObject", "s3:PutObjectRetention", "s3:GetObjectVersion", "s3:DeleteObjectVersion"], principal=None),
            statement(locking, "s3:*", effect="Deny", principal=None, Condition=far),
            statement(locking, "s3:*", effect="Deny", principal=None, Condition={"StringEquals": {"s3:object-lock-mode": COMPLIANCE}}),
        )
    )
    version = put(user, locking, **retained(GOVERNANCE, after(days=9)))
    assert code_of(put, user, locking, **retained(GOVERNANCE, after(days=11))) == DENIED
    assert code_of(put, user, locking, **retained(COMPLIANCE, after(days=1))) == DENIED
    assert code_of(put, user, locking, ObjectLockLegalHoldStatus="ON") == DENIED
    exact = {"Bucket": locking, "Key": "a", "VersionId": version}
    retention = lambda **given: {"Retention": {"Mode": GOVERNANCE, "RetainUntilDate": after(**given)}, **exact}
    assert code_of(user.put_object_retention, **retention(days=11)) == DENIED
    # The bypass takes a permission, which the user does not have.
    bypass = {"BypassGovernanceRetention": True}
    assert code_of(user.put_object_retention, **retention(days=1), **bypass) == DENIED
    assert code_of(user.delete_object, **exact, **bypass) == DENIED
    objects = {"Objects": [{"Key": "a", "VersionId": version}]}
    assert user.delete_objects(Bucket=locking, Delete=objects, **bypass)["Errors"][0]["Code"] == "AccessDenied"
    # Nor may it see the lock.
    assert code_of(user.get_object_retention, **exact) == DENIED
    assert "ObjectLockMode" not in user.head_object(**exact)
    limit(bypass=policy(statement(locking, ["s3:BypassGovernanceRetention", "s3:GetObjectRetention"], principal=None)))
    assert user.head_object(**exact)["ObjectLockMode"] == GOVERNANCE
    user.put_object_retention(**retention(days=1), **bypass)
    user.delete_object(**exact, **bypass)


def test_other_accounts_bypass_nothing(s3, locking, other, code_of):  # noqa: F811
    eve, account = other
    version = put(s3, locking, **retained(GOVERNANCE, after(days=1)))
    s3.put_bucket_policy(
        Bucket=locking,
        Policy=policy(statement(locking, "s3:DeleteObjectVersion", principal={"AWS": account})),
    )
    exact = {"Bucket": locking, "Key": "a", "VersionId": version, "BypassGovernanceRetention": True}
    assert code_of(eve.delete_object, **exact) == DENIED
    s3.put_bucket_policy(
        Bucket=locking,
        Policy=policy(statement(locking, ["s3:DeleteObjectVersion", "s3:BypassGovernanceRetention"], principal={"AWS": account})),
    )
    eve.delete_object(**exact)


def test_the_last_date_is_the_end_of_the_year_9999(s3, locking):
    end = datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.timezone.utc)
    put(s3, locking, **retained(GOVERNANCE, end))
    assert s3.get_object_retention(Bucket=locking, Key="a")["Retention"]["RetainUntilDate"].year == 9999


def test_bad_locks_are_refused(s3, locking, code_of):
    malformed, invalid = ("MalformedXML", 400), ("InvalidArgument", 400)
    for settings, code in [
        ({"ObjectLockEnabled": "Disabled"}, malformed),
        ({"Rule": {"DefaultRetention": {"Mode": GOVERNANCE, "Days": 1}}}, malformed),
        (default("FOREVER", Days=1), malformed),
        (default(Days=1, Years=1), malformed),
        (default(), malformed),
        (default(Days=0), ("InvalidRetentionPeriod", 400)),
        (default(Days=-1), ("InvalidRetentionPeriod", 400)),
        (default(Years=101), ("InvalidRetentionPeriod", 400)),
    ]:
        call = {"Bucket": locking, "ObjectLockConfiguration": settings}
        assert code_of(s3.put_object_lock_configuration, **call) == code, settings
    for lock in [
        {"ObjectLockMode": GOVERNANCE},
        {"ObjectLockRetainUntilDate": after(days=1)},
        retained("FOREVER", after(days=1)),
        retained(GOVERNANCE, after(days=-1)),
        {"ObjectLockLegalHoldStatus": "MAYBE"},
    ]:
        assert code_of(put, s3, locking, **lock) == invalid, lock
        assert code_of(s3.create_multipart_upload, Bucket=locking, Key="a", **lock) == invalid, lock
    assert code_of(s3.head_object, Bucket=locking, Key="a") == ("404", 404)
    put(s3, locking)
    call = {"Bucket": locking, "Key": "a"}
    for retention, code in [
        ({"Mode": GOVERNANCE}, malformed),
        ({"RetainUntilDate": after(days=1)}, malformed),
        ({"Mode": "FOREVER", "RetainUntilDate": after(days=1)}, malformed),
        ({"Mode": GOVERNANCE, "RetainUntilDate": after(days=-1)}, invalid),
    ]:
        assert code_of(s3.put_object_retention, Retention=retention, **call) == code, retention
    assert code_of(s3.put_object_legal_hold, LegalHold={"Status": "MAYBE"}, **call) == malformed
    assert code_of(s3.put_object_legal_hold, LegalHold={}, **call) == malformed
    gone = {"Bucket": locking, "Key": "missing"}
    assert code_of(s3.get_object_retention, **gone) == ("NoSuchKey", 404)
    assert code_of(s3.put_object_legal_hold, LegalHold={"Status": "ON"}, **gone) == ("NoSuchKey", 404)
