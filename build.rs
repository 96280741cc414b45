//! Gives the shared library its soname (under cargo-c, that does: see Cargo.toml), and tells the tests whether a
//! real cluster can be started and which examples can be built. The C header is committed, not built: see tests/header.rs.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let cargo_c = std::env::var_os("CARGO_FEATURE_CAPI").is_some();
    if !cargo_c && std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        let abi = std::env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libiclaustron.so.{abi}");
    }
    println!("cargo:rerun-if-env-changed=IC_NDB_HOME");
    println!("cargo:rustc-check-cfg=cfg(real_cluster)");
    if std::env::var_os("IC_NDB_HOME").is_some() {
        println!("cargo:rustc-cfg=real_cluster");
    }
    has("libuv", "pkg-config", &["--exists", "libuv"]);
    has("python", "python3", &["-c", "import asyncio, ctypes"]);
    has("go", "go", &["version"]);
    has("abidiff", "abidiff", &["--version"]);
}

/// Tells the tests whether there is something, by the success of a command.
fn has(what: &str, program: &str, args: &[&str]) {
    println!("cargo:rustc-check-cfg=cfg(has_{what})");
    if std::process::Command::new(program).args(args).output().is_ok_and(|output| output.status.success()) {
        println!("cargo:rustc-cfg=has_{what}");
    }
}
