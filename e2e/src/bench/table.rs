//! Tables of text: the first column to the left, figures to the right. Pure.

/// Lines of equal columns; rows may be shorter than the titles.
pub fn table(titles: &[&str], rows: &[Vec<String>]) -> String {
    let titles: Vec<String> = titles.iter().map(|title| (*title).to_owned()).collect();
    let cell = |row: &Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
    let widths: Vec<usize> = (0..titles.len())
        .map(|column| {
            let cells = rows.iter().chain([&titles]).map(|row| cell(row, column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let line = |row: &Vec<String>| {
        let cells = widths.iter().enumerate().map(|(column, &width)| {
            let text = cell(row, column);
            if column == 0 {
                format!("{text:<width$}")
            } else {
                format!("{text:>width$}")
            }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let lines: Vec<String> = std::iter::once(&titles).chain(rows).map(line).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_below_each_other() {
        let rows = [
            vec!["four".to_owned(), "1.5".to_owned()],
            vec!["a".to_owned()],
        ];
        assert_eq!(
            table(&["RUN", "PODS/S"], &rows),
            "RUN   PODS/S\nfour     1.5\na"
        );
    }
}
