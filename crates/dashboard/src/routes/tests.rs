use std::collections::BTreeSet;

use axum::body::to_bytes;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::*;
use crate::rows::Stage;

fn dashboard() -> Dashboard {
    Dashboard::new(CancellationToken::new())
}

async fn ask(dashboard: &Dashboard, peer: Option<&str>, path: &str) -> Response {
    let mut request = http::Request::get(path).header("host", "localhost:8080");
    if let Some(peer) = peer {
        let peer: SocketAddr = peer.parse().unwrap();
        request = request.extension(ConnectInfo(peer));
    }
    let request = request.body(Body::empty()).unwrap();
    dashboard.routes().oneshot(request).await.unwrap()
}

async fn text(response: Response) -> String {
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

const HERE: Option<&str> = Some("127.0.0.1:4711");

#[tokio::test]
async fn the_page_is_files_and_a_policy_that_lets_in_nothing_else() {
    let dashboard = dashboard();
    for (path, status, kind) in [
        ("/dashboard", 200, "text/html; charset=utf-8"),
        ("/dashboard/page.css", 200, "text/css; charset=utf-8"),
        ("/dashboard/page.js", 200, "text/javascript; charset=utf-8"),
        ("/dashboard/events", 200, "text/event-stream"),
        ("/dashboard/secrets", 404, "text/plain; charset=utf-8"),
    ] {
        let response = ask(&dashboard, HERE, path).await;
        assert_eq!(response.status(), status, "{path}");
        let headers = response.headers();
        assert_eq!(headers["content-type"], kind);
        assert_eq!(headers["content-security-policy"], POLICY);
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers["cache-control"], "no-store");
        assert_eq!(headers["cross-origin-resource-policy"], "same-origin");
    }
    assert!(!POLICY.contains("unsafe") && !POLICY.contains('*'));
}

#[tokio::test]
async fn nobody_else_sees_anything() {
    let dashboard = dashboard();
    for peer in [Some("10.0.0.7:4711"), None] {
        for path in [
            "/dashboard",
            "/dashboard/page.js",
            "/dashboard/events",
            "/dashboard/x",
        ] {
            let response = ask(&dashboard, peer, path).await;
            assert_eq!(response.status(), 403, "{path}");
            let line = text(response).await;
            assert!(line.contains("kubectl pilotage dashboard"), "{line}");
        }
    }
    let request = http::Request::post("/dashboard")
        .body(Body::empty())
        .unwrap();
    let response = dashboard.routes().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 405);
}

#[tokio::test]
async fn the_ninth_listener_hears_why_not() {
    let dashboard = dashboard();
    let mut open = Vec::new();
    for _ in 0..MOST_LISTENERS {
        open.push(ask(&dashboard, HERE, "/dashboard/events").await);
    }
    let response = ask(&dashboard, HERE, "/dashboard/events").await;
    assert_eq!(response.status(), 503);
    assert!(text(response).await.starts_with("8 pages are open already"));
    open.pop();
    let response = ask(&dashboard, HERE, "/dashboard/events").await;
    assert_eq!(response.status(), 200);
}

/// Words of the script, without comments and what stands between quotes.
fn code() -> String {
    let lines = SCRIPT
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_script_makes_no_code_and_no_html_of_texts() {
    let code = code();
    for word in [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        "DOMParser",
        "createContextualFragment",
        "srcdoc",
        "javascript:",
        "import(",
        "import ",
        "localStorage",
        "document.cookie",
        ".style",
        "postMessage",
        "XMLHttpRequest",
        "setAttribute(\"on",
    ] {
        assert!(!code.contains(word), "{word}");
    }
    // Timers are given functions, which no policy has to let through.
    for timer in [
        "setTimeout(\"",
        "setInterval(\"",
        "setTimeout(`",
        "setTimeout('",
    ] {
        assert!(!code.contains(timer), "{timer}");
    }
    assert!(SCRIPT.contains("\"use strict\""));
    let stages = Stage::ALL.map(|stage| serde_json::to_string(&stage).unwrap());
    let order = format!("const STAGES = [{}];", stages.join(", "));
    assert!(code.contains(&order), "{order}");
}

#[test]
fn the_page_is_its_own_and_each_part_has_a_name() {
    for word in ["http:", "https:", "//", "style=", "<style", "javascript:"] {
        assert!(!HTML.contains(word), "{word}");
    }
    let tags = HTML
        .split('<')
        .skip(1)
        .filter_map(|tag| tag.split('>').next());
    for attribute in tags.flat_map(str::split_whitespace) {
        assert!(!attribute.starts_with("on"), "{attribute}");
    }
    assert!(!CSS.contains("url(") && !CSS.contains("@import"));
    // Each script and sheet is a file that there is.
    let served = [
        "/dashboard/page.css",
        "/dashboard/page.js",
        "data:,",
        "#pods",
    ];
    let refers = |key: &str| {
        let parts: Vec<_> = HTML.split(key).skip(1).collect();
        parts
            .into_iter()
            .map(|part| part.split('"').next().unwrap())
            .collect::<Vec<_>>()
    };
    for reference in [refers("href=\""), refers("src=\"")].concat() {
        assert!(served.contains(&reference), "{reference}");
    }
    assert_eq!(
        HTML.matches("<script").count(),
        1,
        "none stands in the page"
    );

    let ids: Vec<_> = refers(" id=\"");
    assert_eq!(
        ids.iter().collect::<BTreeSet<_>>().len(),
        ids.len(),
        "each is there once"
    );
    for label in [refers("for=\""), refers("aria-labelledby=\"")].concat() {
        assert!(ids.contains(&label), "{label}");
    }
    for used in code().split("byId(\"").skip(1) {
        let id = used.split('"').next().unwrap();
        assert!(ids.contains(&id), "the script looks for {id}");
    }
    let tables = HTML.matches("<table").count();
    assert!(tables == 3 && HTML.matches("<caption").count() == tables);
    assert_eq!(
        HTML.matches("<th ").count(),
        HTML.matches("<th scope=\"col\"").count()
    );
    for part in [
        "<html lang=\"en\">",
        "<title>",
        "<main>",
        "<header>",
        "<nav ",
        "<h1>",
    ] {
        assert_eq!(HTML.matches(part).count(), 1, "{part}");
    }
    // Who doesn't want it to move can stop it.
    assert!(HTML.contains("id=\"pause\" aria-pressed=\"false\""));
    assert!(HTML.contains("aria-live=\"polite\"") && HTML.contains("role=\"status\""));
}
