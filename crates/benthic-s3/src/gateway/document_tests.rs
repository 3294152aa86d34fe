use super::{Document, ELEMENTS, check_elements};
use crate::gateway::http::XML_BYTES_MAX;
use hyper::{HeaderMap, Method};
use s3s::S3ErrorCode;

fn is_refused(document: &str) -> bool {
    let checked = check_elements(document.as_bytes());
    assert!(checked.as_ref().err().is_none_or(|error| *error.code() == S3ErrorCode::MalformedXML));
    checked.is_err()
}

#[test]
fn unknown_elements_at_the_top_are_refused() {
    for (root, elements) in ELEMENTS {
        let with = |inner: &str| format!("<?xml version=\"1.0\"?>\n<{root} xmlns=\"x\">\n{inner}\n</{root}>");
        for element in elements {
            assert!(!is_refused(&with(&format!("<!-- a -->\n<{element}><Any/>text</{element}>"))), "{root}");
            assert!(!is_refused(&with(&format!("<{element}/><{element}>x</{element}>"))), "{root} {element}");
            let wrong = element.to_lowercase();
            assert!(is_refused(&with(&format!("<{wrong}>true</{wrong}>"))), "{root} {wrong}");
        }
        assert!(is_refused(&with("<x/>")) && is_refused(&with("<a:Rule></a:Rule>")), "{root}");
        assert!(!is_refused(&with("")) && !is_refused(&format!("<{root}/>")), "{root}");
    }
}

#[test]
fn text_that_would_be_ignored_is_refused() {
    let rule = |prefix: &str| {
        format!(
            "<LifecycleConfiguration><Rule><Filter><Prefix>{prefix}</Prefix></Filter></Rule></LifecycleConfiguration>"
        )
    };
    assert!(is_refused(&rule("<![CDATA[logs/]]>")));
    assert!(!is_refused(&rule("a&amp;b")));
}

#[test]
fn s3s_reports_all_other_faults() {
    for document in [
        "",
        "{\"Statement\": [\"<Delete>\"]}",
        "no document",
        "<",
        "<Delete><Object>",
        "<Other><x/></Other>",
        "</Delete>",
        "<Delete></Other>",
    ] {
        assert!(!is_refused(document), "{document}");
    }
    assert!(check_elements(b"<Delete>\xff</Delete>").is_ok());
}

#[test]
fn every_request_with_a_document_is_checked() {
    let headers = HeaderMap::new();
    for (method, query, is_bucket, expected) in [
        (Method::PUT, "", true, true),
        (Method::PUT, "lifecycle", true, true),
        (Method::PUT, "publicAccessBlock=&x-id=PutPublicAccessBlock", true, true),
        (Method::PUT, "retention&versionId=1", false, true),
        (Method::PUT, "legal-hold", false, true),
        (Method::PUT, "", false, false),
        (Method::PUT, "partNumber=1&uploadId=2", false, false),
        (Method::POST, "select&select-type=2", false, true),
        (Method::POST, "delete", true, true),
        (Method::POST, "uploads", false, false),
        (Method::GET, "lifecycle", true, false),
    ] {
        let found = Document::of(&method, query, is_bucket, &headers);
        assert_eq!(found.is_some(), expected, "{method} {query}");
    }
    let mut in_chunks = HeaderMap::new();
    in_chunks.insert("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER".parse().unwrap());
    assert!(Document::of(&Method::PUT, "lifecycle", true, &in_chunks).is_none());
}

#[test]
fn a_body_that_is_too_large_takes_no_memory() {
    let mut document = Document::of(&Method::PUT, "tagging", false, &HeaderMap::new()).unwrap().unwrap();
    document.update(b"<Tagging><x/>");
    document.update(&vec![b' '; XML_BYTES_MAX]);
    assert!(document.text.is_none());
    document.update(b"</Tagging>");
    assert!(document.text.is_none() && document.finish().is_ok());
}
