//! The pages of the console, which are part of the program. Every page is the same frame with
//! another script; the page of a cluster's health is the one of `benthic status serve`.

use crate::commands::serving::{self, Answer};
use crate::commands::status;
use hyper::StatusCode;

const FRAME: &str = include_str!("web/frame.html");
const STYLE: &str = include_str!("web/console.css");
const SIGN_IN: &str = include_str!("web/sign-in.html");

/// Path, title and script of each page.
const PAGES: [(&str, &str, &str); 5] = [
    ("/", "Objects", "objects.js"),
    ("/classes", "Classes", "classes.js"),
    ("/tables", "Tables", "tables.js"),
    ("/arrays", "Arrays", "arrays.js"),
    ("/s3", "S3", "s3.js"),
];

const SCRIPTS: [(&str, &str); 10] = [
    ("/elements.js", status::ELEMENTS),
    ("/common.js", include_str!("web/common.js")),
    ("/rows.js", include_str!("web/rows.js")),
    ("/object.js", include_str!("web/object.js")),
    ("/objects.js", include_str!("web/objects.js")),
    ("/classes.js", include_str!("web/classes.js")),
    ("/tables.js", include_str!("web/tables.js")),
    ("/arrays.js", include_str!("web/arrays.js")),
    ("/s3.js", include_str!("web/s3.js")),
    ("/cluster.js", include_str!("web/cluster.js")),
];

fn html(text: String) -> Answer {
    serving::answer(StatusCode::OK, "text/html; charset=utf-8", text)
}

fn script(text: &'static str) -> Answer {
    serving::answer(StatusCode::OK, "text/javascript; charset=utf-8", text)
}

/// The pages that a browser gets without signing in.
pub fn public(path: &str) -> Option<Answer> {
    match path {
        "/console.css" => Some(serving::answer(
            StatusCode::OK,
            "text/css; charset=utf-8",
            format!("{}\n{STYLE}", status::STYLE),
        )),
        "/sign-in.js" => Some(script(include_str!("web/sign-in.js"))),
        "/-/health" => Some(serving::line(StatusCode::OK, "ok\n")),
        _ => None,
    }
}

pub fn sign_in() -> Answer {
    serving::answer(StatusCode::UNAUTHORIZED, "text/html; charset=utf-8", SIGN_IN)
}

/// A page or script for a user who is signed in.
pub fn private(path: &str, has_cluster: bool) -> Option<Answer> {
    if let Some((_, text)) = SCRIPTS.iter().find(|(at, _)| *at == path) {
        return Some(script(text));
    }
    if let Some((_, title, script)) = PAGES.iter().find(|(at, ..)| *at == path) {
        let page = FRAME.replace("{title}", title).replace("{script}", script);
        return Some(html(page.replace("{navigation}", &navigation(path, has_cluster, "main"))));
    }
    match path {
        "/page.css" => Some(serving::answer(
            StatusCode::OK,
            "text/css; charset=utf-8",
            format!("{}\n{STYLE}", status::STYLE),
        )),
        "/page.js" => Some(script(status::SCRIPT)),
        "/cluster" if has_cluster => {
            // The same page as that of the status server, below the navigation of the console.
            let bar = format!("<body class=\"console\">\n{}", navigation(path, has_cluster, "all"));
            let page = status::HTML.replacen("<body>", &bar, 1);
            let scripts = "<script src=\"cluster.js\" type=\"module\"></script>\n</head>";
            Some(html(page.replacen("</head>", scripts, 1)))
        }
        _ => None,
    }
}

/// The bar at the top of a page. `main` is the identifier of its content.
fn navigation(current: &str, has_cluster: bool, main: &str) -> String {
    let pages = PAGES.iter().map(|(path, title, _)| (*path, *title));
    let cluster = has_cluster.then_some(("/cluster", "Cluster"));
    let links = pages.chain(cluster).map(|(path, title)| {
        let mark = if path == current { " aria-current=\"page\"" } else { "" };
        let target = if path == "/" { "./" } else { &path[1..] };
        format!("<li><a href=\"{target}\"{mark}>{title}</a></li>\n")
    });
    format!(
        "<nav class=\"top\" aria-label=\"Console\">\n<a class=\"skip\" href=\"#{main}\">Skip to the content</a>\n\
         <span class=\"brand\">benthic</span>\n<ul>\n{}</ul>\n<span id=\"mode\" class=\"soft small\"></span>\n\
         <button type=\"button\" id=\"sign-out\">Sign out</button>\n</nav>",
        links.collect::<String>()
    )
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
