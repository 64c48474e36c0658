//! What a placed proxy has changed while it runs, on its way to the delegate's chaperon, and what becomes of it there.
//!
//! Only digests are compared here, since no spec of a chaperon is kept. If they differ the whole of both is read once,
//! and nothing is asked for again before the proxy changes: neither admission in the source, which may have put more
//! into the proxy than into its manifest, nor a target that keeps another spec than it was sent makes a loop.

use k8s_openapi::api::core::v1::Pod;
use pilotage_api::{PodChaperon, bounds::cut, keys};
use pilotage_model::changes::Digest;

use super::{Action, Plan};
use crate::{class::Class, requests::Outcome, slim, view::ChaperonView};

/// As many bytes of a refusal are told.
const LONGEST: usize = 960;

/// Which changes of a pod its delegate doesn't have, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What the pod had then: of one change one refusal is worth telling, however a target words the next one.
    pub of: Digest,
    /// In words for its author.
    pub why: String,
}

/// The newest change that was brought to a chaperon, or couldn't be.
#[derive(Clone, Debug)]
pub(super) struct Carried {
    chaperon_uid: String,
    of: Digest,
    refused: Option<String>,
}

impl Carried {
    /// What an action's end says of it; `None`: it is open.
    pub(super) fn by(action: &Action, outcome: &Outcome) -> Option<Self> {
        let Action::ChangeSpec { uid, of, .. } = action else {
            return None;
        };
        let refused = match outcome {
            Outcome::Done => None,
            Outcome::Refused(why) => Some(cut(why, LONGEST).to_owned()),
            Outcome::Conflict | Outcome::Gone | Outcome::StillThere | Outcome::Unknown(_) => {
                return None;
            }
        };
        Some(Self {
            chaperon_uid: uid.clone(),
            of: *of,
            refused,
        })
    }
}

/// Sends the change, or tells what became of the last one.
pub(super) fn carry(
    pod: &Pod,
    chaperon: &ChaperonView,
    carried: Option<&Carried>,
    plan: &mut Plan,
) {
    if chaperon.class != Class::Bound {
        return;
    }
    let Some(known) = slim::digest(&chaperon.object) else {
        return;
    };
    let of = Digest::of_pod(pod);
    let carried = carried.filter(|it| it.chaperon_uid == chaperon.uid && it.of == of);
    let why = match carried {
        Some(carried) => carried.refused.clone(),
        None if known == of => None,
        None => {
            plan.actions.push(Action::ChangeSpec {
                node: chaperon.node.clone(),
                name: chaperon.name.clone(),
                uid: chaperon.uid.clone(),
                of,
            });
            return;
        }
    };
    let why = why.or_else(|| refused(&chaperon.object));
    plan.refused = why.map(|why| Refused {
        of,
        why: format!("{} refused a change of the pod: {why}", chaperon.node),
    });
}

/// What the delegate didn't get of the newest change, by the word of the target's Pilotage; or what its kubelet says
/// since then that the node will never have room for.
fn refused(chaperon: &PodChaperon) -> Option<String> {
    let meta = &chaperon.metadata;
    let annotation = |key| meta.annotations.as_ref()?.get(key);
    let applied: i64 = annotation(keys::APPLIED_GENERATION)?.parse().ok()?;
    if meta.generation != Some(applied) {
        return None;
    }
    let said = annotation(keys::CHANGE_REFUSED).map(|why| cut_off(why));
    said.or_else(|| infeasible(chaperon))
}

fn infeasible(chaperon: &PodChaperon) -> Option<String> {
    let status = chaperon.status.as_ref();
    let conditions = status.and_then(|status| status.0.get("conditions")?.as_array());
    let mut conditions = conditions.into_iter().flatten();
    let pending =
        conditions.find(|it| it["type"] == "PodResizePending" && it["reason"] == "Infeasible")?;
    let said = pending["message"].as_str().unwrap_or_default();
    Some(cut_off(&format!("resize is infeasible: {said}")))
}

fn cut_off(why: &str) -> String {
    cut(why, LONGEST).to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::testing::chaperon;

    fn pod(spec: &Value) -> Pod {
        serde_json::from_value(json!({ "spec": spec })).unwrap()
    }

    fn plan(pod: &Pod, view: &ChaperonView, carried: Option<&Carried>) -> Plan {
        let mut plan = Plan::default();
        carry(pod, view, carried, &mut plan);
        plan
    }

    fn told(pod: &Pod, view: &ChaperonView, carried: Option<&Carried>) -> Option<String> {
        let plan = plan(pod, view, carried);
        assert_eq!(plan.actions, []);
        plan.refused.map(|refused| refused.why)
    }

    /// A bound delegate's, of that spec, as it is kept.
    fn bound(spec: &Value) -> ChaperonView {
        let mut view = chaperon("a", "ua").granted(1).bound().build();
        let object = Arc::make_mut(&mut view.object);
        object.spec.0 = spec.as_object().unwrap().clone();
        slim::lean(object);
        view
    }

    fn before() -> Value {
        json!({ "containers": [{ "name": "app", "resources": { "requests": { "cpu": "1" } } }] })
    }

    fn after() -> Value {
        let mut spec = before();
        spec["containers"][0]["resources"]["requests"]["cpu"] = "2".into();
        spec
    }

    fn change(of: Digest) -> Action {
        Action::ChangeSpec {
            node: "a".into(),
            name: "web-x".into(),
            uid: "ua".into(),
            of,
        }
    }

    #[test]
    fn a_change_goes_to_the_chaperon_of_a_bound_delegate_only_and_once() {
        let (old, new) = (pod(&before()), pod(&after()));
        let view = bound(&before());
        assert_eq!(plan(&old, &view, None), Plan::default());
        let action = change(Digest::of_pod(&new));
        assert_eq!(
            plan(&new, &view, None).actions,
            std::slice::from_ref(&action)
        );
        // Whatever the target's watch goes on telling.
        let carried = Carried::by(&action, &Outcome::Done).unwrap();
        assert_eq!(plan(&new, &view, Some(&carried)), Plan::default());
        // The next change, and another chaperon, are others.
        let mut newer = after();
        newer["ephemeralContainers"] = json!([{ "name": "shell", "image": "x" }]);
        let newer = pod(&newer);
        let next = change(Digest::of_pod(&newer));
        assert_eq!(plan(&newer, &view, Some(&carried)).actions, [next]);
        let mut another = bound(&before());
        another.uid = "ub".into();
        assert_eq!(plan(&new, &another, Some(&carried)).actions.len(), 1);

        let unbound = chaperon("a", "ua").granted(1).build();
        assert_eq!(plan(&new, &unbound, None), Plan::default());
        let unread = chaperon("a", "ua").granted(1).bound().build();
        assert_eq!(plan(&new, &unread, None), Plan::default());
    }

    #[test]
    fn a_change_of_a_chaperon_that_is_too_heavy_to_be_kept_goes_there_too() {
        let mut view = bound(&before());
        slim::slim(Arc::make_mut(&mut view.object));
        assert_eq!(plan(&pod(&before()), &view, None), Plan::default());
        assert_eq!(plan(&pod(&after()), &view, None).actions.len(), 1);
    }

    #[test]
    fn a_refusal_of_the_request_is_told_and_only_what_is_open_is_sent_again() {
        let (pod, view) = (pod(&after()), bound(&before()));
        let action = change(Digest::of_pod(&pod));
        for open in [
            Outcome::Unknown("timed out".to_owned()),
            Outcome::Conflict,
            Outcome::Gone,
        ] {
            assert!(Carried::by(&action, &open).is_none());
        }
        let refused = Outcome::Refused("x".repeat(5000));
        let carried = Carried::by(&action, &refused).unwrap();
        let said = told(&pod, &view, Some(&carried)).unwrap();
        assert!(said.starts_with("a refused a change of the pod: xxx") && said.len() < 1024);
    }

    /// The target has brought the newest change to the delegate, but for what it says.
    fn applied(refused: Option<&str>) -> ChaperonView {
        let mut view = bound(&before());
        let meta = &mut Arc::make_mut(&mut view.object).metadata;
        meta.generation = Some(2);
        let refused = refused.map(|why| (keys::CHANGE_REFUSED, why));
        let annotations = [(keys::APPLIED_GENERATION, "2")].into_iter().chain(refused);
        let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned()));
        meta.annotations = Some(annotations.collect());
        view
    }

    #[test]
    fn what_a_target_refused_is_told_until_the_next_change() {
        let (pod, mut view) = (pod(&before()), applied(Some("resize: no")));
        let said = told(&pod, &view, None);
        assert_eq!(
            said.as_deref(),
            Some("a refused a change of the pod: resize: no")
        );
        Arc::make_mut(&mut view.object).metadata.generation = Some(3);
        assert_eq!(told(&pod, &view, None), None);
    }

    #[test]
    fn what_a_kubelet_finds_infeasible_is_told_and_what_it_defers_isnt() {
        let pod = pod(&before());
        let infeasible = "a refused a change of the pod: resize is infeasible: too much";
        for (reason, said) in [("Deferred", None), ("Infeasible", Some(infeasible))] {
            let status = json!({ "conditions": [{
                "type": "PodResizePending", "status": "True", "reason": reason, "message": "too much",
            }] });
            let mut view = applied(None);
            Arc::make_mut(&mut view.object).status = serde_json::from_value(status).unwrap();
            assert_eq!(told(&pod, &view, None).as_deref(), said);
            // The word of before the newest change.
            Arc::make_mut(&mut view.object).metadata.generation = Some(3);
            assert_eq!(told(&pod, &view, None), None);
        }
    }
}
