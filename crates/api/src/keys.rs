//! Every key and fixed value on the wire, and nothing else: annotations, labels, finalizers, taints, scheduler names.
//!
//! The comments are for users: `make reference` writes them into `docs/reference.md`, section by section. Each begins
//! with what it is (annotation, label …) and of which object.
//!
//! Sources: Admiralty v0.17 for the keys that its users know, our own protocol for the others. No key is spelled
//! anywhere else in the code.

/// Prefix of every key of ours and of Admiralty's.
pub const PREFIX: &str = "multicluster.admiralty.io/";

macro_rules! key {
    ($(#[$doc:meta])* $name:ident = $suffix:literal) => {
        $(#[$doc])*
        pub const $name: &str = concat!("multicluster.admiralty.io/", $suffix);
    };
}

// ---- what users write ----------------------------------------------------------------------------------------------

key!(/// Annotation of a pod, with any value: run this pod in another cluster. It counts when the pod is created, in a
    /// namespace with the label below.
    ELECT = "elect");
key!(/// Annotation of a pod, with any value: its own scheduler (`spec.schedulerName`) gives it a node in the target,
    /// and nothing is reserved there before. One target is chosen first, by its published free room.
    NO_RESERVATION = "no-reservation");
key!(/// Annotation of a pod, with any value: ask all targets whether they could take the pod, and give it to none.
    /// Their answers stand in its condition `PodScheduled`, and it waits until it is deleted. `kubectl pilotage
    /// what-if` makes such pods.
    WHAT_IF = "what-if");
key!(/// Annotation of a pod, YAML: which targets may run it. It may have `nodeSelector`, `tolerations`, `affinity` and
    /// `topologySpreadConstraints`, and they speak of virtual nodes.
    PROXY_CONSTRAINTS = "proxy-pod-scheduling-constraints");
key!(/// Annotation of a pod, with any value: the constraints of its own spec speak of virtual nodes, and choose the
    /// target. The pod in the target has none of them.
    USE_OWN_CONSTRAINTS = "use-constraints-from-spec-for-proxy-pod-scheduling");
key!(/// Annotation of a pod or a Service, a regular expression: labels whose `key=value` it matches keep their key in
    /// the target. All others get the prefix `multicluster.admiralty.io/` there.
    NO_PREFIX_LABEL_REGEXP = "no-prefix-label-regexp");

key!(/// Annotation of a Target, `"true"`: pods there have their labels as they are, too, beside those with the prefix.
    /// It counts where the target is another cluster than the source.
    KEEP_LABELS = "keep-labels");
key!(/// Annotation of a pod or a Target, `never` or a duration such as `5m`: after how long a pod is run elsewhere if
    /// its target is lost. The old pod may still be running then. What the pod says counts before what its Target says.
    REPLACE_AFTER = "replace-after");
key!(/// Annotation of a Target, `"true"`: if the target can't be reached, give up its pods at once, whatever still runs
    /// there; if it answers, those that are deleted or given back, after half a minute and their grace period.
    FORGET = "forget");

// Where a pod belongs, and where a target is. On a Target or a virtual node each may be a label or an annotation; the
// word of the Target counts before that of the node.

key!(/// Annotation of a pod: the region where it belongs. Annotation or label of a Target: the region where the target
    /// is.
    REGION = "region");
key!(/// Annotation of a pod: zones, separated by commas, one of which it would like. Annotation of a Target: the zones
    /// that the target has.
    ZONES = "zones");
key!(/// Annotation of a pod: the cloud provider where it has to run. Annotation or label of a Target: the provider of
    /// the target.
    CLOUD_PROVIDER = "cloud-provider");
key!(/// Annotation of a pod: access restrictions, separated by commas. Its target has to support all of them.
    ACCESS_RESTRICTIONS = "access-restrictions");
/// Prefix of labels of a Target: such a label with the value `"true"` says that the target supports the access
/// restriction of that name.
pub const ACCESS_PREFIX: &str = "access.multicluster.admiralty.io/";

/// Label of a namespace of the source: its pods may be run in other clusters.
pub const NAMESPACE_LABEL: &str = "multicluster-scheduler";
/// Value of that label.
pub const NAMESPACE_LABEL_VALUE: &str = "enabled";

// ---- what Pilotage writes on pods of the source --------------------------------------------------------------------

key!(/// Annotation of a proxy pod, YAML: the whole pod as its author wrote it. The webhook writes it, and nobody may
    /// change it.
    SOURCE_POD_MANIFEST = "sourcepod-manifest");
key!(/// Label, `"true"`, of proxy pods, and of other objects that carry a finalizer of Pilotage.
    HAS_FINALIZER = "has-finalizer");
key!(/// Annotation of a proxy pod, `"true"`: it is given to nobody before that is recorded on it. The webhook writes
    /// it; pods that Admiralty's webhook made have none.
    RECORDED = "recorded");
key!(/// Annotation of a proxy pod, `VIRTUAL-NODE/UID/ATTEMPT`: the record, which says to which target and which
    /// `PodChaperon` the pod was given ([`crate::record`]).
    GRANTED_TO = "granted-to");
key!(/// Annotation of a proxy pod: which of its annotations come from the pod that runs in the target
    /// ([`crate::copied`]).
    COPIED = "copied-annotations");
key!(/// Finalizer of proxy pods and of their `PodChaperons`: it comes when the pod is given to a target, and goes when
    /// the pod there is gone. Don't take it off by hand, else two pods may run.
    DELEGATE_GONE = "delegate_gone");

// ---- what Pilotage writes on PodChaperons and their pods in the target ---------------------------------------------

key!(/// Annotation, a number: which attempt to reserve a node is the newest one.
    ATTEMPT = "attempt");
key!(/// Annotation, `"true"`: the newest attempt has reserved a node.
    IS_RESERVED = "is-reserved");
key!(/// Annotation, `"true"`, from the source: the target was chosen and hasn't bound the pod. It shall delete the pod,
    /// unless it is bound by now, and make no other one.
    GIVE_UP = "give-up");
key!(/// Annotation: UID of the only pod that may be bound for this `PodChaperon`.
    RESERVED_POD_UID = "reserved-pod-uid");
key!(/// Scheduling gate of a pod in the target that keeps its own scheduler. The controllers take it off once the
    /// `PodChaperon` names the pod.
    UNNAMED = "unnamed");
key!(/// Annotation: which pods of lower priority the target would evict to make room, if it is chosen
    /// ([`crate::preempts`]).
    PREEMPTS = "preempts");
key!(/// Annotation: why the newest attempt has no node: `Unschedulable: …`, `refused: …`, `Gated: …`, `Expired`,
    /// `NoLongerFits` or `PodGone`.
    REFUSAL = "refusal");
key!(/// Annotation, a number, from the source: the attempt that was chosen. Its pod may be bound.
    ALLOWED_ATTEMPT = "allowed-attempt");
key!(/// Annotation, `"true"`, from the source: the same for a target with Admiralty, which knows no attempts.
    IS_ALLOWED = "is-allowed");
key!(/// Annotation, a time: since when the pod of this `PodChaperon` is missing.
    POD_MISSING_SINCE = "pod-missing-since");
key!(/// Annotation, `"true"`: the missing pod had been bound. It is written together with the time.
    WAS_BOUND = "was-bound");

key!(/// Annotation, a number, from the source: the generation of the chaperon's spec in which amounts of CPU or memory
    /// changed last.
    AMOUNTS_GENERATION = "amounts-generation");
key!(/// Annotation, a number: the generation of the chaperon's spec whose changes its bound pod has, or was refused.
    APPLIED_GENERATION = "applied-generation");
key!(/// Annotation: which of these changes the pod doesn't have, and why. It is written together with the generation.
    CHANGE_REFUSED = "change-refused");
key!(/// Annotation, a W3C `traceparent`, from the source: the span under which the target's spans of this pod belong.
    /// It is there only if the source exports a trace of the pod (`--otlp-endpoint`), and nothing is decided by it.
    TRACEPARENT = "traceparent");

// ---- what Pilotage writes on objects of the target to name their source --------------------------------------------

key!(/// Label: UID of the proxy pod, or of the object that is copied.
    PARENT_UID = "parent-uid");
key!(/// Label: name of the source (`--cluster-name` there).
    PARENT_CLUSTER_NAME = "parent-cluster-name");
key!(/// Label: UID of the source's kube-system namespace. A source never touches objects with another value.
    PARENT_CLUSTER_UID = "parent-cluster-uid");
key!(/// Annotation: name of the proxy pod, or of the object that is copied.
    PARENT_NAME = "parent-name");
key!(/// Annotation: its namespace.
    PARENT_NAMESPACE = "parent-namespace");

// ---- what Pilotage writes on Services and Ingresses that follow pods -----------------------------------------------

key!(/// Annotation, `"true"`, of a Service that follows its pods, and of copies of Services and Ingresses.
    GLOBAL = "global");
key!(/// Annotation or label of a Service or an Ingress: it is a copy, and follows nothing itself. A user may write it
    /// in the source to have a Service left alone.
    IS_DELEGATE = "is-delegate");
key!(/// Annotation of a Service in the source, `key=value` separated by commas: the selector that its author wrote.
    ORIGINAL_SELECTOR = "original-selector");
/// Annotations, `"true"`, of a Service that follows: Cilium joins Services of this name in several clusters.
pub const CILIUM_GLOBAL: [&str; 2] = ["io.cilium/global-service", "service.cilium.io/global"];

// ---- what Pilotage writes on what a Source or connect makes --------------------------------------------------------

key!(/// Label of a role binding: UID of its Source or `ClusterSource`.
    SOURCE_UID = "source-uid");
key!(/// Annotation of a role binding: namespace of its Source.
    SOURCE_NAMESPACE = "source-namespace");
key!(/// Annotation of a role binding: name of its Source or `ClusterSource`.
    SOURCE_NAME = "source-name");
key!(/// Annotation of a Source or `ClusterSource` that a user's `connect` made: UID of the source's kube-system
    /// namespace. It keeps two sources with one name apart.
    SOURCE_CLUSTER_UID = "source-cluster-uid");
/// Label, and its value, of what the controllers make for a Source.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "pilotage");
/// Value of that label on what `kubectl pilotage connect` makes.
pub const MANAGED_BY_CONNECT: &str = "kubectl-pilotage";

// ---- what Pilotage writes on virtual nodes, Targets and Secrets ----------------------------------------------------

key!(/// Label of a virtual node: namespace of its Target.
    TARGET_NAMESPACE = "target-namespace");
key!(/// Label of a virtual node: name of its Target.
    TARGET_NAME = "target-name");
key!(/// Label of a virtual node: name of its `ClusterTarget`.
    CLUSTER_TARGET_NAME = "cluster-target-name");
key!(/// Annotation of a virtual node, JSON: the target's nodes with the most free room ([`crate::summary::FreeShape`]).
    FREE_SHAPES = "free-shapes");
key!(/// Annotation of a virtual node, JSON: what is free in the target, summed over its nodes
    /// ([`crate::ClusterSummary::free`]).
    FREE = "free");

key!(/// Annotation of a Target's virtual node, JSON: labels of the target in the domains of Kubernetes. The proxy
    /// scheduler reads them as if they were labels of the node; nobody else does.
    LABELS = "labels");

key!(/// Finalizer of Targets and `ClusterTargets`: the proxy pods on their virtual node go first, then the node.
    VIRTUAL_NODE_GONE = "virtual_node_gone");
key!(/// Finalizer of Secrets with a Target's kubeconfig: what Pilotage has made in the target goes first.
    TARGET_GONE = "target_gone");
key!(/// Annotation of a Secret with a Target's kubeconfig, a duration such as `720h`: Pilotage renews the token in it
    /// when half of its life is over, and asks for one that lives so long. `connect` writes it.
    TOKEN_LIFE = "token-life");

/// Annotation of virtual nodes with a kubelet: the path by which metrics-server (0.7 or newer) asks for what their pods
/// use, since they share an address.
pub const RESOURCE_METRICS_PATH: &str = "metrics.k8s.io/resource-metrics-path";
/// Label of virtual nodes, and key of their taint with the effect `NoSchedule`.
pub const PROVIDER: &str = "virtual-kubelet.io/provider";
/// Value of that label and that taint.
pub const PROVIDER_VALUE: &str = "admiralty";
/// Other labels of every virtual node, with their values.
pub const VIRTUAL_NODE_LABELS: [(&str, &str); 4] = [
    ("type", "virtual-kubelet"),
    ("kubernetes.io/role", "cluster"),
    (
        "alpha.service-controller.kubernetes.io/exclude-balancer",
        "true",
    ),
    (
        "node.kubernetes.io/exclude-from-external-load-balancers",
        "true",
    ),
];
/// Taint that proxy pods tolerate with any effect, since virtual nodes have no pod network.
pub const NETWORK_UNAVAILABLE_TAINT: &str = "node.kubernetes.io/network-unavailable";
/// Taint of a node that isn't ready. Proxy pods tolerate it without end.
pub const NOT_READY_TAINT: &str = "node.kubernetes.io/not-ready";
/// Taint of a node that nobody hears of. Proxy pods tolerate it without end.
pub const UNREACHABLE_TAINT: &str = "node.kubernetes.io/unreachable";

// ---- fixed names ---------------------------------------------------------------------------------------------------

/// Scheduler name of proxy pods.
pub const PROXY_SCHEDULER: &str = "admiralty-proxy";
/// Scheduler name of pods in targets, unless they keep their own.
pub const CANDIDATE_SCHEDULER: &str = "admiralty-candidate";
key!(/// Annotation of the Lease of a part: version of the process that leads.
    RUNNING_VERSION = "version");
key!(/// Annotation of the Lease of the controllers: kinds of objects that follow pods from their cluster, separated by
    /// commas.
    FOLLOWED_KINDS = "follow");
/// Name of the one `ClusterSummary` of a cluster.
pub const CLUSTER_SUMMARY_NAME: &str = "singleton";
/// Reason of the condition `PodScheduled` of a `PodChaperon`: the target's API server refused the pod.
pub const CANDIDATE_REFUSED: &str = "CandidateRefused";
/// `apiVersion` of the proxy scheduler's configuration file.
pub const CONFIG_API_VERSION: &str = "config.multicluster.admiralty.io/v1alpha1";
/// `kind` of that file.
pub const PROXY_SCHEDULER_CONFIGURATION: &str = "ProxySchedulerConfiguration";
/// Label of `ConfigMaps` with distances between regions, as Gardener has it.
pub const REGION_TABLE_LABEL: &str = "scheduling.gardener.cloud/purpose";
/// Value of that label.
pub const REGION_TABLE_LABEL_VALUE: &str = "region-config";
/// Annotation of such a `ConfigMap`, separated by commas: for which `CloudProfiles` or cloud providers it is.
pub const REGION_TABLE_FOR: &str = "scheduling.gardener.cloud/cloudprofiles";
/// Labels of a node or a Target with its region. The first one counts before the second.
pub const REGION_LABELS: [&str; 2] = [
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/region",
];
/// Labels of a node or a Target with its zone. The first one counts before the second.
pub const ZONE_LABELS: [&str; 2] = [
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
];
/// Value of every boolean annotation.
pub const TRUE: &str = "true";

/// Domains whose keys mean something to Kubernetes or to us; so do those of their subdomains.
const RESERVED_DOMAINS: [&str; 3] = [KUBERNETES[0], KUBERNETES[1], crate::GROUP];
/// Those of Kubernetes itself.
const KUBERNETES: [&str; 2] = ["kubernetes.io", "k8s.io"];
/// Keys of this file that live in none of them.
const RESERVED_KEYS: [&str; 4] = [
    NAMESPACE_LABEL,
    PROVIDER,
    REGION_TABLE_LABEL,
    REGION_TABLE_FOR,
];

/// Whether `key` lives under our prefix.
pub fn is_ours(key: &str) -> bool {
    key.starts_with(PREFIX)
}

/// Whether a finalizer is one that Admiralty puts on for a Target. No name of a Target has the underscore that each of
/// Pilotage's own finalizers has.
pub fn is_admiraltys_finalizer(finalizer: &str) -> bool {
    let name = finalizer.strip_prefix(PREFIX);
    name.is_some_and(|name| !name.contains('_'))
}

/// Whether Kubernetes or we may act on `key`, however it is spelled: nobody in another cluster may say it here.
pub fn is_reserved(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    is_within(&key, &RESERVED_DOMAINS) || RESERVED_KEYS.contains(&&*key)
}

/// Whether Kubernetes may act on `key`, however it is spelled: schedulers, controllers and clouds do on labels of
/// nodes.
pub fn is_of_kubernetes(key: &str) -> bool {
    is_within(&key.to_ascii_lowercase(), &KUBERNETES)
}

/// Whether a key is in one of these domains, or in a subdomain of one.
fn is_within(key: &str, domains: &[&str]) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let within = |reserved: &&str| {
        let rest = domain.strip_suffix(reserved);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    domains.iter().any(within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finalizers_of_admiralty_are_told_from_ours() {
        for ours in [DELEGATE_GONE, VIRTUAL_NODE_GONE, TARGET_GONE] {
            assert!(is_ours(ours) && !is_admiraltys_finalizer(ours), "{ours}");
        }
        let theirs = crate::names::target_finalizer(Some("default"), "c2");
        assert!(is_admiraltys_finalizer(&theirs), "{theirs}");
        assert!(!is_admiraltys_finalizer("example.com/mine"));
    }

    #[test]
    fn keys_of_kubernetes_and_ours_are_reserved() {
        for (key, want) in [
            ("kubectl.kubernetes.io/last-applied-configuration", true),
            ("kubernetes.io/config.source", true),
            ("Kubernetes.IO/config.source", true),
            ("k8s.io/x", true),
            ("sigs.k8s.io/x", true),
            (GRANTED_TO, true),
            ("access.multicluster.admiralty.io/gdpr", true),
            (NAMESPACE_LABEL, true),
            (PROVIDER, true),
            (REGION_TABLE_FOR, true),
            ("kubernetes.io", false),
            ("notkubernetes.io/x", false),
            ("k8s.io.example.com/x", false),
            ("k8s.v1.cni.cncf.io/network-status", false),
            ("example.com/kubernetes.io", false),
            ("admiralty.io/x", false),
            ("team", false),
            ("", false),
        ] {
            assert_eq!(is_reserved(key), want, "{key:?}");
            let kubernetes =
                want && key.to_ascii_lowercase().contains(".io/") && !key.contains("admiralty");
            let others = [PROVIDER, REGION_TABLE_FOR].contains(&key);
            assert_eq!(is_of_kubernetes(key), kubernetes && !others, "{key:?}");
        }
    }
}
