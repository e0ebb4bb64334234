//! A browser under a test's control: Chromium without a window, spoken to through a pipe.
//!
//! Where none is installed a test has nothing to drive: it says so and is over. The variable
//! `WELLSPRING_BROWSER=required` makes that a failure.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long the browser may take for one answer; a busy machine is slow.
const PATIENCE: Duration = Duration::from_secs(60);
const NAMES: &[&str] = &["chromium", "chromium-browser", "google-chrome"];
/// Descriptors 3 and 4 are where Chromium reads and writes messages, each closed by a zero.
const PIPES: &str = "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null";

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    next_id: u64,
    errors: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser, if one is installed.
    #[expect(clippy::print_stderr, reason = "a test that shows nothing has to say so")]
    pub(crate) fn start() -> Option<Self> {
        let is_required = std::env::var("WELLSPRING_BROWSER").is_ok_and(|it| it == "required");
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let installed = |name: &&&str| {
            std::env::split_paths(&folders).any(|folder| folder.join(name).is_file())
        };
        let Some(name) = NAMES.iter().find(installed) else {
            assert!(!is_required, "WELLSPRING_BROWSER is required, and none of {NAMES:?} is there");
            eprintln!("no browser of {NAMES:?} is installed: the page was not opened");
            return None;
        };
        Some(Self::launch(name))
    }

    fn launch(name: &str) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", PIPES, "sh", name, "--headless", "--remote-debugging-pipe"])
            .args(["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update"])
            .args(["--disable-sync", "--disable-dev-shm-usage", "--window-size=1400,1100"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while output.read_until(0, &mut message).is_ok_and(|count| 0 < count) {
                message.pop();
                let value = serde_json::from_slice(&message).unwrap_or(Value::Null);
                message.clear();
                if sender.send(value).is_err() {
                    break;
                }
            }
        });
        let mut browser = Self {
            child,
            input,
            messages,
            session: None,
            next_id: 0,
            errors: Vec::new(),
            _profile: profile,
        };
        browser.open_page();
        browser
    }

    fn open_page(&mut self) {
        let target = self.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call("Target.attachToTarget", &attach);
        self.session = session["sessionId"].as_str().map(ToOwned::to_owned);
        for domain in ["Runtime.enable", "Log.enable", "Page.enable", "Network.enable"] {
            self.call(domain, &json!({}));
        }
    }

    /// Opens a report, and waits until it says that it is ready. Gives the milliseconds it took
    /// by its own clock.
    pub(crate) fn open(&mut self, file: &Path, hash: &str) -> f64 {
        self.call("Page.navigate", &json!({ "url": "about:blank" }));
        self.errors.clear();
        let url = format!("file://{}{hash}", file.display());
        self.call("Page.navigate", &json!({ "url": url }));
        let start = Instant::now();
        loop {
            let ready = self.evaluate("document.documentElement?.dataset.ready ?? null");
            if let Some(text) = ready.as_str() {
                return text.parse().unwrap();
            }
            assert!(start.elapsed() < PATIENCE, "{url} is not ready; {:?}", self.errors);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the page has said was wrong since it was opened.
    pub(crate) fn errors(&mut self) -> &[String] {
        // An answer comes after everything that was said before it.
        self.evaluate("0");
        &self.errors
    }

    /// The value of an expression in the page, once two frames have been drawn.
    pub(crate) fn drawn(&mut self, expression: &str) -> Value {
        let script = format!(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(\
             () => done({expression}))))"
        );
        self.evaluate(&script)
    }

    /// The value of an expression in the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", &parameters);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Presses a key, as from a keyboard.
    pub(crate) fn press(&mut self, key: &str) {
        let text = if key.chars().count() == 1 { key } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let parameters = json!({ "type": kind, "key": key, "text": text });
            self.call("Input.dispatchKeyEvent", &parameters);
        }
    }

    /// Clicks at a place of the window.
    pub(crate) fn click(&mut self, x: f64, y: f64) {
        self.drag((x, y), (x, y));
    }

    /// Presses the button at one place and lets it go at another.
    pub(crate) fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        let mut mouse = |kind: &str, (x, y): (f64, f64), buttons: u32| {
            let parameters = json!({
                "type": kind, "x": x, "y": y, "button": "left", "buttons": buttons, "clickCount": 1,
            });
            self.call("Input.dispatchMouseEvent", &parameters);
        };
        mouse("mouseMoved", from, 0);
        mouse("mousePressed", from, 1);
        mouse("mouseMoved", to, 1);
        mouse("mouseReleased", to, 0);
    }

    /// Turns the wheel at a place: towards the user if `by` is above zero.
    pub(crate) fn wheel(&mut self, x: f64, y: f64, by: f64) {
        let parameters = json!({ "type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": by });
        self.call("Input.dispatchMouseEvent", &parameters);
    }

    /// Makes the window so large.
    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let parameters = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
        });
        self.call("Emulation.setDeviceMetricsOverride", &parameters);
    }

    /// Says that the user wishes a dark page, or a light one.
    pub(crate) fn prefer(&mut self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// The window as PNG.
    pub(crate) fn screenshot(&mut self) -> Vec<u8> {
        let answer = self.call("Page.captureScreenshot", &json!({ "format": "png" }));
        let text = answer["data"].as_str().unwrap();
        base64::engine::general_purpose::STANDARD.decode(text).unwrap()
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.input.write_all(message.to_string().as_bytes()).unwrap();
        self.input.write_all(&[0]).unwrap();
        loop {
            let heard = self.messages.recv_timeout(PATIENCE);
            let heard = heard.unwrap_or_else(|error| panic!("{method}: no answer: {error}"));
            if heard["id"] == json!(id) {
                assert!(heard.get("error").is_none(), "{method}: {heard}");
                return heard["result"].clone();
            }
            self.note(&heard);
        }
    }

    /// Keeps what a page reports as wrong, or asks of a network.
    fn note(&mut self, message: &Value) {
        let parameters = &message["params"];
        match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.errors.push(parameters.to_string()),
            Some("Runtime.consoleAPICalled")
                if parameters["type"] == "error" || parameters["type"] == "warning" =>
            {
                self.errors.push(parameters.to_string());
            }
            Some("Log.entryAdded") if parameters["entry"]["level"] == "error" => {
                self.errors.push(parameters.to_string());
            }
            Some("Network.requestWillBeSent") => {
                let url = parameters["request"]["url"].as_str().unwrap_or_default();
                let is_local =
                    ["file:", "data:", "blob:", "about:"].iter().any(|it| url.starts_with(it));
                if !is_local {
                    self.errors.push(format!("asked a network for {url}"));
                }
            }
            _ => {}
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Asked to close, it takes its helpers along; one that does not hear is killed.
        let _ = self.input.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        for _ in 0..100 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
