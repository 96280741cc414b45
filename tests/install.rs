//! The library as it is installed: `cargo cinstall` into a directory of the test's own, then programs
//! elsewhere that know nothing but pkg-config or CMake, in an empty environment, linked dynamically and
//! statically, run on embedded nodes.
//!
//! These tests need cargo-c, pkg-config and CMake, so they are ignored unless asked for, as .ci/run does.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command that must succeed. What it says.
fn must(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text)).concat();
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    said
}

/// A prefix with the library in it.
struct Installed {
    prefix: PathBuf,
    libdir: PathBuf,
}

impl Installed {
    /// A command in an environment with nothing but the search paths of programs and of pkg-config.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", std::env::var_os("PATH").expect("PATH"));
        command.env("PKG_CONFIG_PATH", self.libdir.join("pkgconfig"));
        command
    }

    /// Runs a line of shell in a directory, in that environment.
    fn shell(&self, dir: &Path, line: &str) -> String {
        must(self.command("sh").args(["-euc", line]).current_dir(dir))
    }
}

/// Installs the library once for all tests of this run. It stays in cargo's own directory for tests.
fn installed() -> &'static Installed {
    static INSTALLED: OnceLock<Installed> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prefix");
        let _ = fs::remove_dir_all(&prefix);
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["cinstall", "--locked", "--prefix"]).arg(&prefix).current_dir(root());
        must(&mut cargo);
        let libdir =
            must(Command::new("find").arg(&prefix).args(["-name", "iclaustron.pc", "-printf", "%h"]));
        let libdir = Path::new(libdir.trim()).parent().expect("a directory of libraries").to_owned();
        Installed { prefix, libdir }
    })
}

/// A directory with nothing but the example hello in it.
fn elsewhere() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for name in ["hello.c", "example.h"] {
        fs::copy(root().join("examples/c").join(name), dir.path().join(name)).expect("a copy of the example");
    }
    dir
}

/// What hello says on embedded nodes of its own.
fn greets(said: &str) {
    assert!(
        said.contains("running on 2 embedded data nodes") && said.contains("Hello, data nodes!"),
        "{said}"
    );
}

fn words(text: &str) -> BTreeSet<&str> {
    text.split_whitespace().collect()
}

#[test]
#[ignore = "needs cargo-c: .ci/run runs it"]
fn what_is_installed() {
    let at = installed();
    for header in fs::read_dir(root().join("include/iclaustron")).expect("the headers") {
        let header = header.expect("a header");
        let copy = at.prefix.join("include/iclaustron").join(header.file_name());
        assert_eq!(fs::read(copy).ok(), fs::read(header.path()).ok(), "{:?}", header.file_name());
    }
    let version = env!("CARGO_PKG_VERSION");
    let major = env!("CARGO_PKG_VERSION_MAJOR");
    let real = format!("libiclaustron.so.{version}");
    for name in ["libiclaustron.so", &format!("libiclaustron.so.{major}"), &real, "libiclaustron.a"] {
        assert!(at.libdir.join(name).exists(), "{name} in {:?}", at.libdir);
    }
    assert_eq!(at.shell(&at.prefix, "pkg-config --modversion iclaustron").trim(), version);
}

/// cargo-c and build.rs give the library the same soname, and both export what abi/symbols.txt lists.
#[test]
#[ignore = "needs cargo-c: .ci/run runs it"]
fn same_library_as_cargo_builds() {
    let soname = |library: &Path| {
        let said = must(Command::new("readelf").arg("-d").arg(library));
        let line = said.lines().find(|line| line.contains("SONAME")).expect("a soname").to_owned();
        line[line.find('[').expect("its name")..].to_owned()
    };
    let ours = std::env::current_exe().expect("this test").with_file_name("libiclaustron.so");
    let theirs = installed().libdir.join("libiclaustron.so");
    assert_eq!(soname(&theirs), concat!("[libiclaustron.so.", env!("CARGO_PKG_VERSION_MAJOR"), "]"));
    assert_eq!(soname(&theirs), soname(&ours));
    let exported =
        must(Command::new("nm").args(["-D", "--defined-only", "--format=just-symbols"]).arg(&theirs));
    let listed = fs::read_to_string(root().join("abi/symbols.txt")).expect("the list of symbols");
    assert_eq!(words(&exported), words(&listed));
}

#[test]
#[ignore = "needs cargo-c: .ci/run runs it"]
fn pkg_config_dynamically() {
    let (at, dir) = (installed(), elsewhere());
    at.shell(dir.path(), "cc -std=c99 hello.c $(pkg-config --cflags --libs iclaustron) -o hello");
    greets(&must(at.command(dir.path().join("hello")).env("LD_LIBRARY_PATH", &at.libdir)));
}

/// With the shared library beside it, the static one is asked for by its file name.
#[test]
#[ignore = "needs cargo-c: .ci/run runs it"]
fn pkg_config_statically() {
    let (at, dir) = (installed(), elsewhere());
    let line = "cc -std=c99 hello.c \
                $(pkg-config --static --cflags --libs iclaustron | sed s/-liclaustron/-l:libiclaustron.a/) -o hello; \
                readelf -d hello";
    let needed = at.shell(dir.path(), line);
    assert!(needed.contains("libc.so") && !needed.contains("libiclaustron"), "{needed}");
    greets(&must(&mut at.command(dir.path().join("hello"))));
}

/// What pkg-config and CMake link with the static library is what rustc says that it needs.
#[test]
#[ignore = "needs cargo-c: .ci/run runs it"]
fn static_link_line() {
    let mut rustc = Command::new(env!("CARGO"));
    rustc.args(["rustc", "--quiet", "--locked", "--lib", "--crate-type", "staticlib", "--"]);
    let said = must(rustc.args(["--print", "native-static-libs"]).current_dir(root()));
    let needed = said.split_once("native-static-libs:").expect("what rustc says").1;
    let needed = words(needed.lines().next().expect("a line"));
    assert!(needed.contains("-lc"), "{said}");

    let at = installed();
    let line = at.shell(&at.prefix, "pkg-config --static --libs-only-l iclaustron");
    let mut given = words(&line);
    assert!(given.remove("-liclaustron"), "{line}");
    assert_eq!(given, needed, "pkg-config, and rustc");

    let cmake = fs::read_to_string(root().join("cmake/IclaustronConfig.cmake")).expect("the package");
    let list = cmake.split_once("INTERFACE_LINK_LIBRARIES \"").expect("what it links").1;
    let list = list.split_once('"').expect("the end of it").0;
    let given: BTreeSet<String> = list.split(';').map(|name| format!("-l{name}")).collect();
    assert_eq!(given.iter().map(String::as_str).collect::<BTreeSet<_>>(), needed, "CMake, and rustc");
}

#[test]
#[ignore = "needs cargo-c and CMake: .ci/run runs it"]
fn cmake_package() {
    let (at, dir) = (installed(), elsewhere());
    let project = concat!(
        "cmake_minimum_required(VERSION 3.16)\n",
        "project(hello C CXX)\n",
        "find_package(Iclaustron ",
        env!("CARGO_PKG_VERSION_MAJOR"),
        ".",
        env!("CARGO_PKG_VERSION_MINOR"),
        " REQUIRED)\n",
        "add_executable(dynamic hello.c)\n",
        "target_link_libraries(dynamic Iclaustron::iclaustron)\n",
        "add_executable(static hello.c)\n",
        "target_link_libraries(static Iclaustron::static)\n",
        "add_executable(static_cxx main.cpp)\n",
        "target_link_libraries(static_cxx Iclaustron::static)\n",
    );
    fs::write(dir.path().join("CMakeLists.txt"), project).expect("the project");
    let cxx = "#include <iclaustron/ic_apid.h>\nint main() { return ic_version() == 0; }\n";
    fs::write(dir.path().join("main.cpp"), cxx).expect("a program");
    let prefix = at.prefix.display();
    at.shell(dir.path(), &format!("cmake -S . -B build -DCMAKE_PREFIX_PATH={prefix}; cmake --build build"));
    for name in ["dynamic", "static"] {
        greets(&must(&mut at.command(dir.path().join("build").join(name))));
    }
    must(&mut at.command(dir.path().join("build/static_cxx")));

    // A version that there is not.
    let project = project.replace(" REQUIRED", ".99 QUIET");
    let project = project.split_once("add_executable").expect("the targets").0.to_owned()
        + "if(Iclaustron_FOUND)\nmessage(FATAL_ERROR found)\nendif()\n";
    fs::write(dir.path().join("CMakeLists.txt"), project).expect("the project");
    at.shell(dir.path(), &format!("cmake -S . -B other -DCMAKE_PREFIX_PATH={prefix}"));
}

/// Header, Cargo.toml and CMake package are of one version; tests/c/every_export.c compares header and library.
#[test]
fn versions_are_one() {
    let header = fs::read_to_string(root().join("include/iclaustron/ic_apid.h")).expect("the header");
    for (name, number) in [
        ("MAJOR", env!("CARGO_PKG_VERSION_MAJOR")),
        ("MINOR", env!("CARGO_PKG_VERSION_MINOR")),
        ("PATCH", env!("CARGO_PKG_VERSION_PATCH")),
    ] {
        assert!(header.contains(&format!("#define IC_VERSION_{name} {number}\n")), "{name}");
    }
    let cmake = fs::read_to_string(root().join("cmake/IclaustronConfigVersion.cmake")).expect("the package");
    assert!(cmake.contains(concat!("set(PACKAGE_VERSION \"", env!("CARGO_PKG_VERSION"), "\")")), "{cmake}");
}
