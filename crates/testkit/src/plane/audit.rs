//! The audit log of an API server: what it records, and reading it, so that tests can count requests. It knows
//! nothing of how the server is started, nor of who looks which rights were used ([`crate::usage`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::access::Access;

/// The log can't be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The plane was started without an audit log.
    #[error("this control plane keeps no audit log: build it with `.audit(…)`")]
    Off,
    /// The file can't be read.
    #[error("can't read the audit log {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A start of the server can't be noted beside the log.
    #[error("can't write beside the audit log")]
    Note {
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A line is no audit event.
    #[error("the audit log has a line that is no event: {line}")]
    Line {
        /// The line.
        line: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The marker request could not be made.
    #[error("the marker request failed: {0}")]
    Marker(String),
    /// The marker never came.
    #[error("the audit log did not show the marker request within {} s", .0.as_secs())]
    Late(Duration),
}

/// What is recorded, at level Metadata (who, verb, resource, name, answer; no bodies).
#[derive(Debug, Clone, PartialEq)]
pub enum Policy {
    /// Every request.
    All,
    /// Requests that write; no get, list and watch.
    Writes,
    /// Rules of `audit.k8s.io/v1`, as a JSON array.
    Rules(serde_json::Value),
}

/// The log's name in a plane's directory.
pub(crate) const FILE: &str = "audit.log";
/// Beside it: when the server was started again, and when it was ready, a line each.
const STARTS: &str = "starts.json";
/// Where [`Log::settle`]'s requests go. The object doesn't exist.
const MARKER: &str = "testkit-audit-marker";
/// How long a written event may take to appear.
const SETTLE: Duration = Duration::from_secs(20);

/// How long one that came may take to be answered, and its answer to be logged, before a reader goes on without it.
const STRAGGLES: Duration = Duration::from_secs(3);
/// The stage of a request that has come.
const RECEIVED: &str = "RequestReceived";

/// Requests that only read.
const READS: [&str; 3] = ["get", "list", "watch"];

impl Policy {
    /// Whether a request of this verb is what was asked for. There may be more in the file, for [`crate::usage`].
    fn wants(&self, verb: &str) -> bool {
        *self != Self::Writes || !READS.contains(&verb)
    }

    /// Whether a server of this policy logs all that another wants.
    pub(super) fn covers(&self, wanted: &Self) -> bool {
        self == wanted || (self, wanted) == (&Self::All, &Self::Writes)
    }

    /// The policy file (JSON is YAML) of a server whose test asked for `own`. Unless that has a rule for them, every
    /// request of a service account is in, so that it is known which rights were used.
    pub(super) fn yaml(own: Option<&Self>) -> String {
        let marker = json!({
            "level": "Metadata",
            "verbs": ["get"],
            "resources": [{ "group": "", "resources": ["namespaces"], "resourceNames": [MARKER] }],
        });
        let mut rules = vec![marker];
        // The controllers of Kubernetes itself read much and often.
        let stock = ["system:serviceaccounts:kube-system"];
        let accounts = json!({ "level": "Metadata", "userGroups": ["system:serviceaccounts"] });
        let for_usage = [
            json!({ "level": "None", "userGroups": stock }),
            accounts.clone(),
            json!({ "level": "None" }),
        ];
        match own {
            None => rules.extend(for_usage),
            Some(Self::All) => rules.push(json!({ "level": "Metadata" })),
            Some(Self::Writes) => {
                rules.push(json!({ "level": "None", "verbs": READS, "userGroups": stock }));
                rules.push(accounts);
                rules.push(json!({ "level": "None", "verbs": READS }));
                rules.push(json!({ "level": "Metadata" }));
            }
            Some(Self::Rules(serde_json::Value::Array(own))) => {
                rules.extend(own.iter().cloned().chain(for_usage));
            }
            Some(Self::Rules(other)) => rules.push(other.clone()),
        }
        // A watch is seen when it starts, any other request when it is answered; who reads the log of all requests
        // waits for those that have come and whose answer isn't logged yet.
        let omitted: &[&str] = match own {
            Some(Self::All | Self::Writes) => &[],
            _ => &[RECEIVED],
        };
        json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": omitted,
            "omitManagedFields": true,
            "rules": rules,
        })
        .to_string()
    }
}

/// From a server's start until it is ready. It answers in that time, and knows no role yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Start {
    from: Timestamp,
    until: Timestamp,
}

impl Start {
    pub(crate) fn new(from: Timestamp, until: Timestamp) -> Self {
        Self { from, until }
    }

    /// Whether the request came in that time.
    pub(crate) fn saw(&self, event: &Event) -> bool {
        let received: Result<Timestamp, _> = event.request_received_timestamp.parse();
        received.is_ok_and(|at| self.from <= at && at <= self.until)
    }

    /// Keeps it beside the log in a plane's directory.
    pub(crate) fn note(&self, directory: &Path) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        let mut file = File::options()
            .create(true)
            .append(true)
            .open(directory.join(STARTS))?;
        file.write_all(&line)
    }

    /// Those that were noted beside a log; none if there is no note.
    pub(crate) fn of(directory: &Path) -> std::io::Result<Vec<Self>> {
        match std::fs::read_to_string(directory.join(STARTS)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            text => Ok(text?
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok())
                .collect()),
        }
    }
}

/// One request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its number, given by the server.
    pub id: String,
    /// `create`, `patch`, `watch`…
    pub verb: String,
    /// Who asked.
    pub user: String,
    /// The asking program.
    pub user_agent: String,
    /// API group; empty for the core group.
    pub group: String,
    /// Resource, such as `pods`; empty for paths that are none.
    pub resource: String,
    /// Subresource, such as `binding` or `status`, or empty.
    pub subresource: String,
    /// Namespace, or empty.
    pub namespace: String,
    /// Name, or empty.
    pub name: String,
    /// Path and query.
    pub uri: String,
    /// HTTP status of the answer.
    pub code: u16,
    /// When it arrived (RFC 3339, microseconds).
    pub received: String,
}

impl Entry {
    /// It was answered with 2xx.
    pub fn accepted(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// An accepted binding of a pod.
    pub fn is_binding(&self) -> bool {
        self.accepted() && self.asks_to_bind()
    }

    /// A binding of a pod, accepted or not, by either of the two ways to post one.
    pub fn asks_to_bind(&self) -> bool {
        self.verb == "create"
            && (self.resource == "bindings"
                || (self.resource == "pods" && self.subresource == "binding"))
    }

    /// `pods` or `pods/status`.
    pub fn full_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }
}

/// The audit log of a running plane.
#[derive(Debug, Clone)]
pub struct Log {
    path: PathBuf,
    admin: Access,
    policy: Policy,
    /// Bytes before it, of those who had the server earlier.
    from: u64,
}

impl Log {
    /// Of the server of this directory, from now on.
    pub(super) async fn begin(
        directory: &Path,
        admin: Access,
        policy: Policy,
    ) -> Result<Self, Error> {
        let path = directory.join(FILE);
        let mut log = Self {
            path,
            admin,
            policy,
            from: 0,
        };
        log.settle().await?;
        log.from = log.length()?;
        Ok(log)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every request that was answered since the plane had its API server and before this call, in the order of their
    /// arrival. The server writes an event after its answer, so a marker request is sent and waited for, and then the
    /// answers of all that came before it.
    pub async fn entries(&self) -> Result<Vec<Entry>, Error> {
        self.entries_with("").await
    }

    /// Those of [`Self::entries`] that are about this namespace or something in it. The log of a plane that many tests
    /// share has tens of thousands of others, which aren't even parsed.
    pub async fn entries_in(&self, namespace: &str) -> Result<Vec<Entry>, Error> {
        let mut entries = self.entries_with(namespace).await?;
        entries.retain(|entry| entry.namespace == namespace);
        Ok(entries)
    }

    /// Those whose lines have a text.
    async fn entries_with(&self, text: &str) -> Result<Vec<Entry>, Error> {
        self.settle().await?;
        let deadline = Instant::now() + STRAGGLES;
        let (mut entries, mut missing) = self.parse(&self.read(self.from)?, text)?;
        while !missing.is_empty() && Instant::now() < deadline {
            sleep(Duration::from_millis(50)).await;
            let (now, unanswered) = self.parse(&self.read(self.from)?, text)?;
            entries = now;
            // Not those that have come since.
            missing.retain(|id| unanswered.contains(id));
        }
        entries.sort_by(|a, b| a.received.cmp(&b.received));
        Ok(entries)
    }

    /// What was answered, and which requests weren't yet, of the lines that have a text.
    fn parse(&self, log: &str, text: &str) -> Result<(Vec<Entry>, BTreeSet<String>), Error> {
        let mut by_id: BTreeMap<String, Option<Entry>> = BTreeMap::new();
        for line in log.lines().filter(|line| line.contains(text)) {
            let event: Event = serde_json::from_str(line).map_err(|source| Error::Line {
                line: line.to_owned(),
                source,
            })?;
            if event.is_marker() || !self.policy.wants(&event.verb) {
                continue;
            }
            if event.is_answered() {
                let entry = Entry::from(event);
                by_id.insert(entry.id.clone(), Some(entry));
            } else {
                by_id.entry(event.audit_id).or_default();
            }
        }
        let (mut entries, mut unanswered) = (Vec::new(), BTreeSet::new());
        for (id, entry) in by_id {
            match entry {
                Some(entry) => entries.push(entry),
                None => {
                    unanswered.insert(id);
                }
            }
        }
        Ok((entries, unanswered))
    }

    /// How many of [`Self::entries`] pass.
    pub async fn count(&self, pass: impl Fn(&Entry) -> bool) -> Result<usize, Error> {
        Ok(self
            .entries()
            .await?
            .iter()
            .filter(|entry| pass(entry))
            .count())
    }

    /// Number of requests by verb and resource of those of [`Self::entries`] that pass.
    pub async fn table(
        &self,
        pass: impl Fn(&Entry) -> bool,
    ) -> Result<BTreeMap<(String, String), usize>, Error> {
        let mut table = BTreeMap::new();
        for entry in self.entries().await?.iter().filter(|entry| pass(entry)) {
            *table
                .entry((entry.verb.clone(), entry.full_resource()))
                .or_default() += 1;
        }
        Ok(table)
    }

    async fn settle(&self) -> Result<(), Error> {
        let before = self.length()?;
        let id = format!("marker-{}-{}", std::process::id(), crate::unique());
        let client = self
            .admin
            .client()
            .map_err(|error| Error::Marker(error.to_string()))?;
        let request = http::Request::get(format!("/api/v1/namespaces/{MARKER}"))
            .header("Audit-ID", &id)
            .body(Vec::new())
            .map_err(|error| Error::Marker(error.to_string()))?;
        match client.request_text(request).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Ok(_) => {}
            Err(error) => return Err(Error::Marker(error.to_string())),
        }
        // A file that another process appends to can't be watched through the API; the wait is bounded.
        let deadline = Instant::now() + SETTLE;
        while !self.read(before)?.contains(&id) {
            if Instant::now() >= deadline {
                return Err(Error::Late(SETTLE));
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// How many bytes it has.
    fn length(&self) -> Result<u64, Error> {
        let found = std::fs::metadata(&self.path);
        Ok(found.map_err(|source| self.unreadable(source))?.len())
    }

    /// What stands behind so many bytes. Whole lines only: the last one may be half written.
    fn read(&self, from: u64) -> Result<String, Error> {
        let mut text = Vec::new();
        File::open(&self.path)
            .and_then(|mut file| {
                file.seek(SeekFrom::Start(from))?;
                file.read_to_end(&mut text)
            })
            .map_err(|source| self.unreadable(source))?;
        let end = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        Ok(String::from_utf8_lossy(&text[..end]).into_owned())
    }

    fn unreadable(&self, source: std::io::Error) -> Error {
        Error::Read {
            path: self.path.clone(),
            source,
        }
    }
}

/// A line of the log.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Event {
    #[serde(rename = "auditID")]
    audit_id: String,
    #[serde(default)]
    stage: String,
    pub(crate) verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    #[serde(default)]
    pub(crate) user: User,
    #[serde(default)]
    pub(crate) user_agent: String,
    #[serde(default)]
    pub(crate) object_ref: ObjectRef,
    #[serde(default)]
    pub(crate) response_status: ResponseStatus,
    #[serde(default)]
    request_received_timestamp: String,
    #[serde(default)]
    pub(crate) annotations: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
pub(crate) struct User {
    #[serde(default)]
    pub(crate) username: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ObjectRef {
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) api_group: String,
}

#[derive(Deserialize, Default)]
pub(crate) struct ResponseStatus {
    #[serde(default)]
    pub(crate) code: u16,
    #[serde(default)]
    pub(crate) message: String,
}

impl Event {
    /// It tells of an answer, and not of a request that has just come.
    pub(crate) fn is_answered(&self) -> bool {
        self.stage != RECEIVED
    }

    fn is_marker(&self) -> bool {
        self.object_ref.resource == "namespaces" && self.object_ref.name == MARKER
    }
}

impl From<Event> for Entry {
    fn from(event: Event) -> Self {
        Self {
            id: event.audit_id,
            verb: event.verb,
            user: event.user.username,
            user_agent: event.user_agent,
            group: event.object_ref.api_group,
            resource: event.object_ref.resource,
            subresource: event.object_ref.subresource,
            namespace: event.object_ref.namespace,
            name: event.object_ref.name,
            uri: event.request_uri,
            code: event.response_status.code,
            received: event.request_received_timestamp,
        }
    }
}
