//! Markdown of generated sections: wrapped entries of lists. It knows nothing of what they say.

/// Columns of a line.
const WIDTH: usize = 120;

/// One entry of a list, wrapped.
pub(super) fn entry(text: &str) -> String {
    wrapped(text, "- ", "  ")
}

/// A paragraph, wrapped.
pub(super) fn paragraph(text: &str) -> String {
    wrapped(text, "", "")
}

/// A sentence ends with a full stop.
pub(super) fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() || text.ends_with(['.', '!', '?', ':']) {
        text.to_owned()
    } else {
        format!("{text}.")
    }
}

/// Text that isn't meant as Markdown, as Markdown: what is code in it stays code.
pub(super) fn escaped(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(index, part)| {
        if index % 2 == 1 {
            part.to_owned()
        } else {
            part.replace('*', "\\*").replace('<', "\\<")
        }
    });
    parts.collect::<Vec<_>>().join("`")
}

fn wrapped(text: &str, first: &str, others: &str) -> String {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let width = line.chars().count() + 1 + word.chars().count();
        if !is_empty && width > WIDTH {
            lines.push(std::mem::replace(&mut line, others.to_owned()));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    lines.push(line);
    lines.join("\n")
}
