use super::{Access, Allowed, SESSIONS_MAX};
use benthic_core::{Environment, ErrorKind};
use hyper::Request;
use hyper::header::SET_COOKIE;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn access() -> Access {
    Access::new(TOKEN, 8129, "http", Environment::default())
}

fn check(access: &Access, method: &str, headers: &[(&str, &str)]) -> Allowed {
    let mut request = Request::builder().method(method).uri("/api/pools").header("host", "localhost:8129");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    access.check(&request.body(()).unwrap())
}

/// Signs in and returns the Cookie header of the browser.
fn cookie(access: &Access) -> String {
    let reply = access.sign_in(TOKEN).unwrap();
    let cookie = reply.headers()[SET_COOKIE].to_str().unwrap().to_owned();
    assert!(cookie.ends_with("; HttpOnly; SameSite=Strict"), "{cookie}");
    cookie.split(';').next().unwrap().to_owned()
}

#[test]
fn the_token_signs_in_and_nothing_else_does() {
    let access = access();
    assert_eq!(check(&access, "POST", &[("authorization", &format!("Bearer {TOKEN}"))]), Allowed::Yes);
    for wrong in ["", "Bearer", "Bearer ", "Bearer x", "Basic x", TOKEN] {
        assert_eq!(check(&access, "GET", &[("authorization", wrong)]), Allowed::NotSignedIn, "{wrong:?}");
    }
    for wrong in ["", "x", &TOKEN[..31], "benthic-console-8129=x"] {
        assert_eq!(access.sign_in(wrong).unwrap_err().kind(), ErrorKind::PermissionDenied, "{wrong:?}");
        assert_eq!(check(&access, "GET", &[("cookie", wrong)]), Allowed::NotSignedIn, "{wrong:?}");
    }
    // A wrong token is refused even beside a valid cookie.
    let cookie = cookie(&access);
    let both = [("authorization", "Bearer x"), ("cookie", cookie.as_str())];
    assert_eq!(check(&access, "GET", &both), Allowed::NotSignedIn);
}

#[test]
fn a_cookie_works_only_for_pages_of_this_server() {
    let access = access();
    let cookie = cookie(&access);
    let ask = |method: &str, headers: &[(&str, &str)]| {
        check(&access, method, &[&[("cookie", cookie.as_str())], headers].concat())
    };
    let own = ("origin", "http://localhost:8129");
    assert_eq!(ask("GET", &[]), Allowed::Yes);
    assert_eq!(ask("POST", &[own, ("sec-fetch-site", "same-origin")]), Allowed::Yes);
    assert_eq!(ask("GET", &[("sec-fetch-site", "none")]), Allowed::Yes, "an address that a user has typed");
    let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
    assert_eq!(ask("GET", &link), Allowed::Yes, "a link");
    for (method, headers) in [
        ("POST", vec![]),
        ("DELETE", vec![("sec-fetch-site", "same-origin")]),
        ("POST", vec![("origin", "http://localhost:3000"), ("sec-fetch-site", "same-site")]),
        ("POST", vec![("origin", "https://localhost:8128")]),
        ("POST", vec![("origin", "ftp://localhost:8129")]),
        ("POST", vec![("origin", "null")]),
        ("POST", vec![own, ("sec-fetch-site", "same-site")]),
        ("POST", vec![own, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]),
        ("GET", vec![("sec-fetch-site", "same-site"), ("sec-fetch-mode", "no-cors")]),
        ("GET", vec![("origin", "http://evil.example")]),
    ] {
        assert_eq!(ask(method, &headers), Allowed::OtherOrigin, "{method} {headers:?}");
    }
}

#[test]
fn sessions_end() {
    let access = access();
    let first = cookie(&access);
    let is_signed_in = |cookie: &str| check(&access, "GET", &[("cookie", cookie)]) == Allowed::Yes;
    assert!(is_signed_in(&first));
    let request = Request::builder().header("cookie", &first).body(()).unwrap();
    access.sign_out(request.headers());
    assert!(!is_signed_in(&first));
    let oldest = cookie(&access);
    for _ in 1..SESSIONS_MAX {
        cookie(&access);
    }
    assert!(is_signed_in(&oldest));
    cookie(&access);
    assert!(!is_signed_in(&oldest), "one more signs out the oldest");
}
