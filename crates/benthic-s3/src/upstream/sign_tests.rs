use super::super::credentials::Credentials;
use super::{ToSign, authorization, encode};

/// The example of AWS: GET of an object with a range.
/// <https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html>
#[test]
fn the_signature_of_the_published_example_is_right() {
    let credentials = Credentials {
        access_key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
        secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
        session_token: None,
    };
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let headers = [
        ("host", "examplebucket.s3.amazonaws.com"),
        ("range", "bytes=0-9"),
        ("x-amz-content-sha256", empty),
        ("x-amz-date", "20130524T000000Z"),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let request = ToSign {
        method: "GET",
        path: "/test.txt",
        query: "",
        headers: &headers,
        payload_sha256: empty,
        time: "20130524T000000Z",
        region: "us-east-1",
    };
    assert_eq!(
        authorization(&request, &credentials),
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
         SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, \
         Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    );
}

#[test]
fn paths_and_values_are_encoded() {
    assert_eq!(encode("a/b c+é~\0", true), "a/b%20c%2B%C3%A9~%00");
    assert_eq!(encode("a/b", false), "a%2Fb");
}
