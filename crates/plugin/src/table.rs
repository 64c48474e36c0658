//! Texts for people: columns, amounts and ages. Pure.

use jiff::Timestamp;

/// A column is no wider; what is longer stands out.
const WIDEST: usize = 200;

/// Rows under a heading, each column as wide as it needs to be.
pub(crate) fn columns(heading: &[&str], rows: &[impl AsRef<[String]>]) -> String {
    let width = |(column, title): (usize, &&str)| {
        let cells = rows.iter().filter_map(|row| row.as_ref().get(column));
        let longest = cells.map(|cell| cell.chars().count());
        longest.fold(title.len(), usize::max).min(WIDEST)
    };
    let widths: Vec<usize> = heading.iter().enumerate().map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells = cells
            .zip(&widths)
            .map(|(cell, width)| format!("{:width$}", plain(cell), width = *width));
        format!("{}\n", cells.collect::<Vec<_>>().join("   ").trim_end())
    };
    let first = line(&mut heading.iter().copied());
    let body = rows
        .iter()
        .map(|row| line(&mut row.as_ref().iter().map(String::as_str)));
    std::iter::once(first).chain(body).collect()
}

/// How long ago something was, in its largest unit, as kubectl tells it.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(since.as_second()).max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A text without what a terminal would obey, and on one line: clusters say things, too.
pub fn plain(text: &str) -> String {
    // Besides control characters those that turn the direction of writing.
    let is_obeyed = |it: char| {
        let turns = matches!(it, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        it.is_control() || turns
    };
    text.chars()
        .map(|it| if is_obeyed(it) { ' ' } else { it })
        .collect()
}

/// The same of what may have several lines, with one space for many.
pub(crate) fn one_line(text: &str) -> String {
    let plain = plain(text);
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_needed() {
        let rows = [
            ["a".to_owned(), String::new()],
            ["long".to_owned(), "é".to_owned()],
        ];
        assert_eq!(columns(&["X", "YZ"], &rows), "X      YZ\na\nlong   é\n");
        let none: [[String; 2]; 0] = [];
        assert_eq!(columns(&["X", "YZ"], &none), "X   YZ\n");
    }

    #[test]
    fn ages_have_one_unit() {
        let ago = |seconds| {
            age(
                Timestamp::UNIX_EPOCH,
                Timestamp::from_second(seconds).unwrap(),
            )
        };
        let all = [0, 119, 120, 7199, 7200, 172_800].map(ago);
        assert_eq!(all, ["0s", "119s", "2m", "119m", "2h", "2d"]);
        assert_eq!(
            age(Timestamp::from_second(9).unwrap(), Timestamp::UNIX_EPOCH),
            "0s"
        );
    }

    #[test]
    fn a_cell_may_be_as_long_as_it_likes() {
        let long = "x".repeat(70_000);
        let table = columns(&["A", "B"], &[[long.clone(), "y".to_owned()]]);
        assert!(table.ends_with(&format!("{long}   y\n")));
    }

    #[test]
    fn no_text_moves_the_cursor() {
        assert_eq!(one_line("a\n\u{1b}[2Jb\t c"), "a [2Jb c");
        let cell = ["a\u{202e}\u{9b}b".to_owned()];
        assert_eq!(columns(&["X"], &[cell]), "X\na  b\n");
    }
}
