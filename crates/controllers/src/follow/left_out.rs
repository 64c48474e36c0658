//! Tells authors of objects that don't follow pods because too many others do.
//!
//! It must not know targets: such an object is wanted nowhere, so no target ever looks at it.

use pilotage_clusters::Watch;
use pilotage_model::followed::Kind;
use pilotage_sched_driver::publish::Regarding;

use super::kinds::Followed;
use super::needs::{Change, Key, MOST_NAMED};
use super::place::Parts;
use super::selected::MOST;

/// Tells of objects of one kind, for as long as it is polled.
pub(super) async fn tell_left_out<K: Followed>(parts: &Parts, objects: &Watch<K>) {
    let mut changes = parts.needs.subscribe(K::KIND);
    let leadership = parts.leadership.clone();
    let mut leads = false;
    loop {
        let left_out = tokio::select! {
            Some(change) = changes.recv() => match change {
                Change::LeftOut(key, pod) => vec![(key, pod)],
                Change::At(..) => continue,
                Change::All => parts.needs.left_out(K::KIND),
            },
            () = leadership.acquired(), if !leads => {
                leads = true;
                parts.needs.left_out(K::KIND)
            }
            else => return,
        };
        // Before all are known, others may still go that come first; then all of it is told.
        if parts.leadership.is_leader() && parts.needs.are_known(K::KIND) {
            for (key, pod) in left_out {
                tell(parts, objects, &key, pod);
            }
        }
    }
}

/// Tells the object's author and the pod's.
fn tell<K: Followed>(parts: &Parts, objects: &Watch<K>, key: &Key, pod: Regarding) {
    let rule = match key.kind {
        Kind::ConfigMap | Kind::Secret => {
            format!("of the ConfigMaps that a pod names, and of the Secrets, the {MOST_NAMED}")
        }
        Kind::Service | Kind::Ingress => {
            format!(
                "of the Services that select a pod, and of the Ingresses in front of these, the {MOST}"
            )
        }
    };
    let (kind, name) = (key.kind, &key.name);
    let note = format!("{kind} {name} isn't followed: {rule} with the first names are");
    let object = objects.get(Some(&key.namespace), &key.name);
    let object = object.map(|object| Regarding::object(&*object));
    parts.tell_not_followed(object.into_iter().chain([pod]), &note);
}
