"""Third-party programs, as users run them."""

import json
import pathlib
import shutil
import subprocess
import sys

import pytest
from operations import record_operations

HERE = pathlib.Path(__file__).parent
# The Python environment of clients that need other versions of botocore and DuckDB than the tests.
OTHER_PYTHON = pathlib.Path(sys.prefix).parent / "s3-clients-env" / "bin" / "python"


def program(gateway, dir, name, *command):
    """Returns a function that runs a program with more arguments and returns its output."""

    def run(*args):
        command_line = [*command, *args]
        with record_operations(gateway, name):
            done = subprocess.run(command_line, capture_output=True, env=gateway.environment(), cwd=dir, timeout=300, check=False)
            assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    return run


@pytest.fixture
def aws(gateway, tmp_path):
    return program(gateway, tmp_path, "aws", f"{sys.prefix}/bin/aws")


@pytest.fixture
def rclone(gateway, tmp_path):
    found = shutil.which("rclone")
    assert found, "rclone is missing: `make test-s3` installs it where it can"
    # Use an unnamed remote, configured by options and the environment.
    options = ["--s3-provider", "Other", "--s3-env-auth", "--s3-endpoint", gateway.url, "--s3-region", "us-east-1"]
    options += ["--s3-upload-cutoff", "8M", "--s3-chunk-size", "5M"]
    return program(gateway, tmp_path, "rclone", found, "--config", "", "--retries", "1", *options)


def make_tree(tree):
    """Creates files, one of them large enough for a multipart upload."""
    for name, size in [("a.txt", 10), ("dir/b.bin", 100_000), ("dir/ü c", 0), ("large", 20 << 20)]:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(bytes(range(256)) * (size // 256) + b"x" * (size % 256))


def files_of(tree):
    return {str(file.relative_to(tree)): file.read_bytes() for file in tree.rglob("*") if file.is_file()}


def test_aws_copies_and_synchronises(aws, s3, bucket, tmp_path):
    make_tree(tmp_path / "tree")
    aws("s3", "cp", "tree/large", f"s3://{bucket}/one")
    aws("s3", "sync", "tree", f"s3://{bucket}/tree")
    assert aws("s3", "sync", "tree", f"s3://{bucket}/tree") == ""
    aws("s3", "sync", f"s3://{bucket}/tree", "back")
    assert files_of(tmp_path / "back") == files_of(tmp_path / "tree")
    assert "a.txt" in aws("s3", "ls", f"s3://{bucket}/tree/")
    aws("s3", "mv", f"s3://{bucket}/one", f"s3://{bucket}/two")
    aws("s3", "cp", f"s3://{bucket}/two", f"s3://{bucket}/three")
    aws("s3", "rm", f"s3://{bucket}", "--recursive", "--exclude", "three")
    assert [found["Key"] for found in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["three"]


def test_aws_creates_and_removes_buckets(aws):
    aws("s3", "mb", "s3://made-by-aws")
    assert "made-by-aws" in aws("s3", "ls")
    aws("s3", "rb", "s3://made-by-aws")
    assert "made-by-aws" not in aws("s3", "ls")


def test_aws_administers_buckets_and_users(own_gateway, tmp_path):
    aws = program(own_gateway, tmp_path, "aws", f"{sys.prefix}/bin/aws")
    api = lambda operation, bucket, *args: aws("s3api", operation, "--bucket", bucket, *args)
    everything = {"Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::photos/*"}
    policy = lambda **changes: json.dumps({"Version": "2012-10-17", "Statement": [everything | changes]})
    (tmp_path / "reef").write_text("reef")
    (tmp_path / "key.bin").write_bytes(b"k" * 32)

    aws("s3", "mb", "s3://photos")
    key = own_gateway.run("kms", "key", "create", "main")[0]["id"]
    for options in (["--sse"], ["--sse", "aws:kms", "--sse-kms-key-id", key], ["--sse-c", "AES256", "--sse-c-key", "fileb://key.bin"]):
        aws("s3", "cp", "reef", "s3://photos/reef", *options)
    aws("s3", "cp", "s3://photos/reef", "back", "--sse-c", "AES256", "--sse-c-key", "fileb://key.bin")
    assert (tmp_path / "back").read_text() == "reef"
    default = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}
    api("put-bucket-encryption", "photos", "--server-side-encryption-configuration", json.dumps(default))

    api("put-bucket-policy", "photos", "--policy", policy(Principal="*"))
    assert json.loads(api("get-bucket-policy-status", "photos"))["PolicyStatus"]["IsPublic"]
    api("put-public-access-block", "photos", "--public-access-block-configuration", "BlockPublicAcls=true")
    api("put-bucket-ownership-controls", "photos", "--ownership-controls", "Rules=[{ObjectOwnership=BucketOwnerPreferred}]")
    api("put-object-acl", "photos", "--key", "reef", "--acl", "private")

    rules = {"Rules": [{"ID": "scratch", "Status": "Enabled", "Filter": {"Prefix": "tmp/"}, "Expiration": {"Days": 7}}]}
    api("put-bucket-lifecycle-configuration", "photos", "--lifecycle-configuration", json.dumps(rules))
    target = own_gateway.run("events", "target", "create", "main/indexer", "--webhook", "http://127.0.0.1:9/")[0]["arn"]
    events = {"TopicConfigurations": [{"TopicArn": target, "Events": ["s3:ObjectCreated:*"]}]}
    api("put-bucket-notification-configuration", "photos", "--notification-configuration", json.dumps(events))
    api("put-bucket-website", "photos", "--website-configuration", json.dumps({"IndexDocument": {"Suffix": "index.html"}}))

    api("create-bucket", "records", "--object-lock-enabled-for-bucket")
    lock = {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 30}}}
    api("put-object-lock-configuration", "records", "--object-lock-configuration", json.dumps(lock))
    aws("s3", "cp", "reef", "s3://records/reef")
    later = {"Mode": "GOVERNANCE", "RetainUntilDate": "2099-12-31T00:00:00Z"}
    api("put-object-retention", "records", "--key", "reef", "--retention", json.dumps(later))
    api("put-object-legal-hold", "records", "--key", "reef", "--legal-hold", "Status=ON")

    aws("iam", "create-user", "--user-name", "bob")
    assert json.loads(aws("iam", "create-access-key", "--user-name", "bob"))["AccessKey"]["Status"] == "Active"
    aws("iam", "put-user-policy", "--user-name", "bob", "--policy-name", "read", "--policy-document", policy())
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": "arn:aws:iam::main:user/admin"}}
    trust = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    role = json.loads(aws("iam", "create-role", "--role-name", "importer", "--assume-role-policy-document", trust))["Role"]["Arn"]
    aws("iam", "attach-role-policy", "--role-name", "importer", "--policy-arn", "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess")
    assert json.loads(aws("sts", "get-caller-identity"))["Arn"] == "arn:aws:iam::main:user/admin"
    session = json.loads(aws("sts", "assume-role", "--role-arn", role, "--role-session-name", "import-1"))
    assert session["AssumedRoleUser"]["Arn"] == "arn:aws:sts::main:assumed-role/importer/import-1"


def test_rclone_copies_checks_and_synchronises(rclone, s3, bucket, tmp_path):
    tree = tmp_path / "tree"
    make_tree(tree)
    rclone("copy", "tree", f":s3:{bucket}/tree")
    assert s3.head_object(Bucket=bucket, Key="tree/large")["ETag"].endswith('-4"')
    rclone("check", "--checksum", "tree", f":s3:{bucket}/tree")
    rclone("check", "--download", "tree", f":s3:{bucket}/tree")
    listed = rclone("lsf", "-R", "--files-only", "--format", "sp", f":s3:{bucket}/tree").splitlines()
    assert sorted(listed) == sorted(f"{len(data)};{name}" for name, data in files_of(tree).items())
    assert rclone("lsd", f":s3:{bucket}/tree").split()[-1] == "dir"
    (tree / "a.txt").write_bytes(b"changed")
    (tree / "dir/b.bin").unlink()
    (tree / "new").write_bytes(b"new")
    rclone("sync", "--checksum", "tree", f":s3:{bucket}/tree")
    rclone("sync", f":s3:{bucket}/tree", "back")
    assert files_of(tmp_path / "back") == files_of(tree)
    rclone("copyto", f":s3:{bucket}/tree/large", f":s3:{bucket}/copy")
    rclone("moveto", f":s3:{bucket}/copy", f":s3:{bucket}/moved")
    assert rclone("cat", f":s3:{bucket}/tree/a.txt") == "changed"
    rclone("deletefile", f":s3:{bucket}/moved")
    rclone("delete", f":s3:{bucket}/tree")
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


def test_rclone_detects_damage(rclone, s3, bucket, tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a").write_bytes(b"right")
    s3.put_object(Bucket=bucket, Key="a", Body=b"wrong")
    with pytest.raises(AssertionError, match="differ"):
        rclone("check", "--checksum", "tree", f":s3:{bucket}")


def test_rclone_creates_and_removes_buckets(rclone):
    rclone("mkdir", ":s3:made-by-rclone")
    assert "made-by-rclone" in rclone("lsd", ":s3:")
    rclone("rmdir", ":s3:made-by-rclone")
    assert "made-by-rclone" not in rclone("lsd", ":s3:")


def test_restic_backs_up_checks_and_restores(gateway, bucket, tmp_path):
    environment = gateway.environment() | {"RESTIC_PASSWORD": "a password"}
    repository = ["--no-cache", "--repo", f"s3:{gateway.url}/{bucket}/backup"]

    def restic(*args):
        command_line = [shutil.which("restic"), *repository, *args]
        done = subprocess.run(command_line, capture_output=True, env=environment, cwd=tmp_path, timeout=300, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    tree = tmp_path / "tree"
    make_tree(tree)
    restic("init")
    restic("backup", "tree")
    (tree / "a.txt").write_bytes(b"changed")
    restic("backup", "tree")
    restic("check", "--read-data")
    assert len(json.loads(restic("snapshots", "--json"))) == 2
    restic("forget", "--keep-last", "1", "--prune")
    restic("check", "--read-data")
    restic("restore", "latest", "--target", "back")
    (restored,) = (tmp_path / "back").rglob("tree")
    assert files_of(restored) == files_of(tree)


def test_pyarrow_reads_and_writes(gateway, bucket):
    with record_operations(gateway, "pyarrow"):
        read_and_write_with_pyarrow(gateway, bucket)


def read_and_write_with_pyarrow(gateway, bucket):
    import pyarrow
    import pyarrow.fs
    import pyarrow.parquet

    files = pyarrow.fs.S3FileSystem(
        access_key=gateway.access_key, secret_key=gateway.secret_key, region="us-east-1",
        endpoint_override=gateway.url.removeprefix("http://"), scheme="http",
    )
    table = pyarrow.table({"id": list(range(100_000)), "name": [f"row {number}" for number in range(100_000)]})
    pyarrow.parquet.write_table(table, f"{bucket}/dir/a.parquet", filesystem=files)
    assert pyarrow.parquet.read_table(f"{bucket}/dir/a.parquet", filesystem=files).equals(table)
    with files.open_output_stream(f"{bucket}/dir/large") as out:
        for _ in range(3):
            out.write(b"x" * (6 << 20))
    assert files.get_file_info(f"{bucket}/dir/large").size == 18 << 20
    found = files.get_file_info(pyarrow.fs.FileSelector(f"{bucket}/dir"))
    assert sorted(info.base_name for info in found) == ["a.parquet", "large"]
    files.delete_file(f"{bucket}/dir/large")


@pytest.mark.parametrize("client", ["s3fs", "httpfs"])
def test_clients_in_a_python_of_their_own(gateway, bucket, tmp_path, client):
    assert OTHER_PYTHON.exists(), "`make s3-clients-env` creates the Python environment for these clients"
    program(gateway, tmp_path, client, str(OTHER_PYTHON), str(HERE / f"with_{client}.py"))(bucket)
