//! Commands line by line: at a prompt on a terminal, else from a file or pipe.

use std::io::{self, BufRead, IsTerminal, Write};

use clap::{Parser, Subcommand};

use crate::commands::{Command, Session};
use crate::{print, say};

/// One line.
#[derive(Debug, Parser)]
#[command(multicall = true, help_template = "{all-args}", override_usage = "help shows the commands")]
struct Line {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    #[command(flatten)]
    Command(Command),
    /// End; so does the end of the input
    #[command(visible_alias = "exit")]
    Quit,
}

/// Runs lines until they end. Whether all could be run; what goes wrong at a prompt is the person's to see.
pub fn run(session: &mut Session) -> bool {
    let at_prompt = io::stdin().is_terminal() && io::stdout().is_terminal();
    if at_prompt {
        print(&format!("client node {}; help shows the commands, quit ends\n", session.own_node()));
    }
    let mut good = true;
    for number in 1.. {
        if at_prompt {
            print("ic_sh> ");
            let _ = io::stdout().flush();
        }
        let mut line = String::new();
        match io::stdin().lock().read_line(&mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                say(&format!("reading commands: {error}"));
                return false;
            }
        }
        match execute(session, line.trim()) {
            Ok(true) => {}
            Ok(false) => return good || at_prompt,
            Err(error) if at_prompt => say(&error),
            Err(error) => {
                say(&format!("line {number}: {error}"));
                good = false;
            }
        }
    }
    if at_prompt {
        print("\n");
    }
    good || at_prompt
}

/// Runs one line; whether more may follow.
fn execute(session: &mut Session, line: &str) -> Result<bool, String> {
    let words = words(line)?;
    if words.is_empty() || line.starts_with('#') {
        return Ok(true);
    }
    let line = match Line::try_parse_from(words) {
        Ok(line) => line,
        Err(help) if !help.use_stderr() => {
            let _ = help.print();
            return Ok(true);
        }
        Err(error) => {
            let text = error.render().to_string();
            let text = text.split("\n\nFor more information").next().unwrap_or_default();
            return Err(text.trim().trim_start_matches("error: ").to_owned());
        }
    };
    match line.verb {
        Verb::Quit => Ok(false),
        Verb::Command(command) => {
            print(&session.run(&command).map_err(|error| error.to_string())?);
            Ok(true)
        }
    }
}

/// The words of a line, as a shell takes them apart: quotes of both kinds keep blanks, a backslash the next
/// character but for single quotes.
fn words(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (Some(open), c) if open == c => quote = None,
            (None | Some('"'), '\\') => {
                word.get_or_insert_default().push(characters.next().ok_or("a backslash at the end")?);
            }
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match quote {
        Some(open) => Err(format!("no end of what begins with {open}")),
        None => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_as_in_a_shell() {
        for (line, expected) in [
            ("", &[][..]),
            ("  get  t 1 ", &["get", "t", "1"]),
            ("get t 'two words' \"and 'more'\"", &["get", "t", "two words", "and 'more'"]),
            (r#"get t '' a\ b "\"" '\'"#, &["get", "t", "", "a b", "\"", "\\"]),
            ("a'b'c", &["abc"]),
        ] {
            assert_eq!(words(line).unwrap(), expected, "{line}");
        }
        for line in ["'", "get \"t", "\\"] {
            assert!(words(line).is_err(), "{line}");
        }
    }

    #[test]
    fn lines_are_commands() {
        use clap::CommandFactory;
        Line::command().debug_assert();
        let parse = |line: &str| Line::try_parse_from(words(line).unwrap());
        assert!(matches!(parse("quit").unwrap().verb, Verb::Quit));
        assert!(matches!(parse("exit").unwrap().verb, Verb::Quit));
        let Verb::Command(Command::Get(key)) = parse("get t -1 -- --x").unwrap().verb else { panic!("get") };
        assert_eq!((key.table.as_str(), key.key), ("t", vec!["-1".to_owned(), "--x".to_owned()]));
        for line in ["get t", "describe", "state x", "no", "ic_sh state"] {
            assert!(parse(line).unwrap_err().use_stderr(), "{line}");
        }
        assert!(!parse("help get").unwrap_err().use_stderr());
    }
}
