//! Tells the author of a Target that something of ours went wrong about it, as soon as this process leads. It must not
//! know what that was: the words of a panic may quote a Secret.

use pilotage_clusters::Mistake;
use pilotage_runtime::caught::PANICKED;
use pilotage_runtime::lease::Leadership;
use pilotage_sched_driver::publish::{EventType, Occurrence, Recorder, Regarding, Warnings};
use tokio::sync::mpsc;

/// Tells them all, as long as any can come.
pub(crate) async fn tell(
    mut mistakes: mpsc::UnboundedReceiver<Mistake>,
    events: Recorder,
    leadership: Leadership,
) {
    let warnings = Warnings::new(events, leadership.clone());
    let mut leads = std::pin::pin!(leadership.acquired());
    let mut is_led = false;
    loop {
        tokio::select! {
            () = &mut leads, if !is_led => {
                is_led = true;
                warnings.tell();
            }
            mistake = mistakes.recv() => match mistake {
                Some(mistake) => warnings.warn(occurrence(mistake)),
                None => return,
            },
        }
    }
}

fn occurrence(mistake: Mistake) -> Occurrence {
    let Mistake { about, task } = mistake;
    let regarding = Regarding {
        api_version: about.api_version.unwrap_or_default(),
        kind: about.kind.unwrap_or_default(),
        namespace: about.namespace.unwrap_or_default(),
        name: about.name.unwrap_or_default(),
        uid: about.uid.unwrap_or_default(),
    };
    let note = format!(
        "a mistake in Pilotage ({task}), please report it with what its log says; it tries again after a pause"
    );
    Occurrence {
        regarding,
        type_: EventType::Warning,
        reason: PANICKED,
        action: "Connect",
        note,
        controller: "pilotage".into(),
    }
}

#[cfg(test)]
mod tests {
    use pilotage_clusters::TargetKey;

    use super::*;

    #[test]
    fn an_event_is_about_the_target_and_says_what_was_done_for_it() {
        let about = TargetKey::namespaced("shop", "paris").reference("u");
        let task = "heartbeat";
        let told = occurrence(Mistake { about, task });
        let Regarding {
            api_version,
            kind,
            namespace,
            name,
            uid,
        } = told.regarding;
        let about = [api_version, kind, namespace, name, uid];
        let version = "multicluster.admiralty.io/v1alpha1";
        assert_eq!(about, [version, "Target", "shop", "paris", "u"]);
        assert!(told.note.contains("(heartbeat)"), "{}", told.note);
        assert_eq!(
            (told.reason, told.type_),
            ("InternalError", EventType::Warning)
        );
    }
}
