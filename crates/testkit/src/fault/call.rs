//! What a request asks of an API server, read from its method and path, and which requests a rule means. It knows
//! nothing of connections.

use http::{Method, Uri};

/// What is done to a resource, in the words of RBAC and audit logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// One object is read.
    Get,
    /// Many are.
    List,
    /// Changes are read as they come.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH, server-side apply included.
    Patch,
    /// One object is deleted.
    Delete,
    /// Many are.
    DeleteCollection,
    /// Whatever isn't about a resource, such as discovery and `/readyz`.
    Other,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What is done.
    pub verb: Verb,
    /// To which kind of thing, as RBAC writes it: `pods`, `pods/binding`. Empty if it isn't about a resource.
    pub resource: String,
    /// The path of the request: all that there is of what isn't about a resource.
    pub path: String,
    /// In which namespace, if in one.
    pub namespace: Option<String>,
    /// To which object, if to one.
    pub name: Option<String>,
    /// A watch that goes on from a place in history: what can expire.
    pub resumes: bool,
}

impl Call {
    /// Reads a request as the API server does.
    pub fn of(method: &Method, uri: &Uri) -> Self {
        let query = |name: &str| {
            let pairs = uri.query().unwrap_or_default().split('&');
            pairs
                .filter_map(|pair| pair.split_once('='))
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value)
        };
        let is_set = |name: &str| matches!(query(name), Some("true" | "1"));
        let mut call = Self {
            verb: Verb::Other,
            resource: String::new(),
            path: uri.path().to_owned(),
            namespace: None,
            name: None,
            resumes: false,
        };
        let mut parts = uri.path().split('/').filter(|part| !part.is_empty());
        match (parts.next(), parts.next(), parts.clone().next()) {
            (Some("api"), Some(_), Some(_)) => {}
            (Some("apis"), Some(_), Some(_)) => {
                parts.next();
            }
            _ => return call,
        }
        let parts: Vec<&str> = parts.collect();
        let rest = match parts[..] {
            // A namespace is a resource, too, with subresources of its own.
            ["namespaces", namespace, resource, ..]
                if !matches!(resource, "status" | "finalize") =>
            {
                call.namespace = Some(namespace.to_owned());
                &parts[2..]
            }
            _ => &parts[..],
        };
        let Some(resource) = rest.first() else {
            return call;
        };
        call.name = rest.get(1).map(ToString::to_string);
        call.resource = rest
            .get(2)
            .map_or_else(|| (*resource).to_owned(), |sub| format!("{resource}/{sub}"));
        let one = call.name.is_some();
        call.verb = match *method {
            Method::GET if is_set("watch") => Verb::Watch,
            Method::GET if one => Verb::Get,
            Method::GET => Verb::List,
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE if one => Verb::Delete,
            Method::DELETE => Verb::DeleteCollection,
            _ => Verb::Other,
        };
        // Without a version, or with "0", a watch begins with what is there.
        let from = query("resourceVersion").unwrap_or_default();
        call.resumes = call.verb == Verb::Watch && !matches!(from, "" | "0");
        call
    }
}

/// Which requests a rule means: all that have everything that is given here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Calls {
    verb: Option<Verb>,
    resource: Option<String>,
    path: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

impl Calls {
    /// Any request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Those that do this to a resource, written as in RBAC: `pods`, `pods/binding`.
    pub fn of(verb: Verb, resource: &str) -> Self {
        Self::any().verb(verb).resource(resource)
    }

    /// Only with this verb.
    #[must_use]
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Only of this resource.
    #[must_use]
    pub fn resource(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    /// Only at this very path, such as `/readyz`.
    #[must_use]
    pub fn path(mut self, path: &str) -> Self {
        self.path = Some(path.to_owned());
        self
    }

    /// Only in this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only for this object. The name isn't in the path of a plain creation.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Whether it is one of them.
    pub fn include(&self, call: &Call) -> bool {
        self.verb.is_none_or(|verb| verb == call.verb)
            && self
                .resource
                .as_ref()
                .is_none_or(|resource| *resource == call.resource)
            && self.path.as_ref().is_none_or(|path| *path == call.path)
            && (self.namespace.is_none() || self.namespace == call.namespace)
            && (self.name.is_none() || self.name == call.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &Method, uri: &str) -> (Verb, String, String, String, bool) {
        let call = Call::of(method, &uri.parse().unwrap());
        (
            call.verb,
            call.resource,
            call.namespace.unwrap_or_default(),
            call.name.unwrap_or_default(),
            call.resumes,
        )
    }

    #[test]
    fn requests_are_read_as_the_api_server_reads_them() {
        use Verb::{Create, Delete, DeleteCollection, Get, List, Other, Patch, Update, Watch as W};
        let chaperons = "/apis/multicluster.admiralty.io/v1alpha1/namespaces/n/podchaperons";
        for (method, uri, verb, resource, namespace, name, resumes) in [
            (
                Method::GET,
                "/api/v1/pods?limit=500",
                List,
                "pods",
                "",
                "",
                false,
            ),
            (
                Method::GET,
                "/api/v1/pods?watch=true&resourceVersion=12",
                W,
                "pods",
                "",
                "",
                true,
            ),
            (
                Method::GET,
                "/api/v1/namespaces/n/pods?&watch=1",
                W,
                "pods",
                "n",
                "",
                false,
            ),
            (
                Method::GET,
                "/api/v1/pods?resourceVersion=0&watch=true",
                W,
                "pods",
                "",
                "",
                false,
            ),
            (
                Method::GET,
                "/api/v1/namespaces/n/pods/p",
                Get,
                "pods",
                "n",
                "p",
                false,
            ),
            (
                Method::GET,
                "/api/v1/namespaces/n",
                Get,
                "namespaces",
                "",
                "n",
                false,
            ),
            (
                Method::GET,
                "/api/v1/namespaces",
                List,
                "namespaces",
                "",
                "",
                false,
            ),
            (
                Method::PUT,
                "/api/v1/namespaces/n/finalize",
                Update,
                "namespaces/finalize",
                "",
                "n",
                false,
            ),
            (
                Method::POST,
                "/api/v1/namespaces/n/pods/p/binding",
                Create,
                "pods/binding",
                "n",
                "p",
                false,
            ),
            (
                Method::POST,
                chaperons,
                Create,
                "podchaperons",
                "n",
                "",
                false,
            ),
            (
                Method::PATCH,
                "/apis/g/v1/namespaces/n/podchaperons/c/status",
                Patch,
                "podchaperons/status",
                "n",
                "c",
                false,
            ),
            (
                Method::DELETE,
                "/api/v1/nodes/x",
                Delete,
                "nodes",
                "",
                "x",
                false,
            ),
            (
                Method::DELETE,
                "/api/v1/namespaces/n/pods",
                DeleteCollection,
                "pods",
                "n",
                "",
                false,
            ),
            (Method::GET, "/readyz", Other, "", "", "", false),
            (Method::GET, "/api/v1", Other, "", "", "", false),
            (Method::GET, "/apis/apps/v1", Other, "", "", "", false),
        ] {
            let want = (
                verb,
                resource.to_owned(),
                namespace.to_owned(),
                name.to_owned(),
                resumes,
            );
            assert_eq!(read(&method, uri), want, "{uri}");
        }
    }

    #[test]
    fn a_rule_means_what_has_all_of_it() {
        let call = Call::of(
            &Method::POST,
            &"/api/v1/namespaces/n/pods/p/binding".parse().unwrap(),
        );
        for (calls, included) in [
            (Calls::any(), true),
            (Calls::of(Verb::Create, "pods/binding"), true),
            (Calls::of(Verb::Create, "pods"), false),
            (Calls::of(Verb::Patch, "pods/binding"), false),
            (Calls::any().path("/readyz"), false),
            (Calls::any().namespace("n").name("p"), true),
            (Calls::any().namespace("m"), false),
            (Calls::any().name("q"), false),
        ] {
            assert_eq!(calls.include(&call), included, "{calls:?}");
        }
    }
}
