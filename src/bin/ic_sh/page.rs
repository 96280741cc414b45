//! What a command says: aligned, with headings and colour, on a terminal; in a pipe a line for each thing,
//! tabs between.

use std::fmt::Write;
use std::io::{self, IsTerminal};

use crate::value::printable;

/// Lines of a command's answer.
pub struct Page {
    terminal: bool,
    colour: bool,
    text: String,
}

impl Page {
    /// A page for standard output.
    pub fn new() -> Page {
        let terminal = io::stdout().is_terminal();
        let says = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let plain = says("NO_COLOR").is_some() || says("TERM").is_some_and(|term| term == "dumb");
        Page { terminal, colour: terminal && !plain, text: String::new() }
    }

    /// The page as text.
    pub fn finish(self) -> String {
        self.text
    }

    /// One line.
    pub fn line(&mut self, text: &str) {
        self.text += &printable(text);
        self.text.push('\n');
    }

    /// Names and what they are.
    pub fn facts(&mut self, facts: &[(&str, String)]) {
        let width = facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, value) in facts {
            let name = self.first(&printable(name), width, if self.terminal { "  " } else { "\t" });
            self.text += &format!("{name}{}\n", printable(value));
        }
    }

    /// Columns and their values; those are printable already.
    pub fn assignments(&mut self, row: &[(String, String)]) {
        let names: Vec<_> = row.iter().map(|(name, _)| printable(name)).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        for (name, (_, value)) in names.iter().zip(row) {
            let name = self.first(name, width, " = ");
            let value = if value == "NULL" { self.paint(value, "2") } else { value.clone() };
            self.text += &format!("{name}{value}\n");
        }
    }

    /// Rows under headings; in a pipe without headings, behind the name of what each is.
    pub fn sheet(&mut self, name: &str, headings: &[&str], rows: &[Vec<String>]) {
        let rows: Vec<Vec<_>> =
            rows.iter().map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
        if !self.terminal {
            for row in rows {
                let _ = writeln!(self.text, "{name}\t{}", row.join("\t").trim_end());
            }
            return;
        }
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let width = |at: usize| {
            let cells = rows.iter().filter_map(|row| row.get(at)).map(String::as_str);
            cells.chain([headings[at]]).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let aligned = |cells: &mut dyn Iterator<Item = &str>| {
            let cells = cells.enumerate().map(|(at, cell)| format!("{cell:<0$}  ", width(at)));
            cells.collect::<String>().trim_end().to_owned()
        };
        let heading = aligned(&mut headings.iter().copied());
        self.text += &(self.paint(&heading, "1") + "\n");
        for row in &rows {
            let line = aligned(&mut row.iter().map(String::as_str));
            self.text += &(line + "\n");
        }
    }

    /// What a line begins with.
    fn first(&self, name: &str, width: usize, separator: &str) -> String {
        match self.terminal {
            true => self.paint(&format!("{name:<width$}"), "1") + separator,
            false => format!("{name}{separator}"),
        }
    }

    fn paint(&self, text: &str, colour: &str) -> String {
        if self.colour { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(terminal: bool, colour: bool) -> String {
        let mut page = Page { terminal, colour, text: String::new() };
        page.facts(&[("id", "1".into()), ("long name", "a\tb".into())]);
        page.assignments(&[("k".into(), "NULL".into())]);
        page.sheet("row", &["a", "bb"], &[vec!["1".into(), "2".into()], vec!["long".into(), String::new()]]);
        page.finish()
    }

    #[test]
    fn a_pipe_gets_tabs() {
        assert_eq!(page(false, false), "id\t1\nlong name\ta\\tb\nk = NULL\nrow\t1\t2\nrow\tlong\n");
    }

    #[test]
    fn a_terminal_gets_columns() {
        assert_eq!(
            page(true, false),
            "id         1\nlong name  a\\tb\nk = NULL\n\na     bb\n1     2\nlong\n"
        );
        assert!(page(true, true).contains("\x1b[1ma     bb\x1b[0m\n1"));
    }
}
