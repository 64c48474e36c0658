//! The longest single step of what takes in a target's words: from the kubeconfig that leads to it, through the door,
//! to the store of a watch. A target answers with the longest lists, objects and events that the door lets in.
//!
//! It owns the scenes; it knows the code only by its public face. All that its thread does between two looks of one
//! task is a step. `make bench-steps` runs it.

#![expect(clippy::expect_used, reason = "what it makes itself can be read")]

mod server;
mod source;

use std::process::ExitCode;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use pilotage_absurd::steps::{self, Times};
use pilotage_clusters::allow::Allowed;
use pilotage_clusters::{Options, Registry, WatchConfig, WatchHealth, kubeconfig};
use pilotage_runtime::weight::measure;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use server::Server;

/// How often the scenes are played.
const ROUNDS: usize = 2;
/// How much of a list, and of an object or event, passes the door, almost.
const LIST: usize = (4 << 20) - 4_096;
const OBJECT: usize = (3 << 20) - 4_096;
/// How much memory a whole list, or an object, may take.
const LIST_WEIGHT: usize = 24 << 20;
const OBJECT_WEIGHT: usize = 8 << 20;
/// How much a Secret holds.
const SECRET: usize = 1_000_000;
/// What each pod begins with.
const POD: &str = r#""kind":"Pod","apiVersion":"v1","spec":{"containers":[]}"#;
/// How long a scene may last.
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    println!(
        "Longest single steps of {ROUNDS} rounds with the longest words of a target, processor time."
    );
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    // Between two looks of the scene at most one other task has its turn.
    let runtime = runtime.enable_all().event_interval(1).build();
    let runtime = runtime.expect("a runtime");
    steps::measure(ROUNDS, |times| {
        kubeconfigs(times);
        for (name, filling) in fillings() {
            runtime.block_on(answers(times, name, &filling));
        }
    })
}

/// A kubeconfig, and something in it that nobody needs.
fn kubeconfig_with(server: &str, extension: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: {server:?}}}}}]\n\
         users: [{{name: u, user: {{token: t}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         extensions: [{{name: a, extension: [{extension}]}}]\n"
    )
}

fn kubeconfigs(times: &mut Times) {
    let server = "https://example.com";
    for (name, each) in [
        ("values", "a,"),
        ("lists", "[],"),
        ("objects", "{a: b},"),
        ("quoted texts", r#""\u00e4","#),
        ("long texts", &("x".repeat(1_000) + ",")),
        ("deep lists", "[[[[[[[[[[[[]]]]]]]]]]]],"),
        ("anchors", "&a a,*a,"),
        ("comments", "# a\n"),
    ] {
        // The largest one that is taken.
        let sizes = (0..12).map(|halved| SECRET >> halved);
        let taken = sizes.map(|size| kubeconfig_with(server, &each.repeat(size / each.len())));
        let mut taken = taken.filter(|text| {
            let step = format!("a kubeconfig of {name}, which is refused");
            times.step(&step, || kubeconfig::parse(text.as_bytes(), None).is_ok())
        });
        let text = taken.next();
        drop(taken);
        if let Some(text) = text {
            let step = format!("a kubeconfig with {} kB of {name}", text.len() / 1_000);
            let read = times.step(&step, || kubeconfig::parse(text.as_bytes(), None));
            assert!(read.is_ok(), "{name}");
        }
    }
}

/// What answers are full of: the beginning of a piece, and what comes again and again in it.
fn fillings() -> Vec<(&'static str, Filling)> {
    let of = |open: &'static str, each: &str, close: &'static str| Filling {
        open,
        each: each.to_owned(),
        close,
    };
    let annotations = |each: &str| of(r#""annotations":{"#, each, r#""z":"z"}"#);
    vec![
        ("one text", of(r#""annotations":{"a":""#, "x", r#""}"#)),
        (
            "one text of \\u",
            of(r#""annotations":{"a":""#, r"\u00e4", r#""}"#),
        ),
        (
            "one text of quotes",
            of(r#""annotations":{"a":""#, r#"\""#, r#""}"#),
        ),
        ("the same field", annotations(r#""a":"","#)),
        ("other fields", annotations("#")),
        (
            "long fields",
            annotations(&format!(r##""#{}":"v","##, "k".repeat(200))),
        ),
        (
            "managed fields",
            of(r#""managedFields":["#, r#"{"manager":"a"},"#, "{}]"),
        ),
        ("small objects", of(r#""nobodys":["#, r#"{"":0},"#, "0]")),
        ("empty lists", of(r#""nobodys":["#, "[],", "0]")),
        ("numbers", of(r#""nobodys":["#, "1,", "0]")),
        ("fractions", of(r#""nobodys":["#, "1.5e1,", "0]")),
        (
            "owners",
            of(
                r#""ownerReferences":["#,
                r#"{"apiVersion":"v1","kind":"k","name":"n","uid":"u"},"#,
                r#"{"apiVersion":"v1","kind":"k","name":"n","uid":"u"}]"#,
            ),
        ),
        ("finalizers", of(r#""finalizers":["#, r#""a","#, r#""a"]"#)),
    ]
}

struct Filling {
    open: &'static str,
    each: String,
    close: &'static str,
}

impl Filling {
    /// A pod of that many bytes at most, and no heavier than that; `#` is a number.
    fn pod(&self, name: &str, size: usize, heaviest: usize) -> String {
        let mut text = format!(
            r#"{{{POD},"metadata":{{"name":"{name}","namespace":"shop","uid":"{name}","resourceVersion":"9",{}"#,
            self.open
        );
        let each = if self.each == "#" {
            r##""#":"v","##
        } else {
            &self.each
        };
        let lighter = heaviest.saturating_sub(64 << 10) / (measure(each.as_bytes()).weight + 8);
        for number in 0..lighter {
            if text.len() + each.len() + 128 > size {
                break;
            }
            if each.contains('#') {
                text.push_str(&each.replace('#', &number.to_string()));
            } else {
                text.push_str(each);
            }
        }
        text + self.close + "}}"
    }
}

fn list(items: &[String]) -> Vec<u8> {
    let items = items.join(",");
    format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"9"}},"items":[{items}]}}"#)
        .into_bytes()
}

/// A target that is full of that.
async fn answers(times: &mut Times, name: &str, filling: &Filling) {
    let heavy = filling.pod("web", OBJECT, usize::MAX);
    let object = filling.pod("web", OBJECT, OBJECT_WEIGHT);
    let event = |object: &str| format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n");
    let last = r#""name":"last","namespace":"shop","uid":"l","resourceVersion":"10""#;
    let last = &format!(r#"{{{POD},"metadata":{{{last}}}}}"#);
    let whole = list(&[filling.pod("web", LIST, LIST_WEIGHT)]);
    let events = [event(&heavy), event(&object), event(last)].concat();
    let small: Vec<_> = (0..500)
        .map(|number| filling.pod(&format!("web-{number}"), LIST / 500 - 64, usize::MAX))
        .collect();
    for (what, page) in [
        ("one pod", list(&[filling.pod("web", LIST, usize::MAX)])),
        ("500 pods", list(&small)),
    ] {
        let end = CancellationToken::new();
        let server = Server::start(
            page,
            whole.clone(),
            object.clone().into_bytes(),
            events.clone().into_bytes(),
        );
        let config = kubeconfig_with(&server.url(), "");
        let client = source::client(&config);
        let mut options = Options::new("bench");
        options.allowed = Allowed {
            insecure: true,
            ..Allowed::default()
        };
        let registry = Registry::start(&client, options, &end);
        let step = |does: &str| format!("{name}: {does}");
        let target = async {
            registry.synced().await;
            let target = registry.targets().pop().expect("a Target");
            let mut state = target.state();
            state
                .wait_for(pilotage_clusters::Connection::is_connected)
                .await
                .expect("a Target that stays");
            target
        };
        let target = timeout(PATIENCE, target);
        let target = times
            .waits(&step("it is connected"), target)
            .await
            .expect("a connection");
        let pods: Api<Pod> = Api::all(target.client().expect("a client"));
        let all = ListParams::default();
        let got = timeout(PATIENCE, pods.list(&all));
        let got = times.waits(&step("a whole list"), got).await;
        assert!(got.expect("an answer").is_ok(), "{name}");
        let shop: Api<Pod> = Api::namespaced(target.client().expect("a client"), "shop");
        let got = timeout(PATIENCE, shop.get("web"));
        let got = times.waits(&step("an object"), got).await;
        assert!(got.expect("an answer").is_ok(), "{name}");
        let watch = target.watch(WatchConfig::<Pod>::all());
        let mut health = watch.health();
        let listed = async {
            tokio::select! {
                () = watch.synced() => {}
                _ = health.wait_for(|health| matches!(health, WatchHealth::Failing { .. })) => {}
            }
        };
        let listed = timeout(PATIENCE, listed);
        let listed = times
            .waits(&step(&format!("a page of {what} of 4 MB")), listed)
            .await;
        listed.expect("a list, or why not");
        let heard = async {
            while watch.is_synced()
                && watch.get(Some("shop"), "last").is_none()
                && !matches!(*watch.health().borrow(), WatchHealth::Failing { .. })
            {
                tokio::task::yield_now().await;
            }
        };
        let heard = timeout(PATIENCE, heard);
        let heard = times.waits(&step("events"), heard).await;
        heard.expect("all events, or why not");
        end.cancel();
    }
}
