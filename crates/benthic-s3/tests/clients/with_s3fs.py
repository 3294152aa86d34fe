"""Typical use of s3fs (fsspec). Runs in the Python of `make s3-clients-env`; the argument is a
bucket.
"""

import sys

import fsspec

PIECE = b"0123456789abcdef" * (64 << 10)


def main(bucket):
    files = fsspec.filesystem("s3")
    with files.open(f"{bucket}/dir/large", "wb", block_size=5 << 20) as out:
        for _ in range(12):
            out.write(PIECE)
    assert files.size(f"{bucket}/dir/large") == 12 * len(PIECE)
    with files.open(f"{bucket}/dir/large", "rb") as large:
        large.seek(-5, 2)
        assert large.read() == PIECE[-5:]
    assert files.cat_file(f"{bucket}/dir/large", start=len(PIECE) + 3, end=len(PIECE) + 20) == PIECE[3:20]
    files.pipe({f"{bucket}/dir/ü b": b"small", f"{bucket}/dir/deep/c": b""})
    assert sorted(files.find(bucket)) == [f"{bucket}/dir/deep/c", f"{bucket}/dir/large", f"{bucket}/dir/ü b"]
    assert sorted(files.ls(f"{bucket}/dir", detail=False)) == [f"{bucket}/dir/deep", f"{bucket}/dir/large", f"{bucket}/dir/ü b"]
    assert files.isdir(f"{bucket}/dir/deep") and not files.exists(f"{bucket}/dir/none")
    assert files.glob(f"{bucket}/**/l*") == [f"{bucket}/dir/large"]
    files.mv(f"{bucket}/dir/large", f"{bucket}/moved")
    files.rm(f"{bucket}/dir", recursive=True)
    files.invalidate_cache()
    assert files.find(bucket) == [f"{bucket}/moved"]
    files.get(f"{bucket}/moved", "back")
    with open("back", "rb") as back:
        assert back.read() == PIECE * 12
    try:
        files.pipe_file(f"{bucket}/moved", b"other", mode="create")
    except OSError as error:
        assert "preconditions" in str(error), error
    else:
        raise AssertionError("it was written over")
    files.mkdir(f"{bucket}-by-s3fs")
    assert f"{bucket}-by-s3fs" in files.ls("", detail=False)
    files.rmdir(f"{bucket}-by-s3fs")


main(sys.argv[1])
