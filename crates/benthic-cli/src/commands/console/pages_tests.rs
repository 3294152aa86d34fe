use super::{FRAME, PAGES, SCRIPTS, SIGN_IN, STYLE, private, public};

fn texts() -> Vec<&'static str> {
    let own = [FRAME, SIGN_IN, STYLE, include_str!("web/sign-in.js")];
    own.into_iter().chain(SCRIPTS.map(|(_, text)| text)).collect()
}

#[test]
fn the_pages_load_nothing_from_elsewhere() {
    for text in texts() {
        // The SVG namespace is a name, not an address to load from.
        let text = text.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http:", "https:", "//cdn", "url(", "@import"] {
            assert!(!text.contains(outside), "{outside}");
        }
    }
}

#[test]
fn the_pages_never_turn_text_into_html() {
    for text in texts() {
        for way in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            " style=",
            "onclick=",
        ] {
            assert!(!text.contains(way), "{way}");
        }
    }
}

#[test]
fn every_page_has_its_script() {
    for (path, title, script) in PAGES {
        assert!(private(path, false).is_some() && public(path).is_none(), "{path}");
        assert!(SCRIPTS.iter().any(|(at, _)| *at == format!("/{script}")), "{title}");
    }
    assert!(private("/cluster", false).is_none() && private("/cluster", true).is_some());
    for path in ["/../etc/passwd", "//", "/web/frame.html", "/objects", "/sign-in.html", ""] {
        assert!(private(path, true).is_none() && public(path).is_none(), "{path}");
    }
}
