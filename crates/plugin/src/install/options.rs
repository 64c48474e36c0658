//! What `install` turns on beyond the chart's default values, and what that changes in its objects: pure.

use clap::Args;
use pilotage_api::Right;
use serde_json::{Value, json};

use super::manifest;
use crate::rights::{self, Follow, Rights};

/// The account and the roles of the controllers.
const CONTROLLERS: &str = "pilotage-controllers";
const PROXY_SCHEDULER: &str = "pilotage-proxy-scheduler";
/// Where the controllers answer for kubelets.
const KUBELET_PORT: u16 = 10250;

/// What an installation does beyond what every one does.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Options {
    /// In a source: what follows pods into targets, separated by commas: configmaps, secrets, services, ingresses.
    /// Without it, nothing does.
    #[arg(long, value_name = "KINDS", value_parser = Follow::parse)]
    follow: Option<Follow>,

    /// In a target: rights that sources may be given, separated by commas: logs, exec, attach, port-forward, metrics,
    /// follow-configmaps, follow-secrets, follow-services, follow-ingresses. Without it, none.
    #[arg(long, value_name = "RIGHTS", value_parser = Rights::parse)]
    rights: Option<Rights>,

    /// In a source: have the controllers answer kubectl logs, exec and their like for pods in targets.
    #[arg(long)]
    kubelet: bool,

    /// In a source: have the proxy scheduler serve the live page.
    #[arg(long)]
    dashboard: bool,
}

/// What the roles of the controllers depend on.
#[derive(Clone, Debug, Default)]
pub struct RolesFor {
    /// Where Pilotage runs.
    pub namespace: String,
    /// What sources may be given here.
    pub rights: Vec<Right>,
    /// The rights of what follows pods from here.
    pub follow: Vec<Right>,
    /// Whether the controllers answer for kubelets.
    pub kubelet: bool,
}

impl RolesFor {
    /// With everything turned on.
    pub(crate) fn all(namespace: &str) -> Self {
        let follow = Right::ALL.into_iter();
        Self {
            namespace: namespace.to_owned(),
            rights: Right::ALL.to_vec(),
            follow: follow.filter(|it| rights::kind(*it).is_some()).collect(),
            kubelet: true,
        }
    }
}

/// The roles of the controllers, as whoever knows their tables prints them, without bindings.
pub type Roles = fn(&RolesFor) -> Vec<Value>;

impl Options {
    /// What the roles have to let the controllers do.
    pub(crate) fn roles_for(&self, namespace: &str) -> RolesFor {
        RolesFor {
            namespace: namespace.to_owned(),
            rights: self.rights.clone().unwrap_or_default().0,
            follow: self.follow.clone().map(|it| it.0).unwrap_or_default(),
            kubelet: self.kubelet,
        }
    }

    /// The kinds that follow. Ingresses bring Services along.
    pub(crate) fn follows(&self) -> Vec<&'static str> {
        let follow = self.follow.iter().flat_map(|it| &it.0);
        let mut kinds: Vec<_> = follow.filter_map(|it| rights::kind(*it)).collect();
        if kinds.contains(&"ingresses") {
            kinds.push("services");
        }
        kinds
    }

    /// Turns it on in the chart's objects.
    pub(crate) fn apply(&self, objects: &mut Vec<Value>, roles: &[Value]) {
        with_roles(objects, roles);
        let follow = self.follow.iter().flat_map(|it| &it.0);
        let kinds: Vec<&str> = follow.filter_map(|it| rights::kind(*it)).collect();
        for object in objects {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
            match (kind.as_str(), name.as_str()) {
                ("Deployment", CONTROLLERS) => {
                    let container = container(object);
                    if !kinds.is_empty() {
                        let flag = format!("--follow={}", kinds.join(","));
                        push(&mut container["args"], json!(flag));
                    }
                    if self.kubelet {
                        answer_for_kubelets(container);
                    }
                }
                ("Deployment", PROXY_SCHEDULER) if self.dashboard => {
                    push(&mut container(object)["args"], json!("--dashboard"));
                }
                ("NetworkPolicy", CONTROLLERS) if self.kubelet => {
                    let port = json!({ "port": KUBELET_PORT, "protocol": "TCP" });
                    push(&mut object["spec"]["ingress"], json!({ "ports": [port] }));
                }
                _ => {}
            }
        }
    }
}

fn container(deployment: &mut Value) -> &mut Value {
    &mut deployment["spec"]["template"]["spec"]["containers"][0]
}

fn answer_for_kubelets(container: &mut Value) {
    push(&mut container["args"], json!("--kubelet-address=$(POD_IP)"));
    let own = json!({ "fieldRef": { "fieldPath": "status.podIP" } });
    push(
        &mut container["env"],
        json!({ "name": "POD_IP", "valueFrom": own }),
    );
    let port = json!({ "name": "kubelet", "containerPort": KUBELET_PORT, "protocol": "TCP" });
    push(&mut container["ports"], port);
}

/// Adds to a list, which may not be there yet.
fn push(list: &mut Value, item: Value) {
    if let Value::Array(items) = list {
        items.push(item);
    } else {
        *list = json!([item]);
    }
}

/// Which object a role or a binding is.
fn key(object: &Value) -> (Option<&str>, Option<&str>, Option<&str>) {
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"].as_str();
    (
        object["kind"].as_str(),
        namespace,
        metadata["name"].as_str(),
    )
}

/// Gives the controllers these roles in place of those that the chart has by default. What isn't there yet comes with
/// the labels of what is, and is bound as that is, unless it is a role for others.
pub(crate) fn with_roles(objects: &mut Vec<Value>, roles: &[Value]) {
    let labels = of_controllers(objects, "ClusterRole")["metadata"]["labels"].clone();
    let binding = of_controllers(objects, "RoleBinding");
    let mut more = Vec::new();
    for role in roles {
        if let Some(there) = objects.iter_mut().find(|it| key(it) == key(role)) {
            there["rules"] = role["rules"].clone();
            continue;
        }
        let mut role = role.clone();
        role["metadata"]["labels"] = labels.clone();
        if role["kind"] == "Role" {
            let mut binding = binding.clone();
            binding["metadata"]["namespace"] = role["metadata"]["namespace"].clone();
            more.push(binding);
        }
        more.push(role);
    }
    let parts = objects.iter().position(|it| it["kind"] == "Deployment");
    let at = parts.unwrap_or(objects.len());
    drop(objects.splice(at..at, more));
}

/// The first object of a kind that has the controllers' name.
fn of_controllers(objects: &[Value], kind: &str) -> Value {
    let mut all = objects.iter();
    let found = all.find(|it| it["kind"] == kind && it["metadata"]["name"] == CONTROLLERS);
    found.cloned().unwrap_or_default()
}

/// The roles and bindings that these objects have and those don't: what an earlier installation may have turned on.
pub(crate) fn turned_off(objects: &[Value], all: Vec<Value>) -> Vec<Value> {
    let gone = all.into_iter().filter(|it| {
        let kind = it["kind"].as_str().unwrap_or_default();
        let is_role = kind.ends_with("Role") || kind.ends_with("RoleBinding");
        is_role && !objects.iter().any(|there| key(there) == key(it))
    });
    gone.collect()
}

/// All objects that there may be in a namespace, whatever was turned on.
pub(crate) fn everything(namespace: &str, roles: Roles) -> Result<Vec<Value>, crate::Error> {
    let mut objects = manifest::of_any_image(namespace)?;
    with_roles(&mut objects, &roles(&RolesFor::all(namespace)));
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(of: &RolesFor) -> Vec<Value> {
        let role = |kind: &str, namespace: Option<&str>, name: &str| {
            json!({
                "kind": kind,
                "metadata": { "name": name, "namespace": namespace },
                "rules": [{ "verbs": [of.rights.len().to_string()] }],
            })
        };
        let mut all = vec![role("ClusterRole", None, CONTROLLERS)];
        if of.kubelet {
            all.push(role("Role", Some("kube-system"), CONTROLLERS));
        }
        let given = of.rights.iter();
        all.extend(given.map(|it| role("ClusterRole", None, &format!("source-{}", it.flag()))));
        all
    }

    fn options() -> Options {
        Options {
            follow: Some(Follow::parse("configmaps,secrets").unwrap()),
            rights: Some(Rights::parse("exec,logs").unwrap()),
            kubelet: true,
            dashboard: true,
        }
    }

    fn of<'a>(objects: &'a [Value], kind: &str, namespace: Option<&str>, name: &str) -> &'a Value {
        let found = objects.iter().find(|it| {
            it["kind"] == kind
                && it["metadata"]["name"] == name
                && it["metadata"]["namespace"].as_str() == namespace
        });
        found.unwrap()
    }

    #[test]
    fn what_is_turned_on_is_in_flags_roles_and_policies() {
        let mut objects = manifest::of_any_image("ships").unwrap();
        let count = objects.len();
        let options = options();
        options.apply(&mut objects, &roles(&options.roles_for("ships")));
        // A role with its binding, and two for others.
        assert_eq!(objects.len(), count + 4);
        let controllers = of(&objects, "Deployment", Some("ships"), CONTROLLERS);
        let container = &controllers["spec"]["template"]["spec"]["containers"][0];
        let text = container.to_string();
        for word in [
            "--follow=configmaps,secrets",
            "--kubelet-address=$(POD_IP)",
            "status.podIP",
            "10250",
        ] {
            assert!(text.contains(word), "{word}: {text}");
        }
        let scheduler = of(&objects, "Deployment", Some("ships"), PROXY_SCHEDULER);
        assert!(scheduler.to_string().contains("--dashboard"));
        let policy = of(&objects, "NetworkPolicy", Some("ships"), CONTROLLERS);
        assert_eq!(policy["spec"]["ingress"][1]["ports"][0]["port"], 10250);
        let own = of(&objects, "ClusterRole", None, CONTROLLERS);
        assert_eq!(own["rules"], json!([{ "verbs": ["2"] }]));
        let given = of(&objects, "ClusterRole", None, "source-logs");
        assert_eq!(given["metadata"]["labels"], own["metadata"]["labels"]);
        let bound = of(&objects, "RoleBinding", Some("kube-system"), CONTROLLERS);
        assert_eq!(bound["subjects"][0]["namespace"], "ships");
    }

    #[test]
    fn what_is_not_turned_on_any_more_goes() {
        let mut objects = manifest::of_any_image("ships").unwrap();
        let options = Options {
            rights: Some(Rights::parse("logs").unwrap()),
            ..Options::default()
        };
        options.apply(&mut objects, &roles(&options.roles_for("ships")));
        let all = everything("ships", roles).unwrap();
        let gone = turned_off(&objects, all);
        let of_sources = Right::ALL.len() - 1;
        assert_eq!(gone.len(), of_sources + 2, "{gone:#?}");
        assert!(
            gone.iter()
                .all(|it| it["metadata"]["name"] != "source-logs")
        );
    }
}
