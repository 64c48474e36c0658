//! The scheduling part of a `PodSpec`, read strictly: unknown fields, wrong types and unknown words are errors with a
//! line and a column.
//!
//! The types of `k8s-openapi` skip what they don't know, so they can't tell a misspelt field. Names and words are
//! those of Kubernetes 1.36's core/v1; what the values mean is left to the API server's own validation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

macro_rules! strict {
    ($($(#[$doc:meta])* struct $name:ident { $($field:ident: $type:ty,)* })*) => { $(
        $(#[$doc])*
        #[allow(clippy::struct_field_names, reason = "they are Kubernetes' names")]
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
        struct $name {
            $(#[serde(skip_serializing_if = "Option::is_none")] $field: Option<$type>,)*
        }
    )* };
}

/// What [`pilotage_api::keys::PROXY_CONSTRAINTS`] may hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Fragment {
    #[serde(skip_serializing_if = "Option::is_none")]
    node_selector: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tolerations: Option<Vec<Toleration>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    affinity: Option<Affinity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,
}

strict! {
    struct Toleration {
        key: String,
        operator: TolerationOperator,
        value: String,
        effect: Effect,
        toleration_seconds: i64,
    }
    struct Affinity {
        node_affinity: NodeAffinity,
        pod_affinity: PodAffinity,
        pod_anti_affinity: PodAffinity,
    }
    struct NodeAffinity {
        required_during_scheduling_ignored_during_execution: NodeSelector,
        preferred_during_scheduling_ignored_during_execution: Vec<PreferredNodes>,
    }
    struct NodeSelector {
        node_selector_terms: Vec<NodeSelectorTerm>,
    }
    struct PreferredNodes {
        weight: i32,
        preference: NodeSelectorTerm,
    }
    struct NodeSelectorTerm {
        match_expressions: Vec<NodeRequirement>,
        match_fields: Vec<NodeRequirement>,
    }
    struct NodeRequirement {
        key: String,
        operator: NodeOperator,
        values: Vec<String>,
    }
    /// Affinity and anti-affinity have the same fields.
    struct PodAffinity {
        required_during_scheduling_ignored_during_execution: Vec<PodTerm>,
        preferred_during_scheduling_ignored_during_execution: Vec<PreferredPods>,
    }
    struct PreferredPods {
        weight: i32,
        pod_affinity_term: PodTerm,
    }
    struct PodTerm {
        label_selector: LabelSelector,
        namespaces: Vec<String>,
        namespace_selector: LabelSelector,
        topology_key: String,
        match_label_keys: Vec<String>,
        mismatch_label_keys: Vec<String>,
    }
    struct LabelSelector {
        match_labels: BTreeMap<String, String>,
        match_expressions: Vec<LabelRequirement>,
    }
    struct LabelRequirement {
        key: String,
        operator: LabelOperator,
        values: Vec<String>,
    }
    struct TopologySpreadConstraint {
        max_skew: i32,
        topology_key: String,
        when_unsatisfiable: WhenUnsatisfiable,
        label_selector: LabelSelector,
        min_domains: i32,
        node_affinity_policy: NodePolicy,
        node_taints_policy: NodePolicy,
        match_label_keys: Vec<String>,
    }
}

macro_rules! words {
    ($(enum $name:ident { $($word:ident,)* })*) => { $(
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        enum $name { $($word,)* }
    )* };
}

words! {
    enum TolerationOperator { Equal, Exists, Lt, Gt, }
    enum Effect { NoSchedule, PreferNoSchedule, NoExecute, }
    enum NodeOperator { In, NotIn, Exists, DoesNotExist, Gt, Lt, }
    enum LabelOperator { In, NotIn, Exists, DoesNotExist, }
    enum WhenUnsatisfiable { DoNotSchedule, ScheduleAnyway, }
    enum NodePolicy { Honor, Ignore, }
}

impl Fragment {
    /// Reads a fragment's text; an empty one asks nothing.
    pub fn parse(text: &str) -> Result<Self, serde_saphyr::Error> {
        let options = serde_saphyr::options! {
            // Kubernetes takes no number or boolean for a string either.
            no_schema: true,
            // But `y` and `on` are words, as in YAML 1.2.
            strict_booleans: true,
            reject_unsupported_tags: true,
            with_snippet: false,
            // Somebody writes it by hand, with an anchor or two.
            budget: serde_saphyr::budget! {
                max_depth: 24,
                flow_nesting_limit: 24,
                max_nodes: 16 * 1024,
                max_anchors: 64,
                max_aliases: 256,
                max_merge_keys: 64,
                max_recorded_anchor_events: 16 * 1024,
                max_recorded_anchor_bytes: 256 * 1024,
                max_documents: 1,
            },
            alias_limits: serde_saphyr::alias_limits! {
                max_total_replayed_events: 16 * 1024,
                max_replay_stack_depth: 8,
            },
        };
        let fragment: Option<Self> = serde_saphyr::from_str_with_options(text, options)?;
        Ok(fragment.unwrap_or_default())
    }

    /// The fragment as a part of a `PodSpec`.
    pub fn to_value(&self) -> Value {
        // Strings, integers, lists and maps with string keys: nothing that JSON can't say.
        serde_json::to_value(self).unwrap_or_default()
    }
}
