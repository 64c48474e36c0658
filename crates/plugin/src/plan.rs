//! Which objects connect two clusters: pure.

use pilotage_api::{GROUP, Right, VERSION, keys};
use serde_json::{Value, json};

use crate::Side;
use crate::error::Error;
use crate::life::Life;

/// Who owns the fields that are written here.
pub(crate) const MANAGER: &str = keys::MANAGED_BY_CONNECT;
const MANAGED_BY: &str = keys::MANAGED_BY.0;
/// Key of the kubeconfig in its Secret.
pub(crate) const CONFIG: &str = "config";

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    /// Of the Target.
    pub(crate) target_name: String,
    /// Of the Source, and of its account.
    pub(crate) source_name: String,
    /// Whose pods may run there; `None`: those of all namespaces.
    pub(crate) namespace: Option<String>,
    /// Where account and Secrets of a connection for all namespaces are.
    pub(crate) home: String,
    /// What the source may do besides.
    pub(crate) rights: Vec<Right>,
    /// Who the source is, if that is known.
    pub(crate) source_uid: Option<String>,
    /// How long its token lives.
    pub(crate) life: Life,
}

/// What is to be done with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It is made.
    Connect {
        /// The namespace is labelled.
        label: bool,
        /// The token is made anew.
        renew: bool,
    },
    /// It is ended.
    Disconnect,
}

impl Connection {
    /// Namespace of the account and its token in the target, and of the kubeconfig in the source.
    pub(crate) fn place(&self) -> &str {
        self.namespace.as_deref().unwrap_or(&self.home)
    }

    /// Kind of the object in the target.
    pub(crate) const fn source_kind(&self) -> &'static str {
        if self.namespace.is_some() {
            "Source"
        } else {
            "ClusterSource"
        }
    }

    /// Kind of the object in the source.
    pub(crate) const fn target_kind(&self) -> &'static str {
        if self.namespace.is_some() {
            "Target"
        } else {
            "ClusterTarget"
        }
    }

    /// Name of the Secret with the token, in the target; or of the Role by which the source renews it, and its binding.
    pub(crate) fn token_name(&self) -> String {
        format!("{}-token", self.source_name)
    }

    /// Name of the Secret with the kubeconfig, in the source.
    pub(crate) fn secret_name(&self) -> String {
        format!("{}-kubeconfig", self.target_name)
    }

    fn ours(&self, kind: &str, name: &str) -> Value {
        let mut metadata = json!({ "name": name, "labels": { MANAGED_BY: MANAGER } });
        if let Some(namespace) = &self.namespace {
            metadata["namespace"] = json!(namespace);
        }
        json!({ "apiVersion": format!("{GROUP}/{VERSION}"), "kind": kind, "metadata": metadata })
    }

    /// In the target: who is let in.
    pub(crate) fn source(&self) -> Value {
        let mut object = self.ours(self.source_kind(), &self.source_name);
        object["spec"] = if self.namespace.is_some() {
            json!({ "serviceAccountName": self.source_name })
        } else {
            json!({ "serviceAccount": { "name": self.source_name, "namespace": self.home } })
        };
        if !self.rights.is_empty() {
            object["spec"]["rights"] = json!(self.rights);
        }
        if let Some(uid) = &self.source_uid {
            object["metadata"]["annotations"] = json!({ keys::SOURCE_CLUSTER_UID: uid });
        }
        object
    }

    /// In the target: Kubernetes fills it with a token of the account. It has no end; it goes with this Secret or the
    /// account.
    pub(crate) fn token(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": self.token_name(),
                "namespace": self.place(),
                "labels": { MANAGED_BY: MANAGER },
                "annotations": { "kubernetes.io/service-account.name": self.source_name },
            },
            "type": "kubernetes.io/service-account-token",
        })
    }

    /// What stands in the target beside the account.
    fn beside(&self, api_version: &str, kind: &str) -> Value {
        json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {
                "name": self.token_name(),
                "namespace": self.place(),
                "labels": { MANAGED_BY: MANAGER },
            },
        })
    }

    /// In the target: the right to make tokens of this one account.
    pub(crate) fn role(&self) -> Value {
        let mut object = self.beside(RBAC_VERSION, "Role");
        object["rules"] = json!([{
            "apiGroups": [""],
            "resources": [TOKENS],
            "resourceNames": [self.source_name],
            "verbs": ["create"],
        }]);
        object
    }

    /// In the target: that the account has that right.
    pub(crate) fn role_binding(&self) -> Value {
        let (name, place) = (&self.source_name, self.place());
        let mut object = self.beside(RBAC_VERSION, "RoleBinding");
        object["roleRef"] = json!({ "apiGroup": RBAC, "kind": "Role", "name": self.token_name() });
        object["subjects"] =
            json!([{ "kind": "ServiceAccount", "name": name, "namespace": place }]);
        object
    }

    /// In the target: the account, so that what needs it isn't there before it.
    fn account(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {
                "name": self.source_name,
                "namespace": self.place(),
                "labels": { MANAGED_BY: MANAGER },
            },
        })
    }

    /// In the source: where pods may run.
    pub(crate) fn target(&self) -> Value {
        let mut object = self.ours(self.target_kind(), &self.target_name);
        let mut secret = json!({ "name": self.secret_name() });
        if self.namespace.is_none() {
            secret["namespace"] = json!(self.home);
        }
        object["spec"] = json!({ "kubeconfigSecret": secret });
        object
    }

    /// In the source: how the target is reached.
    pub(crate) fn secret(&self, kubeconfig: &impl ToString) -> Value {
        let mut object = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": self.secret_name(),
                "namespace": self.place(),
                "labels": { MANAGED_BY: MANAGER },
            },
            "stringData": { CONFIG: kubeconfig.to_string() },
        });
        if let Life::Renewed(life) = self.life {
            object["metadata"]["annotations"] = json!({ keys::TOKEN_LIFE: life.to_string() });
        }
        object
    }

    /// What a person keeps in git: everything without a credential.
    pub(crate) fn manifests(&self, label: bool) -> Result<String, Error> {
        let place = self.place();
        let (name, secret) = (&self.source_name, self.secret_name());
        let (first, mark, more) = match self.life {
            Life::Endless => {
                let token = self.token_name();
                let first = format!("{token} gets a token from Kubernetes.");
                (first, String::new(), vec![self.token()])
            }
            Life::Renewed(life) => {
                let first = format!("{name} may make tokens of itself.");
                let token =
                    format!("kubectl create token {name} --namespace {place} --duration {life}");
                let mark = format!(
                    ",\n# as \"{token}\" makes it there. The source renews it if the Secret has the annotation\n# {}: \
                     {life}",
                    keys::TOKEN_LIFE
                );
                (first, mark, vec![self.role(), self.role_binding()])
            }
        };
        let more: Vec<String> = more.iter().map(yaml).collect::<Result<_, _>>()?;
        let mut text = format!(
            "# In the target. {first}\n{source}---\n{account}---\n{more}---\n# In the source. Not here: Secret \
             {place}/{secret}, whose key {CONFIG} is a kubeconfig with that token{mark}.\n{target}",
            source = yaml(&self.source())?,
            account = yaml(&self.account())?,
            more = more.join("---\n"),
            target = yaml(&self.target())?,
        );
        if let Some(namespace) = self.namespace.as_deref().filter(|_| label) {
            // Not as an object: who takes the others away again would take the namespace with them.
            let label = format!("{}={}", keys::NAMESPACE_LABEL, keys::NAMESPACE_LABEL_VALUE);
            text = format!("{text}# Also there: kubectl label namespace {namespace} {label}\n");
        }
        Ok(text)
    }

    /// What the user has to be allowed on one side.
    pub(crate) fn needs(&self, side: Side, doing: Doing) -> Vec<Need> {
        let resource = match (side, self.namespace.is_some()) {
            (Side::Target, true) => "sources",
            (Side::Target, false) => "clustersources",
            (Side::Source | Side::Cluster, true) => "targets",
            (Side::Source | Side::Cluster, false) => "clustertargets",
        };
        let (own, secrets): (&[&'static str], &[&'static str]) = match (side, doing) {
            (Side::Target, Doing::Connect { renew, .. }) => {
                let secrets: &[&'static str] = match (self.life, renew) {
                    (Life::Endless, false) => &WRITE,
                    (Life::Endless, true) => &RENEW,
                    (Life::Renewed(_), false) => &["get"],
                    (Life::Renewed(_), true) => &["get", "delete"],
                };
                (&WRITE, secrets)
            }
            (Side::Source | Side::Cluster, Doing::Connect { .. }) => {
                (&WRITE, &["get", "create", "patch"])
            }
            (Side::Target, Doing::Disconnect) => (&["get", "delete"], &["get", "delete"]),
            (Side::Source | Side::Cluster, Doing::Disconnect) => {
                (&["get", "list", "watch", "delete"], &["get", "delete"])
            }
        };
        let need = |group, resource, namespace: Option<&str>| {
            let namespace = namespace.map(str::to_owned);
            move |verb: &&'static str| Need {
                group,
                resource,
                verb,
                namespace: namespace.clone(),
            }
        };
        let place = Some(self.place());
        let mut needs: Vec<Need> = own
            .iter()
            .map(need(GROUP, resource, self.namespace.as_deref()))
            .collect();
        needs.extend(secrets.iter().map(need("", "secrets", place)));
        if let Doing::Connect { label, renew } = doing {
            match side {
                Side::Target => {
                    let ends = self.life.ends();
                    // All tokens end with their account, which is made anew.
                    let again: &[&'static str] = if ends && renew {
                        &["get", "list", "watch", "delete"]
                    } else {
                        &["get"]
                    };
                    needs.extend(again.iter().map(need("", "serviceaccounts", place)));
                    if ends {
                        needs.extend(["create"].iter().map(need("", TOKENS, place)));
                        for resource in ["roles", "rolebindings"] {
                            let verbs = ["get", "create", "patch"];
                            needs.extend(verbs.iter().map(need(RBAC, resource, place)));
                        }
                    }
                }
                Side::Source if label && self.namespace.is_some() => {
                    needs.extend(["patch"].iter().map(need("", "namespaces", None)));
                }
                Side::Source | Side::Cluster => {}
            }
        }
        needs
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";
const RBAC_VERSION: &str = "rbac.authorization.k8s.io/v1";
/// What makes tokens of an account.
const TOKENS: &str = "serviceaccounts/token";

/// To make an object, to see whether it is there, and to wait for what becomes of it.
const WRITE: [&str; 5] = ["get", "list", "watch", "create", "patch"];
/// The same of one that is made anew.
const RENEW: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];

/// Whether one version of an object is at least as new as another one. Versions are decimal numbers of any length; of
/// others only the same is known to be as new.
pub(crate) fn is_as_new(version: &str, as_this: &str) -> bool {
    let number = |text: &str| text.bytes().all(|it| it.is_ascii_digit()) && !text.starts_with('0');
    if number(version) && number(as_this) {
        return (version.len(), version) >= (as_this.len(), as_this);
    }
    version == as_this
}

/// Something that one has to be allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) group: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) verb: &'static str,
    pub(crate) namespace: Option<String>,
}

/// What somebody may not do, each resource once: `create, patch secrets of namespace shop`.
pub(crate) fn listed(missing: &[Need]) -> Vec<String> {
    let mut all: Vec<(String, Vec<&str>)> = Vec::new();
    for Need {
        group: _,
        resource,
        verb,
        namespace,
    } in missing
    {
        let of = match namespace {
            Some(namespace) => format!("{resource} of namespace {namespace}"),
            None => (*resource).to_owned(),
        };
        match all.iter_mut().find(|(known, _)| *known == of) {
            Some((_, verbs)) => verbs.push(verb),
            None => all.push((of, vec![verb])),
        }
    }
    all.into_iter()
        .map(|(of, verbs)| format!("{} {of}", verbs.join("/")))
        .collect()
}

/// The name of an object, made of that of a context, which may be anything.
pub(crate) fn name_of(context: &str) -> String {
    let plain = context.to_ascii_lowercase();
    let plain = plain.replace(|it: char| !it.is_ascii_alphanumeric(), "-");
    plain.trim_matches('-').to_owned()
}

/// Whether Targets, Sources and accounts can have this name.
pub(crate) fn is_name(name: &str) -> bool {
    let fits = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
    !name.is_empty() && name.len() <= 63 && name.chars().all(fits) && name.trim_matches('-') == name
}

/// Whether an object was made by this command.
pub(crate) fn is_ours(meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> bool {
    let labels = meta.labels.as_ref();
    managed_by(labels) == Some(MANAGER)
}

/// Whether an account was made for a Source, by Pilotage or by this command.
pub(crate) fn is_of_a_source(
    meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
) -> bool {
    is_ours(meta) || managed_by(meta.labels.as_ref()) == Some(keys::MANAGED_BY.1)
}

fn managed_by(labels: Option<&std::collections::BTreeMap<String, String>>) -> Option<&str> {
    labels?.get(MANAGED_BY).map(String::as_str)
}

/// One object as a YAML document.
pub(crate) fn yaml(value: &Value) -> Result<String, Error> {
    serde_saphyr::to_string(value).map_err(|error| Error::Render(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONNECT: Doing = Doing::Connect {
        label: true,
        renew: true,
    };

    fn connection(namespace: Option<&str>) -> Connection {
        Connection {
            target_name: "paris".to_owned(),
            source_name: "london".to_owned(),
            namespace: namespace.map(str::to_owned),
            home: "pilotage".to_owned(),
            rights: vec![Right::Logs],
            source_uid: None,
            life: Life::Endless,
        }
    }

    fn renewed(namespace: Option<&str>) -> Connection {
        Connection {
            life: Life::default(),
            ..connection(namespace)
        }
    }

    #[test]
    fn one_namespace_has_everything_in_it() {
        let it = connection(Some("shop"));
        for object in [it.source(), it.token(), it.target(), it.secret(&json!({}))] {
            assert_eq!(object["metadata"]["namespace"], "shop", "{object}");
        }
        assert_eq!(
            it.source()["spec"],
            json!({ "serviceAccountName": "london", "rights": ["Logs"] })
        );
        assert_eq!(
            it.target()["spec"],
            json!({ "kubeconfigSecret": { "name": "paris-kubeconfig" } })
        );
        let text = it.manifests(true).unwrap();
        assert_eq!(text.matches("kind: ").count(), 4, "{text}");
        assert!(!text.contains("kind: Namespace"), "{text}");
        assert!(
            text.contains("label namespace shop multicluster-scheduler=enabled"),
            "{text}"
        );
        assert!(!it.manifests(false).unwrap().contains("label namespace"));
    }

    #[test]
    fn the_objects_of_a_connection_with_what_follows() {
        let it = Connection {
            rights: vec![Right::FollowConfigMaps, Right::FollowSecrets],
            source_uid: Some("u".to_owned()),
            ..connection(Some("shop"))
        };
        let labels = json!({ "app.kubernetes.io/managed-by": "kubectl-pilotage" });
        let meta = |name: &str| json!({ "name": name, "namespace": "shop", "labels": labels });
        let mut let_in = meta("london");
        let_in["annotations"] = json!({ keys::SOURCE_CLUSTER_UID: "u" });
        let version = "multicluster.admiralty.io/v1alpha1";
        assert_eq!(
            it.source(),
            json!({
                "apiVersion": version,
                "kind": "Source",
                "metadata": let_in,
                "spec": { "serviceAccountName": "london", "rights": ["FollowConfigMaps", "FollowSecrets"] },
            })
        );
        assert_eq!(
            it.account(),
            json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta("london") })
        );
        let mut of_account = meta("london-token");
        of_account["annotations"] = json!({ "kubernetes.io/service-account.name": "london" });
        assert_eq!(
            it.token(),
            json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": of_account,
                "type": "kubernetes.io/service-account-token",
            })
        );
        assert_eq!(
            it.target(),
            json!({
                "apiVersion": version,
                "kind": "Target",
                "metadata": meta("paris"),
                "spec": { "kubeconfigSecret": { "name": "paris-kubeconfig" } },
            })
        );
        assert_eq!(
            it.secret(&json!({ "kind": "Config" })),
            json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": meta("paris-kubeconfig"),
                "stringData": { "config": "{\"kind\":\"Config\"}" },
            })
        );
        // What is printed for git is the same.
        let printed = it.manifests(false).unwrap();
        let printed: Vec<Value> = serde_saphyr::from_multiple(&printed).unwrap();
        assert_eq!(
            printed,
            [it.source(), it.account(), it.token(), it.target()]
        );
    }

    #[test]
    fn a_token_that_ends_comes_with_the_right_to_renew_it_and_no_other_one() {
        let it = renewed(Some("shop"));
        let labels = json!({ "app.kubernetes.io/managed-by": "kubectl-pilotage" });
        let meta = json!({ "name": "london-token", "namespace": "shop", "labels": labels });
        assert_eq!(
            it.role(),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": meta,
                "rules": [{
                    "apiGroups": [""],
                    "resources": ["serviceaccounts/token"],
                    "resourceNames": ["london"],
                    "verbs": ["create"],
                }],
            })
        );
        assert_eq!(
            it.role_binding(),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": meta,
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "london-token" },
                "subjects": [{ "kind": "ServiceAccount", "name": "london", "namespace": "shop" }],
            })
        );
        let mark = &it.secret(&"{}")["metadata"]["annotations"];
        assert_eq!(
            mark,
            &json!({ "multicluster.admiralty.io/token-life": "720h" })
        );
        let endless = connection(Some("shop")).secret(&"{}");
        assert_eq!(endless["metadata"].get("annotations"), None);

        let printed = it.manifests(true).unwrap();
        let told = "kubectl create token london --namespace shop --duration 720h";
        assert!(printed.contains(told), "{printed}");
        assert!(
            printed.contains("\n# multicluster.admiralty.io/token-life: 720h.\n"),
            "{printed}"
        );
        let printed: Vec<Value> = serde_saphyr::from_multiple(&printed).unwrap();
        let objects = [
            it.source(),
            it.account(),
            it.role(),
            it.role_binding(),
            it.target(),
        ];
        assert_eq!(printed, objects);

        let at_home = renewed(None);
        let subjects =
            json!([{ "kind": "ServiceAccount", "name": "london", "namespace": "pilotage" }]);
        assert_eq!(at_home.role_binding()["subjects"], subjects);
        assert_eq!(at_home.role()["metadata"]["namespace"], "pilotage");
    }

    #[test]
    fn all_namespaces_have_it_at_home() {
        let it = connection(None);
        let account = json!({ "name": "london", "namespace": "pilotage" });
        assert_eq!(
            (
                it.source()["kind"].as_str(),
                &it.source()["spec"]["serviceAccount"]
            ),
            (Some("ClusterSource"), &account)
        );
        assert_eq!(it.token()["metadata"]["namespace"], "pilotage");
        let secret = json!({ "name": "paris-kubeconfig", "namespace": "pilotage" });
        assert_eq!(it.target()["spec"]["kubeconfigSecret"], secret);
        assert_eq!(it.target()["metadata"].get("namespace"), None);
        assert!(!it.manifests(true).unwrap().contains("kind: Namespace"));
        assert!(
            it.needs(Side::Source, CONNECT)
                .iter()
                .all(|need| need.resource != "namespaces")
        );
    }

    #[test]
    fn what_is_missing_is_told_once_a_resource() {
        let it = connection(Some("shop"));
        let said = |side, doing| listed(&it.needs(side, doing));
        assert_eq!(
            said(Side::Source, CONNECT),
            [
                "get/list/watch/create/patch targets of namespace shop",
                "get/create/patch secrets of namespace shop",
                "patch namespaces",
            ]
        );
        assert_eq!(
            said(Side::Target, CONNECT),
            [
                "get/list/watch/create/patch sources of namespace shop",
                "get/list/watch/create/patch/delete secrets of namespace shop",
                "get serviceaccounts of namespace shop",
            ]
        );
        let once = Doing::Connect {
            label: true,
            renew: false,
        };
        for (doing, secrets, accounts) in [
            (once, "get", "get"),
            (CONNECT, "get/delete", "get/list/watch/delete"),
        ] {
            assert_eq!(
                listed(&renewed(Some("shop")).needs(Side::Target, doing)),
                [
                    "get/list/watch/create/patch sources of namespace shop".to_owned(),
                    format!("{secrets} secrets of namespace shop"),
                    format!("{accounts} serviceaccounts of namespace shop"),
                    "create serviceaccounts/token of namespace shop".to_owned(),
                    "get/create/patch roles of namespace shop".to_owned(),
                    "get/create/patch rolebindings of namespace shop".to_owned(),
                ]
            );
        }
        assert_eq!(
            said(Side::Target, Doing::Disconnect),
            [
                "get/delete sources of namespace shop",
                "get/delete secrets of namespace shop"
            ]
        );
    }

    #[test]
    fn a_sources_identity_stands_on_its_object() {
        let it = Connection {
            source_uid: Some("u".to_owned()),
            ..connection(None)
        };
        assert_eq!(
            it.source()["metadata"]["annotations"],
            json!({ "multicluster.admiralty.io/source-cluster-uid": "u" })
        );
    }

    #[test]
    fn versions_are_numbers() {
        for (version, as_this, want) in [
            ("10", "9", true),
            ("9", "10", false),
            ("9", "9", true),
            ("18446744073709551617", "18446744073709551616", true),
            ("a", "9", false),
            ("a", "a", true),
        ] {
            assert_eq!(is_as_new(version, as_this), want, "{version} {as_this}");
        }
    }

    #[test]
    fn names_of_contexts_become_names_of_objects() {
        for (context, name, fits) in [
            ("kind-paris", "kind-paris", true),
            ("admin@Paris", "admin-paris", true),
            (
                "arn:aws:eks:eu-west-1:1:cluster/x_y",
                "arn-aws-eks-eu-west-1-1-cluster-x-y",
                true,
            ),
            ("//", "", false),
        ] {
            assert_eq!(name_of(context), name);
            assert_eq!(is_name(name), fits, "{name}");
        }
        assert!(!is_name(&"a".repeat(64)) && !is_name("a.b") && !is_name("-a"));
    }
}
