"""Programs of others, as people run them."""

import subprocess
import sys

import pytest


@pytest.fixture
def aws(gateway, tmp_path):
    program = f"{sys.prefix}/bin/aws"

    def aws(*args, check=True):
        done = subprocess.run(
            [program, *args], capture_output=True, env=gateway.environment(), cwd=tmp_path, timeout=300, check=False
        )
        assert not check or done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    return aws


def test_aws_copies_and_synchronises(aws, s3, bucket, tmp_path):
    tree = tmp_path / "tree"
    for name, size in [("a.txt", 10), ("dir/b.bin", 100_000), ("dir/ü c", 0), ("large", 20 << 20)]:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(bytes(range(256)) * (size // 256) + b"x" * (size % 256))
    aws("s3", "cp", "tree/large", f"s3://{bucket}/one")
    aws("s3", "sync", "tree", f"s3://{bucket}/tree")
    assert aws("s3", "sync", "tree", f"s3://{bucket}/tree") == ""
    aws("s3", "sync", f"s3://{bucket}/tree", "back")
    for file in tree.rglob("*"):
        if file.is_file():
            assert (tmp_path / "back" / file.relative_to(tree)).read_bytes() == file.read_bytes()
    assert "a.txt" in aws("s3", "ls", f"s3://{bucket}/tree/")
    aws("s3", "mv", f"s3://{bucket}/one", f"s3://{bucket}/two")
    aws("s3", "cp", f"s3://{bucket}/two", f"s3://{bucket}/three")
    aws("s3", "rm", f"s3://{bucket}", "--recursive", "--exclude", "three")
    assert [found["Key"] for found in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["three"]


def test_aws_makes_and_removes_buckets(aws):
    aws("s3", "mb", "s3://made-by-aws")
    assert "made-by-aws" in aws("s3", "ls")
    aws("s3", "rb", "s3://made-by-aws")
    assert "made-by-aws" not in aws("s3", "ls")


def test_pyarrow_reads_and_writes(gateway, s3, bucket):
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
