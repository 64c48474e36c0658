//! What a request asks for, by its method and path: the paths of a kubelet, as API servers ask them.
//!
//! Pure. Names are bounded and of the form that Kubernetes gives them, so that they can stand in another path.

use http::{Method, StatusCode};
use pilotage_api::annotations::{is_label, is_subdomain};
use pilotage_api::bounds::is_uid;

use super::refusal::Refusal;

/// What this server offers, for who asks for anything else.
const OFFER: &str = "the kubelet of virtual nodes offers containerLogs, exec, attach, portForward, metrics/resource, \
                     stats/summary and healthz";

/// What is done with a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Reads logs.
    Logs,
    /// Runs a command.
    Exec,
    /// Attaches to the main process.
    Attach,
    /// Forwards ports.
    PortForward,
}

impl Action {
    /// First part of a kubelet's path.
    fn of(part: &str) -> Option<Self> {
        match part {
            "containerLogs" => Some(Self::Logs),
            "exec" => Some(Self::Exec),
            "attach" => Some(Self::Attach),
            "portForward" => Some(Self::PortForward),
            _ => None,
        }
    }

    /// The subresource of a pod by which an API server offers it.
    pub(crate) const fn subresource(self) -> &'static str {
        match self {
            Self::Logs => "log",
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::PortForward => "portforward",
        }
    }
}

/// A pod, and what is done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// What is done with it.
    pub action: Action,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// Its UID, if the path has it.
    pub uid: Option<String>,
    /// Of all but port forwarding, which is a pod's.
    pub container: Option<String>,
}

/// The form in which it is told what pods use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `metrics/resource`, for Prometheus and metrics-server.
    Metrics,
    /// `stats/summary`, as JSON.
    Summary,
}

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Whether it answers.
    Health,
    /// A pod.
    Pod(Route),
    /// What pods use: those of one virtual node, if the path names it.
    Usage(Form, Option<String>),
}

/// The subresource of a node that a path belongs to, by which it is allowed or not; as kubelets have it.
pub(crate) fn subresource(path: &str) -> &'static str {
    match path.split('/').nth(1).unwrap_or_default() {
        "stats" => "stats",
        "metrics" => "metrics",
        "logs" => "log",
        "healthz" => "healthz",
        _ => "proxy",
    }
}

/// The verb that a method stands for; `None`: no method that is offered for anything.
pub(crate) fn verb(method: &Method) -> Option<&'static str> {
    match *method {
        Method::GET => Some("get"),
        Method::POST => Some("create"),
        _ => None,
    }
}

/// What is asked for.
pub fn route(method: &Method, path: &str) -> Result<Place, Refusal> {
    let parts: Vec<&str> = path.trim_start_matches('/').splitn(7, '/').collect();
    let first = parts.first().copied().unwrap_or_default();
    let place = match (Action::of(first), parts.get(1..).unwrap_or_default()) {
        (None, []) if first == "healthz" => Place::Health,
        (None, ["resource"]) if first == "metrics" => Place::Usage(Form::Metrics, None),
        (None, ["resource", node]) if first == "metrics" => usage_of(Form::Metrics, node)?,
        (None, ["summary"]) if first == "stats" => Place::Usage(Form::Summary, None),
        (None, ["summary", node]) if first == "stats" => usage_of(Form::Summary, node)?,
        (Some(Action::PortForward), [namespace, pod]) => {
            pod_of(Action::PortForward, namespace, pod, None, None)?
        }
        (Some(Action::PortForward), [namespace, pod, uid]) => {
            pod_of(Action::PortForward, namespace, pod, Some(uid), None)?
        }
        (Some(action), [namespace, pod, container]) => {
            pod_of(action, namespace, pod, None, Some(container))?
        }
        (Some(action @ (Action::Exec | Action::Attach)), [namespace, pod, uid, container]) => {
            pod_of(action, namespace, pod, Some(uid), Some(container))?
        }
        _ => return Err(Refusal::absent(OFFER)),
    };
    let streams = matches!(&place, Place::Pod(route) if route.action != Action::Logs);
    if *method == Method::GET || (streams && *method == Method::POST) {
        Ok(place)
    } else {
        let text = format!("{first} isn't asked for by this method");
        Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, text))
    }
}

fn usage_of(form: Form, node: &str) -> Result<Place, Refusal> {
    if is_subdomain(node) {
        Ok(Place::Usage(form, Some(node.to_owned())))
    } else {
        Err(no_name())
    }
}

fn no_name() -> Refusal {
    Refusal::bad("the path has a part that is no name of its kind")
}

fn pod_of(
    action: Action,
    namespace: &str,
    pod: &str,
    uid: Option<&str>,
    container: Option<&str>,
) -> Result<Place, Refusal> {
    let fine = is_label(namespace)
        && is_subdomain(pod)
        && uid.is_none_or(is_uid)
        && container.is_none_or(is_label);
    if !fine {
        return Err(no_name());
    }
    Ok(Place::Pod(Route {
        action,
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
        uid: uid.map(str::to_owned),
        container: container.map(str::to_owned),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_pod(action: Action, uid: Option<&str>, container: Option<&str>) -> Place {
        pod_of(action, "shop", "web-0", uid, container).unwrap()
    }

    #[test]
    fn the_paths_of_a_kubelet_are_understood() {
        for (path, want) in [
            ("/healthz", Place::Health),
            ("/metrics/resource", Place::Usage(Form::Metrics, None)),
            (
                "/metrics/resource/admiralty-shop-c2",
                usage_of(Form::Metrics, "admiralty-shop-c2").unwrap(),
            ),
            ("/stats/summary", Place::Usage(Form::Summary, None)),
            (
                "/stats/summary/admiralty-shop-c2",
                usage_of(Form::Summary, "admiralty-shop-c2").unwrap(),
            ),
            (
                "/containerLogs/shop/web-0/app",
                of_pod(Action::Logs, None, Some("app")),
            ),
            (
                "/exec/shop/web-0/app",
                of_pod(Action::Exec, None, Some("app")),
            ),
            (
                "/exec/shop/web-0/5f-6/app",
                of_pod(Action::Exec, Some("5f-6"), Some("app")),
            ),
            (
                "/attach/shop/web-0/app",
                of_pod(Action::Attach, None, Some("app")),
            ),
            (
                "/portForward/shop/web-0",
                of_pod(Action::PortForward, None, None),
            ),
            (
                "/portForward/shop/web-0/5f-6",
                of_pod(Action::PortForward, Some("5f-6"), None),
            ),
        ] {
            assert_eq!(route(&Method::GET, path), Ok(want), "{path}");
        }
    }

    #[test]
    fn what_is_not_offered_is_refused_by_name() {
        for (path, status, word) in [
            ("/", 404, "nodes offers containerLogs"),
            ("/pods", 404, "nodes offers containerLogs"),
            ("/metrics", 404, "nodes offers"),
            ("/metrics/cadvisor", 404, "nodes offers"),
            ("/metrics/resource/a/b", 404, "nodes offers"),
            ("/metrics/resource/A", 400, "no name"),
            ("/metrics/resource/", 400, "no name"),
            ("/stats/summary/..", 400, "no name"),
            ("/run/shop/web-0/app", 404, "nodes offers"),
            ("/containerLogs/shop/web-0", 404, "nodes offers"),
            ("/containerLogs/shop/web-0/u/app", 404, "nodes offers"),
            ("/containerLogs/shop/web%2f0/app", 400, "no name"),
            ("/containerLogs/../web-0/app", 400, "no name"),
            ("/exec/shop/web-0/u/app/x", 404, "nodes offers"),
            ("/exec/shop//app", 400, "no name"),
            ("/portForward/Shop/web-0", 400, "no name"),
        ] {
            let refusal = route(&Method::GET, path).unwrap_err();
            assert_eq!(refusal.status.as_u16(), status, "{path}");
            assert!(refusal.text.contains(word), "{path}: {}", refusal.text);
        }
        for path in [
            "/healthz",
            "/containerLogs/shop/web-0/app",
            "/metrics/resource",
        ] {
            assert_eq!(route(&Method::POST, path).unwrap_err().status, 405);
        }
        assert!(route(&Method::POST, "/exec/shop/web-0/app").is_ok());
        assert_eq!(
            route(&Method::PUT, "/exec/shop/web-0/app")
                .unwrap_err()
                .status,
            405
        );
    }

    #[test]
    fn what_a_caller_needs_is_what_a_kubelet_asks_for() {
        for (path, want) in [
            ("/containerLogs/a/b/c", "proxy"),
            ("/exec/a/b/c", "proxy"),
            ("/logs/x", "log"),
            ("/stats/summary", "stats"),
            ("/metrics", "metrics"),
            ("/metrics/resource/a", "metrics"),
            ("/metricsx", "proxy"),
            ("/", "proxy"),
            ("", "proxy"),
        ] {
            assert_eq!(subresource(path), want, "{path}");
        }
        assert_eq!(verb(&Method::GET), Some("get"));
        assert_eq!(verb(&Method::POST), Some("create"));
        assert_eq!(verb(&Method::DELETE), None);
    }
}
