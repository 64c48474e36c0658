//! What targets and users write, as it is shown: bounded, and without what would change how the rest is read. Pure.

/// A text of at most so many bytes and a sign that it was cut, on one line.
pub(crate) fn shown(text: &str, most: usize) -> String {
    // Besides control characters those that turn the direction of writing.
    let turns = |it: char| matches!(it, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let part = &text[..text.floor_char_boundary(most)];
    let mut shown: String = part
        .chars()
        .map(|it| {
            if it.is_control() || turns(it) {
                ' '
            } else {
                it
            }
        })
        .collect();
    if part.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn texts_are_bounded_and_turn_nothing() {
        assert_eq!(shown("2 Insufficient cpu", 300), "2 Insufficient cpu");
        assert_eq!(shown("a\nb\u{202e}c\0", 300), "a b c ");
        assert_eq!(shown("aéé", 4), "aé…");
        assert_eq!(shown("", 4), "");
    }
}
