"""The APIs of IAM and STS."""

import json
import time

import boto3
import botocore.config
import pytest
import raw
from test_policies import KEY_CACHE_S, policy, statement


def client(gateway, service, access_key=None, secret_key=None, token=None):
    return boto3.client(
        service,
        endpoint_url=gateway.url,
        region_name="us-east-1",
        aws_access_key_id=access_key or gateway.access_key,
        aws_secret_access_key=secret_key or gateway.secret_key,
        aws_session_token=token,
        config=botocore.config.Config(retries={"total_max_attempts": 1, "mode": "standard"}),
    )


@pytest.fixture
def iam(gateway):
    return client(gateway, "iam")


@pytest.fixture
def name(bucket):
    """The name of a user that no other test has."""
    return f"user-{bucket}"


def test_a_user_lives_from_creation_to_deletion(gateway, s3, iam, bucket, name, code_of):
    created = iam.create_user(UserName=name, Path="/lab/")["User"]
    assert (created["UserName"], created["Path"], created["Arn"]) == (name, "/lab/", f"arn:aws:iam::main:user/lab/{name}")
    assert iam.get_user(UserName=name)["User"] == created
    assert name in [user["UserName"] for user in iam.list_users(PathPrefix="/lab/")["Users"]]
    assert name not in [user["UserName"] for user in iam.list_users(PathPrefix="/other/")["Users"]]
    assert code_of(iam.create_user, UserName=name) == ("EntityAlreadyExists", 409)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    user = gateway.client(key["AccessKeyId"], key["SecretAccessKey"])
    # A user of IAM may do nothing until it gets a policy.
    assert code_of(user.list_buckets) == ("AccessDenied", 403)
    assert code_of(user.list_objects_v2, Bucket=bucket) == ("AccessDenied", 403)
    text = policy(statement(bucket, "s3:ListBucket", "", principal=None))
    iam.put_user_policy(UserName=name, PolicyName="list", PolicyDocument=text)
    time.sleep(KEY_CACHE_S)
    user.list_objects_v2(Bucket=bucket)
    assert iam.get_user_policy(UserName=name, PolicyName="list")["PolicyDocument"] == json.loads(text)
    assert iam.list_user_policies(UserName=name)["PolicyNames"] == ["list"]
    assert [line["policy"] for line in gateway.run("user", "policy", "ls", f"main/{name}")] == ["list"]
    assert code_of(iam.delete_user, UserName=name) == ("DeleteConflict", 409)
    iam.delete_user_policy(UserName=name, PolicyName="list")
    assert code_of(iam.delete_user_policy, UserName=name, PolicyName="list") == ("NoSuchEntity", 404)

    keys = iam.list_access_keys(UserName=name)["AccessKeyMetadata"]
    assert [(found["AccessKeyId"], found["Status"]) for found in keys] == [(key["AccessKeyId"], "Active")]
    iam.update_access_key(UserName=name, AccessKeyId=key["AccessKeyId"], Status="Inactive")
    time.sleep(KEY_CACHE_S)
    assert code_of(user.list_buckets) == ("InvalidAccessKeyId", 403)
    assert code_of(iam.delete_user, UserName=name) == ("DeleteConflict", 409)
    iam.delete_access_key(UserName=name, AccessKeyId=key["AccessKeyId"])
    iam.delete_user(UserName=name)
    assert code_of(iam.get_user, UserName=name) == ("NoSuchEntity", 404)


def test_callers_know_who_they_are(gateway, code_of):
    identity = client(gateway, "sts").get_caller_identity()
    user = client(gateway, "iam").get_user()["User"]
    assert (user["UserName"], user["UserId"][:4], len(user["UserId"])) == ("admin", "AIDA", 21)
    assert (identity["Account"], identity["UserId"], identity["Arn"]) == ("main", user["UserId"], "arn:aws:iam::main:user/admin")
    unknown = client(gateway, "sts", "BN" + "A" * 18, gateway.secret_key)
    assert code_of(unknown.get_caller_identity) == ("InvalidClientTokenId", 403)


def test_users_administer_only_what_their_policies_allow(gateway, iam, bucket, name, code_of):
    iam.create_user(UserName=name)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    own = client(gateway, "iam", key["AccessKeyId"], key["SecretAccessKey"])
    allowed = {"Effect": "Allow", "Action": ["iam:CreateAccessKey", "iam:GetUser"], "Resource": "arn:aws:iam::main:user/${aws:username}"}
    iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=policy(allowed))
    time.sleep(KEY_CACHE_S)
    assert own.get_user()["User"]["UserName"] == name
    second = own.create_access_key()["AccessKey"]["AccessKeyId"]
    for call, given in [
        (own.get_user, {"UserName": "admin"}),
        (own.create_access_key, {"UserName": "admin"}),
        (own.list_users, {}),
        (own.create_user, {"UserName": f"{name}-2"}),
        (own.put_user_policy, {"UserName": name, "PolicyName": "all", "PolicyDocument": policy(allowed)}),
        (own.delete_access_key, {"AccessKeyId": second}),
    ]:
        assert code_of(call, **given) == ("AccessDenied", 403), (call, given)
    # Denials by the path hold.
    iam.create_user(UserName=f"{name}-boss", Path="/admins/")
    rules = [{"Effect": "Allow", "Action": "iam:*", "Resource": "*"}]
    rules.append({"Effect": "Deny", "Action": "iam:*", "Resource": "arn:aws:iam::main:user/admins/*"})
    iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=policy(*rules))
    time.sleep(KEY_CACHE_S)
    own.create_user(UserName=f"{name}-new")
    assert code_of(own.delete_user, UserName=f"{name}-boss") == ("AccessDenied", 403)
    assert code_of(own.create_user, UserName=f"{name}-x", Path="/admins/") == ("AccessDenied", 403)
    # Denials from a time on hold.
    rules.append({"Effect": "Deny", "Action": "iam:GetUser", "Resource": "*", "Condition": {"DateGreaterThan": {"aws:CurrentTime": "2020-01-01"}}})
    iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=policy(*rules))
    time.sleep(KEY_CACHE_S)
    assert code_of(own.get_user) == ("AccessDenied", 403)
    identity = client(gateway, "sts", key["AccessKeyId"], key["SecretAccessKey"]).get_caller_identity()
    assert identity["UserId"] == iam.get_user(UserName=name)["User"]["UserId"]


def test_accounts_do_not_see_each_other(gateway, iam, bucket, name, code_of):
    gateway.run("account", "create", f"other-{bucket}")
    gateway.run("user", "create", f"other-{bucket}/eve")
    key = gateway.run("key", "create", f"other-{bucket}/eve")[0]
    eve = client(gateway, "iam", key["access_key"], key["secret_key"])
    assert [user["UserName"] for user in eve.list_users()["Users"]] == ["eve"]
    assert code_of(eve.get_user, UserName="admin") == ("NoSuchEntity", 404)
    assert code_of(eve.delete_access_key, UserName="eve", AccessKeyId=gateway.access_key) == ("NoSuchEntity", 404)
    assert code_of(eve.create_access_key, UserName="admin") == ("NoSuchEntity", 404)


def test_lists_page(iam, name):
    iam.create_user(UserName=name)
    for number in range(5):
        iam.put_user_policy(UserName=name, PolicyName=f"p{number}", PolicyDocument=policy(statement("x", "s3:*", principal=None)))
    pages = list(iam.get_paginator("list_user_policies").paginate(UserName=name, PaginationConfig={"PageSize": 2}))
    assert [page["PolicyNames"] for page in pages] == [["p0", "p1"], ["p2", "p3"], ["p4"]]


@pytest.mark.parametrize(
    "action, given, expected",
    [
        ("create_user", {"UserName": "a b"}, ("ValidationError", 400)),
        ("create_user", {"UserName": "x", "Path": "no/"}, ("ValidationError", 400)),
        ("put_user_policy", {"UserName": "admin", "PolicyName": "x", "PolicyDocument": "{"}, ("MalformedPolicyDocument", 400)),
        ("put_user_policy", {"UserName": "admin", "PolicyName": "a/b", "PolicyDocument": "{}"}, ("ValidationError", 400)),
        ("put_user_policy", {"UserName": "nobody", "PolicyName": "x", "PolicyDocument": policy(statement("b", "s3:*", principal=None))}, ("NoSuchEntity", 404)),
        ("put_user_policy", {"UserName": "admin", "PolicyName": "x", "PolicyDocument": "x" * 131_000}, ("EntityTooLarge", 400)),
        ("get_user_policy", {"UserName": "admin", "PolicyName": "missing"}, ("NoSuchEntity", 404)),
        ("create_instance_profile", {"InstanceProfileName": "x"}, ("InvalidAction", 400)),
    ],
)
def test_bad_requests_are_refused(gateway, iam, code_of, action, given, expected):
    assert code_of(getattr(iam, action), **given) == expected
    # The first user still has all rights.
    gateway.client().list_buckets()


def test_forged_requests_are_refused(gateway, iam, code_of):
    forged = client(gateway, "iam", gateway.access_key, "x" * 40)
    assert code_of(forged.list_users) == ("SignatureDoesNotMatch", 403)
    assert code_of(client(gateway, "iam", "BNAAAAAAAAAAAAAAAAAA", "x" * 40).list_users)[1] == 403
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert raw.send(gateway, "POST", "/", b"Action=ListUsers&Version=2010-05-08", form)[0] == 403
    # A signature for buckets is none for users.
    headers = raw.signed(gateway, "POST", "/", b"Action=ListUsers", form)
    assert raw.send(gateway, "POST", "/", b"Action=ListUsers", headers) == (403, "AccessDenied")
    # Nor is a signature for users one for buckets.
    headers = raw.signed(gateway, "GET", "/", service="iam")
    assert raw.send(gateway, "GET", "/", headers=headers) == (403, "AccessDenied")
    # The signature covers the form.
    headers = raw.signed(gateway, "POST", "/", b"Action=GetUser&Version=2010-05-08", form, service="iam")
    assert raw.send(gateway, "POST", "/", b"Action=GetUser&Version=2010-05-08", headers)[0] == 200
    headers = {name: value for name, value in headers.items() if name.lower() != "x-amz-content-sha256"}
    assert raw.send(gateway, "POST", "/", b"Action=ListUsers&Version=2010-05-08", headers)[0] == 403


def test_an_account_has_keys_of_its_own(gateway, code_of):
    account = "own-keys"
    gateway.run("account", "create", account)
    key = gateway.run("key", "create", account)[0]
    assert (key["account"], key["user"]) == (account, "")
    iam, sts = (client(gateway, service, key["access_key"], key["secret_key"]) for service in ("iam", "sts"))
    arn = f"arn:aws:iam::{account}:root"
    user = iam.get_user()["User"]
    assert (user["Arn"], user["UserId"]) == (arn, account)
    identity = sts.get_caller_identity()
    assert (identity["Arn"], identity["UserId"], identity["Account"]) == (arn, account, account)
    # It has all rights of the account.
    s3 = gateway.client(key["access_key"], key["secret_key"])
    s3.create_bucket(Bucket="of-an-account")
    trusted = policy({"Effect": "Allow", "Principal": {"AWS": arn}, "Action": "sts:AssumeRole"})
    role = iam.create_role(RoleName="role", AssumeRolePolicyDocument=trusted)["Role"]["Arn"]
    # As on AWS, it cannot assume a role.
    assert code_of(sts.assume_role, RoleArn=role, RoleSessionName="dive") == ("AccessDenied", 403)
    temporary = sts.get_session_token()["Credentials"]
    session = client(gateway, "sts", temporary["AccessKeyId"], temporary["SecretAccessKey"], temporary["SessionToken"])
    assert session.get_caller_identity()["Arn"] == arn

    second = iam.create_access_key()["AccessKey"]["AccessKeyId"]
    keys = {found["AccessKeyId"] for found in iam.list_access_keys()["AccessKeyMetadata"]}
    assert keys == {key["access_key"], second}
    iam.delete_access_key(AccessKeyId=second)
    iam.delete_role(RoleName="role")
    s3.delete_bucket(Bucket="of-an-account")
    refused = gateway.spawn("account", "rm", account)
    assert refused.wait(60) != 0 and "keys" in refused.stderr.read()
    gateway.run("key", "rm", key["access_key"])
    gateway.run("account", "rm", account)
    wrong = gateway.spawn("key", "create", "main/")
    assert wrong.wait(60) != 0 and "omit the slash" in wrong.stderr.read()


def test_names_of_users_have_no_case_and_paths_change(gateway, iam, name, code_of):
    names = [f"{name}-{end}" for end in ("a", "B", "c")]
    for user in reversed(names):
        iam.create_user(UserName=user, Path=f"/{name}/")
    pages = iam.get_paginator("list_users").paginate(PathPrefix=f"/{name}/", PaginationConfig={"PageSize": 1})
    assert [user["UserName"] for page in pages for user in page["Users"]] == names
    # Upper and lower case make no difference.
    assert code_of(iam.create_user, UserName=names[1].lower()) == ("EntityAlreadyExists", 409)
    assert iam.get_user(UserName=names[1].lower())["User"]["UserName"] == names[1]
    refused = gateway.spawn("user", "create", f"main/{names[1].lower()}")
    assert refused.wait(60) != 0 and "exists already" in refused.stderr.read()
    iam.update_user(UserName=names[0], NewPath="/other/")
    assert iam.get_user(UserName=names[0])["User"]["Path"] == "/other/"
    assert code_of(iam.update_user, UserName=names[0], NewPath="other") == ("ValidationError", 400)
    twice = {"Sid": "a", "Effect": "Allow", "Action": "s3:*", "Resource": "*"}
    put = {"UserName": names[0], "PolicyName": "twice", "PolicyDocument": policy(twice, twice)}
    assert code_of(iam.put_user_policy, **put) == ("MalformedPolicyDocument", 400)
    for user in names:
        iam.delete_user(UserName=user)


def new_user(gateway, iam, name):
    """A user, and a function that returns its client of a service."""
    user = iam.create_user(UserName=name)["User"]
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return user, lambda service: client(gateway, service, key["AccessKeyId"], key["SecretAccessKey"])


def test_policies_name_no_later_user_of_the_name(gateway, s3, iam, bucket, name, code_of):
    s3.put_object(Bucket=bucket, Key="a", Body=b"1")
    principal = {"AWS": f"arn:aws:iam::main:user/{name}"}
    text = policy(statement(bucket, "s3:GetObject", principal=principal))
    trust = policy({"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"})
    role = {"RoleName": f"role-{bucket}", "AssumeRolePolicyDocument": trust}
    assert code_of(s3.put_bucket_policy, Bucket=bucket, Policy=text) == ("MalformedPolicy", 400)
    assert code_of(iam.create_role, **role) == ("MalformedPolicyDocument", 400)
    first, clients = new_user(gateway, iam, name)
    s3.put_bucket_policy(Bucket=bucket, Policy=text)
    assume = {"RoleArn": iam.create_role(**role)["Role"]["Arn"], "RoleSessionName": "dive"}

    def check(clients, may):
        for call, given in [(clients("s3").get_object, {"Bucket": bucket, "Key": "a"}), (clients("sts").assume_role, assume)]:
            if may:
                call(**given)
            else:
                assert code_of(call, **given) == ("AccessDenied", 403)

    check(clients, True)
    # The user keeps its id, its key and its rights.
    iam.update_user(UserName=name, NewUserName=f"{name}-2", NewPath="/lab/")
    renamed = iam.get_user(UserName=f"{name}-2")["User"]
    assert renamed == first | {"UserName": f"{name}-2", "Path": "/lab/", "Arn": f"arn:aws:iam::main:user/lab/{name}-2"}
    assert code_of(iam.get_user, UserName=name) == ("NoSuchEntity", 404)
    assert clients("sts").get_caller_identity()["Arn"] == renamed["Arn"]
    check(clients, True)
    second, others = new_user(gateway, iam, name)
    assert second["UserId"] != first["UserId"]
    check(others, False)
    # The policy of a bucket is shown as it was given, and given again, it names the new user.
    assert s3.get_bucket_policy(Bucket=bucket)["Policy"] == text
    s3.put_bucket_policy(Bucket=bucket, Policy=text)
    iam.update_assume_role_policy(RoleName=role["RoleName"], PolicyDocument=trust)
    check(others, True)
    check(clients, False)
    s3.delete_bucket_policy(Bucket=bucket)
    assert code_of(others("s3").get_object, Bucket=bucket, Key="a") == ("AccessDenied", 403)
    for new_name, expected in [(name.upper(), ("EntityAlreadyExists", 409)), ("a b", ("ValidationError", 400))]:
        assert code_of(iam.update_user, UserName=f"{name}-2", NewUserName=new_name) == expected
    assert code_of(iam.update_user, UserName="missing", NewUserName="x") == ("NoSuchEntity", 404)


def test_groups_get_other_names(gateway, s3, iam, bucket, name, code_of):
    group = f"group-{bucket}"
    created = iam.create_group(GroupName=group)["Group"]
    iam.put_group_policy(GroupName=group, PolicyName="list", PolicyDocument=policy(statement(bucket, "s3:ListBucket", "", principal=None)))
    _, clients = new_user(gateway, iam, name)
    iam.add_user_to_group(GroupName=group, UserName=name)
    iam.update_group(GroupName=group, NewGroupName=f"{group}-2", NewPath="/lab/")
    renamed = created | {"GroupName": f"{group}-2", "Path": "/lab/", "Arn": f"arn:aws:iam::main:group/lab/{group}-2"}
    found = iam.get_group(GroupName=f"{group}-2")
    assert (found["Group"], [user["UserName"] for user in found["Users"]]) == (renamed, [name])
    assert iam.list_groups_for_user(UserName=name)["Groups"] == [renamed]
    assert iam.list_group_policies(GroupName=f"{group}-2")["PolicyNames"] == ["list"]
    clients("s3").list_objects_v2(Bucket=bucket)
    assert code_of(iam.get_group, GroupName=group) == ("NoSuchEntity", 404)
    # The caller needs permission for both names.
    rule = {"Effect": "Allow", "Action": "iam:UpdateGroup", "Resource": f"arn:aws:iam::main:group/lab/{group}-2"}
    iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=policy(rule))
    assert code_of(clients("iam").update_group, GroupName=f"{group}-2", NewGroupName=group) == ("AccessDenied", 403)
    iam.remove_user_from_group(GroupName=f"{group}-2", UserName=name)
    assert code_of(clients("s3").list_objects_v2, Bucket=bucket) == ("AccessDenied", 403)


def test_an_account_has_a_summary_and_details(gateway, bucket, code_of):
    account = f"details-{bucket}"
    gateway.run("account", "create", account)
    key = gateway.run("key", "create", account)[0]
    iam = client(gateway, "iam", key["access_key"], key["secret_key"])
    everything = policy({"Effect": "Allow", "Action": "s3:*", "Resource": "*"})
    arn = iam.create_policy(PolicyName="all", PolicyDocument=everything)["Policy"]["Arn"]
    trust = policy({"Effect": "Allow", "Principal": {"AWS": account}, "Action": "sts:AssumeRole"})
    iam.create_role(RoleName="reader", AssumeRolePolicyDocument=trust)
    iam.create_group(GroupName="divers")
    iam.put_group_policy(GroupName="divers", PolicyName="own", PolicyDocument=everything)
    user, clients = new_user(gateway, iam, "ada")
    iam.add_user_to_group(GroupName="divers", UserName="ada")
    iam.attach_user_policy(UserName="ada", PolicyArn=arn)

    summary = iam.get_account_summary()["SummaryMap"]
    expected = {"Users": 1, "Groups": 1, "Roles": 1, "Policies": 1, "PoliciesAttached": 1, "AccountAccessKeysPresent": 1, "UsersQuota": 5000}
    assert {name: summary[name] for name in expected} == expected
    lists = ["UserDetailList", "GroupDetailList", "RoleDetailList", "Policies"]
    every = ["User", "Group", "Role", "LocalManagedPolicy"]
    found = iam.get_account_authorization_details(Filter=every)
    assert found["IsTruncated"] is False
    attached = [{"PolicyName": "all", "PolicyArn": arn}]
    assert found["UserDetailList"] == [user | {"UserPolicyList": [], "GroupList": ["divers"], "AttachedManagedPolicies": attached}]
    (group,), (role,), (managed,) = (found[name] for name in lists[1:])
    assert group["GroupPolicyList"] == [{"PolicyName": "own", "PolicyDocument": json.loads(everything)}]
    assert (role["RoleName"], role["AssumeRolePolicyDocument"]) == ("reader", json.loads(trust))
    assert (managed["Arn"], managed["AttachmentCount"]) == (arn, 1)
    assert [(version["VersionId"], version["Document"]) for version in managed["PolicyVersionList"]] == [("v1", json.loads(everything))]
    # Pages have items of all kinds.
    pages, marker = [], {}
    while not pages or pages[-1]["IsTruncated"]:
        pages.append(iam.get_account_authorization_details(Filter=every, MaxItems=3, **marker))
        marker = {"Marker": pages[-1].get("Marker")}
    assert [sum(len(page[name]) for name in lists) for page in pages] == [3, 1]
    assert [[item for page in pages for item in page[name]] for name in lists] == [found[name] for name in lists]
    built_in = iam.get_account_authorization_details(Filter=["AWSManagedPolicy"])
    assert "AdministratorAccess" in [found["PolicyName"] for found in built_in["Policies"]]
    for call in [clients("iam").get_account_summary, clients("iam").get_account_authorization_details]:
        assert code_of(call) == ("AccessDenied", 403)
    assert code_of(iam.get_account_authorization_details, Filter=["Users"]) == ("ValidationError", 400)
