"""Conditional deletions."""

import datetime


def test_deletions_can_depend_on_size_and_time(s3, bucket, code_of):
    s3.put_object(Bucket=bucket, Key="a", Body=b"123")
    head = s3.head_object(Bucket=bucket, Key="a")
    old = datetime.datetime(2015, 1, 1, tzinfo=datetime.UTC)
    delete = lambda **given: s3.delete_object(Bucket=bucket, Key="a", **given)
    for wrong in (
        {"IfMatchSize": 4}, {"IfMatchSize": 0}, {"IfMatchSize": -3}, {"IfMatchLastModifiedTime": old},
        {"IfMatchSize": 3, "IfMatchLastModifiedTime": old}, {"IfMatchSize": 3, "IfMatch": '"0"'},
        {"IfMatchSize": 4, "IfMatch": head["ETag"]},
    ):
        assert code_of(delete, **wrong) == ("PreconditionFailed", 412), wrong
    delete(IfMatchSize=3, IfMatchLastModifiedTime=head["LastModified"], IfMatch=head["ETag"])
    assert code_of(s3.head_object, Bucket=bucket, Key="a") == ("404", 404)
    delete(IfMatchSize=3)
    assert code_of(delete, IfMatchSize=3, IfMatch=head["ETag"]) == ("NoSuchKey", 404)


def test_many_deletions_can_depend_on_size_and_time(s3, bucket):
    for key in "abcd":
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    time = s3.head_object(Bucket=bucket, Key="b")["LastModified"]
    objects = [
        {"Key": "a", "Size": 1}, {"Key": "b", "LastModifiedTime": time}, {"Key": "c", "Size": 2},
        {"Key": "d", "LastModifiedTime": time - datetime.timedelta(seconds=1)}, {"Key": "e", "Size": 9},
    ]
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": objects})
    assert sorted(entry["Key"] for entry in answer["Deleted"]) == ["a", "b", "e"]
    assert [(entry["Key"], entry["Code"]) for entry in answer["Errors"]] == [("c", "PreconditionFailed"), ("d", "PreconditionFailed")]
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["c", "d"]


def test_conditional_deletions_of_versions(s3, bucket, code_of):
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    first = s3.put_object(Bucket=bucket, Key="a", Body=b"1")["VersionId"]
    second = s3.put_object(Bucket=bucket, Key="a", Body=b"22")["VersionId"]
    delete = lambda **given: s3.delete_object(Bucket=bucket, Key="a", **given)
    assert code_of(delete, VersionId=first, IfMatchSize=2) == ("PreconditionFailed", 412)
    delete(VersionId=first, IfMatchSize=1)
    marker = delete(IfMatchSize=2)
    assert marker["DeleteMarker"] is True
    # The marker has no size.
    assert code_of(delete, IfMatchSize=2) == ("PreconditionFailed", 412)
    assert code_of(delete, VersionId=marker["VersionId"], IfMatchSize=0) == ("PreconditionFailed", 412)
    delete(VersionId=marker["VersionId"])
    delete(VersionId=second, IfMatchSize=2)
    delete(VersionId=second, IfMatchSize=2)
    assert "Versions" not in s3.list_object_versions(Bucket=bucket)
