//! The history of a hostile server's objects, and what a watch tells of it. It knows nothing of HTTP, nor why anything
//! happened.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::kinds::{Kind, Selection};
use super::world::World;

/// Something that happened, or is said to have.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) kind: &'static Kind,
    pub(super) version: u64,
    /// `ADDED`, `MODIFIED`, `DELETED`, or whatever was forged.
    pub(super) what: String,
    pub(super) object: Value,
    /// As it was before.
    pub(super) old: Option<Value>,
    /// Told to each watch of the kind, whatever that asked for.
    pub(super) everywhere: bool,
}

impl Event {
    /// What a watch of this selection tells of it.
    fn line(&self, selection: &Selection) -> Option<Value> {
        if self.kind != selection.kind {
            return None;
        }
        if self.everywhere {
            return Some(json!({ "type": self.what, "object": self.object }));
        }
        let is = selection.includes(&self.object);
        let old = self.old.as_ref().filter(|old| selection.includes(old));
        let (what, object) = match (&*self.what, old, is) {
            (_, None, false) => return None,
            (_, Some(old), false) => {
                // As it was when it was selected last, at the version of now.
                let mut object = old.clone();
                object["metadata"]["resourceVersion"] = json!(self.version.to_string());
                ("DELETED", object)
            }
            ("DELETED", _, true) => ("DELETED", self.object.clone()),
            (_, Some(_), true) => ("MODIFIED", self.object.clone()),
            (_, None, true) => ("ADDED", self.object.clone()),
        };
        Some(json!({ "type": what, "object": object }))
    }
}

/// An object, or an event, as text with the end of its line. An API server writes the type of an event first.
pub(super) fn line(value: &Value) -> String {
    let Some(all) = value.as_object().filter(|all| all.contains_key("object")) else {
        return format!("{value}\n");
    };
    let first = |key: &String| key != "type";
    let mut fields: Vec<_> = all.iter().collect();
    fields.sort_by_key(|(key, _)| first(key));
    let fields = fields
        .iter()
        .map(|(key, value)| format!("{}:{value}", json!(key)));
    format!("{{{}}}\n", fields.collect::<Vec<_>>().join(","))
}

/// One watch.
pub(super) struct Feed {
    world: Arc<World>,
    changed: watch::Receiver<u64>,
    selection: Selection,
    /// What is told first: the objects that are there.
    first: VecDeque<Value>,
    /// Index of the next event.
    next: usize,
    bookmarks: Option<(Duration, Instant)>,
    until: Option<Instant>,
}

impl Feed {
    /// From what happened after `version`, or from what is there; it ends by itself after `limit`.
    pub(super) fn new(
        world: &Arc<World>,
        selection: Selection,
        version: Option<u64>,
        limit: Duration,
    ) -> Self {
        let changed = world.changes();
        let (first, next) = if let Some(version) = version {
            (Vec::new(), world.index_after(version))
        } else {
            let present = world.present(&selection);
            (present.objects, present.next)
        };
        let added = |object| json!({ "type": "ADDED", "object": object });
        Self {
            world: Arc::clone(world),
            changed,
            selection,
            first: first.into_iter().map(added).collect(),
            next,
            bookmarks: None,
            until: Some(Instant::now() + limit),
        }
    }

    /// With a bookmark in each period.
    pub(super) fn bookmarks(mut self, period: Duration) -> Self {
        self.bookmarks = Some((period, Instant::now() + period));
        self
    }

    /// Without bookmarks and without an end.
    pub(super) fn quiet(mut self) -> Self {
        (self.bookmarks, self.until) = (None, None);
        self
    }

    /// The next line; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(line) = self.first.pop_front() {
                return Some(line);
            }
            self.changed.mark_unchanged();
            while let Some(event) = self.world.event(self.next) {
                self.next += 1;
                if let Some(line) = event.line(&self.selection) {
                    return Some(line);
                }
            }
            tokio::select! {
                biased;
                // The sender lives in the world, which lives here.
                _ = self.changed.changed() => {}
                () = at(self.until) => return None,
                () = at(self.bookmarks.map(|(_, next)| next)) => return Some(self.bookmark()),
            }
        }
    }

    fn bookmark(&mut self) -> Value {
        if let Some((period, next)) = &mut self.bookmarks {
            *next += *period;
        }
        let kind = self.selection.kind;
        json!({ "type": "BOOKMARK", "object": {
            "apiVersion": kind.api_version(),
            "kind": kind.name,
            "metadata": { "resourceVersion": self.world.version().to_string(), "creationTimestamp": null },
        } })
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
