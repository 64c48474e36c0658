//! Every key and fixed value on the wire, and nothing else: annotations, labels, finalizers, taints, scheduler names.
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

// ---- what users write -------------------------------------------------------------------------------------------

key!(/// Annotation, any value: delegate this pod.
    ELECT = "elect");
key!(/// Annotation: one candidate, made only after the choice, left to the pod's own scheduler in the target.
    NO_RESERVATION = "no-reservation");
key!(/// Annotation: YAML of a `PodSpec` fragment with the proxy's own constraints.
    PROXY_CONSTRAINTS = "proxy-pod-scheduling-constraints");
key!(/// Annotation: the pod's own constraints choose the cluster, the delegate carries none of them.
    USE_OWN_CONSTRAINTS = "use-constraints-from-spec-for-proxy-pod-scheduling");
key!(/// Annotation: labels whose `key=value` matches keep their key in the target.
    NO_PREFIX_LABEL_REGEXP = "no-prefix-label-regexp");

key!(/// Annotation of a pod or a Target: what becomes of pods whose target is lost ([`crate::lost::LostPolicy`]); a pod's own
    /// word counts before its Target's.
    REPLACE_AFTER = "replace-after");
key!(/// Annotation `"true"` of a Target that can't be reached: its pods aren't waited for any more, whatever runs there.
    FORGET = "forget");

// Where a pod belongs, and where a target is. On a Target or a virtual node each may be a label or an annotation; the word of
// the Target counts before that of the node.

key!(/// Annotation of a pod: the region where it belongs. Of a target: the region where it is.
    REGION = "region");
key!(/// Annotation of a pod: zones, separated by commas, one of which it would like. Of a target: the zones that it has.
    ZONES = "zones");
key!(/// Annotation of a pod: the cloud provider that it must run at. Of a target: the provider that it is of.
    CLOUD_PROVIDER = "cloud-provider");
key!(/// Annotation of a pod: access restrictions, separated by commas, all of which its target must support.
    ACCESS_RESTRICTIONS = "access-restrictions");
/// Prefix of labels of targets, each of which says `"true"` for an access restriction that it supports.
pub const ACCESS_PREFIX: &str = "access.multicluster.admiralty.io/";

/// Label of a namespace whose elected pods are delegated…
pub const NAMESPACE_LABEL: &str = "multicluster-scheduler";
/// …and its value.
pub const NAMESPACE_LABEL_VALUE: &str = "enabled";

// ---- on the proxy pod -------------------------------------------------------------------------------------------

key!(/// Annotation, written by the webhook: YAML of the whole source pod as admitted.
    SOURCE_POD_MANIFEST = "sourcepod-manifest");
key!(/// Label `"true"` of objects that carry a finalizer of ours.
    HAS_FINALIZER = "has-finalizer");
key!(/// Annotation: the record, `<virtual node>/<chaperon UID>/<attempt>` ([`crate::record`]).
    GRANTED_TO = "granted-to");
key!(/// Annotation: which annotations the pod has from its delegate ([`crate::copied`]).
    COPIED = "copied-annotations");
key!(/// Finalizer of proxies and granted chaperons; no Target's own finalizer can equal it (the underscore).
    DELEGATE_GONE = "delegate_gone");

// ---- on the chaperon --------------------------------------------------------------------------------------------

key!(/// Annotation, decimal: number of the candidate's newest attempt.
    ATTEMPT = "attempt");
key!(/// Annotation `"true"`: the newest attempt holds a node.
    IS_RESERVED = "is-reserved");
key!(/// Annotation `"true"`, written by the source: a grant has led nowhere. The pod goes unless it is bound, and no other comes.
    GIVE_UP = "give-up");
key!(/// Annotation: UID of the pod that may be bound: the one that the newest reservation was made for, or the one without
    /// reservation whose gate goes.
    RESERVED_POD_UID = "reserved-pod-uid");
key!(/// Scheduling gate of a delegate that keeps its own scheduler; it goes once the chaperon names the pod.
    UNNAMED = "unnamed");
key!(/// Annotation: whom the target would have to evict for the newest attempt, once it is granted ([`crate::preempts`]).
    PREEMPTS = "preempts");
key!(/// Annotation: why the newest attempt holds nothing.
    REFUSAL = "refusal");
key!(/// Annotation, decimal: the attempt that is granted.
    ALLOWED_ATTEMPT = "allowed-attempt");
key!(/// Annotation `"true"`: granted, for candidates that know no attempts.
    IS_ALLOWED = "is-allowed");
key!(/// Annotation, RFC 3339: since when the chaperon's pod is missing.
    POD_MISSING_SINCE = "pod-missing-since");
key!(/// Annotation `"true"`, in the same write as [`POD_MISSING_SINCE`]: the missing pod had been bound.
    WAS_BOUND = "was-bound");

// ---- the link from a target's object to its parent in the source ------------------------------------------------

key!(/// Label: UID of the parent.
    PARENT_UID = "parent-uid");
key!(/// Label: name of the source cluster, as its operators call it.
    PARENT_CLUSTER_NAME = "parent-cluster-name");
key!(/// Label: UID of the source's kube-system namespace; objects with another value are never touched.
    PARENT_CLUSTER_UID = "parent-cluster-uid");
key!(/// Annotation: name of the parent.
    PARENT_NAME = "parent-name");
key!(/// Annotation: namespace of the parent.
    PARENT_NAMESPACE = "parent-namespace");

// ---- Services and Ingresses that follow pods ----------------------------------------------------------------------

key!(/// Annotation `"true"`: a Service or an Ingress that follows, in the source and in targets.
    GLOBAL = "global");
key!(/// Annotation without a value: a Service or an Ingress that was copied here; it never follows anything itself.
    IS_DELEGATE = "is-delegate");
key!(/// Annotation of a Service in the source, `key=value` separated by commas: its selector before its keys were rewritten.
    ORIGINAL_SELECTOR = "original-selector");
/// Annotations `"true"` of a Service that follows: Cilium joins such Services of its clusters. The older one first.
pub const CILIUM_GLOBAL: [&str; 2] = ["io.cilium/global-service", "service.cilium.io/global"];

// ---- what a Source or ClusterSource made ------------------------------------------------------------------------

key!(/// Label of a binding: UID of its Source or `ClusterSource`.
    SOURCE_UID = "source-uid");
key!(/// Annotation of a binding: namespace of its Source.
    SOURCE_NAMESPACE = "source-namespace");
key!(/// Annotation of a binding: name of its Source or `ClusterSource`.
    SOURCE_NAME = "source-name");
key!(/// Annotation of a Source or `ClusterSource` that a user's `connect` made: UID of the source's kube-system namespace. It keeps
    /// two sources with one name apart.
    SOURCE_CLUSTER_UID = "source-cluster-uid");
/// Label of what is made for a Source, and its value.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "pilotage");
/// Value of the same label for what a user's `connect` makes.
pub const MANAGED_BY_CONNECT: &str = "kubectl-pilotage";

// ---- virtual nodes ----------------------------------------------------------------------------------------------

key!(/// Label of a virtual node: namespace of its Target.
    TARGET_NAMESPACE = "target-namespace");
key!(/// Label of a virtual node: name of its Target.
    TARGET_NAME = "target-name");
key!(/// Label of a virtual node: name of its `ClusterTarget`.
    CLUSTER_TARGET_NAME = "cluster-target-name");
key!(/// Annotation of a virtual node, JSON: free room of the target's roomiest nodes ([`crate::summary::FreeShape`]).
    FREE_SHAPES = "free-shapes");
key!(/// Annotation of a virtual node, JSON: what is free in the target, summed over its nodes ([`crate::ClusterSummary::free`]).
    FREE = "free");

key!(/// Annotation of a Target's virtual node, JSON: labels that Kubernetes would act on, for who schedules proxies.
    LABELS = "labels");

key!(/// Finalizer of Targets and `ClusterTarget`s: their virtual node goes first, and its proxies before it.
    VIRTUAL_NODE_GONE = "virtual_node_gone");
key!(/// Finalizer of Secrets with a Target's kubeconfig: what the Target leaves in its cluster is cleaned up first.
    TARGET_GONE = "target_gone");

/// Label and taint key of virtual nodes; taint effect `NoSchedule`.
pub const PROVIDER: &str = "virtual-kubelet.io/provider";
/// Value of [`PROVIDER`] on virtual nodes of ours.
pub const PROVIDER_VALUE: &str = "admiralty";
/// Fixed labels that every virtual node of ours carries besides [`PROVIDER`].
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
/// Taint that a proxy tolerates with any effect: virtual nodes have no pod network.
pub const NETWORK_UNAVAILABLE_TAINT: &str = "node.kubernetes.io/network-unavailable";
/// Taint of a node whose Ready is False; proxies tolerate its `NoExecute` form without end.
pub const NOT_READY_TAINT: &str = "node.kubernetes.io/not-ready";
/// Taint of a node whose Ready is Unknown; proxies tolerate its `NoExecute` form without end.
pub const UNREACHABLE_TAINT: &str = "node.kubernetes.io/unreachable";

// ---- fixed names ------------------------------------------------------------------------------------------------

/// Scheduler name of proxy pods.
pub const PROXY_SCHEDULER: &str = "admiralty-proxy";
/// Scheduler name of candidate pods.
pub const CANDIDATE_SCHEDULER: &str = "admiralty-candidate";
key!(/// Annotation of the Lease of a part: version of the process that leads.
    RUNNING_VERSION = "version");
/// Name of the one [`crate::ClusterSummary`] of a cluster.
pub const CLUSTER_SUMMARY_NAME: &str = "singleton";
/// Reason of `PodScheduled=False` in a chaperon's status when the target's API server refused the pod.
pub const CANDIDATE_REFUSED: &str = "CandidateRefused";
/// `apiVersion` of configuration files.
pub const CONFIG_API_VERSION: &str = "config.multicluster.admiralty.io/v1alpha1";
/// `kind` of the proxy scheduler's configuration file.
pub const PROXY_SCHEDULER_CONFIGURATION: &str = "ProxySchedulerConfiguration";
/// Label of `ConfigMap`s with distances between regions, as Gardener has it…
pub const REGION_TABLE_LABEL: &str = "scheduling.gardener.cloud/purpose";
/// …and its value.
pub const REGION_TABLE_LABEL_VALUE: &str = "region-config";
/// Annotation of such a `ConfigMap`: whom it is for, separated by commas.
pub const REGION_TABLE_FOR: &str = "scheduling.gardener.cloud/cloudprofiles";
/// Well-known labels with a node's region, the newer one first.
pub const REGION_LABELS: [&str; 2] = [
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/region",
];
/// Well-known labels with a node's zone, the newer one first.
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

/// Whether Kubernetes or we may act on `key`, however it is spelled: nobody in another cluster may say it here.
pub fn is_reserved(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    is_within(&key, &RESERVED_DOMAINS) || RESERVED_KEYS.contains(&&*key)
}

/// Whether Kubernetes may act on `key`, however it is spelled: schedulers, controllers and clouds do on labels of nodes.
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
