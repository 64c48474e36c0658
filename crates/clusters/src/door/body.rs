//! Bodies that have passed the door, or pass it line by line.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame};
use pilotage_runtime::weight::measure;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use tokio::time::{Instant, Sleep, sleep};
use tower::BoxError;

use super::asked::{Asked, OBJECT_BYTES, Types};
use super::fault::Fault;
use super::intake::PIECE;
use super::measured;
use crate::budget::{Budget, UnderWay};

/// Time for one event, from its first byte to its last: an API server sends it in one go.
const EVENT_LIMIT: Duration = Duration::from_secs(30);

/// A body that is as the door lets it be.
pub(crate) enum Admitted<B> {
    /// Read, and looked at.
    Whole(Option<Bytes>),
    /// Looked at as it comes.
    Events(Box<Events<B>>),
}

impl<B> Body for Admitted<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Events(events) => events.poll(context),
        }
    }
}

/// Reads a body of at most `limit` bytes. A short one isn't `kept`: it needs no room in a namespace meanwhile.
pub(super) async fn collect<B>(
    body: B,
    what: &'static str,
    limit: usize,
    mut under_way: UnderWay,
    kept: bool,
) -> Result<Bytes, BoxError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let mut body = pin!(body);
    let mut whole = Vec::new();
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        let data = frame.map_err(Into::into)?.into_data();
        spend_frame(under_way.budget(), data.as_ref().ok());
        let Ok(data) = data else {
            continue;
        };
        if whole.len().saturating_add(data.len()) > limit {
            return Err(Fault::TooLong { what, limit }.into());
        }
        if kept {
            under_way.add(data.len()).map_err(Fault::from)?;
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.into())
}

/// The bytes of a frame have counted when they came; a short one costs more than they.
fn spend_frame(budget: &Budget, data: Option<&Bytes>) {
    let more = PIECE.saturating_sub(data.map_or(0, Bytes::len));
    if more > 0 {
        budget.spend(more, 0, Instant::now());
    }
}

/// Events of a watch: any number of them, but each one whole, soon, and of the right kind.
pub(crate) struct Events<B> {
    asked: Asked,
    inner: Pin<Box<B>>,
    /// The beginning of an event.
    part: Vec<u8>,
    under_way: UnderWay,
    /// When its first byte came.
    began: Option<Instant>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl<B> Events<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    pub(super) fn new(asked: Asked, body: B, under_way: UnderWay) -> Self {
        Self {
            asked,
            inner: Box::pin(body),
            part: Vec::new(),
            under_way,
            began: None,
            pause: None,
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(context));
                self.pause = None;
                // It wasn't the server who made us wait.
                self.began = self.began.map(|_| Instant::now());
            }
            if let Some(pause) = self.under_way.budget().pause(Instant::now()) {
                self.pause = Some(Box::pin(sleep(pause)));
                continue;
            }
            let frame = match ready!(self.inner.as_mut().poll_frame(context)) {
                // An event whose end is missing was cut off with the connection.
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                Some(Ok(frame)) => frame,
            };
            let data = frame.into_data();
            spend_frame(self.under_way.budget(), data.as_ref().ok());
            let Ok(data) = data else {
                continue;
            };
            match self.take(&data) {
                Err(fault) => return Poll::Ready(Some(Err(fault.into()))),
                Ok(Some(lines)) => return Poll::Ready(Some(Ok(Frame::data(lines)))),
                Ok(None) => {}
            }
        }
    }

    /// Bytes of the event that has begun.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.part.len()
    }

    /// The events that are complete with these bytes.
    pub(super) fn take(&mut self, data: &Bytes) -> Result<Option<Bytes>, Fault> {
        let now = Instant::now();
        let Some(last) = data.iter().rposition(|byte| *byte == b'\n') else {
            self.keep(data, now)?;
            return Ok(None);
        };
        let end = last.saturating_add(1);
        let rest = data.slice(end..);
        let whole = if self.part.is_empty() {
            data.slice(..end)
        } else {
            let mut whole = std::mem::take(&mut self.part);
            self.under_way.clear();
            whole.extend_from_slice(&data[..end]);
            whole.into()
        };
        self.began = None;
        self.keep(&rest, now)?;
        let (lines, count) = self.inspect(&whole)?;
        self.under_way.budget().spend(0, count, now);
        Ok(Some(lines.unwrap_or(whole)))
    }

    /// Keeps the beginning of an event.
    fn keep(&mut self, bytes: &[u8], now: Instant) -> Result<(), Fault> {
        if bytes.is_empty() {
            return Ok(());
        }
        let what = self.asked.what();
        if self.part.len().saturating_add(bytes.len()) > OBJECT_BYTES {
            let limit = OBJECT_BYTES;
            return Err(Fault::TooLong { what, limit });
        }
        let began = *self.began.get_or_insert(now);
        if now.saturating_duration_since(began) > EVENT_LIMIT {
            let limit = EVENT_LIMIT;
            return Err(Fault::TooSlow { what, limit });
        }
        self.under_way.add(bytes.len())?;
        self.part.extend_from_slice(bytes);
        Ok(())
    }

    /// Looks at each line; how many there are, and all of them anew if one is too heavy to be read.
    fn inspect(&self, whole: &[u8]) -> Result<(Option<Bytes>, usize), Fault> {
        let mut count = 0_usize;
        let mut thinned: Option<Vec<u8>> = None;
        let mut done = 0_usize;
        for line in whole.split_inclusive(|byte| *byte == b'\n') {
            count = count.saturating_add(1);
            let thin = self.line(line)?;
            match (&mut thinned, thin) {
                (None, None) => {}
                (None, Some(thin)) => thinned = Some([&whole[..done], &thin].concat()),
                (Some(text), thin) => text.extend_from_slice(thin.as_deref().unwrap_or(line)),
            }
            done = done.saturating_add(line.len());
        }
        Ok((thinned.map(Into::into), count))
    }

    /// Looks at one line. An object that is merely heavy is its author's affair and no fault of the server's: what is
    /// left of it is who it is.
    fn line(&self, line: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        let (what, limit) = (self.asked.what(), OBJECT_BYTES);
        if line.len() > limit {
            return Err(Fault::TooLong { what, limit });
        }
        let heavy = match measured(line, what, self.asked.weight()) {
            Err(Fault::TooHeavy { .. }) => true,
            other => other.map(|()| false)?,
        };
        let event: Event = serde_json::from_slice(line).map_err(|_| Fault::NoJson(what))?;
        // The word of the server itself, or that the watch is at its end.
        let types = &event.object;
        if !(event.type_ == "ERROR" && types.is_status()) {
            self.asked.check(types)?;
        }
        if !heavy {
            return Ok(None);
        }
        Ok(Some(thin(line, what, self.asked.weight())?))
    }
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    type_: String,
    object: Types,
}

/// Who an object is.
const IDENTITY: [&str; 4] = ["name", "namespace", "uid", "resourceVersion"];
/// What else of its metadata somebody reads. Who manages which field isn't among it.
const READ: [&str; 8] = [
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
];

/// Those of an object's metadata that somebody reads, as they stand.
struct Metadata<'a>(Vec<(&'static str, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Metadata<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

impl Serialize for Metadata<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Metadata<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut kept: Vec<(&'static str, &'de RawValue)> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            let Some(known) = IDENTITY.iter().chain(&READ).find(|known| **known == key) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if kept.iter().any(|(kept, _)| kept == known) {
                return Err(A::Error::duplicate_field(known));
            }
            kept.push((known, map.next_value()?));
        }
        Ok(Metadata(kept))
    }
}

/// An event of an object that has nothing but its metadata; nothing but who it is, if they weigh too much even so.
fn thin(line: &[u8], what: &'static str, heaviest: Option<usize>) -> Result<Vec<u8>, Fault> {
    #[derive(Deserialize, Serialize)]
    struct Thin<'a> {
        #[serde(rename = "type")]
        type_: String,
        #[serde(borrow)]
        object: Object<'a>,
    }
    #[derive(Deserialize, Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Object<'a> {
        api_version: String,
        kind: String,
        #[serde(borrow)]
        metadata: Metadata<'a>,
    }
    let written = |thin: &Thin<'_>| serde_json::to_vec(thin).map_err(|_| Fault::NoJson(what));
    let mut thin: Thin<'_> = serde_json::from_slice(line).map_err(|_| Fault::NoJson(what))?;
    let mut line = written(&thin)?;
    if heaviest.is_some_and(|limit| measure(&line).weight > limit) {
        let metadata = &mut thin.object.metadata.0;
        metadata.retain(|(field, _)| IDENTITY.contains(field));
        line = written(&thin)?;
    }
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::Request;
    use kube::client::Body as Nothing;

    use super::super::DEEPEST;
    use super::*;

    const CHAPERON: &str = "{\"apiVersion\":\"multicluster.admiralty.io/v1alpha1\",\"kind\":\"PodChaperon\",\
        \"metadata\":{\"name\":\"a\"}";

    fn events() -> Events<Nothing> {
        let uri = "/apis/multicluster.admiralty.io/v1alpha1/podchaperons?watch=true";
        let request = Request::get(uri).body(()).unwrap();
        let under_way = UnderWay::new(Arc::default());
        Events::new(Asked::of(&request), Nothing::empty(), under_way)
    }

    fn event(rest: &str) -> String {
        format!(r#"{{"type":"ADDED","object":{CHAPERON}{rest}}}}}"#) + "\n"
    }

    #[tokio::test]
    async fn events_pass_whole_however_they_are_cut() {
        let text = [event(""), event(r#","spec":{}"#)].concat();
        for size in [1, 7, text.len()] {
            let mut events = events();
            let mut passed = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                let lines = events.take(&Bytes::copy_from_slice(piece)).unwrap();
                passed.extend_from_slice(&lines.unwrap_or_default());
            }
            assert_eq!(passed, text.as_bytes(), "{size}");
        }
    }

    #[tokio::test]
    async fn an_event_that_is_none_ends_the_watch() {
        let deep = event(&format!(
            r#","spec":{}{}"#,
            "[".repeat(10_000),
            "]".repeat(10_000)
        ));
        let pod = event("").replace("PodChaperon", "Pod");
        let what = "an event";
        for (line, want) in [
            (
                deep.as_str(),
                Fault::TooDeep {
                    what,
                    limit: DEEPEST,
                },
            ),
            (pod.as_str(), Fault::WrongKind(what)),
            ("{\"type\":\"ADDED\"\n", Fault::NoJson(what)),
            ("<html>\n", Fault::NoJson(what)),
            ("[]\n", Fault::NoJson(what)),
        ] {
            let taken = events().take(&Bytes::copy_from_slice(line.as_bytes()));
            assert_eq!(taken, Err(want));
        }
        for line in [
            "\n",
            "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"code\":410}}\n",
        ] {
            let taken = events().take(&Bytes::from_static(line.as_bytes()));
            assert_eq!(taken, Ok(Some(Bytes::from_static(line.as_bytes()))));
        }
    }

    #[tokio::test]
    async fn a_line_without_end_is_cut_and_a_whole_one_may_be_as_long() {
        let mut events = events();
        let block = Bytes::from(vec![b'x'; 1 << 20]);
        let limit = OBJECT_BYTES;
        let what = "an event";
        for _ in 0..3 {
            assert_eq!(events.take(&block), Ok(None));
        }
        assert_eq!(events.take(&block), Err(Fault::TooLong { what, limit }));
        assert!(events.part.len() <= limit);
    }

    #[tokio::test(start_paused = true)]
    async fn one_byte_a_second_is_no_progress() {
        let mut events = events();
        let mut taken = Ok(None);
        let mut seconds = 0;
        while taken.is_ok() {
            taken = events.take(&Bytes::from_static(b" "));
            tokio::time::advance(Duration::from_secs(1)).await;
            seconds += 1;
            assert!(seconds < 60);
        }
        assert!(matches!(taken, Err(Fault::TooSlow { .. })), "{taken:?}");
        // Silence between events is what most watches have.
        let mut events = self::events();
        for _ in 0..60 {
            assert!(events.take(&event("").into()).is_ok());
            tokio::time::advance(Duration::from_secs(50)).await;
        }
    }

    #[tokio::test]
    async fn of_a_heavy_object_its_metadata_are_left() {
        let heavy = event(&format!(
            r#","spec":{{"a":[{}0]}}"#,
            r#"{"":0},"#.repeat(100_000)
        ));
        let text = [event(""), heavy, event("")].concat();
        let lines = events().take(&text.into()).unwrap().unwrap();
        assert_eq!(lines, [event(""), event(""), event("")].concat());
    }

    #[tokio::test]
    async fn of_heavy_metadata_what_is_read_is_left_or_who_it_is() {
        let many = |part: &str| format!("[{}{part}]", format!("{part},").repeat(200_000));
        let managed = r"manag\u0065dFields";
        let object = |more: &str| {
            event("").replace(
                r#"{"name":"a"}"#,
                &format!(r#"{{"name":"a","uid":"u",{more}}}"#),
            )
        };
        let labels = r#""labels":{"a":"b"}"#;
        let read = object(labels);
        let known = object(r#""labels":null"#).replace(r#","labels":null"#, "");
        for (heavy, left) in [
            (format!(r#""{managed}":{},{labels}"#, many("{}")), &read),
            (format!(r#""managedFields":{},{labels}"#, many("{}")), &read),
            (format!(r#"{labels},"nobodys":{}"#, many("{}")), &read),
            (
                format!(r#"{labels},"ownerReferences":{}"#, many("{}")),
                &known,
            ),
        ] {
            let lines = events().take(&object(&heavy).into()).unwrap().unwrap();
            assert_eq!(lines, left.as_bytes(), "{}", &heavy[..40]);
        }
    }
}
