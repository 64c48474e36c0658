//! How a pod came to its target, in one line for the event that it is bound: events of its stages are dropped when
//! there are many. Written by the edge, read by the scheduling loop. Nothing is decided here.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use pilotage_proxy::Answer;

use super::progress::{Progress, Stage};

/// So much is said of other targets.
const MOST_OF_OTHERS: usize = 512;

/// By the pods' UIDs, until they are told. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Stories(Arc<Mutex<HashMap<String, String>>>);

impl Stories {
    fn all(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This is the story of a pod that is bound, if there is anything to tell.
    pub(super) fn put(&self, uid: &str, story: String) {
        if !story.is_empty() {
            self.all().insert(uid.to_owned(), story);
        }
    }

    /// It is told, or nobody wants to hear it any more.
    pub(super) fn take(&self, uid: &str) -> Option<String> {
        self.all().remove(uid)
    }
}

/// When each stage was reached, and what other targets said when the choice was made.
pub(super) fn story(progress: &Progress, others: &str) -> String {
    let mut story = String::new();
    for stage in Stage::ALL {
        if let Some(after) = progress.after(stage) {
            let sep = if story.is_empty() { "" } else { ", " };
            // Writing into a String can't fail.
            let _ = write!(story, "{sep}{} after {}", stage.word(), time(after));
        }
    }
    if !others.is_empty() {
        let sep = if story.is_empty() { "" } else { "; " };
        story.push_str(sep);
        story.push_str(others);
    }
    story
}

/// What targets have said that weren't chosen.
pub(super) fn of_others(chosen: &str, answers: &BTreeMap<String, Answer>) -> String {
    let mut text = String::new();
    for (node, answer) in answers.iter().filter(|(node, _)| *node != chosen) {
        let says = answer.objection();
        let says = says.as_deref().unwrap_or("could take the pod, too");
        let sep = if text.is_empty() { "" } else { "; " };
        if text.len().saturating_add(says.len()) > MOST_OF_OTHERS {
            text.push_str(sep);
            text.push('…');
            break;
        }
        let _ = write!(text, "{sep}{node} {says}");
    }
    text
}

fn time(after: Duration) -> String {
    if after < Duration::from_secs(10) {
        format!("{} ms", after.as_millis())
    } else {
        format!("{} s", after.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_tells_the_stages_and_what_others_said() {
        let at = Duration::from_millis;
        let mut progress = Progress::seen_at(at(0));
        assert_eq!(story(&progress, ""), "");
        progress.reach(Stage::Asked, at(12));
        progress.reach(Stage::Granted, at(12_345));
        let refused = "Unschedulable: 0/2 nodes are available: 2 Insufficient cpu.";
        let answers = [
            ("dub", Answer::Refused(refused.into())),
            ("fra", Answer::Reserved),
            ("paris", Answer::Reserved),
            ("rome", Answer::Silent),
        ]
        .map(|(node, answer)| (node.to_owned(), answer))
        .into();
        let others = of_others("paris", &answers);
        assert_eq!(
            story(&progress, &others),
            "asked after 12 ms, granted after 12 s; dub refused [2 Insufficient cpu]; fra could take the pod, too; \
             rome has not answered yet"
        );
    }

    #[test]
    fn what_hundreds_say_is_cut() {
        let answers = (0..500).map(|number| (format!("node-{number}"), Answer::Silent));
        let others = of_others("", &answers.collect());
        assert!(others.len() < MOST_OF_OTHERS + 64, "{}", others.len());
    }
}
