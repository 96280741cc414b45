//! The C side: the programs in tests/c and examples/c are compiled against the header and the shared library
//! that cargo has built, and run; what the library exports is what the header declares.
//!
//! Programs that need a cluster run on embedded nodes of their own, and once more on real ones if there is
//! `IC_NDB_HOME`. `IC_TEST_CONNECTSTRING` names a real cluster that runs already; else one is started.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use iclaustron::cluster::Cluster;
use iclaustron::dict::client::Client;
use iclaustron::dict::table::{NewColumn, NewTable};
use iclaustron::embedded::{self, EmbeddedCluster};
use iclaustron::tools::ndb_cluster::{NdbCluster, Options};
use iclaustron::wire::column::ColumnType;

const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The shared library that was built with this test: cargo puts it beside the test's executable.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    test.with_file_name("libiclaustron.so")
}

fn compiler(variable: &str, default: &str) -> Command {
    Command::new(std::env::var_os(variable).unwrap_or_else(|| default.into()))
}

/// Runs a command that must succeed.
fn must(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat();
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    said
}

/// Whether a source is C or C++ of a standard, without a warning.
fn compiles(source: &str, standard: &str) {
    let (mut command, language) = match standard.starts_with("c++") {
        true => (compiler("CXX", "c++"), "c++"),
        false => (compiler("CC", "cc"), "c"),
    };
    command.args(["-x", language, "-fsyntax-only"]).arg(format!("-std={standard}")).args(WARNINGS);
    must(command.arg("-I").arg(root().join("include")).arg(root().join(source)));
}

/// Compiles a program, links it with the library, and runs it. What it says.
fn run_source(source: &str, standard: &str, args: &[&str]) -> String {
    run_with(&library(), source, standard, &[], args)
}

/// As `run_source`, with another library, and with arguments for the compiler.
fn run_with(library: &Path, source: &str, standard: &str, flags: &[&str], args: &[&str]) -> String {
    let dir = tempfile::tempdir().expect("a directory for the program");
    let name = concat!("libiclaustron.so.", env!("CARGO_PKG_VERSION_MAJOR"));
    symlink(library, dir.path().join(name)).expect("a link to the library");
    let program = dir.path().join("program");
    let mut command = match standard.starts_with("c++") {
        true => compiler("CXX", "c++"),
        false => compiler("CC", "cc"),
    };
    command.args(["-g", "-pthread"]).arg(format!("-std={standard}")).args(WARNINGS);
    if standard.starts_with("c++") {
        command.args(["-x", "c++"]);
    }
    command.arg("-I").arg(root().join("include")).arg("-o").arg(&program).arg(root().join(source));
    must(
        command
            .args(["-x", "none"])
            .arg(library)
            .args(flags)
            .arg(format!("-Wl,-rpath,{}", dir.path().display())),
    );
    must(Command::new(program).args(args).env_remove("NDB_CONNECTSTRING"))
}

/// Compiles a program that loads the library itself, and runs it with the library's path before the other
/// arguments.
fn run_loading(source: &str, args: &[&str]) {
    let dir = tempfile::tempdir().expect("a directory for the program");
    let program = dir.path().join("program");
    let mut command = compiler("CC", "cc");
    // A pointer to a function is made of one to data, which POSIX allows and pedants do not.
    command.args(["-g", "-pthread", "-std=gnu11", "-Wall", "-Wextra", "-Werror"]);
    command.arg("-I").arg(root().join("include")).arg("-o").arg(&program).arg(root().join(source));
    must(command.args(["-ldl"]));
    must(Command::new(program).arg(library()).args(args));
}

/// Builds a C test and runs it.
fn run(name: &str, args: &[&str]) {
    run_source(&format!("tests/c/{name}.c"), "c11", args);
}

/// A set of embedded nodes for one program.
fn embedded_nodes() -> EmbeddedCluster {
    EmbeddedCluster::start(embedded::Options::default()).expect("embedded nodes")
}

/// The connectstring of a real cluster for the programs of this run.
fn real_nodes() -> &'static str {
    static CLUSTER: OnceLock<Result<(String, Option<Child>), String>> = OnceLock::new();
    let started = CLUSTER.get_or_init(|| match std::env::var("IC_TEST_CONNECTSTRING") {
        Ok(running) => Ok((running, None)),
        Err(_) => start_cluster(),
    });
    match started {
        Ok((connectstring, _)) => connectstring,
        Err(error) => panic!("no cluster: {error}"),
    }
}

/// Starts a cluster that ends with this process, however that ends: the child waits for the end of its input,
/// which comes when the process is gone, and stops the cluster.
fn start_cluster() -> Result<(String, Option<Child>), String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?.keep();
    let child = Command::new("sh")
        .args(["-c", r#"read -r _; "$0" stop "$1"; rm -rf -- "$1""#])
        .args([OsStr::new(env!("CARGO_BIN_EXE_ic_cluster")), dir.as_os_str()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut cluster = NdbCluster::start(Options::new(dir)).map_err(|error| error.to_string())?;
    cluster.leave_running();
    Ok((cluster.connectstring(), Some(child)))
}

#[test]
fn header_alone() {
    for standard in ["c99", "c11", "c++11"] {
        compiles("tests/c/header_alone.c", standard);
    }
    run("header_alone", &[]);
}

#[test]
fn every_export() {
    compiles("tests/c/every_export.c", "c99");
    compiles("tests/c/every_export.c", "c++11");
    let panicking = panicking_library();
    for standard in ["c11", "c++17"] {
        run_source("tests/c/every_export.c", standard, &[]);
        run_with(&panicking, "tests/c/every_export.c", standard, &["-DFORCED_PANICS"], &[]);
    }
    let mut exports = listed();
    exports.insert("ic_forced_panics".to_owned());
    assert_eq!(exported(&panicking), exports);
}

/// A library whose exports panic when they are told to, in a target directory of its own. Of an installed one
/// it lacks what makes that good, so that it is built fast.
fn panicking_library() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("forced-panics");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["rustc", "--quiet", "--offline", "--lib", "--crate-type", "cdylib", "--no-default-features"]);
    cargo.args(["--features", "embedded,forced-panics"]).arg("--target-dir").arg(&target).current_dir(root());
    must(cargo.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_PROFILE_DEV_OPT_LEVEL", "0"));
    target.join("debug/libiclaustron.so")
}

/// The other headers, each by itself in every standard that it is for.
#[test]
fn other_headers() {
    for standard in ["c99", "c11", "c++11", "c++17"] {
        compiles("include/iclaustron/ic_types.h", standard);
    }
    for standard in ["c++17", "c++20"] {
        compiles("include/iclaustron/iclaustron.hpp", standard);
        compiles("tests/cpp/wrapper.cpp", standard);
    }
}

#[test]
fn types_of_columns() {
    run("types", &[]);
}

#[test]
fn cpp_classes() {
    run_source("tests/cpp/wrapper.cpp", "c++17", &[]);
}

#[test]
fn layout() {
    run("layout", &[]);
}

#[test]
fn connect_errors() {
    run("connect_errors", &[]);
}

#[test]
fn embedded() {
    run("embedded", &[]);
}

/// Embedded nodes in a process of their own, which ends with this value.
struct NodeProcess(Child);

impl NodeProcess {
    fn start() -> (Self, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ic_node"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("ic_node");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output"))
            .read_line(&mut line)
            .expect("a connectstring");
        (NodeProcess(child), line.trim().to_owned())
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn stop() {
    let (process, nodes) = NodeProcess::start();
    run("stop", &[&nodes, &process.0.id().to_string()]);
}

#[test]
fn paused() {
    let (process, nodes) = NodeProcess::start();
    run("paused", &[&nodes, &process.0.id().to_string(), "3"]);
}

#[test]
fn unload() {
    let nodes = embedded_nodes();
    run_loading("tests/c/unload.c", &[&nodes.connectstring()]);
}

/// On nodes that give a client's node id out again at once.
#[test]
fn again() {
    let options = embedded::Options { quarantine: Duration::ZERO, ..embedded::Options::default() };
    let nodes = EmbeddedCluster::start(options).expect("embedded nodes");
    run("again", &[&nodes.connectstring()]);
}

#[test]
fn examples_compile() {
    let small = ["transactions", "types", "create_table", "statistics", "unit_test"];
    for name in ["hello", "pipeline", "epoll", "retry", "multi_read"].iter().chain(&small) {
        compiles(&format!("examples/c/{name}.c"), "c99");
    }
}

/// The README's program does what the README says, with nothing changed but the address.
#[test]
fn readme() {
    let text = std::fs::read_to_string(root().join("README.md")).expect("the README");
    let program = text.split("```").find_map(|part| part.strip_prefix("c\n")).expect("a program in it");
    let nodes = embedded_nodes();
    let address = nodes.connectstring();
    let cluster = Cluster::connect(Some(&address), &Default::default()).expect("joining");
    let key = NewColumn { primary_key: true, ..NewColumn::new("id", ColumnType::Unsigned) };
    let columns = vec![key, NewColumn::new("value", ColumnType::Unsigned)];
    let mut dictionary = Client::new(cluster.clone()).expect("a dictionary");
    dictionary.create(&NewTable::new("test", "t1", columns)).expect("its table");
    let dir = tempfile::tempdir().expect("a directory for the source");
    let source = dir.path().join("readme.c");
    assert!(program.contains("127.0.0.1:1186"));
    std::fs::write(&source, program.replace("127.0.0.1:1186", &address)).expect("the source");
    assert_eq!(run_source(source.to_str().expect("a path"), "c11", &[]), "no error\n");
    cluster.disconnect();
}

/// Tests of functions that take a connectstring: each on embedded nodes and on real ones.
macro_rules! on_a_cluster {
    ($($test:ident: $body:expr;)*) => {$(
        mod $test {
            use super::*;

            #[test]
            fn on_embedded_nodes() {
                let nodes = embedded_nodes();
                let body: fn(&str) = $body;
                body(&nodes.connectstring());
            }

            #[test]
            #[cfg_attr(not(real_cluster), ignore = "needs a real cluster: set IC_NDB_HOME")]
            fn on_real_nodes() {
                let body: fn(&str) = $body;
                body(real_nodes());
            }
        }
    )*};
}

on_a_cluster! {
    seed: |nodes| run("seed", &[nodes]);
    layout_of_other_versions: |nodes| run("layout", &[nodes]);
    misuse: |nodes| run("misuse", &[nodes]);
    callbacks: |nodes| run("callbacks", &[nodes]);
    load: |nodes| run("load", &[nodes]);
    multi_read: |nodes| run("multi_read", &[nodes]);
    multi_read_example: |nodes| multi_read(&[nodes]);
    statistics: |nodes| run("statistics", &[nodes]);
    types: |nodes| run("types", &[nodes]);
    allocations: |nodes| run("allocations", &[nodes]);
    memory: |nodes| run("memory", &[nodes]);
    connect_errors_of_a_server: |nodes| run("connect_errors", &[nodes]);
    fork_exit: |nodes| run("fork_exit", &[nodes]);
    hello_example: |nodes| hello(&[nodes]);
    descriptor: |nodes| run("descriptor", &[nodes]);
    threads: |nodes| run("threads", &[nodes]);
    epoll_example: |nodes| epoll(&[nodes]);
    pipeline_example: |nodes| pipeline(&["--connectstring", nodes]);
    retry_example: |nodes| drop(retry(&[nodes]));
    small_examples: small_examples;
}

/// Examples that say the same each time say what examples/README.md shows.
fn small_examples(nodes: &str) {
    let page = fs::read_to_string(root().join("examples/README.md")).expect("the page of the examples");
    for name in ["transactions", "types", "create_table"] {
        let said = run_source(&format!("examples/c/{name}.c"), "c99", &[nodes]);
        let shown: String = said.lines().map(|line| format!("    {line}\n")).collect();
        assert!(page.contains(&shown), "{name} says\n{said}");
    }
    let said = run_source("examples/c/statistics.c", "c99", &[nodes]);
    assert!(said.contains("reads: 100 without an error, 100 with one"), "{said}");
    let said = run_source("examples/c/statistics.c", "c99", &["--prometheus", nodes]);
    assert!(said.contains("# TYPE "), "{said}");
}

#[test]
fn unit_test_example() {
    assert_eq!(run_source("examples/c/unit_test.c", "c99", &[]), "3 tests passed\n");
}

/// Every whole program of the user guide does what the guide says.
#[test]
fn user_guide() {
    let guide = fs::read_to_string(root().join("doc/user-guide.md")).expect("the guide");
    let dir = tempfile::tempdir().expect("a directory for the sources");
    let mut programs = 0;
    for part in guide.split("```c\n").skip(1) {
        let (program, rest) = part.split_once("```").expect("the end of a program");
        let shown = rest.split_once("prints\n\n```text\n").expect("what it prints").1;
        let shown = shown.split_once("```").expect("the end of that").0;
        programs += 1;
        let source = dir.path().join(format!("guide{programs}.c"));
        fs::write(&source, program).expect("the source");
        assert_eq!(run_source(source.to_str().expect("a path"), "c11", &[]), shown, "program {programs}");
    }
    assert!(programs >= 4, "{programs} programs");
}

/// 100 000 operations of another language's program, and a row that is not there.
fn is_right(said: &str) {
    for line in ["write: 50000 rows", "read: 50000 rows", "error 626: "] {
        assert!(said.contains(line), "{said}");
    }
}

fn python(args: &[&str]) {
    let mut command = Command::new("python3");
    command.arg(root().join("examples/python/pipeline.py")).args(args);
    is_right(&must(command.env("IC_LIBRARY", library()).env("PYTHONDONTWRITEBYTECODE", "1")));
}

fn go(args: &[&str]) {
    let dir = tempfile::tempdir().expect("a directory");
    let name = concat!("libiclaustron.so.", env!("CARGO_PKG_VERSION_MAJOR"));
    symlink(library(), dir.path().join(name)).expect("a link to the library");
    let package = format!(
        "Name: iclaustron\nDescription: as cargo has built it\nVersion: {}\nCflags: -I{}\nLibs: {}\n",
        env!("CARGO_PKG_VERSION"),
        root().join("include").display(),
        library().display(),
    );
    fs::write(dir.path().join("iclaustron.pc"), package).expect("the package");
    let mut command = Command::new("go");
    command.args(["run", "-buildvcs=false", "."]).args(args).current_dir(root().join("examples/go"));
    command.env("PKG_CONFIG_PATH", dir.path()).env("LD_LIBRARY_PATH", dir.path());
    command.env("GOPROXY", "off").env("GOTOOLCHAIN", "local");
    is_right(&must(&mut command));
}

#[test]
#[cfg_attr(not(has_python), ignore = "needs python3")]
fn python_example_on_embedded_nodes() {
    python(&[]);
    python(&[&embedded_nodes().connectstring()]);
}

#[test]
#[cfg_attr(not(all(real_cluster, has_python)), ignore = "needs a real cluster and python3")]
fn python_example_on_real_nodes() {
    python(&[real_nodes()]);
}

#[test]
#[cfg_attr(not(has_go), ignore = "needs Go and pkg-config")]
fn go_example_on_embedded_nodes() {
    go(&[]);
}

#[test]
#[cfg_attr(not(all(real_cluster, has_go)), ignore = "needs a real cluster, Go and pkg-config")]
fn go_example_on_real_nodes() {
    go(&[real_nodes()]);
}

fn hello(args: &[&str]) {
    let said = run_source("examples/c/hello.c", "c99", args);
    assert!(said.contains("Hello, data nodes!"), "{said}");
}

fn multi_read(args: &[&str]) {
    let said = run_source("examples/c/multi_read.c", "c99", args);
    let value = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name}: {said}")).parse::<u64>().expect("a number")
    };
    assert_eq!(value("found") + value("missing"), 1000);
    assert_eq!(
        (value("multikey_fanout"), value("multikey_slotted"), value("multikey_coordinator")),
        (1, 0, 0)
    );
    // Two nodes, and 256 keys in a part at most.
    assert!((4..=5).contains(&value("multikey_parts")), "{said}");
}

fn pipeline(args: &[&str]) {
    let load = ["--rows", "20000", "--in-flight", "200", "--threads", "2"];
    let said = run_source("examples/c/pipeline.c", "c99", &[&load, args].concat());
    assert!(said.contains("write: 20000 rows") && said.contains("read: 20000 rows"), "{said}");
}

fn epoll(args: &[&str]) {
    let said = run_source("examples/c/epoll.c", "c99", args);
    assert!(said.contains("write: 20000 rows") && said.contains("read: 20000 rows"), "{said}");
}

fn libuv(args: &[&str]) {
    let flags = must(Command::new("pkg-config").args(["--cflags", "--libs", "libuv"]));
    let flags: Vec<_> = flags.split_whitespace().collect();
    let said = run_with(&library(), "examples/c/libuv.c", "c99", &flags, args);
    assert!(said.contains("write: 20000 rows") && said.contains("read: 20000 rows"), "{said}");
}

#[test]
#[cfg_attr(not(has_libuv), ignore = "needs libuv: install libuv1-dev and pkg-config")]
fn libuv_example_on_embedded_nodes() {
    libuv(&[&embedded_nodes().connectstring()]);
    libuv(&[]);
}

#[test]
#[cfg_attr(not(all(real_cluster, has_libuv)), ignore = "needs a real cluster and libuv")]
fn libuv_example_on_real_nodes() {
    libuv(&[real_nodes()]);
}

/// The library's threads do not grow with the data nodes.
#[test]
fn threads_on_four_nodes() {
    let options = embedded::Options { nodes: 4, ..embedded::Options::default() };
    let nodes = EmbeddedCluster::start(options).expect("embedded nodes");
    run("threads", &[&nodes.connectstring()]);
}

fn retry(args: &[&str]) -> String {
    let said = run_source("examples/c/retry.c", "c99", args);
    assert!(said.contains("no money came or went"), "{said}");
    said
}

/// Without a connectstring, examples start nodes of their own and say so.
#[test]
fn examples_of_their_own() {
    hello(&[]);
    multi_read(&[]);
    epoll(&[]);
    pipeline(&[]);
    let said = retry(&[]);
    for outcome in ["found out: it was committed", "found out: it was not committed", "step commit, node "] {
        assert!(said.contains(outcome), "{said}");
    }
}

/// The functions that the header declares: what stands before a parenthesis outside comments.
fn declared() -> BTreeSet<String> {
    let header = fs::read_to_string(root().join("include/iclaustron/ic_apid.h")).expect("the header");
    let code: String = header
        .split("/*")
        .enumerate()
        .map(|(at, part)| if at == 0 { part } else { part.split_once("*/").expect("a comment's end").1 })
        .collect();
    let words = code.match_indices('(').filter_map(|(at, _)| {
        let start = code[..at].rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_')? + 1;
        Some(code[start..at].to_owned())
    });
    words.filter(|word| word.starts_with("ic_")).collect()
}

/// What a library exports.
fn exported(library: &Path) -> BTreeSet<String> {
    let nm = must(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    nm.lines().filter_map(|line| line.split_whitespace().last()).map(str::to_owned).collect()
}

/// What abi/symbols.txt lists.
fn listed() -> BTreeSet<String> {
    let listed = fs::read_to_string(root().join("abi/symbols.txt")).expect("the list of symbols");
    listed.lines().map(str::to_owned).collect()
}

/// Exactly what the header declares and abi/symbols.txt lists is exported, and every_export.c calls all of it.
#[test]
fn exports() {
    assert_eq!(exported(&library()), listed(), "exported, and listed in abi/symbols.txt");
    assert_eq!(declared(), listed(), "declared in the header, and listed in abi/symbols.txt");

    let calls = fs::read_to_string(root().join("tests/c/every_export.c")).expect("every_export.c");
    let rows = calls.lines().filter_map(|line| line.trim_start().split_once("(ic_"));
    let rows = rows.filter(|(kind, _)| matches!(*kind, "GIVES" | "DOES_NOTHING"));
    let called = rows.filter_map(|(_, row)| Some(format!("ic_{}", row.split_once(',')?.0)));
    assert_eq!(called.collect::<BTreeSet<_>>(), listed(), "in the table of every_export.c");
}
