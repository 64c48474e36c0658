//! What a placed proxy has changed while it runs, on its way to the delegate's chaperon, and what the target says of it.

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::{bounds::cut, keys};
use pilotage_model::changes;

use super::{Action, Plan};
use crate::{class::Class, slim::is_slim, view::ChaperonView, wire};

/// As many bytes of a refusal are told.
const LONGEST: usize = 960;

/// Sends the change, or tells what became of the last one.
pub(super) fn carry(pod: &Pod, chaperon: &ChaperonView, plan: &mut Plan) {
    // Of one that is slim nobody knows what its spec has.
    if chaperon.class != Class::Bound || is_slim(&chaperon.object) {
        return;
    }
    let Some(spec) = changes::of_spec(pod, &chaperon.object.spec.0) else {
        plan.refused = refused(chaperon);
        return;
    };
    if chaperon.marks.is_plainly_granted() {
        plan.refused = Some(format!(
            "{} runs Admiralty, which takes no changes of running pods: ephemeral containers and other amounts of CPU and \
             memory stay in this cluster",
            chaperon.node
        ));
        return;
    }
    plan.actions.push(Action::ChangeSpec {
        node: chaperon.node.clone(),
        name: chaperon.name.clone(),
        uid: chaperon.uid.clone(),
        patch: wire::changed_spec(&chaperon.uid, &chaperon.resource_version, &spec),
    });
}

/// What the target refused of the newest change.
fn refused(chaperon: &ChaperonView) -> Option<String> {
    let meta = &chaperon.object.metadata;
    let annotation = |key| meta.annotations.as_ref()?.get(key);
    let applied: i64 = annotation(keys::APPLIED_GENERATION)?.parse().ok()?;
    let why = annotation(keys::CHANGE_REFUSED).filter(|_| meta.generation == Some(applied))?;
    let why = cut(why, LONGEST);
    Some(format!(
        "{} refused a change of the pod: {why}",
        chaperon.node
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::testing::chaperon;

    fn plan(pod: &Value, view: &ChaperonView) -> Plan {
        let pod: Pod = serde_json::from_value(pod.clone()).unwrap();
        let mut plan = Plan::default();
        carry(&pod, view, &mut plan);
        plan
    }

    fn debugged() -> Value {
        json!({ "spec": { "containers": [], "ephemeralContainers": [{ "name": "d", "image": "x" }] } })
    }

    #[test]
    fn a_debug_container_goes_to_the_chaperon_of_a_bound_delegate_only() {
        let bound = chaperon("a", "ua").granted(1).bound().build();
        let spec = json!({ "ephemeralContainers": [{ "name": "d", "image": "x" }] });
        assert_eq!(
            plan(&debugged(), &bound).actions,
            [Action::ChangeSpec {
                node: "a".into(),
                name: bound.name.clone(),
                uid: "ua".into(),
                patch: wire::changed_spec("ua", &bound.resource_version, &spec),
            }]
        );
        let unbound = chaperon("a", "ua").granted(1).build();
        assert_eq!(plan(&debugged(), &unbound), Plan::default());
    }

    #[test]
    fn what_a_target_refused_is_told_until_the_next_change() {
        let mut view = chaperon("a", "ua").granted(1).bound().build();
        let object = Arc::make_mut(&mut view.object);
        object.metadata.generation = Some(2);
        object.metadata.annotations = Some(
            [
                (keys::APPLIED_GENERATION, "2"),
                (keys::CHANGE_REFUSED, "resize: no"),
            ]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        );
        let same = json!({ "spec": { "containers": [] } });
        let told = plan(&same, &view).refused;
        assert_eq!(
            told.as_deref(),
            Some("a refused a change of the pod: resize: no")
        );
        Arc::make_mut(&mut view.object).metadata.generation = Some(3);
        assert_eq!(plan(&same, &view).refused, None);
    }

    #[test]
    fn to_plain_admiralty_nothing_is_sent_and_that_is_told() {
        let mut view = chaperon("a", "ua").granted(1).bound().build();
        (view.marks.is_allowed, view.marks.allowed) = (true, 0);
        let plan = plan(&debugged(), &view);
        assert_eq!(plan.actions, []);
        assert!(plan.refused.unwrap().starts_with("a runs Admiralty"));
    }
}
