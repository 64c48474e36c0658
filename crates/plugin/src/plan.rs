//! Which objects connect two clusters: pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
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
        /// So is its account: what was given out for it may end long after.
        anew: bool,
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

    /// In the target: the account in place of one that is deleted. It is whose that one was; else the controllers',
    /// which let it go with its Source.
    pub(crate) fn account_anew(&self, old: Option<&ObjectMeta>) -> Value {
        let by = old.and_then(|old| managed_by(old.labels.as_ref()));
        let mut account = self.account();
        account["metadata"]["labels"][MANAGED_BY] = json!(by.unwrap_or(keys::MANAGED_BY.1));
        account
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
        if let Doing::Connect { label, anew, .. } = doing {
            match side {
                Side::Target => {
                    let ends = self.life.ends();
                    let again: &[&'static str] = if anew {
                        &["get", "list", "watch", "create", "delete"]
                    } else {
                        &["get"]
                    };
                    needs.extend(again.iter().map(need("", "serviceaccounts", place)));
                    let renewal: &[&'static str] = match (ends, anew) {
                        (true, _) => &["get", "create", "patch"],
                        (false, true) => &["get", "delete"],
                        (false, false) => &[],
                    };
                    if ends {
                        needs.extend(["create"].iter().map(need("", TOKENS, place)));
                    }
                    for resource in ["roles", "rolebindings"] {
                        needs.extend(renewal.iter().map(need(RBAC, resource, place)));
                    }
                }
                Side::Source if label && self.namespace.is_some() => {
                    let namespace = self.namespace.as_deref();
                    needs.extend(["patch"].iter().map(need("", "namespaces", namespace)));
                }
                Side::Source | Side::Cluster => {}
            }
        }
        needs
    }
}

pub(crate) const RBAC: &str = "rbac.authorization.k8s.io";
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
    /// Where. A namespace itself is an object there: who has rights in it may have this one, too.
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
            Some(namespace) if *resource == "namespaces" => format!("namespace {namespace}"),
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
pub(crate) fn is_ours(meta: &ObjectMeta) -> bool {
    let labels = meta.labels.as_ref();
    managed_by(labels) == Some(MANAGER)
}

/// Whether an account was made for a Source, by Pilotage or by this command.
pub(crate) fn is_of_a_source(meta: &ObjectMeta) -> bool {
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
#[path = "plan/tests.rs"]
mod tests;
