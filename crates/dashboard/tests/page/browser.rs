//! A headless Chromium, by its `DevTools` protocol over a pipe. It knows nothing of the page.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

/// A browser that takes longer for all of a test is stuck.
const LIMIT: Duration = Duration::from_mins(3);
/// Chromium's messages may be numbered from one.
const FIRST: u64 = 1;

/// One page of a browser of its own, which ends with it.
pub(crate) struct Page {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: String,
    next: u64,
    /// What the page complained of: exceptions, refused resources, errors of its own.
    pub(crate) complaints: Vec<String>,
    /// Dropped when the page is.
    _alive: mpsc::Sender<()>,
}

impl Page {
    /// Starts the browser with an empty page; what it keeps is below `home`.
    pub(crate) fn open(program: &str, home: &Path) -> Self {
        // The protocol's pipes are its descriptors 3 and 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>&2"])
            .arg(program)
            .args(["--headless", "--remote-debugging-pipe", "--no-sandbox"])
            .args(["--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-sync"])
            .args(["--disable-component-update", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", home.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (alive, watched) = mpsc::channel::<()>();
        let process = child.id();
        std::thread::spawn(move || {
            if watched.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                // Whoever reads its output then sees it end.
                let _ = Command::new("kill").arg(process.to_string()).status();
            }
        });
        let mut page = Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            session: String::new(),
            next: FIRST,
            complaints: Vec::new(),
            _alive: alive,
        };
        let made = page.ask("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": made["targetId"], "flatten": true });
        let attached = page.ask("Target.attachToTarget", &attach);
        page.session = attached["sessionId"].as_str().unwrap().into();
        for domain in ["Page", "Runtime", "Log", "Accessibility"] {
            page.ask(&format!("{domain}.enable"), &json!({}));
        }
        page
    }

    /// What comes of a command of the protocol.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.next;
        self.next += 1;
        let mut command = json!({ "id": id, "method": method, "params": params });
        if !self.session.is_empty() {
            command["sessionId"] = self.session.as_str().into();
        }
        self.input
            .write_all(format!("{command}\0").as_bytes())
            .unwrap();
        loop {
            let mut message = Vec::new();
            self.output.read_until(0, &mut message).unwrap();
            let end = message.pop();
            assert_eq!(
                end,
                Some(0),
                "the browser has ended, or was stuck at {method}"
            );
            let message: Value = serde_json::from_slice(&message).unwrap();
            if message["id"] == json!(id) {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.hear(&message);
        }
    }

    fn hear(&mut self, event: &Value) {
        let complaint = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => &event["params"]["exceptionDetails"],
            Some("Log.entryAdded") => &event["params"]["entry"],
            Some("Runtime.consoleAPICalled") => &event["params"],
            _ => return,
        };
        self.complaints.push(complaint.to_string());
    }

    /// What an expression comes to in the page; a promise is waited for.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let result = self.ask("Runtime.evaluate", &params);
        assert!(
            result["exceptionDetails"].is_null(),
            "{expression}: {result}"
        );
        result["result"]["value"].clone()
    }

    /// Waits until this holds in the page; each change of the document is a reason to look.
    pub(crate) fn wait(&mut self, condition: &str) {
        let held = self.value(&format!(
            "new Promise((done) => {{
               let observer = null;
               const look = () => {{
                 if (!({condition})) return;
                 if (observer) observer.disconnect();
                 clearTimeout(limit);
                 done(true);
               }};
               const limit = setTimeout(() => done(document.body.innerText.slice(0, 2000)), 60000);
               observer = new MutationObserver(look);
               observer.observe(document, {{ subtree: true, childList: true, characterData: true, attributes: true }});
               look();
             }})"
        ));
        assert_eq!(held, json!(true), "never came about: {condition}");
    }

    pub(crate) fn go(&mut self, url: &str) {
        self.ask("Page.navigate", &json!({ "url": url }));
    }

    /// Presses a key: its name, its code, and what it types.
    pub(crate) fn press(&mut self, (key, code): (&str, u32), text: &str) {
        let key = |kind: &str, text: &str| {
            json!({ "type": kind, "key": key, "code": key,
            "windowsVirtualKeyCode": code, "text": text })
        };
        let (down, up) = (key("keyDown", text), key("keyUp", ""));
        self.ask("Input.dispatchKeyEvent", &down);
        self.ask("Input.dispatchKeyEvent", &up);
    }

    pub(crate) fn scheme(&mut self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.ask(
            "Emulation.setEmulatedMedia",
            &json!({ "features": [feature] }),
        );
    }

    pub(crate) fn size(&mut self, width: u32, height: u32) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", &size);
    }

    /// A picture of it as PNG, in base64.
    pub(crate) fn picture(&mut self) -> String {
        let taken = self.ask(
            "Page.captureScreenshot",
            &json!({ "format": "png", "optimizeForSpeed": false }),
        );
        taken["data"].as_str().unwrap().to_owned()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
