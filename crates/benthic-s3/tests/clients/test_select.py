"""Select: queries on objects."""

import gzip
import json
import random
import sys
import time

import botocore
import pytest
import raw
from test_policies import KEY_CACHE_S, policy, statement
from test_programs import program

MIB = 1 << 20
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
        ("NotImplemented", all, CSV | {"CompressionType": "BZIP2"}, {}),
        ("NotImplemented", all, {"Parquet": {}}, {}),
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
    assert code(s3, bucket, "k", all, CSV | {"CompressionType": "GZIP"}) == ("InvalidCompressionFormat", True)
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
