//! The committed C header is what the pinned cbindgen makes of src/capi. `IC_UPDATE_HEADER=1 cargo test --test
//! header` writes it anew.

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

#[test]
fn header_is_generated() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/iclaustron/ic_apid.h");
    let generated = generated();
    assert_eq!(generated, self::generated(), "the order of the header is not stable");
    if std::env::var_os("IC_UPDATE_HEADER").is_some() {
        std::fs::write(&path, &generated).expect("the header can be written");
    }
    let committed = std::fs::read_to_string(&path).expect("the header is there");
    let differs = committed.lines().zip(generated.lines()).position(|(a, b)| a != b);
    assert!(
        committed == generated,
        "include/iclaustron/ic_apid.h is not up to date, first in line {differs:?}"
    );
}
