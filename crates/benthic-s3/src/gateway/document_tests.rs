use super::{Document, ELEMENTS, LISTS, NUMBERS, check_elements};
use crate::gateway::fuzzing::{self, parsed};
use crate::gateway::http::XML_BYTES_MAX;
use crate::gateway::{bucket_lifecycle, bucket_notification};
use hyper::{HeaderMap, Method};
use proptest::prelude::{ProptestConfig, any, prop, proptest};
use s3s::S3ErrorCode;
use s3s::dto::BucketLifecycleConfiguration;

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
            let inner = LISTS.iter().find(|(list, _)| list == element).map_or("Any", |(_, inner)| *inner);
            let whole = format!("<!-- a -->\n<{element}><{inner}><Any/></{inner}>text</{element}>");
            assert!(!is_refused(&with(&whole)), "{root} {element}");
            assert!(!is_refused(&with(&format!("<{element}/><{element}>x</{element}>"))), "{root} {element}");
            let wrong = element.to_lowercase();
            assert!(is_refused(&with(&format!("<{wrong}>true</{wrong}>"))), "{root} {wrong}");
        }
        assert!(is_refused(&with("<x/>")) && is_refused(&with("<a:Rule></a:Rule>")), "{root}");
        assert!(!is_refused(&with("")) && !is_refused(&format!("<{root}/>")), "{root}");
    }
}

#[test]
fn unknown_elements_of_lists_are_refused() {
    for (root, list) in [
        ("AccessControlPolicy", "AccessControlList"),
        ("CreateBucketConfiguration", "Tags"),
        ("Tagging", "TagSet"),
        ("WebsiteConfiguration", "RoutingRules"),
    ] {
        let (_, element) = LISTS.iter().find(|(name, _)| *name == list).unwrap();
        let with = |inner: &str| format!("<{root}><{list}>\n{inner}</{list}></{root}>");
        assert!(!is_refused(&with("")), "{list}");
        assert!(!is_refused(&with(&format!("<{element}><Any>a</Any></{element}><{element}/>"))), "{list}");
        for wrong in [format!("<x:{element}/>"), format!("<{element}/><{}/>", element.to_lowercase())] {
            assert!(is_refused(&with(&wrong)), "{list} {wrong}");
        }
    }
    let logging = "<BucketLoggingStatus><LoggingEnabled><TargetGrants><Grant/></TargetGrants>\
        <TargetPrefix>a</TargetPrefix></LoggingEnabled></BucketLoggingStatus>";
    assert!(!is_refused(logging) && is_refused(&logging.replace("<Grant/>", "<grant/>")));
    // An empty list ends at once.
    let acl = "<AccessControlPolicy><AccessControlList/><Owner><ID>a</ID></Owner></AccessControlPolicy>";
    assert!(!is_refused(acl));
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
fn control_characters_that_no_answer_can_have_are_refused() {
    for (control, expected) in [("\0", true), ("\u{1}", true), ("\u{1f}", true), ("\t\r\n\u{7f}é", false)] {
        let tags =
            format!("<Tagging><TagSet><Tag><Key>{control}</Key><Value>a</Value></Tag></TagSet></Tagging>");
        assert_eq!(is_refused(&tags), expected, "{control:?}");
        let delete = format!("<Delete><Object><Key>{control}</Key></Object></Delete>");
        assert_eq!(is_refused(&delete), expected, "{control:?}");
        // A policy is no document of XML.
        assert!(!is_refused(&format!("{{\"Statement\": \"{control}\"}}")), "{control:?}");
    }
}

#[test]
fn numbers_have_nothing_behind_them() {
    for name in NUMBERS {
        let with = |text: &str| {
            format!("<LifecycleConfiguration><Rule><{name}>{text}</{name}></Rule></LifecycleConfiguration>")
        };
        for text in ["30", "-1", "+7", "3 ", "3\n", "3<!-- a -->0"] {
            assert!(!is_refused(&with(text)), "{name} {text:?}");
        }
        for text in [
            "3O",
            "1.5",
            "1e3",
            "3 0",
            "0x10",
            "3<!-- a --> 0",
            "&#51;0",
            "3&amp;",
            "-",
            " ",
            "",
            " 3",
            "\u{663}",
        ] {
            assert!(is_refused(&with(text)), "{name} {text:?}");
        }
        // Not a number.
        let empty =
            format!("<LifecycleConfiguration><Rule><{name}/>a<ID>3O</ID></Rule></LifecycleConfiguration>");
        assert!(!is_refused(&empty), "{name}");
    }
}

/// `s3s` stores a time of its zone as one of UTC, and cuts fractions of a millisecond.
#[test]
fn lifecycle_dates_are_stored_in_utc() {
    let prepared = |date: &str| {
        let document = format!(
            "<LifecycleConfiguration><Rule><Filter><Prefix>a</Prefix></Filter><Status>Enabled</Status><Expiration><Date>\
            {date}</Date></Expiration><Transition><Date>2029-01-01T01:00:00+01:00</Date><StorageClass>GLACIER</StorageClass>\
            </Transition></Rule></LifecycleConfiguration>"
        );
        let mut configuration: BucketLifecycleConfiguration = parsed(document.as_bytes()).unwrap();
        bucket_lifecycle::prepare(&mut configuration).ok()?;
        Some(serde_json::to_value(&configuration).unwrap())
    };
    let stored = prepared("2030-01-01T00:00:00Z").unwrap();
    for same in ["2030-01-01T05:00:00+05:00", "2029-12-31T19:00:00-05:00", "2029-12-31T23:59:59.9999999Z"] {
        assert_eq!(prepared(same).unwrap(), stored, "{same}");
    }
    for wrong in ["2030-01-01T00:00:00+05:00", "2030-01-01T00:00:00.000001Z", "9999-12-31T23:59:59.9999999Z"]
    {
        assert_eq!(prepared(wrong), None, "{wrong}");
    }
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
        (Method::PUT, "%74agging=", false, true),
        (Method::PUT, "", false, false),
        (Method::PUT, "partNumber=1&uploadId=2", false, false),
        (Method::POST, "select&select-type=2", false, true),
        (Method::POST, "delete", true, true),
        (Method::POST, "uploads", false, false),
        (Method::GET, "lifecycle", true, false),
    ] {
        let found = Document::of(&method, query, is_bucket, false, &headers);
        assert_eq!(found.is_some(), expected, "{method} {query}");
    }
    for (method, expected) in [(Method::POST, true), (Method::DELETE, false), (Method::GET, false)] {
        assert_eq!(Document::of(&method, "", false, true, &headers).is_some(), expected, "{method}");
    }
    let mut in_chunks = HeaderMap::new();
    in_chunks.insert("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER".parse().unwrap());
    let refused = Document::of(&Method::PUT, "lifecycle", true, false, &in_chunks).unwrap();
    assert_eq!(refused.err().map(|error| error.code().clone()), Some(S3ErrorCode::InvalidRequest));
    assert!(Document::of(&Method::PUT, "", false, false, &in_chunks).is_none());
}

#[test]
fn a_body_that_is_too_large_takes_no_memory() {
    let mut document =
        Document::of(&Method::PUT, "tagging", false, false, &HeaderMap::new()).unwrap().unwrap();
    document.update(b"<Tagging><x/>");
    document.update(&vec![b' '; XML_BYTES_MAX]);
    assert!(document.text.is_none());
    document.update(b"</Tagging>");
    assert!(document.text.is_none() && document.finish().is_ok());
}

const LIFECYCLE: &str = "<LifecycleConfiguration><Rule><ID>a</ID><Filter><And><Prefix>tmp/</Prefix><Tag><Key>k</Key>\
    <Value>v</Value></Tag><ObjectSizeGreaterThan>9</ObjectSizeGreaterThan></And></Filter><Status>Enabled</Status>\
    <Expiration><Days>30</Days></Expiration><Transition><Days>3</Days><StorageClass>GLACIER</StorageClass></Transition>\
    <NoncurrentVersionExpiration><NoncurrentDays>2</NoncurrentDays></NoncurrentVersionExpiration></Rule><Rule><ID>b</ID>\
    <Filter><Prefix></Prefix></Filter><Status>Disabled</Status><Expiration><Date>2030-01-01T00:00:00Z</Date></Expiration>\
    </Rule></LifecycleConfiguration>";
const NOTIFICATION: &str = "<NotificationConfiguration><TopicConfiguration><Id>a</Id>\
    <Topic>arn:aws:sns:us-east-1:lab:hook</Topic><Event>s3:ObjectCreated:*</Event><Event>s3:ObjectRemoved:Delete</Event>\
    <Filter><S3Key><FilterRule><Name>prefix</Name><Value>in/</Value></FilterRule></S3Key></Filter></TopicConfiguration>\
    <QueueConfiguration><Id>b</Id><Queue>arn:aws:sqs:us-east-1:lab:hook</Queue><Event>s3:LifecycleTransition</Event>\
    </QueueConfiguration></NotificationConfiguration>";

#[test]
fn the_undamaged_documents_are_valid() {
    for document in [LIFECYCLE, NOTIFICATION] {
        assert!(!is_refused(document));
    }
    assert!(bucket_lifecycle::prepare(&mut parsed(LIFECYCLE.as_bytes()).unwrap()).is_ok());
    assert!(bucket_notification::prepare(&mut parsed(NOTIFICATION.as_bytes()).unwrap()).is_ok());
}

#[test]
fn no_input_of_the_corpus_breaks_a_promise() {
    benthic_testkit::corpus::replay("documents", fuzzing::document);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// A damaged document is refused, or the gateway can read the document that it stores.
    #[test]
    fn damaged_documents_are_refused_or_stored_whole(
        is_lifecycle in any::<bool>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), "[<>/&;!:a-zA-Z0-9 -]"), 1..4),
    ) {
        let mut text = if is_lifecycle { LIFECYCLE } else { NOTIFICATION }.to_owned();
        for (at, with) in damage {
            let at = at.index(text.len());
            text.replace_range(at..=at, &with);
        }
        fuzzing::document(text.as_bytes());
    }
}
