"""Select: queries on objects."""

import bz2
import datetime
import decimal
import gzip
import io
import json
import random
import sys
import time

import botocore
import pyarrow
import pyarrow.parquet
import pytest
import raw
from test_policies import KEY_CACHE_S, policy, statement
from test_programs import program

MIB = 1 << 20
PARQUET = {"Parquet": {}}
CSV, HEADER, LINES = {"CSV": {}}, {"CSV": {"FileHeaderInfo": "USE"}}, {"JSON": {"Type": "LINES"}}
FISH = b'name,depth\nsole,12\n"eel, grey",140\ncod,7\n'


def select(s3, bucket, key, expression, form=HEADER, output=CSV, **more):
    """Returns the records, the events' names, the statistics, and where the query ran."""
    answer = s3.select_object_content(
        Bucket=bucket, Key=key, Expression=expression, ExpressionType="SQL",
        InputSerialization=form, OutputSerialization=output, **more,
    )
    records, names, stats = b"", [], None
    for event in answer["Payload"]:
        ((name, value),) = event.items()
        names.append(name)
        records += value.get("Payload", b"")
        stats = value["Details"] if name == "Stats" else stats
    return records, names, stats, answer["ResponseMetadata"]["HTTPHeaders"]["x-benthic-exec-at"]


def code(s3, *args, **named):
    """The code of an error, and whether it came as an event of the answer."""
    with pytest.raises(botocore.exceptions.ClientError) as failed:
        select(s3, *args, **named)
    return failed.value.response["Error"]["Code"], isinstance(failed.value, botocore.exceptions.EventStreamError)


def test_a_query_runs_beside_an_object_in_one_piece(gateway, s3, bucket):
    s3.put_object(Bucket=bucket, Key="fish.csv", Body=FISH)
    records, names, stats, at = select(s3, bucket, "fish.csv", "SELECT s.name FROM S3Object s WHERE s.depth > 10")
    assert (records, names, at) == (b'sole\n"eel, grey"\n', ["Records", "Stats", "End"], gateway.methods_at)
    assert stats == {"BytesScanned": len(FISH), "BytesProcessed": len(FISH), "BytesReturned": len(records)}
    records, names, _, _ = select(
        s3, bucket, "fish.csv", "SELECT * FROM S3Object s LIMIT 1", output={"JSON": {"RecordDelimiter": ";"}},
        RequestProgress={"Enabled": True},
    )
    assert records == b'{"name":"sole","depth":"12"};' and names == ["Records", "Progress", "Stats", "End"]
    nothing = select(s3, bucket, "fish.csv", "SELECT * FROM S3Object s WHERE FALSE")
    assert nothing[:2] == (b"", ["Stats", "End"])
    tabs = {"CSV": {"FieldDelimiter": "\t", "RecordDelimiter": "|", "QuoteFields": "ALWAYS"}}
    assert select(s3, bucket, "fish.csv", "SELECT * FROM S3Object s", output=tabs)[0].startswith(b'"sole"\t"12"|')
    # An answer that is larger than the object.
    s3.put_object(Bucket=bucket, Key="wide", Body=b"x" * 900 + b"\n" + b"y\n")
    wide = select(s3, bucket, "wide", f"SELECT {','.join(['s._1'] * 1000)} FROM S3Object s", CSV)
    assert len(wide[0]) == 901_000 + 2_000 and wide[3] == gateway.methods_at
    s3.put_object(Bucket=bucket, Key="wide", Body=(b"x" * 900 + b"\n") * 10)
    wide = select(s3, bucket, "wide", f"SELECT {','.join(['s._1'] * 1000)} FROM S3Object s", CSV)
    assert len(wide[0]) == 9_010_000 and wide[3] == "gateway"


def test_forms_of_data(gateway, s3, bucket):
    lines = b"".join(json.dumps({"n": n, "tags": ["a", n]}).encode() + b"\n" for n in range(1000))
    s3.put_object(Bucket=bucket, Key="lines", Body=lines)
    s3.put_object(Bucket=bucket, Key="lines.gz", Body=gzip.compress(lines))
    s3.put_object(Bucket=bucket, Key="document", Body=b'{"rules": [{"id": 1}, {"id": 2.50}]}')
    s3.put_object(Bucket=bucket, Key="empty", Body=b"")
    sums = "SELECT COUNT(*), SUM(s.n) AS sum, AVG(s.tags[1]) FROM S3Object s WHERE s.n >= 500"
    expected = b'{"_1":500,"sum":374750,"_3":749.5}\n'
    assert select(s3, bucket, "lines", sums, LINES, {"JSON": {}})[::3] == (expected, gateway.methods_at)
    s3.put_object(Bucket=bucket, Key="lines.bz2", Body=bz2.compress(lines))
    zipped = select(s3, bucket, "lines.bz2", sums, LINES | {"CompressionType": "BZIP2"}, {"JSON": {}})
    assert zipped[::3] == (expected, gateway.methods_at) and zipped[2]["BytesProcessed"] == len(lines) > zipped[2]["BytesScanned"]
    zipped = select(s3, bucket, "lines.gz", sums, LINES | {"CompressionType": "GZIP"}, {"JSON": {}})
    assert zipped[::3] == (expected, gateway.methods_at) and zipped[2]["BytesProcessed"] == len(lines) > zipped[2]["BytesScanned"]
    document = {"JSON": {"Type": "DOCUMENT"}}
    assert select(s3, bucket, "document", "SELECT r.id FROM S3Object[*].rules[*] r", document)[0] == b"1\n2.5\n"
    assert select(s3, bucket, "empty", sums, LINES)[::3] == (b"0,,\n", "gateway")
    half = {"Start": len(lines) // 2, "End": len(lines)}
    first = select(s3, bucket, "lines", "SELECT s.n FROM S3Object s", LINES, ScanRange={"End": half["Start"] - 1, "Start": 0})[0]
    second = select(s3, bucket, "lines", "SELECT s.n FROM S3Object s", LINES, ScanRange=half)[0]
    assert first + second == b"".join(b"%d\n" % n for n in range(1000)) and first and second


def test_the_gateway_runs_queries_on_several_pieces(gateway, s3, bucket, seed):
    random.seed(seed)
    rows = [(n, random.randrange(1000), "x" * random.randrange(80)) for n in range(200_000)]
    data = b"id,value,text\n" + b"".join(b"%d,%d,%s\n" % (n, value, text.encode()) for n, value, text in rows)
    assert len(data) > 9 * MIB
    s3.put_object(Bucket=bucket, Key="large", Body=data)
    records, names, stats, at = select(s3, bucket, "large", "SELECT s.id FROM S3Object s WHERE s.value = 7")
    assert (records, at) == (b"".join(b"%d\n" % n for n, value, _ in rows if value == 7), "gateway")
    assert stats["BytesScanned"] == len(data) and stats["BytesReturned"] == len(records)
    everything, names, _, _ = select(s3, bucket, "large", "SELECT * FROM S3Object", RequestProgress={"Enabled": True})
    assert everything == data.partition(b"\n")[2] and "Progress" in names and names[-2:] == ["Stats", "End"]
    # A query that needs no more reads no more.
    stats = select(s3, bucket, "large", "SELECT s.id FROM S3Object s LIMIT 1")[2]
    assert stats["BytesScanned"] <= 5 * MIB
    middle = {"Start": 5 * MIB, "End": 6 * MIB}
    part, _, stats, _ = select(s3, bucket, "large", "SELECT s.id FROM S3Object s", ScanRange=middle)
    start = data.index(b"\n", 5 * MIB - 1) + 1
    lines = data[start : data.index(b"\n", 6 * MIB) + 1].splitlines()
    assert part.split() == [line.partition(b",")[0] for line in lines] and stats["BytesScanned"] < len(data) - 4 * MIB
    # A fault after millions of bytes is an event.
    assert code(s3, bucket, "large", "SELECT 1 / (s.id - 199999) FROM S3Object s") == ("EvaluatorInvalidArguments", True)
    # A client that leaves does not stop the others.
    answer = s3.select_object_content(
        Bucket=bucket, Key="large", Expression="SELECT * FROM S3Object", ExpressionType="SQL",
        InputSerialization=CSV, OutputSerialization=CSV,
    )
    next(iter(answer["Payload"]))
    answer["Payload"].close()
    assert select(s3, bucket, "large", "SELECT COUNT(*) FROM S3Object")[0] == b"200000\n"


def parquet(table, **options):
    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file, **options)
    return file.getvalue()


def parquet_at(gateway):
    """Where queries on Parquet in one piece run: stores in directories have no class `table`."""
    return "gateway" if gateway.store.startswith("file:") else gateway.methods_at


def test_parquet_of_every_type(gateway, s3, bucket):
    at = datetime.datetime(2024, 5, 6, 7, 8, 9, 123456)
    columns = {
        "tiny": pyarrow.array([1, None, -3], pyarrow.int8()),
        "id": pyarrow.array([1, 2, 3], pyarrow.int64()),
        "large": pyarrow.array([2**64 - 1, None, 0], pyarrow.uint64()),
        "ok": pyarrow.array([True, None, False]),
        "single": pyarrow.array([0.5, None, -1.0], pyarrow.float32()),
        "double": pyarrow.array([0.1, None, 1e300]),
        "price": pyarrow.array([decimal.Decimal("1.50"), None, decimal.Decimal("-0.05")], pyarrow.decimal128(38, 2)),
        "cents": pyarrow.array([decimal.Decimal("0.1"), None, decimal.Decimal("0.2")], pyarrow.decimal128(5, 1)),
        "text": pyarrow.array(["añ", None, ""]),
        "word": pyarrow.array(["eel", None, "eel"]).dictionary_encode(),
        "raw": pyarrow.array([b"text", None, b"\xff\x00"]),
        "fixed": pyarrow.array([b"ab", None, b"cd"], pyarrow.binary(2)),
        "day": pyarrow.array([at.date(), None, datetime.date(1969, 12, 31)]),
        "at": pyarrow.array([at, None, at], pyarrow.timestamp("us", "UTC")),
        "local": pyarrow.array([at, None, at], pyarrow.timestamp("ms")),
        "clock": pyarrow.array([datetime.time(1, 2, 3), None, datetime.time()], pyarrow.time64("us")),
        "list": pyarrow.array([[1, None], None, []], pyarrow.list_(pyarrow.int32())),
        "place": pyarrow.array([{"name": "reef", "depth": 7}, None, {"name": None, "depth": 8}]),
        "map": pyarrow.array([[("k", 1)], None, []], pyarrow.map_(pyarrow.string(), pyarrow.int64())),
        "none": pyarrow.nulls(3),
    }
    table = pyarrow.table(columns)
    first = {
        "tiny": 1, "id": 1, "large": 2**64 - 1, "ok": True, "single": 0.5, "double": 0.1, "price": 1.5, "cents": 0.1,
        "text": "añ", "word": "eel", "raw": "text", "fixed": "ab", "day": "2024-05-06", "at": "2024-05-06T07:08:09.123456Z",
        "local": "2024-05-06T07:08:09.123-00:00", "clock": "01:02:03.000000", "list": [1, None],
        "place": {"name": "reef", "depth": 7}, "map": {"k": 1}, "none": None,
    }
    for options in [
        {}, {"compression": "zstd"}, {"compression": "gzip", "use_dictionary": False}, {"compression": "none", "version": "1.0"},
        {"compression": "lz4", "data_page_version": "2.0", "row_group_size": 2}, {"write_statistics": False},
    ]:
        s3.put_object(Bucket=bucket, Key="k", Body=parquet(table, **options))
        records, names, stats, ran_at = select(s3, bucket, "k", "SELECT * FROM S3Object", PARQUET, {"JSON": {}})
        rows = [json.loads(line) for line in records.splitlines()]
        assert (rows[0], ran_at) == (first, parquet_at(gateway)), options
        assert rows[1] == dict.fromkeys(columns) | {"id": 2} and rows[2]["raw"] == "/wA=", options
        assert rows[2]["list"] == [] and rows[2]["map"] == {} and rows[2]["place"] == {"name": None, "depth": 8}
        query = "SELECT s.place.name, s.price * 3, s.list[0] FROM S3Object s WHERE s.at > `2024T` AND s.ok"
        assert select(s3, bucket, "k", query, PARQUET)[0] == b"reef,4.50,1\n"
        sums = "SELECT SUM(s.cents), AVG(s.price), MAX(s.word), COUNT(*) FROM S3Object s"
        assert select(s3, bucket, "k", sums, PARQUET)[0] == b"0.3,0.725,eel,3\n"
        assert select(s3, bucket, "k", "SELECT t FROM S3Object[*].list[*] t", PARQUET)[0].count(b"\n") == 3
    # Spark's type of times, with its last year.
    times = pyarrow.array([at, datetime.datetime(9999, 12, 31)], pyarrow.timestamp("us"))
    s3.put_object(Bucket=bucket, Key="k", Body=parquet(pyarrow.table({"t": times}), use_deprecated_int96_timestamps=True))
    wanted = b"2024-05-06T07:08:09.123456-00:00\n9999-12-31T00:00:00.000000-00:00\n"
    assert select(s3, bucket, "k", "SELECT s.t FROM S3Object s", PARQUET)[0] == wanted
    assert select(s3, bucket, "k", "SELECT s.t FROM S3Object s WHERE s.t > `2262T`", PARQUET)[0] == wanted.splitlines(True)[1]
    assert code(s3, bucket, "k", "SELECT s.other FROM S3Object s", PARQUET) == ("MissingHeaders", True)
    s3.put_object(Bucket=bucket, Key="k", Body=parquet(table.select(["text"]), column_encoding="DELTA_BYTE_ARRAY", use_dictionary=False))
    assert code(s3, bucket, "k", "SELECT * FROM S3Object s", PARQUET) == ("UnsupportedParquetType", True)
    s3.put_object(Bucket=bucket, Key="k", Body=parquet(table.select(["id"]), compression="brotli"))
    assert code(s3, bucket, "k", "SELECT * FROM S3Object s", PARQUET) == ("ParquetUnsupportedCompressionCodec", True)


def test_parquet_in_several_pieces_and_encrypted(gateway, s3, bucket, seed):
    random.seed(seed)
    numbers = [random.randrange(1000) for _ in range(300_000)]
    texts = [f"{n:08} {random.randrange(1 << 40)}" for n in range(300_000)]
    body = parquet(pyarrow.table({"n": numbers, "text": texts, "id": range(300_000)}), row_group_size=100_000)
    assert len(body) > 5 * MIB
    s3.put_object(Bucket=bucket, Key="large", Body=body)
    s3.put_object(Bucket=bucket, Key="sealed", Body=body, ServerSideEncryption="AES256")
    for key in ["large", "sealed"]:
        records, names, stats, at = select(s3, bucket, key, "SELECT s.id FROM S3Object s WHERE s.n = 7", PARQUET)
        assert (records, at) == (b"".join(b"%d\n" % id for id, n in enumerate(numbers) if n == 7), "gateway")
        assert stats["BytesReturned"] == len(records) and stats["BytesScanned"] < len(body) / 2
    everything = select(s3, bucket, "large", "SELECT s.text FROM S3Object s", PARQUET)[0]
    assert everything == "".join(f"{text}\n" for text in texts).encode()
    assert select(s3, bucket, "large", "SELECT s.text FROM S3Object s LIMIT 1", PARQUET)[2]["BytesScanned"] < 2 * MIB


def test_encrypted_objects_and_versions(gateway, s3, bucket):
    key = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": "k" * 32}
    s3.put_object(Bucket=bucket, Key="sealed", Body=FISH, ServerSideEncryption="AES256")
    s3.put_object(Bucket=bucket, Key="customer", Body=FISH, **key)
    count = "SELECT COUNT(*) FROM S3Object"
    assert select(s3, bucket, "sealed", count)[::3] == (b"3\n", "gateway")
    assert select(s3, bucket, "customer", count, **key)[::3] == (b"3\n", "gateway")
    assert code(s3, bucket, "customer", count) == ("InvalidRequest", False)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    s3.delete_object(Bucket=bucket, Key="sealed")
    assert code(s3, bucket, "sealed", count) == ("NoSuchKey", False)


def test_timestamps_in_the_store_and_in_the_gateway(gateway, s3, bucket):
    s3.put_object(Bucket=bucket, Key="plain", Body=b"2001-05-04,a\n2010T,b\n")
    s3.put_object(Bucket=bucket, Key="sealed", Body=b"2001-05-04,a\n2010T,b\n", ServerSideEncryption="AES256")
    later = "SELECT s._2, DATE_ADD(MONTH, 1, s._1) FROM S3Object s WHERE CAST(s._1 AS TIMESTAMP) > `2005T` AND UTCNOW() > `2020T`"
    for key, at in [("plain", gateway.methods_at), ("sealed", "gateway")]:
        assert select(s3, bucket, key, later, CSV)[::3] == (b"b,2010-02T\n", at)


def test_malformed_requests_have_the_codes_of_aws(gateway, s3, bucket):
    s3.put_object(Bucket=bucket, Key="k", Body=FISH)
    all = "SELECT * FROM S3Object s"
    for expected, expression, form, more in [
        ("ParseSelectMissingFrom", "SELECT 1", CSV, {}),
        ("ParseExpectedKeyword", "", CSV, {}),
        ("LexerInvalidChar", "SELECT # FROM S3Object", CSV, {}),
        ("UnsupportedSqlStructure", all + " ORDER BY a", CSV, {}),
        ("UnsupportedFunction", "SELECT SLEEP(1) FROM S3Object", CSV, {}),
        ("ExpressionTooLong", f"SELECT '{'x' * (256 << 10)}' FROM S3Object", CSV, {}),
        ("ParseUnsupportedSyntax", f"SELECT {'(' * 100_000} FROM S3Object", CSV, {}),
        ("InvalidExpressionType", all, CSV, {"ExpressionType": "PartiQL"}),
        ("InvalidDataSource", all, {}, {}),
        ("InvalidDataSource", all, CSV | LINES, {}),
        ("InvalidJsonType", all, {"JSON": {}}, {}),
        ("InvalidFileHeaderInfo", all, {"CSV": {"FileHeaderInfo": "MAYBE"}}, {}),
        ("InvalidCompressionFormat", all, CSV | {"CompressionType": "ZIP"}, {}),
        ("InvalidDataSource", all, PARQUET | CSV, {}),
        ("InvalidCompressionFormat", all, PARQUET | {"CompressionType": "GZIP"}, {}),
        ("UnsupportedScanRangeInput", all, PARQUET, {"ScanRange": {"Start": 0, "End": 9}}),
        ("InvalidRequestParameter", all, {"CSV": {"FieldDelimiter": "ab"}}, {}),
        ("InvalidRequestParameter", all, CSV, {"OutputSerialization": {}}),
        ("InvalidQuoteFields", all, CSV, {"OutputSerialization": {"CSV": {"QuoteFields": "NEVER"}}}),
        ("InvalidScanRange", all, CSV, {"ScanRange": {"Start": 2, "End": 1}}),
        ("InvalidScanRange", all, CSV, {"ScanRange": {"Start": -2}}),
        ("UnsupportedScanRangeInput", all, {"JSON": {"Type": "DOCUMENT"}}, {"ScanRange": {"Start": 2}}),
    ]:
        given = {"Bucket": bucket, "Key": "k", "Expression": expression, "ExpressionType": "SQL"}
        given |= {"InputSerialization": form, "OutputSerialization": CSV} | more
        with pytest.raises(botocore.exceptions.ClientError) as failed:
            s3.select_object_content(**given)
        assert failed.value.response["Error"]["Code"] == expected, expression[:100]
    # The query may be wrong only for these data: then the answer has begun.
    assert code(s3, bucket, "k", "SELECT s.other FROM S3Object s") == ("MissingHeaders", True)
    assert code(s3, bucket, "k", "SELECT CAST(s.name AS INT) FROM S3Object s") == ("CastFailed", True)
    assert code(s3, bucket, "k", all, LINES) == ("JSONParsingError", True)
    for compression in ["GZIP", "BZIP2"]:
        assert code(s3, bucket, "k", all, CSV | {"CompressionType": compression}) == ("InvalidCompressionFormat", True)
    assert code(s3, bucket, "k", all, PARQUET) == ("ParquetParsingError", True)
    assert code(s3, bucket, "none", all) == ("NoSuchKey", False)
    path = f"/{bucket}/k?select&select-type=2"
    assert raw.send_signed(gateway, "POST", path, b"<SelectObjectContentRequest>") == (400, "MalformedXML")


def test_policies_permit_queries_as_they_permit_reading(gateway, s3, bucket):
    user = f"main/user-{bucket}"
    gateway.run("user", "create", user)
    made = gateway.run("key", "create", user)[0]
    client = gateway.client(access_key=made["access_key"], secret_key=made["secret_key"])
    s3.put_object(Bucket=bucket, Key="k", Body=FISH)

    def allow(action):
        file = gateway.dir / f"{bucket}.json"
        file.write_text(policy(statement(bucket, action, ["", "/*"], principal=None)))
        gateway.run("user", "policy", "put", user, "p", str(file))
        time.sleep(KEY_CACHE_S)

    count = "SELECT COUNT(*) FROM S3Object"
    allow(["s3:PutObject", "benthic:Exec"])
    assert code(client, bucket, "k", count) == ("AccessDenied", False)
    allow("s3:GetObject")
    assert select(client, bucket, "k", count)[0] == b"3\n"


def test_aws_selects(gateway, s3, bucket, tmp_path):
    aws = program(gateway, tmp_path, "aws", f"{sys.prefix}/bin/aws")
    s3.put_object(Bucket=bucket, Key="fish.csv", Body=FISH)
    aws(
        "s3api", "select-object-content", "--bucket", bucket, "--key", "fish.csv", "--expression-type", "SQL",
        "--expression", "SELECT s.name, s.depth FROM S3Object s WHERE CAST(s.depth AS INT) > 10",
        "--input-serialization", '{"CSV": {"FileHeaderInfo": "USE"}}', "--output-serialization", '{"JSON": {}}', "found.json",
    )
    found = (tmp_path / "found.json").read_text().splitlines()
    assert [json.loads(line) for line in found] == [{"name": "sole", "depth": "12"}, {"name": "eel, grey", "depth": "140"}]
