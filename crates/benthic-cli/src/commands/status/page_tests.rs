use super::{ELEMENTS, HTML, Page, SCRIPT, STYLE};
use crate::commands::hosts::Hosts;
use hyper::{Request, StatusCode};

#[test]
fn the_page_loads_nothing_from_elsewhere() {
    for text in [HTML, STYLE, SCRIPT, ELEMENTS] {
        // The SVG namespace is a name, not an address to load from.
        let text = text.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http:", "https:", "//cdn", "url(", "@import"] {
            assert!(!text.contains(outside), "{outside}");
        }
    }
}

#[test]
fn the_page_never_turns_text_into_html() {
    for way in
        ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", " style="]
    {
        assert!([SCRIPT, ELEMENTS, HTML].iter().all(|text| !text.contains(way)), "{way}");
    }
}

#[test]
fn every_response_has_security_headers() {
    let page = Page::new(15, Hosts::new("127.0.0.1:1".parse().unwrap(), &[]).unwrap());
    page.show("{}".to_owned());
    let ask = |method: &str, path: &str, host: &str| {
        let request = Request::builder().method(method).uri(path).header("host", host);
        page.answer(&request.body(()).unwrap())
    };
    for (method, path, host, status) in [
        ("GET", "/", "localhost", StatusCode::OK),
        ("GET", "/page.js", "localhost", StatusCode::OK),
        ("HEAD", "/status.json", "localhost", StatusCode::OK),
        ("GET", "/-/health", "localhost", StatusCode::OK),
        ("GET", "/etc/passwd", "localhost", StatusCode::NOT_FOUND),
        ("GET", "/status.json", "evil.example", StatusCode::MISDIRECTED_REQUEST),
        ("POST", "/status.json", "localhost", StatusCode::METHOD_NOT_ALLOWED),
        ("DELETE", "/", "localhost", StatusCode::METHOD_NOT_ALLOWED),
    ] {
        let answer = ask(method, path, host);
        assert_eq!(answer.status(), status, "{path}");
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        assert!(header("content-security-policy").starts_with("default-src 'none'; "), "{path}");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(
            (header("cache-control"), header("referrer-policy")),
            ("no-store".into(), "no-referrer".into())
        );
    }
}
