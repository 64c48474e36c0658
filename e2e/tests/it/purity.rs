//! The pure crates pull in no runtime, no HTTP and no client. (The `kube` facade with its derive macro alone is none.)

use crate::arrows::PURE;
use crate::workspace::cargo;

/// What a pure crate must not contain, however deep.
const FORBIDDEN: &[&str] = &[
    "tokio",
    "hyper",
    "kube-client",
    "kube-runtime",
    "reqwest",
    "rustls",
    "rand",
    "async-std",
];

#[test]
fn pure_crates_contain_no_runtime_http_or_client() {
    let mut wrong = Vec::new();
    for name in PURE {
        let package = format!("pilotage-{name}");
        // Metadata alone unifies the features of the whole workspace and would always show them.
        let tree = cargo(&[
            "tree", "-p", &package, "-e", "normal", "--prefix", "none", "-f", "{p}", "--locked",
        ]);
        assert!(
            tree.lines().count() > 1,
            "{package} has no dependencies at all:\n{tree}"
        );
        let found = tree
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        wrong.extend(
            found
                .filter(|crate_| FORBIDDEN.contains(crate_))
                .map(|crate_| {
                    format!("{package} contains {crate_} (cargo tree -p {package} -i {crate_})")
                }),
        );
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
