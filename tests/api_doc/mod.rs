//! doc/api.md, made of the header: contents, what holds for all calls, then a section per subject with its
//! types, constants and functions. The header is read as header.rs writes it; [`faults`] says where its
//! comments leave the order that this relies on, or leave out what a reader needs.

use std::collections::BTreeSet;
use std::fmt::Write;

/// The sections in the order in which a reader needs them, each with the names in it; one that ends in `*`
/// stands for all that begin so. The longest that fits a name decides.
const SECTIONS: &[(&str, &[&str])] = &[
    (
        "Cluster handle",
        &["IC_APID_GLOBAL", "IC_CONNECT_ARGS", "IC_NODE_STATE", "ic_connect_*", "ic_apid_global_*"],
    ),
    ("Tables", &["IC_TABLE_*", "IC_COLUMN*", "IC_TYPE_*", "ic_apid_table_*", "ic_table_*"]),
    ("Records", &["IC_RECORD*", "ic_record_*"]),
    ("Connections", &["IC_APID_CONNECTION", "ic_apid_conn_*"]),
    ("Queries", &["IC_QUERY_*", "ic_apid_query_*", "ic_apid_conn_get_next_executed_query"]),
    (
        "Transactions",
        &[
            "IC_TRANS_*",
            "ic_apid_transaction_*",
            "ic_apid_conn_hint_for_key",
            "ic_apid_conn_hints_for_keys",
            "ic_apid_conn_start_transaction",
            "ic_apid_conn_commit_transaction",
            "ic_apid_conn_rollback_transaction",
            "ic_apid_conn_close_transaction",
        ],
    ),
    (
        "Operations",
        &[
            "IC_WRITE_*",
            "IC_READ_*",
            "IC_ABORT_OPTION_*",
            "ic_write_*",
            "ic_read_*",
            "ic_apid_conn_write_*",
            "ic_apid_conn_read_*",
        ],
    ),
    (
        "Multi-key reads",
        &[
            "IC_MULTI_READ_*",
            "IC_KEY_STATE_*",
            "ic_multi_read_*",
            "ic_apid_multi_read_*",
            "ic_apid_conn_multi_read*",
            "ic_apid_conn_get_next_executed_multi_read",
        ],
    ),
    ("Errors", &["IC_ERROR_*", "ic_error_*"]),
    ("Retries", &["IC_RETRY*", "ic_retry_*"]),
    (
        "Statistics",
        &["IC_STATS*", "IC_OPERATION_STATS", "ic_stats_*", "ic_apid_conn_stats", "ic_apid_global_stats"],
    ),
    ("Log and trace", &["IC_LOG_*", "ic_set_*"]),
    ("Embedded data nodes", &["IC_EMBEDDED_*", "ic_embedded_*"]),
    ("Versions", &["IC_VERSION_*", "ic_version*"]),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Constant,
    /// A struct whose fields are not told.
    Opaque,
    Struct,
    /// Another name of a number, or a callback.
    Alias,
    Function,
}

/// Something that the header declares, with the comment before it.
#[derive(Debug)]
struct Item {
    kind: Kind,
    name: String,
    comment: Vec<String>,
    code: Vec<String>,
}

/// A function's comment in its parts.
#[derive(Debug, Default)]
struct Parts {
    effect: String,
    parameters: Vec<(String, String)>,
    threads: String,
    returns: String,
    see_also: Vec<String>,
}

/// What a header has: the opening page's paragraphs, and what it declares.
pub struct Header {
    page: Vec<String>,
    items: Vec<Item>,
}

impl Header {
    /// Reads a header.
    pub fn read(text: &str) -> Header {
        let mut lines = text.lines();
        let page = lines.by_ref().skip_while(|line| *line != "/*").skip(1);
        let page: Vec<_> =
            page.take_while(|line| *line != " */").map(|line| &line[line.len().min(3)..]).collect();
        let page = page.split(|line| line.is_empty()).map(|paragraph| paragraph.join(" ")).collect();
        let mut items = Vec::new();
        while let Some(line) = lines.next() {
            if line == "/**" {
                let comment = lines.by_ref().take_while(|line| *line != " */");
                let comment = comment.map(|line| line[line.len().min(3)..].to_owned()).collect();
                items.push(Item::read(comment, &mut lines));
            }
        }
        Header { page, items }
    }

    fn names(&self) -> BTreeSet<&str> {
        self.items.iter().filter(|item| item.kind != Kind::Constant).map(|item| item.name.as_str()).collect()
    }

    fn of(&self, section: &str) -> Vec<&Item> {
        self.items.iter().filter(|item| section_of(&item.name) == Some(section)).collect()
    }
}

impl Item {
    fn read<'a>(comment: Vec<String>, lines: &mut impl Iterator<Item = &'a str>) -> Item {
        let mut code = Vec::new();
        let mut depth = 0;
        for line in lines {
            code.push(line.to_owned());
            depth += line.matches('{').count() as i32 - line.matches('}').count() as i32;
            let inside_comment = line.trim_start().starts_with('*');
            if line.starts_with('#') || (depth == 0 && line.ends_with(';') && !inside_comment) {
                break;
            }
        }
        let all = code.join(" ");
        let last_word = |text: &str| {
            let text = text.trim_end_matches(';').trim_end();
            text.rsplit([' ', '*']).next().unwrap_or("").to_owned()
        };
        let (kind, name) = match all.split_once(' ') {
            Some(("#define", rest)) => (Kind::Constant, rest.split(' ').next().unwrap_or("").to_owned()),
            Some(("typedef", rest)) => match rest.split_once("(*") {
                Some((_, rest)) => (Kind::Alias, rest.split(')').next().unwrap_or("").to_owned()),
                None if rest.contains('{') => (Kind::Struct, last_word(rest)),
                None if rest.starts_with("struct ") => (Kind::Opaque, last_word(rest)),
                None => (Kind::Alias, last_word(rest)),
            },
            _ => (Kind::Function, last_word(all.split('(').next().unwrap_or(""))),
        };
        Item { kind, name, comment, code }
    }

    /// A function's parameters: type and name.
    fn parameters(&self) -> Vec<(String, String)> {
        let code = self.code.join(" ");
        let inside =
            code.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')).map_or("", |(inside, _)| inside);
        let named = inside.split(',').map(str::trim).filter(|parameter| *parameter != "void");
        let parts = named.map(|parameter| {
            let start = parameter.rfind([' ', '*']).map_or(0, |at| at + 1);
            (parameter[..start].trim().to_owned(), parameter[start..].to_owned())
        });
        parts.collect()
    }

    /// A struct's fields with what is said of them.
    fn fields(&self) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        let mut said = String::new();
        for line in self.code.iter().map(|line| line.trim()) {
            match line.strip_prefix("* ") {
                Some(text) => said = [said.as_str(), text].join(" ").trim().to_owned(),
                None if line.ends_with(';') && !line.starts_with('}') => {
                    let name = line.trim_end_matches(';').rsplit([' ', '*']).next().unwrap_or("");
                    let name = name.split('[').next().unwrap_or("");
                    fields.push((name.to_owned(), std::mem::take(&mut said)));
                }
                None => {}
            }
        }
        fields
    }

    /// The code without the comments in it.
    fn bare_code(&self) -> String {
        let comment = |line: &&String| {
            let line = line.trim_start();
            line.starts_with("/**") || line.starts_with('*')
        };
        self.code.iter().filter(|line| !comment(line)).map(|line| format!("{line}\n")).collect()
    }

    fn parts(&self) -> Parts {
        let names: Vec<String> = self.parameters().into_iter().map(|(_, name)| name).collect();
        let mut parts = Parts::default();
        let mut see_also = String::new();
        let mut effect = String::new();
        let mut current = &mut effect;
        for line in &self.comment {
            if let Some(text) = line.strip_prefix("  ") {
                *current = format!("{current} {text}");
                continue;
            }
            let (part, text) = match line.split_once(": ").filter(|(label, _)| is_label(label, &names)) {
                Some(("Threads", text)) => (&mut parts.threads, text),
                Some((label, text)) => {
                    parts.parameters.push((label.to_owned(), String::new()));
                    (&mut parts.parameters.last_mut().expect("pushed just now").1, text)
                }
                None => match (line.strip_prefix("Returns "), line.strip_prefix("See also ")) {
                    (Some(text), _) => (&mut parts.returns, text),
                    (_, Some(text)) => (&mut see_also, text),
                    _ => (&mut effect, line.as_str()),
                },
            };
            let space = if part.is_empty() { "" } else { " " };
            *part = format!("{part}{space}{text}");
            current = part;
        }
        parts.effect = effect;
        let names = see_also.trim_end_matches('.').split(", ").filter(|name| !name.is_empty());
        parts.see_also = names.map(str::to_owned).collect();
        parts
    }
}

/// Whether a line of a function's comment that begins so is about threads or parameters.
fn is_label(label: &str, parameters: &[String]) -> bool {
    label == "Threads" || label.split(", ").all(|name| parameters.iter().any(|parameter| parameter == name))
}

fn section_of(name: &str) -> Option<&'static str> {
    let fits = |pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    };
    let all =
        SECTIONS.iter().flat_map(|(title, patterns)| patterns.iter().map(move |pattern| (*title, *pattern)));
    all.filter(|(_, pattern)| fits(pattern)).max_by_key(|(_, pattern)| pattern.len()).map(|(title, _)| title)
}

/// What a reader of the header would miss, or be led astray by: one line each.
pub fn faults(header: &Header) -> Vec<String> {
    let names = header.names();
    let opaque = |kind: &str| {
        let of = kind
            .trim_start_matches("const ")
            .strip_prefix("struct ")
            .and_then(|kind| kind.strip_suffix(" *"));
        of.is_some_and(|of| header.items.iter().any(|item| item.kind == Kind::Opaque && item.name == of))
    };
    let mut faults = Vec::new();
    for item in &header.items {
        let name = &item.name;
        let mut fault = |what: String| faults.push(format!("{name}: {what}"));
        if section_of(name).is_none() {
            fault("is in no section of the reference".to_owned());
        }
        if item.comment.concat().is_empty() {
            fault("has no comment".to_owned());
        }
        for (field, said) in item.fields() {
            if item.kind == Kind::Struct && said.is_empty() {
                fault(format!("nothing is said of {field}"));
            }
        }
        if item.kind != Kind::Function {
            continue;
        }
        let parts = item.parts();
        if parts.effect.is_empty() {
            fault("no effect".to_owned());
        }
        if !["block", "wait"].iter().any(|word| parts.threads.contains(word)) {
            fault("which threads, and whether it blocks".to_owned());
        }
        if parts.returns.is_empty() && !item.code.concat().starts_with("void ic_") {
            fault("what it returns".to_owned());
        }
        for (at, (kind, parameter)) in item.parameters().into_iter().enumerate() {
            // The object of the call, and handles on it: the opening page says what they are.
            let understood = (at == 0 && opaque(&kind)) || kind.ends_with("_ID");
            let named =
                parts.parameters.iter().any(|(label, _)| label.split(", ").any(|one| one == parameter));
            if !understood && !named {
                fault(format!("nothing is said of {parameter}"));
            }
        }
        for other in &parts.see_also {
            if !names.contains(other.as_str()) {
                fault(format!("see also {other}, which there is not"));
            }
        }
    }
    faults
}

/// Text as Markdown: names in code, those with a place of their own as links to it.
fn marked(text: &str, names: &BTreeSet<&str>) -> String {
    let word = |word: &str| {
        let inner = word.trim_matches(|c: char| !(c.is_ascii_alphanumeric() || "_*`".contains(c)));
        let plain = word.replace('*', "\\*").replace('<', "&lt;").replace('|', "\\|");
        if inner.starts_with('`') {
            return word.to_owned();
        }
        match names.contains(inner) {
            true => word.replace(inner, &format!("[`{inner}`](#{})", inner.to_lowercase())),
            false if inner.contains('_') => word.replace(inner, &format!("`{inner}`")),
            false => plain,
        }
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// The reference.
pub fn reference(header: &Header) -> String {
    let mut out = String::from(
        "# Reference\n\nMade of [ic_apid.h](../include/iclaustron/ic_apid.h) by tests/header.rs; do \
         not edit. The [user guide](user-guide.md) shows how the calls go together.\n\n",
    );
    out += "- [What holds for all calls](#what-holds-for-all-calls)\n";
    for (title, _) in SECTIONS {
        let functions = header.of(title).into_iter().filter(|item| item.kind == Kind::Function);
        let links: Vec<_> = functions.map(|item| format!("[{0}](#{0})", item.name)).collect();
        let anchor = title.to_lowercase().replace(' ', "-");
        let _ = writeln!(out, "- [{title}](#{anchor}): {}", links.join(", "));
    }
    let names = header.names();
    out += "\n## What holds for all calls\n";
    for paragraph in header.page.iter().skip(1) {
        let _ = match paragraph.split_once(". ") {
            Some((subject, rest)) if subject.split(' ').count() <= 4 => {
                writeln!(out, "\n**{subject}.** {}", marked(rest, &names))
            }
            _ => writeln!(out, "\n{}", marked(paragraph, &names)),
        };
    }
    for (title, _) in SECTIONS {
        let items = header.of(title);
        let _ = writeln!(out, "\n## {title}");
        items
            .iter()
            .filter(|item| item.kind == Kind::Opaque)
            .for_each(|item| write_type(&mut out, item, &names));
        let types = |item: &&&Item| matches!(item.kind, Kind::Struct | Kind::Alias);
        items.iter().filter(types).for_each(|item| write_type(&mut out, item, &names));
        write_constants(&mut out, &items, &names);
        let functions = items.iter().filter(|item| item.kind == Kind::Function);
        functions.for_each(|item| write_function(&mut out, item, &names));
    }
    out
}

fn write_type(out: &mut String, item: &Item, names: &BTreeSet<&str>) {
    let said = marked(&item.comment.join(" "), names);
    let _ = write!(out, "\n### {}\n\n{said}\n\n```c\n{}```\n", item.name, item.bare_code());
    if item.kind == Kind::Struct {
        *out += "\n| field | |\n|---|---|\n";
        for (field, said) in item.fields() {
            let _ = writeln!(out, "| `{field}` | {} |", marked(&said, names));
        }
    }
}

fn write_constants(out: &mut String, items: &[&Item], names: &BTreeSet<&str>) {
    let constants: Vec<_> = items.iter().filter(|item| item.kind == Kind::Constant).collect();
    if !constants.is_empty() {
        *out += "\n| constant | value | |\n|---|---:|---|\n";
    }
    for item in constants {
        let value = item.code.concat();
        let value = value.rsplit(' ').next().unwrap_or("");
        let _ = writeln!(out, "| `{}` | {value} | {} |", item.name, marked(&item.comment.join(" "), names));
    }
}

fn write_function(out: &mut String, item: &Item, names: &BTreeSet<&str>) {
    let parts = item.parts();
    let _ = write!(out, "\n### {}\n\n```c\n{}```\n\n", item.name, item.bare_code());
    let _ = writeln!(out, "{}\n", marked(&parts.effect, names));
    for (name, text) in &parts.parameters {
        let labels: Vec<_> = name.split(", ").map(|name| format!("`{name}`")).collect();
        let _ = writeln!(out, "- {}: {}", labels.join(", "), marked(text, names));
    }
    for (label, text) in [("Threads", &parts.threads), ("Returns", &parts.returns)] {
        if !text.is_empty() {
            let _ = writeln!(out, "- **{label}**: {}", marked(text, names));
        }
    }
    if !parts.see_also.is_empty() {
        let _ = writeln!(out, "- **See also**: {}", marked(&parts.see_also.join(", "), names));
    }
}
