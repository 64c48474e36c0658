//! Renderings as they were when somebody last looked at them, without what other tests hold against its origin: roles
//! and definitions, and the alerts and the dashboard, which are copied from `files/`.

use super::cases;

const COPIED: [&str; 4] = [
    "crds.yaml",
    "roles.yaml",
    "prometheusrule.yaml",
    "dashboard.yaml",
];

/// Helm writes where each object comes from before it.
const SOURCE: &str = "---\n# Source: ";

fn shown(text: &str) -> String {
    let objects = text.split(SOURCE).skip(1).filter(|object| {
        let template = object.lines().next().unwrap_or_default();
        !COPIED.iter().any(|copied| template.ends_with(copied))
    });
    objects.flat_map(|object| [SOURCE, object]).collect()
}

#[test]
fn renderings_are_as_they_were() {
    for case in cases() {
        let text = shown(&case.text());
        assert!(text.contains("kind: Deployment"), "{}: {text}", case.name);
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!(case.name, text);
        });
    }
}
