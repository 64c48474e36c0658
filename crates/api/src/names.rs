//! Names that scripts and other clusters depend on: virtual nodes, finalizers, bindings, chaperons.
//!
//! The rule for joined names is Admiralty's, so that its users find the same objects: join the non-empty parts with
//! dashes and append a hash when the result could be ambiguous or is too long.

use sha2::{Digest, Sha256};

/// Longest label value or finalizer name.
const SHORT: usize = 63;
/// Longest object name.
const LONG: usize = 253;
/// Hexadecimal digits of a hash suffix.
const HASH_DIGITS: usize = 10;

/// One part of a joined name.
enum Part<'a> {
    /// The same in all names of this sort.
    Constant(&'a str),
    /// May be empty.
    Optional(&'a str),
    /// Never empty.
    Required(&'a str),
}

impl<'a> Part<'a> {
    fn text(&self) -> &'a str {
        match self {
            Part::Constant(text) | Part::Optional(text) | Part::Required(text) => text,
        }
    }
}

/// Joins `parts`; a hash of all of them is appended if another list of parts could give the same text, or if it is
/// longer than `limit`.
fn join(limit: usize, parts: &[Part<'_>]) -> String {
    let variable = parts
        .iter()
        .filter(|p| !matches!(p, Part::Constant(_)))
        .count();
    let optional = parts
        .iter()
        .filter(|p| matches!(p, Part::Optional(_)))
        .count();
    let ambiguous = parts.iter().any(|part| match part {
        Part::Constant(_) => false,
        Part::Optional("") => optional > 1,
        Part::Optional(text) | Part::Required(text) => variable > 1 && text.contains('-'),
    });
    let texts: Vec<_> = parts.iter().map(Part::text).collect();
    let present: Vec<_> = texts
        .iter()
        .copied()
        .filter(|text| !text.is_empty())
        .collect();
    let joined = present.join("-");
    if !ambiguous && joined.len() <= limit {
        return joined;
    }
    with_hash(limit, &joined, &texts.join("/"))
}

/// Cuts `text` so that it fits `limit` together with a dash and the hash of `key`.
fn with_hash(limit: usize, text: &str, key: &str) -> String {
    const MARK: usize = HASH_DIGITS + 1;
    let cut = text.floor_char_boundary(limit.saturating_sub(MARK));
    let kept = text.get(..cut).unwrap_or_default();
    // Only a cut text loses its trailing dashes: whoever ends a name with a dash keeps it.
    let kept = if cut < text.len() {
        kept.trim_end_matches('-')
    } else {
        kept
    };
    format!("{kept}-{}", hash(key))
}

/// First ten hexadecimal digits of the SHA-256 of `key`, as in all names above.
pub fn hash(key: &str) -> String {
    digits(key, HASH_DIGITS)
}

/// All 64 hexadecimal digits of the SHA-256 of `text`.
pub fn digest(text: &str) -> String {
    digits(text, 64)
}

/// First hexadecimal digits of the SHA-256 of `text`.
pub(crate) fn digits(text: &str, count: usize) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let bytes = digest.iter().take(count / 2);
    bytes.fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Name of the virtual node of a Target, or of a `ClusterTarget` (no namespace).
pub fn virtual_node(target_namespace: Option<&str>, target_name: &str) -> String {
    let namespace = Part::Optional(target_namespace.unwrap_or_default());
    join(
        LONG,
        &[
            Part::Constant("admiralty"),
            namespace,
            Part::Required(target_name),
        ],
    )
}

/// Whether that may be the name of a virtual node: a real one may have such a name, and no virtual node has another.
pub fn may_be_virtual_node(node: &str) -> bool {
    node.starts_with("admiralty-")
}

/// Finalizer, with its prefix, that plain Admiralty puts on proxies and followed objects for a Target.
pub fn target_finalizer(target_namespace: Option<&str>, target_name: &str) -> String {
    let namespace = Part::Optional(target_namespace.unwrap_or_default());
    format!(
        "{}{}",
        crate::keys::PREFIX,
        join(SHORT, &[namespace, Part::Required(target_name)])
    )
}

/// Name of the `ClusterRoleBinding` of a `ClusterSource`.
pub fn cluster_source_binding(name: &str) -> String {
    join(
        LONG,
        &[
            Part::Constant("admiralty-cluster-source"),
            Part::Required(name),
        ],
    )
}

/// Name of the `RoleBinding` of a Source, in its namespace.
pub fn source_binding(name: &str) -> String {
    join(
        LONG,
        &[Part::Constant("admiralty-source"), Part::Required(name)],
    )
}

/// Name of the `RoleBinding` that gives a Source a right, by the right's flag. The flag comes first: no other Source's
/// binding can have that name.
pub fn source_right_binding(name: &str, right: &str) -> String {
    join(
        LONG,
        &[
            Part::Constant("pilotage-source"),
            Part::Constant(right),
            Part::Required(name),
        ],
    )
}

/// Name of the `ClusterRoleBinding` that gives a `ClusterSource` a right, by the right's flag.
pub fn cluster_source_right_binding(name: &str, right: &str) -> String {
    join(
        LONG,
        &[
            Part::Constant("pilotage-cluster-source"),
            Part::Constant(right),
            Part::Required(name),
        ],
    )
}

/// Name of the binding that lets a `ClusterSource` read the cluster summary.
pub fn cluster_source_summary_viewer_binding(name: &str) -> String {
    join(
        LONG,
        &[
            Part::Constant("admiralty-cluster-source"),
            Part::Required(name),
            Part::Constant("cluster-summary-viewer"),
        ],
    )
}

/// Name of the (cluster-wide) binding that lets a Source read the cluster summary.
pub fn source_summary_viewer_binding(namespace: &str, name: &str) -> String {
    join(
        LONG,
        &[
            Part::Constant("admiralty-source"),
            Part::Required(namespace),
            Part::Required(name),
            Part::Constant("cluster-summary-viewer"),
        ],
    )
}

/// Name of a proxy pod's chaperon, and of the candidate that it accompanies.
///
/// It follows from the parent alone, so that a lost reply or a new leader can't make a second one.
pub fn chaperon(namespace: &str, name: &str, uid: &str) -> String {
    with_hash(SHORT, name, &format!("{namespace}/{name}/{uid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_admiraltys() {
        assert_eq!(virtual_node(Some("default"), "c2"), "admiralty-default-c2");
        assert_eq!(virtual_node(None, "c2"), "admiralty-c2");
        assert_eq!(
            target_finalizer(Some("default"), "c2"),
            "multicluster.admiralty.io/default-c2"
        );
        assert_eq!(
            cluster_source_binding("my-team"),
            "admiralty-cluster-source-my-team"
        );
        assert_eq!(source_binding("my-team"), "admiralty-source-my-team");
        assert_eq!(
            source_summary_viewer_binding("shop", "team"),
            "admiralty-source-shop-team-cluster-summary-viewer"
        );
    }

    #[test]
    fn dashes_in_two_variable_parts_could_be_read_two_ways() {
        let left = virtual_node(Some("a-b"), "c");
        let right = virtual_node(Some("a"), "b-c");
        assert!(left.starts_with("admiralty-a-b-c-") && right.starts_with("admiralty-a-b-c-"));
        assert_ne!(left, right);
        // Worked by hand: sha256("admiralty/a-b/c").
        assert_eq!(left, format!("admiralty-a-b-c-{}", hash("admiralty/a-b/c")));
        // An empty namespace still counts as a variable part.
        assert_eq!(
            virtual_node(None, "b-c"),
            format!("admiralty-b-c-{}", hash("admiralty//b-c"))
        );
    }

    #[test]
    fn the_hash_is_the_start_of_sha_256() {
        assert_eq!(hash("abc"), "ba7816bf8f");
    }

    #[test]
    fn long_names_are_cut_to_the_limit_and_lose_trailing_dashes() {
        let name = chaperon("ns", &"x".repeat(80), "u");
        assert_eq!(name.len(), 63);
        let dashes = format!("{}---{}", "x".repeat(50), "y".repeat(30));
        assert_eq!(chaperon("ns", &dashes, "u").len(), 50 + 1 + 10);
        assert_ne!(chaperon("ns", "web", "u1"), chaperon("ns", "web", "u2"));
        assert_ne!(chaperon("n1", "web", "u1"), chaperon("n2", "web", "u1"));
    }
}
