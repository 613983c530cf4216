//! Lays out a table like kubectl's. On a terminal, no line is wider than the terminal: columns are left out or shortened, and
//! the sentence that is the last column gets lines of its own, which crates for tables do not do.

use anstyle::Style;
use textwrap::{Options, WordSplitter};
use unicode_width::UnicodeWidthStr;

use super::safe::{cut, end_of_first, printable};

/// Spaces between columns, as in kubectl's tables.
const GAP: usize = 3;
/// A sentence that would have less room in its column gets lines of its own, in terminal columns.
const SENTENCE_WIDTH: usize = 60;
/// How many lines, and their indentation.
const SENTENCE_LINES: usize = 3;
const INDENT: &str = "    ";
/// Shortened texts keep this width, in terminal columns.
const LEAST_WIDTH: usize = 8;
const HEADING: Style = Style::new().bold();

pub(super) struct Column {
    pub(super) heading: &'static str,
    pub(super) style: Style,
    pub(super) narrow: Narrow,
}

/// What happens to a column on a narrow terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Narrow {
    Keep,
    /// It is left out, the column with the lowest number first.
    LeaveOut(u8),
    /// The middle of its texts is left out. They are names, whose beginnings and ends tell them apart.
    Shorten,
    /// It is the last column and contains sentences: they are cut, or get lines of their own.
    Sentence,
}

impl Column {
    pub(super) fn new(heading: &'static str) -> Self {
        Self { heading, style: Style::new(), narrow: Narrow::Keep }
    }

    pub(super) fn styled(self, style: Style) -> Self {
        Self { style, ..self }
    }

    pub(super) fn narrow(self, narrow: Narrow) -> Self {
        Self { narrow, ..self }
    }
}

/// The table, with colours. `width` is that of the terminal, if lines must not be wider.
pub(super) fn table(columns: Vec<Column>, rows: Vec<Vec<String>>, width: Option<usize>) -> String {
    let mut grid = Grid::new(columns, rows);
    if let Some(width) = width {
        grid.fit(width);
    }
    grid.text(width)
}

struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    /// The width of the widest text of each column.
    widths: Vec<usize>,
    /// The sentences of the rows, if they have lines of their own.
    sentences: Option<Vec<String>>,
}

impl Grid {
    fn new(columns: Vec<Column>, mut rows: Vec<Vec<String>>) -> Self {
        rows.iter_mut().flatten().for_each(|cell| *cell = printable(cell));
        let mut widths: Vec<usize> = columns.iter().map(|column| column.heading.len()).collect();
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        Self { columns, rows, widths, sentences: None }
    }

    fn total(&self) -> usize {
        self.widths.iter().sum::<usize>() + GAP * self.widths.len().saturating_sub(1)
    }

    fn fit(&mut self, width: usize) {
        if self.total() <= width {
            return;
        }
        if let (Some(Narrow::Sentence), Some(sentence)) =
            (self.columns.last().map(|column| column.narrow), self.widths.last().copied())
        {
            let room = width.saturating_sub(self.total() - sentence);
            if room >= SENTENCE_WIDTH {
                let cells = self.rows.iter_mut().filter_map(|row| row.last_mut());
                cells.for_each(|cell| *cell = cut(cell, room));
                return;
            }
            self.sentences = Some(self.rows.iter_mut().filter_map(Vec::pop).collect());
            self.columns.pop();
            self.widths.pop();
        }
        while self.total() > width {
            let number = |column: &Column| match column.narrow {
                Narrow::LeaveOut(number) => Some(number),
                _ => None,
            };
            let next =
                self.columns.iter().enumerate().filter_map(|(index, column)| Some((number(column)?, index))).min();
            let Some((_, index)) = next else { break };
            self.columns.remove(index);
            self.widths.remove(index);
            self.rows.iter_mut().for_each(|row| _ = row.remove(index));
        }
        self.shorten(width);
    }

    /// Takes the room from the widest names.
    fn shorten(&mut self, width: usize) {
        while let Some(excess) = self.total().checked_sub(width).filter(|excess| *excess > 0) {
            let names =
                self.columns.iter().zip(&mut self.widths).filter(|(column, _)| column.narrow == Narrow::Shorten);
            let mut names: Vec<_> =
                names.map(|(column, width)| (column.heading.len().max(LEAST_WIDTH), width)).collect();
            names.retain(|(least, width)| **width > *least);
            names.sort_by_key(|(_, width)| std::cmp::Reverse(**width));
            let second = names.get(1).map_or(0, |(_, width)| **width);
            let Some((least, widest)) = names.into_iter().next() else { break };
            *widest -= excess.min((*widest - least).min((*widest - second).max(1)));
        }
        for row in &mut self.rows {
            for ((cell, width), column) in row.iter_mut().zip(&self.widths).zip(&self.columns) {
                if column.narrow == Narrow::Shorten {
                    cut_middle(cell, *width);
                }
            }
        }
    }

    fn text(&self, width: Option<usize>) -> String {
        let headings: Vec<_> = self.columns.iter().map(|column| column.heading.to_owned()).collect();
        let mut text = self.line(&headings, |_| HEADING);
        for (index, row) in self.rows.iter().enumerate() {
            text += &self.line(row, |column| column.style);
            if let (Some(own), Some(width)) = (self.sentences.as_ref().and_then(|all| all.get(index)), width) {
                text += &sentence(own, width);
            }
        }
        text
    }

    fn line(&self, cells: &[String], style: impl Fn(&Column) -> Style) -> String {
        let mut line = String::new();
        for (index, ((cell, width), column)) in cells.iter().zip(&self.widths).zip(&self.columns).enumerate() {
            let style = style(column);
            let gap = if index + 1 < cells.len() { width - cell.width() + GAP } else { 0 };
            line += &format!("{style}{cell}{style:#}{:gap$}", "");
        }
        line + "\n"
    }
}

fn sentence(sentence: &str, width: usize) -> String {
    let options = Options::new(width.max(INDENT.len() + LEAST_WIDTH))
        .initial_indent(INDENT)
        .subsequent_indent(INDENT)
        .word_splitter(WordSplitter::NoHyphenation);
    let all = textwrap::wrap(sentence, options);
    let mut lines: Vec<String> = all.iter().take(SENTENCE_LINES).map(|line| line.clone().into_owned()).collect();
    if let Some(last) = lines.last_mut().filter(|_| all.len() > SENTENCE_LINES) {
        *last = cut(&format!("{last}…"), width);
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

/// Shortens a name to this many terminal columns by leaving out its middle.
fn cut_middle(text: &mut String, width: usize) {
    if text.width() <= width {
        return;
    }
    let room = width.saturating_sub(1);
    let head = end_of_first(text, room.div_ceil(2));
    let reversed: String = text.chars().rev().collect();
    let tail = text.len() - end_of_first(&reversed, room / 2);
    text.replace_range(head..tail, "…");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::text::plain, *};

    fn columns() -> Vec<Column> {
        vec![
            Column::new("NAMESPACE").narrow(Narrow::Shorten),
            Column::new("NAME").narrow(Narrow::Shorten),
            Column::new("READY").narrow(Narrow::LeaveOut(0)),
            Column::new("STATUS").narrow(Narrow::LeaveOut(1)),
            Column::new("REASON"),
            Column::new("MESSAGE").narrow(Narrow::Sentence),
        ]
    }

    fn row(cells: [&str; 6]) -> Vec<String> {
        cells.map(str::to_owned).to_vec()
    }

    #[test]
    fn leaves_out_and_shortens_what_does_not_fit() {
        let rows = vec![
            row(["shop", "cart-5d9f7c6b84-x2x7k", "0/1", "CrashLoopBackOff", "OOMKilled", &"word ".repeat(20)]),
            row(["bank", "vault-0", "0/1", "Terminating", "StuckTerminating", "held"]),
        ];
        assert_eq!(
            plain(&table(columns(), rows.clone(), Some(60))),
            "\
NAMESPACE   NAME                    REASON
shop        cart-5d9f7c6b84-x2x7k   OOMKilled
    word word word word word word word word word word word
    word word word word word word word word word
bank        vault-0                 StuckTerminating
    held
"
        );
        assert_eq!(
            plain(&table(columns(), rows, Some(45))).lines().take(2).collect::<Vec<_>>(),
            ["NAMESPACE   NAME             REASON", "shop        cart-5d…-x2x7k   OOMKilled"]
        );
    }

    #[test]
    fn counts_wide_characters_as_two_columns() {
        for (width, end, middle) in
            [(6, "容器…", "容…敗"), (5, "容器…", "容…敗"), (4, "容…", "容…"), (8, "容器失敗", "容器失敗")]
        {
            let mut name = "容器失敗".to_owned();
            cut_middle(&mut name, width);
            assert_eq!((cut("容器失敗", width).as_str(), name.as_str()), (end, middle), "{width}");
        }
    }

    #[test]
    fn replaces_control_characters() {
        let table = plain(&table(columns(), vec![row(["a", "b\u{1b}[2J", "", "", "", "c\u{202e}d\u{9b}1m"])], None));
        assert!(table.contains("b\u{fffd}[2J") && table.ends_with("c\u{fffd}d\u{fffd}1m\n"), "{table:?}");
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal(
            rows in prop::collection::vec(
                ["[a-z0-9-]{1,63}", "[a-z0-9.-]{1,253}", "[0-9]/[0-9]", "[A-Za-z:]{1,30}", "[A-Za-z]{1,40}", "[ a-zé容]{0,400}"],
                1..5,
            ),
            width in 80usize..250,
        ) {
            let table = plain(&table(columns(), rows.into_iter().map(Vec::from).collect(), Some(width)));
            for line in table.lines() {
                prop_assert!(line.width() <= width, "{}: {line:?}", line.width());
            }
        }
    }
}
