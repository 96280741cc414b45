//! The ABI stays what it was: `abi/iclaustron.abi` has the functions and types of the header as abidw sees
//! them, and `abi/constants.txt` the values of its constants. `IC_UPDATE_ABI=1 cargo test --test abi` writes
//! both anew, for a change that is meant; what differs then is in the commit for all to see. Functions may be
//! added without that.
//!
//! abidw reads a library of C that is made of the header, each function without a body of use: the real one
//! is Rust, whose debug information has Rust's types. tests/c/layout.c and src/capi/args.rs see to it that
//! both have the same layout, and tests/c_programs.rs that both have the same functions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn update() -> bool {
    std::env::var_os("IC_UPDATE_ABI").is_some()
}

fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Runs a command that must succeed. What it prints.
fn must(command: &mut Command) -> String {
    let output = run(command);
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn compiler() -> Command {
    Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

fn header() -> PathBuf {
    root().join("include/iclaustron/ic_apid.h")
}

/// Each constant with its value, but for the version.
fn constants() -> String {
    let header = fs::read_to_string(header()).expect("the header");
    let named =
        header.lines().filter_map(|line| line.strip_prefix("#define ")).filter(|line| line.contains(' '));
    let mut constants: Vec<_> = named.filter(|line| !line.starts_with("IC_VERSION_")).collect();
    constants.sort_unstable();
    constants.join("\n") + "\n"
}

/// Constants are permanent, once given: none may go or change.
#[test]
fn constants_stay() {
    let path = root().join("abi/constants.txt");
    let now = constants();
    if update() {
        fs::write(&path, &now).expect("the list of constants");
    }
    let before = fs::read_to_string(&path).expect("the list of constants");
    assert!(before.lines().count() > 100, "{before}");
    let gone: Vec<_> = before.lines().filter(|line| !now.lines().any(|other| other == *line)).collect();
    assert!(gone.is_empty(), "changed or gone: {gone:?}");
    let new: Vec<_> = now.lines().filter(|line| !before.lines().any(|other| other == *line)).collect();
    assert!(new.is_empty(), "not in abi/constants.txt: {new:?}");
}

/// A source of C that defines what a header declares.
fn definitions(header: &Path) -> String {
    let mut command = compiler();
    let text = must(command.args(["-E", "-P", "-x", "c"]).arg("-I").arg(root().join("include")).arg(header));
    let mut source = format!("#include \"{}\"\n", header.display());
    for declaration in text.split(['{', '}', ';']).map(str::trim) {
        let name =
            declaration.split('(').next().unwrap_or_default().rsplit([' ', '*']).next().unwrap_or_default();
        if name.starts_with("ic_") && declaration.ends_with(')') {
            source += &format!("{declaration} {{ __builtin_trap(); }}\n");
        }
    }
    source
}

/// A shared library of the functions of a header.
fn library_of(header: &Path, dir: &Path) -> PathBuf {
    let source = dir.join("abi.c");
    fs::write(&source, definitions(header)).expect("the source");
    let library = dir.join("libiclaustron.so");
    let mut command = compiler();
    command.args([
        "-g",
        "-w",
        "-shared",
        "-fPIC",
        concat!("-Wl,-soname,libiclaustron.so.", env!("CARGO_PKG_VERSION_MAJOR")),
    ]);
    // Nothing of the machine in the dump.
    command
        .arg(format!("-ffile-prefix-map={}=", root().display()))
        .arg(format!("-ffile-prefix-map={}=", dir.display()));
    must(command.arg("-I").arg(root().join("include")).arg("-o").arg(&library).arg(&source));
    library
}

/// Compares with the committed dump. What has changed, if anything has; functions may be added.
fn changes(library: &Path) -> Option<String> {
    let mut command = Command::new("abidiff");
    let output = run(command.arg("--no-added-syms").arg(root().join("abi/iclaustron.abi")).arg(library));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (!output.status.success()).then_some(said)
}

#[test]
#[cfg_attr(not(has_abidiff), ignore = "needs abidiff: install abigail-tools")]
fn functions_and_types_stay() {
    let dir = tempfile::tempdir().expect("a directory");
    let library = library_of(&header(), dir.path());
    if update() {
        let mut command = Command::new("abidw");
        command.args(["--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--drop-private-types"]);
        must(command.arg("--out-file").arg(root().join("abi/iclaustron.abi")).arg(&library));
    }
    if let Some(changed) = changes(&library) {
        panic!("the ABI has changed:\n{changed}");
    }
}

/// That the comparison sees what must not happen: a parameter of another type, a field of another size, a
/// function gone.
#[test]
#[cfg_attr(not(has_abidiff), ignore = "needs abidiff: install abigail-tools")]
fn changes_are_seen() {
    let original = fs::read_to_string(header()).expect("the header");
    for (from, to) in [
        ("bool ic_error_is_temporary(int32_t code);", "bool ic_error_is_temporary(int64_t code);"),
        ("  uint32_t first_ms;", "  uint64_t first_ms;"),
        ("uint32_t ic_version(void);", ""),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let changed = dir.path().join("changed.h");
        assert!(original.contains(from), "{from}");
        fs::write(&changed, original.replace(from, to)).expect("another header");
        assert!(changes(&library_of(&changed, dir.path())).is_some(), "{from}");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let added = dir.path().join("added.h");
    let more = "uint32_t ic_version(void);\nuint32_t ic_something_new(void);";
    fs::write(&added, original.replace("uint32_t ic_version(void);", more)).expect("another header");
    assert_eq!(changes(&library_of(&added, dir.path())), None, "a function more");
}
