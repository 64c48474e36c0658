//! Owns what events say: the text that the last operation has, too, and behind it what each step had against each
//! Seed, as far as there is room.

use std::fmt::Write;

use pilotage_placement::{Rejection, Selection, Step};

/// What every report begins with.
pub(super) const FAILED: &str = "Failed to schedule Shoot: ";
/// The API server takes no longer notes.
const LIMIT: usize = 1024;

/// What the last operation says.
pub(super) fn operation(message: &str) -> String {
    format!("{FAILED}{message}")
}

/// What the event says: the message and every step's reasons. Where a message lists Seeds itself, the list of all
/// takes its place.
pub(super) fn note(message: &str, selection: Option<&Selection>) -> String {
    let mut note = operation(message);
    let Some(selection) = selection.filter(|selection| !selection.rejected.is_empty()) else {
        return shortened(note);
    };
    if message.starts_with("0/")
        && let Some(at) = note.find(": {")
    {
        note.truncate(at);
    }
    note.push('.');
    let steps: Vec<_> = Step::ALL
        .iter()
        .filter_map(|step| {
            let mut rejected: Vec<_> = selection
                .rejected
                .iter()
                .filter(|rejection| rejection.step() == *step)
                .collect();
            rejected.sort_by(|a, b| a.name.cmp(&b.name));
            (!rejected.is_empty()).then_some((*step, rejected))
        })
        .collect();
    // How many fell out where is short, and fits always.
    let counts: Vec<_> = steps
        .iter()
        .map(|(step, rejected)| format!("{step} {}", rejected.len()))
        .collect();
    let _ = write!(note, " Seeds rejected by step: {}.", counts.join(", "));
    let mut note = shortened(note);
    for (number, (step, rejected)) in steps.iter().enumerate() {
        // What earlier steps leave over is for the later ones.
        let left = LIMIT.saturating_sub(note.len());
        let share = left.checked_div(steps.len().saturating_sub(number));
        add(&mut note, *step, rejected, share.unwrap_or_default());
    }
    note
}

/// Adds a step's Seeds, those with the same reason together, in at most `share` bytes.
fn add(note: &mut String, step: Step, rejected: &[&Rejection], share: usize) {
    /// Room for how many were left out.
    const MORE: usize = " (and 10000 more).".len();
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for rejection in rejected {
        let reason = rejection.reason.to_string();
        match reasons.iter_mut().find(|(other, _)| *other == reason) {
            Some((_, names)) => names.push(&rejection.name),
            None => reasons.push((reason, vec![&rejection.name])),
        }
    }
    let mut text = String::new();
    let mut told = 0_usize;
    'all: for (reason, names) in &reasons {
        for (number, name) in names.iter().enumerate() {
            let piece = match (number, told) {
                (0, 0) => format!(" {step}: {reason}: {name}"),
                (0, _) => format!("; {reason}: {name}"),
                _ => format!(", {name}"),
            };
            if text.len().saturating_add(piece.len()) > share.saturating_sub(MORE) {
                break 'all;
            }
            text.push_str(&piece);
            told = told.saturating_add(1);
        }
    }
    if told > 0 {
        note.push_str(&text);
        match rejected.len().saturating_sub(told) {
            0 => {}
            // Writing into a String can't fail.
            left => drop(write!(note, " (and {left} more)")),
        }
        note.push('.');
    }
}

/// At most as long as the API server takes, cut between two characters.
fn shortened(mut text: String) -> String {
    const MARK: &str = " ...";
    const KEPT: usize = LIMIT - MARK.len();
    if text.len() > LIMIT {
        text.truncate(text.floor_char_boundary(KEPT));
        text.push_str(MARK);
    }
    text
}
