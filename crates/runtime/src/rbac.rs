//! The RBAC rules of a component as `const` data, and their rendering into Kubernetes roles.
//!
//! Owns the `Rule` type and what it becomes. Each component keeps a table of rules next to the code
//! that needs them; this file must not know any component.

use serde_json::{Value, json};

/// Where a [`Rule`] applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The whole cluster: all namespaces, cluster-scoped objects and non-resource URLs.
    Cluster,
    /// The namespace where the component itself is installed.
    OwnNamespace,
    /// One namespace with a fixed name, such as `kube-system`.
    Namespace(&'static str),
    /// The namespaces that whoever installs the component names for it; without any, the whole cluster.
    GivenNamespaces,
}

/// One RBAC rule. Tables of them are `const`, so that they can stand next to the code that needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Where it applies.
    pub scope: Scope,
    /// API groups; `""` is the core group.
    pub groups: &'static [&'static str],
    /// Resources and subresources (`pods`, `pods/status`).
    pub resources: &'static [&'static str],
    /// Object names; empty means all. Kubernetes can't restrict `create`, `list` and `watch` of
    /// unnamed requests by name.
    pub names: &'static [&'static str],
    /// Verbs.
    pub verbs: &'static [&'static str],
    /// Paths such as `/version`; only with [`Scope::Cluster`], and then without resources.
    pub non_resource_urls: &'static [&'static str],
}

impl Rule {
    /// A rule for the whole cluster.
    pub const fn cluster(
        groups: &'static [&'static str],
        resources: &'static [&'static str],
        verbs: &'static [&'static str],
    ) -> Self {
        Self {
            scope: Scope::Cluster,
            groups,
            resources,
            names: &[],
            verbs,
            non_resource_urls: &[],
        }
    }

    /// A rule for the namespace where the component is installed.
    pub const fn own_namespace(
        groups: &'static [&'static str],
        resources: &'static [&'static str],
        verbs: &'static [&'static str],
    ) -> Self {
        Self {
            scope: Scope::OwnNamespace,
            ..Self::cluster(groups, resources, verbs)
        }
    }

    /// A rule for one namespace with a fixed name.
    pub const fn namespace(
        namespace: &'static str,
        groups: &'static [&'static str],
        resources: &'static [&'static str],
        verbs: &'static [&'static str],
    ) -> Self {
        Self {
            scope: Scope::Namespace(namespace),
            ..Self::cluster(groups, resources, verbs)
        }
    }

    /// A rule for the namespaces that are named at the installation, or for all.
    pub const fn given_namespaces(
        groups: &'static [&'static str],
        resources: &'static [&'static str],
        verbs: &'static [&'static str],
    ) -> Self {
        Self {
            scope: Scope::GivenNamespaces,
            ..Self::cluster(groups, resources, verbs)
        }
    }

    /// A rule for paths that are no resources.
    pub const fn urls(urls: &'static [&'static str], verbs: &'static [&'static str]) -> Self {
        Self {
            non_resource_urls: urls,
            ..Self::cluster(&[], &[], verbs)
        }
    }

    /// The same rule, for objects of these names only.
    #[must_use]
    pub const fn named(self, names: &'static [&'static str]) -> Self {
        Self { names, ..self }
    }

    /// The rule as an entry of `rules:` of a `Role` or `ClusterRole`.
    pub fn to_json(&self) -> Value {
        let mut rule = serde_json::Map::new();
        for (key, values) in [
            ("apiGroups", self.groups),
            ("resources", self.resources),
            ("resourceNames", self.names),
            ("nonResourceURLs", self.non_resource_urls),
            ("verbs", self.verbs),
        ] {
            if !values.is_empty() {
                rule.insert(key.to_owned(), json!(values));
            }
        }
        Value::Object(rule)
    }
}

/// The service account that gets a component's roles.
#[derive(Debug, Clone, Copy)]
pub struct Account<'a> {
    /// Its namespace, which is also what [`Scope::OwnNamespace`] means.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

impl Account<'_> {
    /// The ServiceAccount object.
    pub fn to_json(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"namespace": self.namespace, "name": self.name, "labels": labels()},
        })
    }

    fn subject(&self) -> Value {
        json!({"kind": "ServiceAccount", "namespace": self.namespace, "name": self.name})
    }
}

/// [`render_in`] with the whole cluster for rules of [`Scope::GivenNamespaces`].
pub fn render<'r>(
    role: &str,
    account: Account<'_>,
    rules: impl IntoIterator<Item = &'r Rule>,
) -> Vec<Value> {
    render_in(role, account, &[], rules)
}

/// Renders rules into roles called `role` and their bindings to `account`, ready to be applied: a
/// `ClusterRole` with its binding if a rule is cluster-wide, and a `Role` with its binding for each
/// namespace that a rule names, in order of first use. Rules of [`Scope::GivenNamespaces`] are for
/// each namespace in `given`, or cluster-wide if there is none. Equal rules are written once.
pub fn render_in<'r>(
    role: &str,
    account: Account<'_>,
    given: &[String],
    rules: impl IntoIterator<Item = &'r Rule>,
) -> Vec<Value> {
    let mut by_scope: Vec<(Option<&str>, Vec<&Rule>)> = Vec::new();
    for rule in rules {
        let namespaces: Vec<Option<&str>> = match rule.scope {
            Scope::GivenNamespaces if !given.is_empty() => {
                given.iter().map(|name| Some(name.as_str())).collect()
            }
            Scope::Cluster | Scope::GivenNamespaces => vec![None],
            Scope::OwnNamespace => vec![Some(account.namespace)],
            Scope::Namespace(name) => vec![Some(name)],
        };
        for namespace in namespaces {
            let known = by_scope.iter().position(|(ns, _)| *ns == namespace);
            let index = known.unwrap_or(by_scope.len());
            if known.is_none() {
                by_scope.push((namespace, Vec::new()));
            }
            let scoped = &mut by_scope[index].1;
            if !scoped.iter().any(|other| other.to_json() == rule.to_json()) {
                scoped.push(rule);
            }
        }
    }
    by_scope
        .into_iter()
        .flat_map(|(namespace, rules)| {
            let (role_kind, binding_kind) = match namespace {
                None => ("ClusterRole", "ClusterRoleBinding"),
                Some(_) => ("Role", "RoleBinding"),
            };
            let metadata = match namespace {
                None => json!({"name": role, "labels": labels()}),
                Some(namespace) => {
                    json!({"namespace": namespace, "name": role, "labels": labels()})
                }
            };
            [
                json!({
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": role_kind,
                    "metadata": metadata,
                    "rules": rules.iter().map(|rule| rule.to_json()).collect::<Vec<_>>(),
                }),
                json!({
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": binding_kind,
                    "metadata": metadata,
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": role_kind,
                        "name": role,
                    },
                    "subjects": [account.subject()],
                }),
            ]
        })
        .collect()
}

fn labels() -> Value {
    json!({"app.kubernetes.io/name": "pilotage"})
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &[Rule] = &[
        Rule::cluster(&[""], &["pods"], &["get", "list", "watch"]),
        Rule::own_namespace(&["coordination.k8s.io"], &["leases"], &["get", "patch"])
            .named(&["pilotage-x"]),
        Rule::urls(&["/version"], &["get"]),
        Rule::namespace("kube-system", &[""], &["configmaps"], &["get"]),
        Rule::own_namespace(&[""], &["secrets"], &["get"]),
        Rule::cluster(&[""], &["pods"], &["get", "list", "watch"]),
    ];

    #[test]
    fn rules_become_one_role_and_binding_per_scope() {
        let account = Account {
            namespace: "pilotage",
            name: "proxy-scheduler",
        };
        let objects = render("pilotage-proxy-scheduler", account, RULES);
        let summary: Vec<(&str, Option<&str>, usize)> = objects
            .iter()
            .map(|object| {
                (
                    object["kind"].as_str().unwrap(),
                    object["metadata"]["namespace"].as_str(),
                    object["rules"].as_array().map_or(0, Vec::len),
                )
            })
            .collect();
        assert_eq!(
            summary,
            [
                ("ClusterRole", None, 2),
                ("ClusterRoleBinding", None, 0),
                ("Role", Some("pilotage"), 2),
                ("RoleBinding", Some("pilotage"), 0),
                ("Role", Some("kube-system"), 1),
                ("RoleBinding", Some("kube-system"), 0),
            ]
        );
        for binding in objects
            .iter()
            .filter(|object| object["subjects"].is_array())
        {
            assert_eq!(binding["subjects"][0]["namespace"], "pilotage");
            assert_eq!(binding["roleRef"]["name"], "pilotage-proxy-scheduler");
        }
    }

    #[test]
    fn given_namespaces_get_a_role_each_and_none_means_all() {
        const RULES: &[Rule] = &[
            Rule::cluster(&[""], &["pods"], &["list"]),
            Rule::own_namespace(&[""], &["configmaps"], &["get"]),
            Rule::given_namespaces(&[""], &["secrets"], &["list"]),
        ];
        let account = Account {
            namespace: "pilotage",
            name: "a",
        };
        let secrets = |given: &[&str]| {
            let given: Vec<String> = given.iter().map(|&name| name.to_owned()).collect();
            let objects = render_in("r", account, &given, RULES);
            let of = |object: &Value, key: &str| object[key].as_str().unwrap().to_owned();
            let reads = |object: &&Value| object["rules"].to_string().contains("secrets");
            let places: Vec<_> = objects
                .iter()
                .filter(reads)
                .map(|object| {
                    let namespace = object["metadata"]["namespace"].as_str();
                    (of(object, "kind"), namespace.unwrap_or_default().to_owned())
                })
                .collect();
            let bindings = objects.iter().filter(|it| it["subjects"].is_array());
            for binding in bindings.clone() {
                assert_eq!(binding["subjects"][0]["namespace"], "pilotage");
            }
            assert_eq!(bindings.count() * 2, objects.len());
            places
        };
        let role = |namespace: &str| ("Role".to_owned(), namespace.to_owned());
        assert_eq!(secrets(&[]), [("ClusterRole".to_owned(), String::new())]);
        assert_eq!(secrets(&["b", "c"]), [role("b"), role("c")]);
        // Where the component runs, it has one role.
        assert_eq!(secrets(&["b", "pilotage"]), [role("pilotage"), role("b")]);
    }

    #[test]
    fn a_rule_writes_only_the_fields_it_has() {
        assert_eq!(
            RULES[1].to_json(),
            json!({
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "resourceNames": ["pilotage-x"],
                "verbs": ["get", "patch"],
            })
        );
        assert_eq!(
            RULES[2].to_json(),
            json!({"nonResourceURLs": ["/version"], "verbs": ["get"]})
        );
    }
}
