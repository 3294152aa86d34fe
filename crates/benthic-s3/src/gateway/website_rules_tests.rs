use super::{Address, check, encode_key, path_of, redirect_after_error, redirect_of};
use s3s::dto::{
    Condition, ErrorDocument, IndexDocument, Protocol, Redirect, RedirectAllRequestsTo, RoutingRule,
    WebsiteConfiguration,
};

fn address(key: &str) -> Address<'_> {
    Address { scheme: "http", host: "photos.example.org:8080", key, path_and_query: "/a%20b?c=d" }
}

fn website(rules: Vec<RoutingRule>) -> WebsiteConfiguration {
    WebsiteConfiguration {
        index_document: Some(IndexDocument { suffix: "index.html".into() }),
        routing_rules: Some(rules),
        ..WebsiteConfiguration::default()
    }
}

fn rule(prefix: Option<&str>, error: Option<&str>, redirect: Redirect) -> RoutingRule {
    let condition = Condition {
        http_error_code_returned_equals: error.map(str::to_owned),
        key_prefix_equals: prefix.map(str::to_owned),
    };
    RoutingRule { condition: (condition != Condition::default()).then_some(condition), redirect }
}

fn to_prefix(prefix: &str) -> Redirect {
    Redirect { replace_key_prefix_with: Some(prefix.into()), ..Redirect::default() }
}

#[test]
fn the_first_rule_that_matches_redirects() {
    let far = Redirect {
        host_name: Some("far.example".into()),
        protocol: Some(Protocol::from_static("https")),
        http_redirect_code: Some("307".into()),
        replace_key_with: Some("lost and found".into()),
        ..Redirect::default()
    };
    let site = website(vec![
        rule(Some("old/"), None, to_prefix("new/")),
        rule(Some("old/"), Some("404"), to_prefix("never/")),
        rule(None, Some("404"), far),
    ]);
    check(&site).unwrap();
    let of = |key| redirect_of(&site, address(key)).map(|moved| (moved.status, moved.location));
    assert_eq!(of("old/é?"), Some((301, "http://photos.example.org:8080/new/%C3%A9%3F".into())));
    assert_eq!(of("older"), None);
    let after = |key, status| redirect_after_error(&site, address(key), status);
    assert_eq!(after("x", 404).unwrap().location, "https://far.example/lost%20and%20found");
    assert_eq!(after("x", 404).unwrap().status, 307);
    assert_eq!(after("old/x", 404).unwrap().location, "http://photos.example.org:8080/never/x");
    assert_eq!(after("x", 403), None);
}

#[test]
fn all_requests_go_elsewhere() {
    let site = WebsiteConfiguration {
        redirect_all_requests_to: Some(RedirectAllRequestsTo {
            host_name: "b.example".into(),
            protocol: None,
        }),
        ..WebsiteConfiguration::default()
    };
    check(&site).unwrap();
    assert_eq!(redirect_of(&site, address("a b")).unwrap().location, "http://b.example/a%20b?c=d");
}

#[test]
fn invalid_configurations_are_refused() {
    let valid = website(Vec::new());
    check(&valid).unwrap();
    let with_rule = |rule| website(vec![rule]);
    let host = |host: &str| Redirect { host_name: Some(host.into()), ..Redirect::default() };
    let code = |code: &str| Redirect { http_redirect_code: Some(code.into()), ..Redirect::default() };
    let both = Redirect { replace_key_with: Some("a".into()), ..to_prefix("b") };
    let protocol = Redirect { protocol: Some(Protocol::from_static("ftp")), ..Redirect::default() };
    let index = |suffix: &str| WebsiteConfiguration {
        index_document: Some(IndexDocument { suffix: suffix.into() }),
        ..WebsiteConfiguration::default()
    };
    let all = RedirectAllRequestsTo { host_name: "a.example".into(), protocol: None };
    let empty_condition = RoutingRule { condition: Some(Condition::default()), redirect: to_prefix("a") };
    for invalid in [
        WebsiteConfiguration::default(),
        index(""),
        index("a/index.html"),
        index(&"x".repeat(2_000)),
        WebsiteConfiguration { error_document: Some(ErrorDocument::default()), ..valid.clone() },
        WebsiteConfiguration { redirect_all_requests_to: Some(all), ..valid.clone() },
        with_rule(rule(None, None, Redirect::default())),
        with_rule(rule(None, Some("200"), to_prefix("a"))),
        with_rule(rule(None, Some("+404"), to_prefix("a"))),
        with_rule(rule(None, None, both)),
        with_rule(rule(None, None, protocol)),
        with_rule(rule(None, None, host("a.example/b"))),
        with_rule(rule(None, None, host("a\r\nb"))),
        with_rule(rule(None, None, host(""))),
        with_rule(rule(None, None, code("300"))),
        with_rule(rule(None, None, code("400"))),
        with_rule(rule(None, None, to_prefix(&"x".repeat(2_000)))),
        with_rule(empty_condition),
        website(vec![rule(None, None, to_prefix("a")); 51]),
    ] {
        assert!(check(&invalid).is_err(), "{invalid:?}");
    }
}

#[test]
fn keys_are_encoded_for_a_path() {
    assert_eq!(encode_key("a/b c?d#é~%\n"), "a/b%20c%3Fd%23%C3%A9~%25%0A");
}

#[test]
fn the_path_of_a_key_names_no_host() {
    assert_eq!(path_of("a b/c"), "/a%20b/c");
    assert_eq!(path_of("/evil.example/x"), "/%2Fevil.example/x");
    assert_eq!(path_of("//evil.example"), "/%2F/evil.example");
}
