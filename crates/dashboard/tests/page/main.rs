//! The page in a real browser, with 16 targets and 2,000 pods in each: what it shows, how it is used by keyboard, what
//! a screen reader finds, whether it can be read in both colour schemes, and that it stays quick.
//!
//! `make page-test` provides the browser and runs it; it leaves pictures in target/page.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail their test")]

mod browser;
mod crowd;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pilotage_dashboard::{Dashboard, Stage, State};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use browser::Page;
use crowd::{CITIES, HOSTILE, PODS, TARGETS, WAITING, fill, see};

const TAB: (&str, u32) = ("Tab", 9);
const ENTER: (&str, u32) = ("Enter", 13);

async fn serve(dashboard: &Dashboard, end: CancellationToken) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = dashboard.routes();
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    let serving = axum::serve(listener, service).with_graceful_shutdown(end.cancelled_owned());
    tokio::spawn(async move { serving.await.unwrap() });
    address
}

/// What has the focus, in a word.
const FOCUSED: &str = "(() => { const it = document.activeElement; \
     return it.id || it.textContent.replace(/[0-9,]/g, '').slice(0, 20) || it.tagName; })()";

/// Contrasts of all texts that can be seen, the worst first: ratio, text.
const CONTRASTS: &str = "(() => {
  const numbers = (colour) => colour.match(/[0-9.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = numbers(colour).map((it) => it / 255)
      .map((it) => it <= 0.03928 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = (element) => {
    for (let it = element; it; it = it.parentElement) {
      const colour = getComputedStyle(it).backgroundColor;
      const alpha = numbers(colour)[3];
      if (alpha === undefined || alpha === 1) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (text === '' || element.closest('script, noscript, [hidden], :disabled, option')) continue;
    const [a, b] = [light(getComputedStyle(element).color), light(back(element))];
    found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), text.slice(0, 40)]);
  }
  return found.sort((a, b) => a[0] - b[0]);
})()";

fn target() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let pictures = target.join("page");
    fs::create_dir_all(&pictures).unwrap();
    pictures
}

/// Writes base64 into a file, by the program for that.
fn write(path: &Path, base64: &str) {
    use std::io::Write as _;
    let file = fs::File::create(path).unwrap();
    let mut child = Command::new("base64")
        .arg("-d")
        .stdin(Stdio::piped())
        .stdout(file)
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(base64.as_bytes())
        .unwrap();
    assert!(child.wait().unwrap().success());
}

/// Roles and names of what a screen reader finds.
fn accessible(page: &mut Page) -> Vec<(String, String)> {
    let tree = page.ask("Accessibility.getFullAXTree", &json!({}));
    let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
    let nodes = tree["nodes"].as_array().unwrap().iter();
    let nodes = nodes.filter(|node| node["ignored"] != json!(true));
    nodes
        .map(|node| (text(&node["role"]), text(&node["name"])))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it needs a browser: make page-test"]
async fn the_page_works_in_a_browser() {
    let program =
        std::env::var("PILOTAGE_CHROMIUM").expect("PILOTAGE_CHROMIUM names the browser's program");
    let end = CancellationToken::new();
    let dashboard = Dashboard::new(end.clone());
    fill(&dashboard);
    let address = serve(&dashboard, end.clone()).await;
    let pictures = target();
    let home = pictures.join("home");
    let played = tokio::task::spawn_blocking(move || {
        play(&program, &home, &pictures, address, &dashboard, &end);
    });
    played.await.unwrap();
}

fn play(
    program: &str,
    home: &Path,
    pictures: &Path,
    address: SocketAddr,
    dashboard: &Dashboard,
    end: &CancellationToken,
) {
    let mut page = Page::open(program, home);
    page.size(1280, 800);
    page.scheme("light");
    page.go(&format!("http://{address}/dashboard"));
    let all = TARGETS * PODS + WAITING + 4;
    let thousands = |n: usize| format!("{},{:03}", n / 1000, n % 1000);
    page.wait(&format!(
        "document.getElementById('shown') && document.getElementById('shown').textContent.endsWith(' of {}')",
        thousands(all)
    ));
    shows_everything(&mut page);
    is_small(&mut page);
    can_be_used_by_keyboard(&mut page);
    is_told_to_screen_readers(&mut page);
    page.value("document.activeElement.blur(); scrollTo(0, 0)");
    page.size(1280, 1000);
    for scheme in ["light", "dark"] {
        page.scheme(scheme);
        let contrasts = page.value(CONTRASTS);
        let contrasts = contrasts.as_array().unwrap();
        assert!(contrasts.len() > 200, "texts were looked at");
        assert!(
            contrasts[0][0].as_f64().unwrap() >= 4.5,
            "{scheme}: {}",
            contrasts[0]
        );
        let picture = page.picture();
        write(&pictures.join(format!("{scheme}.png")), &picture);
    }
    lives(&mut page, dashboard);
    // A connection that has died without a word is made anew: here only the clock says that it has.
    page.value("((real) => { performance.now = () => real() + 60000; })(performance.now.bind(performance))");
    page.wait("document.getElementById('link').textContent.startsWith('Nothing heard')");
    page.wait("document.getElementById('link').textContent === 'Live'");
    // Small screens scroll tables, not the page.
    page.size(360, 640);
    assert_eq!(
        page.value("document.documentElement.scrollWidth <= 360"),
        json!(true)
    );
    assert_eq!(page.complaints, Vec::<String>::new());
    end.cancel();
    page.wait("document.getElementById('link').textContent.startsWith('Not connected')");
}

fn shows_everything(page: &mut Page) {
    let tile =
        |stage: &str| format!("document.querySelector('#stages .{stage} strong').textContent");
    for (stage, want) in [
        ("running", "30,000"),
        ("waiting", "38"),
        ("lost", "2,000"),
        ("asked", "1"),
        ("reserved", "1"),
        ("granted", "1"),
        ("ended", "0"),
    ] {
        assert_eq!(page.value(&tile(stage)), want, "{stage}");
    }
    let row = |n: usize| {
        format!(
            "[...document.querySelectorAll('#targets tbody tr')[{n}].cells].map((it) => it.textContent)"
        )
    };
    let berlin = page.value(&row(1));
    let want = json!([
        "berlin",
        "● connected",
        "24 h",
        "75.3 of 640",
        "241 GiB of 2 TiB",
        "470 of 4,000",
        "0",
        "0",
        "2,000",
        "0"
    ]);
    assert_eq!(berlin, want);
    assert_eq!(page.value(&row(3))[1], "● connected: drained");
    assert_eq!(
        page.value(&row(15))[1],
        "✕ lost: Silent: the target doesn't answer"
    );
    assert_eq!(page.value(&row(15))[9], "2,000");
    let losses = page.value("document.getElementById('losses').tBodies[0].innerText");
    assert!(
        losses
            .as_str()
            .unwrap()
            .contains("shop/web-7\tparis is given up"),
        "{losses}"
    );
}

/// What others wrote is text, and however many pods there are, the page is small and quick.
fn is_small(page: &mut Page) {
    assert_eq!(
        page.value("document.querySelectorAll('#list tbody tr').length"),
        50
    );
    let elements = page.value("document.getElementsByTagName('*').length");
    assert!(elements.as_u64().unwrap() < 1500, "{elements} elements");
    let filter = |text: &str| {
        format!(
            "(() => {{ const it = document.getElementById('text'); it.value = {text}; \
             const begun = performance.now(); it.dispatchEvent(new Event('input', {{ bubbles: true }})); \
             return performance.now() - begun; }})()",
            text = json!(text)
        )
    };
    let took = page.value(&filter("IMG SRC"));
    assert!(took.as_f64().unwrap() < 1000.0, "a filter takes {took} ms");
    page.wait("document.getElementById('shown').textContent === 'Pods 1 to 1 of 1'");
    let cells = page
        .value("[...document.querySelector('#list tbody tr').cells].map((it) => it.textContent)");
    assert_eq!((&cells[1], &cells[5]), (&json!(HOSTILE), &json!(HOSTILE)));
    assert_eq!(
        page.value("document.images.length + document.scripts.length"),
        1
    );
    assert_eq!(page.value("document.title"), "Pilotage");
    page.value(&filter("batch/web-oslo-0"));
    page.wait("document.getElementById('shown').textContent === 'No pods'");
    page.value(&filter("shop/web-oslo-0"));
    page.wait("document.getElementById('shown').textContent === 'Pods 1 to 50 of 1,000'");
    page.value("document.querySelector('#filter [type=reset]').click()");
    page.wait("document.getElementById('text').value === ''");
}

fn can_be_used_by_keyboard(page: &mut Page) {
    page.value("document.activeElement.blur(); document.body.focus(); scrollTo(0, 0)");
    let stages = [
        "waiting", "asked", "reserved", "granted", "running", "ended", "lost",
    ];
    let mut want = vec!["Skip to the pods", "pause"];
    want.extend(stages);
    want.push("scroll of targets");
    want.extend(CITIES);
    want.extend([
        "text",
        "stage",
        "target",
        "Show all",
        "scroll of list",
        "next",
        "scroll of losses",
    ]);
    // Regions that scroll have no word of their own.
    let focused = format!(
        "document.activeElement.className === 'scroll' \
         ? 'scroll of ' + document.activeElement.querySelector('table').id : {FOCUSED}"
    );
    let mut got = Vec::new();
    for _ in &want {
        page.press(TAB, "");
        got.push(page.value(&focused).as_str().unwrap().to_owned());
    }
    assert_eq!(got, want);
    // Each shows that it has the focus.
    let outline = "getComputedStyle(document.activeElement).outlineWidth";
    assert_eq!(page.value(outline), "3px");

    page.value("document.querySelector('#stages .lost').focus()");
    page.press(ENTER, "\r");
    page.wait("document.getElementById('shown').textContent === 'Pods 1 to 50 of 2,000'");
    assert_eq!(
        page.value("document.querySelector('#stages .lost').getAttribute('aria-pressed')"),
        "true"
    );
    page.value("document.getElementById('next').focus()");
    page.press(ENTER, "\r");
    page.wait("document.getElementById('shown').textContent === 'Pods 51 to 100 of 2,000'");
    // At the end the focus doesn't get lost with the button.
    page.value("for (let n = 0; n < 37; n++) document.getElementById('next').click()");
    page.value("document.getElementById('next').focus()");
    page.press(ENTER, "\r");
    page.wait("document.getElementById('shown').textContent === 'Pods 1,951 to 2,000 of 2,000'");
    assert_eq!(page.value(FOCUSED), "previous");
    page.value("document.querySelector('#filter [type=reset]').focus()");
    page.press(ENTER, "\r");
    page.wait("document.getElementById('shown').textContent.startsWith('Pods 1 to 50 of 32')");
    // A target's name leads to its pods.
    let button = "document.querySelector('#targets tbody button')";
    page.value(&format!("{button}.focus()"));
    page.press(ENTER, "\r");
    page.wait("document.getElementById('found').textContent === 'Pods 1 to 50 of 2,000'");
    assert_eq!(page.value(FOCUSED), "pods");
    let pressed = format!("{button}.getAttribute('aria-pressed')");
    assert_eq!(page.value(&pressed), "true");
    page.value(&format!("{button}.click()"));
    assert_eq!(page.value(&pressed), "false");
}

fn is_told_to_screen_readers(page: &mut Page) {
    page.wait("document.getElementById('summary').textContent !== ''");
    let summary = page.value("document.getElementById('summary').textContent");
    let want = "32,041 pods: 30,000 running, 38 waiting, 2,000 lost. 15 of 16 targets connected.";
    assert_eq!(summary, want);
    let found = accessible(page);
    let count = |role: &str| found.iter().filter(|(it, _)| it == role).count();
    for (role, want) in [
        ("main", 1),
        ("banner", 1),
        ("navigation", 1),
        ("search", 1),
        ("table", 3),
        ("searchbox", 1),
        ("combobox", 2),
    ] {
        assert_eq!(count(role), want, "{role}");
    }
    let has = |role: &str, name: &str| {
        found
            .iter()
            .any(|it| *it == (role.to_owned(), name.to_owned()))
    };
    for (role, name) in [
        ("heading", "Pilotage"),
        ("heading", "Targets"),
        ("heading", "Pods"),
        ("navigation", "Pages of pods"),
        ("searchbox", "Namespace or name"),
        ("combobox", "Stage"),
        ("combobox", "Target"),
        ("button", "Next"),
        ("button", "Pause"),
        ("button", "Pods of berlin"),
        ("columnheader", "Free CPU"),
        ("rowheader", "berlin"),
        ("status", ""),
    ] {
        assert!(has(role, name), "{role} {name:?} in {found:?}");
    }
    for (role, name) in &found {
        let needs = [
            "button",
            "link",
            "table",
            "region",
            "searchbox",
            "combobox",
            "rowheader",
            "columnheader",
        ];
        assert!(
            !needs.contains(&&**role) || !name.is_empty(),
            "a {role} has no name"
        );
    }
}

/// Nothing moves while the page is paused, and a filter outlives its target.
fn stands_still_if_asked(page: &mut Page, dashboard: &Dashboard) {
    let waiting = "document.querySelector('#stages .waiting strong').textContent";
    let select = "document.getElementById('target')";
    page.value(&format!(
        "{select}.value = 'rome'; {select}.dispatchEvent(new Event('input', {{ bubbles: true }}))"
    ));
    page.value("document.getElementById('pause').click()");
    page.wait("document.getElementById('link').textContent.startsWith('Paused')");
    // Another listener hears of a change when the page does, which paints within a third of a second.
    page.value(
        "new Promise((open) => {
          const other = new EventSource('/dashboard/events');
          globalThis.told = new Promise((done) => {
            other.onmessage = (event) => {
              if (!(JSON.parse(event.data).podsGone || []).includes('waits-1')) return;
              other.close();
              setTimeout(() => done(true), 600);
            };
          });
          other.onopen = () => open(true);
        })",
    );
    dashboard.paint(|picture, now| {
        picture.forget_pod("waits-1");
        picture.forget_reach("rome", now);
    });
    assert_eq!(page.value("told"), true);
    assert_eq!(page.value(waiting), "37");
    page.value("document.getElementById('pause').click()");
    page.wait(&format!("{waiting} === '36'"));
    page.wait("document.querySelectorAll('#targets tbody tr').length === 16");
    assert_eq!(page.value(&format!("{select}.value")), "rome");
    assert_eq!(
        page.value(&format!("{select}.selectedOptions[0].textContent")),
        "rome (gone)"
    );
    page.value("document.querySelector('#filter [type=reset]').click()");
    page.wait(&format!(
        "[...{select}.options].every((it) => it.value !== 'rome')"
    ));
}

fn lives(page: &mut Page, dashboard: &Dashboard) {
    page.value("document.querySelector('#targets tbody button').focus()");
    page.value(
        "globalThis.longest = 0; new PerformanceObserver((list) => { for (const it of list.getEntries()) \
         longest = Math.max(longest, it.duration); }).observe({ entryTypes: ['longtask'] })",
    );
    // All pods of one target move at once.
    for pod in 0..PODS {
        let name = format!("web-berlin-{pod:04}");
        see(
            dashboard,
            &format!("berlin-{pod}"),
            &name,
            Stage::Ended,
            "berlin",
            "",
        );
    }
    dashboard.paint(|picture, now| {
        picture.forget_pod("waits-0");
        picture.see_reach("paris", State::Connected, now);
        picture.see_reach("rome", State::Connecting, now);
    });
    page.wait("document.querySelector('#stages .ended strong').textContent === '2,000'");
    page.wait("document.querySelector('#stages .waiting strong').textContent === '37'");
    page.wait("document.querySelectorAll('#targets tbody tr').length === 17");
    page.wait("document.querySelectorAll('#targets tbody tr')[15].cells[1].className === 'state connected'");
    assert_eq!(
        page.value(FOCUSED),
        CITIES[0],
        "who stands somewhere stays there"
    );
    let longest = page.value("longest");
    assert!(
        longest.as_f64().unwrap() < 300.0,
        "the page stood still for {longest} ms"
    );
    stands_still_if_asked(page, dashboard);
    dashboard.paint(|picture, _| picture.lead(false));
    page.wait("!document.getElementById('notice').hidden && document.querySelectorAll('#list tbody tr').length === 0");
    dashboard.paint(|picture, _| picture.lead(true));
    page.wait("document.getElementById('notice').hidden");
}
