//! What was asked of a target, as far as its answer is judged by it: how much may come, and of what kind it has to be.

use http::{Method, Request};
use pilotage_api::limits;
use serde::Deserialize;

use super::fault::Fault;

/// Bytes of one object, alone or in an event. An API server takes requests of 3 MiB, etcd half of that.
pub(super) const OBJECT_BYTES: usize = 3 << 20;
/// Bytes of a list, or of one page of it: room for 500 objects of 8 KiB, or for one of any size.
const LIST_BYTES: usize = 4 << 20;
/// Bytes of what `/readyz` says.
const HEALTH_BYTES: usize = 16 << 10;
/// Memory that one object may take: a pod with thousands of variables takes less.
pub(crate) const OBJECT_WEIGHT: usize = 8 << 20;
/// What a source writes comes back, with what the target may add to it.
const _: () =
    assert!(limits::CHAPERON_WHOLE.saturating_add(limits::CHAPERON_KEPT) <= OBJECT_WEIGHT);
/// Memory that a list may take which is read as a whole, in one step of a thread that others wait for.
const LIST_WEIGHT: usize = 24 << 20;

/// Kind and version, as every answer of an API server tells them.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Types {
    #[serde(default)]
    pub(super) api_version: String,
    #[serde(default)]
    pub(super) kind: String,
}

impl Types {
    pub(super) fn is_status(&self) -> bool {
        (self.api_version.as_str(), self.kind.as_str()) == ("v1", "Status")
    }
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Events without end, one a line.
    Events,
    /// Objects.
    List {
        /// They were asked for page by page: who does that looks at them one by one.
        paged: bool,
    },
    /// One object.
    Object,
    /// Some words.
    Health,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) form: Form,
    /// Version of the API and plural of the kind, if it is about objects.
    about: Option<(String, String)>,
    /// Metadata will do.
    partial: bool,
    /// It was to go: what comes back is the object, or word of its end.
    deletes: bool,
}

impl Asked {
    pub(super) fn of<B>(request: &Request<B>) -> Self {
        let query = request.uri().query().unwrap_or_default();
        let has = |wanted: &str| query.split('&').any(|pair| pair.starts_with(wanted));
        let Path {
            about,
            collection,
            health,
        } = Path::of(request.uri().path());
        let reads = request.method() == Method::GET;
        let form = match (health, reads && collection) {
            (true, _) => Form::Health,
            (false, true) if has("watch=true") || has("watch=1") => Form::Events,
            (false, true) => Form::List {
                paged: has("limit="),
            },
            (false, false) => Form::Object,
        };
        let accept = request.headers().get(http::header::ACCEPT);
        let accept = accept.and_then(|it| it.to_str().ok()).unwrap_or_default();
        Self {
            form,
            about,
            partial: accept.contains("as=PartialObjectMetadata"),
            deletes: request.method() == Method::DELETE,
        }
    }

    /// In words, for errors.
    pub(super) fn what(&self) -> &'static str {
        match self.form {
            Form::Events => "an event",
            Form::List { .. } => "a list",
            Form::Object => "an object",
            Form::Health => "what /readyz says",
        }
    }

    /// How long the answer may be, or one event.
    pub(super) fn bytes(&self) -> usize {
        match self.form {
            Form::Events | Form::Object => OBJECT_BYTES,
            Form::List { .. } => LIST_BYTES,
            Form::Health => HEALTH_BYTES,
        }
    }

    /// How much memory the answer may take; no limit for what its reader takes in bit by bit.
    pub(super) fn weight(&self) -> Option<usize> {
        match self.form {
            Form::List { paged: true } if !self.partial => None,
            Form::List { .. } => Some(LIST_WEIGHT),
            Form::Events | Form::Object | Form::Health => Some(OBJECT_WEIGHT),
        }
    }

    /// Whether that is what was asked for.
    pub(super) fn check(&self, types: &Types) -> Result<(), Fault> {
        let Some((version, plural)) = &self.about else {
            return Ok(());
        };
        let wrong = Err(Fault::WrongKind(self.what()));
        if types.is_status() {
            return if self.deletes { Ok(()) } else { wrong };
        }
        let kind = match self.form {
            Form::List { .. } => match types.kind.strip_suffix("List") {
                Some(kind) => kind,
                None => return wrong,
            },
            _ => types.kind.as_str(),
        };
        if self.partial && (types.api_version.as_str(), kind) == (META, "PartialObjectMetadata") {
            return Ok(());
        }
        let fits = types.api_version == *version
            && (is_plural(plural, kind) || (version.as_str(), plural.as_str(), kind) == IRREGULAR);
        if fits { Ok(()) } else { wrong }
    }
}

/// Version, plural and kind of what pods use, which goes by the pods' own name.
const IRREGULAR: (&str, &str, &str) = ("metrics.k8s.io/v1beta1", "pods", "PodMetrics");
/// Version of objects of which only metadata were asked for.
const META: &str = "meta.k8s.io/v1";

/// Whether a kind may have that plural, by all rules of English that the API knows: pods, ingresses, summaries.
fn is_plural(plural: &str, kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    let mut stem = kind.chars();
    let last = stem.next_back();
    let ending = plural.strip_prefix(stem.as_str()).unwrap_or_default();
    let mut ending = ending.chars();
    match (last, ending.next(), ending.as_str()) {
        (Some('y'), Some('i'), "es") => true,
        // Endpoints are their own plural.
        (Some(last), Some(same), rest) => last == same && matches!(rest, "" | "s" | "es"),
        _ => false,
    }
}

struct Path {
    about: Option<(String, String)>,
    collection: bool,
    health: bool,
}

impl Path {
    fn of(path: &str) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ((*version).to_owned(), rest),
            ["apis", group, version, rest @ ..] => (format!("{group}/{version}"), rest),
            other => {
                return Self {
                    about: None,
                    collection: false,
                    health: matches!(other, ["readyz" | "livez" | "healthz", ..]),
                };
            }
        };
        let rest = match rest {
            ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
            rest => rest,
        };
        let (plural, collection) = match rest {
            [plural] => (Some(*plural), true),
            [plural, _] | [plural, _, "status"] => (Some(*plural), false),
            // What a subresource answers has a kind of its own.
            _ => (None, false),
        };
        Self {
            about: plural.map(|plural| (version, plural.to_owned())),
            collection,
            health: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::measured;
    use super::*;

    const CHAPERONS: &str = "/apis/multicluster.admiralty.io/v1alpha1/namespaces/shop/podchaperons";

    fn asked(method: &str, uri: &str) -> Asked {
        Asked::of(&Request::builder().method(method).uri(uri).body(()).unwrap())
    }

    #[test]
    fn a_list_that_is_read_in_one_step_is_lighter_than_one_that_comes_in_pages() {
        let (whole, paged) = (
            asked("GET", CHAPERONS),
            asked("GET", &format!("{CHAPERONS}?limit=500")),
        );
        for (fields, passes) in [(180_000, true), (200_000, false)] {
            let list = format!(r#"{{"items":[{{{}"":""}}]}}"#, r#""":"","#.repeat(fields));
            let passed = |asked: &Asked| measured(list.as_bytes(), asked.what(), asked.weight());
            assert!(list.len() < LIST_BYTES && passed(&paged).is_ok());
            assert_eq!(passed(&whole).is_ok(), passes, "{fields}");
        }
    }

    #[test]
    fn the_form_follows_from_the_question() {
        let list = |paged| Form::List { paged };
        for (method, uri, want) in [
            ("GET", "/readyz", Form::Health),
            ("GET", "/api/v1/pods", list(false)),
            ("GET", "/api/v1/pods?limit=500&continue=x", list(true)),
            (
                "GET",
                "/api/v1/pods?watch=true&timeoutSeconds=9",
                Form::Events,
            ),
            (
                "GET",
                "/api/v1/pods?labelSelector=watch%3Dtrue",
                list(false),
            ),
            ("GET", "/api/v1/namespaces", list(false)),
            ("GET", "/api/v1/namespaces/a", Form::Object),
            ("GET", "/api/v1/namespaces/a/pods", list(false)),
            ("GET", "/api/v1/namespaces/a/pods/b", Form::Object),
            ("POST", "/api/v1/namespaces/a/pods", Form::Object),
            ("GET", "/version", Form::Object),
        ] {
            assert_eq!(asked(method, uri).form, want, "{method} {uri}");
        }
    }

    #[test]
    fn an_answer_is_of_the_kind_that_was_asked_for() {
        let ours = "multicluster.admiralty.io/v1alpha1";
        let one = format!("{CHAPERONS}/web");
        let status = format!("{CHAPERONS}/web/status");
        let watch = format!("{CHAPERONS}?watch=true");
        let sub = "/api/v1/namespaces/a/pods/b/binding";
        let used = "/apis/metrics.k8s.io/v1beta1/namespaces/a/pods";
        for (method, uri, version, kind, want) in [
            ("GET", CHAPERONS, ours, "PodChaperonList", true),
            ("GET", CHAPERONS, ours, "PodChaperon", false),
            ("GET", CHAPERONS, ours, "PodList", false),
            ("GET", CHAPERONS, "v1", "PodChaperonList", false),
            ("GET", &one, ours, "PodChaperon", true),
            ("GET", &one, ours, "ClusterSummary", false),
            ("GET", &one, "v1", "Pod", false),
            ("GET", &one, "v1", "Status", false),
            ("GET", &one, "", "", false),
            ("DELETE", &one, "v1", "Status", true),
            ("PATCH", &status, ours, "PodChaperon", true),
            ("GET", &watch, ours, "PodChaperon", true),
            ("GET", &watch, ours, "PodChaperonList", false),
            ("POST", sub, "v1", "Status", true),
            ("GET", "/api/v1/endpoints", "v1", "EndpointsList", true),
            (
                "GET",
                used,
                "metrics.k8s.io/v1beta1",
                "PodMetricsList",
                true,
            ),
            (
                "GET",
                used,
                "metrics.k8s.io/v1beta1",
                "NodeMetricsList",
                false,
            ),
            ("GET", used, "v1", "PodList", false),
            ("GET", "/api/v1/pods", "v1", "PodMetricsList", false),
            ("GET", "/version", "", "", true),
        ] {
            let types = Types {
                api_version: version.to_owned(),
                kind: kind.to_owned(),
            };
            let fits = asked(method, uri).check(&types).is_ok();
            assert_eq!(fits, want, "{method} {uri}: {version} {kind}");
        }
        for (plural, kind, want) in [
            ("pods", "Pod", true),
            ("podchaperons", "Pod", false),
            ("clustersummaries", "ClusterSummary", true),
            ("ingresses", "Ingress", true),
            ("pods", "", false),
        ] {
            assert_eq!(is_plural(plural, kind), want, "{plural} {kind}");
        }
    }

    #[test]
    fn metadata_alone_have_a_kind_of_their_own() {
        let request = Request::get(CHAPERONS)
            .header(
                "accept",
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            )
            .body(())
            .unwrap();
        let types = || Types {
            api_version: META.to_owned(),
            kind: "PartialObjectMetadataList".to_owned(),
        };
        assert!(Asked::of(&request).check(&types()).is_ok());
        assert!(asked("GET", CHAPERONS).check(&types()).is_err());
    }
}
