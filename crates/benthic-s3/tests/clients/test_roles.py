"""Roles, temporary keys, groups, managed policies and boundaries."""

import concurrent.futures
import json
import time
import urllib.request

import boto3
import botocore.config
import pytest
from test_iam import client
from test_policies import KEY_CACHE_S, policy, statement

ALL = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}


def trust(*principals, **changes):
    """A trust policy that names these principals."""
    return policy({"Effect": "Allow", "Principal": {"AWS": list(principals)}, "Action": "sts:AssumeRole"} | changes)


def session_client(gateway, credentials, service="s3"):
    """A client with a temporary key."""
    signature = "s3v4" if service == "s3" else "v4"
    return boto3.client(
        service,
        endpoint_url=gateway.url,
        region_name="us-east-1",
        aws_access_key_id=credentials["AccessKeyId"],
        aws_secret_access_key=credentials["SecretAccessKey"],
        aws_session_token=credentials["SessionToken"],
        config=botocore.config.Config(signature_version=signature, retries={"total_max_attempts": 1, "mode": "standard"}),
    )


@pytest.fixture
def iam(gateway):
    return client(gateway, "iam")


@pytest.fixture
def sts(gateway):
    return client(gateway, "sts")


@pytest.fixture
def other(gateway, bucket):
    """The name of another account, and a client of STS of its user `eve`, who has all rights there."""
    account = f"other-{bucket}"
    gateway.run("account", "create", account)
    gateway.run("user", "create", f"{account}/eve")
    key = gateway.run("key", "create", f"{account}/eve")[0]
    return account, client(gateway, "sts", key["access_key"], key["secret_key"])


def arn(kind, name, account="main"):
    return f"arn:aws:iam::{account}:{kind}/{name}"


def limited_user(gateway, iam, name):
    """A user of IAM without any policy, and clients with its key."""
    iam.create_user(UserName=name)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    given = key["AccessKeyId"], key["SecretAccessKey"]
    return gateway.client(*given), client(gateway, "sts", *given), client(gateway, "iam", *given)


def test_a_role_lives_from_creation_to_deletion(iam, bucket, code_of):
    name = f"role-{bucket}"
    given = {"RoleName": name, "AssumeRolePolicyDocument": trust("main"), "Path": "/lab/", "Description": "reads", "MaxSessionDuration": 7200}
    created = iam.create_role(**given)["Role"]
    assert created["Arn"] == arn("role", f"lab/{name}")
    assert (created["Path"], created["Description"], created["MaxSessionDuration"]) == ("/lab/", "reads", 7200)
    assert created["AssumeRolePolicyDocument"] == json.loads(given["AssumeRolePolicyDocument"])
    assert iam.get_role(RoleName=name)["Role"] == created
    assert name in [role["RoleName"] for role in iam.list_roles(PathPrefix="/lab/")["Roles"]]
    assert name not in [role["RoleName"] for role in iam.list_roles(PathPrefix="/x/")["Roles"]]
    assert code_of(iam.create_role, **given) == ("EntityAlreadyExists", 409)
    iam.update_role(RoleName=name, Description="writes", MaxSessionDuration=3600)
    iam.update_assume_role_policy(RoleName=name, PolicyDocument=trust("*"))
    changed = iam.get_role(RoleName=name)["Role"]
    iam.update_role(RoleName=name, Description="")
    assert "Description" not in iam.get_role(RoleName=name)["Role"]
    assert (changed["Description"], changed["MaxSessionDuration"]) == ("writes", 3600)
    assert changed["AssumeRolePolicyDocument"] == json.loads(trust("*"))

    iam.put_role_policy(RoleName=name, PolicyName="all", PolicyDocument=policy(ALL))
    assert iam.list_role_policies(RoleName=name)["PolicyNames"] == ["all"]
    assert iam.get_role_policy(RoleName=name, PolicyName="all")["PolicyDocument"] == json.loads(policy(ALL))
    assert code_of(iam.delete_role, RoleName=name) == ("DeleteConflict", 409)
    iam.delete_role_policy(RoleName=name, PolicyName="all")
    iam.delete_role(RoleName=name)
    assert code_of(iam.get_role, RoleName=name) == ("NoSuchEntity", 404)


def test_a_session_has_the_rights_of_its_role_until_the_role_is_gone(gateway, s3, iam, sts, bucket, code_of):
    name = f"role-{bucket}"
    s3.put_object(Bucket=bucket, Key="a/1", Body=b"x")
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust(arn("user", "admin")))["Role"]
    iam.put_role_policy(RoleName=name, PolicyName="read", PolicyDocument=policy(statement(bucket, "s3:GetObject", "/a/*", principal=None)))
    id = f"{role['RoleId']}:dive"
    got = sts.assume_role(RoleArn=arn("role", name), RoleSessionName="dive")
    credentials = got["Credentials"]
    assert got["AssumedRoleUser"] == {"AssumedRoleId": id, "Arn": f"arn:aws:sts::main:assumed-role/{name}/dive"}
    assert 3_500 < credentials["Expiration"].timestamp() - time.time() <= 3_600
    reader = session_client(gateway, credentials)
    assert reader.get_object(Bucket=bucket, Key="a/1")["Body"].read() == b"x"
    assert code_of(reader.put_object, Bucket=bucket, Key="a/1", Body=b"y") == ("AccessDenied", 403)
    assert code_of(reader.get_object, Bucket=bucket, Key="b") == ("AccessDenied", 403)
    assert code_of(reader.list_buckets) == ("AccessDenied", 403)
    url = reader.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "a/1"})
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"x"
    identity = session_client(gateway, credentials, "sts").get_caller_identity()
    assert (identity["Arn"], identity["UserId"]) == (f"arn:aws:sts::main:assumed-role/{name}/dive", id)
    assert code_of(session_client(gateway, credentials, "iam").list_users) == ("AccessDenied", 403)

    # The token belongs to its key, and nothing in it can be changed.
    second = sts.assume_role(RoleArn=arn("role", name), RoleSessionName="dive")["Credentials"]
    changed = credentials["SessionToken"][:-1] + ("0" if credentials["SessionToken"][-1] != "0" else "1")
    for token in [second["SessionToken"], changed, "x", ""]:
        forged = session_client(gateway, credentials | {"SessionToken": token})
        expected = "InvalidToken" if token else "InvalidAccessKeyId"
        assert code_of(forged.get_object, Bucket=bucket, Key="a/1")[0] == expected
    wrong = session_client(gateway, credentials | {"SecretAccessKey": second["SecretAccessKey"]})
    assert code_of(wrong.get_object, Bucket=bucket, Key="a/1") == ("SignatureDoesNotMatch", 403)
    lasting = {"AccessKeyId": gateway.access_key, "SecretAccessKey": gateway.secret_key, "SessionToken": second["SessionToken"]}
    assert code_of(session_client(gateway, lasting).list_buckets)[0] == "InvalidToken"

    forged = session_client(gateway, credentials | {"SessionToken": second["SessionToken"]}, "sts")
    assert code_of(forged.get_caller_identity) == ("InvalidClientTokenId", 403)

    # A new role of the same name does not revive the sessions of the old one.
    iam.delete_role_policy(RoleName=name, PolicyName="read")
    iam.delete_role(RoleName=name)
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust("main"))
    iam.put_role_policy(RoleName=name, PolicyName="all", PolicyDocument=policy(ALL))
    time.sleep(KEY_CACHE_S)
    assert code_of(reader.get_object, Bucket=bucket, Key="a/1") == ("InvalidAccessKeyId", 403)


def test_only_the_trusted_assume_a_role(gateway, iam, sts, bucket, other, code_of):
    name = f"role-{bucket}"
    account, eve = other
    assume = {"RoleArn": arn("role", name), "RoleSessionName": "dive"}
    iam.create_user(UserName=f"nobody-{bucket}")
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust(arn("user", f"nobody-{bucket}")))
    # All rights of the account do not suffice.
    for caller in [sts, eve]:
        assert code_of(caller.assume_role, **assume) == ("AccessDenied", 403)
    assert code_of(eve.assume_role, **assume | {"RoleArn": arn("role", "missing")}) == ("AccessDenied", 403)
    _, limited, _ = limited_user(gateway, iam, f"user-{bucket}")
    iam.put_user_policy(UserName=f"user-{bucket}", PolicyName="x", PolicyDocument=policy(ALL))

    iam.update_assume_role_policy(RoleName=name, PolicyDocument=trust("main"))
    sts.assume_role(**assume)
    # The account is trusted, so the policies of the user decide.
    assert code_of(limited.assume_role, **assume) == ("AccessDenied", 403)
    may = {"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": arn("role", name)}
    iam.put_user_policy(UserName=f"user-{bucket}", PolicyName="x", PolicyDocument=policy(may))
    time.sleep(KEY_CACHE_S)
    limited.assume_role(**assume)

    secret = {"Condition": {"StringEquals": {"sts:ExternalId": "reef"}}}
    iam.update_assume_role_policy(RoleName=name, PolicyDocument=trust(account, **secret))
    assert code_of(eve.assume_role, **assume) == ("AccessDenied", 403)
    eve.assume_role(**assume, ExternalId="reef")
    # The resource is the role, of its own account.
    for owner, expected in [("main", None), (account, ("AccessDenied", 403))]:
        mine = {"Condition": {"StringEquals": {"aws:ResourceAccount": owner}}}
        iam.update_assume_role_policy(RoleName=name, PolicyDocument=trust(account, **mine))
        if expected:
            assert code_of(eve.assume_role, **assume) == expected
        else:
            eve.assume_role(**assume)
    deny = {"Effect": "Deny", "Principal": "*", "Action": "sts:*"}
    iam.update_assume_role_policy(RoleName=name, PolicyDocument=policy(deny))
    assert code_of(sts.assume_role, **assume) == ("AccessDenied", 403)


def test_a_policy_ends_the_sessions_before_a_time(gateway, iam, sts, bucket, code_of):
    """The policy that the console of AWS calls AWSRevokeOlderSessions."""
    name = f"role-{bucket}"
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust(arn("user", "admin")))
    iam.put_role_policy(RoleName=name, PolicyName="all", PolicyDocument=policy(ALL))
    assume = lambda: session_client(gateway, sts.assume_role(RoleArn=arn("role", name), RoleSessionName="dive")["Credentials"])
    old = assume()
    old.list_objects_v2(Bucket=bucket)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 1))
    older = {"Effect": "Deny", "Action": "*", "Resource": "*", "Condition": {"DateLessThan": {"aws:TokenIssueTime": now}}}
    iam.put_role_policy(RoleName=name, PolicyName="older", PolicyDocument=policy(older))
    time.sleep(KEY_CACHE_S)
    assert code_of(old.list_objects_v2, Bucket=bucket) == ("AccessDenied", 403)
    assume().list_objects_v2(Bucket=bucket)
    no_factor = {"Effect": "Deny", "Action": "*", "Resource": "*", "Condition": {"Bool": {"aws:MultiFactorAuthPresent": "false"}}}
    iam.put_role_policy(RoleName=name, PolicyName="older", PolicyDocument=policy(no_factor))
    time.sleep(KEY_CACHE_S)
    assert code_of(assume().list_objects_v2, Bucket=bucket) == ("AccessDenied", 403)


def test_the_policies_of_a_session_limit_it(gateway, s3, iam, sts, bucket, code_of):
    name = f"role-{bucket}"
    s3.put_object(Bucket=bucket, Key="a", Body=b"x")
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust("main"))
    iam.attach_role_policy(RoleName=name, PolicyArn="arn:aws:iam::aws:policy/AmazonS3FullAccess")
    assume = {"RoleArn": arn("role", name), "RoleSessionName": "dive"}
    reads = policy(statement(bucket, "s3:GetObject", principal=None))
    session = session_client(gateway, sts.assume_role(**assume, Policy=reads)["Credentials"])
    session.get_object(Bucket=bucket, Key="a")
    assert code_of(session.put_object, Bucket=bucket, Key="a", Body=b"y") == ("AccessDenied", 403)
    arns = [{"arn": "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"}]
    session = session_client(gateway, sts.assume_role(**assume, PolicyArns=arns)["Credentials"])
    session.list_objects_v2(Bucket=bucket)
    assert code_of(session.put_object, Bucket=bucket, Key="a", Body=b"y") == ("AccessDenied", 403)

    # A session ends with a managed policy that limits it.
    own = iam.create_policy(PolicyName=name, PolicyDocument=policy(ALL))["Policy"]["Arn"]
    ended = session_client(gateway, sts.assume_role(**assume, PolicyArns=[{"arn": own}])["Credentials"])
    ended.list_objects_v2(Bucket=bucket)
    iam.delete_policy(PolicyArn=own)
    time.sleep(KEY_CACHE_S)
    assert code_of(ended.list_objects_v2, Bucket=bucket) == ("InvalidAccessKeyId", 403)

    # A bucket policy that names the role stays within the limits; one that names the session does not.
    puts = statement(bucket, "s3:PutObject", principal={"AWS": arn("role", name)})
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(puts))
    assert code_of(session.put_object, Bucket=bucket, Key="a", Body=b"y") == ("AccessDenied", 403)
    puts["Principal"] = {"AWS": f"arn:aws:sts::main:assumed-role/{name}/dive"}
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(puts))
    session.put_object(Bucket=bucket, Key="a", Body=b"y")
    puts["Effect"] = "Deny"
    s3.put_bucket_policy(Bucket=bucket, Policy=policy(puts))
    assert code_of(session.put_object, Bucket=bucket, Key="a", Body=b"z") == ("AccessDenied", 403)
    s3.delete_bucket_policy(Bucket=bucket)


def test_a_temporary_key_of_a_user_makes_no_lasting_one(gateway, iam, sts, bucket, code_of):
    credentials = sts.get_session_token(DurationSeconds=900)["Credentials"]
    assert 800 < credentials["Expiration"].timestamp() - time.time() <= 900
    session_client(gateway, credentials).list_objects_v2(Bucket=bucket)
    assert session_client(gateway, credentials, "sts").get_caller_identity()["UserId"] == iam.get_user()["User"]["UserId"]
    assert code_of(session_client(gateway, credentials, "iam").create_access_key) == ("AccessDenied", 403)
    assert code_of(session_client(gateway, credentials, "sts").get_session_token) == ("AccessDenied", 403)
    # It ends with the key that created it.
    key = iam.create_access_key(UserName="admin")["AccessKey"]
    credentials = client(gateway, "sts", key["AccessKeyId"], key["SecretAccessKey"]).get_session_token()["Credentials"]
    temporary = session_client(gateway, credentials)
    temporary.list_buckets()
    iam.delete_access_key(UserName="admin", AccessKeyId=key["AccessKeyId"])
    time.sleep(KEY_CACHE_S)
    assert code_of(temporary.list_buckets) == ("InvalidAccessKeyId", 403)


def test_a_group_gives_its_policies_to_its_users(gateway, iam, bucket, code_of):
    group, name = f"group-{bucket}", f"user-{bucket}"
    user, _, _ = limited_user(gateway, iam, name)
    created = iam.create_group(GroupName=group, Path="/lab/")["Group"]
    assert created["Arn"] == arn("group", f"lab/{group}")
    iam.put_group_policy(GroupName=group, PolicyName="list", PolicyDocument=policy(statement(bucket, "s3:ListBucket", "", principal=None)))
    assert code_of(user.list_objects_v2, Bucket=bucket) == ("AccessDenied", 403)
    iam.add_user_to_group(GroupName=group, UserName=name)
    time.sleep(KEY_CACHE_S)
    user.list_objects_v2(Bucket=bucket)
    assert [found["UserName"] for found in iam.get_group(GroupName=group)["Users"]] == [name]
    assert [found["GroupName"] for found in iam.list_groups_for_user(UserName=name)["Groups"]] == [group]
    assert group in [found["GroupName"] for found in iam.list_groups()["Groups"]]
    for call, given in [(iam.delete_group, {"GroupName": group}), (iam.delete_user, {"UserName": name})]:
        assert code_of(call, **given) == ("DeleteConflict", 409)
    iam.remove_user_from_group(GroupName=group, UserName=name)
    assert code_of(iam.remove_user_from_group, GroupName=group, UserName=name) == ("NoSuchEntity", 404)
    time.sleep(KEY_CACHE_S)
    assert code_of(user.list_objects_v2, Bucket=bucket) == ("AccessDenied", 403)
    assert code_of(iam.add_user_to_group, GroupName=group, UserName="missing") == ("NoSuchEntity", 404)
    assert code_of(iam.add_user_to_group, GroupName="missing", UserName=name) == ("NoSuchEntity", 404)
    assert code_of(iam.delete_group, GroupName=group) == ("DeleteConflict", 409)
    iam.delete_group_policy(GroupName=group, PolicyName="list")
    iam.delete_group(GroupName=group)


def test_the_right_to_fill_groups_takes_no_rights_from_others(gateway, iam, bucket, code_of):
    group, name = f"group-{bucket}", f"user-{bucket}"
    iam.create_group(GroupName=group)
    _, _, limited = limited_user(gateway, iam, name)
    iam.put_user_policy(UserName=name, PolicyName="x", PolicyDocument=policy({"Effect": "Allow", "Action": "iam:AddUserToGroup", "Resource": arn("group", group)}))
    time.sleep(KEY_CACHE_S)
    assert code_of(limited.add_user_to_group, GroupName=group, UserName="admin") == ("AccessDenied", 403)
    limited.add_user_to_group(GroupName=group, UserName=name)


def test_concurrent_changes_count_each_use(gateway, iam, bucket):
    names = [f"user-{bucket}-{number}" for number in range(8)]
    given = {"PolicyArn": iam.create_policy(PolicyName=bucket, PolicyDocument=policy(ALL))["Policy"]["Arn"]}
    iam.create_group(GroupName=bucket)

    def fill(name):
        own = client(gateway, "iam")
        own.create_user(UserName=name, PermissionsBoundary=given["PolicyArn"])
        own.attach_user_policy(UserName=name, **given)
        own.add_user_to_group(UserName=name, GroupName=bucket)

    with concurrent.futures.ThreadPoolExecutor(len(names)) as threads:
        list(threads.map(fill, names))
    counted = iam.get_policy(**given)["Policy"]
    assert (counted["AttachmentCount"], counted["PermissionsBoundaryUsageCount"]) == (8, 8)
    assert [user["UserName"] for user in iam.get_group(GroupName=bucket)["Users"]] == names


def test_a_managed_policy_applies_in_its_default_version(gateway, iam, bucket, code_of):
    name = f"user-{bucket}"
    user, _, _ = limited_user(gateway, iam, name)
    lists = policy(statement(bucket, "s3:ListBucket", "", principal=None))
    created = iam.create_policy(PolicyName=name, Path="/lab/", PolicyDocument=lists, Description="lists")["Policy"]
    assert created["Arn"] == arn("policy", f"lab/{name}")
    given = {"PolicyArn": created["Arn"]}
    iam.attach_user_policy(UserName=name, **given)
    time.sleep(KEY_CACHE_S)
    user.list_objects_v2(Bucket=bucket)
    assert iam.list_attached_user_policies(UserName=name)["AttachedPolicies"] == [{"PolicyName": name, **given}]
    assert iam.get_policy(**given)["Policy"]["AttachmentCount"] == 1
    assert name in [found["PolicyName"] for found in iam.list_policies(Scope="Local", OnlyAttached=True)["Policies"]]
    iam.create_group(GroupName=name)
    iam.attach_group_policy(GroupName=name, **given)
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust("main"), PermissionsBoundary=created["Arn"])
    assert iam.list_instance_profiles_for_role(RoleName=name)["InstanceProfiles"] == []
    kinds = ("User", "Group", "Role")
    using = lambda **more: [
        kind for kind in kinds if [name] == [found[f"{kind}Name"] for found in iam.list_entities_for_policy(**given, **more)[f"Policy{kind}s"]]
    ]
    assert using() == ["User", "Group", "Role"] and using(EntityFilter="Group") == ["Group"] and using(PathPrefix="/lab/") == []
    assert using(PolicyUsageFilter="PermissionsPolicy") == ["User", "Group"] and using(PolicyUsageFilter="PermissionsBoundary") == ["Role"]
    pages = list(iam.get_paginator("list_entities_for_policy").paginate(**given, PaginationConfig={"PageSize": 1}))
    assert [sum(len(page[f"Policy{kind}s"]) for kind in kinds) for page in pages] == [1, 1, 1]
    assert pages[0]["PolicyGroups"][0]["GroupId"] == iam.get_group(GroupName=name)["Group"]["GroupId"]
    assert code_of(iam.list_entities_for_policy, **given, EntityFilter="LocalManagedPolicy") == ("ValidationError", 400)
    iam.detach_group_policy(GroupName=name, **given)
    iam.delete_group(GroupName=name)
    iam.delete_role(RoleName=name)
    assert "AdministratorAccess" in [found["PolicyName"] for found in iam.list_policies()["Policies"]]
    assert code_of(iam.delete_policy, **given) == ("DeleteConflict", 409)

    puts = policy(statement(bucket, "s3:PutObject", principal=None))
    assert iam.create_policy_version(**given, PolicyDocument=puts, SetAsDefault=True)["PolicyVersion"]["VersionId"] == "v2"
    time.sleep(KEY_CACHE_S)
    assert code_of(user.list_objects_v2, Bucket=bucket) == ("AccessDenied", 403)
    user.put_object(Bucket=bucket, Key="a", Body=b"x")
    versions = iam.list_policy_versions(**given)["Versions"]
    assert [(found["VersionId"], found["IsDefaultVersion"]) for found in versions] == [("v1", False), ("v2", True)]
    assert iam.get_policy_version(**given, VersionId="v1")["PolicyVersion"]["Document"] == json.loads(lists)
    assert code_of(iam.delete_policy_version, **given, VersionId="v2") == ("DeleteConflict", 409)
    iam.set_default_policy_version(**given, VersionId="v1")
    time.sleep(KEY_CACHE_S)
    user.list_objects_v2(Bucket=bucket)
    iam.delete_policy_version(**given, VersionId="v2")
    for _ in range(4):
        iam.create_policy_version(**given, PolicyDocument=puts)
    assert code_of(iam.create_policy_version, **given, PolicyDocument=puts) == ("LimitExceeded", 409)
    for number in range(3, 7):
        iam.delete_policy_version(**given, VersionId=f"v{number}")

    # Neither a user with an attached policy nor an attached policy can be deleted.
    key = iam.list_access_keys(UserName=name)["AccessKeyMetadata"][0]["AccessKeyId"]
    iam.delete_access_key(UserName=name, AccessKeyId=key)
    assert code_of(iam.delete_user, UserName=name) == ("DeleteConflict", 409)
    iam.detach_user_policy(UserName=name, **given)
    iam.delete_user(UserName=name)
    iam.delete_policy(**given)
    assert code_of(iam.get_policy, **given) == ("NoSuchEntity", 404)


def test_an_administrator_can_be_limited_to_users_with_a_boundary(gateway, iam, bucket, code_of):
    name, admin = f"user-{bucket}", f"admin-{bucket}"
    _, _, limited = limited_user(gateway, iam, admin)
    create = lambda name: iam.create_policy(PolicyName=name, PolicyDocument=policy(ALL))["Policy"]["Arn"]
    boundary, wider = create(f"{name}-boundary"), create(f"{name}-wider")
    within = {"StringEquals": {"iam:PermissionsBoundary": boundary}}
    read_only, all_rights = (f"arn:aws:iam::aws:policy/{name}" for name in ("AmazonS3ReadOnlyAccess", "AdministratorAccess"))
    may = lambda actions, condition: {"Effect": "Allow", "Action": actions, "Resource": arn("user", f"{name}*"), "Condition": condition}
    writes = ["iam:CreateUser", "iam:PutUserPermissionsBoundary", "iam:DeleteUserPermissionsBoundary", "iam:PutUserPolicy"]
    keeps = {"Effect": "Deny", "Action": "iam:DeleteUserPermissionsBoundary", "Resource": "*", "Condition": within}
    delegated = policy(may([*writes, "iam:GetUser"], within), may("iam:AttachUserPolicy", within | {"ArnEquals": {"iam:PolicyARN": read_only}}), keeps)
    iam.put_user_policy(UserName=admin, PolicyName="delegated", PolicyDocument=delegated)
    time.sleep(KEY_CACHE_S)
    denied, document = ("AccessDenied", 403), policy(ALL)
    assert code_of(limited.create_user, UserName=name) == denied
    assert code_of(limited.create_user, UserName=name, PermissionsBoundary=wider) == denied
    limited.create_user(UserName=name, PermissionsBoundary=boundary)
    limited.put_user_policy(UserName=name, PolicyName="all", PolicyDocument=document)
    limited.attach_user_policy(UserName=name, PolicyArn=read_only)
    limited.put_user_permissions_boundary(UserName=name, PermissionsBoundary=boundary)
    iam.create_user(UserName=f"{name}-2", PermissionsBoundary=wider)
    for call, given in [
        (limited.attach_user_policy, {"UserName": name, "PolicyArn": all_rights}),
        (limited.put_user_permissions_boundary, {"UserName": name, "PermissionsBoundary": wider}),
        (limited.delete_user_permissions_boundary, {"UserName": name}),
        (limited.put_user_policy, {"UserName": f"{name}-2", "PolicyName": "all", "PolicyDocument": document}),
        (limited.attach_user_policy, {"UserName": f"{name}-2", "PolicyArn": read_only}),
        # Only some actions have a boundary to compare.
        (limited.get_user, {"UserName": name}),
    ]:
        assert code_of(call, **given) == denied, (call, given)


def test_a_boundary_limits_a_user(gateway, s3, iam, bucket, code_of):
    name = f"user-{bucket}"
    boundary = iam.create_policy(PolicyName=name, PolicyDocument=policy(statement(bucket, "s3:GetObject", principal=None)))["Policy"]["Arn"]
    iam.create_user(UserName=name, PermissionsBoundary=boundary)
    assert iam.get_user(UserName=name)["User"]["PermissionsBoundary"]["PermissionsBoundaryArn"] == boundary
    key = iam.create_access_key(UserName=name)["AccessKey"]
    user = gateway.client(key["AccessKeyId"], key["SecretAccessKey"])
    iam.attach_user_policy(UserName=name, PolicyArn="arn:aws:iam::aws:policy/AdministratorAccess")
    s3.put_object(Bucket=bucket, Key="a", Body=b"x")
    user.get_object(Bucket=bucket, Key="a")
    assert code_of(user.put_object, Bucket=bucket, Key="a", Body=b"y") == ("AccessDenied", 403)
    assert code_of(iam.delete_policy, PolicyArn=boundary) == ("DeleteConflict", 409)
    # A removed user does not count.
    iam.create_user(UserName=f"{name}-3", PermissionsBoundary=boundary)
    assert iam.get_policy(PolicyArn=boundary)["Policy"]["PermissionsBoundaryUsageCount"] == 2
    iam.delete_user(UserName=f"{name}-3")
    assert iam.get_policy(PolicyArn=boundary)["Policy"]["PermissionsBoundaryUsageCount"] == 1
    iam.delete_user_permissions_boundary(UserName=name)
    time.sleep(KEY_CACHE_S)
    user.put_object(Bucket=bucket, Key="a", Body=b"y")
    iam.delete_policy(PolicyArn=boundary)
    # A user with all rights of the account has a boundary, too.
    gateway.run("user", "create", f"main/{name}-2")
    key = gateway.run("key", "create", f"main/{name}-2")[0]
    iam.put_user_permissions_boundary(UserName=f"{name}-2", PermissionsBoundary="arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess")
    user = gateway.client(key["access_key"], key["secret_key"])
    user.get_object(Bucket=bucket, Key="a")
    assert code_of(user.put_object, Bucket=bucket, Key="a", Body=b"y") == ("AccessDenied", 403)


@pytest.mark.parametrize(
    "service, action, given, expected",
    [
        ("iam", "create_role", {"RoleName": "x", "AssumeRolePolicyDocument": policy(ALL)}, "MalformedPolicyDocument"),
        ("iam", "create_role", {"RoleName": "x", "AssumeRolePolicyDocument": trust("main", Resource="*")}, "MalformedPolicyDocument"),
        ("iam", "create_role", {"RoleName": "x", "AssumeRolePolicyDocument": trust("main", Action="s3:GetObject")}, "MalformedPolicyDocument"),
        ("iam", "create_role", {"RoleName": "x", "AssumeRolePolicyDocument": trust("main"), "MaxSessionDuration": 50_000}, "ValidationError"),
        ("iam", "create_role", {"RoleName": "x", "AssumeRolePolicyDocument": trust("main"), "Tags": [{"Key": "a", "Value": "b"}]}, "ValidationError"),
        ("iam", "create_role", {"RoleName": "a b", "AssumeRolePolicyDocument": trust("main")}, "ValidationError"),
        ("iam", "create_role", {"RoleName": "x", "AssumeRolePolicyDocument": trust("main"), "PermissionsBoundary": arn("policy", "missing")}, "NoSuchEntity"),
        ("iam", "create_policy", {"PolicyName": "x", "PolicyDocument": trust("main")}, "MalformedPolicyDocument"),
        ("iam", "attach_user_policy", {"UserName": "admin", "PolicyArn": arn("policy", "missing")}, "NoSuchEntity"),
        ("iam", "attach_user_policy", {"UserName": "admin", "PolicyArn": "arn:aws:iam::aws:policy/Missing"}, "NoSuchEntity"),
        ("iam", "attach_role_policy", {"RoleName": "missing", "PolicyArn": "arn:aws:iam::aws:policy/IAMFullAccess"}, "NoSuchEntity"),
        ("iam", "delete_policy", {"PolicyArn": "arn:aws:iam::aws:policy/IAMFullAccess"}, "NoSuchEntity"),
        ("sts", "assume_role", {"RoleArn": "arn:aws:iam::main:user/admin", "RoleSessionName": "dive"}, "ValidationError"),
        ("sts", "assume_role", {"RoleArn": arn("role", "missing"), "RoleSessionName": "dive"}, "AccessDenied"),
        ("sts", "assume_role", {"RoleArn": arn("role", "missing"), "RoleSessionName": "a/b"}, "ValidationError"),
        ("sts", "get_session_token", {"DurationSeconds": 1_000_000}, "ValidationError"),
        ("iam", "create_role", {"RoleName": "x", "AssumeRolePolicyDocument": trust("main"), "Description": "a\tb"}, "ValidationError"),
        ("sts", "get_session_token", {"SerialNumber": "123456789", "TokenCode": "123456"}, "ValidationError"),
    ],
)
def test_bad_requests_have_no_effect(gateway, code_of, service, action, given, expected):
    assert code_of(getattr(client(gateway, service), action), **given)[0] == expected
    iam = client(gateway, "iam")
    assert [role for role in iam.list_roles()["Roles"] if role["RoleName"] == "x"] == []
    assert iam.list_attached_user_policies(UserName="admin")["AttachedPolicies"] == []
