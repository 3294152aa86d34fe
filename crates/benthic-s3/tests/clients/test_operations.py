"""The table of operations in the reference is correct."""

import subprocess
import sys

import botocore
import botocore.session
import operations
import pytest

MODEL = botocore.session.get_session().get_service_model("s3")
NAMES, THERE = operations.all_operations()
# Parameters that S3 requires, but that botocore's models do not mark as required.
MORE = {
    "UpdateObjectEncryption": {"ObjectEncryption": {"SSEKMS": {"KMSKeyArn": "arn:aws:kms:us-east-1:123456789012:key/x"}}},
}


def example(shape, bucket):
    """An input with the required members."""
    if shape.type_name == "structure":
        return {name: example(member, bucket) for name, member in shape.members.items() if name in shape.required_members}
    if shape.name == "BucketName":
        return bucket
    if shape.type_name == "list":
        return [example(shape.member, bucket)]
    if shape.type_name == "map":
        return {}
    text = getattr(shape, "enum", None) or ["x" * max(shape.metadata.get("min", 1), 1)]
    values = {"blob": b"x", "boolean": True, "integer": 1, "long": 1, "timestamp": 0, "float": 1.0}
    return values.get(shape.type_name, text[0])


@pytest.mark.parametrize("name", [name for name in NAMES if name not in THERE])
def test_unimplemented_features_are_refused(gateway, s3, bucket, code_of, name):
    call = getattr(gateway.client(inject_host_prefix=False), botocore.xform_name(name))
    given = example(MODEL.operation_model(name).input_shape, bucket) | MORE.get(name, {})
    assert code_of(call, **given) == ("NotImplemented", 501)


def test_the_table_matches_this_run(request):
    """Runs last, and only if all tests ran that can run on this machine."""
    option = request.config.option
    files = {path.name for path in request.path.parent.glob("test_*.py")}
    ran = {item.path.name for item in request.session.items}
    if option.keyword or option.markexpr != "not ceph" or files != ran or request.session.testsfailed:
        pytest.skip("not all tests ran")
    if not subprocess.run(["rclone", "version"], capture_output=True, text=True, check=True).stdout.startswith(operations.RCLONE):
        pytest.skip("another version of rclone created the table")
    recorded = operations.save()
    assert not [name for name in THERE if name not in recorded], "a client must test each operation"
    assert operations.PAGE.read_text() == operations.page(recorded), (
        f"the table is out of date; `{sys.executable} {operations.__file__}` makes it anew"
    )
