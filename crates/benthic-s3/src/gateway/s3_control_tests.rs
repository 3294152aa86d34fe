use super::{bucket_of, tags_in};
use benthic_testkit::random::Rng;
use benthic_testkit::seed;

const DOCUMENT: &str = "<?xml version=\"1.0\"?><TagResourceRequest xmlns=\"urn:x\"><Tags><Tag><Key>a&amp;b</Key>\
                        <Value>1</Value></Tag><Tag><Key>c</Key><Value/></Tag></Tags></TagResourceRequest>";

#[test]
fn tags_are_parsed() {
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(tags_in(DOCUMENT.as_bytes()).unwrap(), [pair("a&b", "1"), pair("c", "")]);
    for invalid in ["", "<", "<Tags/>", "<TagResourceRequest><Tag/></TagResourceRequest>"] {
        assert!(tags_in(invalid.as_bytes()).is_err(), "{invalid}");
    }
    assert!(tags_in(DOCUMENT.replace("<Value/>", "<Value/><Other/>").as_bytes()).is_err());
    assert!(tags_in(DOCUMENT.replace("</Tags>", "<Other/></Tags>").as_bytes()).is_err());
    assert!(tags_in(DOCUMENT.replace("</Tags>", "</Tags><Other/>").as_bytes()).is_err());
    assert!(tags_in(DOCUMENT.replace(">1<", "><![CDATA[1]]><").as_bytes()).is_err());
}

#[test]
fn damaged_documents_never_panic() {
    let seed = seed::one();
    let mut random = Rng(seed);
    for _ in 0..20_000 {
        let mut body = DOCUMENT.as_bytes().to_vec();
        for _ in 0..=random.below(4) {
            let (at, other) = (random.below(body.len()), random.below(body.len()));
            match random.below(4) {
                0 => body[at] = random.number() as u8,
                1 => body.truncate(at.max(1)),
                2 => body.swap(at, other),
                _ => body.extend_from_within(at.min(other)..),
            }
        }
        // A document that is accepted has valid tags.
        if let Ok(tags) = tags_in(&body) {
            assert!(
                tags.len() <= 50 && tags.iter().all(|(key, _)| !key.is_empty()),
                "{}={seed}",
                seed::VARIABLE
            );
        }
    }
}

#[test]
fn only_arns_of_buckets_are_accepted() {
    let of = |arn: &str| bucket_of(&format!("/v20180820/tags/{arn}"));
    assert_eq!(of("arn%3Aaws%3As3%3A%3A%3Aphotos").unwrap(), "photos");
    assert_eq!(of("arn:aws:s3:::photos").unwrap(), "photos");
    for other in [
        "",
        "photos",
        "arn:aws:s3:::",
        "arn:aws:s3:::photos/a",
        "arn%3Aaws%3As3%3A%3A%3A%FF",
        "arn:aws:s3:::a?versionId=b",
    ] {
        assert!(of(other).is_err(), "{other}");
    }
}
