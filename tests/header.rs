//! The committed C header is what the pinned cbindgen makes of src/capi, and doc/api.md is what api_doc makes
//! of the header. `IC_UPDATE_HEADER=1 cargo test --test header` writes both anew.

mod api_doc;

use std::path::Path;

fn generated() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml");
    let mut builder = cbindgen::Builder::new().with_config(config);
    let files = [
        "args",
        "errors",
        "explain",
        "retry",
        "global",
        "table",
        "record",
        "connection",
        "multi_read",
        "statistics",
        "log",
        "embedded",
    ];
    for file in files {
        builder = builder.with_src(root.join(format!("src/capi/{file}.rs")));
    }
    let mut text = Vec::new();
    builder.generate().expect("the sources of the header").write(&mut text);
    without_safety(&String::from_utf8(text).expect("a header of UTF-8"))
}

/// The Rust sections on safety say to a Rust caller what the rest says to a C caller.
fn without_safety(header: &str) -> String {
    let mut kept = Vec::new();
    let mut skipping = false;
    for line in header.lines() {
        if line.trim() == "* # Safety" {
            skipping = true;
            // The blank line before it.
            kept.pop();
        } else if skipping && line.trim() == "*/" {
            skipping = false;
        }
        if !skipping {
            kept.push(line);
        }
    }
    kept.join("\n") + "\n"
}

/// A file in the repository is what was made for it, or is written so if that is asked for.
fn is_committed(path: &str, generated: &str) {
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("IC_UPDATE_HEADER").is_some() {
        std::fs::write(&at, generated).expect("the file can be written");
    }
    let committed = std::fs::read_to_string(&at).expect("the file is there");
    let differs = committed.lines().zip(generated.lines()).position(|(a, b)| a != b);
    assert!(
        committed == generated,
        "{path} is not up to date, first in line {:?}",
        differs.map(|line| line + 1)
    );
}

#[test]
fn header_is_generated() {
    let generated = generated();
    assert_eq!(generated, self::generated(), "the order of the header is not stable");
    is_committed("include/iclaustron/ic_apid.h", &generated);
}

#[test]
fn reference_is_generated() {
    let header = api_doc::Header::read(&generated());
    is_committed("doc/api.md", &api_doc::reference(&header));
}

#[test]
fn every_comment_says_what_a_reader_needs() {
    let faults = api_doc::faults(&api_doc::Header::read(&generated()));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

const SMALL: &str = "/*
 * A library.
 *
 * Errors. 0 is success.
 */

/**
 * A list.
 */
typedef struct IC_TABLE_LIST IC_TABLE_LIST;

/**
 * One of IC_LOG_*.
 */
#define IC_LOG_NONE 0

/**
 * Arguments.
 */
typedef struct IC_TABLE_ARGS {
  /**
   * Bytes, in
   * all.
   */
  size_t size;
  uint32_t logged;
} IC_TABLE_ARGS;

/**
 * Counts, as
 * one does.
 * index: below ic_table_no_such,
 *   from 0.
 * Threads: any; blocks never.
 * Returns the number.
 * See also ic_table_list_free, ic_table_gone.
 */
int32_t ic_table_list_count(const struct IC_TABLE_LIST *list,
                            uint32_t index,
                            bool far);

/**
 * Frees.
 */
int32_t ic_table_list_free(struct IC_TABLE_LIST *list);
";

#[test]
fn faults_are_found() {
    let expected = [
        "IC_TABLE_ARGS: nothing is said of logged",
        "ic_table_list_count: nothing is said of far",
        "ic_table_list_count: see also ic_table_gone, which there is not",
        "ic_table_list_free: which threads, and whether it blocks",
        "ic_table_list_free: what it returns",
    ];
    assert_eq!(api_doc::faults(&api_doc::Header::read(SMALL)), expected);
    let elsewhere = SMALL.replace("IC_LOG_NONE", "IC_ELSE");
    let faults = api_doc::faults(&api_doc::Header::read(&elsewhere));
    assert_eq!(faults[0], "IC_ELSE: is in no section of the reference");
}

#[test]
fn reference_has_all_parts() {
    let reference = api_doc::reference(&api_doc::Header::read(SMALL));
    let has = |part: &str| assert!(reference.contains(part), "{part}\nis not in\n{reference}");
    has("- [Tables](#tables): [ic_table_list_count](#ic_table_list_count), [ic_table_list_free](#");
    has("\n**Errors.** 0 is success.\n");
    has("### IC_TABLE_LIST\n\nA list.\n\n```c\ntypedef struct IC_TABLE_LIST IC_TABLE_LIST;\n```\n");
    has("typedef struct IC_TABLE_ARGS {\n  size_t size;\n  uint32_t logged;\n} IC_TABLE_ARGS;\n");
    has("| `size` | Bytes, in all. |\n");
    has("| `IC_LOG_NONE` | 0 | One of `IC_LOG_*`. |\n");
    has("\nCounts, as one does.\n\n- `index`: below `ic_table_no_such`, from 0.\n- **Threads**: any; blocks");
    has("- **See also**: [`ic_table_list_free`](#ic_table_list_free), `ic_table_gone`\n");
}
