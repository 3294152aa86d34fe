"""Topics of SNS: targets of events that clients create."""

import json
import time
import uuid

import pytest
from gateway import running
from target import notify, rule, running_target, status, wait_until, waiting
from test_iam import client
from test_policies import KEY_CACHE_S
from test_two_gateways import call_concurrently


@pytest.fixture(scope="module")
def target():
    with running_target() as target:
        yield target


@pytest.fixture(scope="module")
def topics(tmp_path_factory, target):
    """A gateway whose clients may create topics with this target."""
    options = ["--events-every", "1", "--sns-endpoint", target.url.split("?")[0]]
    with running("file", tmp_path_factory.mktemp("topics"), *options) as gateway:
        yield gateway


@pytest.fixture
def sns(topics):
    return client(topics, "sns")


@pytest.fixture
def photos(topics):
    """A new bucket of that gateway."""
    name = f"photos-{uuid.uuid4().hex[:8]}"
    topics.client().create_bucket(Bucket=name)
    return name


@pytest.fixture
def rival(topics):
    """The name of another account, and the access key and the secret of the account itself."""
    name = f"rival-{uuid.uuid4().hex[:8]}"
    topics.run("account", "create", name)
    key = topics.run("key", "create", name)[0]
    return name, (key["access_key"], key["secret_key"])


def new_name():
    return f"topic-{uuid.uuid4().hex[:8]}"


def topics_of(sns):
    pages = sns.get_paginator("list_topics").paginate()
    return [topic["TopicArn"] for page in pages for topic in page["Topics"]]


def test_events_reach_a_topic(topics, sns, target, photos, code_of):
    name, s3 = new_name(), topics.client()
    arn = sns.create_topic(Name=name, Attributes={"push-endpoint": target.url, "persistent": "true"})["TopicArn"]
    assert arn == f"arn:aws:sns:us-east-1:main:{name}"
    expected = {"Owner": "main", "TopicArn": arn, "push-endpoint": target.url, "persistent": "true"}
    # Without attributes, CreateTopic changes nothing.
    assert sns.create_topic(Name=name)["TopicArn"] == arn
    assert sns.get_topic_attributes(TopicArn=arn)["Attributes"] == expected
    assert arn in topics_of(sns)
    notify(s3, photos, rule(arn))
    s3.put_object(Bucket=photos, Key=name, Body=b"")
    wait_until(lambda: ("ObjectCreated:Put", name) in target.names())

    # Without an endpoint, events go nowhere.
    silent = sns.create_topic(Name=f"{name}-silent")["TopicArn"]
    notify(s3, photos, rule(silent))
    s3.put_object(Bucket=photos, Key=f"{name}-silent", Body=b"")
    wait_until(lambda: waiting(topics, photos) == 0)
    assert ("ObjectCreated:Put", f"{name}-silent") not in target.names()

    for topic in (arn, silent):
        sns.delete_topic(TopicArn=topic)
        sns.delete_topic(TopicArn=topic)
        assert code_of(sns.get_topic_attributes, TopicArn=topic) == ("NotFound", 404)
        assert topic not in topics_of(sns)


def test_services_that_start_together_can_create_the_same_topic(sns):
    """SDKs repeat an answer 503."""

    def create(name):
        try:
            return sns.create_topic(Name=name)["TopicArn"]
        except sns.exceptions.ClientError as error:
            answer = error.response
            return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]

    for _ in range(5):
        name = new_name()
        answers = set(call_concurrently([sns], lambda _number, _client: create(name), times=8))
        assert f"arn:aws:sns:us-east-1:main:{name}" in answers
        assert answers <= {f"arn:aws:sns:us-east-1:main:{name}", ("ServiceUnavailable", 503)}


def test_only_the_endpoints_of_the_operator_are_permitted(sns, target, code_of):
    before = topics_of(sns)
    for endpoint in ["http://127.0.0.1:1/events", "http://169.254.169.254/", target.url.replace("/events", "/other"),
                     target.url.replace("http", "https"), target.url.replace("//", "//ada:secret@"), "kafka://127.0.0.1:9092", "x"]:
        attributes = {"push-endpoint": endpoint}
        assert code_of(sns.create_topic, Name=new_name(), Attributes=attributes) == ("InvalidParameter", 400), endpoint
    for attributes in [{"ca-location": "/etc/passwd"}, {"persistent": "false"}, {"Policy": "{}"}, {"amqp-exchange": "x"}]:
        assert code_of(sns.create_topic, Name=new_name(), Attributes=attributes) == ("InvalidParameter", 400), attributes
    for name in ("a/b", "x" * 65, "a b"):
        assert code_of(sns.create_topic, Name=name) == ("InvalidParameter", 400), name
    for arn in ("x", "arn:aws:sns:eu-west-1:main:x", "arn:aws:sqs:us-east-1:main:x"):
        assert code_of(sns.get_topic_attributes, TopicArn=arn) == ("InvalidParameter", 400), arn
    assert topics_of(sns) == before


def test_without_endpoints_there_are_no_topics(own_gateway, code_of):
    sns = client(own_gateway, "sns")
    for call, given in [(sns.create_topic, {"Name": "x"}), (sns.list_topics, {})]:
        assert code_of(call, **given) == ("AuthorizationError", 403)
    assert own_gateway.run("events", "target", "ls") == []


def test_an_endpoint_that_the_operator_does_not_permit_any_more_gets_nothing(tmp_path, target):
    with running("file", tmp_path, "--events-every", "1", "--sns-endpoint", target.url.split("?")[0]) as gateway:
        arn = client(gateway, "sns").create_topic(Name="x", Attributes={"push-endpoint": target.url})["TopicArn"]
        s3 = gateway.client()
        s3.create_bucket(Bucket="photos")
        notify(s3, "photos", rule(arn))
        gateway.stop()
        gateway.options = ["--events-every", "1"]
        gateway.start()
        gateway.client().put_object(Bucket="photos", Key="late", Body=b"")
        wait_until(lambda: any("does not permit" in (found["failure"] or "") for found in status(gateway, "photos")))
        assert ("ObjectCreated:Put", "late") not in target.names()


def test_policies_of_users_decide(topics, sns, code_of):
    iam, user = client(topics, "iam"), new_name()
    iam.create_user(UserName=user)
    key = iam.create_access_key(UserName=user)["AccessKey"]
    limited = client(topics, "sns", key["AccessKeyId"], key["SecretAccessKey"])
    assert code_of(limited.list_topics) == ("AuthorizationError", 403)
    iam.attach_user_policy(UserName=user, PolicyArn="arn:aws:iam::aws:policy/AmazonSNSReadOnlyAccess")
    time.sleep(KEY_CACHE_S)
    arn = sns.create_topic(Name=new_name())["TopicArn"]
    assert arn in topics_of(limited)
    limited.get_topic_attributes(TopicArn=arn)
    for call, given in [
        (limited.create_topic, {"Name": new_name()}),
        (limited.delete_topic, {"TopicArn": arn}),
        (limited.set_topic_attributes, {"TopicArn": arn, "AttributeName": "Policy", "AttributeValue": ""}),
    ]:
        assert code_of(call, **given) == ("AuthorizationError", 403)
    # CreateTopic alone does not change a topic.
    create = {"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "sns:CreateTopic", "Resource": "*"}}
    iam.put_user_policy(UserName=user, PolicyName="create", PolicyDocument=json.dumps(create))
    time.sleep(KEY_CACHE_S)
    assert limited.create_topic(Name=arn.rsplit(":", 1)[1])["TopicArn"] == arn
    assert code_of(limited.create_topic, Name=arn.rsplit(":", 1)[1], Attributes={"persistent": "true"}) == ("AuthorizationError", 403)


def test_a_policy_opens_a_topic_to_another_account(topics, sns, target, rival, code_of):
    account, key = rival
    name, theirs, s3 = new_name(), client(topics, "sns", *key), topics.client(*key)
    arn = sns.create_topic(Name=name, Attributes={"push-endpoint": target.url})["TopicArn"]
    for call, given in [
        (theirs.get_topic_attributes, {}),
        (theirs.set_topic_attributes, {"AttributeName": "Policy", "AttributeValue": ""}),
        (theirs.delete_topic, {}),
    ]:
        assert code_of(call, TopicArn=arn, **given) == ("AuthorizationError", 403)
    assert topics_of(theirs) == []
    s3.create_bucket(Bucket=account)
    call, rules = s3.put_bucket_notification_configuration, {"TopicConfigurations": [rule(arn)]}
    assert code_of(call, Bucket=account, NotificationConfiguration=rules) == ("AccessDenied", 403)

    def policy(effect="Allow", principal=f"arn:aws:iam::{account}:root"):
        statement = {"Effect": effect, "Principal": {"AWS": principal}, "Action": "sns:Publish", "Resource": arn}
        return json.dumps({"Version": "2012-10-17", "Statement": [statement]})

    def set_policy(text):
        sns.set_topic_attributes(TopicArn=arn, AttributeName="Policy", AttributeValue=text)

    assert code_of(set_policy, policy(principal=f"arn:aws:iam::{account}:user/eve")) == ("InvalidParameter", 400)
    wrong = {"AttributeName": "push-endpoint", "AttributeValue": target.url}
    assert code_of(sns.set_topic_attributes, TopicArn=arn, **wrong) == ("InvalidParameter", 400)
    set_policy(policy())
    assert json.loads(sns.get_topic_attributes(TopicArn=arn)["Attributes"]["Policy"]) == json.loads(policy())
    notify(s3, account, rule(arn))
    s3.put_object(Bucket=account, Key="first", Body=b"")
    wait_until(lambda: ("ObjectCreated:Put", "first") in target.names())
    # A policy that ends stops the events.
    set_policy("")
    s3.put_object(Bucket=account, Key="second", Body=b"")
    wait_until(lambda: any("sns:Publish" in (found["failure"] or "") for found in status(topics, account)))
    # New attributes keep the policy.
    set_policy(policy())
    sns.create_topic(Name=name, Attributes={"push-endpoint": target.url})
    wait_until(lambda: ("ObjectCreated:Put", "second") in target.names())


def test_clients_do_not_change_the_targets_of_the_operator(topics, sns, target, code_of):
    name = new_name()
    arn = topics.run("events", "target", "create", f"main/{name}", "--webhook", target.url)[0]["arn"]
    assert arn in topics_of(sns)
    assert sns.get_topic_attributes(TopicArn=arn)["Attributes"] == {"Owner": "main", "TopicArn": arn}
    for call, given in [
        (sns.create_topic, {"Name": name}),
        (sns.create_topic, {"Name": name, "Attributes": {"push-endpoint": target.url}}),
        (sns.set_topic_attributes, {"TopicArn": arn, "AttributeName": "Policy", "AttributeValue": ""}),
        (sns.delete_topic, {"TopicArn": arn}),
    ]:
        assert code_of(call, **given) == ("AuthorizationError", 403), given
    (found,) = [found for found in topics.run("events", "target", "ls") if found["arn"] == arn]
    assert found["webhook"] == target.url and "created_with" not in found
